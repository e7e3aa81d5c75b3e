"""What is wrong with sentence pairs, found before they are trained on. Nothing is changed here.

One pass reads all pairs, some thousands at a time, and keeps numbers of them, no text: faults as bits, hashes, lengths.
What can only be said when all have been seen (what comes twice, what is usual) is said at the end. Examples are fetched
by a second reading.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from pellucid.data import rules
from pellucid.data.characters import Texts, tables
from pellucid.data.corpus import Corpus
from pellucid.data.formats.pair import SentencePair
from pellucid.data.near import FEWEST_WORDS, NearDuplicates, equal_keys
from pellucid.data.overlap import EvaluationSets
from pellucid.data.rules import BIT, RULES
from pellucid.data.shift import find_shifts

CHUNK = 4000
"""Pairs looked at together, at most,"""
CHUNK_CHARACTERS = 150_000
"""or of so many characters: a character takes some 50 bytes while it is looked at, and what fits into the processor's cache
is looked at faster."""
MAX_CHARACTERS = 1000
UNUSUAL_LENGTH = 2.0
"""A length ratio must be off by this factor at least to be an outlier,"""
UNUSUAL_SIGMAS = 6.0
"""and by so many standard deviations of its length (Gale and Church 1993: the deviation grows with the root of it),"""
UNUSUAL_CHARACTERS = 20
"""and by so many characters of one side or the other: short phrases are said in many ways."""
USUAL_SCRIPT = 0.1
"""A script in which this share of a side's texts is written is usual for it."""
CLEAR_SCRIPT = 0.8
"""With fewer of its letters in one script a text is in no script alone: it may name somebody in another."""
MOST_LINES = 1_000_000
"""Of longer files so many lines at a time are searched for shifts."""
JAPANESE = ("HAN", "HIRAGANA", "KATAKANA")
"""Where kana are usual, all of these are."""
FEWEST_LETTERS = 8
"""A text with fewer letters is in no wrong script: names and abbreviations are in Latin everywhere."""

SLOW = ("near-duplicate", "language")
"""What :class:`Check` does only when it is asked to."""
QUICK = tuple(name for name in RULES if name not in SLOW)

IsForeign = Callable[[Texts, Texts], np.ndarray]
"""Tells of N sources and targets which are in a wrong language, (N,) bool."""


class Example(NamedTuple):
    """A pair at fault. `like` is where the pair stands that it repeats, if it does."""

    file: str
    line: int
    source: str | None
    target: str | None
    like: str = ""


@dataclass(frozen=True)
class Fault:
    """One of RULES, how many pairs have it, and some of them."""

    rule: str
    count: int
    share: float
    examples: tuple[Example, ...] = ()


class Findings:
    """What :meth:`Check.finish` knows: for each pair its faults and lengths; no text."""

    def __init__(self, faults: np.ndarray, lengths: np.ndarray, ratio: float) -> None:
        self.faults = faults
        """(pairs,) uint32: the bits of `rules.BIT`."""
        self.lengths = lengths
        """(2, pairs) uint16: the characters of source and target, 65,535 for more."""
        self.ratio = ratio
        """The usual target characters for a source character."""
        self.scripts: tuple[dict[str, float], dict[str, float]] = ({}, {})
        """For source and target: the share of texts that each script has."""
        self.shifts: list[tuple[int, int, int]] = []
        """Begin, end (numbers of pairs from 0, the end not included) and by how many lines."""
        self.overlaps: dict[str, dict[str, int]] = {}
        """For each evaluation set: how many of its pairs are in the training set, by kind."""
        self.repeats: dict[str, tuple[np.ndarray, np.ndarray]] = {}
        """For faults of repetition: which pairs, and which each of them repeats."""
        self.overlap_places: dict[int, str] = {}
        """Of some pairs that stand in an evaluation set: where."""

    def __len__(self) -> int:
        return len(self.faults)

    def which(self, rule: str) -> np.ndarray:
        """(M,) the numbers of the pairs that have the fault, from 0."""
        return np.flatnonzero(self.faults & BIT[rule])

    def count(self, rule: str) -> int:
        return int(np.count_nonzero(self.faults & BIT[rule]))

    def counts(self) -> dict[str, int]:
        """Of the faults that were found, in the order of RULES."""
        counted = {rule: self.count(rule) for rule in RULES}
        return {rule: count for rule, count in counted.items() if count}


