"""The pairs of all inputs, read again whenever they are needed; what was dropped of them, and why; what is held out."""

from __future__ import annotations

import atexit
import dataclasses
import hashlib
import os
import stat
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.formats.lines import open_bytes
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.parallel import check_lengths, read_parallel
from pellucid.data.formats.registry import STANDARD_INPUT, reader_for
from pellucid.errors import ConfigError, DataError
from pellucid.tags import assigned, shown, target_languages

MOST_HELD_OUT = 1000
MOST_PROBLEMS = 10
"""Broken units that a report tells of, one by one; the others are counted."""

REASONS = {
    "bad bytes": "a side is not UTF-8",
    "broken": "a unit of the file cannot be read",
    "empty": "both sides are empty",
    "empty source": "the source is empty",
    "empty target": "the target is empty",
    "too long": "a side has more pieces than data.max_tokens",
    "ratio": "one side is longer than the other by more than data.max_ratio",
}
"""Why a pair may be dropped, in the words of :class:`CorpusReport`, with what each means."""


@dataclass
class CorpusReport:
    """How many pairs were read and kept, and for which of :data:`REASONS` the others were dropped."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """What is wrong with the first broken units, and where they stand."""

    def drop(self, pair: SentencePair, why: str) -> None:
        """Count a pair that is left out."""
        self.dropped[why] += 1
        if pair.problem is not None and len(self.problems) < MOST_PROBLEMS:
            self.problems.append(f"{pair.where}: left out: {pair.problem}")

    @property
    def kept(self) -> int:
        return self.read - self.dropped.total()

    def lines(self) -> list[str]:
        """For people: one line for the whole, one for each reason."""
        total = f"{self.read:,} pairs read, {self.kept:,} kept"
        each = [f"  {count:,} {why}: {REASONS.get(why, why)}" for why, count in self.dropped.most_common() if count]
        return [f"{total}, {self.dropped.total():,} dropped" if each else total, *each]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "read": self.read, "kept": self.kept, "dropped": dict(sorted(self.dropped.items())),
            "problems": self.problems,
        }  # fmt: skip

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> CorpusReport:
        """What :meth:`as_dict` gave."""
        dropped = Counter({str(why): int(n) for why, n in values["dropped"].items()})
        return cls(int(values["read"]), dropped, [str(problem) for problem in values.get("problems", [])])


def why_dropped(pair: SentencePair) -> str | None:
    """Which of :data:`REASONS` drops a pair before it is cut into pieces, or None. White space alone is empty."""
    if pair.source is None or pair.target is None:
        return "bad bytes" if pair.problem is None else "broken"
    source, target = pair.source and not pair.source.isspace(), pair.target and not pair.target.isspace()
    if source and target:
        return None
    return "empty target" if source else "empty source" if target else "empty"


@dataclass(frozen=True)
class _Input:
    """Pairs from one place: `path` a file of pairs, or with `aligned` two files. `names` is what messages call them."""

    path: str
    aligned: str | None
    names: tuple[str, ...]
    tags: tuple[str, ...] = ()
    """What stands before each source."""

    @property
    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.aligned is None else (self.path, self.aligned)


@dataclass(frozen=True)
class Corpus:
    """Inputs in order: files of pairs, then aligned files. Iterating reads them from the start, as often as one likes.

    `held_out` (hashes of source texts, see :func:`split_valid`) leaves the pairs of those texts out; with `inverse` it
    leaves out all the others.
    """

    inputs: tuple[_Input, ...]
    config: DataConfig
    held_out: frozenset[int] = frozenset()
    inverse: bool = False

    @classmethod
    def from_files(cls, pairs: Sequence[str], src: Sequence[str], tgt: Sequence[str], config: DataConfig) -> Corpus:
        """Check the names. What can be read only once ("-", a pipe) is copied to a temporary file.

        Raises:
            ConfigError: not as many `src` as `tgt`, no input at all, or standard input twice.
            DataError: an input that is not there, or a file of pairs of no known format.
        """
        pairs, src, tgt = ([os.fspath(p) for p in paths] for paths in (pairs, src, tgt))
        if len(src) != len(tgt):
            raise ConfigError(
                f"--src and --tgt must be named equally often, but are named {len(src)} and {len(tgt)} times",
                hint="--src a.en --tgt a.de --src b.en --tgt b.de",
            )
        if not pairs and not src:
            raise ConfigError("there must be an input", hint="name a file of pairs (.tsv), or --src FILE --tgt FILE")
        if [*pairs, *src, *tgt].count("-") > 1:
            raise ConfigError('standard input ("-") must be named once at most')
        inputs = []
        for path in pairs:
            if not _only_once(path):
                reader_for(path)
            inputs.append(_Input(_rereadable(path, STANDARD_INPUT), None, (path,), config.tags_of(path)))
        for source, target in zip(src, tgt, strict=True):
            names = source, target
            inputs.append(_Input(_rereadable(source), _rereadable(target), names, config.tags_of(*names)))
        return cls(tuple(inputs), config)

    def check_lengths(self) -> None:
        """Read the aligned files through once.

        Raises:
            AlignmentError: files of different length.
        """
        for item in self.inputs:
            if item.aligned is not None:
                with _named(item):
                    check_lengths(item.path, item.aligned)

    def __iter__(self) -> Iterator[SentencePair]:
        if self.inverse and not self.held_out:
            return
        for item in self.inputs:
            with _named(item):
                for pair in self._read(item):
                    if not self.held_out or (_hash(pair.source) in self.held_out) == self.inverse:
                        yield pair

    def parts(self) -> list[Corpus]:
        """One corpus an input, in order: what this one yields, input by input."""
        return [dataclasses.replace(self, inputs=(item,)) for item in self.inputs]

    @property
    def tags(self) -> list[str]:
        """All tags of its inputs, by name."""
        return sorted({tag for item in self.inputs for tag in item.tags})

    def _read(self, item: _Input) -> Iterator[SentencePair]:
        if item.aligned is not None:
            pairs = read_parallel(item.path, item.aligned, self.config)
        else:
            # Of a file with several languages, that which its tags name is read.
            target = [*target_languages(item.tags), self.config.target_language][0]
            pairs = reader_for(item.path)(item.path, dataclasses.replace(self.config, target_language=target))
        name = item.names[0]
        pairs = pairs if name == item.path else (pair._replace(file=name) for pair in pairs)
        return pairs if item.aligned is not None or _is_tsv(item.path) else map(_on_one_line, pairs)

    def fingerprint(self) -> str:
        """SHA-256 of the bytes of all inputs, of how they are read and of what is held out. Names do not count."""
        digest = hashlib.sha256(repr((self.config.columns, self.config.skip_bad, self.inverse)).encode())
        digest.update(repr(sorted(self.held_out)).encode())
        if any(item.aligned is None and not _is_tsv(item.path) for item in self.inputs):
            chosen = (self.config.source_language, self.config.target_language, self.config.fuzzy, self.config.obsolete)
            digest.update(repr(chosen).encode())  # what is read of a file with several languages
        for item in self.inputs:
            digest.update(b"pairs" if item.aligned is None else b"aligned")
            if item.tags:
                digest.update(repr(item.tags).encode())
            for path in item.paths:
                digest.update(
                    Path(path).suffix.encode() + _digest(path, *_size_and_time(path))
                )  # suffix: how it is read
        return digest.hexdigest()


def check_tags(corpus: Corpus, valid: Corpus | None = None) -> None:
    """Nothing, if the tags of the settings are those of the inputs, and go together.

    Args:
        valid: what is validated on, if that is in files of its own.

    Raises:
        ConfigError: a file that is no input; some with and some without a target language; a tag to validate on that no
            training pair has.
    """
    inputs = [*corpus.inputs, *(valid.inputs if valid is not None else ())]
    names = list(dict.fromkeys(name for item in inputs for name in item.names))
    for file, tags in map(assigned, corpus.config.tags):
        if file not in names:
            raise ConfigError(
                f"tags must be those of an input, but {file} (with {shown(tags)}) is none of them: {', '.join(names)}",
                hint="name the file as the input is named",
            )
    without = [item.names[-1] for item in inputs if not target_languages(item.tags)]
    if (languages := target_languages(corpus.tags)) and without:
        raise ConfigError(
            f"where one file has a target language all must have one, but {', '.join(without)} has none",
            hint=f"--tag {without[0]}=2{languages[0]}",
        )
    if valid is not None and (unknown := [tag for tag in valid.tags if tag not in corpus.tags]):
        raise ConfigError(f"no pair to train on has the tags {shown(unknown)} of those to validate on")


def split_valid(corpus: Corpus, pairs: int = 0) -> tuple[Corpus, Corpus]:
    """`corpus` without about `pairs` of its pairs (0 chooses: one in fifty, at most 1,000), and those.

    All pairs of one source text stay on one side, so that no validation sentence has been trained on. Texts are chosen
    by a hash of the text: the order of the pairs does not matter, and other pairs do not change which side a text is
    more likely on. Never more than `pairs`, nor more than half.
    """
    hashes = np.fromiter((_hash(pair.source) for pair in corpus if why_dropped(pair) is None), np.uint64)
    wanted = min(pairs, len(hashes) // 2) if pairs else min(MOST_HELD_OUT, len(hashes) // 50)
    held_out = frozenset(choose_texts(hashes, wanted).tolist())
    return dataclasses.replace(corpus, held_out=held_out), dataclasses.replace(corpus, held_out=held_out, inverse=True)


def choose_texts(hashes: np.ndarray, wanted: int) -> np.ndarray:
    """The smallest of some hashes of texts, so many that about `wanted` pairs have one of them, and never more.

    A text with more pairs than are still wanted is passed over.

    Args:
        hashes: (pairs,) uint64, equal for pairs of one text.
    """
    chosen: list[int] = []
    values, counts = np.unique(hashes, return_counts=True)
    for value, count in zip(values.tolist(), counts.tolist(), strict=True):
        if wanted <= 0:
            break
        if count <= wanted:
            chosen.append(value)
            wanted -= count
    return np.array(chosen, np.uint64)


def _on_one_line(pair: SentencePair) -> SentencePair:
    """Texts of units may have line ends, which would make two lines of one wherever text is written by lines."""
    if "\n" not in (pair.source or "") and "\n" not in (pair.target or ""):
        return pair
    source, target = (side and side.replace("\r\n", " ").replace("\n", " ") for side in pair[:2])
    return pair._replace(source=source, target=target)


def _is_tsv(path: str) -> bool:
    return path == "-" or reader_for(path) is reader_for("-")


def _hash(text: str | None) -> int:
    """64 bits that depend on the text alone (white space around it apart)."""
    if text is None:
        return -1
    return int.from_bytes(hashlib.blake2b(text.strip().encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


@lru_cache(maxsize=256)
def _digest(path: str, size: int, mtime_ns: int) -> bytes:
    """SHA-256 of a file; read again only when size or time have changed."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error


