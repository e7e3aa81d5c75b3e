"""Makes translations say the terms that they lack, by searching them anew; a term at a time, from left to right.

    the plain translation           der hund mag | die  | lampe | am fenster     attention: "lampe" stands for "lamp"
    what stands before it is kept   der hund mag
    one word is free                der hund mag | das  |                        it may have to agree with the term
    the term must come now          der hund mag | das  | licht |
    the rest is searched            der hund mag | das  | licht | am fenster

A search that may put a term anywhere puts it where it disturbs least: behind the full stop, with the model's own word for
it still in its place. So the place is prescribed, and what comes is looked at again. The model may have taken the term for
an addition and said its own word after it; then that word has the attention of the source's, and not the term. Or a word
that stood before the term may be gone. Such a translation is not taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pellucid.config import SearchConfig
from pellucid.errors import ConfigError
from pellucid.text.bare import Bare
from pellucid.text.placement import Attention, place_of
from pellucid.text.spans import Span
from pellucid.text.terms import missing
from pellucid.translation import Demand, Translation

FREE_WORDS = 1
"""Before a term, that are searched anew: an article agrees with its noun."""
WORSE = {"truncated", "repeated"}
"""Flags of translations that are not taken, if the plain one had not got them."""


class Searcher(Protocol):
    """What translates: see :class:`~pellucid.handling.Core`."""

    def translate_plain(
        self,
        texts: Sequence[str],
        config: SearchConfig,
        prefixes: Sequence[str],
        seeds: Sequence[int],
        scores: bool,
        demands: Sequence[Demand | None] = (),
    ) -> list[Translation]: ...

    def attention(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]: ...


@dataclass
class Draft:
    """A translation on its way."""

    source: Bare
    terms: Sequence[Span]
    """Of the source; `text` is what must be said."""
    translation: Translation
    prefix: str
    """What the user wants it to begin with."""
    seed: int
    whole: Sequence[str] = ()
    """Placeholders that are one word."""
    said: dict[Span, int] = field(default_factory=dict)
    """Terms that have been asked for, and how many words stood before them."""
    result: Translation | None = None
    """With all terms; None: that did not work."""

    def next(self, attention: Attention) -> tuple[str, Demand] | None:
        """What to search now: a prefix, and the term that follows; None: nothing, the result is there or will never be."""
        text = self.translation.text
        if not all(self._stands(term, before, attention) for term, before in self.said.items()):
            return None
        lacking = missing(self.terms, text)
        if not lacking:
            self.result = self.translation
        found = []
        for term in lacking:
            if term not in self.said:
                words, first, _ = self._place(term, attention)
                found.append((first, term.start, term, words))
        if not found:
            return None
        first, _, term, words = min(found, key=lambda each: each[:2])
        self.said[term] = first
        starts = [*(start for start, _ in words), len(text)]
        kept = text[: starts[max(0, first - FREE_WORDS)]].rstrip()
        return max(kept, self.prefix, key=len), Demand(term.text, text[: starts[first]].rstrip())

    def _place(self, term: Span, attention: Attention) -> tuple[list[tuple[int, int]], int, int]:
        return place_of(term.start, term.end, self.source, self.translation.text, attention, self.whole)

    def _stands(self, term: Span, before: int, attention: Attention) -> bool:
        """Whether a term stands where attention expects it, with as many words before it as there were."""
        words, first, end = self._place(term, attention)
        if first == end or first < before:
            return False
        return self.translation.text[words[first][0] : words[end - 1][1]] == term.text


def insist(core: Searcher, drafts: Sequence[Draft], config: SearchConfig, scores: bool) -> None:
    """Give each of `drafts` its result, if it can be had."""
    going = list(drafts)
    while going:
        attentions = core.attention([(draft.source.text, draft.translation.text) for draft in going])
        asked = [(draft, step) for draft, a in zip(going, attentions, strict=True) if (step := draft.next(a))]
        if not asked:
            return
        texts, seeds = [draft.source.text for draft, _ in asked], [draft.seed for draft, _ in asked]
        prefixes, demands = [prefix for _, (prefix, _) in asked], [demand for _, (_, demand) in asked]
        try:
            found = core.translate_plain(texts, config, prefixes, seeds, scores, demands)
        except ConfigError:  # an engine that cannot
            return
        going = []
        for (draft, _), translation in zip(asked, found, strict=True):
            if not WORSE & {*translation.flags} - {*draft.translation.flags}:
                draft.translation = translation
                going.append(draft)
