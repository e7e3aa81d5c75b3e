"""Plain text to be translated, a line at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.config import DataConfig
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.lines import BOM, decoded_line, raw_lines


@register_document(".txt")
def text_document(path: str, config: DataConfig) -> Pieces:
    """Every line that is not blank is a text.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    for number, text, end, raw in document_lines(path):

        def write(fillings: Sequence[Filling], end: bytes = end) -> bytes:
            return fillings[0].text.encode() + end

        yield Block((text,), number, raw, write) if text.strip() else raw


def document_lines(path: str) -> Iterator[tuple[int, str, bytes, bytes]]:
    """(number from 1, text, line end, the line as it stands) of every line of a file.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    for number, raw in enumerate(raw_lines(path, whole=True), 1):
        line = raw.removeprefix(BOM) if number == 1 else raw
        bare = line.removesuffix(b"\n").removesuffix(b"\r")
        yield number, decoded_line(bare, path, number), line[len(bare) :], raw
