"""Which reader serves which file name. A format is one module in this folder that calls :func:`register`."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import PurePath

from pellucid.config import DataConfig
from pellucid.data import formats
from pellucid.data.formats.lines import COMPRESSED
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import DataError

PairReader = Callable[[str, DataConfig], Iterator[SentencePair]]

_READERS: dict[str, PairReader] = {}
STANDARD_INPUT = ".tsv"
"""How pairs from standard input are read."""


def register(*suffixes: str) -> Callable[[PairReader], PairReader]:
    """A decorator: the function below reads files whose names end in `suffixes` (lower case, with the dot)."""

    def remember(reader: PairReader) -> PairReader:
        _READERS.update(dict.fromkeys(suffixes, reader))
        return reader

    return remember


def known_suffixes() -> tuple[str, ...]:
    """The suffixes that have a reader."""
    _import_formats()
    return tuple(sorted(_READERS))


def reader_for(path: str) -> PairReader:
    """The reader for a pair file, by its suffix (below .gz or .xz); standard input ("-") is TSV.

    Raises:
        DataError: no reader for this suffix.
    """
    known = known_suffixes()
    if path == "-":
        return _READERS[STANDARD_INPUT]
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _READERS:
        raise DataError(
            f"a file of pairs must end in {' or '.join(known)} (also with .gz or .xz), but this ends in "
            f"{suffix or 'no suffix'}",
            file=path,
            hint="two aligned text files, one a language, are named by --src FILE --tgt FILE",
        )
    return _READERS[suffix]


@lru_cache(maxsize=1)
def _import_formats() -> None:
    for module in pkgutil.iter_modules(formats.__path__):
        importlib.import_module(f"{formats.__name__}.{module.name}")
