"""`pellucid demo`: the cut, the sets that share nothing, the whole in miniature, and the map in a terminal."""

from __future__ import annotations

import dataclasses
import json
from importlib import metadata
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from rich.cells import cell_len

from pellucid import demo_data
from pellucid.cli import demo
from pellucid.cli.main import cli
from pellucid.demo_data import TASKS, DemoCorpus, Item, cut_tatoeba, hold_out, read_pinyin
from pellucid.errors import DataError, PellucidError
from pellucid.terminal import attention_map, fit, shade
from pellucid.training.evaluation import corpus_scores

CEDICT = "# a comment\n貓 猫 [mao1] /cat/\n喝 喝 [he1] /to drink/\n水 水 [shui3] /water/\n后 后 [hou4] /empress/\n後 后 [hou4] /after/\n"


def installed(package: str) -> bool:
    try:
        return bool(metadata.version(package))
    except metadata.PackageNotFoundError:
        return False


# --- data -------------------------------------------------------------------------------------------------------------


def test_the_cut() -> None:
    rows = [
        "1\t猫喝水\t11\tThe cat drinks water.",
        "2\t貓喝水\t11\tThe cat drinks water.",  # a character that is traditional only
        "3\t皇后喝水\t12\tThe empress drinks water.",  # one that is both
        "4\t猫喝水\t13\tThe cat drinks 2 cups.",  # a digit
        "5\t猫喝水猫喝水猫喝水猫喝水猫喝水\t14\tThe cat drinks.",  # more than 14 characters
        "6\t猫喝\t15\tThe cat the cat the cat the cat the cat drinks.",  # more than 10 words
    ]
    assert cut_tatoeba("\n".join(rows) + "\n", CEDICT) == [
        ("猫喝水", "The cat drinks water.", "1 11"),
        ("皇后喝水", "The empress drinks water.", "3 12"),
    ]


def test_only_frequent_characters_and_words_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo_data, "CHARACTERS", 3)
    monkeypatch.setattr(demo_data, "WORDS", 4)
    rows = ["1\t猫喝水\t1\tCat drinks water.", "2\t猫喝水\t2\tcat drinks WATER.", "3\t狗喝水\t3\tCat drinks water.",
            "4\t猫喝水\t4\tKitten drinks water."]  # fmt: skip
    assert [credit for _, _, credit in cut_tatoeba("\n".join(rows), CEDICT)] == ["1 1", "2 2"]


def test_held_out_sentences_are_on_neither_side_of_training() -> None:
    rows = [(f"来{n}。", f"Come {n}.", f"{n} a") for n in range(50)]
    rows += [(f"来{n}！", f"Come {n}!", f"{n} b") for n in range(50)]  # the same but for a mark
    rows += [(f"到{n}", f"come {n}", f"{n} c") for n in range(50)]  # another source of the same translation
    corpus = hold_out(rows, 10, 5)
    assert (len(corpus.test), len(corpus.valid)) == (10, 5)

    def letters(texts: list[str]) -> set[str]:
        return {"".join(c for c in text.lower() if c.isalnum()) for text in texts}

    trained = list(corpus.pairs(corpus.train))
    for held_out in (corpus.test, corpus.valid):
        assert not letters([source for source, _, _ in trained]) & letters([item.source for item in held_out])
    assert not letters([t for _, t, _ in trained]) & letters([t for item in corpus.test for t in item.targets])
    assert hold_out(rows, 10, 5) == corpus


def test_a_source_has_all_its_translations() -> None:
    rows = [("来", "Come.", "1"), ("去", "Go.", "2"), ("来", "Come here.", "3")]
    corpus = hold_out(rows, 2, 0)
    assert {item.source: item.targets for item in corpus.test} == {"来": ("Come.", "Come here."), "去": ("Go.",)}
    assert sorted(map(len, demo.references(corpus.test))) == [2, 2]


def test_repeating_a_reference_changes_no_score() -> None:
    hypotheses, references = ["the cat sat there", "a dog ran away home"], [["the cat sat down", "a dog ran away"]]
    once, thrice = corpus_scores(hypotheses, references), corpus_scores(hypotheses, references * 3)
    assert (once.bleu, once.chrf) == (thrice.bleu, thrice.chrf)


