"""`pellucid export`: another program's folder, verified before it is kept."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from click.testing import CliRunner

from pellucid import exporting
from pellucid.checkpoint import load_model
from pellucid.cli.main import cli
from pellucid.errors import ConfigError, DataError, ModelFolderError
from pellucid.exporting import export_model
from pellucid.training.run import train
from training.conftest import tiny, write_reversals

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ctranslate2") is None, reason="needs ctranslate2")


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("exporting")
    config = tiny(batch_tokens=600, warmup_steps=60, peak_rate=0.005, max_updates=60, validate_bleu=False)
    train([str(write_reversals(folder / "pairs.tsv", 400))], out=folder / "model", config=config)
    return folder / "model"


@pytest.mark.parametrize("int8", [False, True])
def test_anybodys_translator_can_use_it(trained, tmp_path, int8):
    """As the README in the folder says: SentencePiece, ctranslate2.Translator, and nothing of ours."""
    import ctranslate2
    import sentencepiece

    report = export_model(trained, tmp_path / "out", int8=int8)
    assert report.sentences == 20
    assert report.same == 20 or int8
    assert 0 < report.mean_difference <= report.largest_difference
    assert report.largest_difference < 1e-3 or int8
    out = tmp_path / "out"
    assert {"model.bin", "config.json", "source.model", "target.model", "README.md"} <= {f.name for f in out.iterdir()}
    source = sentencepiece.SentencePieceProcessor(model_file=str(out / "source.model"))
    target = sentencepiece.SentencePieceProcessor(model_file=str(out / "target.model"))
    translator = ctranslate2.Translator(str(out))
    result = translator.translate_batch([source.encode("a b c", out_type=str)], beam_size=1, min_decoding_length=0)[0]
    from pellucid.translator import Translator

    ours = Translator.load(trained, engine="reference")
    (expected,) = ours.translate(["a b c"], ours.with_search(beam_size=1))
    assert target.decode(result.hypotheses[0]) == expected.text or int8


def test_what_does_not_agree_is_not_kept(trained, tmp_path, monkeypatch):
    real = exporting.write_ctranslate2

    def other(model, *arguments, **more):
        model.output.weight.data[5] += 0.5
        real(model, *arguments, **more)
        model.output.weight.data[5] -= 0.5

    monkeypatch.setattr(exporting, "write_ctranslate2", other)
    with pytest.raises(ConfigError, match="does not translate"):
        export_model(trained, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="does not translate"):
        export_model(trained, tmp_path / "empty")
    assert list((tmp_path / "empty").iterdir()) == []


def test_what_cannot_be_done_is_said(trained, tmp_path):
    with pytest.raises(ModelFolderError, match="is in use"):
        export_model(trained, trained)
    with pytest.raises(DataError, match="no text"):
        export_model(trained, tmp_path / "out", sources=["", "  "])
    with pytest.raises(ModelFolderError, match="no such folder"):
        export_model(tmp_path / "nothing", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_padding_and_tags_have_pieces_of_their_own(trained):
    class Greedy:
        pad_id, tags = 4, ("2de",)

        def __len__(self):
            return 5

        def pieces(self, ids):
            return ["</s>", "<pad>", "<2de>", "<2de>", "<pad>"]

        def tag_ids(self, tags):
            return [3]

    assert exporting._pieces(Greedy()) == ["</s>", "<pad>", "<2de>", "<2de>_", "<pad>_"]
    assert len(set(exporting._pieces(load_model(trained).source_tokenizer))) == len(
        load_model(trained).source_tokenizer
    )


def test_the_verb(trained, tmp_path):
    (tmp_path / "text").write_text("a b\nc d e\n")
    arguments = ["export", str(trained), str(tmp_path / "out"), "--to", "ctranslate2", "--src", str(tmp_path / "text")]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 0, result.output
    assert "verified    2 sentences: 2 the same" in result.output
