"""A model with int8 weights: as good, a quarter of the size, and never kept if it is worse."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from pellucid import quantization
from pellucid.checkpoint import average_models, load_model, load_tensors, save_model, weights_of
from pellucid.config import SearchConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.linear import int8_back_ends, quantize_rows
from pellucid.errors import ConfigError, DataError, ModelFolderError
from pellucid.quantization import quantize_model
from pellucid.training.run import train
from pellucid.translator import Translator
from training.conftest import tiny, write_reversals

pytestmark = pytest.mark.skipif(not int8_back_ends(), reason="int8 does not work on this machine")


@pytest.fixture(scope="module", autouse=True)
def even_small_maps():
    """All maps of so small a model would stay float32 otherwise, and nothing be tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pellucid.engines.linear.SMALL", 0)
        yield


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    """A model that reverses words, nearly; with its run, so with validation pairs."""
    folder = tmp_path_factory.mktemp("quantization")
    learnt = {
        "max_updates": 500,
        "cooldown_steps": 200,
    }  # so much that chance (another number of threads) changes little
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, validate_bleu=False, **learnt)
    train([str(write_reversals(folder / "pairs.tsv", 1000))], out=folder / "model", config=config)
    return folder / "model"


@pytest.fixture(scope="module")
def quantized(trained: Path) -> tuple[Path, quantization.Quantized]:
    out = trained.parent / "int8"
    return out, quantize_model(trained, out, threads=1)


def test_it_says_the_same_and_is_smaller(trained, quantized):
    out, report = quantized
    assert report.is_good and report.sentences == 20
    assert report.same >= 18
    assert report.before.bleu > 30  # there is something to lose
    weights = sum(w.numel() for w in weights_of(load_model(trained).model).values() if w.dim() == 2)
    # Three bytes of four are saved; names, factors and what stays float32 cost the same or more in so small a model.
    assert report.bytes_before - report.bytes_after > 2 * weights
    kinds = {name: tensor.dtype for name, tensor in load_tensors(out / "model.safetensors").items()}
    assert kinds["encoder.layers.0.self_attention.w_q.weight"] == torch.int8
    assert kinds["encoder.layers.0.self_attention.w_q.bias"] == torch.float32


def test_the_folder_is_a_model_like_any_other(trained, quantized):
    """Its weights are those of the first, rounded; int8 is what translates, without being asked."""
    out, _ = quantized
    before, after = load_model(trained), load_model(out)
    for name, weight in weights_of(before.model).items():
        found = weights_of(after.model)[name]
        if weight.dim() == 2:
            whole, scale = quantize_rows(weight)
            assert torch.equal(found, whole * scale[:, None])
        else:
            assert torch.equal(found, weight)
    assert Translator.load(out, threads=1).engine.name in ("torch-int8", "ctranslate2-int8")
    assert Translator.load(out, threads=1, engine="reference").engine.name == "reference"
    assert (after.source_language, after.longest_source) == (before.source_language, before.longest_source)


def test_translations_do_not_depend_on_the_batch(trained, quantized):
    translator = Translator.load(quantized[0], threads=1)
    sources, _ = quantization.validation_pairs(Translator.load(trained))
    expected = [t.text for t in translator.translate(sources)]
    for batch_tokens in (1, 60):
        config = translator.with_search(batch_tokens=batch_tokens)
        assert [t.text for t in translator.translate(sources, config)] == expected


def test_one_that_is_worse_is_not_kept(trained, tmp_path, monkeypatch):
    """With ranges that cut off nearly everything."""

    real = quantization.save_model

    def narrow(*arguments, ranges, **more):
        real(*arguments, ranges=dict.fromkeys(ranges, (-1e-3, 1e-3)), **more)

    monkeypatch.setattr(quantization, "save_model", narrow)
    report = quantize_model(trained, tmp_path / "out", threads=1)
    assert not report.is_good
    assert not (tmp_path / "out").exists()


def test_texts_of_ones_own(trained, tmp_path):
    report = quantize_model(trained, tmp_path / "out", ["a b", "c"], ["b a", "c"], threads=1)
    assert report.sentences == 2


def test_what_cannot_be_done_is_said(trained, quantized, tmp_path, monkeypatch):
    out, _ = quantized
    with pytest.raises(ModelFolderError, match="holds a model already"):
        quantize_model(trained, out)
    with pytest.raises(ModelFolderError, match="is quantized already"):
        quantize_model(out, tmp_path / "again")
    with pytest.raises(ModelFolderError, match="is quantized"):
        average_models([trained, out], tmp_path / "mean")
    with pytest.raises(DataError, match="2 sources and 1 references"):
        quantize_model(trained, tmp_path / "out", ["a", "b"], ["a"])
    alone = tmp_path / "alone"
    loaded = load_model(trained)
    save_model(alone, weights_of(loaded.model), loaded.model.config, loaded.source_tokenizer, loaded.target_tokenizer,
               search=loaded.search)  # fmt: skip
    with pytest.raises(DataError, match="no validation pairs") as raised:
        quantize_model(alone, tmp_path / "out")
    assert "--src FILE --ref FILE" in raised.value.hint
    monkeypatch.setattr("pellucid.engines.linear.int8_back_ends", tuple)
    with pytest.raises(ConfigError, match="no working int8"):
        quantize_model(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_older_pellucid_would_refuse_it_and_damage_is_named(quantized, tmp_path):
    out, _ = quantized
    described = json.loads((out / "config.json").read_text())
    assert described["format_version"] == 2
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for file in out.iterdir():
        if file.is_file():
            (damaged / file.name).write_bytes(file.read_bytes())
    described["quantization"]["ranges"] = {"output": [1]}
    (damaged / "config.json").write_text(json.dumps(described))
    with pytest.raises(ModelFolderError, match=r"config\.json"):
        load_model(damaged)


def test_two_tokenizers_and_learned_positions(tmp_path):
    """What has its own file, and what is a table and no map."""
    from pellucid.model.transformer import Transformer

    source = Tokenizer.train(["a b c d"], vocab_size=50, kind="word")
    target = Tokenizer.train(["w x y z"], vocab_size=50, kind="word")
    config = dataclasses.replace(
        Transformer(len(source), len(target), 16, 2, 1, 1, 24, max_len=30, positions="learned",
                    share_embeddings="decoder", pad_id=target.pad_id, src_pad_id=source.pad_id,
                    start_id=target.pad_id).config
    )  # fmt: skip
    torch.manual_seed(0)
    model = Transformer.from_config(config)
    save_model(tmp_path / "model", weights_of(model), config, source, target, search=SearchConfig(max_length=5))
    report = quantize_model(tmp_path / "model", tmp_path / "int8", ["a b", "d"], ["w", "x y"], threads=1)
    assert report.is_good
    kinds = {n: t.dtype for n, t in load_tensors(tmp_path / "int8" / "model.safetensors").items()}
    assert kinds["src_positions.table"] == torch.float32 and kinds["src_embedding.weight"] == torch.int8
    before, after = (Translator.load(tmp_path / name, threads=1).translate(["a b", "d"]) for name in ("model", "int8"))
    assert [t.text for t in after] == [t.text for t in before]
