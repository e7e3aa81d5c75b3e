"""What `pellucid translate` does around translating, and `pellucid calibrate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from pellucid.checkpoint import save_model, weights_of
from pellucid.data.tokenizer import Tokenizer
from test_cli import run
from test_translator import WORDS, random_model


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)
    loaded = random_model(tokenizer)
    save_model(folder, weights_of(loaded.model), loaded.model.config, tokenizer, tokenizer, search=loaded.search,
               source_language="en")  # fmt: skip
    return folder


def translated(model: Path, text: str, *options: object) -> str:
    done = run("translate", model, "--engine", "torch", "--threads", 1, *options, stdin=text)
    assert done.code == 0, done.err
    return done.out


def test_lines_without_placeholders_come_out_as_ever(model):
    text = "red green\n\n  blue one. Two \nseven! eight?\n" + "one two three four five. " * 9 + "\n100 % <3\n"
    assert translated(model, text) == translated(model, text, "--no-protect")


def test_placeholders_are_kept_unless_asked_otherwise(model):
    text = "red {name} green\n%1$s <b>one</b> two\n"
    lines = translated(model, text).split("\n")
    assert lines[0].count("{name}") == 1 and lines[1].startswith("%1$s ") and lines[1].count("<b>") == 1
    assert "{name}" not in translated(model, text, "--no-protect")


def test_workers_do_the_same(model):
    text = "red {name} green\n%1$s <b>one</b> two\n" * 3
    assert translated(model, text, "--workers", 2) == translated(model, text)


def test_json_names_flags(model):
    shown = [json.loads(line) for line in translated(model, "red {x} blue\nred\n", "--json").split("\n")[:-1]]
    assert "placed" in shown[0]["flags"] and "placed" not in shown[1]["flags"]
    assert shown[0]["damaged"] == []


def test_terms(model, tmp_path):
    (tmp_path / "terms.tsv").write_text("green\tGRÜN\n")
    (tmp_path / "names.txt").write_text("Anna\n")
    out = translated(
        model, "red green Anna one\n", "--glossary", tmp_path / "terms.tsv", "--dnt", tmp_path / "names.txt"
    )
    assert "GRÜN" in out and "Anna" in out
    assert "GRÜN" not in translated(model, "red green Anna one\n")
    (tmp_path / "terms.tsv").write_text("green\n")
    done = run("translate", model, "--glossary", tmp_path / "terms.tsv", stdin="red\n")
    assert done.code == 1 and "terms.tsv:1: a line must be source<TAB>target" in done.err


def test_a_document_of_html(model, tmp_path):
    page = "<html>\n<body>\n<p>red <b>green</b></p>\n<script>red()</script>\n</body>\n</html>"
    (tmp_path / "page.html").write_text(page + "\n")
    out = translated(model, "", "--format", "html", tmp_path / "page.html")
    assert out.count("\n") == page.count("\n") + 1
    assert out.startswith("<html>\n<body>\n<p>") and out.endswith("</p>\n<script>red()</script>\n</body>\n</html>\n")
    assert "green" not in out and out.count("<b>") == 1
    assert run("translate", model, "--format", "html", "--n-best", 2).code == 2
    assert run("translate", model, tmp_path / "page.html", "--out", tmp_path / "filled.html").code == 0
    assert (tmp_path / "filled.html").read_text() == out


def test_sentences_one_by_one(model):
    assert translated(model, "One two. Three four.\n", "--split-sentences") == " ".join(
        translated(model, "One two.\nThree four.\n").split("\n")[:2]) + "\n"  # fmt: skip


def test_calibrate(model, tmp_path):
    lines = "".join(f"{' '.join(WORDS[i % 12 : i % 12 + 1 + i % 3])}\n" for i in range(40))
    (tmp_path / "src").write_text(lines)
    done = run("calibrate", model, "--src", tmp_path / "src", "--threads", 1)
    assert done.code == 0, done.err
    assert "measured    40 texts" in done.err and "nats a token" in done.err
    assert (model / "calibration.json").is_file()
    (model / "calibration.json").unlink()


def test_training_calibrates_at_its_end(tmp_path):
    from test_cli import SETTINGS

    texts = [" ".join(str(7 * n + k * k + n * k)[-1] for k in range(n % 4 + 1)) for n in range(100)]
    (tmp_path / "pairs.tsv").write_text("".join(f"{t}\t{t[::-1]}\n" for t in texts))
    (tmp_path / "settings.toml").write_text(SETTINGS)
    done = run("train", tmp_path / "pairs.tsv", "--config", tmp_path / "settings.toml", "--out", tmp_path / "model",
               "--max-updates", 5)  # fmt: skip
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "model" / "calibration.json").read_text())["sentences"] == 10
    torch.set_num_threads(1)
