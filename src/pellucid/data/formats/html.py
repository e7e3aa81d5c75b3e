"""Web pages: what people read of them, tags and all else staying as they are.

What is text, and where tags go in a translation, is not said here but in :mod:`pellucid.text.html`: the texts of a page are
HTML themselves, and whoever translates them must take them so.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

from pellucid.config import DataConfig
from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.lines import UNREADABLE, open_bytes
from pellucid.errors import DataError
from pellucid.text.html import Fragment, escaped, fragments

CHARSET = re.compile(rb"<meta[^>]*?charset\s*=\s*[\"']?\s*([A-Za-z0-9._-]+)", re.IGNORECASE)
MOST_BYTES = 1 << 25
"""Bytes of a page, at most: it is held whole."""


@register_document(".html", ".htm", is_html=True)
def html_document(path: str, config: DataConfig) -> Pieces:
    """The texts of a page: its :func:`~pellucid.text.html.fragments`.

    Raises:
        DataError: a page that is too large, or whose bytes are not of the character set that it names.
    """
    page, codec = _decoded(path)
    done, line = 0, 1
    for fragment in fragments(page):
        yield _encoded(page[done : fragment.start], codec)
        line += page.count("\n", done, fragment.start)
        yield _block(fragment, page[fragment.start : fragment.end], line, codec)
        done = fragment.end
        line += page.count("\n", fragment.start, done)
    yield _encoded(page[done:], codec)


def _block(fragment: Fragment, raw: str, line: int, codec: str) -> Block:
    def write(fillings: Sequence[Filling]) -> bytes:
        (filling,) = fillings
        if filling.origin == "memory":
            return _encoded(fragment.before + escaped(filling.text) + fragment.after, codec)
        return _encoded(fragment.unwrapped(filling.text), codec)

    return Block((fragment.text,), line, _encoded(raw, codec), write, (fragment.plain,))


def _decoded(path: str) -> tuple[str, str]:
    file = open_bytes(path)
    try:
        data = file.read(MOST_BYTES + 1)
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}", file=path) from error
    finally:
        file.close()
    if len(data) > MOST_BYTES:
        raise DataError(f"must not be more than {MOST_BYTES >> 20} MB", file=path)
    codec = _charset(data, path)
    try:
        return data.decode(codec), codec
    except UnicodeError as error:
        raise DataError(f"must be {codec}, but is not: {error}", file=path) from None


def _charset(data: bytes, path: str) -> str:
    for mark, codec in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16-le"),
        (codecs.BOM_UTF16_BE, "utf-16-be"),
    ):
        if data.startswith(mark):
            return codec
    found = CHARSET.search(data[:1024])
    if found is None:
        return "utf-8"
    name = found[1].decode("ascii")
    if name.lower().startswith("utf-16"):
        return "utf-8"  # not with these bytes
    known = known_charset(name)
    if known is None:
        raise DataError(f"must be in a known character set, but says {name!r}", file=path)
    return "cp1252" if known in ("iso8859-1", "ascii") else known  # the web says Latin-1 and means Windows' larger set


def _encoded(text: str, codec: str) -> bytes:
    return text.encode(codec, "xmlcharrefreplace")
