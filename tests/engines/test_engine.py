"""All engines say the same, whatever is asked of them."""

from __future__ import annotations

import dataclasses
import random

import pytest
import torch

from pellucid.checkpoint import LoadedModel
from pellucid.cli.translate import command
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.engine import ENGINES, make_engine
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.translator import Translation, Translator

WORDS = ["red", "green", "blue", "one", "two", "three", "four", "five.", "six,", "seven!", "eight?", "nine"]


@pytest.fixture(scope="module")
def loaded() -> LoadedModel:
    """A model of random weights, drawn wide apart: so different things come of different texts, and ties are rare."""
    torch.manual_seed(3)
    tokenizer = Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=300)
    size, pad = len(tokenizer), tokenizer.pad_id
    config = TransformerConfig(size, size, 32, 4, 2, 2, 64, pad_id=pad, start_id=pad)
    model = Transformer.from_config(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5)
    return LoadedModel(model, tokenizer, tokenizer, SearchConfig(beam_size=3, max_length=15), "en", "en", None, 60)


def texts(count: int) -> list[str]:
    drawn = random.Random(1)
    return ["", "red", "é 漢 🙂", *(" ".join(drawn.choices(WORDS, k=drawn.randint(1, 14))) for _ in range(count))]


def assert_same(found: list[Translation], expected: list[Translation]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [a.tokens for a in one.alternatives] == [a.tokens for a in other.alternatives]
        assert [a.score for a in one.alternatives] == pytest.approx([a.score for a in other.alternatives], abs=1e-4)
        assert one.flags == other.flags


SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "n best": {"beam_size": 4, "n_best": 4, "length_penalty": 1.3},
    "one piece": {"max_length": 1},
    "least length": {"min_length": 12, "beam_size": 2},
    "no repeated pairs": {"no_repeat_ngram": 2, "beam_size": 2},
    "drawn": {"sample": True, "n_best": 2, "top_k": 20, "top_p": 0.9},
    "one line a batch": {"batch_tokens": 1},
    "seven or so": {"batch_tokens": 120},
}


@pytest.mark.parametrize("name", SEARCHES)
def test_the_fast_engine_is_the_model_that_is_read(loaded, name):
    config = dataclasses.replace(loaded.search, **SEARCHES[name])
    some = texts(60)
    expected = Translator(loaded, "reference").translate(some, config)
    assert_same(Translator(loaded, "torch").translate(some, config), expected)
    assert len({t.text for t in expected}) > 5 or name == "one piece"


@pytest.mark.parametrize("engine", ["reference", "torch", "torch-int8"])
def test_threads_share_a_batch_and_change_nothing(loaded, engine):
    """Each has a part of the sentences; what is drawn at random depends on their places in the whole."""
    some, before = texts(40), torch.get_num_threads()
    try:
        for search in ("beam", "drawn"):
            config = dataclasses.replace(loaded.search, **SEARCHES[search])
            torch.set_num_threads(1)
            expected = Translator(loaded, engine).translate(some, config)
            torch.set_num_threads(3)
            assert_same(Translator(loaded, engine).translate(some, config), expected)
            assert torch.get_num_threads() == 3
    except ConfigError:
        pytest.skip("int8 does not work on this machine")
    finally:
        torch.set_num_threads(before)


def test_prefixes_too(loaded):
    some = texts(30)
    prefixes = ["", "red", "blue one"] * 11
    expected = Translator(loaded, "reference").translate(some, prefixes=prefixes)
    assert_same(Translator(loaded, "torch").translate(some, prefixes=prefixes), expected)


def test_int8_does_not_depend_on_the_batch(loaded):
    some = texts(40)
    try:
        translator = Translator(loaded, "torch-int8")
        expected = translator.translate(some)
    except ConfigError:
        pytest.skip("int8 does not work on this machine")
    for batch_tokens in (1, 90):
        found = translator.translate(some, translator.with_search(batch_tokens=batch_tokens))
        assert [t.text for t in found] == [t.text for t in expected]


def test_names_are_checked_and_the_program_offers_the_same(loaded):
    with pytest.raises(
        ConfigError, match=r"`engine` must be one of auto, reference, .*ctranslate2-int8, but is 'fast'"
    ):
        Translator(loaded, "fast").translate(["red"])
    offered = next(p for p in command.params if p.name == "engine")
    assert tuple(offered.type.choices) == ENGINES


def test_auto_is_the_fast_one_on_a_cpu(loaded, monkeypatch):
    translator = Translator(loaded)
    assert translator.engine.name in ("torch", "ctranslate2")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert Translator(loaded).engine.name == "torch"
    assert Translator(dataclasses.replace(loaded, ranges={})).engine.name in ("torch-int8", "torch")
    assert make_engine("reference", loaded.model, 0, translator.vocabulary).name == "reference"