@dataclass
class _Kept:
    """What is kept of each chunk."""

    faults: list[np.ndarray] = field(default_factory=list)
    pair_hashes: list[np.ndarray] = field(default_factory=list)
    sources: list[np.ndarray] = field(default_factory=list)
    targets: list[np.ndarray] = field(default_factory=list)
    lengths: list[np.ndarray] = field(default_factory=list)
    scripts: list[np.ndarray] = field(default_factory=list)
    marks: list[np.ndarray] = field(default_factory=list)


class Check:
    """Feed pairs with :meth:`add`, then :meth:`finish`.

    Args:
        look_for: names of RULES; those of SLOW cost more than all the others.
        max_characters: for "too-long".
        evaluation: the sets that training pairs must not be in.
        is_foreign: tells which pairs "language" is to report.
    """

    def __init__(
        self,
        look_for: Iterable[str] = QUICK,
        *,
        max_characters: int = MAX_CHARACTERS,
        evaluation: EvaluationSets | None = None,
        is_foreign: IsForeign | None = None,
    ) -> None:
        self.look_for = frozenset(look_for)
        self.max_characters, self.evaluation, self.is_foreign = max_characters, evaluation, is_foreign
        self._near = NearDuplicates(2 * FEWEST_WORDS) if "near-duplicate" in self.look_for else None
        self._kept = _Kept()
        self._files: list[tuple[int, str]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, pairs: Sequence[SentencePair]) -> None:
        """Look at the next pairs."""
        for some in [pairs] if len(pairs) <= CHUNK else in_chunks(pairs):
            self._add(some)

    def _add(self, pairs: Sequence[SentencePair]) -> None:
        if not self._files or self._files[-1][1] != pairs[0].file or pairs[0].file != pairs[-1].file:
            for number, pair in enumerate(pairs, self._count):
                if not self._files or self._files[-1][1] != pair.file:
                    self._files.append((number, pair.file))
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        source, target = (Texts([text.strip() if text else "" for text in side]) for side in sides)
        faults = np.zeros(len(pairs), np.uint32)

        def report(rule: str, found: np.ndarray) -> None:
            if rule in self.look_for:
                faults[found] |= np.uint32(BIT[rule])

        bad = np.zeros(len(pairs), bool)
        for side in sides:
            if None in side:
                bad |= np.array([text is None for text in side])
        report("bad-bytes", bad)
        empty = rules.is_empty(source, target)
        report("empty", empty & ~bad)
        report("too-long", (source.lengths > self.max_characters) | (target.lengths > self.max_characters))
        for rule, test in _TESTS.items():
            if rule in self.look_for:
                report(rule, test(source, target) & ~empty)
        if self.is_foreign is not None and "language" in self.look_for:
            report("language", self.is_foreign(source, target) & ~empty)
        hashes = source.normalised_hashes(), target.normalised_hashes()
        if self.evaluation is not None:
            self._report_overlap(source, hashes[0], report)
        if self._near is not None:
            self._near.add(*_words_of_both(source, target))
        kept = self._kept
        exact = np.fromiter(map(hash, zip(source.texts, target.texts, strict=True)), np.int64, len(pairs))
        kept.pair_hashes.append(exact.view(np.uint64))
        kept.sources.append(hashes[0])
        kept.targets.append(hashes[1])
        kept.lengths.append(np.stack([np.minimum(side.lengths, 65535).astype(np.uint16) for side in (source, target)]))
        kept.scripts.append(np.stack([_clear_script(side) for side in (source, target)]))
        kept.marks.append(np.stack([rules.marks(side) for side in (source, target)]))
        kept.faults.append(faults)
        self._count += len(pairs)

    def _report_overlap(self, source: Texts, hashes: np.ndarray, report: Callable[[str, np.ndarray], None]) -> None:
        assert self.evaluation is not None
        for rule, found in self.evaluation.look_up(source, hashes, self._count).items():
            report(rule, found)

    def finish(self) -> Findings:
        """What has been found in all."""
        kept = self._kept
        faults = np.concatenate([np.zeros(0, np.uint32), *kept.faults])
        lengths = np.concatenate([np.zeros((2, 0), np.uint16), *kept.lengths], axis=1)
        filled = np.flatnonzero((lengths > 0).all(axis=0))
        ratio, outliers = _length_outliers(lengths[:, filled])
        findings = Findings(faults, lengths, ratio)
        self._set(faults, "length-ratio", filled[outliers])
        self._find_repeats(findings, filled)
        self._find_scripts(findings, filled)
        if "shifted" in self.look_for:
            self._find_shifted(findings)
        if self.evaluation is not None:
            findings.overlaps = self.evaluation.counts()
            findings.overlap_places = self.evaluation.places
        return findings

    def close(self) -> None:
        """Remove temporary files, if it has any. :meth:`finish` does it too."""
        if self._near is not None:
            self._near.close()

    def _set(self, faults: np.ndarray, rule: str, which: np.ndarray) -> None:
        if rule in self.look_for:
            faults[which] |= np.uint32(BIT[rule])

    def _find_repeats(self, findings: Findings, filled: np.ndarray) -> None:
        kept, faults = self._kept, findings.faults
        if not len(filled):
            self.close()
            return
        seen, among = np.zeros((2, len(faults)), bool)
        among[filled] = True

        def pairs() -> Iterator[np.ndarray]:
            for source, target in zip(kept.sources, kept.targets, strict=True):
                yield target * np.uint64(0x9E3779B97F4A7C15) + source

        for rule, which in (
            ("duplicate", lambda: repeated(lambda: kept.pair_hashes, among)),
            ("duplicate-normalised", lambda: repeated(pairs, among)),
            ("near-duplicate", self._near_duplicates),
            ("one-to-many", lambda: repeated(lambda: kept.sources, among)),
        ):
            later, earlier = which()
            new = ~seen[later]
            later, earlier = later[new], earlier[new]
            if rule != "near-duplicate":  # pairs that are near, with one source, are one-to-many too
                seen[later] = True
            self._set(faults, rule, later)
            findings.repeats[rule] = later, earlier

    def _near_duplicates(self) -> tuple[np.ndarray, np.ndarray]:
        if self._near is None:
            return np.zeros(0, np.int64), np.zeros(0, np.int64)
        with self._near:
            return self._near.find()

    def _find_scripts(self, findings: Findings, filled: np.ndarray) -> None:
        names = tables().script_names
        scripts = np.concatenate([np.zeros((2, 0), np.uint8), *self._kept.scripts], axis=1)
        wrong = np.zeros(len(findings), bool)
        for side in (0, 1):
            counts = np.bincount(scripts[side], minlength=len(names))
            counts[0] = 0
            shares = counts / max(1, counts.sum())
            findings.scripts[side].update((names[i], float(shares[i])) for i in np.argsort(-shares) if shares[i] > 0)
            usual = shares >= USUAL_SCRIPT
            japanese = [names.index(name) for name in JAPANESE]
            usual[japanese] |= usual[japanese[1:]].any()
            wrong |= ~usual[scripts[side]] & (scripts[side] > 0)
        self._set(findings.faults, "script", filled[wrong[filled]])

    def _find_shifted(self, findings: Findings) -> None:
        marks = np.concatenate([np.zeros((2, 0), np.uint8), *self._kept.marks], axis=1)
        begins = sorted({*(number for number, _ in self._files), *range(0, len(findings), MOST_LINES)})
        for begin, end in pairwise([*begins, len(findings)]):
            here = slice(begin, end)
            for shift in find_shifts(*findings.lengths[:, here], *marks[:, here]):
                stretch = slice(begin + shift.begin, begin + shift.end)
                findings.shifts.append((stretch.start, stretch.stop, shift.by))
                findings.faults[stretch] |= np.uint32(BIT["shifted"])


