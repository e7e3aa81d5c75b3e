"""`pellucid check`, `clean`, `split`, and the look that `train` takes by itself."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pellucid.cli.main import cli
from pellucid.data.language import is_installed
from pellucid.data.rules import RULES
from pellucid.errors import ConfigError

GOOD = [(f"This is sentence {'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10]} of the good ones.",
         f"Das ist Satz {'abcdefghij'[i % 10]}{'klmnopqrst'[i // 10]} von den guten.") for i in range(60)]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write("good.tsv", GOOD)
    write("bad.tsv", [*GOOD, GOOD[3], ("Page 12 of 30.", "Seite 12 von 40."), ("Nothing here", "")])
    return tmp_path


def write(name: str, rows: list[tuple[str, str]]) -> None:
    Path(name).write_text("".join(f"{a}\t{b}\n" for a, b in rows), encoding="utf-8", newline="\n")


def run(*arguments: str, status: int = 0) -> Result:
    done = CliRunner().invoke(cli, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == status, done.output
    return done


def test_check_says_what_is_wrong_and_changes_nothing(folder: Path) -> None:
    before = (folder / "bad.tsv").read_bytes()
    out = run("check", "bad.tsv", "--rules", "duplicate,numbers,empty").stdout
    assert "63 pairs in bad.tsv" in out
    for rule, place in (
        ("duplicate", "bad.tsv:61   (like bad.tsv:4)"),
        ("numbers", "bad.tsv:62"),
        ("empty", "bad.tsv:63"),
    ):
        assert f"\n{rule}: {RULES[rule]}\n  {place}\n" in out
    assert (folder / "bad.tsv").read_bytes() == before


def test_check_as_json_and_as_a_page(folder: Path) -> None:
    values = json.loads(run("check", "bad.tsv", "--json", "--examples", "1", "--html", "page.html").stdout)
    assert values["pairs"] == 63
    assert values["faults"]["numbers"]["examples"][0]["line"] == 62
    assert (folder / "page.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_strict_exits_with_3_where_something_is_found(folder: Path) -> None:
    run("check", "good.tsv", "--rules", "duplicate,empty,numbers", "--strict")
    run("check", "bad.tsv", "--rules", "duplicate,empty,numbers")
    assert (
        "3 kinds of fault" in run("check", "bad.tsv", "--rules", "duplicate,empty,numbers", "--strict", status=3).stderr
    )


def test_check_of_aligned_files_against_other_sets(folder: Path) -> None:
    for side in (0, 1):
        (folder / f"text.{side}").write_text("".join(f"{pair[side]}\n" for pair in GOOD))
    write("test.tsv", [GOOD[5], ("something else", "etwas anderes"), (GOOD[7][0].upper(), "x")])
    values = json.loads(run("check", "--src", "text.0", "--tgt", "text.1", "--test", "test.tsv", "--json").stdout)
    assert values["overlaps"]["test"]["pairs"] == 3
    assert values["overlaps"]["test"]["overlap"] == 1
    assert values["overlaps"]["test"]["overlap-normalised"] == 1
    (example,) = values["faults"]["overlap"]["examples"]
    assert (example["file"], example["line"], example["like"]) == ("text.0", 6, "test.tsv:1")


def test_a_rule_that_is_not_there(folder: Path) -> None:
    assert "did you mean 'duplicate'?" in run("check", "good.tsv", "--rules", "duplicates", status=2).stderr
    assert "must name a rule" in run("clean", "good.tsv", "--out", "x.tsv", "--rules", ",", status=2).stderr


def test_what_is_piped_in_can_be_checked(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pellucid", "check", "-", "--json", "--rules", "duplicate"],
        input=(folder / "bad.tsv").read_bytes(), capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["faults"]["duplicate"]["count"] == 1


@pytest.mark.skipif(is_installed(), reason="py3langid is installed")
def test_languages_need_a_package_that_is_named(folder: Path) -> None:
    assert "languages only if you name them" in run("check", "good.tsv").stderr
    with pytest.raises(ConfigError, match="py3langid must be installed") as caught:
        run("check", "good.tsv", "--rules", "language")
    assert caught.value.hint is not None and "pellucid[detect]" in caught.value.hint


@pytest.mark.skipif(not is_installed(), reason="needs py3langid")
def test_a_wrong_language_is_found_and_short_phrases_are_let_be(folder: Path) -> None:
    write("pairs.tsv", [
        *GOOD, ("We would like to eat something warm tonight.", "We would like to eat something warm tonight."),
        ("Guten Tag", "Gute Reise"), ("We are looking for a room with a view.", "Wir suchen ein Zimmer mit schöner Aussicht."),
    ])  # fmt: skip
    values = json.loads(run("check", "pairs.tsv", "--source-lang", "en", "--target-lang", "de", "--json").stdout)
    assert [example["line"] for example in values["faults"]["language"]["examples"]] == [61]


def test_clean_drops_and_says_so(folder: Path) -> None:
    done = run("clean", "bad.tsv", "--out", "clean.tsv")
    assert (folder / "clean.tsv").read_bytes() == (
        folder / "good.tsv"
    ).read_bytes() + b"Page 12 of 30.\tSeite 12 von 40.\n"
    assert [line.split("\t")[0] for line in (folder / "clean.tsv.dropped.tsv").read_text().splitlines()] == [
        "rules", "duplicate", "empty",
    ]  # fmt: skip
    assert "63 pairs read, 61 kept in clean.tsv" in done.stderr
    assert "what was dropped: clean.tsv.dropped.tsv" in done.stderr
    assert done.stdout == ""


def test_clean_does_not_write_over_what_it_reads(folder: Path) -> None:
    for options in (("--out", "bad.tsv"), ("--out", "new.tsv", "--report", "./bad.tsv")):
        with pytest.raises(ConfigError, match="another file than the pairs"):
            run("clean", "bad.tsv", *options)


def test_clean_keeps_training_apart_from_the_test_set(folder: Path) -> None:
    write("test.tsv", GOOD[:5])
    run("clean", "good.tsv", "--out", "train.tsv", "--test", "test.tsv")
    assert (folder / "train.tsv").read_text() == "".join(f"{a}\t{b}\n" for a, b in GOOD[5:])


def test_split_and_check_agree_that_nothing_leaks(folder: Path) -> None:
    done = run("split", "bad.tsv", "--out", "data", "--valid", "10", "--test", "10")
    assert "10 pairs  data/valid.tsv" in done.stderr
    assert "1 pairs  left out" in done.stderr
    data = ("data/train.tsv", "--valid", "data/valid.tsv", "--test", "data/test.tsv")
    run("check", *data, "--rules", "overlap,overlap-normalised", "--strict")
    run("check", "bad.tsv", *data[1:], "--rules", "overlap,overlap-normalised", "--strict", status=3)


def test_mix_weighs_inputs_in_the_order_in_which_they_are_read(folder: Path) -> None:
    done = run(
        "train", "a.tsv", "--mix", "b=c.tsv=3", "--mix", "d.tsv=0.5", "--src", "e", "--tgt", "f", "--print-config"
    )
    assert "mix = [1.0, 3.0, 0.5, 1.0]" in done.stdout
    for wrong in ("d.tsv", "d.tsv=", "=2", "d.tsv=0", "d.tsv=-1", "d.tsv=inf", "d.tsv=nan"):
        assert "must be a file and a number above 0" in run("train", "--mix", wrong, status=2).stderr


def test_train_says_what_it_finds(folder: Path) -> None:
    import torch

    threads = torch.get_num_threads()
    write("valid.tsv", [*GOOD[:3], ("One more.", "Noch einer.")])
    arguments = [
        "train", "bad.tsv", "--valid", "valid.tsv", "--out", "model", "--max-updates", "1", "--threads", "1", "--vocab-size",
        "300", "--set", "training.validate_bleu=false", "--set", "model.d_model=16", "--set", "model.n_heads=2",
        "--set", "model.d_ff=16", "--set", "model.num_encoder_layers=1", "--set", "model.num_decoder_layers=1",
    ]  # fmt: skip
    try:
        said = run(*arguments).stderr
    finally:
        torch.set_num_threads(threads)
    assert f"3: overlap: {RULES['overlap']}" in said
    assert f"1: numbers: {RULES['numbers']}" in said
    assert f"1: duplicate: {RULES['duplicate']}" in said
    assert "pellucid check PAIRS" in said
    assert "dropped   1: empty target" in said and ": empty: " not in said  # that one is dropped, and said to be
