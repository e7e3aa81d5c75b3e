"""Where the heads of one kind of attention look, over a corpus: the measures of their maps, added up sentence by sentence.

Rows are pieces. A row of the encoder is a source piece; of the decoder, the piece that is its input; of the
cross-attention, the piece that it predicts. Rows of the model's own marks (start, end) are left out.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import numpy as np

from pellucid.inspection.measures import (
    Array,
    at_columns,
    at_offset,
    confidence,
    entropy,
    even,
    head_distances,
    rarest_column,
    same_word,
    share_of_maxima,
    share_of_weight,
)
from pellucid.inspection.recorder import Kind
from pellucid.inspection.words import Side

ROLES = ("previous", "same", "next", "rare", "separator", "same_word")
"""What a head may look at: one piece before, the same place, one piece after (in the cross-attention: those places of
the source), the rarest word of the source, marks and punctuation, other places of the same piece."""
MAXIMA = "_maxima"

EXAMPLES = 3
SIMILAR = 3
DISTANCE_SENTENCES = 50
"""Sentences that the distance between heads is taken over: it costs the square of the number of heads."""
RESAMPLES = 1000


@dataclass(frozen=True)
class Lean:
    """The role that a head comes nearest to: never a label alone, always with its share and with chance."""

    to: str
    share: float
    """By weight (Clark et al.); that by the largest weight (Voita et al.) is among the head's values."""
    baseline: float
    """The share of a head that looks everywhere evenly."""
    low: float
    high: float
    """95 % interval of `share`: sentences drawn again with replacement, a thousand times."""


@dataclass(frozen=True)
class Example:
    """A place where a head looks hard."""

    text: str
    row: str
    column: str
    weight: float


@dataclass(frozen=True)
class Sentence:
    """What stands at the rows and columns of a sentence's maps."""

    text: str
    """As examples show it."""
    rows: Side
    """(T,)."""
    columns: Side
    """(S,)."""
    ranks: Array | None = None
    """(S,): how rare the columns are, see :func:`~pellucid.inspection.measures.rarest_column`; None: not known."""


def roles(kind: Kind, sentence: Sentence, seen: Array) -> dict[str, Array]:
    """The roles that a kind of attention can have, in one sentence: (T, S) each. `seen` (T, S): what rows may look at."""
    shape = len(sentence.rows), len(sentence.columns)
    real = ~_marks(sentence.columns)
    found = {
        "previous": at_offset(*shape, -1) & real,
        "same": at_offset(*shape, 0) & real,
        "separator": at_columns(shape[0], separators(sentence.columns)),
    }
    if kind != "decoder":
        found["next"] = at_offset(*shape, 1) & real
    if sentence.ranks is not None:
        found["rare"] = at_columns(shape[0], rarest_column(np.where(real, sentence.ranks, -1)))
    if kind != "cross":
        ids = [token.id for token in sentence.rows.tokens]
        found["same_word"] = same_word(ids, ids)
    return {name: role & seen for name, role in found.items()}


def separators(side: Side) -> Array:
    """(S,): True for the model's marks and for pieces of nothing but punctuation."""
    marks = _marks(side)
    return marks | np.array([all(unicodedata.category(c)[0] == "P" for c in text) for text in side.texts], bool)


def _marks(side: Side) -> Array:
    return np.array([token.is_mark for token in side.tokens], bool)


