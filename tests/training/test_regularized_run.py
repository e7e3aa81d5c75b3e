"""A run whose words are cut anew each epoch: resumed and unbroken alike, tried as it will be, looked at as ever."""

from __future__ import annotations

import json
import random
import tomllib
from pathlib import Path

import numpy as np
import pytest

from pellucid.config import RunConfig
from pellucid.data.store import PairStore
from pellucid.data.subword_regularization import SubwordRegularization
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import ConfigError, SearchError
from pellucid.training.records import Plan, Prepared, Progress, Validation
from pellucid.training.run import train
from pellucid.training.trainer import Trainer
from training.conftest import tiny
from training.test_resume import assert_same_run, checkpoint_tensors, stop_at

WORDS = [
    "lantern",
    "garden",
    "river",
    "window",
    "harbour",
    "button",
    "kettle",
    "ladder",
    "pepper",
    "saddle",
    "timber",
    "walnut",
]


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    """Each word is a piece of its own, and has others within."""
    draw = random.Random(0)
    file = tmp_path / "sentences.tsv"
    chosen = [draw.choices(WORDS, k=draw.randint(1, 6)) for _ in range(120)]
    file.write_text("".join(f"{' '.join(words)}\t{' '.join(reversed(words))}\n" for words in chosen))
    return file


def regularized(amount: float = 0.1, *overrides: str, kind: str = "bpe", **training: object) -> RunConfig:
    """A run of seconds with pieces that can be cut in several ways."""
    base = tomllib.loads(tiny(subword_regularization=0.0, validate_bleu=False, **training).to_toml())
    pieces = (f"data.tokenizer={kind}", "data.vocab_size=150", "data.byte_fallback=false")
    return RunConfig.from_mapping(base, (*pieces, f"training.subword_regularization={amount}", *overrides))


def records_of(pairs: Path, out: Path, config: RunConfig) -> list:
    records: list = []
    train([str(pairs)], out=out, config=config, on_record=records.append)
    return records


def noted_batches(monkeypatch: pytest.MonkeyPatch) -> list:
    """All batches whose gradients are taken from now on; the first is the trial's largest, two more are timed."""
    noted: list = []
    original = Trainer._gradients

    def gradients(self, batch):
        noted.append(batch)
        return original(self, batch)

    monkeypatch.setattr(Trainer, "_gradients", gradients)
    return noted


FEATURES = {"bpe": {}, "unigram, accumulation": {"kind": "unigram", "accumulate": 3}}


