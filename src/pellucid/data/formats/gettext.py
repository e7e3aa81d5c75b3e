"""What PO and MO share: the header of a catalogue, and which text each form of a plural translates."""

from __future__ import annotations

import gettext
import re

from pellucid.config import DataConfig
from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.languages import same_direction
from pellucid.errors import DataError

CHARSET = re.compile(r"charset=[ \t]*([^\s;\\]+)", re.IGNORECASE)
PLURAL_FORMS = re.compile(r"nplurals\s*=\s*(\d+)\s*;\s*plural\s*=\s*([^;\n]+)", re.IGNORECASE)
MOST_FORMS = 20


class Header:
    """What the translation of the empty text says about the whole catalogue."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.language = self._field("Language")
        found = CHARSET.search(self._field("Content-Type"))
        self.declared = found[1] if found else ""
        """The character set as it is written: may be a name that nobody knows."""
        self.charset = known_charset(self.declared) or "utf-8"
        plural = PLURAL_FORMS.search(self._field("Plural-Forms"))
        forms = int(plural[1][:3]) if plural else 0
        self.forms = forms if 0 < forms <= MOST_FORMS else 0
        """How many forms a plural has; 0: it is not said."""
        self.form_of_one = _form_of_one(plural[2]) if plural else 0
        """Which of them stands with the number 1."""

    def _field(self, name: str) -> str:
        found = re.search(rf"^{name}:[ \t]*(.*)$", self.text, re.IGNORECASE | re.MULTILINE)
        return found[1].strip() if found else ""

    def is_turned(self, config: DataConfig, path: str) -> bool:
        """Whether the translations are the wanted source, and the originals the wanted target.

        Raises:
            DataError: a catalogue of other languages. (One that names none is taken as it stands.)
        """
        try:
            return same_direction(("", self.language), (config.source_language, config.target_language)) is None
        except ValueError as error:
            raise DataError(
                f"must be a catalogue of the languages that are wanted, but its header says `Language: {self.language}`",
                file=path,
                hint=f"it is {error}",
            ) from None


def _form_of_one(rule: str) -> int:
    try:
        return int(gettext.c2py(rule.strip())(1))
    except (ValueError, ArithmeticError, RecursionError):
        return 0


def form_sources(singular: str, plural: str, count: int, header: Header) -> list[str]:
    """What each of `count` forms translates: the singular where it is the form of 1 and of few else, else the plural.

    A language with one form for all numbers translates the plural.
    """
    one = header.form_of_one
    return [singular if form == one and count > 1 else plural for form in range(count)]
