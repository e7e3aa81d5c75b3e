"""Near-duplicates among millions of texts: MinHash (Broder 1997) with bands (Leskovec et al., Mining of Massive Datasets,
section 3.4), in numpy.

The Jaccard similarity of two sets of words is the chance that the smallest of a random hash over either set is the same.
48 such minima make a signature. Texts are compared only where all four minima of one of 12 bands agree, and are near
where at least seven tenths of the 48 do. So of two texts of ten words one word may differ, mostly two.

Why not a library: the well-kept one (datasketch) hashes a text at a time and keeps an index of Python objects. Here a
chunk of texts is hashed by one numpy operation a minimum, and the bands lie in temporary files and are sorted one after
the other, so that memory is a few numbers a text whatever the texts are.
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
_COMPARED_AT_ONCE = 1 << 18


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
        self._numbers.write((enough + self._count).astype(np.int64).tobytes())
        self._count += len(bounds) - 1

    def find(self) -> tuple[np.ndarray, np.ndarray]:
        """(M,) numbers of texts that are near an earlier one, ascending, and (M,) that earlier one."""
        numbers = _whole(self._numbers, np.int64)
        self._sketches.flush()
        # Only the rows of candidates are looked at: the rest need not come into memory.
        rows = len(numbers), MINIMA
        sketch = np.memmap(self._sketches, np.uint8, "r", shape=rows) if len(numbers) else np.zeros(rows, np.uint8)
        earliest = np.arange(len(numbers))
        for file in self._bands:
            for later, earlier in _candidates(_whole(file, np.uint64)):
                new = earlier < earliest[later]
                later, earlier = later[new], earlier[new]
                near = alike(sketch[later], sketch[earlier])
                np.minimum.at(earliest, later[near], earlier[near])
        found = np.flatnonzero(earliest < np.arange(len(numbers)))
        return numbers[found], numbers[earliest[found]]


def _candidates(keys: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Texts that share a key: each with the first and with the last before it, some at a time."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    del keys
    begins = np.ones(len(order), bool)
    begins[1:] = ordered[1:] != ordered[:-1]
    del ordered
    same, starts = np.flatnonzero(~begins), np.flatnonzero(begins)
    for begin in range(0, len(same), _COMPARED_AT_ONCE):
        some = same[begin : begin + _COMPARED_AT_ONCE]
        yield order[some], order[starts[np.searchsorted(starts, some, side="right") - 1]]
        yield order[some], order[some - 1]


def _whole(file: IO[bytes], dtype: type) -> np.ndarray:
    file.flush()
    file.seek(0)
    return np.fromfile(file, dtype)


@lru_cache(maxsize=1)
def _hashes() -> tuple[tuple[np.uint32, np.uint32], ...]:
    """48 pairs of a number to flip bits with and an odd factor: each is a random order of all 32-bit numbers."""
    numbers = mixed(np.arange(2 * MINIMA)).astype(np.uint32).reshape(-1, 2)
    return tuple((flip, factor | np.uint32(1)) for flip, factor in numbers)