_TESTS = {
    "same-sides": rules.has_same_sides,
    "mixed-script": rules.mixes_scripts,
    "mojibake": rules.is_mojibake,
    "control": rules.has_control,
    "invisible": rules.has_invisible,
    "bidi": rules.has_bidi,
    "numbers": rules.has_other_numbers,
    "addresses": rules.has_other_addresses,
    "placeholders": rules.has_other_placeholders,
}


def check_corpus(corpus: Corpus, check: Check, progress: Callable[[int], None] | None = None) -> Findings:
    """Read `corpus` through `check`; `progress` is told how many pairs have been read."""
    try:
        for some in in_chunks(corpus):
            check.add(some)
            if progress is not None:
                progress(len(check))
        return check.finish()
    finally:
        check.close()


def faults_with_examples(corpus: Corpus, findings: Findings, examples: int = 3) -> list[Fault]:
    """The faults that were found, each with its first pairs. Reads the corpus as far as the last of them."""
    wanted: dict[str, list[int]] = {rule: findings.which(rule)[:examples].tolist() for rule in RULES}
    like: dict[tuple[str, int], int] = {}
    for rule, numbers in wanted.items():
        later, earlier = findings.repeats.get(rule, (np.zeros(0, np.int64),) * 2)
        order = np.argsort(later, kind="stable")
        for number in numbers:
            place = np.searchsorted(later, number, sorter=order)
            if place < len(later) and later[order[place]] == number:
                like[rule, number] = int(earlier[order[place]])
    pairs = _fetch(corpus, {*(n for numbers in wanted.values() for n in numbers), *like.values()})

    def example(rule: str, number: int) -> Example:
        pair = pairs[number]
        other = pairs.get(like.get((rule, number), -1))
        where = f"{other.file}:{other.line}" if other is not None else ""
        if rule.startswith("overlap"):
            where = findings.overlap_places.get(number, "")
        return Example(pair.file, pair.line, pair.source, pair.target, where)

    return [
        Fault(rule, count, count / len(findings), tuple(example(rule, number) for number in wanted[rule]))
        for rule, count in findings.counts().items()
    ]