def _size_and_time(path: str) -> tuple[int, int]:
    try:
        state = os.stat(path)
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", file=path) from error
    return state.st_size, state.st_mtime_ns


def _only_once(path: str) -> bool:
    """Standard input, a pipe or a terminal: what has been read of it is gone. Raises DataError if there is no file."""
    if path == "-":
        return True
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", file=path) from error
    if stat.S_ISDIR(mode):
        raise DataError("must be a file, but is a folder", file=path)
    return not stat.S_ISREG(mode)


def _rereadable(path: str, suffix: str = "") -> str:
    """`path`, or a copy of what it gives in a temporary file that goes when the program ends."""
    if not _only_once(path):
        return path
    source = open_bytes(path)
    with tempfile.NamedTemporaryFile(prefix="pellucid-", suffix=suffix, delete=False) as copy:
        atexit.register(_remove, copy.name)
        while block := source.read(1 << 20):
            copy.write(block)
    if path != "-":
        source.close()
    return copy.name


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


class _named:
    """Errors that pass through call an input by the name that the user gave it, not by that of a temporary copy."""

    def __init__(self, item: _Input) -> None:
        self.names = [(path, name) for path, name in zip(item.paths, item.names, strict=True) if path != name]

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, DataError):
            for path, name in self.names:
                shown = "standard input" if name == "-" else name
                error.args = tuple(str(a).replace(path, shown) for a in error.args)
                error.hint = error.hint and error.hint.replace(path, shown)
                error.file = shown if error.file == path else error.file
