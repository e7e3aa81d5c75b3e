"""The numbers of the flow follow from one another as the paper says."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from inspection.shared import TEXTS, random_translator
from pellucid.config import SearchConfig
from pellucid.errors import DataError
from pellucid.inspection.flow import flow
from pellucid.inspection.recorder import Head, attentions
from pellucid.inspection.trace import trace

GREEDY = SearchConfig(beam_size=1, max_length=9)


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, atol=1e-5)


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("head", [Head("encoder", 0, 1), Head("decoder", 1, 3), Head("cross", 1, 0)], ids=str)
@torch.inference_mode()
def test_every_number_follows_from_the_ones_before_it(head, norm):
    translator = random_translator(norm=norm)
    model = translator.model
    found = trace(translator, TEXTS[0], config=GREEDY)
    position = 2
    f = flow(translator, found, head, position)
    layer = (model.encoder if head.kind == "encoder" else model.decoder).layers[head.layer]
    attention = attentions(model)[head.kind][head.layer]
    add_norm = layer.add_norm_2 if head.kind == "cross" else layer.add_norm_1
    assert f.token == found.maps(head.kind).row_inputs.tokens[position]
    assert close(f.sum, f.embedding + f.position_vector)
    entering = f.input if norm == "post" else add_norm.norm(f.input)
    if norm == "pre":
        assert close(f.normed, entering)
    else:
        assert f.normed is None
    rows = slice(head.head * 8, (head.head + 1) * 8)
    assert close(f.q, F.linear(entering, attention.w_q.weight, attention.w_q.bias)[rows])
    assert close(f.scores, torch.stack([f.q @ key for key in f.k]) / math.sqrt(8))
    left = f.scores.masked_fill(~f.may_attend, float("-inf"))
    assert close(f.weights, left.softmax(-1))
    assert f.may_attend.tolist() == [not (head.kind == "decoder" and j > position) for j in range(f.k.size(0))]
    assert close(f.weighted_sum, f.weights @ f.v)
    assert torch.equal(f.weights, found.maps(head.kind).weights[head.layer, head.head, position])
    summed = f.input + f.attention_output
    assert close(f.add_norm, summed if norm == "pre" else add_norm.norm(summed))
    assert f.hidden.min() >= 0
    assert close(f.feed_forward, layer.feed_forward.w_2(f.hidden))
    if head.kind != "decoder":  # where the feed-forward network comes next
        last = layer.add_norm_3 if head.kind == "cross" else layer.add_norm_2
        total = f.add_norm + f.feed_forward
        assert close(f.output, total if norm == "pre" else last.norm(total))


@torch.inference_mode()
def test_the_first_layer_takes_the_sum_and_the_last_gives_the_next_word():
    translator = random_translator()
    found = trace(translator, TEXTS[0], config=GREEDY)
    assert close(
        flow(translator, found, Head("encoder", 0, 0), 3).input, flow(translator, found, Head("encoder", 0, 0), 3).sum
    )
    for position, (token, log_prob) in enumerate(zip(found.target.tokens, found.log_probs, strict=True)):
        f = flow(translator, found, Head("cross", 1, 0), position)
        best, probability = f.next[0]
        assert best.id == token.id, "greedy search takes the likeliest"
        assert math.log(probability) == pytest.approx(log_prob, abs=1e-4)
        assert close(F.linear(f.output, translator.model.output.weight).argmax(), torch.tensor(token.id))
    assert flow(translator, found, Head("encoder", 1, 0), 0).next == ()


def test_heads_that_are_off_are_off_here_too():
    translator = random_translator()
    off = (Head("cross", 0, 1),)
    found = trace(translator, TEXTS[0], config=GREEDY, off=off)
    assert torch.equal(flow(translator, found, off[0], 0).weighted_sum, torch.zeros(8))


@pytest.mark.parametrize("position", [-1, 99])
def test_a_position_that_is_not_there_is_refused(position):
    translator = random_translator()
    with pytest.raises(DataError, match="`position` must be from 0 to"):
        flow(translator, trace(translator, "x", config=GREEDY), Head("encoder", 0, 0), position)
