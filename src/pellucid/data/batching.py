"""Section 5.1: batches of pairs of similar length, each with about the same number of tokens.

A batch is a rectangle, and what its rows do not fill is padding, paid for and thrown away. In random order more than
half of it would be; sorting by length inside pools of a hundred batches and more brings that under a tenth, and keeps
every epoch different.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

POOL_BATCHES = 128
"""Batches of one pool, at least. More would sort better and shuffle less."""


class Pairs(Protocol):
    """Pairs as ids, whose batches can be made: a :class:`~pellucid.data.store.PairStore`, or the pairs of one epoch."""

    source_lengths: np.ndarray
    target_lengths: np.ndarray
    """(pairs,) integers, in tokens with the end mark."""

    def padded(self, side: int, indices: np.ndarray, pad: int) -> np.ndarray:
        """(rows, longest) int64: the sequences `indices` of `side` (0 source, 1 target), filled up with `pad`."""


@dataclass(frozen=True)
class Batch:
    """Pairs as rectangles of int64 ids, padded on the right. B rows, S and T the longest source and target."""

    src: np.ndarray
    """(B, S), each row ending in the end mark."""
    tgt_in: np.ndarray
    """(B, T): the start id, then the target without its end mark. What the decoder is fed."""
    tgt_out: np.ndarray
    """(B, T): the target, ending in the end mark. What the decoder is to say."""
    src_tokens: int
    """Tokens of `src` that are not padding."""
    tgt_tokens: int
    """Tokens of `tgt_out` that are not padding."""
    indices: np.ndarray
    """(B,): which pairs these are."""


class EpochPlan:
    """The batches of one epoch as arrays of pair numbers: `len(plan)`, `plan[k]`, `for indices in plan`."""

    def __init__(self, order: np.ndarray, bounds: np.ndarray, sequence: np.ndarray) -> None:
        """Batch `k` is `order[bounds[b] : bounds[b + 1]]` with `b = sequence[k]`."""
        self._order, self._bounds, self._sequence = order, bounds, sequence

    def __len__(self) -> int:
        return len(self._sequence)

    def __getitem__(self, k: int) -> np.ndarray:
        """(rows,) pair numbers of batch `k`. Raises IndexError past the end."""
        b = self._sequence[k]
        return self._order[self._bounds[b] : self._bounds[b + 1]]

    @property
    def pairs(self) -> np.ndarray:
        """(pairs of the epoch,) all pair numbers, some perhaps several times."""
        return self._order

    def __iter__(self) -> Iterator[np.ndarray]:
        return (self[k] for k in range(len(self)))

    def shapes(self, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> np.ndarray:
        """(batches, 3) int64: rows, longest source, longest target of each batch, in order."""
        if not len(self):
            return np.zeros((0, 3), np.int64)
        starts = self._bounds[:-1]
        longest = [np.maximum.reduceat(lengths[self._order], starts) for lengths in (src_lengths, tgt_lengths)]
        return np.stack([np.diff(self._bounds), *longest], axis=1).astype(np.int64)[self._sequence]


def mixed_pairs(parts: Sequence[int], weights: Sequence[float], seed: int, epoch: int) -> np.ndarray:
    """The pairs of epoch number `epoch`, where those of part k are taken `weights`[k] times.

    Of a weight's fraction every epoch takes another share of the pairs, in turn: after ten epochs with a weight of 0.1
    each pair has come once. The same for the same seed and epoch, whenever computed.

    Args:
        parts: how many pairs each part has; they are numbered through.
    """
    chosen = []
    begin = 0
    for number, (count, weight) in enumerate(zip(parts, weights, strict=True)):
        whole = int(weight)
        some = round((weight - whole) * count)
        turn = np.random.default_rng((seed, number, 1)).permutation(count) if some else np.zeros(0, np.int64)
        place = (epoch * some + np.arange(some)) % max(1, count)
        chosen += [np.tile(np.arange(begin, begin + count), whole), begin + turn[place]]
        begin += count
    return np.concatenate([np.zeros(0, np.int64), *chosen])


def plan_epoch(
    src_lengths: np.ndarray,
    tgt_lengths: np.ndarray,
    batch_tokens: int,
    seed: int,
    epoch: int,
    chosen: np.ndarray | None = None,
) -> EpochPlan:
    """The batches of epoch number `epoch`; the same for the same seed and epoch, whenever computed.

    A batch holds as many pairs as keep rows x max(longest source, longest target) within `batch_tokens`; a pair
    longer than that is a batch alone. Ten million pairs take seconds and about 100 MB.

    Args:
        src_lengths, tgt_lengths: (pairs,) integers, in tokens with the end mark.
        chosen: the numbers of the pairs to take (see :func:`mixed_pairs`); None takes every pair once.
    """
    random = np.random.default_rng((seed, epoch))
    dtype = np.int32 if len(src_lengths) < 1 << 31 else np.int64
    order = np.arange(len(src_lengths), dtype=dtype) if chosen is None else chosen.astype(dtype)
    pairs = len(order)
    random.shuffle(order)
    longer = np.maximum(src_lengths, tgt_lengths)
    pools = max(1, int(int(longer[order].sum(dtype=np.int64)) // (POOL_BATCHES * batch_tokens)))
    pool = max(1, -(-pairs // pools))
    bounds = [0]
    for begin in range(0, pairs, pool):
        chosen = order[begin : begin + pool]
        # By the longer side; among equals by target, then source, so that the other side is even too.
        chosen = chosen[np.lexsort((src_lengths[chosen], tgt_lengths[chosen], longer[chosen]))]
        order[begin : begin + pool] = chosen
        _cut(longer[chosen].astype(np.int64), batch_tokens, begin, bounds)
    return EpochPlan(order, np.array(bounds, np.int64), random.permutation(len(bounds) - 1))


def _cut(longer: np.ndarray, batch_tokens: int, begin: int, bounds: list[int]) -> None:
    """Append to `bounds` where batches end among ascending lengths: rows x last length <= `batch_tokens`."""
    start, count = 0, len(longer)
    rows = np.arange(1, count + 1)
    while start < count:
        # No batch has more rows than its first, shortest row allows.
        window = longer[start : start + max(1, batch_tokens // int(longer[start]))]
        fits = int(np.searchsorted(window * rows[: len(window)], batch_tokens, side="right"))
        start += max(1, fits)
        bounds.append(begin + start)


def make_batch(pairs: Pairs, indices: np.ndarray, src_pad: int, tgt_pad: int, start_id: int) -> Batch:
    """The pairs `indices` of `pairs` as rectangles."""
    indices = np.asarray(indices)
    src, tgt_out = pairs.padded(0, indices, src_pad), pairs.padded(1, indices, tgt_pad)
    lengths = pairs.target_lengths[indices]
    tgt_in = np.full_like(tgt_out, tgt_pad)
    tgt_in[:, :1] = start_id
    # The end mark is said, never fed in: each row is fed one token less than it has, after the start.
    fed = np.arange(1, tgt_out.shape[1]) < lengths[:, None]
    tgt_in[:, 1:][fed] = tgt_out[:, :-1][fed]
    return Batch(src, tgt_in, tgt_out, int(pairs.source_lengths[indices].sum()), int(lengths.sum()), indices)


def useful_share(plan: EpochPlan, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> float:
    """Tokens of an epoch, as a share of the cells of its rectangles, both sides together; 1 where there are none."""
    rows, source, target = plan.shapes(src_lengths, tgt_lengths).T
    cells = int((rows * (source + target)).sum())
    tokens = sum(int(lengths[plan.pairs].sum(dtype=np.int64)) for lengths in (src_lengths, tgt_lengths))
    return tokens / cells if cells else 1.0


def largest_batch(plan: EpochPlan, src_lengths: np.ndarray, tgt_lengths: np.ndarray) -> int:
    """Which batch has the most cells: to be tried first, so that memory runs out before the first step or never.

    Raises:
        ValueError: a plan of no batches.
    """
    rows, source, target = plan.shapes(src_lengths, tgt_lengths).T
    return int(np.argmax(rows * (source + target)))
