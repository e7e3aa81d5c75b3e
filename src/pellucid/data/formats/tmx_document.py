"""Translation memories (TMX) filled with translations."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pellucid.config import DataConfig
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.inline import Marked, from_xml, project, to_xml, with_single_blanks
from pellucid.data.formats.languages import normalized
from pellucid.data.formats.tmx import CODE, OTHER, SOURCE, TARGET, Sides
from pellucid.data.formats.xml_stream import MOST_TEXT, Tag, XmlScan, encoding_of_file
from pellucid.errors import DataError
from pellucid.version import __version__


@register_document(".tmx")
def tmx_document(path: str, config: DataConfig) -> Pieces:
    """Units with the source language, and nothing in the target language, are given a variant in it.

    It names this program, its version and the time; its `prop` of type `x-pellucid-origin` says `model` or `memory`.

    Raises:
        DataError: as :func:`read_tmx`; also where the languages are not known.
    """
    if not config.target_language:
        raise DataError(
            "it must be known which language is to be filled in, but the model does not say", file=path,
            hint="--target-lang CODE",
        )  # fmt: skip
    scan = XmlScan(path)
    codec = encoding_of_file(path)

    def encoded(raw: bytes) -> bytes:
        return raw if codec == "utf-8" else raw.decode("utf-8").encode(codec, "xmlcharrefreplace")

    sides: Sides | None = None
    for unit in _scanned_units(scan):
        if sides is None:
            sides = Sides(path, config.source_language or unit.header_language or None, config.target_language)
            sides.chosen = True
        yield encoded(scan.let_go(unit.tag.start))
        marked = _to_fill(scan, unit, sides)
        raw = scan.let_go(unit.end)
        yield encoded(raw) if marked is None else _block(raw, unit, marked, sides, encoded)
    yield encoded(scan.rest())


@dataclass
class _Variant:
    """A `tuv` and where its parts stand: bytes of the file as UTF-8."""

    tag: Tag
    language: str
    segment: tuple[int, int] | None = None
    """What is in the `seg`."""
    end: int = 0


@dataclass
class _Unit:
    """A `tu` as it stands in the file, to be filled."""

    tag: Tag
    header_language: str
    variants: list[_Variant] = field(default_factory=list)
    end: int = 0
    """The end of what is in the unit."""


def _scanned_units(scan: XmlScan) -> Iterator[_Unit]:
    header_language = ""
    unit: _Unit | None = None
    variant: _Variant | None = None
    segment: Tag | None = None
    for tag in scan:
        if tag.is_start:
            if tag.name == "header":
                header_language = tag.attributes.get("srclang", "")
                header_language = "" if header_language.lower() == "*all*" else header_language
            elif tag.name == "tu" and unit is None:
                unit = _Unit(tag, header_language)
            elif tag.name == "tuv" and unit is not None:
                language = tag.attributes.get("xml:lang") or tag.attributes.get("lang") or ""
                variant = _Variant(tag, language)
            elif tag.name == "seg":
                segment = tag
        elif tag.name == "seg" and variant is not None and segment is not None:
            start = scan.end_of(segment)
            variant.segment = start, max(start, tag.start)
        elif tag.name == "tuv" and variant is not None and unit is not None:
            variant.end = max(scan.end_of(variant.tag), scan.end_of(tag))
            unit.variants.append(variant)
            variant = None
        elif tag.name == "tu" and unit is not None:
            unit.end = tag.start
            yield unit
            unit = None


def _to_fill(scan: XmlScan, unit: _Unit, sides: Sides) -> Marked | None:
    """The source of a unit that has no text in the target language, or None."""
    texts: dict[int, list[tuple[str, Marked]]] = {SOURCE: [], TARGET: [], OTHER: []}
    try:
        for variant in unit.variants:
            if variant.segment is None or variant.segment[1] - variant.segment[0] > MOST_TEXT:
                return None
            marked = from_xml(scan.raw(*variant.segment).decode("utf-8"), CODE)
            texts[sides.of(variant.language, unit.tag.line)].append((variant.language, marked))
    except ValueError:
        return None
    sources = texts[SOURCE]
    if not sources or any(marked.text.strip() for _, marked in texts[TARGET]):
        return None
    exact = [marked for language, marked in sources if normalized(language) == normalized(sides.source or "")]
    marked = with_single_blanks((exact or [sources[0][1]])[0])
    return marked if marked.text.strip() else None


def _block(raw: bytes, unit: _Unit, marked: Marked, sides: Sides, encoded: Callable[[bytes], bytes]) -> Block:
    begin = unit.tag.start

    def write(fillings: Sequence[Filling]) -> bytes:
        filling = fillings[0]
        old = next((v for v in unit.variants if sides.of(v.language, unit.tag.line) == TARGET), None)
        last = unit.variants[-1]
        start, end = (last.end, last.end) if old is None else (old.tag.start, old.end)
        before = raw[: unit.variants[0].tag.start - begin]
        indent = before[len(before.rstrip()) :] if old is None else b""
        language = old.language if old is not None else sides.target
        now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        variant = (
            f'<tuv xml:lang="{language}" creationtool="pellucid" creationtoolversion="{__version__}"'
            f' creationdate="{now}"><prop type="x-pellucid-origin">{filling.origin or "model"}</prop>'
            f"<seg>{project(marked, filling.text, to_xml)}</seg></tuv>"
        )
        return encoded(raw[: start - begin] + indent + variant.encode("utf-8") + raw[end - begin :])

    return Block((marked.text,), unit.tag.line, encoded(raw), write)
