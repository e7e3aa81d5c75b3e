"""Two aligned text files: line n of one is the translation of line n of the other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import zip_longest

from pellucid.config import DataConfig
from pellucid.data.formats.lines import read_lines
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import AlignmentError

WINDOW = 8


def read_parallel(source_path: str, target_path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of two files.

    Raises:
        AlignmentError: one file ends before the other (call :func:`check_lengths` first to know before training).
    """
    sides = (read_lines(path, skip_bad=config.skip_bad) for path in (source_path, target_path))
    for source, target in zip_longest(*sides):
        if source is None or target is None:
            check_lengths(source_path, target_path)  # raises, with both counts
            return
        yield SentencePair(source.text, target.text, source_path, source.number)


def check_lengths(source_path: str, target_path: str) -> int:
    """The number of pairs.

    Raises:
        AlignmentError: different numbers of lines; names both, and the first line from which the sides look shifted.
    """
    counts = [0, 0]
    ratios: deque[float] = deque(maxlen=WINDOW)
    total, suspicious = 0.0, 0
    lines = zip_longest(*(read_lines(path, skip_bad=True) for path in (source_path, target_path)))
    for source, target in lines:
        counts[0] += source is not None
        counts[1] += target is not None
        if source is None or target is None or source.text is None or target.text is None:
            continue
        ratio = _mismatch(source.text, target.text)
        ratios.append(ratio)
        total += ratio
        if not suspicious and len(ratios) == WINDOW:
            usual = (total - sum(ratios)) / max(1, source.number - WINDOW)
            if sum(ratios) / WINDOW > 3 * usual + 0.25 and source.number > 2 * WINDOW:
                suspicious = source.number - WINDOW + 1
    if counts[0] == counts[1]:
        return counts[0]
    where = f"; they look shifted from about line {suspicious}" if suspicious else ""
    raise AlignmentError(
        f"{source_path} has {counts[0]} lines, but {target_path} has {counts[1]}: they must have the same number{where}",
        hint="look for a line that was deleted or broken on one side; an empty line keeps its place",
    )


def _mismatch(source: str, target: str) -> float:
    """0 where both sides are equally long, towards 1 where one is much longer: a shift shows as a jump of its mean."""
    longer = max(len(source), len(target))
    return 0.0 if longer == 0 else 1.0 - min(len(source), len(target)) / longer
