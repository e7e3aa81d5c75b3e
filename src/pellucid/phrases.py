"""A glossary's terms as what a search must say: see :mod:`pellucid.constrained_search`."""

from __future__ import annotations

import re
from functools import cached_property

from pellucid.constrained_search import Phrase
from pellucid.data.tokenizer import Tokenizer
from pellucid.text.spans import WIDE
from pellucid.text.terms import BOUND

ANCHOR = "\ue000"
"""A character that is in no piece with others: what is cut behind it has no space before it."""


class Phrasebook:
    """The phrases of one target language.

    A term is looked for as it stands within a sentence: behind a space, or (in a script without spaces) behind a
    character. At the beginning of a sentence the pieces are the same.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    def phrase(self, term: str, before: str | None = None) -> Phrase | None:
        """What must be said for `term` to stand in the translation as it is written; None: its pieces do not give it back.

        Args:
            before: it begins after as many pieces as this has, at most; None: anywhere.
        """
        tokens = self._tokenizer.encode(term)
        if re.match(f"[{WIDE}]", term):
            anchor, both = self._tokenizer.encode(ANCHOR), self._tokenizer.encode(ANCHOR + term)
            if both[: len(anchor)] == anchor:
                tokens = both[len(anchor) :]
        if not tokens or self._tokenizer.unk_id in tokens or self._tokenizer.decode(tokens) != term:
            return None
        latest = None if before is None else len(self._tokenizer.encode(before))
        return Phrase(tuple(tokens), self._letters if BOUND.match(term[-1]) else frozenset(), latest)

    @cached_property
    def _letters(self) -> frozenset[int]:
        """The pieces that go on with a word: those that begin with a letter or a digit, or with the first byte of one."""
        ids = range(self._tokenizer.pad_id)
        pieces = zip(ids, self._tokenizer.pieces(ids), strict=True)
        return frozenset(i for i, piece in pieces if self._goes_on(i, piece))

    def _goes_on(self, i: int, piece: str) -> bool:
        if self._tokenizer.kind_of(i) == "byte":
            byte = bytes.fromhex(piece[3:5])
            return byte.isalnum() or byte >= b"\xc0"  # what is beyond ASCII may become a letter
        return BOUND.match(piece) is not None
