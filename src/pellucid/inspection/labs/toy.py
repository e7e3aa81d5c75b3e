"""A translator small enough to be trained within a lab: "X 咬 Y" (X bites Y) to "Y 被 X 咬" (Y is bitten by X).

It must know who stands first. A pair is held out together with its reverse, so that what is tested are minimal pairs.
"""

from __future__ import annotations

from functools import cache
from itertools import permutations
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.transformer import Transformer

NAMES = "狗猫人牛羊马鸡鸭鱼鸟蛇虎"
LETTERS = ("</s>", "<s>", "咬", "被", *NAMES)
"""By id."""
UPDATES = 80


class Toy(NamedTuple):
    """The trained toy, and the pairs that it has not seen. The model is shared: nobody may change it."""

    model: Transformer
    src: Tensor
    """(B, 4): X, 咬, Y, end mark."""
    tgt: Tensor
    """(B, 6): start mark, Y, 被, X, 咬, end mark."""

    @torch.no_grad()
    def translate(self) -> Tensor:
        """What greedy search makes of the sources, as `tgt` (B, 6)."""
        written = self.tgt[:, :1]
        for _ in range(self.tgt.size(1) - 1):
            written = torch.cat([written, self.model(self.src, written)[:, -1:].argmax(-1)], 1)
        return written

    def accuracy(self) -> float:
        """The share of the sources that is translated without a mistake."""
        return float((self.translate() == self.tgt).all(1).double().mean())


@cache
def toy(*, positions: bool = True) -> Toy:
    """The toy, trained from a fixed seed. Without `positions` its encoder is not told the order."""
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        model = Transformer(
            len(LETTERS), len(LETTERS), d_model=32, n_heads=4, num_encoder_layers=1, num_decoder_layers=1, d_ff=64,
            dropout=0.0, start_id=1,
        )  # fmt: skip
        if not positions:
            model.src_positions = nn.Identity()  # type: ignore[assignment]  # the target keeps its own
        pairs = list(permutations(range(len(NAMES)), 2))
        src, tgt = as_ids([(x, y) for x, y in pairs if (x + y) % 4 != 1])
        adam = torch.optim.Adam(model.parameters(), lr=0.003, betas=(0.9, 0.98), fused=True)
        for _ in range(UPDATES):
            loss = F.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())
            adam.zero_grad()
            loss.backward()
            adam.step()
    return Toy(model.eval().requires_grad_(False), *as_ids([(x, y) for x, y in pairs if (x + y) % 4 == 1]))


def spoken(ids: Tensor) -> str:
    """One sentence of ids (T,) as text, without start and end marks."""
    return "".join(LETTERS[i] for i in ids.tolist() if i > 1)


def as_ids(pairs: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
    """Pairs of names as sources and targets: see :class:`Toy`."""
    of = {letter: i for i, letter in enumerate(LETTERS)}
    first, bites, is_bitten = of[NAMES[0]], of["咬"], of["被"]
    src = [[first + x, bites, first + y, 0] for x, y in pairs]
    tgt = [[1, first + y, is_bitten, first + x, bites, 0] for x, y in pairs]
    return torch.tensor(src), torch.tensor(tgt)
