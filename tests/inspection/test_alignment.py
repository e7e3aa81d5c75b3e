"""Attention read as alignment: which row, which words, which head, and what people's links say of it."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from inspection.shared import random_translator
from pellucid.errors import DataError
from pellucid.inspection.alignment import (
    Reading,
    align,
    all_readings,
    layer_average,
    lexical_consistency,
    pharaoh,
    read_gold,
    split_at_spaces,
)
from pellucid.inspection.recorder import recorded
from pellucid.inspection.words import Token, words_of
from pellucid.translator import Translator

PAIRS = [
    ("two dogs run", "a man reads two books"),
    ("", "the bridge"),
    ("the old mill, near the river", "x"),
    ("x", " "),
]


@pytest.fixture(scope="module")
def translator() -> Translator:
    return random_translator("reference")


def pieces(text: str) -> list[Token]:
    return [Token(piece, 9, "piece") for piece in text.split()]


def test_words_that_spaces_separate():
    tokens = pieces("▁two ▁do gs ▁ '</s>' ▁.")
    assert split_at_spaces(tokens) == [(0, 1), (1, 3), (3, 5), (5, 6)]
    assert split_at_spaces([*tokens, Token("</s>", 0, "control")])[-1] == (6, 7)
    assert split_at_spaces([]) == []
    # The control: our own words cut between letters and signs too.
    assert split_at_spaces(pieces("▁mill , ▁near")) == [(0, 2), (2, 3)]
    assert words_of(pieces("▁mill , ▁near")) == [(0, 1), (1, 2), (2, 3)]


@torch.no_grad()
@pytest.mark.parametrize("norms", [False, True])
@pytest.mark.parametrize("convention", ["predicts", "input"])
@pytest.mark.parametrize("head", [0, 3, None])
def test_links_are_the_largest_of_the_map_of_words(translator, convention, norms, head):
    """Another way: one pair alone, words added up by hand, rows and columns counted by hand."""
    source, target = PAIRS[0]
    reading = Reading(1, head, convention, norms)
    found = align(translator, PAIRS, [reading], cut=split_at_spaces)
    tokenizer, start = translator.source_tokenizer, translator.vocabulary.start_id
    src, tgt = tokenizer.encode(source), tokenizer.encode(target)
    with recorded(translator.model) as record:
        translator.model(torch.tensor([[*src, tokenizer.eos_id]]), torch.tensor([[start, *tgt]]))
    layer = record.cross[1]
    per_head = layer.norms()[0] if norms else layer.weights[0]
    if head is not None:
        weights = per_head[head]
    elif norms:
        width = layer.values.size(-1)
        w_o = layer.w_o.weight.T
        each = [
            layer.weights[0, h, :, :, None] * (layer.values[0, h] @ w_o[h * width : (h + 1) * width]) for h in range(4)
        ]
        weights = torch.stack(each).sum(0).norm(dim=-1)
    else:
        weights = per_head.mean(0)
    first_row = 1 if convention == "input" else 0
    sizes = [[len(tokenizer.encode(word)) for word in text.split()] for text in (source, target)]
    bounds = [[0, *itertools.accumulate(each)] for each in sizes]
    expected = set()
    for t, (begin, end) in enumerate(itertools.pairwise(bounds[1])):
        row = weights[first_row + begin : first_row + end].mean(0)
        shares = [float(row[b:e].sum()) for b, e in itertools.pairwise(bounds[0])]
        expected.add((shares.index(max(shares)), t))
    assert found.links[reading][0] == expected
    assert found.words[0] == (source.split(), target.split())


def test_the_conventions_are_a_row_apart_and_differ(translator):
    """What predicts the second token has the first as its input."""
    readings = [Reading(0, 0, "predicts"), Reading(0, 0, "input")]
    source, target = "the old mill near the river", "a man reads two books"

    def every_piece(tokens):
        return [(i, i + 1) for i in range(len(tokens))]

    found = align(translator, [(source, target)], readings, cut=every_piece)
    predicts, inputs = ({t: s for s, t in found.links[reading][0]} for reading in readings)
    assert [predicts[t + 1] for t in range(len(predicts) - 1)] == [inputs[t] for t in range(len(inputs) - 1)]
    assert predicts != inputs


def test_pairs_with_an_empty_side_have_no_links(translator):
    reading = layer_average(translator.model)
    found = align(translator, PAIRS, [reading])
    assert [bool(links) for links in found.links[reading]] == [True, False, True, False]
    assert found.words[1] == ([], []) and found.words[2] == (["the", "old", "mill", ",", "near", "the", "river"], ["x"])


def test_all_readings_and_the_average(translator):
    readings = all_readings(translator.model)
    assert len(readings) == len(set(readings)) == 2 * (4 + 1) * 2
    assert {reading.convention for reading in all_readings(translator.model, ["input"])} == {"input"}
    assert layer_average(translator.model) == Reading(0, None, "input", False)  # of two layers, the one before the last
    assert layer_average(random_translator("reference", num_decoder_layers=1).model).layer == 0
    assert str(Reading(2, 5, "predicts", True)) == (
        "cross-attention, layer 3, head 6, norms, rows by the token that they predict"
    )


# --- choosing with no gold links --------------------------------------------------------------------------------------


def test_consistency_by_hand():
    """Three links a-x, one b-y: a-x stands for itself twice more, b-y never again."""
    words = [(["a", "b"], ["x", "y"]), (["a"], ["x"]), (["a"], ["x"])]
    links = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)}), frozenset({(0, 0)})]
    ax = math.log((3 - 1 + 3 / 4) / (3 - 1 + 1) / (3 / 4))
    by = math.log((1 - 1 + 1 / 4) / (1 - 1 + 1) / (1 / 4))
    assert by == 0.0
    assert lexical_consistency(links, words) == pytest.approx((3 * ax + by) / 4)
    assert lexical_consistency([frozenset()], [([], [])]) == 0.0


def test_right_links_are_more_consistent_than_shifted_or_constant_ones():
    """A language whose words are those of another with a 1 behind them, in the same order."""
    texts = [[f"w{(n * k * k + n + k) % 9}" for k in range(3 + n % 4)] for n in range(60)]
    words = [(text, [word + "1" for word in text]) for text in texts]
    right = [frozenset((i, i) for i in range(len(text))) for text in texts]
    shifted = [frozenset((max(0, i - 1), i) for i in range(len(text))) for text in texts]
    constant = [frozenset((len(text) - 1, i) for i in range(len(text))) for text in texts]
    scores = [lexical_consistency(links, words) for links in (right, shifted, constant)]
    assert scores[0] == max(scores) and scores[0] > 1.5
    assert max(scores[1:]) < 0.5 * scores[0]


# --- Pharaoh's format -------------------------------------------------------------------------------------------------


def test_gold_links_sure_and_possible_from_zero_or_one():
    gold = read_gold(["0-0 1p2 2-1", "", "3?4"])
    assert gold.sure == (frozenset({(0, 0), (2, 1)}), frozenset(), frozenset())
    assert gold.possible == (frozenset({(1, 2)}), frozenset(), frozenset({(3, 4)}))
    assert read_gold(["1-1 2p3"], first=1).possible == (frozenset({(1, 2)}),)
    assert pharaoh(gold.sure[0]) == "0-0 2-1" and pharaoh(frozenset()) == ""
    assert read_gold([pharaoh(gold.sure[0])]).sure == gold.sure[:1]


@pytest.mark.parametrize("line, first, message", [
    ("0-0 1:2", 0, "must be like 3-4, or 3p4 where it is only possible, but is '1:2'"),
    ("1-1 0-2", 1, "counted from 1, but there is '0-2'"),
    ("-1-2", 0, "but is '-1-2'"),
])  # fmt: skip
def test_what_is_no_link_is_named_with_its_line(line, first, message):
    with pytest.raises(DataError, match=message) as raised:
        read_gold(["0-0" if not first else "1-1", line], "links.wa", first)
    assert str(raised.value).startswith("links.wa:2: ")


def test_links_of_other_sentences_are_noticed():
    pairs = [("two dogs", "x"), ("a", "the bridge")]
    assert read_gold(["1-0", "0-1"]).strangers(pairs) == 0
    assert read_gold(["2-1", "0p2"]).strangers(pairs) == 2  # as if they were counted from 1
    with pytest.raises(DataError, match="1 for 2 pairs"):
        read_gold(["0-0"]).strangers(pairs)
