"""Every head of a model, over a corpus: where it looks, how sharply, and what the model loses without it.

Three passes over the pairs, all with teacher forcing: one for the maps (:mod:`~pellucid.inspection.roles`), one
backwards for the importance of all heads at once, and one for every head with that head switched off
(:mod:`~pellucid.inspection.ablation`). Weights are not explanations; the last two are what says whether a head matters.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from pellucid.data.store import PairStore
from pellucid.errors import DataError
from pellucid.inspection.ablation import head_gradients, loss_without, mean_outputs, normalized_by_layer
from pellucid.inspection.forcing import ForcedPair, Progress, forced_maps
from pellucid.inspection.measures import Array
from pellucid.inspection.recorder import KINDS, Head, Kind, attentions
from pellucid.inspection.roles import MAXIMA, ROLES, Example, Lean, MapMeasures, Sentence
from pellucid.translator import Translator

MEASURES: Mapping[str, int] = {
    "confidence": 1,
    "entropy": -1,
    **dict.fromkeys(ROLES, 1),
    **{role + MAXIMA: 1 for role in ROLES},
    "importance": 1,
    "gradient": 1,
    "delta_loss": 1,
}
"""The measures, and whether a high value (1) or a low one (-1) stands out.

confidence, entropy, and for each role the share of the weight (Clark et al.) and, as `_maxima`, that of the largest
weights (Voita et al.): see :mod:`~pellucid.inspection.measures`. gradient: Michel's importance in nats; importance: the
same, normalised by layer. delta_loss: how many nats per target piece the model loses with the head switched off."""

CLEAR, STRONG = 0.5, 0.9
"""Where published work draws a line: Clark et al. at half of the weight, Voita et al. at 90 % of the largest weights."""

COUNTED_PAIRS = 100_000
"""Pairs of the training data that say which pieces are rare, at most."""


@dataclass(frozen=True)
class HeadReport:
    """One head."""

    head: Head
    values: Mapping[str, float | None]
    """None: the measure does not exist there."""
    leans: Lean | None
    """None: nothing that is beyond doubt above chance."""
    examples: tuple[Example, ...]
    similar: tuple[tuple[Head, float], ...]
    """The nearest heads of the same kind, with the Jensen-Shannon divergence in nats."""


@dataclass(frozen=True)
class HeadTable:
    """All heads of a model."""

    pairs: int
    loss: float
    """Of the whole model, in nats per target piece."""
    heads: tuple[HeadReport, ...]
    baselines: Mapping[Kind, Mapping[str, float | None]]
    """Chance, for the measures of maps."""
    measures: Mapping[str, int] = field(default_factory=lambda: MEASURES)
    """See :data:`MEASURES`."""

    def of(self, kind: Kind) -> list[HeadReport]:
        """The heads of one kind, layer by layer."""
        return [report for report in self.heads if report.head.kind == kind]

    def with_measure(self, name: str, direction: int, values: Mapping[Head, float]) -> HeadTable:
        """A further measure, known of some heads."""
        assert name not in self.measures, name
        heads = (
            dataclasses.replace(report, values={**report.values, name: values.get(report.head)})
            for report in self.heads
        )
        return dataclasses.replace(self, heads=tuple(heads), measures={**self.measures, name: direction})

    def to_json(self) -> dict[str, Any]:
        """For JSON; layers and heads count from 0."""
        return {
            "pairs": self.pairs,
            "loss": self.loss,
            "measures": [{"name": name, "direction": direction} for name, direction in self.measures.items()],
            "baselines": {kind: dict(values) for kind, values in self.baselines.items()},
            "heads": [
                {
                    **report.head._asdict(),
                    "values": dict(report.values),
                    "leans": None if report.leans is None else dataclasses.asdict(report.leans),
                    "examples": [dataclasses.asdict(example) for example in report.examples],
                    "similar": [{**head._asdict(), "distance": distance} for head, distance in report.similar],
                }
                for report in self.heads
            ],
        }


def measure_heads(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    *,
    off: Literal["zeros", "means"] = "zeros",
    progress: Progress | None = None,
) -> HeadTable:
    """All measures of all heads, over `pairs` of sources and translations: some hundred are enough.

    Args:
        pairs: those with an empty side are left out.
        off: what takes the place of a head that is switched off: zeros, or its mean output over `pairs`.

    Raises:
        DataError: no pair at all, or a sentence longer than the positions that the model has learnt.
    """
    pairs = [pair for pair in pairs if all(text.strip() for text in pair)]
    if not pairs:
        raise DataError("there must be a pair at least to measure heads with, but there is none")
    forced = [ForcedPair.of(translator, *pair) for pair in pairs]
    layers, width = attentions(translator.model), translator.model.config.n_heads
    heads = [Head(kind, layer, h) for kind in KINDS for layer in range(len(layers[kind])) for h in range(width)]
    done, work = 0, len(pairs) * (2 + len(heads))

    def told(sentences: int) -> None:
        nonlocal done
        done += sentences
        if progress is not None:
            progress(done, work)

    maps = {kind: MapMeasures(kind) for kind in KINDS}
    ranks = source_ranks(translator, forced)
    for i, weights in forced_maps(translator, forced):
        for kind, sentence in _sentences(translator, pairs[i], forced[i], ranks).items():
            maps[kind].add(weights[kind].double().numpy(), sentence)
        told(1)
    gradients = head_gradients(translator, forced, told)
    means = mean_outputs(translator, forced) if off == "means" else None
    loss, losses = loss_without(translator, forced, heads, means, told)

    reports = []
    for kind in KINDS:
        own = [n for n, head in enumerate(heads) if head.kind == kind]
        values = {
            **{name: column[:-1] for name, column in maps[kind].values().items()},
            "importance": normalized_by_layer(gradients[kind]).flatten().tolist(),
            "gradient": gradients[kind].flatten().tolist(),
            "delta_loss": [losses[n] - loss for n in own],
        }
        leans, examples, similar = maps[kind].leans(), maps[kind].examples(), maps[kind].similar()
        for k, n in enumerate(own):
            each = {name: values[name][k] if name in values else None for name in MEASURES}
            near = tuple((heads[own[other]], distance) for other, distance in similar[k])
            reports.append(HeadReport(heads[n], each, leans[k], examples[k], near))
    chances = {kind: {name: column[-1] for name, column in maps[kind].values().items()} for kind in KINDS}
    return HeadTable(len(pairs), loss, tuple(reports), chances)


def _sentences(translator: Translator, pair: tuple[str, str], forced: ForcedPair, ranks: Array) -> dict[Kind, Sentence]:
    """What stands at the rows and columns of the three maps of a pair."""
    source, target = (text.strip() for text in pair)
    columns, inputs = forced.source_side(translator), forced.input_side(translator)
    own_ranks = ranks[list(forced.source)]
    return {
        "encoder": Sentence(source, columns, columns, own_ranks),
        "decoder": Sentence(target, inputs, inputs),
        "cross": Sentence(f"{source} → {target}", forced.predicted_side(translator), columns, own_ranks),
    }


def source_ranks(translator: Translator, pairs: Sequence[ForcedPair]) -> Array:
    """(source vocabulary,): how rare each id is, 0 being the most frequent one.

    Counted in the training pairs where the model's folder still has them, else in `pairs` alone.
    """
    directory = translator.loaded.directory
    rows: Iterable[Sequence[int] | Array] = [pair.source for pair in pairs]
    if directory is not None:
        with suppress(DataError):  # none, or none that is whole
            store = PairStore.open(directory / "training" / "store")
            rows = (store.source(i) for i in range(min(len(store), COUNTED_PAIRS)))
    counts = np.zeros(len(translator.source_tokenizer), np.int64)
    for row in rows:
        np.add.at(counts, np.asarray(row, np.int64), 1)
    ranks = np.empty(len(counts), np.int64)
    ranks[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    return ranks
