"""Attention weights of a forward pass: asked for, recorded, and the hooks taken off again.

Inside ``with recorded(model) as record:`` every attention computes its weights the plain way (equation 1), which gives
the same output as the fused one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.transformer import Transformer

Kind = Literal["encoder", "decoder", "cross"]
KINDS: tuple[Kind, ...] = ("encoder", "decoder", "cross")
"""The three attentions of Figure 1: the encoder's to itself, the decoder's (masked) to itself, the decoder's to the
encoder's output."""


class Head(NamedTuple):
    """One head. Layers and heads count from 0 here, and from 1 in what people read: `cross.3.6` is (cross, 2, 5)."""

    kind: Kind
    layer: int
    head: int

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer + 1}.{self.head + 1}"

    @classmethod
    def parse(cls, text: str, model: Transformer) -> Head:
        """The head that a person names.

        Raises:
            ConfigError: not a head's name, or the model has no such head.
        """
        kind, *numbers = text.strip().split(".")
        if kind not in KINDS or len(numbers) != 2 or not all(n.isascii() and n.isdigit() for n in numbers):
            raise ConfigError(
                f"a head's name must be like cross.3.6 (of {', '.join(KINDS)}; layer; head), but is {text!r}"
            )
        head = cls(kind, int(numbers[0]) - 1, int(numbers[1]) - 1)
        layers, heads = len(attentions(model)[kind]), model.config.n_heads
        if not (0 <= head.layer < layers and 0 <= head.head < heads):
            raise ConfigError(f"there is no head {text!r}: this model has {layers} layers of {heads} heads there")
        return head


def attentions(model: Transformer) -> dict[Kind, list[MultiHeadAttention]]:
    """The attention of every layer, by kind."""
    encoder: Any = model.encoder.layers
    decoder: Any = model.decoder.layers
    return {
        "encoder": [layer.self_attention for layer in encoder],
        "decoder": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }


@dataclass
class Recorded:
    """What one attention computed."""

    weights: Tensor
    """(B, H, T, S), before dropout."""
    heads: Tensor
    """(B, H, T, K): the output of each head, before W^O."""
    values: Tensor
    """(B, H, S, K)."""
    w_o: nn.Linear

    def norms(self) -> Tensor:
        """How long the vectors are that each position contributes, (B, H, T, S).

        ||alpha f(x)||, f(x) = (x W^V + b^V) W^O_h (Kobayashi et al. 2020, equation 4): a large weight on a short vector
        moves little.
        """
        return self.weights * _through(self.values, self.w_o).norm(dim=-1)[:, :, None]

    def contributions(self) -> Tensor:
        """What each head adds to the output, (B, H, T, D): their sum and the bias of W^O are the output."""
        return _through(self.heads, self.w_o)


def _through(heads: Tensor, w_o: nn.Linear) -> Tensor:
    """(B, H, T, K) through each head's rows of W^O: (B, H, T, D)."""
    return torch.einsum("bhtk,dhk->bhtd", heads, w_o.weight.unflatten(1, (heads.size(1), -1)))


@dataclass
class Recording:
    """All attentions of the last forward pass, one a layer."""

    encoder: list[Recorded] = field(default_factory=list)
    decoder: list[Recorded] = field(default_factory=list)
    cross: list[Recorded] = field(default_factory=list)

    def of(self, kind: Kind) -> list[Recorded]:
        """The layers of one kind."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    def weights(self, kind: Kind) -> Tensor:
        """(L, B, H, T, S)."""
        return torch.stack([layer.weights for layer in self.of(kind)])


@contextmanager
def recorded(model: Transformer) -> Iterator[Recording]:
    """Inside, the model's attentions leave what they computed in the recording. Gradients go through it as usual."""
    recording = Recording()
    handles: list[Any] = []

    def ask(module: Any, arguments: Any, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return arguments, {**options, "need_weights": True}

    def listen(kind: Kind, number: int, attention: MultiHeadAttention) -> None:
        parts: dict[str, Tensor] = {}
        split = attention._heads

        def keep(module: Any, arguments: Any, output: Any) -> None:
            found = Recorded(output[1], split(parts["heads"]), split(parts["values"]), attention.w_o)
            layers = recording.of(kind)
            del layers[number:]  # of an earlier pass
            layers.append(found)

        handles.append(attention.register_forward_pre_hook(ask, with_kwargs=True))
        handles.append(attention.w_v.register_forward_hook(lambda m, a, output: parts.__setitem__("values", output)))
        handles.append(attention.w_o.register_forward_pre_hook(lambda m, a: parts.__setitem__("heads", a[0])))
        handles.append(attention.register_forward_hook(keep))

    try:
        for kind, layers in attentions(model).items():
            for number, attention in enumerate(layers):
                listen(kind, number, attention)
        yield recording
    finally:
        for handle in handles:
            handle.remove()
