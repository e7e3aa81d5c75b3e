"""Section 5.2: a batch cut up among threads is the same batch."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.data.batching import Batch
from pellucid.model.transformer import Transformer
from pellucid.training import replicas
from pellucid.training.replicas import Replicas

PAD, START, VOCAB = 0, 1, 30


@pytest.fixture
def threads(monkeypatch):
    """Three threads and parts of any size."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    monkeypatch.setattr(replicas, "PART_TOKENS", 1)
    yield 3
    torch.set_num_threads(before)


def model(dropout: float, **options: object) -> Transformer:
    torch.manual_seed(0)
    options = {"share_embeddings": "all", **options}
    return Transformer(VOCAB, VOCAB, 16, 2, 2, 2, 24, dropout, pad_id=PAD, start_id=START, **options).train()


def batch(rows: int) -> Batch:
    random = np.random.default_rng(3)
    src, tgt_out = random.integers(2, VOCAB, (rows, 7)), random.integers(2, VOCAB, (rows, 5))
    src[::2, 4:] = PAD
    tgt_out[1::2, 3:] = PAD
    tgt_in = np.concatenate([np.full((rows, 1), START), tgt_out[:, :-1]], 1)
    return Batch(src, tgt_in, tgt_out, int((src != PAD).sum()), int((tgt_out != PAD).sum()), np.arange(rows))


def loss(model: Transformer, src: np.ndarray, tgt_in: np.ndarray, tgt_out: np.ndarray) -> tuple[Tensor, Tensor]:
    logits = model(torch.from_numpy(src), torch.from_numpy(tgt_in)).flatten(0, 1)
    summed = F.cross_entropy(logits, torch.from_numpy(tgt_out.copy()).flatten(), ignore_index=PAD, reduction="sum")
    return summed, summed.detach() * 2


def gradients(m: Transformer) -> list[Tensor]:
    return [p.grad.clone() for p in m.parameters()]


@pytest.mark.parametrize("rows", [10, 2, 1])
@pytest.mark.parametrize("share", ["all", "none"])
def test_sums_and_gradients_are_those_of_the_whole_batch(threads, rows, share):
    """Ten rows over three threads; and fewer rows than threads."""
    whole, cut = model(0.0, share_embeddings=share), model(0.0, share_embeddings=share)
    b = batch(rows)
    expected, _ = loss(whole, b.src, b.tgt_in, b.tgt_out)
    expected.backward()
    shared = Replicas(cut, 4096)
    assert shared.count == threads
    first, second = shared.gradients(loss, b)
    assert first == pytest.approx(expected.item(), rel=1e-5) and second == pytest.approx(2 * expected.item(), rel=1e-5)
    for found, right in zip(gradients(cut), gradients(whole), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-5)


def test_gradients_of_several_batches_add_up(threads):
    """As they do under accumulation: nothing of the first batch is lost, nothing counted twice."""
    once, twice = model(0.0), model(0.0)
    Replicas(once, 4096).gradients(loss, batch(9))
    shared = Replicas(twice, 4096)
    shared.gradients(loss, batch(9))
    shared.gradients(loss, batch(9))
    for found, one in zip(gradients(twice), gradients(once), strict=True):
        torch.testing.assert_close(found, 2 * one, rtol=1e-4, atol=1e-5)


def test_replicas_see_the_weights_that_the_model_has_now(threads):
    m = model(0.0)
    shared = Replicas(m, 4096)
    shared.gradients(loss, batch(9))
    with torch.no_grad():
        for p in m.parameters():
            p.mul_(0.5)
    m.zero_grad()
    found = shared.gradients(loss, batch(9))[0]
    assert found == pytest.approx(loss(m, batch(9).src, batch(9).tgt_in, batch(9).tgt_out)[0].item(), rel=1e-5)


@pytest.mark.parametrize("kind", ["dropout", "attention_dropout", "activation_dropout"])
def test_the_same_seed_gives_the_same_dropout_however_the_threads_are_scheduled(threads, kind):
    options = {"dropout": 0.4} if kind == "dropout" else {"dropout": 0.0, kind: 0.4}
    m = model(**options)
    shared = Replicas(m, 4096)
    seen = []
    for _ in range(6):
        torch.manual_seed(5)
        m.zero_grad()
        shared.gradients(loss, batch(60))
        seen.append(gradients(m))
    assert all(torch.equal(a, b) for other in seen[1:] for a, b in zip(seen[0], other, strict=True))
    torch.manual_seed(6)
    m.zero_grad()
    shared.gradients(loss, batch(60))
    assert not all(torch.equal(a, b) for a, b in zip(seen[0], gradients(m), strict=True))


def test_parts_drop_different_things(threads):
    """Three equal rows, one a thread: with one and the same mask their losses would be equal."""
    m = model(0.4)
    b = batch(1)
    three = Batch(*(np.repeat(ids, 3, 0) for ids in (b.src, b.tgt_in, b.tgt_out)), 0, 0, np.arange(3))
    seen: list[float] = []

    def watched(*arguments):
        sums = loss(*arguments)
        seen.append(sums[0].item())
        return sums

    Replicas(m, 4096).gradients(watched, three)
    assert len(set(seen)) == 3


def test_an_error_in_one_part_is_raised(threads):
    b = batch(9)
    b.src[4, 0] = VOCAB + 5
    with pytest.raises(IndexError):
        Replicas(model(0.1), 4096).gradients(loss, b)


@pytest.mark.parametrize(
    ("threads_now", "batch_tokens", "largest", "count"),
    [(2, 4096, 10**9, 2), (1, 4096, 10**9, 1), (8, 4096, 10**9, 4), (8, 500, 10**9, 1), (8, 4096, 10, 1)],
)
def test_how_many(monkeypatch, threads_now, batch_tokens, largest, count):
    """Never a part of fewer than 1,024 tokens, and none of a large model."""
    before = torch.get_num_threads()
    monkeypatch.setattr(replicas, "LARGEST", largest)
    torch.set_num_threads(threads_now)
    try:
        shared = Replicas(model(0.0), batch_tokens)
        assert shared.count == count
        shared.gradients(loss, batch(8))
        assert torch.get_num_threads() == threads_now
    finally:
        torch.set_num_threads(before)
