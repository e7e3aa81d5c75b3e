"""XML block by block, through expat, with nothing in it that can hurt: what TMX and XLIFF share.

A document type may be declared (TMX files do) and is never fetched. Entity declarations are refused: ten lines of them
can stand for gigabytes of text, or for a file of the reader's machine. Depth, the length of a tag and the length of a
text are bounded, so that memory stays flat whatever comes in.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple, NoReturn
from xml.parsers import expat

from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.lines import UNREADABLE, open_bytes
from pellucid.errors import DataError

BLOCK = 1 << 16
MOST_DEPTH = 200
MOST_TEXT = 1 << 20
"""Characters of one text, at most. The unit of a longer one counts as broken."""
MOST_TOKEN = 1 << 22
"""Bytes of one tag, comment or declaration, at most: expat holds it whole before it says that it is there."""
MOST_HELD = 1 << 26
"""Bytes that :class:`XmlScan` holds, at most."""
DECLARED = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"']")
UTF_8 = ("utf-8", "ascii")
TAG = re.compile(rb"<(?:[^<>\"']|\"[^\"]*\"|'[^']*')*>")


def encoding_of(head: bytes, path: str) -> str:
    """The encoding of an XML file from its first bytes: byte order mark, zero bytes, or declaration.

    A byte order mark stays a character of the text. A file that says UTF-16 in bytes that are not is UTF-8.

    Raises:
        DataError: an encoding that is not known.
    """
    for mark, codec in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark is the beginning of this one
        (codecs.BOM_UTF32_BE, "utf-32-be"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
        (b"<\0", "utf-16-le"),
        (b"\0<", "utf-16-be"),
    ):
        if head.startswith(mark):
            return codec
    declared = DECLARED.match(head)
    if declared is None:
        return "utf-8"
    name = declared[1].decode("ascii")
    if name.lower().startswith(("utf-16", "utf-32", "ucs-2", "iso-10646")):
        return "utf-8"  # not with these bytes
    known = known_charset(name)
    if known is None:
        raise DataError(f"must be in a known encoding, but says {name!r}", file=path, line=1)
    return "utf-8" if known in UTF_8 else known


def utf8_blocks(path: str) -> Iterator[bytes]:
    """An XML file as UTF-8, whatever it is in; decompressed by its suffix.

    Raises:
        DataError: it cannot be read, or its bytes are not of its encoding.
    """
    file = open_bytes(path)
    done = 0
    try:
        block = file.read(BLOCK)
        codec = encoding_of(block[:1024], path)
        decoder = None if codec in UTF_8 else codecs.getincrementaldecoder(codec)()
        while block:
            yield block if decoder is None else decoder.decode(block).encode("utf-8")
            done += len(block)
            block = file.read(BLOCK)
        if decoder is not None:
            yield decoder.decode(b"", final=True).encode("utf-8")
    except UNREADABLE as error:
        raise DataError(
            f"cannot be read after byte {done:,}: {error}", file=path, hint="is the file complete?"
        ) from error
    except UnicodeError as error:
        raise DataError(
            f"must be {codec}, but is not after byte {done:,}: {error}", file=path, hint="is the file complete?"
        ) from error
    finally:
        if path != "-":
            file.close()


def encoding_of_file(path: str) -> str:
    """The encoding of an XML file: see :func:`encoding_of`."""
    file = open_bytes(path)
    try:
        return encoding_of(file.read(1024), path)
    except UNREADABLE:
        return "utf-8"  # whoever reads on says what is wrong
    finally:
        file.close()


def with_attributes(tag: str, values: Mapping[str, str]) -> str:
    """A start tag as it stands, with these attributes set. The values are plain text."""
    for name, value in values.items():
        written = f' {name}="{value}"'
        found = re.search(rf"\s{name}\s*=\s*(\"[^\"]*\"|'[^']*')", tag)
        if found:
            tag = tag[: found.start()] + written + tag[found.end() :]
        else:
            end = len(tag) - (2 if tag.endswith("/>") else 1)
            tag = tag[:end].rstrip() + written + tag[end:]
    return tag


def new_parser(path: str) -> expat.XMLParserType:
    """A parser that refuses entity declarations. `path` is for messages."""
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.buffer_size = BLOCK
    parser.specified_attributes = True  # what a document type adds is not the text of the file

    def refuse(name: str, *_: object) -> NoReturn:
        raise DataError(
            f"must not declare entities, but declares {name!r}",
            file=path,
            line=parser.CurrentLineNumber,
            hint="write the text itself in its place, and delete the declaration",
        )

    parser.EntityDeclHandler = refuse
    return parser


def feed(parser: expat.XMLParserType, path: str, blocks: Iterator[bytes]) -> Iterator[None]:
    """Give `blocks` to `parser`; after each, its handlers have been called for what was in it.

    Raises:
        DataError: what is not XML, or has a tag, comment or declaration without end.
    """
    fed = 0
    try:
        for block in blocks:
            parser.Parse(block, False)
            yield
            fed += len(block)
            if fed - max(0, parser.CurrentByteIndex) > MOST_TOKEN:
                raise DataError(
                    f"must not have a tag, comment or declaration of more than {MOST_TOKEN >> 20} MB",
                    file=path,
                    line=parser.CurrentLineNumber,
                )
        parser.Parse(b"", True)
        yield
    except expat.ExpatError as error:
        raise DataError(
            f"is not XML here (column {error.offset + 1}): {expat.ErrorString(error.code)}",
            file=path,
            line=error.lineno,
            hint="a < or & in text must be written &lt; or &amp;; is the file complete?",
        ) from None


class Tag(NamedTuple):
    """One start or end of an element. `name` and attribute names are without their prefixes, but for `xml:`."""

    is_start: bool
    name: str
    attributes: dict[str, str]
    start: int
    """Where it begins: a byte of the file as UTF-8."""
    line: int


class XmlScan:
    """The tags of an XML file in order, and the bytes of it that have not been let go.

    Iterating yields :class:`Tag`; between two of them :meth:`raw` gives any bytes since the last :meth:`let_go`.
    """

    def __init__(self, path: str, blocks: Iterator[bytes] | None = None) -> None:
        self.path = path
        self.blocks = utf8_blocks(path) if blocks is None else blocks
        self._held = bytearray()
        self._first = 0

    def __iter__(self) -> Iterator[Tag]:
        parser = new_parser(self.path)
        found: list[Tag] = []
        depth = 0

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal depth
            depth += 1
            if depth > MOST_DEPTH:
                raise too_deep(self.path, parser.CurrentLineNumber)
            plain = {local(key): value for key, value in attributes.items()}
            found.append(Tag(True, local(name), plain, parser.CurrentByteIndex, parser.CurrentLineNumber))

        def end(name: str) -> None:
            nonlocal depth
            depth -= 1
            found.append(Tag(False, local(name), {}, parser.CurrentByteIndex, parser.CurrentLineNumber))

        parser.StartElementHandler, parser.EndElementHandler = start, end
        for _ in feed(parser, self.path, self._hold()):
            yield from found
            found.clear()

    def _hold(self) -> Iterator[bytes]:
        for block in self.blocks:
            self._held += block
            if len(self._held) > MOST_HELD:
                raise DataError(f"must not have a unit of more than {MOST_HELD >> 20} MB", file=self.path)
            yield block

    def raw(self, start: int, end: int | None = None) -> bytes:
        """The bytes from `start` to `end`, or to all that has been read."""
        return bytes(self._held[start - self._first : None if end is None else end - self._first])

    def let_go(self, before: int) -> bytes:
        """Forget the bytes before `before`; returns those that were still held."""
        gone = bytes(self._held[: before - self._first])
        del self._held[: before - self._first]
        self._first = before
        return gone

    def rest(self) -> bytes:
        """All that is still held; forgets it."""
        return self.let_go(self._first + len(self._held))

    def end_of(self, tag: Tag) -> int:
        """Where a tag ends, that is where what stands in the element begins."""
        match = TAG.match(self._held, tag.start - self._first)
        return tag.start if match is None else self._first + match.end()  # none: the end of an element like <x/>


def local(name: str) -> str:
    """A name without its prefix; `xml:lang` stays as it is."""
    return name if name.startswith("xml:") else name.rpartition(":")[2]


def too_deep(path: str, line: int) -> DataError:
    """For an element in an element in an element …"""
    return DataError(f"must not be nested more than {MOST_DEPTH} deep", file=path, line=line)
