"""Prints pairs of digits and the same digits in reverse order: `python make_pairs.py PAIRS [SEED] > pairs.tsv`."""

from __future__ import annotations

import random
import sys

LONGEST = 8


def pairs(count: int, seed: int) -> list[tuple[str, str]]:
    """`count` pairs, such as ("3 1 4", "4 1 3")."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        digits = [draw.choice("0123456789") for _ in range(draw.randint(1, LONGEST))]
        found.append((" ".join(digits), " ".join(reversed(digits))))
    return found


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    for source, target in pairs(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 1):
        print(f"{source}\t{target}")
