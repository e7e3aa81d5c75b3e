"""Two aligned text files: line n of one is the translation of line n of the other."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from itertools import zip_longest

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.formats.lines import raw_lines, read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import AlignmentError


def read_parallel(src_path: str, tgt_path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of two files; `file` and `line` are the source's.

    Raises:
        AlignmentError: one file ends before the other (call :func:`check_lengths` to know before the first pair).
        EncodingError: bytes that are not UTF-8, unless `config.skip_bad`.
    """
    sides = (read_lines(path, skip_bad=config.skip_bad) for path in (src_path, tgt_path))
    for source, target in zip_longest(*sides):
        if source is None or target is None:
            check_lengths(src_path, tgt_path)  # raises, with both counts
            raise AlignmentError(f"{src_path} and {tgt_path} changed while they were read")
        yield SentencePair(source.text, target.text, src_path, source.number)


def check_lengths(src_path: str, tgt_path: str) -> int:
    """The number of pairs of two aligned files, which are read through once.

    Raises:
        AlignmentError: different numbers of lines: both counts, and the first line from which the sides look shifted.
    """
    source, target = (np.frombuffer(array("i", map(len, raw_lines(path))), np.int32) for path in (src_path, tgt_path))
    if len(source) == len(target):
        return len(source)
    shorter, longer = (src_path, tgt_path) if len(source) < len(target) else (tgt_path, src_path)
    line = first_shifted_line(source, target)
    where = (
        f"{shorter} ends early, the lines before fit"
        if line > min(len(source), len(target))
        else f"they look shifted from about line {line:,} on"
    )
    raise AlignmentError(
        f"{src_path} and {tgt_path} must have the same number of lines, but have {len(source):,} and {len(target):,}; "
        f"{where}",
        hint=f"look for a line that is missing in {shorter} or broken in two in {longer}; an empty line keeps its place",
    )


def first_shifted_line(source: np.ndarray, target: np.ndarray) -> int:
    """Where two lists of line lengths (in bytes) with different counts part, from 1; past the end if only there.

    Lines of a pair have lengths of about one ratio. Lines 1..N-1 are paired as they stand, the rest with the surplus
    lines left out just before N, and N is where that makes the logarithms of the ratios smallest in sum. Assumes one
    gap; with several, the answer lies among them.
    """
    if len(source) > len(target):
        source, target = target, source
    surplus, count = len(target) - len(source), len(source)
    if not count:
        return 1
    short, long = np.log1p(source.astype(np.float32)), np.log1p(target.astype(np.float32))
    straight, shifted = short - long[:count], short - long[surplus:]
    usual = np.median(np.concatenate((straight, shifted)))  # about half of these are of true pairs
    straight, shifted = np.abs(straight - usual), np.abs(shifted - usual)
    # cost[k]: the first k lines as they stand, the others shifted.
    cost = np.concatenate(([0.0], np.cumsum(straight - shifted, dtype=np.float64)))
    return int(np.argmin(cost)) + 1
