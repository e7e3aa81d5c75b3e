"""Word error rate and phone error rate: `python evaluate.py DICTIONARY OUTPUT`.

DICTIONARY has lines of a word, a tab (or spaces) and its sounds; a word with several pronunciations has several lines.
OUTPUT has one line for each different word, in the order of its first line, as `prepare.py --words` prints them. A word
is right if any of its pronunciations comes out; its phone errors are the edit distance to the nearest one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from prepare import entries


def edit_distance(found: Sequence[str], right: Sequence[str]) -> int:
    """The fewest insertions, deletions and replacements that turn `found` into `right`."""
    row = list(range(len(right) + 1))
    for i, a in enumerate(found, 1):
        diagonal, row[0] = row[0], i
        for j, b in enumerate(right, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (a != b))
    return row[-1]


def error_rates(pronunciations: dict[str, list[str]], outputs: Sequence[str]) -> tuple[float, float]:
    """Word and phone error rate in percent."""
    if len(outputs) != len(pronunciations):
        raise SystemExit(f"there are {len(pronunciations)} different words, but {len(outputs)} lines of output")
    wrong = errors = phones = 0
    for right, output in zip(pronunciations.values(), outputs, strict=True):
        wrong += output not in right
        distance, length = min((edit_distance(output.split(), r.split()), len(r.split())) for r in right)
        errors, phones = errors + distance, phones + length
    return 100 * wrong / len(outputs), 100 * errors / phones


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    listed: dict[str, list[str]] = {}
    for word, sounds in entries(Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()):
        listed.setdefault(word, []).append(sounds)
    lines = [" ".join(line.split()) for line in Path(sys.argv[2]).read_text(encoding="utf-8").split("\n")[:-1]]
    word_errors, phone_errors = error_rates(listed, lines)
    print(f"word error rate {word_errors:.2f} %, phone error rate {phone_errors:.2f} % ({len(listed)} words)")
