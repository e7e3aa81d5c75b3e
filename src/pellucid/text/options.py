"""How a text is handled around its translation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pellucid.errors import ConfigError
from pellucid.text.terms import Terms

FORMATS = ("text", "html")


@dataclass(frozen=True)
class TextOptions:
    """What is done to a text besides translating it.

    Raises:
        ConfigError: no such format.
    """

    format: Literal["text", "html"] = "text"
    protect: bool = True
    """Placeholders, tags and addresses come out as they went in (HTML's tags always do)."""
    split_sentences: bool = False
    """Lines are translated one by one, and their sentences too if the model has learnt from single sentences; what is
    between them is kept."""
    terms: Terms | None = None
    """A glossary, and what must not be translated."""
    retry_loops: bool = False
    """A translation that says the same again and again is searched anew, with no run of pieces allowed twice."""

    def __post_init__(self) -> None:
        if self.format not in FORMATS:
            raise ConfigError(f"`format` must be one of {', '.join(FORMATS)}, but is {self.format!r}")


SERVED = TextOptions(split_sentences=True, retry_loops=True)
"""What a server does unless it is asked otherwise: whole texts come in, and nobody is there to look."""
