"""Which reader serves which file name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import PurePath

from pellucid.config import DataConfig
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.tsv import read_tsv
from pellucid.errors import DataError

PairReader = Callable[[str, DataConfig], Iterator[SentencePair]]

READERS: dict[str, PairReader] = {".tsv": read_tsv}
COMPRESSED = {".gz", ".xz"}


def reader_for(path: str) -> PairReader:
    """The reader for a pair file by its suffix; standard input ("-") is TSV.

    Raises:
        DataError: no reader for this suffix.
    """
    if path == "-":
        return read_tsv
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in READERS:
        raise DataError(
            f"is no pair file that can be read: its name must end in {', '.join(READERS)} (also with .gz or .xz), "
            f"but ends in {suffix or 'nothing'}",
            file=path,
            hint="two aligned text files are named by --src FILE --tgt FILE",
        )
    return READERS[suffix]
