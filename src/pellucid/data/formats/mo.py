"""Compiled gettext catalogues (MO): what stands in a program's folder `locale`. They have no lines; units are numbered.

The format is in GNU gettext's manual, "The Format of GNU MO Files": two tables of length and offset, original and
translation; forms of a plural are separated by a zero byte, a context ends with the byte 04.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator

from pellucid.config import DataConfig
from pellucid.data.formats.gettext import Header, form_sources
from pellucid.data.formats.lines import COMPRESSED, UNREADABLE, open_bytes
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.errors import DataError

MAGIC = 0x950412DE
MOST_TEXT = 1 << 20
MOST_BYTES = 1 << 28
"""Bytes of a catalogue that is compressed, at most: it is unpacked in memory."""


@register(".mo", ".gmo")
def read_mo(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a catalogue, each plural form its own. `line` is the number of the message, from 1.

    Raises:
        DataError: what is no catalogue, or one that is cut off.
    """
    file = open_bytes(path)
    try:
        if path == "-" or path.lower().endswith(COMPRESSED):
            data: bytes | mmap.mmap = file.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                raise DataError(f"must not be more than {MOST_BYTES >> 20} MB", file=path)
        else:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except (*UNREADABLE, ValueError) as error:  # ValueError: a file of no bytes
        raise DataError(f"cannot be read: {error}", file=path) from error
    finally:
        if path != "-":
            file.close()
    yield from _messages(data, path, config)


def _messages(data: bytes | mmap.mmap, path: str, config: DataConfig) -> Iterator[SentencePair]:
    order = "<" if data[:4] == struct.pack("<I", MAGIC) else ">"
    if len(data) < 28 or struct.unpack_from(order + "I", data)[0] != MAGIC:
        raise DataError("must begin as a compiled catalogue (MO), but does not", file=path)
    revision, count, originals, translations = struct.unpack_from(order + "4I", data, 4)
    if revision >> 16 > 1:
        raise DataError(f"must be of format 0 or 1, but is {revision >> 16}", file=path)
    if max(originals, translations) + 8 * count > len(data):
        raise DataError(f"must have {count:,} messages, but is cut off", file=path, hint="is the file complete?")
    header = Header("")
    for number in range(count):
        original, translation = (_string(data, order, table + 8 * number) for table in (originals, translations))
        if original == b"" and translation is not None:
            header = Header(translation.decode("utf-8", "replace"))
            turned = header.is_turned(config, path)
            continue
        if number == 0:
            turned = header.is_turned(config, path)  # no header: the empty text comes first, for the table is sorted
        try:
            if original is None or translation is None:
                raise ValueError("a text that is not in the file")
            context, _, text = original.decode(header.charset).rpartition("\x04")
            forms = translation.decode(header.charset).split("\0")
        except ValueError as error:
            yield SentencePair(None, None, path, number + 1, str(number + 1), str(error))
            continue
        singular, _, plural = text.partition("\0")
        sources = form_sources(singular, plural, len(forms), header) if plural else [singular]
        for source, target in zip(sources, forms, strict=False):
            pair = (target, source) if turned else (source, target)
            yield SentencePair(*pair, path, number + 1, context or str(number + 1))


def _string(data: bytes | mmap.mmap, order: str, entry: int) -> bytes | None:
    """The text that a table's entry names, or None if it is not in the file (or too long: all may name the same)."""
    length, offset = struct.unpack_from(order + "2I", data, entry)
    return data[offset : offset + length] if offset + length <= len(data) and length <= MOST_TEXT else None
