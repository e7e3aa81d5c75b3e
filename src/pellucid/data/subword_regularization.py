"""Beyond the paper: the words of the training pairs are cut in another way each epoch.

A model of few sentences learns them by heart, and of each word only the one cut that it always has. Where cuts are drawn
at random, no sentence comes twice quite the same, and the model learns what the parts of words are worth (Provilkov et
al. 2020, https://arxiv.org/abs/1910.13267; Kudo 2018, https://arxiv.org/abs/1804.10959).

All pairs of an epoch are cut before its batches are planned, because a batch of rows that were equally long before they
were cut anew is one third padding after it. All ids of the epoch are held in memory.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass

import numpy as np

from pellucid.data.segmentation import segmenter
from pellucid.data.store import PairStore, padded
from pellucid.data.tokenizer import Tokenizer

PAIRS_AT_ONCE = 4096
"""Pairs that are taken from the store together."""


class CutPairs:
    """The pairs of one epoch, cut anew; batches are made of them as of a store.

    Args:
        ids: of each side the sequences one behind the other.
        lengths: of each side the tokens of each sequence.
        epoch: whose pairs these are.
        seconds: how long it took to cut them.
    """

    def __init__(self, ids: list[np.ndarray], lengths: list[np.ndarray], epoch: int, seconds: float) -> None:
        self._ids = ids
        self.source_lengths, self.target_lengths = lengths
        """(pairs,) int32, in tokens with the end mark."""
        self._offsets = [np.concatenate([[0], np.cumsum(side, dtype=np.int64)]) for side in lengths]
        self.epoch, self.seconds = epoch, seconds

    def padded(self, side: int, indices: np.ndarray, pad: int) -> np.ndarray:
        """(rows, longest) int64: the sequences `indices` of `side` (0 source, 1 target), filled up with `pad`."""
        return padded(self._ids[side], self._offsets[side], indices, pad)


@dataclass(frozen=True)
class SubwordRegularization:
    """Cuts the pairs of a store anew."""

    source: Tokenizer
    target: Tokenizer
    alpha: float
    """See :func:`pellucid.data.segmentation.segmenter`."""
    seed: int
    longest: int
    """A row that would have more tokens, the end mark included, stays as it is."""

    def cut(self, store: PairStore, epoch: int, chosen: np.ndarray | None = None) -> CutPairs:
        """The pairs of `store`, cut for `epoch`: the same for the same seed and epoch, whenever computed.

        Args:
            chosen: the numbers of the pairs to take, in order; one that comes twice is cut in two ways. None: all pairs.
        """
        started = time.perf_counter()
        chosen = np.arange(len(store)) if chosen is None else chosen
        sides = [self._side(store, side, epoch, chosen) for side in (0, 1)]
        return CutPairs(
            [ids for ids, _ in sides], [lengths for _, lengths in sides], epoch, time.perf_counter() - started
        )

    def _side(self, store: PairStore, side: int, epoch: int, chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The ids of one side, row behind row, and the rows' lengths."""
        tokenizer = (self.source, self.target)[side]
        words = segmenter(tokenizer, self.alpha, (self.seed, epoch, side))
        ids, lengths = array("H" if len(tokenizer) <= 1 << 16 else "I"), array("i")
        for begin in range(0, len(chosen), PAIRS_AT_ONCE):
            for row in store.padded(side, chosen[begin : begin + PAIRS_AT_ONCE], tokenizer.pad_id):
                plain = row[row != tokenizer.pad_id].tolist()
                cut = words.cut(plain)
                taken = cut if len(cut) <= self.longest else plain
                ids.extend(taken)
                lengths.append(len(taken))
        return np.asarray(ids), np.asarray(lengths)
