"""Near-duplicates among millions of texts: MinHash (Broder 1997) with bands (Leskovec et al., Mining of Massive Datasets,
section 3.4), in numpy.

The Jaccard similarity of two sets of words is the chance that the smallest of a random hash over either set is the same.
48 such minima make a signature. Texts are compared only where all four minima of one of 12 bands agree, and are near
where at least seven tenths of the 48 do. So of two texts of ten words one word may differ, mostly two.

Why not a library: the well-kept one (datasketch) hashes a text at a time and keeps an index of Python objects. Here a
chunk of texts is hashed by one numpy operation a minimum, and all that is kept of it lies in temporary files. A band is
read several times, each time for a part of its keys that can be sorted in little memory. What grows with the texts is one
number of four bytes for each: the earliest that it is near to.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import lru_cache
from typing import IO

import numpy as np

from pellucid.data.characters import mixed

BANDS, ROWS = 12, 4
MINIMA = BANDS * ROWS
ALIKE = 0.7
"""The share of equal minima from which two texts are near."""
FEWEST_WORDS = 5
"""Texts with fewer words are near nothing: one word would be too much of them."""
_SORTED_AT_ONCE = 1 << 19
_COMPARED_AT_ONCE = 1 << 16
_ROWS_AT_ONCE = 1 << 10
"""Sketches that are read together from the disk: many of the same texts are asked for, and those are neighbours."""


def signatures(words: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The minima of each text's words.

    Args:
        words: (W,) uint64 hashes of the words of all texts.
        bounds: (N + 1,): where those of each text begin, and where the last ones end.

    Returns:
        (N, 48) uint32. What stands for a text without words means nothing: see `FEWEST_WORDS`.
    """
    found = np.zeros((MINIMA, len(bounds) - 1), np.uint32)
    folded = (words >> np.uint64(32)).astype(np.uint32)
    begins = np.minimum(bounds[:-1], max(0, len(words) - 1))  # reduceat wants every start to exist
    if len(folded):
        for row, (flip, factor) in zip(found, _hashes(), strict=True):
            np.minimum.reduceat((folded ^ flip) * factor, begins, out=row)
    return found.T


def band_keys(signature: np.ndarray) -> np.ndarray:
    """(N, 12) uint64: equal where all minima of a band are."""
    rows = signature.reshape(len(signature), BANDS, ROWS)
    keys = np.zeros((len(signature), BANDS), np.uint64)
    for row in range(ROWS):
        keys = mixed(keys + rows[:, :, row])
    return keys


def sketches(signature: np.ndarray) -> np.ndarray:
    """(N, 48) uint8: the last byte of each minimum, enough to compare by (Li and König 2010, b-bit minwise hashing)."""
    return signature.astype(np.uint8)


