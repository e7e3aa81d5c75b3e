"""The pairs of all inputs, read again whenever they are needed; and what was dropped of them, and why."""

from __future__ import annotations

import hashlib
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pellucid.config import DataConfig
from pellucid.data.formats.lines import open_bytes
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.parallel import check_lengths, read_parallel
from pellucid.data.formats.registry import reader_for
from pellucid.errors import ConfigError, DataError

MOST_HELD_OUT = 1000


@dataclass
class CorpusReport:
    """How many pairs were read and kept, and why the others were dropped."""

    read: int = 0
    dropped: Counter[str] = field(default_factory=Counter)

    @property
    def kept(self) -> int:
        return self.read - self.dropped.total()

    def lines(self) -> list[str]:
        return [f"{self.read:,} pairs read, {self.kept:,} kept"] + [
            f"  {count:,} dropped: {why}" for why, count in self.dropped.most_common()
        ]


def why_dropped(pair: SentencePair) -> str | None:
    """The reason for leaving out a pair before it is cut into pieces, or None."""
    if pair.source is None or pair.target is None:
        return "bytes that are not UTF-8"
    source, target = pair.source.strip(), pair.target.strip()
    if not source and not target:
        return "empty"
    return "empty source" if not source else "empty target" if not target else None


@dataclass(frozen=True)
class Corpus:
    """Inputs in order: pair files, then aligned files. Iterating reads them from the start.

    `held_out` (share of the source texts, 0 to 1) and `inverse` make the two sides of :func:`split_valid`.
    """

    pairs: tuple[str, ...]
    aligned: tuple[tuple[str, str], ...]
    config: DataConfig
    held_out: float = 0.0
    inverse: bool = False

    @classmethod
    def from_files(cls, pairs: Sequence[str], src: Sequence[str], tgt: Sequence[str], config: DataConfig) -> Corpus:
        """Checks the names; standard input ("-") is copied to a temporary file, since it can be read only once.

        Raises:
            ConfigError: not as many `src` as `tgt`.
            DataError: an input that is not there, or of no known format.
        """
        if len(src) != len(tgt):
            raise ConfigError(
                f"--src and --tgt must come in pairs, but there are {len(src)} and {len(tgt)}",
                hint="--src a.en --tgt a.de --src b.en --tgt b.de",
            )
        names = [str(p) for p in pairs]
        for name in names:
            reader_for(name)
        for name in [*names, *map(str, src), *map(str, tgt)]:
            if name != "-" and not Path(name).is_file():
                raise DataError("there is no such file", file=name)
        names = [_spool() if name == "-" else name for name in names]
        return cls(tuple(names), tuple(zip(map(str, src), map(str, tgt), strict=True)), config)

    def check_lengths(self) -> None:
        """Read the aligned files through once.

        Raises:
            AlignmentError: files of different length.
        """
        for source, target in self.aligned:
            check_lengths(source, target)

    def _all(self) -> Iterator[SentencePair]:
        for path in self.pairs:
            yield from reader_for(path)(path, self.config)
        for source, target in self.aligned:
            yield from read_parallel(source, target, self.config)

    def __iter__(self) -> Iterator[SentencePair]:
        if not self.held_out:
            yield from () if self.inverse else self._all()
            return
        for pair in self._all():
            if (_place(pair.source or "") < self.held_out) == self.inverse:
                yield pair

    def fingerprint(self) -> str:
        """SHA-256 of the bytes of all inputs (decompressed) and of what decides how they are read."""
        digest = hashlib.sha256(repr((self.config.columns, self.config.skip_bad, self.held_out, self.inverse)).encode())
        for path in [*self.pairs, *(p for two in self.aligned for p in two)]:
            digest.update(b"\0file\0")
            with open_bytes(path) as file:
                while block := file.read(1 << 20):
                    digest.update(block)
        return digest.hexdigest()


def split_valid(corpus: Corpus, pairs: int) -> tuple[Corpus, Corpus]:
    """`corpus` without about `pairs` of its pairs (0 chooses: one in fifty, at most 1,000), and those.

    All pairs of one source text stay on one side, chosen by a hash of the text, so that no validation sentence has
    been trained on, whatever the order of the files.
    """
    total = sum(1 for pair in corpus if why_dropped(pair) is None)
    wanted = pairs or min(MOST_HELD_OUT, total // 50)
    share = min(0.5, wanted / total) if total else 0.0
    here, there = (Corpus(corpus.pairs, corpus.aligned, corpus.config, share, inverse) for inverse in (False, True))
    return here, there


def _place(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8"), digest_size=7).digest()) / (1 << 56)


def _spool() -> str:
    with tempfile.NamedTemporaryFile(suffix=".tsv", prefix="pellucid-stdin-", delete=False) as file:
        source = open_bytes("-")
        while block := source.read(1 << 20):
            file.write(block)
        return file.name