def test_pinyin() -> None:
    rows = [{"chinese": "你好。", "pinyin": "nǐ hǎo", "id": "x-1", "other": 1}]
    assert read_pinyin(json.dumps(rows)) == [("你好。", "nǐ hǎo", "x-1")]


@pytest.mark.parametrize("name", TASKS)
def test_the_real_corpora(name: str) -> None:
    task = TASKS[name]
    if not installed(task.package):
        pytest.skip(f"{task.package} is not installed")
    corpus = demo_data.load(task)
    assert len(corpus.test) == task.tested
    assert len(corpus.valid) == task.validated
    assert len(list(corpus.pairs(corpus.train))) > 3500
    known = {item.source for items in (corpus.train, corpus.valid, corpus.test) for item in items}
    for sentence in task.sentences:
        assert sentence not in known, "our own sentences are not in the corpus"
        assert set("".join(known)).issuperset(sentence), "but all their characters are"


def test_a_missing_or_other_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    task = dataclasses.replace(TASKS["zh-en"], package="no-such-package-here")
    with pytest.raises(DataError, match="no-such-package-here, which is not installed") as missing:
        demo_data.load(task)
    assert missing.value.hint is not None
    assert missing.value.hint.startswith("pip install 'no-such-package-here==1.0.0', or train on pairs of your own")
    with pytest.raises(DataError, match=r"click must be version 0\.0, but is"):
        demo_data.load(dataclasses.replace(task, package="click", version="0.0"))
    changed = dataclasses.replace(
        task, package="click", version=metadata.version("click"), files={"click/__init__.py": "0"}
    )
    with pytest.raises(DataError, match="SHA-256 differs"):
        demo_data.load(changed)


@pytest.mark.parametrize("name", TASKS)
def test_recipes_are_settings_that_can_be(name: str) -> None:
    config = demo.recipe(TASKS[name], 2.5, 1)
    assert (config.training.max_minutes, config.training.threads, config.data.columns) == (2.5, 1, (1, 2))


