"""Teacher forcing: given pairs through the model in batches, and what its attention did with each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.engines.search_engine import padded
from pellucid.errors import DataError
from pellucid.inspection.recorder import KINDS, Kind, Recorded, recorded
from pellucid.inspection.words import Side, tokens_of
from pellucid.translator import Translator, batches_by_length

BATCH_TOKENS = 2048
"""Padded tokens of a batch. The maps of all heads are held at once: rows x columns x heads x layers of each sentence."""


Progress = Callable[[int, int], None]
"""Is told, often, how much of some work is done, and of how much. What it raises ends the work."""


@dataclass(frozen=True)
class ForcedPair:
    """A source with a given translation, as the model reads them."""

    source: tuple[int, ...]
    """S ids, tags first, the end mark last."""
    target: tuple[int, ...]
    """T ids, the end mark last: what the decoder's rows predict. Their inputs are the start mark and all but the last."""

    @classmethod
    def of(cls, translator: Translator, source: str, target: str) -> ForcedPair:
        """The pair of two texts.

        Raises:
            DataError: longer than a model with learned positions can read.
        """
        pair = cls(
            tuple(translator.source_ids(translator.source_tokenizer.encode(source.strip()))),
            (*translator.target_tokenizer.encode(target.strip()), translator.vocabulary.eos_id),
        )
        config = translator.model.config
        longest = max(len(pair.source), len(pair.target))
        if config.positions == "learned" and longest > config.max_len:
            raise DataError(
                f"a sentence must have at most {config.max_len} pieces, the positions that this model has learnt, "
                f"but one has {longest}: {source.strip()[:40]!r}",
                hint="leave that pair out, or split it",
            )
        return pair

    def source_side(self, translator: Translator) -> Side:
        """The source's tokens, tags first, the end mark last: (S,)."""
        return Side.of(tokens_of(translator.source_tokenizer, self.source))

    def predicted_side(self, translator: Translator) -> Side:
        """What each row of the decoder predicts: y1 ... yn, end mark (T,)."""
        return Side.of(tokens_of(translator.target_tokenizer, self.target))

    def input_side(self, translator: Translator) -> Side:
        """What each row of the decoder has as its input: start mark, y1 ... yn (T,)."""
        start = translator.vocabulary.start_id
        return Side.of(tokens_of(translator.target_tokenizer, (start, *self.target[:-1]), start))


@dataclass(frozen=True)
class ForcedBatch:
    """Some pairs as rectangles."""

    indices: list[int]
    """(B,): which of the pairs these are."""
    src: Tensor
    """(B, S)."""
    tgt_in: Tensor
    """(B, T): start mark, then the target without its end mark."""
    tgt_out: Tensor
    """(B, T): the target with its end mark."""
    pad_id: int
    """What fills up `tgt_out`."""


def forced_batches(
    translator: Translator, pairs: Sequence[ForcedPair], batch_tokens: int = BATCH_TOKENS
) -> Iterator[ForcedBatch]:
    """All pairs, in batches of similar length."""
    device, start = translator.model.output.weight.device, translator.vocabulary.start_id
    pads = translator.source_tokenizer.pad_id, translator.target_tokenizer.pad_id
    for batch in batches_by_length([max(len(p.source), len(p.target)) for p in pairs], batch_tokens):
        targets = [pairs[i].target for i in batch]
        yield ForcedBatch(
            batch,
            padded([list(pairs[i].source) for i in batch], pads[0], device),
            padded([[start, *target[:-1]] for target in targets], pads[1], device),
            padded([list(target) for target in targets], pads[1], device),
            pads[1],
        )


@torch.inference_mode()
def forced_maps(
    translator: Translator,
    pairs: Sequence[ForcedPair],
    kinds: Sequence[Kind] = KINDS,
    what: Callable[[Recorded], Tensor] = lambda layer: layer.weights,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[int, dict[Kind, Tensor]]]:
    """For each pair its number, and for each kind what all layers did, without padding: (L, H, T, S).

    The pairs come in the order of their batches, not in their own.

    Args:
        what: what of a layer, (B, H, T, S) or (B, T, S); its weights unless another is named.
    """
    for batch in forced_batches(translator, pairs, batch_tokens):
        with recorded(translator.model) as recording:
            translator.model(batch.src, batch.tgt_in)
        maps = {kind: torch.stack([what(layer) for layer in recording.of(kind)], 1).cpu() for kind in kinds}
        for row, i in enumerate(batch.indices):
            source, target = len(pairs[i].source), len(pairs[i].target)
            sizes = {"encoder": (source, source), "decoder": (target, target), "cross": (target, source)}
            yield i, {kind: maps[kind][row, ..., : sizes[kind][0], : sizes[kind][1]] for kind in kinds}
