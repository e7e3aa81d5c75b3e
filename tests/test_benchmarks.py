"""Each script of benchmarks/ runs to its end, in miniature. The figures are for the scripts themselves to find."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parent.parent / "benchmarks"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., str]]:
    """`run("table3", "--updates", "1")` is what the script prints. Inside this process: importing torch takes long."""
    import torch

    threads = torch.get_num_threads()

    def run_script(name: str, *arguments: str) -> str:
        load(name, monkeypatch).main(list(arguments))
        return capsys.readouterr().out

    yield run_script
    torch.set_num_threads(threads)


def test_made_up_pairs_are_the_same_each_time_and_never_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic = load("synthetic", monkeypatch)
    pairs = list(synthetic.pairs(500, seed=3, words=1000))
    assert pairs == list(synthetic.pairs(500, seed=3, words=1000))
    assert len(pairs) == 500 and all(source and target for source, target in pairs)
    assert 10 < np.mean([len(source.split()) for source, _ in pairs]) < 14
    for side in (0, 1):
        assert len(set(synthetic.vocabulary(side))) == synthetic.WORDS


def test_made_up_targets_say_their_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    synthetic = load("synthetic", monkeypatch)
    source_words, target_words = synthetic.vocabulary(0), synthetic.vocabulary(1)
    meaning = dict(zip(target_words, source_words, strict=True))
    for source, target in synthetic.pairs(200):
        said, words = {meaning[word] for word in target.split()}, set(source.split())
        assert said <= words


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_reading_a_memory(run: Callable[..., str]) -> None:
    out = run("tmx", "--megabytes", "1", "--rounds", "1")
    rows = [line.split(" | ") for line in out.splitlines() if line.startswith(("| pellucid", "| expat"))]
    assert len(rows) == 2
    assert rows[0][2] == rows[1][2]  # as many units
    assert all(float(row[3].replace(",", "")) > 1000 for row in rows)


def test_training_speed(run: Callable[..., str], tmp_path: Path) -> None:
    out = run(
        "training", "--threads", "1", "--rounds", "1", "--batches", "1", "--batch-tokens", "256", "--pairs", "200",
        "--vocab-size", "600", "--roof-size", "128", "--only", "torch", "--json", str(tmp_path / "speed.json"),
    )  # fmt: skip
    assert "| pellucid" in out and "| torch" in out
    found = json.loads((tmp_path / "speed.json").read_text(encoding="utf-8"))
    for trainer in found["trainers"].values():
        assert trainer["tokens_per_second"]["median"] > 0
        assert trainer["parameters"] == pytest.approx(found["trainers"]["pellucid"]["parameters"], rel=0.01)


def test_flop_of_the_tiny_model(monkeypatch: pytest.MonkeyPatch) -> None:
    training = load("training", monkeypatch)
    # P_enc 0.52 M, P_cross 0.13 M, P_dec 0.66 M, P_out 1.28 M multiplications
    assert training.flop_per_target_token(10_000, 1.0) == pytest.approx(15.5e6, rel=0.01)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_store_memory(run: Callable[..., str], tmp_path: Path) -> None:
    out = run(
        "store_memory", "--pairs", "400", "--updates", "1", "--batch-tokens", "256", "--vocab-size", "600",
        "--folder", str(tmp_path), "--out", str(tmp_path / "results" / "table.md"),
    )  # fmt: skip
    assert "| **whole** |" in out and "every batch of an epoch made once" in out
    assert [path.name for path in tmp_path.iterdir()] == ["results"]  # it has tidied up


def test_table3_goes_on_where_it_was(run: Callable[..., str], tmp_path: Path) -> None:
    arguments = (
        "--made-up", "100", "--updates", "1", "--batch-tokens", "128", "--vocab-size", "600", "--beam-size", "1",
        "--threads", "1", "--only", "norm", "--results", str(tmp_path / "rows.jsonl"), "--out",
        str(tmp_path / "table.md"), "--folder", str(tmp_path / "runs"),
    )  # fmt: skip
    first = run("table3", *arguments)
    assert "(G) norm" in first
    assert run("table3", *arguments) == first
    assert len((tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()) == 1


def test_kills(run: Callable[..., str]) -> None:
    out = run("kills", "--kills", "1", "--updates", "4")
    assert "kills: 1" in out and "problem" not in out


def test_decoding_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    """Every engine that is here writes the same 30 pieces a sentence; what float32 writes is the same."""
    out = run("decoding", "--shape", "smoke", "--batch", "4", "--rounds", "1", "--sentences", "8",
              "--only", "torch", "--only", "reference", "--only", "torch-int8", "--only", "no-cache",
              "--json", str(tmp_path / "found.json"), "--svg", str(tmp_path / "found.svg"))  # fmt: skip
    assert "| 4, greedy |" in out and "| 4, beam 4 |" in out
    found = json.loads((tmp_path / "found.json").read_text())["models"]["smoke"]
    assert set(found["4,1"]) == {"torch", "reference", "torch-int8", "no-cache"}
    assert set(found["4,4"]) == {"torch", "reference", "torch-int8"}
    assert all(row["tokens_per_second"] > 0 for cell in found.values() for row in cell.values())
    assert found["4,1"]["reference"]["same"] == found["4,1"]["no-cache"]["same"] == 1.0
    assert (tmp_path / "found.svg").read_text().lstrip().startswith("<?xml")


def test_gpu_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    out = run("gpu", "--tiny", "--json", str(tmp_path / "found.json"))
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["left_out"] == []
    for model in ("base", "big"):
        parts = found["models"][model]
        assert {
            "training",
            "gpu, batch 4, beam 4",
            "gpu, compiled, batch 4, beam 1",
            "reference, batch 4, beam 1",
        } < set(parts)
        for what, row in parts.items():
            assert row["target_tokens_per_second"] > 0 and row["flops"] > 0
            assert f"| {model} | {what} |" in out


def test_gpu_says_what_it_had_no_time_for_and_what_failed(monkeypatch, capsys) -> None:
    report = load("gpu", monkeypatch).Report(100.0, 1e12, 1e12)
    row = {"target_tokens_per_second": 5.0, "flops": 1e11, "bytes": 5e11, "milliseconds_per_step": 2.0}
    report.part("base", "fits", 50, lambda: row)
    report.part("base", "does not fit", 150, lambda: row)
    report.part("base", "fails", 50, lambda: 1 / 0)
    assert "| base | fits | 5 | 2.00 | 10.0% | 50.0% |" in capsys.readouterr().out
    assert report.left_out == ["base, does not fit: no time left", "base, fails: ZeroDivisionError: division by zero"]


@pytest.mark.parametrize("beam", [1, 3])
def test_gpu_counts_the_operations_that_the_model_does(monkeypatch, beam) -> None:
    """Beside PyTorch's own count of the readable model, whose attention is made of plain products for that."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode

    from pellucid.model.attention import scaled_dot_product_attention
    from pellucid.model.transformer import DecoderState, Transformer

    monkeypatch.setattr(
        "pellucid.model.attention.fused_attention", lambda *arguments: scaled_dot_product_attention(*arguments)[0]
    )
    model = Transformer(50, 60, 32, 4, 2, 3, 48).eval()
    with torch.inference_mode(), FlopCounterMode(display=False) as counter:
        state = DecoderState(model, torch.ones(2, 7, dtype=torch.long))
        state.step(torch.zeros(2, dtype=torch.long))
        state.reorder(torch.arange(2).repeat_interleave(beam))
        for _ in range(4):
            state.step(torch.zeros(2 * beam, dtype=torch.long))
    flop, read = load("gpu", monkeypatch).decoding_floor(model.config, [7, 7], 5, beam)
    assert flop == counter.get_total_flops()
    weights = sum(p.numel() for n, p in model.decoder.named_parameters() if p.dim() == 2 and ".cross_attention.w_k" not in n
                  and ".cross_attention.w_v" not in n) + model.output.weight.numel()  # fmt: skip
    assert read > 5 * 2 * weights  # two bytes each, at each of five steps; the rest is caches and the encoder


