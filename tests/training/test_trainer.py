"""The loop: what an update is, what a run says, what it refuses; and the whole program in miniature."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest
import torch
import torch._dynamo.testing

from pellucid.checkpoint import LoadedModel, load_model, load_tensors
from pellucid.config import RunConfig, SearchConfig
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import AlignmentError, ConfigError, DataError, TrainingError
from pellucid.model.transformer import Transformer
from pellucid.training.evaluation import corpus_scores
from pellucid.training.loss import linear_cross_entropy
from pellucid.training.records import Finished, Plan, Prepared, Progress, Validation
from pellucid.training.run import train
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer, decoder_output
from pellucid.translator import Translator
from training.conftest import tiny, write_reversals


def records_of(pairs, out, config, **more):
    records: list = []
    train([str(pairs)], out=out, config=config, on_record=records.append, **more)
    return records


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_eight_small_batches_make_the_same_update_as_one_large(tmp_path, smoothing):
    """Gradients are divided by the target tokens of the whole update, smoothing included (fault C19, C20, C22)."""
    pairs = write_reversals(tmp_path / "pairs.tsv", 64, longest=7)
    base = tiny(max_updates=1, label_smoothing=smoothing)
    norms = {}
    for name, batch_tokens, accumulate in (("one", 100_000, 1), ("eight", 64, 100)):
        config = RunConfig.from_mapping(
            tomllib.loads(base.to_toml()),
            ("model.dropout=0.0", f"training.batch_tokens={batch_tokens}", f"training.accumulate={accumulate}"),
        )
        records = records_of(pairs, tmp_path / name, config, valid=[str(pairs)])
        norms[name] = next(r for r in records if isinstance(r, Progress)).grad_norm
    assert norms["one"] == pytest.approx(norms["eight"], rel=1e-4)
    # Adam's first moment after one step is a tenth of the gradient.
    step = "training/checkpoints/step-00000001/state.safetensors"
    one, eight = (load_tensors(tmp_path / name / step) for name in ("one", "eight"))
    gradients = [name for name in one if name.startswith("adam.first.")]
    assert len(gradients) > 20
    for name in gradients:
        torch.testing.assert_close(one[name], eight[name], rtol=1e-4, atol=1e-7)


def test_learns_to_reverse(tmp_path):
    """Corpus, tokenizer, batching, masks, loss, schedule, search and checkpoint, all at once."""
    pairs = write_reversals(tmp_path / "pairs.tsv", 3000, digits="01234567", longest=5)
    config = RunConfig.from_mapping(
        {
            "preset": "tiny",
            "model": {"d_model": 48, "n_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 96, "dropout": 0.0},
            "data": {"tokenizer": "word", "valid_pairs": 100},
            "training": {"batch_tokens": 600, "warmup_steps": 100, "peak_rate": 0.004, "max_updates": 700, "threads": 1,
                         "validate_every": 100, "validate_bleu": False, "patience": 0},
        }
    )  # fmt: skip
    records = records_of(pairs, tmp_path / "model", config)
    last = [r for r in records if isinstance(r, Validation)][-1]
    assert last.perplexity < 1.2
    translator = Translator.load(tmp_path / "model", threads=1)
    unseen = ["7 6 5 4 3", "0 1 2", "4", "1 1 0 0 7"]
    assert [t.text for t in translator.translate(unseen)] == ["3 4 5 6 7", "2 1 0", "4", "7 0 0 1 1"]


def test_before_the_first_step_it_says_what_will_happen(tmp_path, reversals):
    with reversals.open("a") as file:
        file.write("\t1 2\n1 2\t\n \t \n")
    first = records_of(reversals, tmp_path / "run", tiny(max_updates=3))
    prepared = next(r for r in first if isinstance(r, Prepared))
    assert prepared.pairs_read == prepared.pairs_kept + 3
    assert prepared.dropped["empty source"] == prepared.dropped["empty target"] == prepared.dropped["empty"] == 1
    assert prepared.source_vocab == 13  # </s>, <unk>, ten digits, <pad>; the space is SentencePiece's
    assert 0.5 < prepared.useful_share <= 1
    plan = next(r for r in first if isinstance(r, Plan))
    assert plan.updates_planned == 3 and plan.seconds_per_update > 0 and plan.peak_memory_bytes > 50e6
    rows, source, target = plan.largest_batch
    assert rows * max(source, target) <= 128
    assert first.index(prepared) < first.index(plan) < min(i for i, r in enumerate(first) if isinstance(r, Progress))


def test_trying_the_largest_batch_changes_nothing(tmp_path, reversals, monkeypatch):
    """Planning draws no random numbers from the run and leaves no gradients."""

    config = tiny(max_updates=5)
    train([str(reversals)], out=tmp_path / "planned", config=config)
    monkeypatch.setattr(Trainer, "plan", lambda self: Plan(0.1, None, None, 0, (1, 1, 1)))
    train([str(reversals)], out=tmp_path / "unplanned", config=config)
    names = "model.safetensors"
    assert (tmp_path / "planned" / names).read_bytes() == (tmp_path / "unplanned" / names).read_bytes()


def test_bleu_while_training_is_what_translating_afterwards_gives(tmp_path, reversals):
    records = records_of(
        reversals, tmp_path / "run", tiny(max_updates=60, validate_every=20, patience=0), valid=[str(reversals)]
    )
    best = [r for r in records if isinstance(r, Validation) and r.is_best][-1]
    loaded = load_model(tmp_path / "run")
    together: dict[str, list[str]] = {}
    for line in reversals.read_text().splitlines():
        together.setdefault(line.split("\t")[0], []).append(line.split("\t")[1])
    texts = [t.text for t in Translator(loaded).translate(list(together), SearchConfig(beam_size=1))]
    scores = corpus_scores(texts, [[refs[0] for refs in together.values()]])
    assert scores.bleu == pytest.approx(best.bleu, abs=0.01)


def test_metrics_file_has_every_update_and_validation(tmp_path, reversals):
    records = records_of(reversals, tmp_path / "run", tiny(max_updates=12, validate_every=5))
    lines = [json.loads(line) for line in (tmp_path / "run" / "training" / "metrics.jsonl").read_text().splitlines()]
    assert [r["update"] for r in lines if r["record"] == "progress"] == list(range(1, 13))
    found = [r["loss"] for r in lines if r["record"] == "validation"]
    assert found == [r.loss for r in records if isinstance(r, Validation)]
    assert lines[-1]["record"] == "finished" and lines[-1]["reason"] == "max_updates"


def test_padding_row_of_the_shared_matrix_stays_zero(tmp_path, reversals):
    train([str(reversals)], out=tmp_path / "run", config=tiny(max_updates=10))
    loaded = load_model(tmp_path / "run")
    assert loaded.model.src_embedding.weight[loaded.source_tokenizer.pad_id].abs().max() == 0
    assert loaded.model.src_embedding.weight is loaded.model.output.weight


def test_separate_vocabularies_are_never_mixed(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{'a' * (i % 4 + 1)} b\tx {'y' * (i % 3 + 1)}\n" for i in range(80)))
    config = tiny(max_updates=4)
    config = RunConfig.from_mapping(tomllib.loads(config.to_toml()), ("data.joint=false",))
    train([str(pairs)], valid=[str(pairs)], out=tmp_path / "run", config=config)
    loaded = load_model(tmp_path / "run")
    assert len(loaded.source_tokenizer) == 8 and len(loaded.target_tokenizer) == 7
    assert loaded.model.config.share_embeddings == "decoder"
    assert loaded.model.config.source_pad == 7 and loaded.model.config.pad_id == 6
    text = Translator(loaded).translate(["aa b"])[0].text
    assert set(text) <= set("xy ")


def test_two_vocabularies_of_one_size_share_nothing(tmp_path):
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{'ab'[i % 2]}\t{'xy'[i % 2]}\n" for i in range(40)))
    config = RunConfig.from_mapping(tomllib.loads(tiny(max_updates=2).to_toml()), ("data.joint=false",))
    train([str(pairs)], valid=[str(pairs)], out=tmp_path / "run", config=config)
    loaded = load_model(tmp_path / "run")
    assert len(loaded.source_tokenizer) == len(loaded.target_tokenizer)
    assert loaded.model.src_embedding.weight is not loaded.model.tgt_embedding.weight


def test_a_short_run_gets_no_absurd_learning_rate(tmp_path, reversals):
    """Equation (3) with a warm-up of two updates would peak at (16 * 2)^-0.5 = 0.18."""
    config = tiny(max_updates=8, peak_rate=0.0, warmup_steps=0)
    rates = [r.rate for r in records_of(reversals, tmp_path / "run", config) if isinstance(r, Progress)]
    assert max(rates) == pytest.approx((16 * 1000) ** -0.5)
    saved = RunConfig.from_toml(tmp_path / "run" / "training" / "config.toml")
    assert saved.training.peak_rate == max(rates)


def test_a_loss_that_is_no_number_ends_the_run_with_advice(tmp_path, reversals):
    with pytest.raises(TrainingError, match="loss is nan") as raised:
        train(
            [str(reversals)],
            out=tmp_path / "run",
            config=tiny(peak_rate=1e30, warmup_steps=1, max_updates=50, validate_bleu=False),
        )
    assert "peak_rate" in raised.value.hint


def test_a_precision_that_would_not_be_used_is_refused(tmp_path, reversals, monkeypatch):
    monkeypatch.setattr("pellucid.training.run.has_matrix_units", lambda: False)
    with pytest.raises(ConfigError, match=r"matrix units \(AMX\), but this CPU has none"):
        train([str(reversals)], out=tmp_path / "run", config=tiny(precision="bfloat16", device="cpu"))
    assert not (tmp_path / "run").exists()


def test_a_plan_that_cannot_work_is_refused_before_the_first_step(tmp_path, reversals):
    with pytest.raises(TrainingError, match="updates fit") as raised:
        train([str(reversals)], out=tmp_path / "run", config=tiny(max_minutes=1e-5))
    assert "--preset" in raised.value.hint


def test_sides_of_different_length_stop_before_training(tmp_path):
    (tmp_path / "a").write_text("1\n2\n3\n")
    (tmp_path / "b").write_text("1\n2\n3\n4\n")
    with pytest.raises(AlignmentError, match=r"3.*4"):
        train(src=[str(tmp_path / "a")], tgt=[str(tmp_path / "b")], out=tmp_path / "run", config=tiny(max_updates=2))


def test_a_run_that_never_began_leaves_no_folder(tmp_path):
    with pytest.raises(DataError, match="cannot be opened"):
        train([str(tmp_path / "missing.tsv")], out=tmp_path / "run", config=tiny(max_updates=2))
    assert not (tmp_path / "run").exists()


def test_the_same_seed_gives_the_same_model_and_another_seed_another(tmp_path, reversals):
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        train([str(reversals)], out=tmp_path / name, config=tiny(max_updates=6, seed=seed))
    a, b, c = ((tmp_path / n / "model.safetensors").read_bytes() for n in "abc")
    assert a == b != c


def test_windows_line_ends_and_a_byte_order_mark_make_the_same_model(tmp_path, reversals):
    windows = tmp_path / "windows.tsv"
    windows.write_bytes(b"\xef\xbb\xbf" + reversals.read_bytes().replace(b"\n", b"\r\n"))
    for name, pairs in (("unix", reversals), ("dos", windows)):
        train([str(pairs)], out=tmp_path / name, config=tiny(max_updates=6))
    assert (tmp_path / "unix" / "model.safetensors").read_bytes() == (
        tmp_path / "dos" / "model.safetensors"
    ).read_bytes()


def test_average_of_the_newest_checkpoints_becomes_the_model(tmp_path, reversals):
    config = tiny(max_updates=20, validate_every=5, average_checkpoints=3, patience=0)
    train([str(reversals)], out=tmp_path / "run", config=config)
    steps = [tmp_path / "run" / "training" / "checkpoints" / f"step-000000{n}" for n in (10, 15, 20)]
    mean = [load_tensors(s / "model.safetensors") for s in steps]
    final = load_tensors(tmp_path / "run" / "model.safetensors")
    for name in final:
        torch.testing.assert_close(final[name], sum(m[name] for m in mean) / 3)
    assert "the mean of updates 10, 15, 20" in (tmp_path / "run" / "README.md").read_text()


def test_the_run_can_be_repeated_from_its_own_settings(tmp_path, reversals):
    train([str(reversals)], out=tmp_path / "first", config=tiny(max_updates=6))
    config = RunConfig.from_toml(tmp_path / "first" / "training" / "config.toml")
    train([str(reversals)], out=tmp_path / "again", config=config)
    assert (tmp_path / "first" / "model.safetensors").read_bytes() == (
        tmp_path / "again" / "model.safetensors"
    ).read_bytes()


def test_limits(tmp_path, reversals):
    last = records_of(reversals, tmp_path / "epochs", tiny(max_epochs=2, validate_bleu=False))[-1]
    assert isinstance(last, Finished) and last.reason == "max_epochs"
    last = records_of(reversals, tmp_path / "time", tiny(max_minutes=0.03, validate_bleu=False))[-1]
    assert last.reason == "max_time" and last.seconds >= 1.8


def test_a_compiled_model_serves_all_shapes_and_gives_the_same_gradients():
    """What a GPU compiles, here with the back end that only traces: nothing in the passes may break the graph."""
    torch.manual_seed(0)
    model = Transformer(30, 30, 16, 2, 2, 2, 24, 0.0, pad_id=0, start_id=1, share_embeddings="all").train()
    graphs = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(decoder_output, dynamic=True, backend=graphs, fullgraph=True)
    weights = list(model.encoder.parameters())
    for rows, source, target in [(3, 7, 5), (5, 9, 6), (2, 12, 11), (7, 3, 8)]:
        src, tgt = torch.randint(2, 30, (rows, source)), torch.randint(2, 30, (rows, target))
        src[0, -2:] = 0
        found, expected = compiled(model, src, tgt), decoder_output(model, src, tgt)
        torch.testing.assert_close(found, expected)
        for a, b in zip(
            torch.autograd.grad(found.sin().sum(), weights),
            torch.autograd.grad(expected.sin().sum(), weights),
            strict=True,
        ):
            torch.testing.assert_close(a, b)
    assert graphs.frame_count <= 2  # one for the first shape at most, and one for all others


@contextmanager
def trainer_of(pairs, folder, **training) -> Iterator[Trainer]:
    config = tiny(**training)
    corpus = Corpus.from_files([str(pairs)], [], [], config.data)
    tokenizer = Tokenizer.train(
        (text for pair in corpus for text in (pair.source, pair.target)), vocab_size=60, kind="word"
    )
    store, _ = PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config.data)
    torch.manual_seed(0)
    size, pad = len(tokenizer), tokenizer.pad_id
    model = Transformer(size, size, 32, 2, 2, 2, 64, 0.0, pad_id=pad, start_id=pad, share_embeddings="all").train()
    loaded = LoadedModel(model, tokenizer, tokenizer, SearchConfig(), None, None)
    with closing(RunFolder(folder / "run")) as run:
        yield Trainer(loaded, store, None, config.training, run, torch.device("cpu"))


def test_bfloat16_is_for_products_the_last_of_all_included(tmp_path, reversals, monkeypatch):
    """The loss has the largest product, and LayerNorm, in front of it, gives float32 whatever autocast says."""
    kinds, gradients = {}, {}

    def noted(hidden, weight, *rest):
        kinds[precision] = (hidden.dtype, weight.dtype)
        return linear_cross_entropy(hidden, weight, *rest)

    monkeypatch.setattr("pellucid.training.trainer.linear_cross_entropy", noted)
    for precision in ("float32", "bfloat16", "auto"):
        with trainer_of(reversals, tmp_path / precision, precision=precision) as trainer:
            trainer._autocasts = trainer.bfloat16  # as on a GPU
            pairs, epoch = trainer._epoch(0)
            trainer._gradients(trainer._batch(pairs, epoch[0]))
            gradients[precision] = torch.cat([p.grad.flatten() for p in trainer.model.parameters()])
    assert kinds["float32"] == kinds["auto"] == (torch.float32, torch.float32)
    assert kinds["bfloat16"] == (torch.bfloat16, torch.float32)
    assert gradients["bfloat16"].dtype == torch.float32
    assert torch.equal(gradients["auto"], gradients["float32"])
    assert not torch.equal(gradients["bfloat16"], gradients["float32"])
    assert torch.cosine_similarity(gradients["bfloat16"], gradients["float32"], 0) > 0.999


def test_a_model_that_cannot_be_compiled_says_what_to_do(tmp_path, reversals):
    def no_compiler(graph, inputs):
        raise RuntimeError("no working C compiler")

    said = r"cannot be compiled on this machine: .*no working C compiler$"
    with trainer_of(reversals, tmp_path) as trainer:
        trainer._hidden = torch.compile(decoder_output, dynamic=True, backend=no_compiler)
        with pytest.raises(TrainingError, match=said) as raised:
            trainer.plan()
    assert "--set training.compile=false" in raised.value.hint
