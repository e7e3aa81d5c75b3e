"""Which training sources stand in a validation or test set: what a model has seen is no measure of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from pellucid.data.characters import Texts
from pellucid.data.formats.pair import SentencePair
from pellucid.data.near import BANDS, FEWEST_WORDS, alike, band_keys, signatures, sketches

KINDS = ("overlap", "overlap-normalised", "overlap-near")
REMEMBERED = 100
"""Of so many training pairs a kind it is remembered which evaluation pair they are like."""


class _Held(NamedTuple):
    name: str
    where: str
    text: str


class EvaluationSets:
    """The sources of all evaluation sets (in memory: they are small), to look training sources up in.

    Args:
        near: look for near-duplicates too, which takes longer than all the rest.
    """

    def __init__(self, sets: Mapping[str, Iterable[SentencePair]], *, near: bool = True) -> None:
        self._held = [
            _Held(name, f"{pair.file}:{pair.line}", pair.source.strip())
            for name, pairs in sets.items()
            for pair in pairs
            if pair.source and pair.source.strip()
        ]
        self.names = list(sets)
        self.places: dict[int, str] = {}
        """Of the first training pairs of each kind: where what they are like stands."""
        self._found: dict[str, set[int]] = {kind: set() for kind in KINDS}
        self._told = dict.fromkeys(KINDS, 0)
        texts = Texts([held.text for held in self._held])
        hashes = texts.normalised_hashes()
        self._order = np.argsort(hashes, kind="stable")
        self._hashes = hashes[self._order]
        self._bands: list[tuple[np.ndarray, np.ndarray]] = []
        if near and len(self._held):
            signature = signatures(texts.words(), texts.word_bounds)
            self._sketches = sketches(signature)
            enough = np.flatnonzero(np.diff(texts.word_bounds) >= FEWEST_WORDS)
            for keys in band_keys(signature[enough]).T:
                order = np.argsort(keys, kind="stable")
                self._bands.append((keys[order], enough[order]))

    def look_up(self, source: Texts, hashes: np.ndarray, first: int) -> dict[str, np.ndarray]:
        """For each of KINDS (N,) bool: which of the texts, pairs number `first` and on, overlap in that way alone."""
        found = {kind: np.zeros(len(source), bool) for kind in KINDS}
        texts, held = _matches(hashes, np.arange(len(source)), self._hashes, self._order)
        for i, k in zip(texts.tolist(), held.tolist(), strict=True):
            self._note("overlap" if source.texts[i] == self._held[k].text else "overlap-normalised", i, k, first, found)
        found["overlap-normalised"] &= ~found["overlap"]
        if self._bands:
            signature = signatures(source.words(), source.word_bounds)
            enough = np.flatnonzero(np.diff(source.word_bounds) >= FEWEST_WORDS)
            keys, sketch = band_keys(signature[enough]), sketches(signature)
            for band in range(BANDS):
                texts, held = _matches(keys[:, band], enough, *self._bands[band])
                near = alike(sketch[texts], self._sketches[held])
                for i, k in zip(texts[near].tolist(), held[near].tolist(), strict=True):
                    if not (found["overlap"][i] or found["overlap-normalised"][i]):
                        self._note("overlap-near", i, k, first, found)
        return found

    def _note(self, kind: str, i: int, k: int, first: int, found: dict[str, np.ndarray]) -> None:
        self._found[kind].add(k)
        known = first + i in self.places
        closer = known and kind == "overlap" and not found["overlap"][i]
        found[kind][i] = True
        if closer or (not known and self._told[kind] < REMEMBERED):
            self._told[kind] += 1
            self.places[first + i] = self._held[k].where

    def counts(self) -> dict[str, dict[str, int]]:
        """For each set: of how many of its pairs the source was seen in training; each pair under its closest kind."""
        counted = {name: dict.fromkeys(KINDS, 0) | {"pairs": 0} for name in self.names}
        for held in self._held:
            counted[held.name]["pairs"] += 1
        seen: set[int] = set()
        for kind in KINDS:
            for k in self._found[kind] - seen:
                counted[self._held[k].name][kind] += 1
            seen |= self._found[kind]
        return counted


def _matches(
    wanted: np.ndarray, numbers: np.ndarray, ordered: np.ndarray, held: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a number and a member of `held` whose keys in `wanted` and (sorted) `ordered` are equal."""
    begin, end = (np.searchsorted(ordered, wanted, side=side) for side in ("left", "right"))
    hit = np.flatnonzero(end > begin)
    times = end[hit] - begin[hit]
    offsets = np.arange(times.sum()) - np.repeat(np.cumsum(times) - times, times)
    return np.repeat(numbers[hit], times), held[np.repeat(begin[hit], times) + offsets]
