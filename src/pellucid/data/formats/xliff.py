"""XLIFF 1.0 to 1.2 and 2.0: what translators' programs exchange. A `trans-unit` (1.x) or `segment` (2.0) is a pair.

Left out: units without target, and such as their state or `translate="no"` says are not done (`data.fuzzy` reads those
too). Proposals (`alt-trans`, `mtc:match`) and `seg-source` are not read.

Inline elements: what stands for code (`x`, `ph`, `bpt`, `sc`, …) is left out with what is in it; text inside `g`,
`mrk` and `pc` stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pellucid.config import DataConfig
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.inline import XML_TOKEN, Marked, from_xml, project, to_xml, with_single_blanks
from pellucid.data.formats.languages import same_direction
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.data.formats.xml_stream import MOST_TEXT, Tag, XmlScan, encoding_of_file, with_attributes
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


@register_document(".xlf", ".xliff")
def xliff_document(path: str, config: DataConfig) -> Pieces:
    """Units without target are filled; with `config.fuzzy` also those whose state says that they are not done.

    What is filled in is marked: in 1.x by `state="needs-review-translation"` and `state-qualifier` `mt-suggestion` or
    `exact-match` (from a memory); in 2.0 by `state="translated"` and `subState` `pellucid:model` or `pellucid:memory`.
    Inline codes go into the target: see :func:`~pellucid.data.formats.inline.project`.

    Raises:
        DataError: as :func:`read_xliff`; also a file of the other direction.
    """
    scan = XmlScan(path)
    codec = encoding_of_file(path)

    def encoded(raw: bytes) -> bytes:
        return raw if codec == "utf-8" else raw.decode("utf-8").encode(codec, "xmlcharrefreplace")

    top: Tag | None = None
    for unit in read_units(scan):
        if is_turned(unit, config, path):
            raise DataError(f"must be {config.source_language} to {config.target_language}, but is turned", file=path)
        begin = unit.tag.start
        if unit.top is not top and not unit.direction[1] and config.target_language and unit.top.start < begin:
            # A file that has targets must say their language.
            yield encoded(scan.let_go(unit.top.start))
            end = scan.end_of(unit.top)
            name = "trgLang" if unit.top.name == "xliff" else "target-language"
            tag = with_attributes(scan.let_go(end).decode("utf-8"), {name: config.target_language})
            yield encoded(tag.encode("utf-8"))
        top = unit.top
        yield encoded(scan.let_go(begin))
        marked = _to_fill(scan, unit, config)
        if marked is not None:
            yield _block(scan.raw(begin, unit.end), unit, marked, encoded)
        else:
            yield encoded(scan.raw(begin, unit.end))
        scan.let_go(unit.end)
    yield encoded(scan.rest())


def _to_fill(scan: XmlScan, unit: Unit, config: DataConfig) -> Marked | None:
    """The source of a unit that is to be filled, or None."""
    if not unit.translate or unit.problem is not None:
        return None
    try:
        source, target = text_of(scan, unit.source), text_of(scan, unit.target)
    except ValueError:
        return None
    is_open = not target.text.strip() or (config.fuzzy and unit.state not in DONE)
    return with_single_blanks(source) if is_open and source.text.strip() else None


def _block(raw: bytes, unit: Unit, marked: Marked, encoded: Callable[[bytes], bytes]) -> Block:
    begin = unit.tag.start

    def part(start: int, end: int) -> str:
        return raw[start - begin : end - begin].decode("utf-8")

    def write(fillings: Sequence[Filling]) -> bytes:
        text = project(marked, fillings[0].text, to_xml)
        from_memory = fillings[0].origin == "memory"
        assert unit.source is not None
        head = part(begin, unit.source[0])
        source_tag = head[head.rindex("<") :]
        if unit.target_tag is None:
            prefix = source_tag[1 : source_tag.index("source")]
            target_tag = f"<{prefix}target>"
            blanks = re.search(r"\s*$", head.removesuffix(source_tag))
            start = end = unit.source_end
            indent = blanks[0] if blanks else ""
        else:
            assert unit.target is not None
            start, end, indent = unit.target_tag.start, unit.target_end, ""
            target_tag = part(start, unit.target[0]).replace("/>", ">")
            prefix = target_tag[1 : target_tag.index("target")]
        before = part(begin, start)
        if unit.tag.name == "segment":
            unit_tag = XML_TOKEN.match(before)
            assert unit_tag is not None
            state = {"state": "translated", "subState": f"pellucid:{'memory' if from_memory else 'model'}"}
            before = with_attributes(unit_tag[0], state) + before[unit_tag.end() :]
        else:
            qualifier = "exact-match" if from_memory else "mt-suggestion"
            target_tag = with_attributes(
                target_tag, {"state": "needs-review-translation", "state-qualifier": qualifier}
            )
        filled = f"{before}{indent}{target_tag}{text}</{prefix}target>{part(end, unit.end)}"
        return encoded(filled.encode("utf-8"))

    return Block((marked.text,), unit.tag.line, encoded(raw), write)


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
    open_tag: Tag | None = None
    for tag in scan:
        if tag.is_start:
            parent = names[-1] if names else ""
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
                unit = Unit(tag, name, translate[-1], direction, top or tag)
            elif unit is not None and parent == unit.tag.name and tag.name in ("source", "target"):
                open_tag = tag
            continue
        names.pop()
        translate.pop()
        if unit is None:
            continue
        parent = names[-1] if names else ""
        if parent == unit.tag.name and tag.name in ("source", "target") and open_tag is not None:
            start, end = scan.end_of(open_tag), scan.end_of(tag)
            inside = (start, max(start, tag.start))
            if tag.name == "source":
                unit.source, unit.source_end = inside, max(start, end)
            elif unit.target is None:
                unit.target, unit.target_tag, unit.target_end = inside, open_tag, max(start, end)
            open_tag = None
        elif parent == unit.tag.name and tag.name == "seg-source":
            unit.source_end = scan.end_of(tag)
        elif tag.name == unit.tag.name and unit.tag.name not in names:
            unit.end = tag.start
            if unit.source is None:
                unit.problem = "no source"
            yield unit
            unit = None
            scan.let_go(tag.start)
