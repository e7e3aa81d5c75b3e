"""`pellucid lab` on the command line."""

from __future__ import annotations

import json

import pytest
import torch
from click.testing import CliRunner
from rich.cells import cell_len

from pellucid.cli.lab import command, language_of_environment
from pellucid.inspection.labs import catalogue
from pellucid.inspection.labs.catalogue import LABS
from pellucid.model import transformer
from pellucid.terminal import wrapped
from test_cli import run


def test_without_a_name_the_labs_are_listed():
    english, chinese = run("lab", "--lang", "en"), run("lab", "--lang", "zh")
    assert english.code == chinese.code == 0
    for lab in LABS:
        assert f"{lab.name:24}{lab.question.en}" in english.out
        assert lab.question.zh in chinese.out
    assert "--set d_k=64" in english.out
    assert [lab["name"] for lab in json.loads(run("lab", "--json").out)] == [lab.name for lab in LABS]


def test_one_lab_is_told_and_written(tmp_path):
    out = tmp_path / "page.html"
    done = run("lab", "padding", "--set", "pads=2", "--html", out, "--lang", "zh")
    assert done.code == 0
    assert done.lines[0] == "6. 填充掩码"
    (control,) = [line for line in done.lines if line.endswith("[对照组：如期不成立]")]
    assert control.startswith("  ✓ 没有掩码，输出也相同: ")
    assert done.err.strip() == str(out)
    html = out.read_text(encoding="utf-8")
    assert '<html lang="zh-Hans">' in html
    assert "<pad>2" not in html and "&lt;pad&gt;2" in html


def test_as_json():
    found = json.loads(run("lab", "triangle", "--set", "t=2", "--json", "--lang", "en").out)
    assert found["number"] == 5 and found["pictures"][0]["svg"].startswith("<svg")


def test_all_labs_in_one_table():
    done = run("lab", "all", "--lang", "en")
    assert done.code == 0
    assert {line.split()[1] for line in done.lines} == {lab.name for lab in LABS}
    assert all(line.startswith("✓ ") for line in done.lines)
    controls = [line for line in done.lines if line.endswith("[control: fails, as it must]")]
    assert len(LABS) <= len(controls) < len(done.lines)


def test_a_claim_that_does_not_hold_is_an_exit_status_of_1(monkeypatch):
    monkeypatch.setattr(transformer, "causal_mask", lambda size, device=None: torch.ones(size, size, dtype=torch.bool))
    monkeypatch.setattr(catalogue, "LABS", (catalogue.TRIANGLE,))
    done = run("lab", "all", "--lang", "en")
    assert done.code == 1
    assert "✗ triangle" in done.out and "[does not hold]" in done.out


@pytest.mark.parametrize(
    "arguments,message,hint",
    [
        (["why-sqr"], "there is no lab 'why-sqr'", "did you mean 'why-sqrt'?"),
        (["why-sqrt", "--set", "d_k"], "--set must be NAME=VALUE, but is 'd_k'", None),
        (["why-sqrt", "--set", "d_k=x"], "`d_k` of the lab why-sqrt must be a whole number from 1 to 512, but is 'x'", "d_k=64"),
        (["all", "--set", "d_k=4"], "--set belongs to one lab, not to all", "pellucid lab NAME --set ..."),
        (["why-sqrt", "--model", "/nowhere"], "/nowhere", None),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said_plainly(arguments, message, hint):
    done = run("lab", *arguments)
    assert done.code != 0
    assert message in done.err
    assert hint is None or f"hint: {hint}" in done.err


@pytest.mark.parametrize(
    "environment,language",
    [
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "de_DE.UTF-8"}, "en"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LANG": "C", "LC_MESSAGES": "zh_TW.UTF-8"}, "zh"),
        ({}, "en"),
    ],
)
def test_the_language_is_that_of_the_environment(monkeypatch, environment, language):
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert language_of_environment() == language
    assert LABS[0].question.of(language) in CliRunner().invoke(command, []).output


def test_text_is_wrapped_by_columns_and_nothing_is_lost():
    text = "softmax 几乎把全部权重给了一个词，梯度也几乎消失。Divided by √d_k, the scores have variance 1."
    for width in (12, 20, 33):
        lines = wrapped(text, width)
        assert all(cell_len(line) <= width + 2 for line in lines)  # a closing sign may hang over
        assert not any(line[0] in "，。 " for line in lines)
        assert "".join(lines).replace(" ", "") == text.replace(" ", "")
    assert wrapped("one two three", 7) == ["one two", "three"]
    assert wrapped("一二三四", 4) == ["一二", "三四"]
