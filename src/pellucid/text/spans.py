"""What must come out as it went in: placeholders, tags, addresses. Found here, kept by :mod:`pellucid.text.placement`.

What is taken for a placeholder:

    printf     %d  %1$s  %(name)s  %.2f  %1 (Qt)  %{name} (Ruby)  %%
    brace      {name}  {0}  {0:.2f}  ${name}  {{x}}  {{{x}}}  {% if x %}
    icu        {n, plural, one {# file} other {# files}}: as a whole, whatever braces are inside
    bracket    [X12X] (Weblate)
    tag        <x id="1"/>  <b>  </b>  <!-- note -->
    entity     &nbsp;  &#160;  &copy;
    address    https://..., www...., mailto:..., name@example.org
    term       what the user says (:mod:`pellucid.text.terms`)

A placeholder in the middle of a word takes the word with it (`file_%d.txt`, `AT&amp;T`): half a word cannot be translated.
Brackets and quotes right around it stay with it: `"%s"`, `({n})`.
"""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Literal, cast

Kind = Literal["printf", "brace", "icu", "bracket", "tag", "entity", "address", "term"]

UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
"""Scripts that are written without spaces, inside a character class: Thai, Lao, Burmese, Khmer, kana, Chinese."""
WIDE = UNSPACED + "\u3000-\u3004\uff00-\uffef"
"""Those of East Asia's with their punctuation: an address ends where they begin."""

ATTRIBUTE = r"""\s+[\w:.@-]+(?:\s*=\s*(?:"[^"]*"|'[^']*'|[^\s"'=<>`]+))?"""
TAG = rf"<[A-Za-z][\w:.-]*(?:{ATTRIBUTE})*\s*/?>|</[A-Za-z][\w:.-]*\s*>|<!--(?:(?!<!--).)*?-->"
_IN_ADDRESS = rf"\s<>\"`(){WIDE}"
_IN_BRACKETS = rf"\([^{_IN_ADDRESS}]*\)"
ADDRESS = (
    rf"(?:(?:https?|ftp|file)://|mailto:|www\.(?=\w))(?:[^{_IN_ADDRESS}]|{_IN_BRACKETS})*"
    rf"(?:[^{_IN_ADDRESS}.,;:!?'…\]}}»”’]|{_IN_BRACKETS})"
)
EMAIL = r"(?<![A-Za-z0-9_.+-])[A-Za-z0-9_.+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
PRINTF = (
    r"%\([^()\s]+\)[-+#0]*\d*(?:\.\d+)?[a-zA-Z]"  # %(name)s
    r"|%\d+\$[-+#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcspn@]"  # %1$s
    r"|%\{[^{}\s]+\}|%%|(?<!\d)%L?[1-9]\d?(?!\d|[.,]\d|%)"  # %{name}, %%, Qt's %1
    r"|(?<!\d)%[-+#0]*\d*(?:\.\d+)?(?:hh|h|ll|l|L|q|j|z|t)?[diouxXeEfFgGaAcspn@]"  # %d, but not 5%d
)
BRACE = r"\{\{\{[^{}]*\}\}\}|\{\{[^{}]*\}\}|\{%[^%]*%\}|[$#]?\{[\w.:$!,<>=+*\[\]/-]*\}"
TAG_NAME = re.compile(r"</?([A-Za-z][\w:.-]*)")
BRACKET = r"\[X\d+X\]"
ENTITY = r"&(?:[A-Za-z][A-Za-z0-9]*|#\d+|#[xX][0-9A-Fa-f]+);"
ICU = r"\{\s*[\w.]+\s*,\s*(?:plural|selectordinal|select|choice|number|date|time|duration|spellout)\b"
BRACES = re.compile("'(?=[{}])|[{}]")
LONGEST_ICU = 5_000
"""Characters; a brace that is not closed within so many is no placeholder."""
PLACEHOLDER = re.compile(
    rf"(?P<tag>{TAG})|(?P<address>{ADDRESS}|{EMAIL})|(?P<entity>{ENTITY})|(?P<bracket>{BRACKET})"
    rf"|(?P<printf>{PRINTF})|(?P<icu>{ICU})|(?P<brace>{BRACE})",
    re.DOTALL,
)
MOSES = frozenset({"&amp;", "&lt;", "&gt;", "&quot;", "&apos;", "&#124;", "&#91;", "&#93;"})
"""What Moses' tokenizer writes for signs. Much training text has them, and a model of such text translates them."""
WORD = re.compile(rf"[^\W_{UNSPACED}]")
"""A letter or digit of a script with spaces."""
# A sign may stand between: file_%d.txt.
WORD_BEFORE = re.compile(rf"[^\W{UNSPACED}][./\\-]?$")
WORD_AFTER = re.compile(rf"[./\\-]?[^\W{UNSPACED}]")
ENDS_WORD = re.compile(rf"[\s<>\"'“”„«»()\[\]{{}}{WIDE}]")
QUOTES = frozenset(
    ["()", "[]", "{}", '""', "''", "``", "«»", "»«", "“”", "„“", "‘’", "‚‘", "‹›", "「」", "『』", "（）", "【】"]
)


