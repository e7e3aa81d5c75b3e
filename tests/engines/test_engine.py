"""All engines say the same, whatever is asked of them."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from engines.conftest import SEARCHES, assert_same, texts
from pellucid.cli.translate import command
from pellucid.config import SearchConfig
from pellucid.engines.engine import ENGINES, make_engine
from pellucid.engines.search_engine import Request
from pellucid.errors import ConfigError
from pellucid.phrases import Phrasebook
from pellucid.text.terms import count
from pellucid.translator import Translator


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


PHRASES = [(), ("red",), ("nine", "four"), ("é",), ("seven!", "seven!")]
"""What the translations must say, and begin to say early: a model of random weights says it, and never comes to an end."""
LATEST = 12


def requested(translator: Translator, some: list[str], beam_size: int = 4, **changes: object) -> Request:
    """Every sentence with one of `PHRASES`."""
    book, source = Phrasebook(translator.target_tokenizer), translator.source_tokenizer
    made = {term: dataclasses.replace(book.phrase(term), latest=LATEST) for terms in PHRASES for term in terms}
    phrases = [[made[term] for term in PHRASES[i % len(PHRASES)]] for i in range(len(some))]
    ids = [[*source.encode(text), source.eos_id] for text in some]
    config = SearchConfig(beam_size=beam_size)
    return dataclasses.replace(Request(ids, [40] * len(some), config, phrases=phrases), **changes)


@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("name", ["torch", "torch-int8"])
def test_what_must_be_said_is_said_by_all_engines(loaded, name, beam_size):
    """In one batch with sentences that may say what they like, which are as they are without company."""
    some = [text for text in texts(40) if text]
    reference, other = Translator(loaded, "reference"), Translator(loaded, name)
    request = requested(reference, some, beam_size)
    try:
        expected, found = (translator.engine.search(request) for translator in (reference, other))
    except ConfigError:
        pytest.skip("int8 does not work on this machine")
    if name == "torch":
        assert [h[0].tokens for h in found] == [h[0].tokens for h in expected]
    for i, hypotheses in enumerate(found):
        text = loaded.target_tokenizer.decode(hypotheses[0].tokens)
        assert all(count(term, text) for term in PHRASES[i % len(PHRASES)])
    plain = other.engine.search(dataclasses.replace(request.of(range(0, len(some), 5)), phrases=()))
    assert [h[0].tokens for h in plain] == [h[0].tokens for h in found[::5]]
    control = other.engine.search(dataclasses.replace(request, phrases=()))
    assert not any(count("red", loaded.target_tokenizer.decode(h[0].tokens)) for h in control)


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
    with pytest.raises(ConfigError, match=r"`engine` must be one of auto, reference, .*gpu-float32, but is 'fast'"):
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
