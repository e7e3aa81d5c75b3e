"""Comma-separated values with a header, as spreadsheets write them: quoted fields, commas and line ends inside.

The first line names the columns; commas, semicolons or tabs separate them. A quotation mark that is never closed would
swallow all lines that follow: a field of more than :data:`MOST_FIELD` characters, and a record of more than
:data:`MOST_RECORD`, are broken, and reading goes on with the next line.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator

from pellucid.config import DataConfig
from pellucid.data.formats.columns import named_columns
from pellucid.data.formats.lines import read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.errors import DataError

MOST_FIELD = csv.field_size_limit()
MOST_RECORD = 1 << 20
"""Characters. It bounds the number of fields too, each of which takes some 60 bytes however short it is."""
SEPARATORS = ",;\t"


@register(".csv")
def read_csv(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a file, each with the line on which its record begins; a broken record says why.

    Columns are `config.columns`, or found by their names: see :func:`~pellucid.data.formats.columns.named_columns`.

    Raises:
        DataError: a header that does not say which columns are meant.
        EncodingError: bytes that are not UTF-8, unless `config.skip_bad`.
    """
    lines = _Lines(path, config.skip_bad)
    try:
        first = next(lines, None)
    except csv.Error as error:
        raise DataError(f"the first line must name the columns, but has {error}", file=path, line=1) from None
    if first is None:
        return
    separator, header = _header(first, path)
    source, target = _columns(header, config, path)
    records = csv.reader(lines, delimiter=separator, strict=True)
    while True:
        number = lines.begin_record()
        try:
            fields = next(records)
        except StopIteration:
            return
        except csv.Error as error:
            yield SentencePair(None, None, path, number, problem=f"no record of CSV: {error}")
            continue
        if not fields:
            continue
        if any("\ufffd" in field for field in fields) and config.skip_bad:
            yield SentencePair(None, None, path, number)
        elif len(fields) <= max(source, target):
            problem = f"{len(fields)} columns, where the header has {len(header)}"
            yield SentencePair(None, None, path, number, problem=problem)
        else:
            yield SentencePair(fields[source], fields[target], path, number)


class _Lines:
    """The lines of a file for `csv.reader`, as long as they are not too many for one record."""

    def __init__(self, path: str, skip_bad: bool) -> None:
        self._lines = read_lines(path, skip_bad=skip_bad)
        self._number = self._characters = 0

    def begin_record(self) -> int:
        """The number of its first line."""
        self._characters = 0
        return self._number + 1

    def __iter__(self) -> Iterator[str]:
        return self

    def __next__(self) -> str:
        self._number, text, _ = next(self._lines)
        line = f"{text if text is not None else chr(0xFFFD)}\n"
        self._characters += len(line)
        if self._characters > MOST_RECORD:
            raise csv.Error(f"more than {MOST_RECORD:,} characters")
        return line


def _header(line: str, path: str) -> tuple[str, list[str]]:
    """The separator (the one that makes most columns), and the names."""
    try:
        found = [(separator, next(csv.reader([line], delimiter=separator))) for separator in SEPARATORS]
    except csv.Error as error:
        raise DataError(f"the first line must name the columns, but is no CSV: {error}", file=path, line=1) from None
    return max(found, key=lambda each: len(each[1]))


def _columns(header: list[str], config: DataConfig, path: str) -> tuple[int, int]:
    if config.columns is not None:
        if max(config.columns) > len(header):
            raise DataError(
                f"must have at least {max(config.columns)} columns, but has {len(header)}", file=path, line=1
            )
        return config.columns[0] - 1, config.columns[1] - 1
    names = named_columns(header, config)
    if names is None:
        raise DataError(
            f"the first line must name the columns of source and target, but is {', '.join(header)}",
            file=path,
            line=1,
            hint="name them source and target, or say which: --columns 1,2",
        )
    return header.index(names[0]), header.index(names[1])
