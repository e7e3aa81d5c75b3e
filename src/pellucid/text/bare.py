"""A text without its placeholders and tags, and where they stood: what a model is given that has learnt from plain text."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from pellucid.text.spans import UNSPACED, WIDE, Span, is_space

PUNCTUATION = re.compile(r"[.,;:!?…)\]}»”’。，、；：！？]")
"""Signs that stand behind a word with no space."""
WORDS = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+(?:['’-][^\W_{UNSPACED}]+)*|[^\w\s]|_")
"""Words of scripts with spaces, single letters of those without, single signs."""


OUTSIDE = -1
"""The partner of a tag that opens or closes in another sentence."""

Side = Literal["space", "wide", "glued"]
"""What stood beside a span: a space or an end; a letter of a script without spaces; anything else."""


@dataclass(frozen=True)
class Mark:
    """One span that was taken out."""

    span: Span
    at: int
    """The place in the bare text that it stood at."""
    before: str
    after: str
    """Spaces that went with it, so that none stands twice or before a full stop."""
    instead: str
    """What stands in its place in the bare text: for a space that is an entity, a space."""
    left: Side
    right: Side
    partner: int | None
    """For a tag, the number of the mark that it opens or closes with."""


@dataclass(frozen=True)
class Bare:
    """A text without its spans."""

    text: str
    marks: tuple[Mark, ...]

    def restored(self) -> str:
        """The text again, each span as it must come out."""
        parts, at = [], 0
        for mark in self.marks:
            parts += [self.text[at : mark.at], mark.before, mark.span.text, mark.after]
            at = mark.at + len(mark.instead)
        return "".join([*parts, self.text[at:]])


def take_out(
    text: str, spans: Sequence[Span], partners: Sequence[int | None], plain: Callable[[str], str] = str
) -> Bare:
    """`text` without `spans`, which do not overlap and are in order.

    Args:
        partners: of each span, as of :func:`~pellucid.text.spans.pair_tags`, or OUTSIDE.
        plain: what becomes of the text between them.
    """
    bare = ""
    marks: list[Mark] = []
    at = 0
    stand_in = -1  # where the newest space is that stands for an entity, and must stay
    for span, partner in zip(spans, partners, strict=True):
        bare += plain(text[at : span.start])
        at = span.end
        left, right = text[span.start - 1 : span.start] if span.start else "", text[span.end : span.end + 1]
        before = after = instead = ""
        if (not bare or bare[-1].isspace()) and right == " ":
            after, at = right, at + 1
        elif bare.endswith(" ") and PUNCTUATION.match(right) and stand_in != len(bare) - 1:
            bare, before = bare[:-1], " "
            behind = next((k for k in range(len(marks), 0, -1) if marks[k - 1].at <= len(bare)), 0)
            for k in range(behind, len(marks)):  # taken out behind the same space, which the first of them now has
                marks[k] = dataclasses.replace(marks[k], at=len(bare), before=before + marks[k].before)
                before = ""
        elif is_space(span.text) and bare and right:
            instead, stand_in = " ", len(bare)
        marks.append(Mark(span, len(bare), before, after, instead, _side(left), _side(right), partner))
        bare += instead
    return Bare(bare + plain(text[at:]), tuple(marks))


def _side(character: str) -> Side:
    if not character or character.isspace():
        return "space"
    return "wide" if re.match(f"[{WIDE}]", character) else "glued"


def words(text: str, whole: Sequence[str] = ()) -> list[tuple[int, int]]:
    """Where the words of `text` begin and end. Each of `whole` that stands in it is one word."""
    pattern = WORDS
    if whole:
        kept = "|".join(map(re.escape, sorted(whole, key=len, reverse=True)))
        pattern = re.compile(f"{kept}|{WORDS.pattern}")
    return [match.span() for match in pattern.finditer(text)]
