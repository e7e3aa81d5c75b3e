"""What every reader yields."""

from __future__ import annotations

from typing import NamedTuple


class SentencePair(NamedTuple):
    """A text, its translation, and where they stand (`line` from 1).

    A side is None where its bytes were not UTF-8 and bad lines are skipped; such a pair is counted and dropped.
    """

    source: str | None
    target: str | None
    file: str
    line: int
