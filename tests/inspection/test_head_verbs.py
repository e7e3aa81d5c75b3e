"""`pellucid heads` and `pellucid align`: what they print where, and what they say of what cannot be."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pellucid.cli.progress import Countdown
from pellucid.data.store import PairStore
from pellucid.inspection.forcing import ForcedPair
from pellucid.inspection.heads import source_ranks
from pellucid.training.run import train
from pellucid.translator import Translator
from test_cli import run
from training.conftest import tiny, write_reversals


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that has begun to learn to reverse words, with its run; and pairs of files."""
    folder = tmp_path_factory.mktemp("heads")
    config = tiny(batch_tokens=600, warmup_steps=10, peak_rate=0.005, max_updates=20, validate_bleu=False)
    train([str(write_reversals(folder / "pairs.tsv", 200))], out=folder / "model", config=config)
    lines = [line.split("\t") for line in (folder / "pairs.tsv").read_text().splitlines()[:12]]
    (folder / "src.txt").write_text("".join(f"{source}\n" for source, _ in lines))
    (folder / "tgt.txt").write_text("".join(f"{target}\n" for _, target in lines))
    # Word i of n goes to word n - 1 - i.
    reverse = [" ".join(f"{i}-{n - 1 - i}" for i in range(n)) for n in (len(source.split()) for source, _ in lines)]
    (folder / "gold.wa").write_text("\n".join(reverse) + "\n")
    return folder


# --- heads ------------------------------------------------------------------------------------------------------------


def test_heads_of_the_runs_own_validation_pairs(folder):
    done = run("heads", folder / "model")
    assert done.code == 0, done.err
    assert re.search(r"^20 pairs, loss \d\.\d{3} nats a piece", done.out, re.MULTILINE)
    assert [line.split(":")[0] for line in done.lines if line.startswith(("encoder", "decoder", "cross"))] == [
        "encoder", "decoder", "cross"
    ]  # fmt: skip
    assert len(re.findall(r"I \d\.\d\d  Δ[+-]\d\.\d{3}", done.out)) == 6
    assert "Weights are not explanations" in done.out


def test_what_is_rare_is_counted_in_the_training_pairs(folder):
    """Not in the pairs that are measured, as long as the run's own are there."""
    translator = Translator.load(folder / "model", device="cpu", threads=1)
    one = [ForcedPair.of(translator, "7 7 7 7", "1")]
    store = PairStore.open(folder / "model" / "training" / "store")
    counts = Counter(i for n in range(len(store)) for i in store.source(n).tolist())
    ranks = source_ranks(translator, one)
    assert [counts[i] for i in np.argsort(ranks)] == sorted((counts[i] for i in range(len(ranks))), reverse=True)
    bare = Translator(dataclasses.replace(translator.loaded, directory=None))
    assert source_ranks(bare, one)[one[0].source[0]] == 0 < ranks[one[0].source[0]]


def test_heads_of_given_pairs_as_json_and_as_a_page(folder):
    done = run("heads", folder / "model", "--src", folder / "src.txt", "--tgt", folder / "tgt.txt", "--limit", 10,
               "--gold", folder / "gold.wa", "--json", "--html", folder / "heads.html")  # fmt: skip
    assert (done.code == 1 and "12 for 10 pairs" not in done.err) or done.code == 0, done.err
    table = json.loads(done.out)
    assert table["pairs"] == 10
    by_kind = {kind: [h for h in table["heads"] if h["kind"] == kind] for kind in ("encoder", "decoder", "cross")}
    assert all(0 <= h["values"]["alignment_error"] <= 1 for h in by_kind["cross"])
    assert by_kind["encoder"][0]["values"]["alignment_error"] is None
    assert "Attention heads of model" in (folder / "heads.html").read_text()


def test_translating_without_a_head(folder):
    done = run("heads", folder / "model", "--limit", 8, "--bleu", "--head", "cross.1.2")
    assert done.code == 0, done.err
    assert re.search(r"^without cross\.1\.2: BLEU [+-]\d+\.\d\d \(p = ", done.out, re.MULTILINE)
    assert done.out.count("without cross") == 1 and "without encoder" not in done.out


