"""CTranslate2 with our weights: the same probabilities; its own search, with what it cannot do refused."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest
import torch

from engines.conftest import WORDS, assert_same, texts
from pellucid import insisting
from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines import engine
from pellucid.errors import ConfigError
from pellucid.interop.ctranslate2 import write_ctranslate2
from pellucid.model.transformer import Transformer
from pellucid.text.options import TextOptions
from pellucid.text.terms import Terms, missing
from pellucid.translator import Translator

pytestmark = pytest.mark.skipif(importlib.util.find_spec("ctranslate2") is None, reason="needs ctranslate2")


def model_of(tokenizer: Tokenizer, **shape) -> LoadedModel:
    torch.manual_seed(5)
    size, pad = len(tokenizer), tokenizer.pad_id
    config = TransformerConfig(size, size, 32, 4, 2, 2, 64, pad_id=pad, start_id=pad, **shape)
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
        # The unknown has a share of the probability, in a trained model next to none; here too: its logit is -30.
        last = model.decoder.norm if shape.get("norm") == "pre" else model.decoder.layers[-1].add_norm_3.norm
        last.weight[0], last.bias[0] = 0.0, 3.0
        model.output.weight[config.unk_id] = 0.0
        model.output.weight[config.unk_id, 0] = -10.0
    return LoadedModel(model, tokenizer, tokenizer, SearchConfig(beam_size=1, max_length=15), None, None, None, 60)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)


@pytest.fixture(scope="module")
def loaded(tokenizer) -> LoadedModel:
    return model_of(tokenizer)


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"norm": "pre"},
        {"positions": "learned", "max_len": 70},
        {"share_embeddings": "all"},
        {"share_embeddings": "decoder"},
    ],
    ids=str,
)
def test_greedy_is_the_same_for_every_kind_of_model(tokenizer, shape):
    made = model_of(tokenizer, **shape)
    some = texts(40)
    assert_same(Translator(made, "ctranslate2").translate(some), Translator(made, "reference").translate(some))


def test_positions_far_out(tokenizer):
    """The sinusoids are written from position 0, past what the model computed in advance."""
    made = dataclasses.replace(model_of(tokenizer, max_len=10), longest_source=300)
    some = [" ".join(["red", "two."] * 60), "nine"]
    config = SearchConfig(beam_size=1, max_length=40)
    assert_same(
        Translator(made, "ctranslate2").translate(some, config), Translator(made, "reference").translate(some, config)
    )


@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.3])
def test_scores_of_a_beam_are_ours(loaded, alpha):
    """What it finds has the score that we would give it, best first; its search ends earlier, so it may find less."""
    config = SearchConfig(beam_size=4, n_best=3, length_penalty=alpha, max_length=12)
    translator = Translator(loaded, "ctranslate2")
    ours = Translator(loaded, "reference")
    same = 0
    some = [t for t in texts(40) if t]
    for found, right in zip(translator.translate(some, config), ours.translate(some, config), strict=True):
        assert 1 <= len(found.alternatives) <= 3  # of those broken off it does not always tell all
        scores = [a.score for a in found.alternatives]
        if all(a.finished for a in found.alternatives):
            assert scores == sorted(scores, reverse=True)
        known = {a.tokens: a for a in right.alternatives}
        for a in found.alternatives:
            if a.tokens in known and a.finished == known[a.tokens].finished:
                same += 1
                assert a.score == pytest.approx(known[a.tokens].score, abs=1e-4)
                assert a.log_prob == pytest.approx(known[a.tokens].log_prob, abs=1e-3)
        if right.alternatives[0].finished:
            assert found.score <= right.score + 1e-4
    assert same > 60


def test_each_sentence_has_its_own_greatest_length(loaded):
    config = SearchConfig(beam_size=1)
    some = ["red", " ".join(["blue"] * 30)]
    assert_same(
        Translator(loaded, "ctranslate2").translate(some, config),
        Translator(loaded, "reference").translate(some, config),
    )
    (only,) = Translator(loaded, "ctranslate2").translate(["red"], SearchConfig(beam_size=1, max_length=2))
    assert len(only.alternatives[0].tokens) <= 2


def test_what_it_cannot_do_is_refused_or_done_by_our_own(loaded, monkeypatch):
    translator = Translator(loaded, "ctranslate2")
    for config, what in (
        (SearchConfig(sample=True), "draw at random"),
        (SearchConfig(min_length=2), "forbid an early end"),
        (SearchConfig(no_repeat_ngram=2), "avoid repeated n-grams"),
    ):
        with pytest.raises(ConfigError, match=what):
            translator.translate(["red"], config)
    with pytest.raises(ConfigError, match="begin with a prefix"):
        translator.translate(["red"], prefixes=["blue"])
    monkeypatch.setattr(engine, "fastest", lambda candidates, model, quantized: candidates["ctranslate2"]())
    auto = Translator(loaded)
    assert auto.engine.name == "ctranslate2"
    some, prefixes = ["red one", "red", "two"], ["", "blue", ""]
    found = auto.translate(some, prefixes=prefixes)
    assert_same(found[1:2], Translator(loaded, "torch").translate(["red"], prefixes=["blue"]))
    assert_same(found[::2], translator.translate(some[::2]))


def test_terms_are_said_by_our_own_engine_or_placed(loaded, monkeypatch):
    """Under auto only the search that insists is our own; with CTranslate2 by name terms are placed by attention."""
    some = ["red one two", "four green", "blue two red", "one"]
    terms = TextOptions(terms=Terms({"red": "GELB", "green": "seven!"}))
    monkeypatch.setattr(insisting.Draft, "_stands", lambda *_: True)
    forced = Translator(loaded, "ctranslate2").translate(some, text=terms)
    assert [("placed" in t.flags) for t in forced] == [True, True, True, False]
    monkeypatch.setattr(engine, "fastest", lambda candidates, model, quantized: candidates["ctranslate2"]())
    auto = Translator(loaded)
    found = auto.translate(some, text=terms)
    assert auto.engine.name == "ctranslate2"
    assert sum("placed" in t.flags for t in found) < 3
    for t in (*forced, *found):
        assert not missing(terms.terms.find(t.source), t.text)
    assert found[3].text == forced[3].text


def test_int8_is_near(loaded):
    some = [t for t in texts(30) if t]
    config = SearchConfig(beam_size=1, max_length=5)
    found = Translator(loaded, "ctranslate2-int8").translate(some, config)
    right = Translator(loaded, "reference").translate(some, config)
    assert sum(f.text == r.text for f, r in zip(found, right, strict=True)) > len(some) / 2
    assert any(f.score != pytest.approx(r.score, abs=1e-5) for f, r in zip(found, right, strict=True))


def test_without_it_the_remedy_is_named(loaded, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ctranslate2", None)
    with pytest.raises(ConfigError, match="CTranslate2 is not installed") as raised:
        Translator(loaded, "ctranslate2").translate(["red"])
    assert raised.value.hint == "pip install 'pellucid[ct2]'"


def test_the_weights_are_not_changed(loaded, tmp_path):
    """CTranslate2 quantizes in place what it is given."""
    before = {n: p.clone() for n, p in loaded.model.named_parameters()}
    pieces = [str(i) for i in range(loaded.model.config.tgt_vocab)]
    write_ctranslate2(loaded.model, tmp_path / "out", pieces, pieces, 5, [5], quantization="int8")
    assert all(torch.equal(p, before[n]) for n, p in loaded.model.named_parameters())
    with pytest.raises(ConfigError, match="has '0' twice"):
        write_ctranslate2(loaded.model, tmp_path / "other", pieces, ["0", *pieces[:-1]], 5, [5])
