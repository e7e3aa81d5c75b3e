"""What is measured on validation pairs, kept in the folder, and used."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch

from pellucid.calibrating import QUANTILE, best_reading, calibrate
from pellucid.calibration import FILE, Calibration, Reading
from pellucid.checkpoint import save_model, weights_of
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import DataError, ModelFolderError
from pellucid.text.placement import Attention
from pellucid.translator import Translator
from test_translator import random_model

SENTENCES = [" ".join(words) for words in itertools.product(["red", "green", "blue", "one", "two"], repeat=3)]


@pytest.fixture
def folder(tmp_path):
    torch.set_num_threads(1)
    tokenizer = Tokenizer.train(["red green blue", "one two"], vocab_size=100, kind="word")
    loaded = random_model(tokenizer)
    save_model(tmp_path, weights_of(loaded.model), loaded.model.config, tokenizer, tokenizer, search=loaded.search,
               source_language="en")  # fmt: skip
    return tmp_path


def means(translations) -> list[float]:
    return [t.log_prob / (len(t.alternatives[0].tokens) + 1) for t in translations]


def test_one_in_twenty_is_unsure(folder):
    before = Translator.load(folder, threads=1).translate(SENTENCES)
    assert not any("low-confidence" in t.flags for t in before)
    made = calibrate(folder, SENTENCES, threads=1)
    assert (made.quantile, made.sentences, made.single_sentences) == (QUANTILE, 125, True)
    after = Translator.load(folder, threads=1)
    assert after.calibration == made
    found = after.translate(SENTENCES)
    assert [t.text for t in found] == [t.text for t in before]
    unsure = [m for t, m in zip(found, means(found), strict=True) if "low-confidence" in t.flags]
    sure = [m for t, m in zip(found, means(found), strict=True) if "low-confidence" not in t.flags]
    assert 5 <= len(unsure) <= 8  # of 125
    assert all(m < made.low_confidence for m in unsure) and all(m >= made.low_confidence - 1e-3 for m in sure)
    fast = after.translate(SENTENCES, after.with_search(beam_size=1), scores=False)  # no scores, so nothing is said
    assert not any("low-confidence" in t.flags for t in fast)


def test_by_eye():
    calibration = Calibration(low_confidence=-1.0)
    assert calibration.is_unsure(-4.1, 3) and not calibration.is_unsure(-3.9, 3)
    assert not calibration.is_unsure(math.nan, 3) and not Calibration().is_unsure(-1e9, 1)


def test_sources_of_several_sentences_are_noticed(folder):
    made = calibrate(folder, ["Red. Green. Blue"] * 3 + ["red"] * 3, threads=1)
    assert not made.single_sentences


class Aligning:
    """Attention that is right in one reading only: three words, in the other order. In the others at random."""

    def __init__(self, translator: Translator, right: Reading) -> None:
        self.model, self._right = translator.model, right

    def attentions(self, pairs, readings):
        random = np.random.default_rng(1)
        cut = [(0, 1), (2, 3), (4, 5)]
        right = np.eye(3)[::-1]
        return [
            [Attention(right if reading == self._right else random.random((3, 3)), cut, cut) for _ in pairs]
            for reading in readings
        ]


@pytest.mark.parametrize("right", [Reading(), Reading(0, "input"), Reading(1, "predicts")])
def test_the_reading_that_agrees_with_the_words_is_found(folder, right):
    translator = Translator.load(folder, threads=1)
    pairs = [(f"{a} {b} {c}", f"{c} {b} {a}".upper()) for a, b, c in itertools.permutations("abcdefg", 3)]
    assert best_reading([(Aligning(translator, right), pairs)]) == right
    assert best_reading([(Aligning(translator, right), pairs[:50])]) == Reading()  # too few to say


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        '{"pears": 3, "alignment": {}}',
        '{"low_confidence": "low", "alignment": {}}',
        '{"alignment": {"layer": "x"}}',
    ],
)
def test_a_damaged_file_is_named(folder, content):
    (folder / FILE).write_text(content)
    with pytest.raises(ModelFolderError, match=r"calibration\.json: cannot be read") as raised:
        Calibration.load(folder)
    assert raised.value.hint == f"pellucid calibrate {folder}"


def test_there_must_be_something_to_translate(folder):
    with pytest.raises(DataError, match="no validation pairs"):
        calibrate(folder)
    with pytest.raises(DataError, match="a sentence at least"):
        calibrate(folder, ["", " "])
    assert not (folder / FILE).exists()
