"""Lexical shortlists: learned from pairs, one a sentence, and a search in them that the batch does not change."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from engines.conftest import SEARCHES, assert_same, loaded, texts  # noqa: F401
from engines.test_engine import requested
from pellucid import shortlist as shortlists
from pellucid.cli.main import cli
from pellucid.errors import ConfigError, DataError, ModelFolderError
from pellucid.shortlist import Shortlist, build_shortlist, model_1
from pellucid.training.run import train
from pellucid.translator import Translator
from training.conftest import tiny, write_reversals


class Pairs:
    """A store in memory."""

    def __init__(self, *pairs):
        self.pairs = [tuple(np.array(side, np.uint16) for side in pair) for pair in pairs]

    def __len__(self):
        return len(self.pairs)

    def source(self, i):
        return self.pairs[i][0]

    def target(self, i):
        return self.pairs[i][1]


def testmodel_1_by_hand():
    """das Haus / the house, das Buch / the book: after one iteration t(the | das) = 1/2, as in every textbook; later
    it is near 1, and the rest explains the rest."""
    das, haus, buch, the, house, book = 0, 1, 2, 3, 4, 5
    pairs = Pairs(([das, haus], [the, house]), ([das, buch], [the, book]))
    sources, targets = zip(*pairs.pairs, strict=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shortlists, "ITERATIONS", 1)
        links, p = model_1(sources, targets, 10)
        table = dict(zip(links.tolist(), p.tolist(), strict=True))
        assert table[das * 10 + the] == pytest.approx(0.5)
        assert table[das * 10 + house] == table[das * 10 + book] == pytest.approx(0.25)
        assert table[haus * 10 + the] == table[haus * 10 + house] == pytest.approx(0.5)
        patch.setattr(shortlists, "ITERATIONS", 30)
        links, p = model_1(sources, targets, 10)
        table = dict(zip(links.tolist(), p.tolist(), strict=True))
        assert table[das * 10 + the] > 0.95 and table[haus * 10 + house] > 0.95 and table[buch * 10 + book] > 0.95


def test_lists_have_the_likeliest_the_frequent_and_what_always_belongs(monkeypatch):
    monkeypatch.setattr(shortlists, "LIKELIEST", 1)
    monkeypatch.setattr(shortlists, "FREQUENT", 1)
    pairs = Pairs(([2, 3], [12, 13]), ([2, 4], [12, 14]), ([2], [12]))
    found = build_shortlist(pairs, 6, 20, [0, 19], same_ids=False)
    assert found.always.tolist() == [0, 12, 19]
    assert found.of([3]).tolist() == [0, 12, 13, 19]
    assert found.of([4, 2, 4]).tolist() == [0, 12, 14, 19]
    assert found.of([2, 5]) is None  # nothing is known of 5
    both = build_shortlist(pairs, 20, 20, [0], same_ids=True)
    assert both.of([3]).tolist() == [0, 3, 12, 13]


def everything(size: int) -> Shortlist:
    return Shortlist(np.arange(size + 1), np.zeros(size, np.int32), np.arange(size, dtype=np.int32))


@pytest.mark.parametrize("name", SEARCHES)
@pytest.mark.parametrize("engine", ["torch", "torch-int8"])
def test_a_list_of_everything_changes_nothing(loaded, name, engine):  # noqa: F811
    config = dataclasses.replace(loaded.search, **SEARCHES[name])
    some = texts(30)
    try:
        expected = Translator(loaded, engine).translate(some, config)
    except ConfigError:
        pytest.skip("int8 does not work on this machine")
    listed = Translator(loaded, engine, everything(loaded.model.config.tgt_vocab))
    assert_same(listed.translate(some, config), expected)


def lists_by_piece(size: int, unknown: int) -> Shortlist:
    """Every source piece has 40 target pieces of its own, but `unknown` has none."""
    draw = np.random.default_rng(0)
    rows = [np.sort(draw.choice(size, 0 if i == unknown else 40, replace=False)) for i in range(size)]
    offsets = np.cumsum([0, *map(len, rows)])
    return Shortlist(offsets, np.concatenate(rows).astype(np.int32), np.array([0, 5, 6, 7], np.int32))


@pytest.mark.parametrize("name", ["greedy", "beam", "drawn", "no repeated pairs"])
def test_only_a_sentences_own_list_is_said_whatever_it_is_batched_with(loaded, name):  # noqa: F811
    unknown = loaded.source_tokenizer.encode("seven!")[-1]
    shortlist = lists_by_piece(loaded.model.config.tgt_vocab, unknown)
    translator = Translator(loaded, "torch", shortlist)
    config = dataclasses.replace(loaded.search, **SEARCHES[name], max_length=9)
    some = [t for t in texts(40) if t]
    together = translator.translate(some, config)
    assert_same(translator.translate(some, dataclasses.replace(config, batch_tokens=1)), together)
    piece = {p: i for i, p in enumerate(loaded.target_tokenizer.pieces(range(len(loaded.target_tokenizer))))}
    listed = 0
    for t in together:
        own = shortlist.of([*loaded.source_tokenizer.encode(t.source), 0])
        listed += own is not None
        said = {piece[token] for a in t.alternatives for token in a.tokens}
        assert own is None or said <= set(own.tolist())
    assert 5 < listed < len(some)
    assert [t.text for t in together] != [t.text for t in Translator(loaded, "torch").translate(some, config)]


def test_what_has_no_list_or_another_beginning_is_searched_in_the_whole(loaded):  # noqa: F811
    size = loaded.model.config.tgt_vocab
    unknown = Translator(loaded, "torch", Shortlist(np.zeros(size + 1, np.int64), np.zeros(0, np.int32), np.array([0])))
    plain = Translator(loaded, "torch")
    assert_same(unknown.translate(texts(10)), plain.translate(texts(10)))
    few = Translator(loaded, "torch", Shortlist(np.arange(size + 1), np.zeros(size, np.int32), np.array([0, 5, 6])))
    assert_same(few.translate(["red"], prefixes=["nine"]), plain.translate(["red"], prefixes=["nine"]))
    request = requested(plain, [text for text in texts(10) if text])
    asked = request.of([i for i in range(len(request)) if request.phrases[i]])
    assert [h[0].tokens for h in few.engine.search(asked)] == [h[0].tokens for h in plain.engine.search(asked)]
    with pytest.raises(ConfigError, match="has no use for a shortlist"):
        Translator(loaded, "reference", everything(size)).translate(["red"])
    assert Translator(loaded, "auto", everything(size)).engine.name == "torch"


def test_it_is_kept_in_the_folder_and_damage_is_named(tmp_path):
    with pytest.raises(ModelFolderError, match="has no shortlist") as raised:
        Shortlist.load(tmp_path, 5, 5)
    assert raised.value.hint == f"pellucid shortlist {tmp_path}"
    everything(5).save(tmp_path)
    found = Shortlist.load(tmp_path, 5, 5)
    assert found.of([3]).tolist() == [0, 1, 2, 3, 4]
    for sizes in ((6, 5), (5, 4)):
        with pytest.raises(ModelFolderError, match="another vocabulary"):
            Shortlist.load(tmp_path, *sizes)
    (tmp_path / shortlists.FILE).write_bytes(b"no")
    with pytest.raises(ModelFolderError, match="cannot be used"):
        Shortlist.load(tmp_path, 5, 5)


def test_the_verb_learns_keeps_and_compares(tmp_path):
    torch.set_num_threads(1)
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, max_updates=150, validate_bleu=False)
    train([str(write_reversals(tmp_path / "pairs.tsv", 300))], out=tmp_path / "model", config=config)
    model = str(tmp_path / "model")
    refused = CliRunner().invoke(cli, ["translate", model, "--shortlist", str(tmp_path / "pairs.tsv")])
    assert isinstance(refused.exception, ModelFolderError)
    done = CliRunner().invoke(cli, ["shortlist", model, "--threads", "1"])
    assert done.exit_code == 0, done.output
    assert "learnt from 280 pairs" in done.output and "20 come out the same" in done.output
    text: Path = tmp_path / "text"
    text.write_text("1 2 3\n4 5\n")
    found = [CliRunner().invoke(cli, ["translate", model, str(text), *more]).output for more in ([], ["--shortlist"])]
    assert found[0] == found[1] != ""
    other = CliRunner().invoke(cli, ["shortlist", model, "--run", str(tmp_path)])
    assert isinstance(other.exception, (DataError, ModelFolderError))
