"""Made-up sentence pairs that look like text to a tokenizer and a model: no download, and the same for the same seed.

Two languages of 30,000 words each, built from syllables, short words first; words are drawn by Zipf's law, lengths from
a normal distribution around `mean` words. A target says its source word by word, with now and then a word left out,
doubled, or changed with its neighbour: there is something to learn.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

WORDS = 30_000
CHUNK = 50_000
SYLLABLES = (
    ["ba", "be", "da", "di", "fo", "ga", "he", "in", "ka", "lo", "ma", "no", "or", "pi", "ra", "se", "ti", "un", "ve", "wa"],
    ["äh", "bu", "ck", "der", "ein", "fü", "gen", "ho", "ich", "kö", "lei", "mu", "nä", "pf", "qu", "rü", "sch", "tz", "üb", "wi"],
)  # fmt: skip


def vocabulary(side: int, words: int = WORDS) -> list[str]:
    """`words` different words of language 0 or 1, the frequent ones first and short."""
    syllables = SYLLABLES[side]
    base, found = len(syllables), []
    for number in range(words):
        word, rest = syllables[number % base], number // base
        while rest:
            word, rest = word + syllables[(rest - 1) % base], (rest - 1) // base
        found.append(word)
    return found


def pairs(count: int, seed: int = 1, mean: float = 12.0, words: int = WORDS) -> Iterator[tuple[str, str]]:
    """`count` pairs of sentences of about `mean` words (standard deviation a third of that, at least 2 words)."""
    vocabularies = [np.array(vocabulary(side, words), dtype=object) for side in (0, 1)]
    frequency = np.cumsum(1.0 / np.arange(1, words + 1))
    frequency /= frequency[-1]
    random = np.random.default_rng(seed)
    for begin in range(0, count, CHUNK):
        rows = min(CHUNK, count - begin)
        lengths = np.clip(np.rint(random.normal(mean, mean / 3, rows)), 2, 4 * mean).astype(np.int64)
        ids = np.searchsorted(frequency, random.random(int(lengths.sum()))).clip(max=words - 1)
        ends = np.cumsum(lengths)
        times = np.where(random.random(len(ids)) < 0.04, 0, 1) + (random.random(len(ids)) < 0.04)
        times[ends - 1] = 1  # no target is empty
        target = ids.copy()
        swap = np.flatnonzero(random.random(len(ids) - 1) < 0.05)
        swap = swap[np.diff(swap, prepend=-2) > 1]  # no word moves twice
        swap = swap[~np.isin(swap, ends - 1)]  # nor into the next sentence
        target[swap], target[swap + 1] = target[swap + 1], target[swap]
        target_ends = np.cumsum(times)[ends - 1].tolist()
        source_words = vocabularies[0][ids].tolist()
        target_words = vocabularies[1][np.repeat(target, times)].tolist()
        s = t = 0
        for source_end, target_end in zip(ends.tolist(), target_ends, strict=True):
            yield " ".join(source_words[s:source_end]), " ".join(target_words[t:target_end])
            s, t = source_end, target_end


def write_tsv(path: str | Path, count: int, seed: int = 1, mean: float = 12.0, words: int = WORDS) -> None:
    """`count` pairs as a file of two columns."""
    with Path(path).open("w", encoding="utf-8", newline="\n") as file:
        for source, target in pairs(count, seed, mean, words):
            file.write(f"{source}\t{target}\n")
