"""Tab-separated pairs. A tab separates, a line ends; quotes, NA, null and numbers are ordinary text.

TSV is not CSV: a reader for CSV would let one quotation mark at the start of a field swallow the lines that follow,
and one for tables would read `NA` as nothing and `007` as 7.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pellucid.config import DataConfig
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.lines import read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.data.formats.text import document_lines
from pellucid.errors import DataError


@register(".tsv")
def read_tsv(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """Pairs from two columns, or from `config.columns` of more. An empty line is a pair with two empty sides.

    Raises:
        DataError: a line with another number of columns.
        EncodingError: bytes that are not UTF-8, unless `config.skip_bad`.
    """
    source, target = config.columns or (1, 2)
    for number, text, _ in read_lines(path, skip_bad=config.skip_bad):
        if text is None:
            yield SentencePair(None, None, path, number)
            continue
        fields = text.split("\t")
        if text and (len(fields) != 2 if config.columns is None else len(fields) < max(source, target)):
            raise _wrong_columns(len(fields), config, path, number)
        yield (
            SentencePair(fields[source - 1], fields[target - 1], path, number)
            if text
            else SentencePair("", "", path, number)
        )


@register_document(".tsv")
def tsv_document(path: str, config: DataConfig) -> Pieces:
    """The first column (or the first of `config.columns`) is translated into a column behind the last.

    Where a memory is used, one more says where each translation is from: `memory` or `model`.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    column = config.columns[0] if config.columns else 1
    for number, text, end, raw in document_lines(path):
        fields = text.split("\t")

        def write(fillings: Sequence[Filling], raw: bytes = raw, end: bytes = end) -> bytes:
            added = [field.replace("\t", " ") for field in fillings[0] if field]
            return raw.removesuffix(end) + "".join(f"\t{field}" for field in added).encode() + end

        if len(fields) >= column and fields[column - 1].strip():
            yield Block((fields[column - 1],), number, raw, write)
        else:
            yield raw


def _wrong_columns(found: int, config: DataConfig, path: str, number: int) -> DataError:
    if config.columns is None:
        wanted = "2 columns, source and target, separated by a tab"
        hint = f"say which columns: --columns 1,{found}" if found > 2 else "separate source and target by one tab"
    else:
        wanted = f"at least {max(config.columns)} columns (--columns {','.join(map(str, config.columns))})"
        hint = "columns are counted from 1 and separated by a tab"
    return DataError(f"a line must have {wanted}, but this has {found}", file=path, line=number, hint=hint)