def test_bulk_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    from pellucid.training.run import train
    from training.conftest import tiny, write_reversals

    pairs = write_reversals(tmp_path / "pairs.tsv", 60)
    train([str(pairs)], out=tmp_path / "model", config=tiny(max_updates=2, validate_bleu=False))
    text = tmp_path / "text"
    text.write_text("1 2 3\n4 5\n")
    out = run("bulk", str(tmp_path / "model"), str(text), "--lines", "2001", "--json", str(tmp_path / "found.json"),
              "--out", str(tmp_path / "out"), "--threads", "1")  # fmt: skip
    assert "2,001 lines" in out and len((tmp_path / "out").read_text().splitlines()) == 2001
    found = json.loads((tmp_path / "found.json").read_text())
    assert 0 < found["share_of_engine"] < 1 and len(found["megabytes"]) == 2


def test_planted_faults_are_found(run: Callable[..., str], tmp_path: Path) -> None:
    out = run("check", "--pairs", "6000", "--each", "50", "--json", str(tmp_path / "check.json"))
    assert "| fault | planted | found |" in out
    rows = json.loads((tmp_path / "check.json").read_text())["rules"]
    assert len(rows) == 22  # all but the language
    for rule, row in rows.items():
        assert row["planted"] == 50
        assert row["recall"] >= 0.9 and row["precision"] >= 0.9, f"{rule}: {row}"


def test_near_duplicates_of_more_and_more_pairs(run: Callable[..., str]) -> None:
    assert "| 2,000 |" in run("check", "--curve", "1000,2000")


