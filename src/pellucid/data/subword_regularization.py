"""Beyond the paper: the words of the training pairs are cut in another way each epoch.

A model of few sentences learns them by heart, and of each word only the one cut that it always has. Where cuts are drawn
at random, no sentence comes twice quite the same, and the model learns what the parts of words are worth (Provilkov et
al. 2020, https://arxiv.org/abs/1910.13267; Kudo 2018, https://arxiv.org/abs/1804.10959).

The store holds ids, not text: each row is decoded, cut anew, and taken if it says the very same. All pairs of an epoch are
cut before its batches are planned, because a batch of rows that were equally long before they were cut anew is one third
padding after it. Ten thousand pairs take about a second; all ids of the epoch are held in memory.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from pellucid.data.store import PairStore, padded
from pellucid.data.tokenizer import Tokenizer

PAIRS_AT_ONCE = 4096
"""Pairs that are decoded and drawn together; where they are cut off decides what is drawn."""

Sides = tuple[list[np.ndarray], list[np.ndarray]]


class CutPairs:
    """The pairs of one epoch, cut anew; batches are made of them as of a store.

    Args:
        ids: of each side the sequences one behind the other, in parts.
        lengths: of each side the tokens of each sequence, in parts; int32.
        epoch: whose pairs these are.
        seconds: how long it took to cut them.
    """

    def __init__(self, ids: Sides, lengths: Sides, epoch: int, seconds: float) -> None:
        self._ids = [np.concatenate([np.zeros(0, np.uint16), *parts]) for parts in ids]
        self.source_lengths, self.target_lengths = (
            np.concatenate([np.zeros(0, np.int32), *parts]) for parts in lengths
        )
        """(pairs,) int32, in tokens with the end mark."""
        both = self.source_lengths, self.target_lengths
        self._offsets = [np.concatenate([[0], np.cumsum(side, dtype=np.int64)]) for side in both]
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
    """See :meth:`Tokenizer.sample_batch`."""
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
        ids: Sides = [], []
        lengths: Sides = [], []
        for begin in range(0, len(chosen), PAIRS_AT_ONCE):
            indices = chosen[begin : begin + PAIRS_AT_ONCE]
            # Half of the 32 bits' range: SentencePiece reads the largest of them as "any seed".
            seeds = np.random.SeedSequence((self.seed, epoch, begin)).generate_state(2) >> 1
            for side, tokenizer in enumerate((self.source, self.target)):
                rows = self._rows(tokenizer, store.padded(side, indices, tokenizer.pad_id), int(seeds[side]))
                smallest = np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32
                ids[side].append(np.array([i for row in rows for i in row], smallest))
                lengths[side].append(np.array([len(row) for row in rows], np.int32))
        return CutPairs(ids, lengths, epoch, time.perf_counter() - started)

    def _rows(self, tokenizer: Tokenizer, rows: np.ndarray, seed: int) -> list[list[int]]:
        """The padded `rows` of one side, cut anew where that can be done."""
        plain = [row[row != tokenizer.pad_id].tolist() for row in rows]
        texts = [tokenizer.decode(ids) for ids in plain]
        drawn = tokenizer.sample_batch(texts, self.alpha, seed)
        return [self._row(tokenizer, *each) for each in zip(plain, texts, drawn, strict=True)]

    def _row(self, tokenizer: Tokenizer, plain: list[int], text: str, drawn: list[int]) -> list[int]:
        """`drawn` with the tags and the end mark of `plain`, or `plain` where it must stay."""
        tags = len(tokenizer.tags_of(plain))
        made = [*plain[:tags], *drawn, plain[-1]]
        if tokenizer.unk_id in plain or len(made) > self.longest or tokenizer.decode(drawn) != text:
            return plain  # an <unk> has lost its text; what does not say the same is no other cut of it
        return made
