"""Cross-attention read as word alignment: which source word a target word was made from.

Three choices decide how well that works. Which head: one of them, or a layer's heads together. Which row stands for a
target word: the one that *predicts* it, or the one that has it as its *input*, a step later, when the decoder knows what
it wrote (Chen et al. 2020, 2004.14837). And what of it: the weight, or the length of what the weight moves (Kobayashi et
al. 2020). All of them can be tried: on gold links (:func:`~pellucid.inspection.measures.alignment_error_rate`), or with
none, by how well a reading agrees with itself over many sentences (:func:`lexical_consistency`).
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from pellucid.data.tokenizer import SPACE
from pellucid.errors import DataError
from pellucid.inspection.forcing import ForcedPair, Progress, forced_maps
from pellucid.inspection.measures import Links, hard_links, layer_norms
from pellucid.inspection.recorder import Recorded
from pellucid.inspection.words import Range, Token, merge, readable, tokens_of, words_of
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

Convention = Literal["predicts", "input"]
CONVENTIONS: tuple[Convention, ...] = ("predicts", "input")
"""Which row of the decoder stands for a target token: the one that predicts it, or the one whose input it is."""

Cut = Callable[[Sequence[Token]], list[Range]]
"""Which tokens make a word."""

LINK = re.compile(r"(\d+)([-p?])(\d+)")


@dataclass(frozen=True)
class Reading:
    """A way of reading cross-attention."""

    layer: int
    head: int | None
    """None: all heads of the layer together, the mean of the weights or the length of the sum."""
    convention: Convention = "input"
    norms: bool = False
    """The lengths of what the weights move, instead of the weights."""

    def __str__(self) -> str:
        head = "all heads" if self.head is None else f"head {self.head + 1}"
        what = "norms" if self.norms else "weights"
        return f"cross-attention, layer {self.layer + 1}, {head}, {what}, rows by the token that they " + (
            "predict" if self.convention == "predicts" else "have as input"
        )


@dataclass(frozen=True)
class Gold:
    """What people found."""

    sure: tuple[Links, ...]
    possible: tuple[Links, ...]
    """Besides the sure ones."""

    def strangers(self, pairs: Sequence[tuple[str, str]]) -> int:
        """How many links name a word that its sentence does not have, words being what spaces separate.

        Raises:
            DataError: not as many lines of links as pairs.
        """
        if len(self.sure) != len(pairs):
            raise DataError(
                f"there must be a line of gold links a pair, but there are {len(self.sure)} for {len(pairs)} pairs"
            )
        sizes = [(len(source.split()), len(target.split())) for source, target in pairs]
        everything = zip(sizes, self.sure, self.possible, strict=True)
        return sum(s >= size[0] or t >= size[1] for size, sure, possible in everything for s, t in sure | possible)


@dataclass(frozen=True)
class Aligned:
    """The links of some pairs, by every reading that was asked for."""

    words: list[tuple[list[str], list[str]]]
    """The source's and the target's words of each pair, which links count from 0."""
    links: dict[Reading, list[Links]]
    """Of each pair; a pair with an empty side has none."""


def split_at_spaces(tokens: Sequence[Token]) -> list[Range]:
    """Words are what spaces separate, as in text that was cut into words before: punctuation may be a word of its own."""
    starts = [i for i, t in enumerate(tokens) if i == 0 or t.is_mark or t.text.startswith(SPACE)]
    return list(pairwise([*starts, len(tokens)]))


def align(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    readings: Sequence[Reading],
    *,
    cut: Cut = words_of,
    progress: Progress | None = None,
) -> Aligned:
    """Each target word of each pair with the source word that it looks at most; tags and the end mark have no say.

    Args:
        cut: what makes a word; :func:`split_at_spaces` for text that is tokenised already.

    Raises:
        DataError: a sentence longer than the positions that the model has learnt.
    """
    kept = [i for i, (source, target) in enumerate(pairs) if source.strip() and target.strip()]
    forced = [ForcedPair.of(translator, *pairs[i]) for i in kept]
    aligned = Aligned([([], [])] * len(pairs), {reading: [Links()] * len(pairs) for reading in readings})
    ways = sorted({reading.norms for reading in readings})
    words = slice(len(translator.tag_ids), -1)
    done, work = 0, len(forced) * len(ways)
    for norms in ways:
        for n, maps in forced_maps(translator, forced, ("cross",), _norms if norms else _weights):
            source = tokens_of(translator.source_tokenizer, forced[n].source[words])
            target = tokens_of(translator.target_tokenizer, forced[n].target[:-1])
            columns, rows = cut(source), cut(target)
            aligned.words[kept[n]] = _texts(source, columns), _texts(target, rows)
            weights = maps["cross"][..., words]  # (L, H + 1, T, S) without the columns that belong to no word
            shown = {"predicts": merge(weights[..., :-1, :], rows, columns),
                     "input": merge(weights[..., 1:, :], rows, columns)}  # fmt: skip
            for reading in readings:
                if reading.norms == norms:
                    head = -1 if reading.head is None else reading.head
                    found = shown[reading.convention][reading.layer, head]  # target words x source words
                    aligned.links[reading][kept[n]] = hard_links(found.numpy())
            done += 1
            if progress is not None:
                progress(done, work)
    return aligned


def _weights(layer: Recorded) -> Tensor:
    """(B, H + 1, T, S): every head, and last the mean of all."""
    return torch.cat([layer.weights, layer.weights.mean(1, keepdim=True)], 1)


def _norms(layer: Recorded) -> Tensor:
    """(B, H + 1, T, S): every head, and last the length of the sum of all."""
    w_o = layer.w_o.weight.detach().T.cpu().numpy()
    pairs = zip(layer.weights.cpu().numpy(), layer.values.cpu().numpy(), strict=True)
    together = np.stack([layer_norms(weights, values, w_o) for weights, values in pairs])
    return torch.cat([layer.norms().cpu(), torch.from_numpy(together)[:, None]], 1)


def _texts(tokens: Sequence[Token], words: Sequence[Range]) -> list[str]:
    return [readable(tokens[first:end]) for first, end in words]


# --- which reading ----------------------------------------------------------------------------------------------------


def all_readings(
    model: Transformer, conventions: Sequence[Convention] = CONVENTIONS, norms: bool = False
) -> list[Reading]:
    """Every head and every layer of a model's cross-attention."""
    config = model.config
    return [
        Reading(layer, head, convention, norms)
        for layer in range(config.num_decoder_layers)
        for head in [*range(config.n_heads), None]
        for convention in conventions
    ]


