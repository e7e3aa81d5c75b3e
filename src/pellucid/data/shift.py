"""Where the sides of aligned texts have slipped: a stretch whose lines fit their neighbours' translations better.

Evidence that source i belongs to target j is a log-likelihood ratio, as in Gale and Church (1993): how well the lengths
fit, and whether numbers and question marks agree; against what they do for lines that have nothing to do with each other.
A stretch is shifted by k where the evidence for (i, i + k) is larger than that for (i, i) by so much in sum that chance
does not explain it. The stretch with the largest sum is found in one pass (the maximum-sum segment).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

FARTHEST = 3
"""How many lines the sides may have slipped."""
LEAST_EVIDENCE = 20.0
"""In nats, above the logarithm of the number of lines: chance gives so much once in about e^20 files."""
FEWEST_LINES = 8
_NEVER = -1e4
_MOST_OF_A_LINE = 4.0
"""No line alone says more: what surprises most about a line is what else may be wrong with it."""


class Shift(NamedTuple):
    """From `begin` to before `end` (from 0), source i fits target i + `by` better than its own."""

    begin: int
    end: int
    by: int


def find_shifts(
    source: np.ndarray, target: np.ndarray, source_marks: np.ndarray, target_marks: np.ndarray
) -> list[Shift]:
    """The shifted stretches of one file, in order.

    Args:
        source, target: (lines,) lengths in characters.
        source_marks, target_marks: (lines,) a small number for what a translation keeps (its digits, say), 0 for
            a line that has none.
    """
    count = len(source)
    if count < FEWEST_LINES:
        return []
    logs = np.log1p(source.astype(np.float32)), np.log1p(target.astype(np.float32))
    marks = source_marks, target_marks
    steps = sorted(range(-FARTHEST, FARTHEST + 1), key=abs)
    spread = {k: _spread(_differences(logs, k)) for k in steps}
    best = min(steps, key=lambda k: spread[k][1])
    fits = _Evidence(logs, marks, best)
    straight = fits(0)
    found: list[Shift] = []
    free = np.ones(count, bool)
    while True:
        shift = _largest(fits, straight, free, [k for k in steps if k])
        if shift is None:
            return sorted(found)
        found.append(shift)
        free[shift.begin : shift.end] = False


class _Evidence:
    """For each line, how much more likely its source and the target `by` lines on are a pair than not, in nats."""

    def __init__(self, logs: tuple[np.ndarray, np.ndarray], marks: tuple[np.ndarray, np.ndarray], pairing: int) -> None:
        self.logs, self.marks = logs, marks
        self.middle, self.sigma = _spread(_differences(logs, pairing))
        count = len(logs[0])
        stranger = np.arange(count) * 7919 % count if count % 7919 else np.arange(count)[::-1]
        self.stranger_sigma = max(self.sigma, _spread(logs[0] - logs[1][stranger])[1])
        paired = _agreement(marks[0][_overlap(count, pairing)], marks[1][_overlap(count, -pairing)])
        strange = _agreement(marks[0], marks[1][stranger])
        counts = (np.bincount(states, minlength=3) + 1.0 for states in (paired, strange))
        shares = [c / c.sum() for c in counts]
        self.mark_evidence = np.log(shares[0] / shares[1])

    def __call__(self, by: int) -> np.ndarray:
        """(lines,); minus infinity where the target would lie outside of the file."""
        count = len(self.logs[0])
        here, there = _overlap(count, by), _overlap(count, -by)
        away = np.abs(self.logs[0][here] - self.logs[1][there] - self.middle)
        lengths = _density(away, self.sigma) - _density(away, self.stranger_sigma)
        evidence = np.full(count, -np.inf)
        marks = self.mark_evidence[_agreement(self.marks[0][here], self.marks[1][there])]
        evidence[here] = np.clip(lengths + marks, -_MOST_OF_A_LINE, _MOST_OF_A_LINE)
        return evidence


def _largest(fits: _Evidence, straight: np.ndarray, free: np.ndarray, steps: list[int]) -> Shift | None:
    best, shift = LEAST_EVIDENCE + math.log(len(straight)), None
    for by in steps:
        gain = np.where(free, np.maximum(fits(by) - straight, _NEVER), _NEVER)
        sums = np.concatenate(([0.0], np.cumsum(gain)))
        lowest = np.minimum.accumulate(sums)
        end = int(np.argmax(sums - lowest))
        begin = int(np.argmin(sums[: end + 1])) if end else 0
        if sums[end] - lowest[end] > best and end - begin >= FEWEST_LINES:
            best, shift = float(sums[end] - lowest[end]), Shift(begin, end, by)
    return shift


def _overlap(count: int, by: int) -> slice:
    """The lines i for which i + `by` is a line too."""
    return slice(max(0, -by), count - max(0, by))


def _differences(logs: tuple[np.ndarray, np.ndarray], by: int) -> np.ndarray:
    count = len(logs[0])
    return logs[0][_overlap(count, by)] - logs[1][_overlap(count, -by)]


def _spread(values: np.ndarray) -> tuple[float, float]:
    """Median and standard deviation, the latter from the median deviation: outliers do not count."""
    middle = float(np.median(values))
    return middle, max(0.05, 1.4826 * float(np.median(np.abs(values - middle))))


def _density(away: np.ndarray, sigma: float) -> np.ndarray:
    """The logarithm of a normal density, but for a constant."""
    return -0.5 * (away / sigma) ** 2 - math.log(sigma)


def _agreement(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    """0 neither has marks, 1 the same marks, 2 others."""
    return np.where(one == other, (one > 0).astype(np.int64), 2)
