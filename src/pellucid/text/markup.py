"""HTML in parts: tags, comments and text, each where a browser sees its ends.

Our own reader: Python's `html.parser` takes a minute for 200 kB of `<!--`, and it does not say where a part ends. Here the
time grows with the length, whatever the page is; nothing is put right, and the parts joined are the page.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple

VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
"""Elements that have no end."""
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])
"""Elements in which tags are text."""
BEGINNING = re.compile(r"<(?:[A-Za-z]|/|!|\?)")
"""What is markup; any other `<` is a mere sign."""
NAME = r"[^\s/>=]++"
VALUE = r"\"[^\"]*+\"|'[^']*+'|[^\s>]*+"
ATTRIBUTE = re.compile(rf"(?P<name>{NAME})(?>\s*+=\s*+(?P<value>{VALUE}))?")
TAG = re.compile(rf"<(?P<close>/?)(?P<tag>[A-Za-z][^\s/>]*+)(?>[\s/]++|{NAME}(?>\s*+=\s*+(?>{VALUE}))?|=)*+>")
TAG_BEGINNING = re.compile("</?[A-Za-z]")
COMMENT_END = re.compile("--!?>")


class Part(NamedTuple):
    """A stretch of a page."""

    kind: Literal["text", "open", "alone", "close", "note", "other"]
    """Text; a tag that opens an element, is one, or closes one; a comment; a declaration, or what has no end."""
    start: int
    end: int
    name: str = ""
    """Of a tag, in small letters."""


class Given(NamedTuple):
    """An attribute of a tag; its value (with its quotes) stands in the page between `start` and `end`."""

    name: str
    value: str
    """As it is meant: `&lt;` is `<`."""
    start: int
    end: int


def parts(page: str) -> Iterator[Part]:
    """The parts of `page`, in order."""
    done = place = 0
    while (start := page.find("<", place)) >= 0:
        if not BEGINNING.match(page, start):
            place = start + 1
            continue
        if done < start:
            yield Part("text", done, start)
        part = _markup(page, start)
        yield part
        done = place = part.end
        if part.kind == "open" and part.name in RAW:
            last = _closing(part.name).search(page, done)
            place = len(page) if last is None else last.start()  # and what is before it is text
            if done < place:
                yield Part("text", done, place)
                done = place
    if done < len(page):
        yield Part("text", done, len(page))


def _markup(page: str, start: int) -> Part:
    tag = TAG.match(page, start)
    if tag is not None:
        name = tag["tag"].lower()
        if tag["close"]:
            return Part("close", start, tag.end(), name)
        alone = name in VOID or (tag[0].endswith("/>") and name not in RAW)
        return Part("alone" if alone else "open", start, tag.end(), name)
    if TAG_BEGINNING.match(page, start):
        return Part("other", start, len(page))  # a tag that never ends: a browser shows nothing from here on
    if page.startswith("<!--", start):
        found = COMMENT_END.search(page, start + 2)  # "<!-->" is a whole one
        return Part("note", start, len(page) if found is None else found.end())
    return Part("other", start, page.find(">", start) + 1 or len(page))


@lru_cache(maxsize=len(RAW))
def _closing(name: str) -> re.Pattern[str]:
    return re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)


def attributes(page: str, part: Part) -> list[Given]:
    """The attributes of a tag that opens an element or is one, in order. Those without a value have an empty one."""
    found = []
    for match in ATTRIBUTE.finditer(page, part.start + 1 + len(part.name), part.end - 1):
        value = match["value"] or ""
        bare = value[1:-1] if len(value) > 1 and value[0] in "'\"" and value[-1] == value[0] else value
        place = match.span("value") if match["value"] is not None else (match.end(), match.end())
        found.append(Given(match["name"].lower(), html.unescape(bare), *place))
    return found