def _fetch(corpus: Iterable[SentencePair], numbers: set[int]) -> dict[int, SentencePair]:
    found: dict[int, SentencePair] = {}
    if numbers:
        for number, pair in enumerate(islice(corpus, max(numbers) + 1)):
            if number in numbers:
                found[number] = pair
    return found


def places(corpus: Corpus, numbers: Iterable[int]) -> dict[int, str]:
    """Where pairs stand, as file:line."""
    return {number: f"{pair.file}:{pair.line}" for number, pair in _fetch(corpus, set(numbers)).items()}


def repeated(hashes: Callable[[], Iterable[np.ndarray]], among: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(M,) the places whose number has come before, and (M,) the first place of each of those numbers.

    Args:
        hashes: gives N uint64 numbers, in arrays; is asked several times.
        among: (N,) bool: which of them are looked at.
    """
    found = [(np.zeros(0, np.int64),) * 2]
    for places, same, first in equal_keys(hashes, len(among), among):
        found.append((places[same].astype(np.int64), places[first].astype(np.int64)))
    later, earlier = (np.concatenate(side) for side in zip(*found, strict=True))
    return later, earlier


def _length_outliers(lengths: np.ndarray) -> tuple[float, np.ndarray]:
    """The usual ratio of (2, N) lengths, and (N,) bool: which ratios are far from it for their length."""
    if not lengths.shape[1]:
        return 1.0, np.zeros(0, bool)
    source, target = lengths.astype(np.float32)
    away = np.log(target / source)
    usual = float(np.median(away))
    away -= usual
    root = np.sqrt((source + target * np.exp(-usual)) / 2)
    sigma = max(0.5, 1.4826 * float(np.median(np.abs(away * root))))
    ratio = float(np.exp(usual))
    surplus = np.abs(target - ratio * source) * max(1.0, 1 / ratio)
    far = (np.abs(away) > np.log(UNUSUAL_LENGTH)) & (np.abs(away) * root > UNUSUAL_SIGMAS * sigma)
    return ratio, far & (surplus >= UNUSUAL_CHARACTERS)


def _clear_script(texts: Texts) -> np.ndarray:
    """(N,) uint8: the script that most of a text's letters are of; 0 where it has few letters, or many of others."""
    script, letters, of_all = texts.main_scripts
    return np.where((letters >= FEWEST_LETTERS) & (letters >= CLEAR_SCRIPT * of_all), script, 0).astype(np.uint8)


def _words_of_both(source: Texts, target: Texts) -> tuple[np.ndarray, np.ndarray]:
    """The words of pairs, those of the source first: (W,) hashes and (N + 1,) bounds."""
    bounds = source.word_bounds + target.word_bounds
    words = np.empty(bounds[-1], np.uint64)
    for side, before, flip in ((source, target.word_bounds[:-1], 0), (target, source.word_bounds[1:], 1)):
        counts = np.diff(side.word_bounds)
        words[np.arange(side.word_bounds[-1]) + np.repeat(before, counts)] = side.words() ^ np.uint64(flip << 63)
    return words, bounds


def in_chunks(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    """Lists of CHUNK pairs, or fewer where those are long."""
    chunk: list[SentencePair] = []
    characters = 0
    for pair in pairs:
        chunk.append(pair)
        characters += len(pair.source or "") + len(pair.target or "")
        if len(chunk) >= CHUNK or characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
