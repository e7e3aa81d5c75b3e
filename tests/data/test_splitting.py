from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus
from pellucid.data.splitting import SETS, assign, split_keys, write_split
from pellucid.errors import DataError


def corpus_of(path: Path, rows: list[tuple[str, str]]) -> Corpus:
    path.write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")
    return Corpus.from_files([str(path)], [], [], DataConfig(skip_bad=True))


def sources(folder: Path, name: str) -> list[str]:
    lines = (folder / f"{name}.tsv").read_bytes().decode().split("\n")[:-1]
    return [line.split("\t")[0] for line in lines]


ROWS = [
    (f"Sentence {letter}{letter}{other}.", f"Satz {letter}") for letter in "abcdefghijklmnop" for other in "qrstuvwxyz"
]


def test_every_pair_goes_into_one_set_in_its_order(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "pairs.tsv", ROWS)
    counts = write_split(corpus, assign(corpus, 30, 20), tmp_path / "out")
    assert counts == {"train": 110, "valid": 30, "test": 20}
    parts = {name: sources(tmp_path / "out", name) for name in SETS}
    assert Counter(parts["train"] + parts["valid"] + parts["test"]) == Counter(source for source, _ in ROWS)
    order = [source for source, _ in ROWS]
    assert all(part == sorted(part, key=order.index) for part in parts.values())


def test_the_order_of_the_pairs_does_not_matter(tmp_path: Path) -> None:
    shuffled = ROWS.copy()
    random.Random(1).shuffle(shuffled)
    found = []
    for name, rows in (("a", ROWS), ("b", shuffled)):
        corpus = corpus_of(tmp_path / f"{name}.tsv", rows)
        write_split(corpus, assign(corpus, 30, 20), tmp_path / name)
        found.append({part: set(sources(tmp_path / name, part)) for part in SETS})
    assert found[0] == found[1]
    other = assign(corpus_of(tmp_path / "a.tsv", ROWS), 30, 20, seed=1)
    assert {ROWS[i][0] for i, part in enumerate(other) if part == 2} != found[0]["test"]


def test_a_few_new_pairs_move_few_old_ones(tmp_path: Path) -> None:
    before = assign(corpus_of(tmp_path / "a.tsv", ROWS), 30, 20)
    after = assign(corpus_of(tmp_path / "a.tsv", [*ROWS, ("a new one", "x")]), 30, 20)
    assert (before != after[: len(ROWS)]).sum() <= 2


def test_one_sentence_in_several_spellings_stays_together(tmp_path: Path) -> None:
    rows = [variant for source, target in ROWS for variant in (
        (source, target), (source.upper(), target), (source + "!", target + "!"), (f"  {source} ", "another"))]  # fmt: skip
    corpus = corpus_of(tmp_path / "pairs.tsv", rows)
    sets = assign(corpus, 100, 100).tolist()
    assert Counter(sets) == {0: 440, 1: 100, 2: 100}
    assert all(len(set(sets[i : i + 4])) == 1 for i in range(0, len(sets), 4))


@pytest.mark.parametrize(
    "one, other, same",
    [
        ("Chapter 3.", "chapter 12", True),
        ("See 1,000", "see 7", False),
        ("a b", "ab", False),
        ("in 1999", "in ٢٠٠١", True),
    ],
)
def test_numbers_count_as_one(one: str, other: str, same: bool) -> None:
    keys = split_keys([one, other])
    assert (keys[0] == keys[1]) == same


def test_pairs_without_two_sides_are_left_out(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "pairs.tsv", [("a", "A"), ("", "B"), ("c", " "), ("d", "D")])
    sets = assign(corpus, 1, 0)
    assert sets[1] == sets[2] == -1
    assert sum(write_split(corpus, sets, tmp_path / "out").values()) == 2


def test_a_common_sentence_stays_in_training(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "pairs.tsv", [("yes", "ja")] * 100 + ROWS)
    sets = assign(corpus, 10, 10)
    assert (sets[:100] == 0).all()
    assert Counter(sets.tolist()) == {0: 240, 1: 10, 2: 10}


def test_no_more_than_half_can_be_held_out(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "pairs.tsv", ROWS[:10])
    assert Counter(assign(corpus, 3, 2).tolist()) == {0: 5, 1: 3, 2: 2}
    with pytest.raises(DataError, match="at most half of the 10 pairs may be held out, but 6 are asked for"):
        assign(corpus, 3, 3)


def test_nothing_is_written_over(tmp_path: Path) -> None:
    corpus = corpus_of(tmp_path / "pairs.tsv", ROWS)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "valid.tsv").write_text("mine")
    with pytest.raises(DataError, match="is there already"):
        write_split(corpus, assign(corpus, 3, 3), tmp_path / "out")
    assert (tmp_path / "out" / "valid.tsv").read_text() == "mine"


@given(st.lists(st.tuples(st.text("ab1 .", max_size=4), st.text("xy", max_size=2)), max_size=40), st.integers(0, 5))
@settings(max_examples=60, deadline=None)
def test_no_source_is_in_two_sets(tmp_path_factory, rows: list[tuple[str, str]], held: int) -> None:
    corpus = corpus_of(tmp_path_factory.mktemp("split") / "pairs.tsv", rows)
    usable = sum(bool(a.strip() and b.strip()) for a, b in rows)
    if 4 * held > usable:
        return
    sets = assign(corpus, held, held).tolist()
    where: dict[int, set[int]] = {}
    for key, part in zip(split_keys([a for a, _ in rows]).tolist(), sets, strict=True):
        if part >= 0:
            where.setdefault(key, set()).add(part)
    assert all(len(parts) == 1 for parts in where.values())
    assert sets.count(1) <= held and sets.count(2) <= held
