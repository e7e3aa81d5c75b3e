"""XLIFF 1.0 to 1.2 and 2.0: what translators' programs exchange. A `trans-unit` (1.x) or `segment` (2.0) is a pair.

Left out: units without target, and such as their state or `translate="no"` says are not done (`data.fuzzy` reads those
too). Proposals (`alt-trans`, `mtc:match`) and `seg-source` are not read.

Inline elements: what stands for code (`x`, `ph`, `bpt`, `sc`, …) is left out with what is in it; text inside `g`,
`mrk` and `pc` stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pellucid.config import DataConfig
from pellucid.data.formats.inline import Marked, from_xml
from pellucid.data.formats.languages import same_direction
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.data.formats.xml_stream import MOST_TEXT, Tag, XmlScan
from pellucid.errors import DataError

UNITS = ("trans-unit", "segment")
CODE = frozenset({"x", "bx", "ex", "bpt", "ept", "it", "ph", "sub", "cp", "sc", "ec", "sm", "em"})
DONE = {"", "final", "signed-off", "translated", "reviewed"}
"""States of a target that has been translated and looked at; "" is none."""


@dataclass
class Unit:
    """One pair and where its parts stand: bytes of the file as UTF-8, each from the first to the one after the last."""

    tag: Tag
    name: str
    translate: bool
    direction: tuple[str, str]
    """Its languages, as the file says; "" where it does not."""
    top: Tag
    """The start tag that says them: `file` (1.x) or `xliff` (2.0)."""
    source: tuple[int, int] | None = None
    """What is in the element `source`."""
    source_end: int = 0
    """The end of the element, or of the `seg-source` after it: where a target belongs."""
    target_tag: Tag | None = None
    target: tuple[int, int] | None = None
    """What is in the element `target`."""
    target_end: int = 0
    end: int = 0
    """The end of what is in the unit."""
    problem: str | None = None

    @property
    def state(self) -> str:
        """What is said about the target: "" if nothing."""
        said = self.tag if self.tag.name == "segment" else self.target_tag
        return said.attributes.get("state", "") if said else ""


@register(".xlf", ".xliff")
def read_xliff(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a file, each with the line of its unit. A broken unit is a pair without text that says why.

    Raises:
        DataError: what is not XML, entity declarations, a file of other languages than are wanted.
    """
    scan = XmlScan(path)
    for unit in read_units(scan):
        if not config.fuzzy and (unit.state not in DONE or not unit.translate):
            continue
        turned = is_turned(unit, config, path)
        try:
            if unit.problem is not None:
                raise ValueError(unit.problem)
            sides = text_of(scan, unit.source).text, text_of(scan, unit.target).text
            yield SentencePair(*(sides[::-1] if turned else sides), path, unit.tag.line, unit.name)
        except ValueError as error:
            yield SentencePair(None, None, path, unit.tag.line, unit.name, str(error))


def text_of(scan: XmlScan, place: tuple[int, int] | None) -> Marked:
    """The text of a `source` or `target`, and the codes in it; of none, no text.

    Raises:
        ValueError: an entity that is declared nowhere, or a text that is too long.
    """
    if place is None:
        return Marked("")
    if place[1] - place[0] > MOST_TEXT:
        raise ValueError(f"a text of more than {MOST_TEXT:,} bytes")
    return from_xml(scan.raw(*place).decode("utf-8"), CODE)


def is_turned(unit: Unit, config: DataConfig, path: str) -> bool:
    """Whether the file's source is the wanted target.

    Raises:
        DataError: neither way round.
    """
    try:
        return same_direction(unit.direction, (config.source_language, config.target_language)) is None
    except ValueError as error:
        raise DataError(
            "must be of the languages that are wanted", file=path, line=unit.tag.line, hint=f"it is {error}"
        ) from None


def read_units(scan: XmlScan) -> Iterator[Unit]:
    """The units in order. While one is given, `scan` still holds its bytes; those before it may be gone afterwards."""
    names: list[str] = []
    translate = [True]
    direction = ("", "")
    top: Tag | None = None
    number = 0
    unit_name = ""
    unit: Unit | None = None
    depth = 0  # of what is open with the unit; units may stand within units, where nothing good can be meant
    open_tag: Tag | None = None
    for tag in scan:
        if tag.is_start:
            names.append(tag.name)
            said = tag.attributes.get("translate")
            translate.append(translate[-1] if said is None else said != "no")
            if tag.name == "file" and "source-language" in tag.attributes:
                top, direction = tag, (tag.attributes["source-language"], tag.attributes.get("target-language", ""))
            elif tag.name == "xliff" and "srcLang" in tag.attributes:
                top, direction = tag, (tag.attributes["srcLang"], tag.attributes.get("trgLang", ""))
            elif tag.name == "unit":
                unit_name = tag.attributes.get("id", "")
            elif tag.name in UNITS and unit is None:
                number += 1
                name = tag.attributes.get("id") or unit_name or str(number)
                unit, depth = Unit(tag, name, translate[-1], direction, top or tag), len(names)
            elif unit is not None and len(names) == depth + 1 and tag.name in ("source", "target"):
                open_tag = tag
            continue
        names.pop()
        translate.pop()
        if unit is None:
            continue
        of_unit = len(names) == depth
        if of_unit and tag.name in ("source", "target") and open_tag is not None:
            start, end = scan.end_of(open_tag), scan.end_of(tag)
            inside = (start, max(start, tag.start))
            if tag.name == "source":
                unit.source, unit.source_end = inside, max(start, end)
            elif unit.target is None:
                unit.target, unit.target_tag, unit.target_end = inside, open_tag, max(start, end)
            open_tag = None
        elif of_unit and tag.name == "seg-source":
            unit.source_end = scan.end_of(tag)
        elif len(names) == depth - 1:
            unit.end = tag.start
            if unit.source is None:
                unit.problem = "no source"
            yield unit
            unit = None
            scan.let_go(tag.start)
