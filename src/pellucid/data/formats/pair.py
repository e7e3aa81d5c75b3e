"""What every reader yields."""

from __future__ import annotations

from typing import NamedTuple


class SentencePair(NamedTuple):
    """A source text, its translation, and where they stand. A side is None where its bytes were bad and skipped."""

    source: str | None
    target: str | None
    file: str
    line: int
