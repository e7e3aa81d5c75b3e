"""Files that are written whole or not at all: beside their place first, then renamed. No torch here."""

from __future__ import annotations

import gzip
import io
import lzma
import os
import tempfile
from pathlib import Path
from types import TracebackType
from typing import TextIO, cast

from pellucid.errors import DataError

_BREAKS = str.maketrans("\t\n\r", "   ")


class NewFile:
    """`with NewFile(path) as file: file.write(text)`: UTF-8, compressed by its suffix (.gz, .xz).

    An error inside leaves what was there before. A device or a pipe is written into as it is.

    Raises:
        DataError: it cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.realpath(path))
        self._temporary: Path | None = None

    def __enter__(self) -> TextIO:
        try:
            if self.path.exists() and not self.path.is_file():
                self._file: TextIO = self.path.open("w", encoding="utf-8", newline="\n")
            else:
                number, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
                self._temporary = Path(name)
                self._raw = os.fdopen(number, "wb")
                self._file = _text(self._raw, self.path.suffix.lower())
        except OSError as error:
            raise self._error(error) from error
        return self._file

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            self._file.close()
            if self._temporary is not None:
                self._raw.close()  # a compressed file does not close what it writes into
            if self._temporary is not None and kind is None:
                self._temporary.chmod(0o644)  # a temporary file is private
                self._temporary.replace(self.path)
                self._temporary = None
        except OSError as failed:
            raise self._error(failed) from failed
        finally:
            if self._temporary is not None:
                self._temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise self._error(error) from error

    def _error(self, error: OSError) -> DataError:
        return DataError(f"cannot be written: {error.strerror or error}", file=str(self.path))


def _text(raw: io.BufferedWriter, suffix: str) -> TextIO:
    file: io.BufferedIOBase = raw
    if suffix == ".gz":
        file = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)  # the same text gives the same bytes
    elif suffix == ".xz":
        file = lzma.LZMAFile(raw, "wb")  # noqa: SIM115  (the text file around it closes it)
    return io.TextIOWrapper(cast(io.BufferedWriter, file), encoding="utf-8", newline="\n")


def tsv_line(*fields: str | None) -> str:
    """A line of a TSV file. Tabs and line ends inside a field become spaces, which is all that is changed."""
    return "\t".join((field or "").translate(_BREAKS) if field else "" for field in fields) + "\n"
