"""Text files as lines. The same reader serves training, translating and scoring.

A line ends at the byte 0A and nowhere else: not at U+2028, U+0085, a form feed or a lone carriage return, which text
may contain. One carriage return before the end of a line and a byte order mark at the start of a file are dropped.
Everything is strict UTF-8; nothing is replaced silently.
"""

from __future__ import annotations

import gzip
import io
import lzma
import sys
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from pellucid.errors import DataError, EncodingError

BOM = b"\xef\xbb\xbf"


class Line(NamedTuple):
    """`number` counts from 1; `text` is None where the bytes are not UTF-8 and bad lines are skipped."""

    number: int
    text: str | None


def open_bytes(path: str) -> BinaryIO:
    """Open a file, decompressed by its suffix (.gz, .xz); "-" is standard input.

    Raises:
        DataError: it cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer
    try:
        if path.endswith(".gz"):
            return cast(BinaryIO, gzip.open(path, "rb"))
        if path.endswith(".xz"):
            return cast(BinaryIO, lzma.open(path, "rb"))
        return open(path, "rb")  # noqa: SIM115: the caller closes it
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", file=path) from error


def read_lines(path: str, *, skip_bad: bool = False) -> Iterator[Line]:
    """The lines of `path`, one after the other.

    Raises:
        EncodingError: bytes that are not UTF-8, unless `skip_bad`: such a line then has no text.
        DataError: the file cannot be read (missing, or a damaged archive).
    """
    file = open_bytes(path)
    try:
        yield from decode_lines(file, path, skip_bad=skip_bad)
    finally:
        if path != "-":
            file.close()


def decode_lines(file: BinaryIO | io.BytesIO, name: str, *, skip_bad: bool = False) -> Iterator[Line]:
    """As :func:`read_lines`, from an open file that errors call `name`."""
    number = 0
    while True:
        try:
            raw = file.readline()
        except (OSError, EOFError, lzma.LZMAError) as error:
            raise DataError(f"cannot be read after line {number}: {error}", file=name) from error
        if not raw:
            return
        number += 1
        if number == 1 and raw.startswith(BOM):
            raw = raw[len(BOM) :]
        raw = raw[:-1] if raw.endswith(b"\n") else raw
        raw = raw[:-1] if raw.endswith(b"\r") else raw
        try:
            yield Line(number, raw.decode("utf-8"))
        except UnicodeDecodeError as error:
            if not skip_bad:
                raise EncodingError(
                    f"is not UTF-8: byte {error.start + 1} of the line is 0x{raw[error.start]:02x}",
                    file=name,
                    line=number,
                    byte=error.start,
                    hint="convert the file (iconv -f LATIN1 -t UTF-8), or drop such lines with --skip-bad",
                ) from None
            yield Line(number, None)
