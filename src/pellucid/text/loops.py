"""The repeated-output guard: a model that has lost its way says the same again and again."""

from __future__ import annotations

from collections.abc import Sequence

LONGEST_LOOP = 12
"""Pieces that come again, at most."""
MOST_REPEATS = 3
"""Times that anything may come one after the other: "very, very, very" is language, and four times is a loop."""
SHORTEST = 6
"""Pieces that a loop has in all, at least: "......" is not worth a flag, and digits repeat."""


def repeats(tokens: Sequence[str]) -> int:
    """How often the same 1 to 12 pieces come one after the other, at most; runs of fewer than 6 pieces do not count."""
    most = 1
    for size in range(1, min(LONGEST_LOOP, len(tokens) // 2) + 1):
        run = 0  # pieces that equal the one `size` before them
        for i in range(size, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - size] else 0
            if run + size >= SHORTEST:
                most = max(most, run // size + 1)
    return most


def is_loop(source: Sequence[str], target: Sequence[str]) -> bool:
    """Whether the target repeats itself more than language does, and more than its source."""
    return repeats(target) > max(MOST_REPEATS, repeats(source))