def test_narrow_terminals_get_the_heads_below_each_other(folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    done = run("heads", folder / "model", "--limit", 4)
    assert max(len(line) for line in done.lines[1:7]) <= 30
    assert sum(line.strip() == "head 2" for line in done.lines) == 3


# --- align ------------------------------------------------------------------------------------------------------------


def both(folder: Path) -> list[object]:
    return ["align", folder / "model", "--src", folder / "src.txt", "--tgt", folder / "tgt.txt"]


def test_one_line_of_links_a_pair(folder):
    done = run(*both(folder), "--head", "average")
    assert done.code == 0, done.err
    assert "reads cross-attention, layer 1, all heads, weights, rows by the token that they have as input" in done.err
    targets = (folder / "tgt.txt").read_text().splitlines()
    assert len(done.lines) == len(targets)
    for line, target in zip(done.lines, targets, strict=True):
        assert sorted(int(link.split("-")[1]) for link in line.split()) == list(range(len(target.split())))


def test_lines_without_text_stay_lines(folder, tmp_path):
    (tmp_path / "a").write_text("1 2\n\n3\n")
    (tmp_path / "b").write_text("2 1\n4\n\n")
    done = run("align", folder / "model", "--src", tmp_path / "a", "--tgt", tmp_path / "b", "--words")
    assert done.code == 0, done.err
    assert [line.split("\t")[1:] for line in done.lines] == [["1 2", "2 1"], ["", ""], ["", ""]]


def test_the_window_changes_nothing(folder, monkeypatch):
    gold = ["--gold", folder / "gold.wa", "--words"]
    whole = run(*both(folder), *gold)
    monkeypatch.setattr("pellucid.cli.align.WINDOW", 5)
    assert run(*both(folder), *gold) == whole


def test_the_best_reading_on_gold_links_is_the_best_of_all(folder):
    """Every reading by name, one run each; the one that `best` takes must not be beaten."""
    gold = ["--gold", folder / "gold.wa"]

    def rate(*options: object) -> float:
        done = run(*both(folder), *gold, *options)
        assert done.code == 0, done.err
        found = re.search(r"alignment error rate (\d+\.\d) % over 12 pairs", done.err)
        assert found is not None
        return float(found[1])

    each = [rate("--head", head, "--convention", convention)
            for head in ("cross.1.1", "cross.1.2", "cross.1") for convention in ("input", "predicts")]  # fmt: skip
    assert rate() == min(each) < max(each)
    assert "(chosen on them)" in run(*both(folder), *gold).err


def test_without_gold_links_the_validation_pairs_choose_or_a_note_is_left(folder, tmp_path):
    assert "note" not in run(*both(folder)).err
    bare = tmp_path / "bare"
    shutil.copytree(folder / "model", bare, ignore=shutil.ignore_patterns("training"))
    done = run("align", bare, "--src", folder / "src.txt", "--tgt", folder / "tgt.txt")
    assert done.code == 0 and "12 pairs are few to choose a head by" in done.err
    done = run("heads", bare)
    assert done.code == 1 and "no validation pairs" in done.err and "hint: --src FILE --tgt FILE" in done.err


def test_gold_links_that_count_from_one(folder, tmp_path):
    shifted = re.sub(r"\d+", lambda n: str(int(n[0]) + 1), (folder / "gold.wa").read_text())
    (tmp_path / "one.wa").write_text(shifted)
    right = run(*both(folder), "--gold", folder / "gold.wa")
    shown = run(*both(folder), "--gold", tmp_path / "one.wa", "--gold-first", 1)
    assert shown.err == right.err and shown.out == right.out
    wrong = run(*both(folder), "--gold", tmp_path / "one.wa")
    assert "is --gold-first right?" in wrong.err


@pytest.mark.parametrize("command, code, message", [
    ("heads {0}/model --head cross.1.1", 2, "needs --bleu"),
    ("heads {0}/model --bleu --head cross.9.1", 2, "no head 'cross.9.1'"),
    ("heads {0}/model --gold {0}/gold.wa", 2, "--gold has the links of pairs that must be named"),
    ("heads {0}/model --src {0}/src.txt", 2, "named equally often"),
    ("align {0}/model --src {0}/src.txt --tgt {0}/tgt.txt --head first", 2, "must be best, average, or like cross.3.6"),
    ("align {0}/model --src {0}/src.txt --tgt {0}/tgt.txt --head cross.3", 2, "no head 'cross.3.1'"),
    ("align {0}/model --src {0}/src.txt --tgt {0}/pairs.tsv", 1, "must have equally many lines, but have 12 and 200"),
    ("align {0}/model --src {0}/src.txt --tgt {0}/tgt.txt --gold {0}/src.txt", 1, "src.txt:1: a link must be like 3-4"),
])  # fmt: skip
def test_what_cannot_be_is_said(folder, command, code, message):
    done = run(*command.format(folder).split())
    assert done.code == code and message in done.err, done.err
    assert done.out == ""


# --- time left --------------------------------------------------------------------------------------------------------


def test_a_countdown_says_how_long_it_will_take(monkeypatch):
    import io

    from rich.console import Console

    now = [0.0]
    monkeypatch.setattr("pellucid.cli.progress.time.monotonic", lambda: now[0])
    file = io.StringIO()
    with Countdown("measuring", Console(file=file, force_terminal=True)) as countdown:
        now[0] = 30.0
        countdown(1, 4)
        now[0] = 30.1
        countdown(2, 4)  # too soon after the last
    assert file.getvalue() == "\rmeasuring  25%, 1m30s left\x1b[K\r\x1b[K"
    file = io.StringIO()
    with Countdown("measuring", Console(file=file)) as countdown:
        now[0] = 61.0
        countdown(2, 4)
        countdown(3, 4)
    assert file.getvalue() == "measuring  50%, 31s left\n"
