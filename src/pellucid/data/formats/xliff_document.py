"""XLIFF filled with translations."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pellucid.config import DataConfig
from pellucid.data.formats.document import Amendment, Block, Filling, Pieces, register_document
from pellucid.data.formats.inline import XML_TOKEN, Marked, project, to_xml, with_single_blanks
from pellucid.data.formats.xliff import DONE, Unit, is_turned, read_units, text_of
from pellucid.data.formats.xml_stream import Tag, XmlScan, encoding_of_file, with_attributes
from pellucid.errors import DataError


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

    head = Amendment()
    top: Tag | None = None
    for unit in read_units(scan):
        if is_turned(unit, config, path):
            raise DataError(f"must be {config.source_language} to {config.target_language}, but is turned", file=path)
        begin = unit.tag.start
        if unit.top is not top and not unit.direction[1] and config.target_language and unit.top.start < begin:
            # A file that has targets must say their language.
            yield from head.before(encoded(scan.let_go(unit.top.start)))
            tag = scan.let_go(scan.end_of(unit.top))
            name = "trgLang" if unit.top.name == "xliff" else "target-language"
            amended = with_attributes(tag.decode("utf-8"), {name: config.target_language})
            head.hold(encoded(tag), encoded(amended.encode("utf-8")))
        top = unit.top
        yield from head.before(encoded(scan.let_go(begin)))
        marked = _to_fill(scan, unit, config)
        raw = scan.let_go(unit.end)
        yield from head.before(encoded(raw) if marked is None else _block(raw, unit, marked, encoded))
    yield from head.before(encoded(scan.rest()))
    yield head.rest()


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
