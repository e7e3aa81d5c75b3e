"""The executor gives what the readable model gives: the same logits, step by step."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from pellucid.engines.executor import Executor, ExecutorState
from pellucid.engines.linear import Observer, int8_pack
from pellucid.errors import SearchError
from pellucid.model.transformer import DecoderState, Transformer

VOCAB, PAD = 40, 39
OPTIONS = {
    "as in the paper": {},
    "pre-norm": {"norm": "pre"},
    "learned positions": {"positions": "learned"},
    "nothing shared": {"share_embeddings": "none"},
    "two vocabularies": {"share_embeddings": "decoder", "src_vocab": 23, "src_pad_id": 22},
}


def model(src_vocab: int = VOCAB, max_len: int = 64, **options: object) -> Transformer:
    torch.manual_seed(0)
    made = Transformer(
        src_vocab, VOCAB, 32, 4, 2, 3, 48, 0.1, max_len, pad_id=PAD, start_id=PAD,
        **{"share_embeddings": "all", **options},
    ).eval()  # fmt: skip
    for parameter in made.parameters():  # biases and norms are 0 and 1 at first, which would hide a mistake
        if parameter.dim() == 1:
            nn.init.normal_(parameter, std=0.3)
    return made


def sources(pad: int = PAD, vocab: int = 22) -> Tensor:
    """Three sentences of 7, 4 and 1 tokens."""
    src = torch.randint(0, vocab, (3, 7))
    src[1, 4:] = pad
    src[2, 1:] = pad
    return src


@torch.inference_mode()
def walk(one: DecoderState, other: ExecutorState, steps: int, tolerance: float) -> None:
    """Both along the same path: more rows a sentence, rows in another order, sentences that leave."""
    tokens = torch.full((3,), PAD)
    for step in range(steps):
        expected, found = one.step(tokens), other.step(tokens)
        assert found.shape == expected.shape
        assert (found - expected).abs().max() <= tolerance
        rows, left = torch.arange(len(expected)), None
        if step in (0, 4):
            rows = rows.repeat_interleave(2)
        elif step == 6:  # of three sentences of four rows, the first leaves; the others' rows change places
            rows, left = torch.tensor([5, 4, 4, 7, 11, 8, 9, 9]), torch.tensor([1, 2])
        if step in (0, 4, 6):
            one.reorder(rows, left)
            other.reorder(rows, left)
        tokens = expected[rows].argmax(-1)


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
