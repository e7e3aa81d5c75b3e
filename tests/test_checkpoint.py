"""A model folder: whole or not there, refused when it is something else, averaged exactly."""

from __future__ import annotations

import json
import os

import pytest
import torch

from pellucid import checkpoint
from pellucid.checkpoint import (
    average_models,
    average_weights,
    load_model,
    load_tensors,
    save_model,
    save_tensors,
    weights_of,
    write_atomically,
)
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import ModelFolderError
from pellucid.model.transformer import Transformer


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train(["one two three", "three two one"], vocab_size=100, kind="word")


def make(folder, tokenizer, seed=0, **shape):
    torch.manual_seed(seed)
    size = len(tokenizer)
    shape = {"d_model": 8, "n_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 16, **shape}
    config = TransformerConfig(size, size, pad_id=size - 1, start_id=size - 1, **shape)
    model = Transformer.from_config(config)
    save_model(
        folder, weights_of(model), config, tokenizer, tokenizer, search=SearchConfig(beam_size=3), source_language="en",
        target_language="no", card="# Card\n",
    )  # fmt: skip
    return model.eval()


@pytest.mark.parametrize("share", ["none", "decoder", "all"])
def test_saved_and_loaded_is_the_same_model(tmp_path, tokenizer, share):
    model = make(tmp_path / "m", tokenizer, share_embeddings=share)
    loaded = load_model(tmp_path / "m")
    src = torch.tensor([[2, 3, 0], [4, 0, len(tokenizer) - 1]])
    torch.testing.assert_close(loaded.model(src, src), model(src, src), rtol=0, atol=0)
    assert loaded.search == SearchConfig(beam_size=3)
    assert (loaded.source_language, loaded.target_language) == ("en", "no")  # "no" is a language, not False
    assert sorted(p.name for p in (tmp_path / "m").iterdir()) == [
        "README.md", "config.json", "model.safetensors", "tokenizer.model",
    ]  # fmt: skip


def test_a_shared_matrix_stands_in_the_file_once(tmp_path, tokenizer):
    make(tmp_path / "m", tokenizer, share_embeddings="all")
    names = [n for n in load_tensors(tmp_path / "m" / "model.safetensors") if "embedding" in n or "output" in n]
    assert names == ["src_embedding.weight"]


def test_errors_say_what_is_wrong(tmp_path, tokenizer):
    with pytest.raises(ModelFolderError, match="no such folder"):
        load_model(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ModelFolderError, match=r"no config\.json"):
        load_model(tmp_path / "empty")
    make(tmp_path / "m", tokenizer)
    described = json.loads((tmp_path / "m" / "config.json").read_text())
    for change, message in (
        ({"format_version": 99}, "format_version"),
        ({"format": "other"}, "not a pellucid model"),
        ({"model": {**described["model"], "d_ff": 17}}, "must be"),
        ({"model": {**described["model"], "dmodel": 17}}, "unknown setting"),
        ({"model": {**described["model"], "src_vocab": 4}}, "tokenizer must have 4 pieces"),
    ):
        (tmp_path / "m" / "config.json").write_text(json.dumps({**described, **change}))
        with pytest.raises(ModelFolderError, match=message):
            load_model(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text("{")
    with pytest.raises(ModelFolderError, match="JSON"):
        load_model(tmp_path / "m")


def test_damaged_weights_are_refused(tmp_path, tokenizer):
    make(tmp_path / "m", tokenizer)
    path = tmp_path / "m" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ModelFolderError, match="safetensors"):
        load_model(tmp_path / "m")


def test_no_pickle_is_written_or_read(tmp_path, tokenizer):
    make(tmp_path / "m", tokenizer)
    assert not [p for p in (tmp_path / "m").iterdir() if p.read_bytes()[:2] in (b"PK", b"\x80\x02", b"\x80\x04")]


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_atomically(path, "old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelFolderError, match=r"No space left.*intact"):
        write_atomically(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_device_or_a_link_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(tmp_path / "pipe", "text")
    assert os.read(reader, 10) == b"text" and not (tmp_path / "pipe").is_file()
    os.close(reader)
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_atomically(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_text() == "new"


@pytest.mark.parametrize("share", ["none", "all"])
def test_average_of_copies_is_the_model_itself(tmp_path, tokenizer, share):
    make(tmp_path / "a", tokenizer, share_embeddings=share)
    average_models([tmp_path / "a"] * 3, tmp_path / "mean")
    a, mean = load_tensors(tmp_path / "a" / "model.safetensors"), load_tensors(tmp_path / "mean" / "model.safetensors")
    assert all(torch.equal(a[n], mean[n]) for n in a)


def test_average_of_two_is_their_mean(tmp_path, tokenizer):
    models = [make(tmp_path / name, tokenizer, seed) for seed, name in enumerate("ab")]
    average_models([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    mean = load_model(tmp_path / "mean").model
    for name, weight in mean.named_parameters():
        one, two = (dict(m.named_parameters())[name] for m in models)
        torch.testing.assert_close(weight, (one + two) / 2)


def test_average_of_half_precision_is_summed_in_float64(tmp_path):
    for i, value in enumerate((1.0, 1.0009765625)):
        save_tensors(tmp_path / f"{i}.safetensors", {"w": torch.tensor([value], dtype=torch.float16)})
    mean = average_weights([tmp_path / "0.safetensors"] * 1000 + [tmp_path / "1.safetensors"] * 1000)
    assert mean["w"].dtype == torch.float16 and mean["w"].item() in (1.0, 1.0009765625)


def test_models_that_do_not_fit_are_not_averaged(tmp_path, tokenizer):
    make(tmp_path / "a", tokenizer)
    make(tmp_path / "b", tokenizer, d_ff=32)
    with pytest.raises(ModelFolderError, match="other names or shapes"):
        average_models([tmp_path / "a", tmp_path / "b"], tmp_path / "mean")
    assert not (tmp_path / "mean").exists()


def test_config_is_written_last(tmp_path, tokenizer, monkeypatch):
    """A kill while saving leaves no folder that looks like a model and is none."""
    order: list[str] = []
    real = checkpoint.write_atomically
    monkeypatch.setattr(checkpoint, "write_atomically", lambda p, c: (order.append(p.name), real(p, c)))
    make(tmp_path / "m", tokenizer)
    assert order[-1] == "config.json" and "model.safetensors" in order
