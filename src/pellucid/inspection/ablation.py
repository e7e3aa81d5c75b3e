"""What a model loses without a head: estimated by gradients, measured by the loss, and measured by translating.

The gate xi of a head is 1 (see :mod:`~pellucid.inspection.gates`). Its gradient says what a small change of it does to
the loss; closing it says what the head is worth as long as all others stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.inspection.forcing import ForcedBatch, ForcedPair, Progress, forced_batches
from pellucid.inspection.gates import gated, gates_without
from pellucid.inspection.recorder import KINDS, Head, Kind, recorded
from pellucid.training.evaluation import paired_bootstrap
from pellucid.training.loss import linear_cross_entropy
from pellucid.translator import Translator

Told = Callable[[int], None]
"""Is told how many sentences have been through once more."""


def head_gradients(translator: Translator, pairs: Sequence[ForcedPair], told: Told | None = None) -> dict[Kind, Tensor]:
    """I_h = E_x abs(dL(x) / dxi_h) of Michel et al. 2019 (equation 2), in nats: (L, H) for each kind.

    L(x) is the loss of one sentence, summed over its pieces. The absolute value is inside the mean, so that sentences
    that need a head less do not make up for those that need it more. One backward pass serves all heads.
    """
    model = translator.model
    open_ = gates_without(model, [])
    totals = {kind: torch.zeros_like(open_[kind], dtype=torch.float64) for kind in KINDS}
    for batch in forced_batches(translator, pairs):
        rows = len(batch.indices)
        gates = {kind: open_[kind][:, None].repeat(1, rows, 1).requires_grad_() for kind in KINDS}  # (L, B, H)
        with torch.enable_grad(), gated(model, gates):
            loss = _loss(translator, batch, model.encode(batch.src))
        for kind, gradient in zip(KINDS, torch.autograd.grad(loss, [gates[kind] for kind in KINDS]), strict=True):
            totals[kind] += gradient.abs().sum(1)
        if told is not None:
            told(rows)
    return {kind: total / len(pairs) for kind, total in totals.items()}


def normalized_by_layer(gradients: Tensor) -> Tensor:
    """Each layer's (L, H) over the root of its sum of squares: Michel et al. compare heads of different layers so."""
    return gradients / gradients.norm(dim=1, keepdim=True).clamp(min=1e-30)


@torch.inference_mode()
def mean_outputs(translator: Translator, pairs: Sequence[ForcedPair]) -> dict[Kind, Tensor]:
    """What each head puts out on average, over all rows of all pairs: (L, H, K) for each kind.

    With that in the place of a head the layer above gets what it is used to, only the same for every row: a gentler way
    of switching off than zeros, which no layer has ever seen.
    """
    sums: dict[Kind, Tensor] = {}
    rows = dict.fromkeys(KINDS, 0)
    for batch in forced_batches(translator, pairs):
        with recorded(translator.model) as recording:
            translator.model(batch.src, batch.tgt_in)
        source = batch.src != translator.source_tokenizer.pad_id  # (B, S)
        target = batch.tgt_out != batch.pad_id  # (B, T)
        for kind in KINDS:
            real = source if kind == "encoder" else target
            heads = torch.stack([layer.heads for layer in recording.of(kind)])  # (L, B, H, T, K)
            total = (heads.double() * real[:, None, :, None]).sum((1, 3))
            sums[kind] = sums[kind] + total if kind in sums else total
            rows[kind] += int(real.sum())
    dtype = translator.model.output.weight.dtype
    return {kind: (total / rows[kind]).to(dtype) for kind, total in sums.items()}


@torch.inference_mode()
def loss_without(
    translator: Translator,
    pairs: Sequence[ForcedPair],
    heads: Sequence[Head],
    means: Mapping[Kind, Tensor] | None = None,
    told: Told | None = None,
) -> tuple[float, list[float]]:
    """The loss in nats per target piece: of the whole model, and with each of `heads` switched off alone.

    Args:
        means: what takes the place of a head's output, see :func:`mean_outputs`; None: zeros.
    """
    model = translator.model
    whole, losses = 0.0, [0.0] * len(heads)
    pieces = sum(len(pair.target) for pair in pairs)
    for batch in forced_batches(translator, pairs):
        memory = model.encode(batch.src)
        whole += float(_loss(translator, batch, memory))
        for n, head in enumerate(heads):
            with gated(model, gates_without(model, [head]), means):
                changed = model.encode(batch.src) if head.kind == "encoder" else memory
                losses[n] += float(_loss(translator, batch, changed))
            if told is not None:
                told(len(batch.indices))
    return whole / pieces, [loss / pieces for loss in losses]


def _loss(translator: Translator, batch: ForcedBatch, memory: Tensor) -> Tensor:
    """-log p of the batch's targets, summed, in nats."""
    model = translator.model
    x = model.decode(batch.tgt_in, memory, memory_mask=model.padding_mask(batch.src))
    return linear_cross_entropy(x, model.output.weight, batch.tgt_out, 0.0, batch.pad_id)[0]


@dataclass(frozen=True)
class Retranslated:
    """What switching a head off does to the scores of translations; positive: better without it."""

    delta_bleu: float
    delta_chrf: float
    bleu_p: float
    """The chance of a difference so large if the two were equally good (paired bootstrap)."""
    chrf_p: float
    same_translations: int
    """Sentences whose translation stays the same."""


def scores_without(
    translator: Translator,
    sources: Sequence[str],
    references: Sequence[str],
    heads: Sequence[Head],
    means: Mapping[Kind, Tensor] | None = None,
    *,
    samples: int = 1000,
    progress: Progress | None = None,
) -> dict[Head, Retranslated]:
    """BLEU and chrF2++ with each of `heads` switched off, against those of the whole model (Michel et al. 2019, table 1)."""
    # The other engines have weights of their own, without gates.
    plain = Translator(translator.loaded, "reference", tags=translator.tags)
    before = [t.text for t in plain.translate(sources)]
    found: dict[Head, Retranslated] = {}
    for number, head in enumerate(heads, 1):
        if progress is not None:
            progress(number, len(heads) + 1)
        with gated(plain.model, gates_without(plain.model, [head]), means):
            after = [t.text for t in plain.translate(sources)]
        compared = paired_bootstrap(
            [("whole", before), (str(head), after)], [references], plain.loaded.target_language, samples=samples
        )
        (bleu, bleu_off), (chrf, chrf_off) = compared["BLEU"], compared["chrF2++"]
        found[head] = Retranslated(
            bleu_off["score"] - bleu["score"], chrf_off["score"] - chrf["score"], bleu_off["p_value"],
            chrf_off["p_value"], sum(a == b for a, b in zip(before, after, strict=True)),
        )  # fmt: skip
    return found
