"""Web pages: the text of paragraphs and headings, and of the attributes `alt` and `title`. Tags stay as they are.

What stands between two tags of blocks (`p`, `div`, `li`, `br`, …) is one text; tags inside a sentence (`a`, `b`, …) go
into its translation: see :func:`~pellucid.data.formats.inline.project`. Scripts, styles, code and whatever is marked
`translate="no"` or of class `notranslate` are left alone.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from functools import partial
from html import escape, unescape
from typing import Literal, NamedTuple

from pellucid.config import DataConfig
from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.inline import WORD, Code, Marked, project, with_single_blanks
from pellucid.data.formats.lines import UNREADABLE, open_bytes
from pellucid.errors import DataError

INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "cite",
        "code",
        "data",
        "del",
        "dfn",
        "em",
        "font",
        "i",
        "img",
        "ins",
        "kbd",
        "label",
        "mark",
        "q",
        "rp",
        "rt",
        "ruby",
        "s",
        "samp",
        "small",
        "span",
        "strike",
        "strong",
        "sub",
        "sup",
        "time",
        "tt",
        "u",
        "var",
        "wbr",
    ]
)
OPAQUE = frozenset(
    [
        "script",
        "style",
        "code",
        "pre",
        "textarea",
        "kbd",
        "samp",
        "var",
        "svg",
        "math",
        "noscript",
        "template",
        "object",
        "iframe",
    ]
)
EMPTY = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
NOT_NESTED = frozenset({"p", "option"})
RAW = frozenset(["script", "style", "textarea", "xmp", "iframe", "noembed", "noframes"])
"""Elements in which tags are text."""
MARKUP = re.compile(r"<(?:[A-Za-z]|/|!|\?)")
TAG = re.compile(
    r"<(?P<close>/?)(?P<name>[A-Za-z][^\s/>]*+)"
    r"(?>[\s/]++|[^\s/>=]++(?>\s*+=\s*+(?>\"[^\"]*+\"|'[^']*+'|[^\s>]*+))?|=)*+>"
)
KEPT = re.compile(
    r"\stranslate\s*=\s*[\"']?no[\"'\s>]|\sclass\s*=\s*(?:\"[^\"]*|'[^']*|[^\s>]*)(?<![\w-])notranslate(?![\w-])", re.I
)
ATTRIBUTE = re.compile(r"(?P<before>\s(?P<name>alt|title)\s*=\s*)(?:\"(?P<double>[^\"]*)\"|'(?P<single>[^']*)')", re.I)
CHARSET = re.compile(rb"<meta[^>]*?charset\s*=\s*[\"']?\s*([A-Za-z0-9._-]+)", re.IGNORECASE)
MOST_BYTES = 1 << 25
"""Bytes of a page, at most: it is held whole."""


@register_document(".html", ".htm")
def html_document(path: str, config: DataConfig) -> Pieces:
    """The texts of a page.

    Raises:
        DataError: a page that is too large, or whose bytes are not of the character set that it names.
    """
    text, codec = _decoded(path)
    encoded = partial(_encoded, codec=codec)
    run: list[_Token] = []
    for token in [*_tokens(text), None]:
        if token is not None and token.kind != "block":
            run.append(token)
            continue
        if run:
            yield _block(run, encoded)
            run = []
        if token is not None:
            yield _block([token], encoded)


class _Token(NamedTuple):
    """A part of a page: text, markup inside a sentence, or markup between sentences."""

    kind: Literal["text", "inline", "block"]
    raw: str
    line: int
    way: Literal["open", "close", "alone"] = "alone"
    is_tag: bool = False
    """Whether it is a start tag that may have attributes to translate."""


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


def _tokens(text: str) -> list[_Token]:
    """The parts of a page in order; joined, they are the page. Elements that are left alone are one part each."""
    tokens: list[_Token] = []
    kept: tuple[str, int, int] | None = None  # the element that is left alone: name, how many of it are open, start
    line = 1
    for start, end, name, way in _spans(text):
        raw = text[start:end]
        if kept is not None and kept[0] in NOT_NESTED and way == "open" and name == kept[0]:
            tokens[-1] = tokens[-1]._replace(raw=text[kept[2] : start])
            kept = None  # the beginning of the next one is the end of this one
        if kept is not None:
            depth = kept[1] + (name == kept[0]) * ((way == "open") - (way == "close"))
            if depth == 0 or end == len(text):
                tokens[-1] = tokens[-1]._replace(raw=text[kept[2] : end])
            kept = (kept[0], depth, kept[2]) if depth else None
        elif not name:
            tokens.append(_Token("text", raw, line))
        else:
            kind: Literal["inline", "block"] = "inline" if name in INLINE or raw.startswith("<!--") else "block"
            if way == "open" and (name in OPAQUE or KEPT.search(raw)):
                kept = name, 1, start
                tokens.append(_Token(kind, raw, line))
            else:
                tokens.append(_Token(kind, raw, line, way, name != "!" and way != "close"))
        line += raw.count("\n")
    return tokens


def _spans(text: str) -> Iterator[tuple[int, int, str, Literal["open", "close", "alone"]]]:
    """(start, end, name of the tag, its way) of each tag, comment ("!") and stretch of text ("").

    Ends are where a browser sees them. The time grows with the length: Python's own `html.parser` took a minute for
    200 kB of `<!--`.
    """
    done = place = 0
    while (start := text.find("<", place)) >= 0:
        if not MARKUP.match(text, start):
            place = start + 1  # a mere sign
            continue
        if done < start:
            yield done, start, "", "alone"
        tag = TAG.match(text, start)
        if tag is None:  # a comment, a declaration, or a tag that has no end
            mark = "-->" if text.startswith("<!--", start) else ">"
            end = text.find(mark, start + 2)
            done = place = len(text) if end < 0 else end + len(mark)
            yield start, done, "!", "alone"
            continue
        name, done = tag["name"].lower(), tag.end()
        way: Literal["open", "close", "alone"] = "close" if tag["close"] else "open"
        if name in EMPTY or (tag[0].endswith("/>") and name not in RAW):
            way = "alone"
        yield start, done, name, way
        if name in RAW and way == "open":
            last = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE).search(text, done)
            start, done = done, len(text) if last is None else last.start()
            if start < done:
                yield start, done, "", "alone"
        place = done
    if done < len(text):
        yield done, len(text), "", "alone"


def _block(run: list[_Token], encoded: partial[bytes]) -> Block | bytes:
    """Text with the markup in it: its sentence and the attributes in its tags are translated together."""
    raw = encoded("".join(token.raw for token in run))
    shown: list[str] = []
    codes: list[Code] = []
    length = 0
    for token in run:
        if token.kind == "text":
            shown.append(unescape(token.raw))
            length += len(shown[-1])
        else:
            codes.append(Code(length, token.raw, token.way))
    marked = with_single_blanks(Marked("".join(shown), tuple(codes)))
    # Attributes are looked for in start tags only, never in what is left alone.
    tags = [i for i, token in enumerate(t for t in run if t.kind != "text") if token.is_tag]
    attributes = [
        (i, found)
        for i in tags
        for found in ATTRIBUTE.finditer(codes[i].markup)
        if WORD.search(unescape(found["double"] or found["single"] or ""))
    ]
    has_text = bool(WORD.search(marked.text))
    texts = [unescape(found["double"] or found["single"]) for _, found in attributes]
    if has_text:
        texts.insert(0, marked.text)
    if not texts:
        return raw

    def write(fillings: Sequence[Filling]) -> bytes:
        rest = list(fillings)
        text = rest.pop(0).text if has_text else None
        written = list(codes)
        # From the last one on, so that the places of those before it stay.
        for (i, found), filling in reversed(list(zip(attributes, rest, strict=True))):
            markup = written[i].markup
            value = f'{found["before"]}"{escape(filling.text)}"'
            written[i] = written[i]._replace(markup=markup[: found.start()] + value + markup[found.end() :])
        if text is None:
            each = iter(written)
            return encoded("".join(t.raw if t.kind == "text" else next(each).markup for t in run))
        placed = [code._replace(place=here.place) for code, here in zip(written, marked.codes, strict=True)]
        return encoded(project(Marked(marked.text, tuple(placed)), text, partial(escape, quote=False)))

    return Block(tuple(texts), run[0].line, raw, write)
