"""Training, validation and test set from one corpus, by a hash of the source.

The source is hashed without case, punctuation, white space and the value of its digits, so that all pairs of one sentence
come into one set, and "Chapter 3." with "chapter 12". Which set that is depends on the sentence and on the other hashes,
not on the order of the pairs: the sentences with the smallest hashes are the test set, the next ones the validation set.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import numpy as np

from pellucid.data.characters import Texts, mixed
from pellucid.data.check import CHUNK, in_chunks
from pellucid.data.corpus import Corpus, choose_texts, why_dropped
from pellucid.data.writing import NewFile, tsv_line
from pellucid.errors import DataError

SETS = ("train", "valid", "test")


def assign(corpus: Corpus, valid: int, test: int, seed: int = 0) -> np.ndarray:
    """(pairs,) int8: the place in SETS of each pair, or -1 for a pair that has not two sides.

    Never more than `valid` and `test` pairs are put into those, and fewer where a sentence has many pairs.

    Args:
        seed: another one chooses other sentences.

    Raises:
        DataError: there are not twice as many pairs as are to be held out.
    """
    salt = mixed(np.array([seed]))
    hashes, whole = [np.zeros(0, np.uint64)], [np.zeros(0, bool)]
    for pairs in in_chunks(corpus):
        hashes.append(mixed(split_keys([pair.source or "" for pair in pairs]) ^ salt))
        whole.append(np.array([why_dropped(pair) is None for pair in pairs]))
    keys, usable = np.concatenate(hashes), np.concatenate(whole)
    if 2 * (valid + test) > usable.sum():
        raise DataError(
            f"at most half of the {usable.sum():,} pairs may be held out, but {valid + test:,} are asked for",
            hint="a smaller --valid or --test",
        )
    found = np.where(usable, 0, -1).astype(np.int8)
    for name, wanted in (("test", test), ("valid", valid)):
        chosen = choose_texts(keys[found == 0], wanted)
        found[(found == 0) & np.isin(keys, chosen)] = SETS.index(name)
    return found


def split_keys(sources: list[str]) -> np.ndarray:
    """(N,) uint64: equal for sources that differ only in case, punctuation, white space and the value of digits."""
    texts = Texts([_digitless(source) for source in sources])
    return texts.normalised_hashes()


def _digitless(text: str) -> str:
    """With one 0 for every run of decimal digits."""
    if text.isascii() and not any(digit in text for digit in "0123456789"):
        return text
    kept: list[str] = []
    for character in text:
        if not character.isdecimal():
            kept.append(character)
        elif not kept or kept[-1] != "0":
            kept.append("0")
    return "".join(kept)


def write_split(
    corpus: Corpus, sets: np.ndarray, out: str | Path, progress: Callable[[int], None] | None = None
) -> dict[str, int]:
    """Write the pairs as TSV into `out`/train.tsv, valid.tsv and test.tsv, in order; how many each has.

    Raises:
        DataError: one of the files is there already, or cannot be written.
    """
    folder = Path(out)
    for name in SETS:
        if (folder / f"{name}.tsv").exists():
            raise DataError("is there already", file=str(folder / f"{name}.tsv"), hint="name another folder: --out DIR")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot be made: {error.strerror or error}", file=str(folder)) from error
    with ExitStack() as stack:
        files = [stack.enter_context(NewFile(folder / f"{name}.tsv")) for name in SETS]
        pairs = iter(corpus)
        for begin in range(0, len(sets), CHUNK):
            for pair, number in zip(islice(pairs, CHUNK), sets[begin : begin + CHUNK].tolist(), strict=False):
                if number >= 0:
                    files[number].write(tsv_line(pair.source, pair.target))
            if progress is not None:
                progress(min(begin + CHUNK, len(sets)))
    return {name: int((sets == number).sum()) for number, name in enumerate(SETS)}
