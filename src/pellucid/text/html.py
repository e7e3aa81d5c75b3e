"""HTML as stretches of text and all the rest, which stays byte for byte.

A stretch is what a reader sees as one run of text: it goes on through inline tags (`<b>`, `<a>`) and ends at all others
(`<p>`, `<td>`, `<br>`). Its inline tags are spans; so are inline elements that must not be translated (`<code>`,
`translate="no"`, `class="notranslate"`), whole. What is in `<script>`, `<style>` and their like is no text.

Attributes that people read (`alt`, `title`, `placeholder`, ...) are translated before, see :func:`attributes`.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html.parser import HTMLParser
from itertools import accumulate
from typing import Literal

from pellucid.text.spans import Span, find_spans, tag_span

INLINE = frozenset(
    [
        "a",
        "abbr",
        "acronym",
        "b",
        "bdi",
        "bdo",
        "big",
        "button",
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
        "nobr",
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
        "x",
        "g",
        "ph",
        "bpt",
        "ept",
        "it",
    ]
)
VERBATIM = frozenset(
    [
        "script",
        "style",
        "template",
        "svg",
        "math",
        "iframe",
        "object",
        "canvas",
        "code",
        "kbd",
        "samp",
        "var",
        "tt",
        "textarea",
    ]
)
VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
READ = frozenset(
    ["alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder", "aria-roledescription"]
)
BUTTONS = frozenset(("button", "submit", "reset"))
DESCRIPTIONS = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))
ATTRIBUTE = re.compile(r"""([^\s"'<>/=]+)(\s*=\s*)("[^"]*"|'[^']*'|[^\s"'=<>`]+)|[^\s"'<>/=]+""")
SPACE = re.compile(r"[ \t\r\n\f]+")


@dataclass(frozen=True)
class Stretch:
    """Text between block tags."""

    start: int
    end: int
    text: str
    """Spaces as a browser shows them; entities as they are."""
    spans: tuple[Span, ...]


@dataclass(frozen=True)
class Attribute:
    """The value of an attribute, in the document between `start` and `end`, quotes included."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class _Event:
    kind: Literal["open", "alone", "close", "text", "entity", "note", "other"]
    start: int
    end: int
    name: str = ""
    attributes: tuple[tuple[str, str | None], ...] = ()


class _Reader(HTMLParser):
    """Where everything begins. What there is between two beginnings belongs to the first: nothing is lost."""

    def __init__(self, document: str) -> None:
        super().__init__(convert_charrefs=False)
        self._lines = [0, *accumulate(len(line) + 1 for line in document.split("\n"))]
        self._found: list[tuple[str, int, str, tuple[tuple[str, str | None], ...]]] = []
        self.feed(document)
        self.close()
        ends = [*(start for _, start, _, _ in self._found), len(document)][1:]
        self.events = [
            _Event(kind, start, end, name, attributes)  # type: ignore[arg-type]
            for (kind, start, name, attributes), end in zip(self._found, ends, strict=True)
            if start < end
        ]

    def _add(self, kind: str, name: str = "", attributes: Sequence[tuple[str, str | None]] = ()) -> None:
        line, column = self.getpos()
        self._found.append((kind, self._lines[line - 1] + column, name, tuple(attributes)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("alone" if tag in VOID else "open", tag, attrs)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._add("alone", tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        self._add("close", tag)

    def handle_data(self, data: str) -> None:
        self._add("text")

    def handle_entityref(self, name: str) -> None:
        self._add("entity")

    def handle_charref(self, name: str) -> None:
        self._add("entity")

    def handle_comment(self, data: str) -> None:
        self._add("note")

    def handle_decl(self, decl: str) -> None:
        self._add("other")

    def handle_pi(self, data: str) -> None:
        self._add("other")

    def unknown_decl(self, data: str) -> None:
        self._add("other")


def attributes(document: str) -> list[Attribute]:
    """The attributes that people read, in order; none inside of what must not be translated."""
    found = []
    events = _Reader(document).events
    ends = _verbatim(events)
    i = 0
    while i < len(events):
        event = events[i]
        if i in ends and _says_no(event):
            i = ends[i]
            continue
        if event.kind in ("open", "alone"):
            found += _readable(document, event)
        i = ends.get(i, i + 1)
    return found


def _readable(document: str, event: _Event) -> list[Attribute]:
    given = {name.lower(): value or "" for name, value in event.attributes}
    names = set(READ)
    if event.name == "input" and given.get("type", "").lower() in BUTTONS:
        names.add("value")
    if event.name == "meta" and (given.get("name") or given.get("property", "")).lower() in DESCRIPTIONS:
        names.add("content")
    if event.name in ("track", "option", "optgroup"):
        names.add("label")
    found = []
    after_name = event.start + 1 + len(event.name)
    for match in ATTRIBUTE.finditer(document, after_name, event.end):
        if match[1] is not None and match[1].lower() in names:
            text = html.unescape(match[3][1:-1] if match[3][0] in "\"'" else match[3])
            if any(map(str.isalpha, text)):
                found.append(Attribute(match.start(3), match.end(3), text))
    return found


def stretches(document: str) -> list[Stretch]:
    """The stretches of `document` that have a letter, in order."""
    events = _Reader(document).events
    ends = _verbatim(events)
    found: list[Stretch] = []
    builder = _Builder()
    preformatted = 0
    i = 0
    while i < len(events):
        event = events[i]
        raw = document[event.start : event.end]
        if i in ends:
            last = events[ends[i] - 1]
            if event.name in INLINE:
                whole = document[event.start : last.end]
                builder.add_span(event.start, last.end, Span(0, len(whole), "tag", whole))
            else:
                builder.finish(found)
            i = ends[i]
            continue
        if event.kind in ("text", "entity"):
            builder.add_text(event.start, event.end, raw if preformatted else SPACE.sub(" ", raw))
        elif event.kind == "note" or (event.name in INLINE and event.kind != "other"):
            builder.add_span(event.start, event.end, tag_span(raw, event.name if event.kind != "alone" else ""))
        else:
            builder.finish(found)
        if event.name == "pre":
            preformatted += {"open": 1, "close": -1}.get(event.kind, 0)
        i += 1
    builder.finish(found)
    return found


class _Builder:
    """Puts the parts of one stretch together."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._start = self._end = 0
        self._parts: list[str] = []
        self._tags: list[Span] = []
        self._length = 0

    def add_text(self, start: int, end: int, text: str) -> None:
        self._add(start, end, text)

    def add_span(self, start: int, end: int, span: Span) -> None:
        self._tags.append(span.moved(self._length))
        self._add(start, end, span.text)

    def _add(self, start: int, end: int, text: str) -> None:
        if not self._parts:
            self._start = start
        self._end = end
        self._parts.append(text)
        self._length += len(text)

    def finish(self, found: list[Stretch]) -> None:
        text = "".join(self._parts)
        spans: list[Span] = []
        at, letters = 0, False
        for tag in [*self._tags, Span(len(text), len(text), "tag", "")]:
            run = text[at : tag.start]
            inside = find_spans(run, entities=lambda entity: not html.unescape(entity).isalpha())
            covered = 0
            for span in inside:
                letters = letters or any(map(str.isalpha, run[covered : span.start]))
                covered = span.end
            letters = letters or any(map(str.isalpha, run[covered:]))
            spans += [span.moved(at) for span in inside if span.kind != "tag"]
            spans.append(tag)
            at = tag.end
        if letters:
            found.append(Stretch(self._start, self._end, text, tuple(spans[:-1])))
        self._clear()


def _verbatim(events: Sequence[_Event]) -> dict[int, int]:
    """Where each element begins that must not be translated, and the number of the event behind it."""
    ends: dict[int, int] = {}
    i = 0
    while i < len(events):
        event = events[i]
        if event.kind == "open" and (event.name in VERBATIM or _says_no(event)):
            depth, k = 1, i + 1
            while k < len(events) and depth:
                if events[k].name == event.name:
                    depth += {"open": 1, "close": -1}.get(events[k].kind, 0)
                k += 1
            ends[i] = k
            i = k
        elif event.kind == "alone" and _says_no(event):
            ends[i] = i + 1
            i += 1
        else:
            i += 1
    return ends


def _says_no(event: _Event) -> bool:
    given = {name.lower(): (value or "").lower() for name, value in event.attributes}
    return given.get("translate") == "no" or "notranslate" in given.get("class", "").split()


def escaped(text: str) -> str:
    """Text as HTML between tags; quotes stay."""
    return html.escape(text, quote=False)


def quoted(text: str) -> str:
    """Text as the value of an attribute, with its quotes."""
    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'


def replaced(document: str, parts: Sequence[tuple[int, int, str]]) -> str:
    """`document` with other text in the place of some stretches, which are in order."""
    out, at = [], 0
    for start, end, text in parts:
        out += [document[at:start], text]
        at = end
    return "".join([*out, document[at:]])
