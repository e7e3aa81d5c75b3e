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
from collections.abc import Callable, Iterable, Iterator
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
_SORTED_AT_ONCE = 1 << 18
_MOST_PARTS = 32
"""All keys are read once a part: of very many texts larger parts are sorted, so that the time grows no faster than they."""
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
            for later, earlier in _candidates(file, count):
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


def _candidates(band: IO[bytes], count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Rows that share a key: each with the first and with the last before it, some at a time."""

    def keys() -> Iterator[np.ndarray]:
        band.seek(0)
        while read := band.read(8 * _SORTED_AT_ONCE):
            yield np.frombuffer(read, np.uint64)

    for rows, same, first in equal_keys(keys, count):
        for begin in range(0, len(same), _COMPARED_AT_ONCE):
            some = slice(begin, begin + _COMPARED_AT_ONCE)
            yield rows[same[some]], rows[first[some]]
            yield rows[same[some]], rows[same[some] - 1]


def equal_keys(
    chunks: Callable[[], Iterable[np.ndarray]], count: int, among: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Which keys are equal, in parts of which none takes much memory; all that are equal are in one part.

    Args:
        chunks: gives `count` uint64 keys, in arrays; is asked again for every part.
        among: (count,) bool: which of them are looked at; None: all.

    Yields:
        (M,) uint32: the places of keys, so that equal ones stand together, ascending; (R,) where in that array those
        stand that are equal to the one before; (R,) where the first one stands that each of them is equal to.
    """
    parts, half = np.uint64(min(_MOST_PARTS, -(-count // _SORTED_AT_ONCE))), np.uint64(32)
    for part in range(int(parts)):
        keys, places, begin = [], [], 0
        for some in chunks():
            is_here = ((some >> half) * parts) >> half == part  # by their upper halves
            if among is not None:
                is_here &= among[begin : begin + len(some)]
            here = np.flatnonzero(is_here).astype(np.uint32)
            keys.append(some[here])
            places.append(here + np.uint32(begin))
            begin += len(some)
        yield _grouped(np.concatenate(keys), np.concatenate(places))


def _grouped(keys: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    order = np.argsort(keys, kind="stable")
    keys = keys[order]
    begins = np.ones(len(order), bool)
    begins[1:] = keys[1:] != keys[:-1]
    same, starts = np.flatnonzero(~begins), np.flatnonzero(begins)
    return places[order], same, starts[np.searchsorted(starts, same, side="right") - 1]


@lru_cache(maxsize=1)
def _hashes() -> tuple[tuple[np.uint32, np.uint32], ...]:
    """48 pairs of a number to flip bits with and an odd factor: each is a random order of all 32-bit numbers."""
    numbers = mixed(np.arange(2 * MINIMA)).astype(np.uint32).reshape(-1, 2)
    return tuple((flip, factor | np.uint32(1)) for flip, factor in numbers)