@pytest.mark.parametrize("name", FEATURES)
def test_stopped_in_mid_epoch_and_resumed_equals_unbroken(tmp_path, sentences, name):
    config = regularized(max_updates=20, **FEATURES[name])
    train([str(sentences)], out=tmp_path / "whole", config=config)
    train([str(sentences)], out=tmp_path / "parts", config=config, on_record=stop_at(5))
    train(out=tmp_path / "parts", resume=True, on_record=stop_at(11))
    train(out=tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    progress = [json.loads(line) for line in (tmp_path / "parts/training/metrics.jsonl").read_text().splitlines()]
    places = {r["update"]: r["epoch"] for r in progress if r["record"] == "progress"}
    assert places[5] % 1 and places[11] % 1 and places[20] > 1  # in mid epoch, and over the end of one


def test_with_a_mix_it_is_resumed_too(tmp_path, sentences):
    more = tmp_path / "more.tsv"
    more.write_text("".join(sentences.read_text().splitlines(keepends=True)[:20]))
    config = regularized(0.1, "data.mix=[0.4, 3.0]", max_updates=20)
    inputs = [str(sentences), str(more)]
    train(inputs, out=tmp_path / "whole", config=config)
    train(inputs, out=tmp_path / "parts", config=config, on_record=stop_at(13))
    train(out=tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_it_changes_what_is_learnt_and_cannot_be_changed_when_resuming(tmp_path, sentences):
    for name, amount in (("off", 0.0), ("on", 0.1)):
        train([str(sentences)], out=tmp_path / name, config=regularized(amount, max_updates=6))
    off, on = (checkpoint_tensors(tmp_path / name) for name in ("off", "on"))
    assert any(not off[name].equal(on[name]) for name in off)
    with pytest.raises(ConfigError, match=r"cannot change training\.subword_regularization"):
        train(out=tmp_path / "on", resume=True, config=regularized(0.2, max_updates=6))


def test_what_is_told_before_the_first_step_is_of_pairs_that_were_cut_anew(tmp_path, sentences, monkeypatch):
    noted = noted_batches(monkeypatch)
    config = regularized(0.3, max_updates=40)
    records = records_of(sentences, tmp_path / "run", config)
    plan = next(r for r in records if isinstance(r, Plan))
    prepared = next(r for r in records if isinstance(r, Prepared))
    first, rest = noted[0], noted[3 : 3 + prepared.batches_per_epoch]

    # The pairs of the first epoch, cut once more.
    tokenizer = Tokenizer.load(tmp_path / "run/training/joint.model", {"kind": "bpe", "normalization": "identity"})
    store = PairStore.open(tmp_path / "run/training/store")
    cut = SubwordRegularization(tokenizer, tokenizer, 0.3, 1, 256).cut(store, 0)
    tokens = int(cut.source_lengths.sum()), int(cut.target_lengths.sum())
    assert (sum(b.src_tokens for b in rest), sum(b.tgt_tokens for b in rest)) == tokens
    assert tokens[0] > 1.2 * store.source_lengths.sum()

    # The largest batch is one of theirs, and the largest of them; none is larger than it may be.
    cells = [b.src.size + b.tgt_out.size for b in rest]
    assert first.src.size + first.tgt_out.size == max(cells)
    assert plan.largest_batch == (*first.src.shape, first.tgt_out.shape[1])
    assert any(np.array_equal(first.src, b.src) and np.array_equal(first.tgt_out, b.tgt_out) for b in rest)
    assert all(max(b.src.size, b.tgt_out.size) <= 128 or len(b.src) == 1 for b in rest)
    assert prepared.useful_share == pytest.approx(sum(tokens) / sum(cells))

    # The tokens by which an update is divided are those that the loss is of.
    assert all(b.tgt_tokens == (b.tgt_out != tokenizer.pad_id).sum() for b in rest)


@pytest.mark.parametrize("amount", [0.1, 0.0])
def test_every_epoch_is_cut_in_another_way(tmp_path, sentences, monkeypatch, amount):
    noted = noted_batches(monkeypatch)
    records = records_of(sentences, tmp_path / "run", regularized(amount, max_epochs=2))
    pad = next(r.source_vocab for r in records if isinstance(r, Prepared)) - 1
    epoch_of = {r.update: int(r.epoch - 1e-9) for r in records if isinstance(r, Progress)}
    cuts: tuple[list[list[int]], list[list[int]]] = ([], [])
    for update, batch in enumerate(noted[3:], 1):
        cuts[epoch_of[update]].extend(row[row != pad].tolist() for row in batch.src)
    assert len(cuts[0]) == len(cuts[1]) == 100
    assert (sorted(cuts[0]) == sorted(cuts[1])) == (amount == 0.0)


def test_validation_pairs_are_never_cut_anew(tmp_path, sentences):
    """The weights hardly move, so that the validation loss is the same unless other pieces are looked at."""
    losses: dict[float, tuple[float, float]] = {}
    for amount in (0.0, 0.3):
        config = regularized(amount, "model.dropout=0.0", max_updates=1, peak_rate=1e-12)
        records = records_of(sentences, tmp_path / str(amount), config)
        losses[amount] = tuple(next(r for r in records if isinstance(r, kind)).loss for kind in (Validation, Progress))
    assert losses[0.0][0] == pytest.approx(losses[0.3][0], rel=1e-6)
    assert losses[0.0][1] != pytest.approx(losses[0.3][1], rel=1e-6)


def test_learned_positions_are_never_run_out_of(tmp_path, sentences):
    longest = 7  # six words and the end mark, where each word is one piece
    learned = ("model.positions=learned", f"model.max_len={longest}")
    last = records_of(sentences, tmp_path / "run", regularized(0.6, *learned, max_epochs=1))[-1]
    assert last.reason == "max_epochs"
    store = PairStore.open(tmp_path / "run/training/store")
    assert store.source_lengths.max() == longest
    with pytest.raises(SearchError, match="learned positions up to 6"):  # the control: positions do run out
        train([str(sentences)], out=tmp_path / "short", config=regularized(0.0, learned[0], "model.max_len=6"))


def test_no_side_becomes_longer_than_max_tokens(tmp_path, sentences, monkeypatch):
    noted = noted_batches(monkeypatch)
    for most in (256, 9):
        noted.clear()
        records_of(sentences, tmp_path / str(most), regularized(0.6, f"data.max_tokens={most}", max_epochs=1))
        longest = max(max(b.src.shape[1], b.tgt_out.shape[1]) for b in noted)
        assert longest <= 9 if most == 9 else longest > 9


@pytest.mark.parametrize("kind", ["char", "word"])
def test_kinds_that_cut_in_one_way_only_are_refused_with_the_settings(kind):
    with pytest.raises(ConfigError, match=f"'bpe' or 'unigram', but is '{kind}'") as raised:
        regularized(0.1, kind=kind)
    assert "data.tokenizer=bpe" in raised.value.hint
    assert regularized(0.0, kind=kind).training.subword_regularization == 0.0


@pytest.mark.parametrize("amount", [-0.1, 1.0, 2.0])
def test_what_is_no_probability_is_refused(amount):
    with pytest.raises(ConfigError, match="`subword_regularization` must be at least 0 and below 1"):
        regularized(amount)


def test_the_setting_is_written_and_read():
    config = regularized(0.05)
    assert RunConfig.from_mapping(tomllib.loads(config.to_toml())) == config
    assert "subword_regularization = 0.05" in config.to_toml()