class MapMeasures:
    """Adds up the maps of one kind of attention. Heads are numbered layer by layer, N = layers x heads of a layer."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self._sums: dict[
            str, list[Array]
        ] = {}  # for each measure, sentence by sentence: (N + 1,), the last being chance
        self._counts: dict[str, list[int]] = {}  # and how many rows had an answer
        self._strongest: list[tuple[Array, Array, Sentence]] = []  # weights (N,), their flat places (N,)
        self._distances: list[Array] = []

    def add(self, weights: Array, sentence: Sentence) -> None:
        """`weights` (L, H, T, S) of one sentence."""
        *_, rows, columns = weights.shape
        heads = weights.reshape(-1, rows, columns)
        chance = even(rows, columns, causal=self.kind == "decoder")
        both = np.concatenate([heads, chance[None]])
        real_rows, real_columns = ~_marks(sentence.rows), ~_marks(sentence.columns)
        found = {"confidence": confidence(both, real_columns), "entropy": entropy(both)}
        for name, role in roles(self.kind, sentence, chance > 0).items():
            found[name] = share_of_weight(both, role)
            # Which of equal weights is the largest would be chance's choice: chance has its share by weight here too.
            found[name + MAXIMA] = np.concatenate([share_of_maxima(heads, role), found[name][-1:]])
        for name, values in found.items():
            answered = real_rows & ~np.isnan(values[-1])
            self._sums.setdefault(name, []).append(values[:, answered].sum(-1))
            self._counts.setdefault(name, []).append(int(answered.sum()))
        inside = np.where(real_rows[:, None] & real_columns, heads, 0.0).reshape(len(heads), -1)
        self._strongest.append((inside.max(-1), inside.argmax(-1), sentence))
        if len(self._distances) < DISTANCE_SENTENCES:
            self._distances.append(head_distances(heads[:, real_rows]))

    def values(self) -> dict[str, list[float | None]]:
        """For each measure, the mean over all rows that have an answer: one a head, and chance last; None: no such row."""
        return {
            name: (np.sum(sums, 0) / total).tolist() if (total := sum(self._counts[name])) else [None] * len(sums[0])
            for name, sums in self._sums.items()
        }

    def leans(self) -> list[Lean | None]:
        """For each head the role that it is furthest above chance in; None where none is, or not beyond doubt."""
        draw = np.random.default_rng(1)
        sentences = len(self._strongest)
        times = draw.multinomial(sentences, np.full(sentences, 1 / sentences), RESAMPLES)  # (resamples, sentences)
        values = self.values()
        found: list[Lean | None] = [None] * (len(self._sums["confidence"][0]) - 1)
        for role in ROLES:
            if role not in values or values[role][-1] is None:
                continue
            *shares, chance = values[role]
            drawn_rows = times @ np.array(self._counts[role])
            drawn = (times @ np.stack(self._sums[role]))[drawn_rows > 0] / drawn_rows[drawn_rows > 0, None]
            lows, highs = np.percentile(drawn, [2.5, 97.5], axis=0).tolist()
            for n, share in enumerate(shares):
                assert share is not None and chance is not None
                before = found[n]
                if lows[n] > chance and (before is None or share - chance > before.share - before.baseline):
                    found[n] = Lean(role, share, chance, lows[n], highs[n])
        return found

    def examples(self) -> list[tuple[Example, ...]]:
        """For each head the places where it looks hardest, one a sentence; marks are left out."""
        weights = np.stack([weights for weights, _, _ in self._strongest], 1)  # (N, sentences)
        return [
            tuple(self._example(int(i), n) for i in np.argsort(-row, kind="stable")[:EXAMPLES])
            for n, row in enumerate(weights)
        ]

    def _example(self, i: int, head: int) -> Example:
        weights, places, sentence = self._strongest[i]
        row, column = divmod(int(places[head]), len(sentence.columns))
        return Example(sentence.text, sentence.rows.texts[row], sentence.columns.texts[column], float(weights[head]))

    def similar(self) -> list[list[tuple[int, float]]]:
        """For each head the nearest others of its kind: number, Jensen-Shannon divergence in nats."""
        distances = np.mean(self._distances, 0)
        order = np.argsort(distances + np.diag(np.full(len(distances), np.inf)), -1)[
            :, : min(SIMILAR, len(distances) - 1)
        ]
        return [[(int(n), float(row[n])) for n in nearest] for row, nearest in zip(distances, order, strict=True)]
