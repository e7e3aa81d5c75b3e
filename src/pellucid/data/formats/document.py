"""Files that are translated: their texts in, the same file with the translations out, and all else as it was.

A format is a function that yields a file in pieces, in order: bytes that stay, and a :class:`Block` wherever there is
text to translate. Nothing else is known of a format here, and no more of a file is held than is on its way.
"""

from __future__ import annotations

import gzip
import importlib
import lzma
import os
import pkgutil
import re
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import IO, Literal, NamedTuple, cast

from pellucid.config import DataConfig
from pellucid.data import formats
from pellucid.data.formats.lines import COMPRESSED
from pellucid.errors import DataError


class Filling(NamedTuple):
    """What goes where a text stood. `origin` is "" where there is no memory it could have come from."""

    text: str
    origin: Literal["", "model", "memory"] = ""


class Block(NamedTuple):
    """A part of a file with texts in it: as it stands, and how it is written with their translations."""

    texts: tuple[str, ...]
    line: int
    raw: bytes
    write: Callable[[Sequence[Filling]], bytes]
    plain: tuple[str | None, ...] = ()
    """Where the texts are HTML: each as a memory may have it; None if markup stands between its words. What a memory
    has is plain too."""


BLANKS = re.compile(" {2,}")
Pieces = Iterator[bytes | Block]
DocumentReader = Callable[[str, DataConfig], Pieces]
Translate = Callable[[Iterator[str]], Iterable[str]]
"""Translations of texts, one each, in order. May read ahead."""

_READERS: dict[str, DocumentReader] = {}
_HTML: set[DocumentReader] = set()


def register_document(*suffixes: str, is_html: bool = False) -> Callable[[DocumentReader], DocumentReader]:
    """A decorator: the function below gives the pieces of files whose names end in `suffixes`.

    Args:
        is_html: whether their texts are HTML, and must be translated as such.
    """

    def remember(reader: DocumentReader) -> DocumentReader:
        _READERS.update(dict.fromkeys(suffixes, reader))
        if is_html:
            _HTML.add(reader)
        return reader

    return remember


def document_suffixes() -> tuple[str, ...]:
    """The suffixes of files that can be filled."""
    _import_formats()
    return tuple(sorted(_READERS))


def document_reader(path: str) -> DocumentReader:
    """The function that gives the pieces of a file, by its suffix (below .gz or .xz).

    Raises:
        DataError: no format for this suffix.
    """
    _import_formats()
    suffixes = [s.lower() for s in PurePath(path).suffixes]
    if suffixes and suffixes[-1] in COMPRESSED:
        suffixes.pop()
    suffix = suffixes[-1] if suffixes else ""
    if suffix not in _READERS:
        raise DataError(
            f"a file to be filled must end in {' or '.join(sorted(_READERS))} (also with .gz or .xz), but this ends in "
            f"{suffix or 'no suffix'}",
            file=path,
            hint="text of any kind, a line at a time: pellucid translate MODEL < INPUT > OUTPUT",
        )
    return _READERS[suffix]


def has_html(path: str) -> bool:
    """Whether the texts of a file are HTML: what translates them must keep their tags, and answer with HTML.

    Raises:
        DataError: no format for its suffix.
    """
    return document_reader(path) in _HTML


@lru_cache(maxsize=1)
def _import_formats() -> None:
    for module in pkgutil.iter_modules(formats.__path__):
        importlib.import_module(f"{formats.__name__}.{module.name}")


class Amendment:
    """A change to the head of a file that is made only if something is filled in after it.

    What has been changed, and what follows it, is held until the first block.
    """

    def __init__(self) -> None:
        self.raw, self.amended = bytearray(), bytearray()

    def hold(self, raw: bytes, amended: bytes) -> None:
        """`raw` as it stands in the file, and as it is to be if something is filled in."""
        self.raw += raw
        self.amended += amended

    def before(self, piece: bytes | Block) -> Iterator[bytes | Block]:
        """`piece`, with what is held before it if it is a block; else it is held too."""
        if not self.raw:
            yield piece
        elif isinstance(piece, bytes):
            self.hold(piece, piece)
        else:
            amended, raw = bytes(self.amended), self.rest()
            yield piece._replace(raw=raw + piece.raw, write=lambda fillings: amended + piece.write(fillings))

    def rest(self) -> bytes:
        """What is held, as it stands in the file; holds nothing any more."""
        raw = bytes(self.raw)
        self.raw, self.amended = bytearray(), bytearray()
        return raw


@dataclass
class Filled:
    """What was done with a file: texts that were translated, those of them from a memory, and those left as they were."""

    texts: int = 0
    from_memory: int = 0
    left: int = 0

    def in_words(self, out: str) -> str:
        """One line for people."""
        memory = f", {self.from_memory:,} of them from the memory" if self.from_memory else ""
        left = f"; {self.left:,} left as they were, for nothing came out" if self.left else ""
        return f"{out}: {self.texts:,} texts filled in{memory}{left}"