@dataclass(frozen=True)
class Span:
    """A stretch of a text that must come out once, byte for byte."""

    start: int
    end: int
    kind: Kind
    text: str
    """What must come out; of a glossary's term, its translation."""
    name: str = ""
    """Of a tag that opens or closes, its name; of one that stands alone, nothing."""
    closes: bool = False

    def moved(self, by: int) -> Span:
        """The same, so many characters further on."""
        return dataclasses.replace(self, start=self.start + by, end=self.end + by)


def find_spans(text: str, *, entities: Callable[[str], bool] = lambda _: True) -> list[Span]:
    """The placeholders, tags and addresses in `text`, in order; none overlaps another.

    Args:
        entities: whether an entity (`&amp;`) must be protected.
    """
    found: list[Span] = []
    least, at = 0, 0
    while match := PLACEHOLDER.search(text, at):
        start, end, kind = match.start(), match.end(), cast(Kind, match.lastgroup)
        at = end
        if kind == "icu":
            end = _closing_brace(text, start) or 0
        if not end or (kind == "entity" and not entities(match[0])):
            continue
        if kind not in ("tag", "address") and not is_space(match[0]):
            start, end = _with_its_word(text, start, end, least)
        if kind != "tag":
            while start > least and text[start - 1] + text[end : end + 1] in QUOTES:
                start, end = start - 1, end + 1
        found.append(_span(text, start, end, kind))
        least = at = end
    return found


def is_space(span: str) -> bool:
    """Whether it is an entity that stands for a space."""
    return span.startswith("&") and html.unescape(span).isspace()


def _closing_brace(text: str, start: int) -> int | None:
    """The place behind the brace that closes the one at `start`; ICU's quotes ('{') are passed over."""
    depth = 0
    i = start
    for match in BRACES.finditer(text, start, start + LONGEST_ICU):
        if match.start() < i:
            continue
        if match[0][0] == "'":
            i = text.find("'", match.end()) + 1
            if not i:
                return None
            continue
        depth += 1 if match[0] == "{" else -1
        if depth == 0:
            return match.end()
    return None


def _with_its_word(text: str, start: int, end: int, least: int) -> tuple[int, int]:
    """The word that has it in its middle, or itself."""
    if not (WORD_BEFORE.search(text[max(least, start - 2) : start]) and WORD_AFTER.match(text, end)):
        return start, end
    while start > least and not ENDS_WORD.match(text[start - 1]):
        start -= 1
    stop = end
    while stop < len(text) and not ENDS_WORD.match(text[stop]):
        stop += 1
    return start, end + len(text[end:stop].rstrip(".,;:!?…"))


def _span(text: str, start: int, end: int, kind: Kind) -> Span:
    raw = text[start:end]
    if kind != "tag":
        return Span(start, end, kind, raw)
    name = TAG_NAME.match(raw)
    return tag_span(raw, "" if name is None or raw.endswith("/>") else name[1].lower()).moved(start)


def tag_span(raw: str, name: str) -> Span:
    """A tag at the start of a text; `name` of one that opens or closes."""
    return Span(0, len(raw), "tag", raw, name, raw.startswith("</"))


def pair_tags(spans: Sequence[Span]) -> list[int | None]:
    """For each span, the place of the tag that it opens or closes with; None: it stands alone.

    As in HTML, a closing tag closes the newest open one of its name, and what was opened since stands alone (`<br>`).
    """
    partners: list[int | None] = [None] * len(spans)
    open_: list[int] = []
    for i, span in enumerate(spans):
        if not span.name:
            continue
        if not span.closes:
            open_.append(i)
            continue
        for depth in range(len(open_) - 1, -1, -1):
            if spans[open_[depth]].name == span.name:
                partners[i], partners[open_[depth]] = open_[depth], i
                del open_[depth:]
                break
    return partners


def occurrences(texts: Collection[str], inside: str) -> tuple[dict[str, int], str]:
    """How often each of `texts` stands in `inside`, none counted within a longer one; and what is left besides."""
    counts = dict.fromkeys(texts, 0)
    for text in sorted(counts, key=len, reverse=True):
        if text:
            counts[text] = inside.count(text)
            inside = inside.replace(text, "\0")
    return counts, inside
