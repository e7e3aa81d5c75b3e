"""Alignment from cross-attention: the same numbers as the recorder's, and tokens where they are in the text."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.alignment import aligned, cross_attention
from pellucid.calibration import Reading
from pellucid.data.tokenizer import Tokenizer
from pellucid.inspection.recorder import recorded
from pellucid.translator import Translator
from test_translator import WORDS, random_model

TOKENIZERS = {
    "unigram": Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=320),
    "bpe": Tokenizer.train([" ".join(WORDS)] * 3, vocab_size=320, kind="bpe", normalization="nfkc"),
    "word": Tokenizer.train([" ".join(WORDS)], vocab_size=100, kind="word"),
    "char": Tokenizer.train([" ".join(WORDS)], vocab_size=300, kind="char"),
}


@pytest.mark.parametrize("norm", ["pre", "post"])
def test_it_is_what_the_recorder_records(norm):
    torch.manual_seed(1)
    model = random_model(TOKENIZERS["unigram"], norm=norm).model
    src = torch.tensor([[5, 6, 7, 0], [8, 0, model.config.pad_id, model.config.pad_id]])
    tgt = torch.tensor([[model.config.start_id, 9, 10], [model.config.start_id, 11, 12]])
    with torch.inference_mode(), recorded(model) as recording:
        model(src, tgt)
        layers = cross_attention(model, src, tgt)
    assert len(layers) == len(recording.cross) == 2
    for layer, own in zip(recording.cross, layers, strict=True):
        torch.testing.assert_close(own, layer.weights.mean(1))
        torch.testing.assert_close(own.sum(-1), torch.ones(2, 3))
    assert layers[0][1, :, 2:].abs().max() == 0  # padding
    torch.testing.assert_close(aligned(layers, Reading()), torch.stack(layers).mean(0)[:, :-1])
    torch.testing.assert_close(aligned(layers, Reading(1, "input")), layers[1][:, 1:])
    torch.testing.assert_close(aligned(layers, Reading(9)), aligned(layers, Reading()))  # of another model


def test_company_changes_nothing():
    translator = Translator(random_model(TOKENIZERS["unigram"]), "torch")
    pairs = [("one two three", "red"), ("red", "one two three four five."), ("", ""), ("  blue ", "green 好 blue")]
    together = translator.attention(pairs)
    for pair, found in zip(pairs, together, strict=True):
        alone = translator.attention([pair])[0]
        assert found.weights == pytest.approx(alone.weights, abs=1e-5)
        assert (found.source, found.target) == (alone.source, alone.target)
        assert found.weights.shape == (len(found.target), len(found.source))
    assert [pairs[3][0][a:b] for a, b in together[3].source if a < b][-1] in "  blue "


@pytest.mark.parametrize("name", TOKENIZERS)
def test_offsets_by_eye(name):
    text = "one two, 好!"
    tokenizer = TOKENIZERS[name]
    ranges = tokenizer.offsets(text)
    assert len(ranges) == len(tokenizer.encode(text))
    letters = {k for a, b in ranges for k in range(a, b)}
    wanted = {i for i, c in enumerate(text) if c != " "}
    if name == "word":
        assert letters >= wanted  # two unknown words in a row are one piece, with the space between
    else:
        assert letters == wanted
        assert sum(text[a:b] == "好" for a, b in ranges) == 3  # its three bytes


@pytest.mark.parametrize("name", TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="onetw ,.é好😀▁\ue0f0\u2585 \u3000ﬁ", max_size=15))
def test_offsets_go_through_the_text(name, text):
    tokenizer = TOKENIZERS[name]
    text = tokenizer.normalized(text)
    ranges = tokenizer.offsets(text)
    assert len(ranges) == len(tokenizer.encode(text))
    assert all(0 <= a <= b <= len(text) for a, b in ranges)
    assert all(a <= c and b <= d for (a, b), (c, d) in pairwise(ranges))
    letters = {k for a, b in ranges for k in range(a, b)}
    assert {i for i, c in enumerate(text) if c != " "} <= letters
