"""Gettext catalogues (PO) filled with translations."""

from __future__ import annotations

import re
from collections.abc import Sequence

from pellucid.config import DataConfig
from pellucid.data.formats.charset import known_charset
from pellucid.data.formats.document import Amendment, Block, Filling, Pieces, register_document
from pellucid.data.formats.gettext import Header
from pellucid.data.formats.po import ESCAPES, Entry, charset_of, declared_charset, read_entries, sources_of
from pellucid.errors import DataError

WRITTEN = str.maketrans({value: "\\" + key for key, value in ESCAPES.items()} | {"\0": "\ufffd"})  # C texts end at zero


@register_document(".po", ".pot")
def po_document(path: str, config: DataConfig) -> Pieces:
    """Entries without translation are filled, and marked fuzzy; with `config.fuzzy` such as are fuzzy too.

    Only the lines of their msgstr and of their flags change. What comes from a memory has a comment that says so. A
    header that names no character set which there is (a template's CHARSET) is given UTF-8.

    Raises:
        DataError: a catalogue of another language, or a translation that cannot be written in its character set.
    """
    header = Header("")
    charset = charset_of(path)
    head = Amendment()
    for entry in read_entries(path):
        raw = b"".join(entry.lines)
        if entry.is_header and entry.problem is None:
            header = Header(entry.forms.get(0, ""))
            if header.is_turned(config, path):
                raise DataError(
                    f"must be {config.source_language} to {config.target_language}, but is turned", file=path
                )
            if header.declared and known_charset(header.declared) is None:
                head.hold(raw, b"".join(map(_in_utf_8, entry.lines)))
                continue
        forms = _forms_to_fill(entry, header, config)
        yield from head.before(_block(entry, forms, header, charset, path) if forms else raw)
    yield head.rest()


def _block(entry: Entry, forms: list[bool], header: Header, charset: str, path: str) -> Block:
    sources = sources_of(entry, len(forms), header)
    wanted = list(dict.fromkeys(source for source, is_open in zip(sources, forms, strict=True) if is_open))

    def write(fillings: Sequence[Filling]) -> bytes:
        found = dict(zip(wanted, fillings, strict=True))
        texts = {form: found[sources[form]].text for form, is_open in enumerate(forms) if is_open}
        lines = _filled(entry, texts, any(filling.origin == "memory" for filling in fillings))
        try:
            return b"".join(line if isinstance(line, bytes) else line.encode(charset) for line in lines)
        except UnicodeEncodeError as error:
            raise DataError(
                f"a translation cannot be written in {charset}: {error}",
                file=path,
                line=entry.line,
                hint="msgconv --to-code=UTF-8 OLD > NEW",
            ) from None

    return Block(tuple(wanted), entry.line, b"".join(entry.lines), write)


def _in_utf_8(line: bytes) -> bytes:
    """A line of the header, which says UTF-8 if it names a character set."""
    found = declared_charset(line)
    return line if found is None else line[: found.start("charset")] + b"UTF-8" + line[found.end("charset") :]


def _forms_to_fill(entry: Entry, header: Header, config: DataConfig) -> list[bool]:
    """For each form that an entry has or should have, whether it is to be filled; [] if none is."""
    if entry.problem is not None or entry.obsolete or entry.is_header or not (entry.msgid or "").strip():
        return []
    if entry.is_fuzzy and not config.fuzzy:
        return []
    count = max(entry.forms) + 1
    if entry.plural is not None:
        count = header.forms or count
    forms = [entry.is_fuzzy or not entry.forms.get(form, "").strip() for form in range(count)]
    return forms if any(forms) else []


def _filled(entry: Entry, texts: dict[int, str], from_memory: bool) -> list[bytes | str]:
    """The lines of an entry with the translations `texts` (by form) in it, and the flag fuzzy."""
    assert entry.first is not None
    end = "\r\n" if entry.lines[entry.first].endswith(b"\r\n") else "\n"
    lines: list[bytes | str] = list(entry.lines)
    last = max(stop for _, stop in entry.places.values())
    if isinstance(before := lines[last - 1], bytes) and not before.endswith(b"\n"):
        lines[last - 1] = before + end.encode()  # the file ended there
    for form in sorted(texts, reverse=True):
        start, stop = entry.places.get(form, (last, last))
        keyword = "msgstr" if entry.plural is None else f"msgstr[{form}]"
        lines[start:stop] = [f"{keyword} {quoted(texts[form], end)}{end}"]
    if not entry.is_fuzzy:
        if entry.flag_line is None:
            lines.insert(entry.first, f"#, fuzzy{end}")
        else:
            lines[entry.flag_line] = entry.lines[entry.flag_line].replace(b"#,", b"#, fuzzy,", 1)
    return [f"# Exact match from a memory.{end}", *lines] if from_memory else lines


def quoted(text: str, end: str = "\n") -> str:
    r"""A text in quotation marks; one with `\n` inside takes a line (that ends with `end`) for each of its lines."""
    lines = [line.translate(WRITTEN) for line in re.split(r"(?<=\n)(?=.)", text, flags=re.DOTALL)]
    return end.join(f'"{line}"' for line in ([""] if len(lines) > 1 else []) + lines)