def fill_file(
    path: str, out: str, config: DataConfig, translate: Translate, memory: Mapping[str, str] | None = None
) -> Filled:
    """Write the file `path` with its translations to `out`, whole or not at all; "-" is standard output.

    Args:
        config: languages, columns, and whether what is marked for review is translated anew (`fuzzy`).
        memory: translations of whole texts (white space around them apart), used before `translate`.

    Raises:
        DataError: a file of no known format, or that cannot be read or written.
    """
    pieces = document_reader(path)(path, config)
    with _written(out) as file:
        return fill(pieces, translate, file.write, memory)


def fill(
    pieces: Pieces,
    translate: Translate,
    write: Callable[[bytes], object],
    memory: Mapping[str, str] | None = None,
) -> Filled:
    """`pieces` to `write`, in order, the texts of the blocks translated.

    Lines of a text are translated one by one, and keep their line ends (but for texts that are HTML); so does white space
    around them. A block with a text for which nothing comes out stays as it was.
    """
    done = Filled()
    waiting: deque[bytes | tuple[Block, list[_Text]]] = deque()
    asked: deque[_Text] = deque()  # one for each line that is being translated

    def lines() -> Iterator[str]:
        for piece in pieces:
            if isinstance(piece, bytes):
                waiting.append(piece)
            else:
                texts: list[_Text] = (
                    [_Html(*each, memory) for each in zip(piece.texts, piece.plain, strict=True)]
                    if piece.plain
                    else [_Text(text, memory) for text in piece.texts]
                )
                waiting.append((piece, texts))
                for text in texts:
                    for line in text.asked:
                        asked.append(text)
                        yield line

    def flush() -> None:
        while waiting:
            piece = waiting[0]
            if isinstance(piece, bytes):
                write(piece)
            else:
                block, texts = piece
                if any(text.is_open for text in texts):
                    return
                fillings = [text.filling() for text in texts]
                if all(filling.text.strip() for filling in fillings):
                    write(block.write(fillings))
                    done.texts += len(fillings)
                    done.from_memory += sum(filling.origin == "memory" for filling in fillings)
                else:
                    write(block.raw)
                    done.left += len(fillings)
            waiting.popleft()

    for translation in translate(lines()):
        asked.popleft().take(translation)
        flush()
    flush()
    return done


class _Text:
    """A text on its way: the lines that the model is asked for, and what has come of them."""

    def __init__(self, text: str, memory: Mapping[str, str] | None) -> None:
        self.source = text
        self.known = None if memory is None else memory.get(text.strip())
        self.origin: Literal["", "model", "memory"] = (
            "" if memory is None else "model" if self.known is None else "memory"
        )
        self.lines = text.split("\n")
        # Markup that has been taken out leaves two blanks where it stood.
        self.asked = [BLANKS.sub(" ", line) for line in self.lines if line.strip()] if self.known is None else []
        self.found: list[str] = []

    @property
    def is_open(self) -> bool:
        return len(self.found) < len(self.asked)

    def take(self, translation: str) -> None:
        self.found.append(translation.replace("\n", " "))

    def filling(self) -> Filling:
        if self.known is not None:
            return Filling(_with_edges(self.source, self.known), self.origin)
        found = iter(self.found)
        lines = [_with_edges(line, next(found)) if line.strip() else line for line in self.lines]
        return Filling("\n".join(lines), self.origin)


class _Html(_Text):
    """A text with markup: it is asked for as a whole."""

    def __init__(self, text: str, plain: str | None, memory: Mapping[str, str] | None) -> None:
        super().__init__(plain or "", memory)
        self.asked = [text] if self.known is None else []

    def take(self, translation: str) -> None:
        self.found.append(translation)

    def filling(self) -> Filling:
        return Filling(self.found[0] if self.known is None else self.known.strip(), self.origin)


def _with_edges(source: str, translation: str) -> str:
    """`translation` with the white space that stands around `source`."""
    inside = source.strip()
    start = source.index(inside)
    return source[:start] + translation.strip() + source[start + len(inside) :]


@contextmanager
def _written(out: str) -> Iterator[IO[bytes]]:
    """A file to write: beside its place until it is whole, then moved there. A device or pipe is written as it is."""
    if out == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(out)
    partial = path if path.exists() and not path.is_file() else path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with _compressed(partial, path.suffix.lower()) as file:
            yield file
            file.flush()
        if partial != path:
            os.replace(partial, path)
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", file=out) from error
    finally:
        if partial != path:
            partial.unlink(missing_ok=True)


def _compressed(path: Path, suffix: str) -> IO[bytes]:
    if suffix == ".gz":
        return cast("IO[bytes]", gzip.open(path, "wb"))
    return cast("IO[bytes]", lzma.open(path, "wb")) if suffix == ".xz" else path.open("wb")