# --- the whole in miniature -------------------------------------------------------------------------------------------


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo of a language whose words are written backwards, with a model of seconds."""
    words = ["ab", "cde", "fg", "hij"]
    items = [Item(f"{a} {b}", (f"{a[::-1]} {b[::-1]}",), (str(n),)) for n, (a, b) in enumerate((a, b) for a in words for b in words)]  # fmt: skip
    corpus = DemoCorpus(tuple(items[:10]), tuple(items[10:12]), tuple(items[12:]))
    settings = {
        "preset": "tiny",
        "model": {"d_model": 16, "n_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 2, "d_ff": 32},
        "data": {"tokenizer": "word"},
        "search": {"min_length": 1},
        "training": {"batch_tokens": 60, "max_updates": 30, "warmup_steps": 5, "peak_rate": 0.02, "validate_every": 10},
    }
    task = dataclasses.replace(TASKS["zh-en"], settings=settings, sentences=("", "ab cde", "fg"), tested=4)
    monkeypatch.setitem(TASKS, "zh-en", task)
    monkeypatch.setattr(demo_data, "load", lambda task: corpus)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "pellucid" / "demo-zh-en"


def run(*arguments: str) -> Result:
    threads = torch.get_num_threads()
    try:
        return CliRunner().invoke(cli, ["demo", "--threads", "1", *arguments])
    finally:
        torch.set_num_threads(threads)


def test_the_whole_demo(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("--minutes", "1")
    assert first.exit_code == 0, first.output
    assert "4 sentences that it has never seen" in first.stdout
    assert "BLEU " in first.stdout
    assert "tok:13a" in first.stdout
    assert "ab cde  →  " in first.stdout
    assert "cross-attention of decoder layer" in first.stdout
    assert "Tatoeba, CC BY 2.0 FR" in first.stdout
    assert "https://tatoeba.org/sentences/show/NUMBER" in first.stdout
    assert f"pellucid translate {small / 'model'}" in first.stdout
    assert "validation at update 10" in first.stderr
    assert first.stderr.count("→") == 3, "one sample a validation"
    assert (small / "train.tsv").read_text().startswith("ab ab\tba ba\t0\n")
    assert (small / "ATTRIBUTION.txt").exists()

    def never(*arguments: object, **options: object) -> None:
        raise AssertionError("a second run trains nothing")

    monkeypatch.setattr("pellucid.training.run.train", never)
    monkeypatch.setattr(demo_data, "load", never)
    second = run()
    assert second.exit_code == 0, second.output
    assert "using the model of an earlier time" in second.stderr
    scores = [line for line in first.stdout.splitlines() if "BLEU" in line or "chrF" in line]
    assert len(scores) == 2
    assert all(line in second.stdout for line in scores)


def test_its_own_last_words_work(small: Path) -> None:
    shown = run("--minutes", "1").stdout
    (command,) = [line for line in shown.splitlines() if " evaluate " in line]
    arguments = command.split(" evaluate ")[1].split()
    result = CliRunner().invoke(cli, ["evaluate", *arguments, "--threads", "1"])
    assert result.exit_code == 0, result.output
    (bleu,) = [line for line in shown.splitlines() if "  BLEU" in line]
    assert f"{float(result.stdout.split()[1]):.1f}" == bleu.split()[1]


def test_retrain_makes_it_anew_and_touches_nothing_else(small: Path, tmp_path: Path) -> None:
    assert run("--minutes", "1").exit_code == 0
    before = (small / "demo.json").stat().st_mtime_ns
    assert run("--retrain").exit_code == 0
    assert (small / "demo.json").stat().st_mtime_ns > before
    other = tmp_path / "other"
    other.mkdir()
    (other / "letter.txt").write_text("mine")
    for arguments in (["--dir", str(other)], ["--dir", str(other), "--retrain"]):
        refused = run(*arguments)
        assert isinstance(refused.exception, PellucidError)
        assert (other / "letter.txt").read_text() == "mine"
        assert [path.name for path in other.iterdir()] == ["letter.txt"]


def test_stopped_and_gone_on_with(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pellucid.training.trainer import Trainer

    over = Trainer._over
    monkeypatch.setattr(Trainer, "_over", lambda self, seconds: "interrupted" if self.position.update == 12 else over(self, seconds))  # fmt: skip
    stopped = run("--minutes", "1")
    assert stopped.exit_code == 130
    assert "stopped. Go on with:" in stopped.stderr
    assert not (small / "demo.json").exists()
    monkeypatch.setattr(Trainer, "_over", over)
    resumed = run("--minutes", "2")
    assert resumed.exit_code == 0, resumed.output
    assert "update 30" in resumed.stderr
    assert "max_minutes = 2.0" in (small / "model" / "training" / "config.toml").read_text()


def test_a_damaged_model_says_how_to_mend_it(small: Path) -> None:
    assert run("--minutes", "1").exit_code == 0
    (small / "model" / "config.json").write_text("{")
    broken = run()
    assert isinstance(broken.exception, PellucidError)
    assert broken.exception.hint is not None
    assert broken.exception.hint.endswith("demo --retrain")


# --- the map ----------------------------------------------------------------------------------------------------------


def test_columns_are_counted_in_cells() -> None:
    assert [cell_len(fit(text, 6)) for text in ("水", "water", "我的朋友们", "abcdefgh", "")] == [6] * 5
    assert fit("我的朋友们", 6) == "我的 …"


def test_shades() -> None:
    assert "".join(shade(w) for w in (0, 0.079, 0.08, 0.18, 0.35, 0.6, 1.0)) == "··░▒▓██"


def test_a_map_that_can_be_checked_by_eye() -> None:
    drawn = attention_map([[0.95, 0.05, 0.0], [0.2, 0.4, 0.4]], ["我的", "x", "(end)"], ["my", "water"])
    assert drawn == [
        "      │ 我的 x  (end) │ looks most at",
        "──────┼───────────────┼──────────────",
        "my    │ ████ ·· ····· │ 我的 95%",
        "water │ ▒▒▒▒ ▓▓ ▓▓▓▓▓ │ x 40%",
    ]
    bars = [[cell_len(line[:i]) for i, c in enumerate(line) if c in "│┼"] for line in drawn]
    assert all(columns == bars[0] for columns in bars)
