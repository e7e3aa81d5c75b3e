"""Tab-separated pairs. A tab separates, a line ends; quotes, NA, null and numbers are ordinary text.

(A reader for CSV would let one quotation mark at the start of a field swallow the following lines.)
"""

from __future__ import annotations

from collections.abc import Iterator

from pellucid.config import DataConfig
from pellucid.data.formats.lines import read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import DataError


def read_tsv(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """Pairs from two columns, or from `config.columns` of three and more.

    Raises:
        DataError: a line with another number of columns.
    """
    for number, text in read_lines(path, skip_bad=config.skip_bad):
        if text is None:
            yield SentencePair(None, None, path, number)
            continue
        fields = text.split("\t")
        if config.columns is None:
            if len(fields) != 2:
                raise DataError(
                    f"must have 2 columns, source and target, but has {len(fields)}",
                    file=path,
                    line=number,
                    hint="say which columns: --columns 1,2"
                    if len(fields) > 2
                    else "separate source and target by one tab",
                )
            yield SentencePair(fields[0], fields[1], path, number)
            continue
        source, target = config.columns
        if len(fields) < max(source, target):
            raise DataError(f"must have column {max(source, target)}, but has {len(fields)}", file=path, line=number)
        yield SentencePair(fields[source - 1], fields[target - 1], path, number)
