"""Distillation: a student learns what its teacher says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import distillation
from pellucid.checkpoint import load_model
from pellucid.cli.main import cli
from pellucid.config import DataConfig
from pellucid.distillation import distill
from pellucid.errors import DataError, TrainingError
from pellucid.training.run import train
from pellucid.translator import Translator
from training.conftest import tiny, write_reversals


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("distillation")
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, max_updates=60, validate_bleu=False)
    train([str(write_reversals(folder / "pairs.tsv", 200))], out=folder / "model", config=config)
    return folder / "model"


@pytest.fixture
def teacher(trained) -> Translator:
    return Translator.load(trained, threads=1, engine="torch")


def lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()


def test_targets_are_the_teachers_and_what_is_held_out_keeps_its_own(trained, teacher, tmp_path):
    pairs = trained.parent / "pairs.tsv"
    told = []
    done = distill(
        teacher, tmp_path, [str(pairs)], config=DataConfig(valid_pairs=20), on_progress=lambda *n: told.append(n)
    )
    assert lines(done.tgt) == [t.text for t in teacher.translate(lines(done.src))]
    held_out = list(zip(lines(done.valid_src), lines(done.valid_tgt), strict=True))
    assert len(held_out) == 20
    assert all(target == " ".join(reversed(source.split())) for source, target in held_out)
    assert not {source for source, _ in held_out} & set(lines(done.src))
    assert len(lines(done.src)) == 180
    assert told[0] == (0, 180) and told[-1] == (180, 180)


@pytest.mark.parametrize("cut", [0, 1, 37])
def test_it_goes_on_after_any_interruption(trained, teacher, tmp_path, monkeypatch, cut):
    """Killed after some bytes of one file and fewer of the other: no line is lost, doubled or half."""
    pairs = trained.parent / "pairs.tsv"
    whole = distill(teacher, tmp_path / "whole", [str(pairs)])
    half = distill(teacher, tmp_path / "half", [str(pairs)])
    for file, size in ((half.src, 300), (half.tgt, 300 - cut)):
        file.write_bytes(file.read_bytes()[:size])
    asked = []
    monkeypatch.setattr(teacher, "stream", lambda texts, **more: asked.extend(texts) or teacher.translate(asked))
    again = distill(teacher, tmp_path / "half", [str(pairs)])
    assert lines(again.src) == lines(whole.src) and lines(again.tgt) == lines(whole.tgt)
    assert 0 < len(asked) < len(lines(whole.src))


def test_texts_with_tabs_and_odd_separators_stay_lines(teacher, tmp_path):
    (tmp_path / "a").write_text("1 2\t3\n4\u2028 5\n\n6\n", encoding="utf-8")
    (tmp_path / "b").write_text("x\ny\nz\nw\n")
    done = distill(teacher, tmp_path / "out", src=[str(tmp_path / "a")], tgt=[str(tmp_path / "b")],
                   valid_src=[str(tmp_path / "a")], valid_tgt=[str(tmp_path / "b")])  # fmt: skip
    assert done.src.read_text(encoding="utf-8").split("\n") == ["1 2\t3", "4\u2028 5", "6", ""]
    assert done.tgt.read_text(encoding="utf-8").count("\n") == 3
    assert done.valid_tgt.read_text() == "x\ny\nw\n"


def test_what_cannot_be_done_is_said(trained, teacher, tmp_path):
    (tmp_path / "empty.tsv").write_text("")
    with pytest.raises(DataError, match="no pair"):
        distill(teacher, tmp_path / "a", [str(tmp_path / "empty.tsv")])
    pairs = trained.parent / "pairs.tsv"
    distill(teacher, tmp_path / "b", [str(pairs)])
    about = tmp_path / "b" / "distillation" / "about.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "teacher": "another"}))
    with pytest.raises(TrainingError, match="begun with another teacher"):
        distill(teacher, tmp_path / "b", [str(pairs)])


def test_the_verb_makes_a_student(trained, tmp_path, monkeypatch):
    pairs, out = trained.parent / "pairs.tsv", tmp_path / "student"
    (tmp_path / "settings.toml").write_text(tiny(max_updates=4, validate_every=4, validate_bleu=False).to_toml())
    command = ["distill", str(trained), str(pairs), "--out", str(out), "--config", str(tmp_path / "settings.toml"),
               "--set", "model.num_encoder_layers=2"]  # fmt: skip
    done = CliRunner().invoke(cli, command)
    assert done.exit_code == 0, done.output
    assert "180 of 180 sentences" in done.output and "The model is in" in done.output
    assert load_model(out).model.config.num_encoder_layers == 2
    again = CliRunner().invoke(cli, command)
    assert isinstance(again.exception, TrainingError) and "--resume" in again.exception.hint

    def interrupted(*arguments, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(distillation, "distill", interrupted)
    stopped = CliRunner().invoke(cli, [*command[:3], "--out", str(tmp_path / "other")])
    assert "The same command goes on" in stopped.output and stopped.exit_code == 1
