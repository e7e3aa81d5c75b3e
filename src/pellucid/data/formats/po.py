"""Gettext catalogues (PO). Read entry by entry, with every line kept, so that a catalogue can be written back with
only what was filled in changed.

Left out: the header, entries without translation, obsolete ones (`data.obsolete`) and fuzzy ones (`data.fuzzy`). Each
form of a plural is a pair of its own. The unit is named by its context (msgctxt). An entry that cannot be read is
reported, and reading goes on with the next one.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from pellucid.config import DataConfig
from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.gettext import Header, form_sources
from pellucid.data.formats.lines import BOM, UNREADABLE, open_bytes, raw_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.errors import DataError

KEYWORD = re.compile(r"(msgctxt|msgid_plural|msgid|msgstr)[ \t]*(?:\[[ \t]*(\d{1,4})[ \t]*\])?[ \t]*(?=\")")
STRING = re.compile(r"[ \t]*\"((?:[^\"\\]|\\.)*)\"[ \t]*")
ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|.)", re.DOTALL)
ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\", '"': '"'}
CHARSET = re.compile(rb"Content-Type:[^\n]{0,100}?charset=[ \t]*(?P<charset>[^\s;\\\"]{1,50})", re.IGNORECASE)
HEAD = 1 << 16
MOST_ENTRY = 1 << 23
"""Bytes of one entry, at most."""


@dataclass
class Entry:
    """One message: its lines as they stand in the file, and what they say."""

    line: int
    """The number of its first keyword, from 1."""
    lines: list[bytes] = field(default_factory=list)
    context: str | None = None
    msgid: str | None = None
    plural: str | None = None
    forms: dict[int, str] = field(default_factory=dict)
    """The translations; without plural only number 0."""
    places: dict[int, tuple[int, int]] = field(default_factory=dict)
    """For each form the numbers of its first line and of the one after its last, in `lines` from 0."""
    flags: set[str] = field(default_factory=set)
    first: int | None = None
    """The number of the line, in `lines` from 0, with the first keyword, below the comments."""
    flag_line: int | None = None
    obsolete: bool = False
    problem: str | None = None

    @property
    def is_header(self) -> bool:
        return self.msgid == "" and self.context is None and not self.obsolete

    @property
    def is_fuzzy(self) -> bool:
        return "fuzzy" in self.flags


@register(".po", ".pot")
def read_po(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a catalogue, each with the line of its entry. A broken entry is a pair without text that says why.

    Raises:
        DataError: a catalogue of other languages than are wanted, or a file that cannot be read.
    """
    header = Header("")
    turned = False
    for entry in read_entries(path):
        if entry.problem is not None:
            yield SentencePair(None, None, path, entry.line, entry.context or "", entry.problem)
        elif entry.msgid is None:
            continue  # comments at the end
        elif entry.is_header:
            header = Header(entry.forms.get(0, ""))
            turned = header.is_turned(config, path)
        elif (config.obsolete or not entry.obsolete) and (config.fuzzy or not entry.is_fuzzy):
            for form, source in enumerate(sources_of(entry, max(entry.forms) + 1, header)):
                target = entry.forms.get(form, "")
                pair = (target, source) if turned else (source, target)
                yield SentencePair(*pair, path, entry.line, entry.context or "")


def sources_of(entry: Entry, count: int, header: Header) -> list[str]:
    """What each of `count` forms of an entry translates; one without plural has one."""
    assert entry.msgid is not None
    return [entry.msgid] if entry.plural is None else form_sources(entry.msgid, entry.plural, count, header)


def charset_of(path: str) -> str:
    """The character set that the header of a catalogue names; UTF-8 if it names none that is known.

    Raises:
        DataError: UTF-16, in which there are no catalogues.
    """
    file = open_bytes(path)
    try:
        head = file.read(HEAD)
    except UNREADABLE:
        return "utf-8"  # a broken archive: whoever reads on says so, with the line
    finally:
        file.close()
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError("must not be UTF-16", file=path, hint="iconv -f UTF-16 -t UTF-8 OLD > NEW")
    if head.startswith(BOM):
        return "utf-8"
    found = next(filter(None, map(declared_charset, head.split(b"\n"))), None)
    return (known_charset(found["charset"].decode("ascii", "replace")) if found else None) or "utf-8"


def declared_charset(line: bytes) -> re.Match[bytes] | None:
    """Where a line of the header names the character set (group `charset`), or None."""
    return None if line.lstrip().startswith(b"#") else CHARSET.search(line)


def read_entries(path: str) -> Iterator[Entry]:
    """All entries of a catalogue in order; their `lines` together are the whole file, line ends and all.

    Blank lines belong to the entry above them, comments to the one below.
    """
    charset = charset_of(path)
    entry, reading, size = Entry(1), _Reading(), 0
    for number, raw in enumerate(raw_lines(path, whole=True), 1):
        line = _parse((raw.removeprefix(BOM) if number == 1 else raw).rstrip(b"\r\n"), charset)
        if entry.lines and reading.ends_before(line, entry):
            yield reading.finished(entry)
            entry, reading, size = Entry(number), _Reading(), 0
        size += len(raw)
        if size > MOST_ENTRY:
            raise DataError(f"must not have an entry of more than {MOST_ENTRY >> 20} MB", file=path, line=number)
        reading.take(line, entry, number)
        entry.lines.append(raw)
    if entry.lines:
        yield reading.finished(entry)


