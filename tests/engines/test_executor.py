"""The executor gives what the readable model gives: the same logits, step by step."""

from __future__ import annotations

import pytest
import torch

from engines.conftest import OPTIONS, PAD, VOCAB, model, sources, walk
from pellucid.engines.executor import Executor
from pellucid.engines.linear import Observer, int8_pack
from pellucid.errors import SearchError
from pellucid.model.transformer import DecoderState, Transformer


@pytest.mark.parametrize("name", OPTIONS)
def test_logits_after_every_step_and_reorder(name):
    made = model(**OPTIONS[name])
    src = sources(made.config.source_pad)
    walk(DecoderState(made, src), Executor(made).state(src), 40, 1e-5)


def test_sources_without_padding_and_a_model_that_knows_none():
    made = model()
    src = torch.randint(0, 38, (3, 5))
    walk(DecoderState(made, src), Executor(made).state(src), 12, 1e-5)
    unpadded = Transformer(VOCAB, VOCAB, 32, 4, 1, 1, 48, share_embeddings="all").eval()
    walk(DecoderState(unpadded, src), Executor(unpadded).state(src), 12, 1e-5)


@torch.inference_mode()
def test_a_source_of_nothing_but_padding_is_finite_and_disturbs_no_other():
    made = model()
    src = sources()
    src[2] = PAD
    walk(DecoderState(made, src), Executor(made).state(src), 10, 1e-5)


@torch.inference_mode()
def test_what_else_is_in_the_batch_changes_nothing():
    made = model()
    src = sources()
    together, alone = Executor(made).state(src), Executor(made).state(src[1:2, :4])
    for token in (PAD, 3, 5, 8):
        a, b = together.step(torch.full((3,), token)), alone.step(torch.full((1,), token))
        torch.testing.assert_close(a[1:2], b, rtol=0, atol=1e-5)


@torch.inference_mode()
def test_positions_beyond_the_table_grow_it_or_are_refused():
    src = torch.randint(0, 38, (3, 9))
    grows, fixed = model(max_len=8), model(max_len=9, positions="learned")
    walk(DecoderState(grows, src), Executor(grows).state(src), 20, 1e-5)
    state = Executor(fixed).state(src)
    for _ in range(9):
        state.step(torch.zeros(3, dtype=torch.long))
    with pytest.raises(SearchError, match="learned positions up to 9 tokens"):
        state.step(torch.zeros(3, dtype=torch.long))


@pytest.mark.parametrize("calibrated", [True, False])
@torch.inference_mode()
def test_int8_is_near_float32(calibrated, monkeypatch):
    """Ranges seen on the same walk; or none, and every row has its own."""
    monkeypatch.setattr("pellucid.engines.linear.SMALL", 0)
    made = model()
    src = sources()
    observer = Observer()
    seen = Executor(made, observer).state(src)
    steps = [torch.full((3,), token) for token in (PAD, 3, 5, 8)]
    expected = [seen.step(tokens) for tokens in steps]
    names = {"memory", "output", "encoder.1.w_2", "decoder.0.qkv", "decoder.2.cross_q", "decoder.2.cross_out"}
    assert names < observer.ranges.keys()
    pack = int8_pack(observer.ranges if calibrated else None)
    if pack is None:
        pytest.skip("int8 does not work on this machine")
    state = Executor(made, pack).state(src)
    for tokens, right in zip(steps, expected, strict=True):
        found = state.step(tokens)
        assert 0 < (found - right).abs().max() < 0.06 * right.abs().max()
