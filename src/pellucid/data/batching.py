"""Section 5.1: batches of pairs of similar length, each with about the same number of tokens.

A batch is a rectangle, and what its rows do not fill is padding, paid for and thrown away. In random order more than
half of it would be; sorting by length inside a pool of a hundred batches brings that under a tenth, and keeps every
epoch different.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pellucid.data.store import PairStore

POOL_BATCHES = 128


@dataclass(frozen=True)
class Batch:
    """Pairs as rectangles of int64 ids, padded on the right. B rows, S and T the longest source and target."""

    src: np.ndarray
    """(B, S), each row ending in the end mark."""
    tgt_in: np.ndarray
    """(B, T): the start id, then the target without its last token. What the decoder is fed."""
    tgt_out: np.ndarray
    """(B, T): the target, ending in the end mark. What the decoder is to say."""
    src_tokens: int
    """Tokens that are not padding."""
    tgt_tokens: int


class EpochPlan:
    """The batches of one epoch as arrays of pair numbers: `len(plan)`, `plan[k]`."""

    def __init__(self, order: np.ndarray, starts: np.ndarray) -> None:
        self._order, self._starts = order, starts

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, k: int) -> np.ndarray:
        start, end = self._starts[k]
        return self._order[start:end]


def plan_epoch(src_lengths: np.ndarray, tgt_lengths: np.ndarray, batch_tokens: int, seed: int, epoch: int) -> EpochPlan:
    """The batches of epoch number `epoch`: every pair once; the same for the same seed and epoch, whenever computed.

    A batch holds as many pairs as keep rows x max(longest source, longest target) within `batch_tokens`; a pair
    longer than that is a batch alone.
    """
    random = np.random.default_rng((seed, epoch))
    order = random.permutation(len(src_lengths)).astype(np.int32 if len(src_lengths) < 1 << 31 else np.int64)
    longer = np.maximum(src_lengths, tgt_lengths)
    mean = float(longer.mean()) if len(longer) else 1.0
    pool = max(1, int(POOL_BATCHES * batch_tokens / mean))
    starts: list[tuple[int, int]] = []
    for begin in range(0, len(order), pool):
        chosen = order[begin : begin + pool]
        # By the longer side; among equals by target, then source, so that the other side is even too.
        chosen = chosen[np.lexsort((src_lengths[chosen], tgt_lengths[chosen], longer[chosen]))]
        order[begin : begin + pool] = chosen
        starts += _cut(longer[chosen], batch_tokens, begin)
    spans = np.array(starts, np.int64).reshape(-1, 2)
    return EpochPlan(order, spans[random.permutation(len(spans))])


def _cut(longer: np.ndarray, batch_tokens: int, begin: int) -> list[tuple[int, int]]:
    """Spans of ascending lengths whose last (longest) row, times the rows, stays within the budget."""
    spans = []
    start = 0
    lengths = longer.tolist()
    for i, length in enumerate(lengths):
        if i > start and (i - start + 1) * length > batch_tokens:
            spans.append((begin + start, begin + i))
            start = i
    if start < len(lengths):
        spans.append((begin + start, begin + len(lengths)))
    return spans


def make_batch(store: PairStore, indices: np.ndarray, src_pad: int, tgt_pad: int, start_id: int) -> Batch:
    """The pairs `indices` of `store` as rectangles."""
    rows = len(indices)
    src_lengths, tgt_lengths = store.source_lengths[indices], store.target_lengths[indices]
    src = np.full((rows, int(src_lengths.max())), src_pad, np.int64)
    tgt_out = np.full((rows, int(tgt_lengths.max())), tgt_pad, np.int64)
    for row, i in enumerate(indices.tolist()):
        src[row, : src_lengths[row]] = store.source(i)
        tgt_out[row, : tgt_lengths[row]] = store.target(i)
    tgt_in = np.full_like(tgt_out, tgt_pad)
    tgt_in[:, 0] = start_id
    tgt_in[:, 1:] = tgt_out[:, :-1]
    tgt_in[:, 1:][tgt_out[:, 1:] == tgt_pad] = tgt_pad  # the end mark is never fed in
    return Batch(src, tgt_in, tgt_out, int(src_lengths.sum()), int(tgt_lengths.sum()))
