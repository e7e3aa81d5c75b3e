"""Terms: a glossary of translations that must be used, and words that must not be translated."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from pellucid.data.formats.lines import read_lines
from pellucid.errors import DataError
from pellucid.text.spans import WIDE, Span

MOST_TERMS = 50_000
KEY = 3
"""Letters by which terms are looked up."""
BOUND = re.compile(rf"[^\W_{WIDE}]")
"""What a whole word neither begins before nor goes on with."""


class Terms:
    """Source terms and what they must become.

    A term is found as a whole word, the longest first. One in lower case is found in any case; one with a capital only
    as it is written.
    """

    def __init__(self, translations: Mapping[str, str]) -> None:
        self.translations = dict(translations)

    @classmethod
    def read(cls, glossary: str | Path | None = None, do_not_translate: str | Path | None = None) -> Terms:
        """From files in UTF-8: a glossary with `source<TAB>target` a line, a list with a term a line. `#` begins a
        comment line.

        Raises:
            DataError: a line without its two sides, a term with two translations, or too many.
        """
        found: dict[str, str] = {}
        for path, sides in ((glossary, 2), (do_not_translate, 1)):
            for number, line in enumerate(() if path is None else read_lines(str(path)), 1):
                if line.error is not None:
                    raise line.error
                text = (line.text or "").strip("\r\n \ufeff")
                if not text or text.startswith("#"):
                    continue
                parts = [part.strip() for part in text.split("\t")]
                if len(parts) != sides or not all(parts):
                    wanted = "source<TAB>target" if sides == 2 else "one term"
                    raise DataError(f"a line must be {wanted}, but is {text[:60]!r}", file=str(path), line=number)
                if found.setdefault(parts[0], parts[-1]) != parts[-1]:
                    raise DataError(f"{parts[0]!r} has two translations: {found[parts[0]]!r} and {parts[-1]!r}",
                                    file=str(path), line=number)  # fmt: skip
        if len(found) > MOST_TERMS:
            raise DataError(f"there must be at most {MOST_TERMS:,} terms, but there are {len(found):,}")
        return cls(found)

    def __bool__(self) -> bool:
        return bool(self.translations)

    def find(self, text: str) -> list[Span]:
        """The terms in `text`, in order, none within another; `Span.text` is the translation."""
        found: list[Span] = []
        at = 0
        while at < len(text):
            term = self._at(text, at)
            if term is not None:
                found.append(Span(at, at + len(term), "term", self.translations[term]))
            at += 1 if term is None else len(term)
        return found

    def _at(self, text: str, at: int) -> str | None:
        """The longest term that begins there."""
        for size in (KEY, *range(KEY - 1, 0, -1)):
            for term in self._by_beginning.get(text[at : at + size].lower(), ()):
                found = text[at : at + len(term)]
                if (found == term or (term == term.lower() and found.lower() == term)) and _is_whole(
                    text, at, at + len(term)
                ):
                    return term
        return None

    @cached_property
    def _by_beginning(self) -> dict[str, list[str]]:
        """Terms by their first letters, so that a text is looked through once, however many terms there are."""
        index: dict[str, list[str]] = {}
        for term in sorted(self.translations, key=len, reverse=True):
            index.setdefault(term[:KEY].lower(), []).append(term)
        return index


def _is_whole(text: str, start: int, end: int) -> bool:
    """Whether no word of a script with spaces goes on beyond the edges."""
    return not (_joined(text[start - 1 : start], text[start]) or _joined(text[end - 1], text[end : end + 1]))


def _joined(left: str, right: str) -> bool:
    return BOUND.match(left) is not None and BOUND.match(right) is not None


def count(term: str, inside: str) -> int:
    """How often `term` stands in `inside` as a whole word, in exactly this writing."""
    return sum(_is_whole(inside, m.start(), m.end()) for m in re.finditer(re.escape(term), inside))


def missing(terms: Sequence[Span], inside: str) -> list[Span]:
    """The terms, each time that they stand in the source, of whose translation there is too little in `inside`.

    Each translation must be there as often as all of them together have it: a word within a longer term does not stand for
    the word itself.
    """
    wanted = [term.text for term in terms]
    needed = {text: sum(count(text, other) for other in wanted) for text in set(wanted)}
    return [term for term in terms if count(term.text, inside) < needed[term.text]]
