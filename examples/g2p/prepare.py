"""Turns a pronouncing dictionary into sentence pairs: WORD, tab, sounds -> W O R D, tab, sounds.

python prepare.py < dictionary > train.tsv
python prepare.py --words < dictionary > test.words     (each word once, without its sounds, in order)
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator


def entries(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """(word, sounds) of each line; the word ends at the first tab or space."""
    for line in lines:
        if line.strip():
            word, sounds = line.split(None, 1)
            yield word, " ".join(sounds.split())


def spaced(word: str) -> str:
    """WORD -> W O R D."""
    return " ".join(word)


if __name__ == "__main__":
    sys.stdin.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    if sys.argv[1:] == ["--words"]:
        for word in dict.fromkeys(word for word, _ in entries(sys.stdin)):
            print(spaced(word))
    elif not sys.argv[1:]:
        for word, sounds in entries(sys.stdin):
            print(f"{spaced(word)}\t{sounds}")
    else:
        sys.exit(__doc__)
