"""Small files of each format, for tests of readers and writers."""

from __future__ import annotations

import struct


def tmx_memory(units: str, *, source: str = "en", encoding: str = "UTF-8", doctype: bool = False) -> str:
    """A memory; its first unit stands on line 4 (with a document type on line 5)."""
    declared = '<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n' if doctype else ""
    return (
        f'<?xml version="1.0" encoding="{encoding}"?>\n{declared}<tmx version="1.4">\n'
        f'<header srclang="{source}" datatype="plaintext"/><body>\n{units}</body></tmx>\n'
    )


def xliff_file(units: str, source: str = "en", target: str = "de") -> str:
    """XLIFF 1.2; the first unit stands on line 4."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2" version="1.2">\n'
        f'<file source-language="{source}" target-language="{target}" original="a.txt" datatype="plaintext"><body>\n'
        f"{units}\n</body></file></xliff>\n"
    )


def po_catalogue(entries: str, fields: str = "", charset: str = "UTF-8") -> str:
    """A catalogue; with no other fields its first entry stands on line 5."""
    more = f'"{fields}"\n' if fields else ""
    return f'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={charset}\\n"\n{more}\n{entries}'


def mo_catalogue(messages: dict[str, str], order: str = "<") -> bytes:
    """A compiled catalogue, its messages in order."""
    count = len(messages)
    tables = [28, 28 + 8 * count]
    out = struct.pack(f"{order}7I", 0x950412DE, 0, count, *tables, 0, 0)
    texts = [t.encode() for t in messages] + [t.encode() for t in messages.values()]
    place = 28 + 16 * count
    for text in texts:
        out += struct.pack(f"{order}2I", len(text), place)
        place += len(text) + 1
    return out + b"".join(text + b"\0" for text in texts)
