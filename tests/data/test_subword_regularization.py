"""Words cut anew: the text stays, the cuts change, and the same seed draws the same ones."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.subword_regularization import PAIRS_AT_ONCE, CutPairs, SubwordRegularization
from pellucid.data.tokenizer import Tokenizer

PAIRS = [
    ("The lamp on the desk is green.", "Die Lampe auf dem Tisch ist gr\u00fcn."),
    ("A small boat waits at the bridge.", "Ein kleines Boot wartet an der Br\u00fccke."),
    ("She reads the last page twice.", "Sie liest die letzte Seite zweimal."),
    ("Rain falls on the quiet street.", "Regen f\u00e4llt auf die stille Stra\u00dfe."),
    ("The clock in the hall is slow.", "Die Uhr im Flur geht nach."),
    (
        "\u96e8\u843d\u5728\u5b89\u9759\u7684\u8857\u4e0a\u3002",
        "\u0414\u043e\u0436\u0434\u044c \u0438\u0434\u0451\u0442.",
    ),
    ("\u0627\u0644\u0645\u0637\u0631 \u064a\u0633\u0642\u0637", "\u0e1d\u0e19\u0e15\u0e01"),
    ("\u092c\u093e\u0930\u093f\u0936 \u0939\u094b \u0930\u0939\u0940 \u0939\u0948", "\ube44\uac00 \uc640\uc694"),
    ("a  b\u00a0c \u2009 d", "e\u0301 \u00e9 \ufb01 \uff21"),
    ("\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea", "</s> <unk> <2de> <0x41> \u2581 \u2585"),
    ("\ue0f0 \ue0f01 \u2581x", "\u2047 \u200b x\u2028y"),
]
LINES = [side for pair in PAIRS for side in pair]


@cache
def made(kind: str, normalization: str = "identity") -> Tokenizer:
    return Tokenizer.train(LINES, vocab_size=500, kind=kind, normalization=normalization, tags=["2de", "old"])


def store_of(folder: Path, pairs: list[tuple[str, str]], tokenizer: Tokenizer, *tags: str) -> PairStore:
    file = folder / "pairs.tsv"
    file.write_text("".join(f"{source}\t{target}\n" for source, target in pairs), encoding="utf-8")
    config = DataConfig(tags=(f"{file}={','.join(tags)}",) if tags else ())
    corpus = Corpus.from_files([str(file)], [], [], config)
    return PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config)[0]


def rows_of(cut: CutPairs, side: int, pad: int = 9999) -> list[list[int]]:
    lengths = (cut.source_lengths, cut.target_lengths)[side]
    rows = cut.padded(side, np.arange(len(lengths)), pad)
    assert [(row != pad).sum() for row in rows] == lengths.tolist()
    return [row[row != pad].tolist() for row in rows]


def plain_rows(store: PairStore, side: int) -> list[list[int]]:
    return [(store.source, store.target)[side](i).tolist() for i in range(len(store))]


@pytest.mark.parametrize("normalization", ["identity", "nfkc"])
@pytest.mark.parametrize(("kind", "alpha"), [("bpe", 0.3), ("unigram", 0.1)])
def test_the_text_stays_and_the_pieces_change(tmp_path, kind, alpha, normalization):
    tokenizer = made(kind, normalization)
    store = store_of(tmp_path, PAIRS, tokenizer)
    cut = SubwordRegularization(tokenizer, tokenizer, alpha, 1, 256).cut(store, 0)
    for side in (0, 1):
        plain, found = plain_rows(store, side), rows_of(cut, side)
        assert [tokenizer.decode(ids) for ids in found] == [tokenizer.decode(ids) for ids in plain]
        assert [tokenizer.decode(ids) for ids in found] == [tokenizer.normalized(pair[side]) for pair in PAIRS]
        assert all(ids[-1] == tokenizer.eos_id and ids.count(tokenizer.eos_id) == 1 for ids in found)
        assert all(found[i] != plain[i] for i in range(4))  # what is spelt in bytes has one way of being cut
    assert cut.source_lengths.sum() > store.source_lengths.sum()


def test_tags_stay_in_front(tmp_path):
    tokenizer = made("bpe")
    store = store_of(tmp_path, PAIRS, tokenizer, "2de", "old")
    cut = SubwordRegularization(tokenizer, tokenizer, 0.3, 1, 256).cut(store, 0)
    for ids in rows_of(cut, 0):
        assert ids[:2] == tokenizer.tag_ids(["2de", "old"])
        assert tokenizer.tags_of(ids[2:]) == ()
    assert all(tokenizer.tags_of(ids) == () for ids in rows_of(cut, 1))


def test_the_same_seed_and_epoch_give_the_same_and_others_others(tmp_path):
    tokenizer = made("bpe")
    store = store_of(tmp_path, PAIRS, tokenizer)

    def drawn(seed: int, epoch: int) -> list[list[int]]:
        cut = SubwordRegularization(tokenizer, tokenizer, 0.3, seed, 256).cut(store, epoch)
        return rows_of(cut, 0) + rows_of(cut, 1)

    found = {(seed, epoch): drawn(seed, epoch) for seed in (1, 2) for epoch in (0, 1)}
    assert drawn(2, 1) == found[2, 1] and drawn(1, 0) == found[1, 0]
    assert len({repr(rows) for rows in found.values()}) == 4


def test_a_pair_that_an_epoch_takes_twice_is_cut_twice(tmp_path):
    tokenizer = made("bpe")
    store = store_of(tmp_path, PAIRS, tokenizer)
    cut = SubwordRegularization(tokenizer, tokenizer, 0.5, 1, 256).cut(store, 0, np.array([3, 1, 3]))
    rows = rows_of(cut, 0)
    assert [tokenizer.decode(ids) for ids in rows] == [PAIRS[i][0] for i in (3, 1, 3)]
    assert rows[0] != rows[2]


def test_more_pairs_than_are_cut_at_once(tmp_path):
    tokenizer = made("bpe")
    count = PAIRS_AT_ONCE + 5
    store = store_of(tmp_path, [(f"rain {i}", f"Regen {i}") for i in range(count)], tokenizer)
    cut = SubwordRegularization(tokenizer, tokenizer, 0.3, 1, 256).cut(store, 0)
    for side, word in enumerate(("rain", "Regen")):
        assert [tokenizer.decode(ids) for ids in rows_of(cut, side)] == [f"{word} {i}" for i in range(count)]


def test_no_pairs(tmp_path):
    tokenizer = made("bpe")
    store = store_of(tmp_path, PAIRS, tokenizer)
    cut = SubwordRegularization(tokenizer, tokenizer, 0.3, 1, 256).cut(store, 0, np.zeros(0, np.int64))
    assert len(cut.source_lengths) == len(cut.target_lengths) == 0


def test_a_row_that_would_become_too_long_stays_as_it_is(tmp_path):
    tokenizer = made("bpe")
    store = store_of(tmp_path, PAIRS, tokenizer)
    longest = int(max(store.source_lengths.max(), store.target_lengths.max()))
    for allowed in (longest, 256):
        cut = SubwordRegularization(tokenizer, tokenizer, 0.9, 1, allowed).cut(store, 0)
        most = max(cut.source_lengths.max(), cut.target_lengths.max())
        assert most == longest if allowed == longest else longest < most <= allowed