def alike(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """(M,) bool: which rows of two (M, 48) arrays of sketches are of texts that are near each other."""
    return np.asarray((one == other).mean(axis=1) >= ALIKE)


class NearDuplicates:
    """Feed texts with :meth:`add`, then :meth:`find`. Closing it (or leaving its `with`) removes the temporary files.

    Args:
        fewest_words: texts with fewer are near nothing.
    """

    def __init__(self, fewest_words: int = FEWEST_WORDS) -> None:
        self.fewest_words = fewest_words
        self._files = ExitStack()
        self._bands: list[IO[bytes]] = [self._file() for _ in range(BANDS)]
        self._sketches = self._file()
        self._numbers = self._file()
        self._count = 0

    def __enter__(self) -> NearDuplicates:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._files.close()

    def _file(self) -> IO[bytes]:
        return self._files.enter_context(tempfile.TemporaryFile(prefix="pellucid-near-"))

    def add(self, words: np.ndarray, bounds: np.ndarray) -> None:
        """The words of the next texts, as for :func:`signatures`."""
        enough = np.flatnonzero(np.diff(bounds) >= self.fewest_words)
        signature = signatures(words, bounds)[enough]
        for file, keys in zip(self._bands, band_keys(signature).T, strict=True):
            file.write(keys.tobytes())
        self._sketches.write(sketches(signature).tobytes())
        self._numbers.write((enough + self._count).astype(np.uint32).tobytes())
        self._count += len(bounds) - 1

    def find(self) -> tuple[np.ndarray, np.ndarray]:
        """(M,) numbers of texts that are near an earlier one, ascending, and (M,) that earlier one."""
        self._sketches.flush()
        count = self._numbers.tell() // 4
        earliest = np.arange(count, dtype=np.uint32)
        for file in self._bands:
            for keys, rows in _parts(file, count):
                for later, earlier in _candidates(keys, rows):
                    new = earlier < earliest[later]
                    if not new.any():
                        continue
                    later, earlier = later[new], earlier[new]
                    near = alike(self._sketches_of(later), self._sketches_of(earlier))
                    np.minimum.at(earliest, later[near], earlier[near])
        found = np.flatnonzero(earliest < np.arange(count, dtype=np.uint32))
        self._numbers.seek(0)
        numbers = np.fromfile(self._numbers, np.uint32)
        return numbers[found].astype(np.int64), numbers[earliest[found]].astype(np.int64)

    def _sketches_of(self, rows: np.ndarray) -> np.ndarray:
        """(M, 48) uint8. Not through a map of the file: its pages would count as memory of this process."""
        wanted, place = np.unique(rows, return_inverse=True)
        found = np.empty((len(wanted), MINIMA), np.uint8)
        blocks, begins = np.unique(wanted // _ROWS_AT_ONCE, return_index=True)
        for block, begin, end in zip(blocks.tolist(), begins, [*begins[1:], len(wanted)], strict=True):
            self._sketches.seek(block * _ROWS_AT_ONCE * MINIMA)
            read = np.frombuffer(self._sketches.read(_ROWS_AT_ONCE * MINIMA), np.uint8).reshape(-1, MINIMA)
            found[begin:end] = read[wanted[begin:end] - block * _ROWS_AT_ONCE]
        return found[place]


def _parts(file: IO[bytes], count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(M,) uint64 keys of a band, and (M,) uint32 their rows, ascending; all that are equal come together."""
    parts, half = np.uint64(-(-count // _SORTED_AT_ONCE)), np.uint64(32)
    for part in range(int(parts)):
        keys, rows = [], []
        file.seek(0)
        for begin in range(0, count, _SORTED_AT_ONCE):
            some = np.frombuffer(file.read(8 * _SORTED_AT_ONCE), np.uint64)
            here = np.flatnonzero(((some >> half) * parts) >> half == part).astype(np.uint32)  # by their upper halves
            keys.append(some[here])
            rows.append(here + np.uint32(begin))
        yield np.concatenate(keys), np.concatenate(rows)


def _candidates(keys: np.ndarray, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that share a key: each with the first and with the last before it, some at a time."""
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    rows = rows[order]
    begins = np.ones(len(order), bool)
    begins[1:] = keys[1:] != keys[:-1]
    del keys, order
    same, starts = np.flatnonzero(~begins), np.flatnonzero(begins)
    for begin in range(0, len(same), _COMPARED_AT_ONCE):
        some = same[begin : begin + _COMPARED_AT_ONCE]
        yield rows[some], rows[starts[np.searchsorted(starts, some, side="right") - 1]]
        yield rows[some], rows[some - 1]


@lru_cache(maxsize=1)
def _hashes() -> tuple[tuple[np.uint32, np.uint32], ...]:
    """48 pairs of a number to flip bits with and an odd factor: each is a random order of all 32-bit numbers."""
    numbers = mixed(np.arange(2 * MINIMA)).astype(np.uint32).reshape(-1, 2)
    return tuple((flip, factor | np.uint32(1)) for flip, factor in numbers)