def layer_average(model: Transformer, convention: Convention = "input", norms: bool = False) -> Reading:
    """All heads of the layer before the last: what Garg et al. 2019 (1909.02074) start from, and a common choice.

    In some models another layer is better by far.
    """
    return Reading(max(0, model.config.num_decoder_layers - 2), None, convention, norms)


def lexical_consistency(links: Sequence[Links], words: Sequence[tuple[Sequence[str], Sequence[str]]]) -> float:
    """How much better the links say which target word to expect than its frequency does: nats per link.

        mean over links (s, t) of  log p(t | s) / p(t),   p(t | s) = (n(s, t) - 1 + p(t)) / (n(s) - 1 + 1)

    n counts the links of all pairs, and the link in question is left out, so that a word seen once proves nothing. A
    right reading links a word to the same few translations again and again; a wrong one, a step off or looking at the
    end of the sentence, to anything. Needs some hundred pairs. (Our own rule; docs/log.md has how it chose.)
    """
    pairs = Counter(
        (source[s], target[t]) for found, (source, target) in zip(links, words, strict=True) for s, t in found
    )
    by_source, by_target = Counter[str](), Counter[str]()
    for (s, t), count in pairs.items():
        by_source[s] += count
        by_target[t] += count
    total = pairs.total()
    if not total:
        return 0.0
    gained = 0.0
    for (s, t), count in pairs.items():
        chance = by_target[t] / total
        gained += count * math.log((count - 1 + chance) / by_source[s] / chance)
    return gained / total


# --- Pharaoh's format -------------------------------------------------------------------------------------------------


def read_gold(lines: Sequence[str], file: str | None = None, first: int = 0) -> Gold:
    """Gold links in Pharaoh's format, one line a pair: `0-1` sure, `0p1` (or `0?1`) possible.

    Args:
        first: the number of the first word, 0 or 1.

    Raises:
        DataError: something that is no link, or the number 0 where words count from 1.
    """
    sure, possible = [], []
    for number, line in enumerate(lines, 1):
        found: dict[bool, set[tuple[int, int]]] = {True: set(), False: set()}
        for item in line.split():
            match = LINK.fullmatch(item)
            if match is None:
                raise DataError(f"a link must be like 3-4, or 3p4 where it is only possible, but is {item!r}",
                                file=file, line=number)  # fmt: skip
            source, target = int(match[1]) - first, int(match[3]) - first
            if min(source, target) < 0:
                raise DataError(f"words must be counted from {first}, but there is {item!r}", file=file, line=number,
                                hint="--gold-first 0")  # fmt: skip
            found[match[2] == "-"].add((source, target))
        sure.append(frozenset(found[True]))
        possible.append(frozenset(found[False]))
    return Gold(tuple(sure), tuple(possible))


def pharaoh(links: Links) -> str:
    """`0-0 1-2`: source word, target word, from 0, in order."""
    return " ".join(f"{source}-{target}" for source, target in sorted(links))