class _Line(NamedTuple):
    kind: Literal["blank", "comment", "flags", "keyword", "string", "bad"]
    obsolete: bool = False
    keyword: str = ""
    form: int = 0
    text: str = ""
    """Of a keyword or string what stands in the quotation marks; of flags the flags; of a bad line what is wrong."""


def _parse(raw: bytes, charset: str) -> _Line:
    bare = raw.strip()
    if not bare:
        return _Line("blank")
    obsolete = bare.startswith(b"#~")
    if obsolete:
        bare = bare[2:].strip()
        if not bare or bare.startswith(b"|"):
            return _Line("comment", True)
    elif bare.startswith(b"#,"):
        return _Line("flags", text=bare[2:].decode("ascii", "replace"))
    elif bare.startswith((b"#", b"domain ")):
        return _Line("comment")
    try:
        text = bare.decode(charset)
    except ValueError as error:
        return _Line("bad", obsolete, text=f"bytes that are not {charset}: {error}")
    keyword = KEYWORD.match(text)
    strings: list[str] = []
    place = keyword.end() if keyword else 0
    while found := STRING.match(text, place):
        strings.append(found[1])
        place = found.end()
    if place < len(text) or not strings:
        return _Line("bad", obsolete, text=f"neither a keyword nor a text in quotation marks: {text[:40]!r}")
    said = unescaped("".join(strings))
    if keyword:
        return _Line("keyword", obsolete, keyword[1], int(keyword[2] or 0), said)
    return _Line("string", obsolete, text=said)


class _Reading:
    """How far an entry has been read: what a text in quotation marks on a line of its own would go on with."""

    def __init__(self) -> None:
        self.current: tuple[str, int] | None = None
        self.more: dict[tuple[str, int], list[str]] = {}
        """For a keyword and its number the texts on lines of their own that follow it."""
        self.blank = False

    def ends_before(self, line: _Line, entry: Entry) -> bool:
        """Whether `line` belongs to the next entry."""
        if line.kind == "blank":
            return False
        if self.blank and entry.problem is not None:
            return True
        if self.blank and entry.forms and line.kind != "string":  # gettext lets a text go on after a blank line
            return line.keyword != "msgstr" or line.form in entry.forms
        if line.kind in ("comment", "flags"):
            return bool(entry.forms) or entry.problem is not None
        if line.kind == "keyword" and line.keyword in ("msgctxt", "msgid"):
            twice = entry.msgid is not None or (line.keyword == "msgctxt" and entry.context is not None)
            return twice or entry.problem is not None
        return False

    def take(self, line: _Line, entry: Entry, number: int) -> None:
        self.blank = line.kind == "blank"
        place = len(entry.lines)
        if line.kind == "flags":
            entry.flags.update(flag.strip() for flag in line.text.split(","))
            entry.flag_line = place
        elif line.kind == "bad":
            self._fail(entry, number, line.text)
        elif line.kind == "keyword":
            if entry.first is None:
                entry.first, entry.line, entry.obsolete = place, number, line.obsolete
            self.current = line.keyword, line.form
            self._begin(line, entry, number, place)
        elif line.kind == "string":
            if self.current is None:
                self._fail(entry, number, "a text that follows no keyword")
            else:
                self.more.setdefault(self.current, []).append(line.text)
                if self.current[0] == "msgstr" and self.current[1] in entry.places:
                    entry.places[self.current[1]] = entry.places[self.current[1]][0], place + 1

    def _begin(self, line: _Line, entry: Entry, number: int, place: int) -> None:
        if line.keyword == "msgctxt":
            entry.context = line.text
        elif line.keyword == "msgid":
            entry.msgid = line.text
        elif entry.msgid is None:
            self._fail(entry, number, f"a {line.keyword} without msgid")
        elif line.keyword == "msgid_plural":
            entry.plural = line.text
        elif line.form in entry.forms:
            self._fail(entry, number, f"a second msgstr[{line.form}]")
        else:
            entry.forms[line.form] = line.text
            entry.places[line.form] = place, place + 1

    def finished(self, entry: Entry) -> Entry:
        """The entry with all its texts, when its last line has been taken."""
        for (keyword, form), texts in self.more.items():
            text = "".join(texts)
            if keyword == "msgctxt":
                entry.context = (entry.context or "") + text
            elif keyword == "msgid":
                entry.msgid = (entry.msgid or "") + text
            elif keyword == "msgid_plural":
                entry.plural = (entry.plural or "") + text
            elif form in entry.forms:
                entry.forms[form] += text
        if entry.problem is None and entry.first is not None:
            if not entry.forms:
                entry.problem = "no msgstr"
            elif entry.plural is None and set(entry.forms) != {0}:
                entry.problem = "several msgstr, but no msgid_plural"
        return entry

    @staticmethod
    def _fail(entry: Entry, number: int, problem: str) -> None:
        if entry.first is None and entry.problem is None:
            entry.line = number
        entry.problem = entry.problem or f"line {number:,}: {problem}"


def unescaped(text: str) -> str:
    r"""What stands in quotation marks: `\n` becomes a line end. What is no escape stays as it is."""
    return ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1]
    if code in ESCAPES:
        return ESCAPES[code]
    if code[0] == "x" and len(code) > 1:
        return chr(int(code[1:], 16))
    return chr(int(code, 8)) if code[0] in "01234567" else match[0]