def test_serving_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    from pellucid.training.run import train
    from training.conftest import tiny, write_reversals

    pairs = write_reversals(tmp_path / "pairs.tsv", 60)
    train([str(pairs)], out=tmp_path / "model", config=tiny(max_updates=2, validate_bleu=False))
    text = tmp_path / "text"
    text.write_text("1 2 3\n4 5\n" * 8)
    common = [str(tmp_path / "model"), "--src", str(text), "--engine", "torch", "--threads", "1"]
    found = json.loads(run("serving", *common, "--rounds", "1"))
    assert all(rates[0] > 0 for rates in found["lines_a_second"].values()) and len(found["lines_a_second"]) == 6
    assert found["ratios"]["serve, 8 clients / engine, 8 at a time"] > 0 and found["health_p99_ms"]["serve"] > 0
    found = json.loads(run("serving", *common, "--bad", "26"))
    assert found["wrong"] == [] and sum(found["statuses"].values()) == 26
    assert json.loads(run("serving", *common, "--memory", "20"))["requests"] == 20


def test_inspection(run: Callable[..., str]) -> None:
    found = run("inspection", "--rounds", "1")
    assert "40 tokens: 0.31 MB" in found  # 3 x 6 x 8 maps of 40 x 40 bytes in base64, and little else
    assert "all 16 labs" in found


@pytest.fixture
def fuzz(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return load("fuzz", monkeypatch)


@pytest.mark.parametrize("suffix", [".tsv", ".csv", ".jsonl", ".tmx", ".xlf", ".po", ".mo", ".srt", ".vtt", ".html"])
def test_what_the_fuzzer_begins_with_is_treated_well(suffix: str, fuzz: ModuleType, tmp_path: Path) -> None:
    assert suffix in fuzz.SUFFIXES
    trial = fuzz.trial(suffix, tmp_path)
    for data in fuzz.seeds(suffix):
        for end in range(0, len(data) + 1, 7):
            trial(data[:end])


def test_the_fuzzer_sees_a_file_that_is_not_kept(
    fuzz: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pellucid.data.formats import document

    trial = fuzz.trial(".srt", tmp_path)
    written = document.fill
    monkeypatch.setattr(
        document, "fill", lambda pieces, translate, write: written(pieces, translate, lambda b: write(b.upper()))
    )
    with pytest.raises(AssertionError):
        trial(fuzz.seeds(".srt")[0])


def test_a_glossary_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    """A model that has learnt nothing of the language: alignment and search say what it never would."""
    from pellucid.training.run import train
    from training.conftest import tiny

    nouns = {"dog": "hund", "lamp": "lampe", "house": "haus", "boat": "kahn", "tree": "baum", "cow": "kuh"}
    pairs = [(f"a {a} sees a {b} .", f"ein {nouns[a]} sieht ein {nouns[b]} .") for a in nouns for b in nouns]
    for side, name in enumerate(("en", "de")):
        (tmp_path / f"text.{name}").write_text("".join(pair[side] + "\n" for pair in pairs), encoding="utf-8")
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in pairs * 2), encoding="utf-8")
    train([str(tmp_path / "pairs.tsv")], out=tmp_path / "model", config=tiny(max_updates=2, validate_bleu=False))
    text = {name: str(tmp_path / f"text.{name}") for name in ("en", "de")}
    out = run("glossary", str(tmp_path / "model"), "--src", text["en"], "--ref", text["de"], "--train-src", text["en"],
              "--train-ref", text["de"], "--lines", "6", "--show", "1")  # fmt: skip
    rows = [[cell.strip() for cell in line.split("|")] for line in out.splitlines() if line.startswith("| reference")]
    assert [row[3] for row in rows] == ["no glossary", "alignment", "search"]
    assert int(rows[0][1].removeprefix("reference: ")) > 0
    assert rows[0][4] == "0.0%" and all(float(row[4].rstrip("%")) > 0 for row in rows[1:])


def test_mixed_precision_in_miniature(run: Callable[..., str], tmp_path: Path) -> None:
    out = run(
        "mixed_precision", "--preset", "tiny", "--pairs", "200", "--vocab-size", "400", "--batch-tokens", "256",
        "--rounds", "2", "--batches", "1", "--threads", "1", "--json", str(tmp_path / "found.json"),
    )  # fmt: skip
    assert "| tiny |" in out
    found = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["tiny"]
    losses = {way: found[way]["losses"] for way in ("float32", "bfloat16", "autocast")}
    assert all(loss == pytest.approx(losses["float32"], rel=0.02) for loss in losses.values())
    assert losses["float32"] != losses["bfloat16"] != losses["autocast"]
    assert all(rate > 0 for way in losses for rate in found[way]["tokens_per_second"])
