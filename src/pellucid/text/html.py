"""HTML as stretches of text and all the rest, which stays byte for byte.

A stretch is what a reader sees as one run of text: it goes on through inline tags (`<b>`, `<a>`) and ends at all others
(`<p>`, `<td>`, `<br>`). Its inline tags are spans; so are inline elements that must not be translated (`<code>`,
`translate="no"`, `class="notranslate"`), whole. What is in `<script>`, `<style>` and their like is no text.

Attributes that people read (`alt`, `title`, `placeholder`, ...) are translated before, see :func:`attributes`. A page may
be translated whole, or by its :func:`fragments`, which is the same.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from pellucid.text import markup
from pellucid.text.markup import Part
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
        "xmp",
        "noembed",
        "noframes",
    ]
)
NOT_NESTED = frozenset(("p", "option"))
"""Where one of these begins, the one before it ends."""
READ = frozenset(
    ["alt", "title", "placeholder", "aria-label", "aria-description", "aria-placeholder", "aria-roledescription"]
)
BUTTONS = frozenset(("button", "submit", "reset"))
DESCRIPTIONS = frozenset(("description", "og:title", "og:description", "twitter:title", "twitter:description"))
PRE = "<pre>", "</pre>"
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
class Fragment:
    """A part of a page in which there is something to translate: a stretch, or a tag with attributes that people read."""

    start: int
    end: int
    preformatted: bool
    """Whether it stands in `<pre>`."""
    text: str
    """The fragment as a page of its own, in a `<pre>` if it stands in one."""
    plain: str | None
    """What people read, if no markup stands between its letters."""
    before: str
    after: str
    """The markup and the spaces around that."""

    def unwrapped(self, translation: str) -> str:
        """A translation of `text` as it stands in the page."""
        return translation.removeprefix(PRE[0]).removesuffix(PRE[1]) if self.preformatted else translation


class _Unit(NamedTuple):
    """A part of a page, or several that stay together: an element that is not translated."""

    kind: Literal["text", "inline", "block"]
    part: Part
    """The first."""
    end: int
    preformatted: bool
    kept: bool
    """Whether its attributes stay too."""

    @property
    def start(self) -> int:
        return self.part.start


def _units(page: str) -> Iterator[_Unit]:
    waiting: Part | None = None  # where an element began that is not translated
    depth = preformatted = 0
    for part in [*markup.parts(page), Part("other", len(page), len(page))]:
        if waiting is not None:
            again = part.kind == "open" and part.name == waiting.name
            ends_it = part.start == len(page) or (again and part.name in NOT_NESTED)
            depth += 1 if again else -1 if part.kind == "close" and part.name == waiting.name else 0
            if depth and not ends_it:
                continue
            end = part.start if ends_it else part.end
            kind: Literal["inline", "block"] = "inline" if waiting.name in INLINE else "block"
            yield _Unit(kind, waiting, end, preformatted > 0, _says_no(page, waiting))
            waiting = None
            if not ends_it:
                continue
        if part.kind == "open" and (part.name in VERBATIM or _says_no(page, part)):
            waiting, depth = part, 1
        elif part.start < part.end:
            if part.name == "pre":
                preformatted = max(0, preformatted + {"open": 1, "close": -1}.get(part.kind, 0))
            is_inline = part.kind == "note" or part.name in INLINE
            kept = part.kind == "alone" and _says_no(page, part)
            yield _Unit(
                "text" if part.kind == "text" else "inline" if is_inline else "block",
                part, part.end, preformatted > 0, kept,
            )  # fmt: skip


def _says_no(page: str, part: Part) -> bool:
    if "translate" not in page[part.start : part.end].lower():
        return False
    given = {name: value.lower() for name, value, _, _ in markup.attributes(page, part)}
    return given.get("translate") == "no" or "notranslate" in given.get("class", "").split()


def attributes(page: str) -> list[Attribute]:
    """The attributes that people read, in order; none inside of what must not be translated."""
    return [attribute for unit in _units(page) if not unit.kept for attribute in _readable(page, unit.part)]


def _readable(page: str, part: Part) -> list[Attribute]:
    if part.kind not in ("open", "alone"):
        return []
    given = markup.attributes(page, part)
    values = {name: value.lower() for name, value, _, _ in reversed(given)}  # the first of a name counts
    names = set(READ)
    if part.name == "input" and values.get("type", "") in BUTTONS:
        names.add("value")
    if part.name == "meta" and (values.get("name") or values.get("property", "")) in DESCRIPTIONS:
        names.add("content")
    if part.name in ("track", "option", "optgroup"):
        names.add("label")
    return [Attribute(a.start, a.end, a.value) for a in given if a.name in names and any(map(str.isalpha, a.value))]


def stretches(page: str) -> list[Stretch]:
    """The stretches of `page` that have a letter, in order."""
    found: list[Stretch] = []
    builder = _Builder()
    for unit in _units(page):
        raw = page[unit.start : unit.end]
        if unit.kind == "text":
            builder.add_text(unit.start, unit.end, raw if unit.preformatted else SPACE.sub(" ", raw))
        elif unit.kind == "block":
            builder.finish(found)
        else:
            is_whole = unit.end > unit.part.end
            name = unit.part.name if unit.part.kind in ("open", "close") and not is_whole else ""
            builder.add_span(unit.start, unit.end, tag_span(raw, name))
    builder.finish(found)
    return found


def fragments(page: str) -> Iterator[Fragment]:
    """The fragments of `page`, in order."""
    run: list[_Unit] = []
    for unit in _units(page):
        if unit.kind != "block":
            run.append(unit)
            continue
        yield from _fragment(page, run)
        run = []
        yield from _fragment(page, [unit])
    yield from _fragment(page, run)


def _fragment(page: str, run: Sequence[_Unit]) -> Iterator[Fragment]:
    texts = [unit for unit in run if unit.kind == "text" and not page[unit.start : unit.end].isspace()]
    has_words = any(any(map(str.isalpha, html.unescape(page[text.start : text.end]))) for text in texts)
    has_attributes = any(not unit.kept and _readable(page, unit.part) for unit in run)
    if not (has_words or has_attributes):
        return
    start, end = run[0].start, run[-1].end
    is_pre = run[0].preformatted and has_words
    text = page[start:end].join(PRE) if is_pre else page[start:end]
    if has_attributes or len(texts) != 1:
        yield Fragment(start, end, is_pre, text, None, "", "")
        return
    inside = page[texts[0].start : texts[0].end]
    begin = texts[0].start + len(inside) - len(inside.lstrip())
    inside = inside.strip()
    plain = html.unescape(inside if is_pre else SPACE.sub(" ", inside))
    yield Fragment(start, end, is_pre, text, plain, page[start:begin], page[begin + len(inside) : end])


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


def escaped(text: str) -> str:
    """Text as HTML between tags; quotes stay."""
    return html.escape(text, quote=False)


def quoted(text: str) -> str:
    """Text as the value of an attribute, with its quotes."""
    return '"' + html.escape(text, quote=False).replace('"', "&quot;") + '"'


def replaced(page: str, parts: Sequence[tuple[int, int, str]]) -> str:
    """`page` with other text in the place of some stretches, which are in order."""
    out, at = [], 0
    for start, end, text in parts:
        out += [page[at:start], text]
        at = end
    return "".join([*out, page[at:]])
