"""Text files as lines. The same reader serves training, translating and scoring.

A line ends at the byte 0A and nowhere else: not at U+2028, U+0085, a form feed or a lone carriage return, all of which
text may contain. (Python's text mode and `str.splitlines` do split there, and every later pair would be misaligned.)
One carriage return before the end of a line and a byte order mark at the start of a file are dropped, so that a file
from Windows equals its twin from elsewhere. Everything is strict UTF-8, whatever the locale; nothing is replaced
silently.
"""

from __future__ import annotations

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple, cast

from pellucid.errors import DataError, EncodingError

BOM = b"\xef\xbb\xbf"
COMPRESSED = (".gz", ".xz")
UNREADABLE = (OSError, EOFError, lzma.LZMAError, zlib.error)
"""What reading raises where a disk or an archive is damaged."""
BUFFER = 1 << 18
MOST_LINE = 1 << 24
"""Bytes of one line, at most: a file of a gigabyte without a line end must not fill the memory."""


class Line(NamedTuple):
    """`number` counts from 1. Where the bytes are not UTF-8 and bad lines are skipped, `text` is None and `error` set."""

    number: int
    text: str | None
    error: EncodingError | None = None


def open_bytes(path: str) -> BinaryIO:
    """Open a file for reading, decompressed by its suffix (.gz, .xz); "-" is standard input.

    Raises:
        DataError: it cannot be opened.
    """
    if path == "-":
        return sys.stdin.buffer
    try:
        if path.lower().endswith(".gz"):
            return io.BufferedReader(cast(io.RawIOBase, gzip.open(path, "rb")), BUFFER)
        if path.lower().endswith(".xz"):
            return io.BufferedReader(cast(io.RawIOBase, lzma.open(path, "rb")), BUFFER)
        return open(path, "rb", buffering=BUFFER)
    except OSError as error:
        raise DataError(f"cannot be opened: {error.strerror or error}", file=path) from error


def raw_lines(path: str, *, whole: bool = False) -> Iterator[bytes]:
    """The lines of `path` as bytes without line end and byte order mark (`whole`: with them); no decoding.

    Raises:
        DataError: the file cannot be read (missing, or a damaged archive), or a line has no end.
    """
    file = open_bytes(path)
    number = 0
    try:
        while True:
            try:
                raw = file.readline(MOST_LINE + 1)
            except UNREADABLE as error:
                raise DataError(
                    f"cannot be read after line {number:,}: {error}", file=path, hint="is the file complete?"
                ) from error
            if len(raw) > MOST_LINE:
                raise DataError(f"must not be longer than {MOST_LINE >> 20} MB", file=path, line=number + 1)
            if whole:
                if not raw:
                    return
                number += 1
                yield raw
                continue
            if number == 0 and raw.startswith(BOM):
                raw = raw[len(BOM) :]
            if not raw:
                return
            number += 1
            if raw.endswith(b"\n"):
                raw = raw[:-1]
            yield raw[:-1] if raw.endswith(b"\r") else raw
    finally:
        if path != "-":
            file.close()


def read_lines(path: str, *, skip_bad: bool = False) -> Iterator[Line]:
    """The lines of `path`, one after the other. A last line without a line end counts.

    Raises:
        EncodingError: bytes that are not UTF-8, unless `skip_bad`: such a line is yielded with no text.
        DataError: the file cannot be read (missing, or a damaged archive).
    """
    for number, raw in enumerate(raw_lines(path), 1):
        try:
            yield Line(number, decoded_line(raw, path, number))
        except EncodingError as error:
            if not skip_bad:
                raise
            yield Line(number, None, error)


def decoded_line(raw: bytes, path: str, number: int) -> str:
    """The text of a line.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _encoding_error(raw, error, path, number) from None


def _encoding_error(raw: bytes, error: UnicodeDecodeError, path: str, number: int) -> EncodingError:
    wide = number == 1 and raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    return EncodingError(
        f"must be UTF-8, but byte {error.start} of the line (from 0) is 0x{raw[error.start]:02x} ({error.reason})",
        file=path,
        line=number,
        byte=error.start,
        hint="the file looks like UTF-16: iconv -f UTF-16 -t UTF-8 OLD > NEW"
        if wide
        else "convert the file (if it is Latin-1: iconv -f LATIN1 -t UTF-8 OLD > NEW), or drop such lines: --skip-bad",
    )
