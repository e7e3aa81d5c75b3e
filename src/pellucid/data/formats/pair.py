"""What every reader yields."""

from __future__ import annotations

from typing import NamedTuple


class SentencePair(NamedTuple):
    """A text, its translation, and where they stand (`line` from 1).

    Both sides are None where nothing could be read: bytes that are not UTF-8 and bad lines are skipped, or a broken
    unit, of which `problem` says what is wrong. Such a pair is counted and dropped.
    """

    source: str | None
    target: str | None
    file: str
    line: int
    unit: str = ""
    """The name or number of the unit in a file that is not made of lines: a TMX unit, a PO message."""
    problem: str | None = None

    @property
    def where(self) -> str:
        """For people: file, line and unit."""
        return f"{self.file}:{self.line}" + (f" (unit {self.unit})" if self.unit else "")
