"""Section 5.4, and toolkits' faults with losses: padding, smoothing mass, accumulation."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from pellucid.training import loss as loss_module
from pellucid.training.loss import label_smoothed_cross_entropy, linear_cross_entropy, rows_at_once

PAD = 6


def case(dtype: torch.dtype = torch.float64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    hidden = torch.randn(3, 5, 4, dtype=dtype, requires_grad=True)
    weight = torch.randn(7, 4, dtype=dtype, requires_grad=True)
    targets = torch.tensor([[1, 2, 3, 4, 5], [0, 2, PAD, PAD, PAD], [5, 5, 5, 5, PAD]])
    return hidden, weight, targets


def test_no_smoothing_is_plain_cross_entropy():
    hidden, weight, targets = case()
    logits = hidden @ weight.t()
    expected = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum")
    torch.testing.assert_close(
        label_smoothed_cross_entropy(logits, targets, 0.0, PAD), expected.float(), check_dtype=False
    )


def test_smoothing_shares_epsilon_among_all_words_as_the_docstring_says():
    """Two words, logits that give p = (3/4, 1/4), target word 0, eps 0.2: q = (0.9, 0.1)."""
    logits = torch.tensor([[math.log(3.0), 0.0]])
    expected = -(0.9 * math.log(0.75) + 0.1 * math.log(0.25))
    assert label_smoothed_cross_entropy(logits, torch.tensor([0]), 0.2, None).item() == pytest.approx(
        expected, rel=1e-6
    )


def test_smoothing_equals_torchs_own():
    hidden, weight, targets = case(torch.float32)
    logits = hidden @ weight.t()
    expected = F.cross_entropy(
        logits.flatten(0, 1), targets.flatten(), ignore_index=PAD, reduction="sum", label_smoothing=0.1
    )
    torch.testing.assert_close(label_smoothed_cross_entropy(logits, targets, 0.1, PAD), expected)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("cells", [7 * 16, 10**6], ids=["chunks", "one chunk"])
def test_chunked_loss_and_both_gradients_equal_the_plain_ones(monkeypatch, smoothing, cells):
    monkeypatch.setattr(loss_module, "CHUNK_CELLS", cells)
    torch.manual_seed(0)
    hidden = torch.randn(40, 4, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(7, 4, dtype=torch.float64, requires_grad=True)
    targets = torch.randint(0, 7, (40,))
    log_p = F.log_softmax(hidden @ weight.t(), -1)
    right = log_p.gather(-1, targets[:, None]).squeeze(-1)
    keep = targets != PAD
    plain = (-(1 - smoothing) * right - smoothing * log_p.mean(-1))[keep].sum()
    expected = torch.autograd.grad(plain * 3, [hidden, weight])
    chunked, negative_log_p = linear_cross_entropy(hidden, weight, targets, smoothing, PAD)
    found = torch.autograd.grad(chunked * 3, [hidden, weight])
    torch.testing.assert_close(chunked, plain, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(negative_log_p, -right[keep].sum(), rtol=1e-10, atol=1e-10)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-8, atol=1e-10)


def test_chunked_loss_in_float32_agrees_to_1e_6_at_real_sizes():
    torch.manual_seed(0)
    hidden = torch.randn(300, 64, requires_grad=True)
    weight = (torch.randn(5000, 64) / 8).requires_grad_()
    targets = torch.randint(0, 5000, (300,))
    plain = label_smoothed_cross_entropy(hidden @ weight.t(), targets, 0.1, None)
    chunked, _ = linear_cross_entropy(hidden, weight, targets, 0.1, None)
    assert chunked.item() == pytest.approx(plain.item(), rel=1e-6)
    for a, b in zip(
        torch.autograd.grad(chunked, [hidden, weight]), torch.autograd.grad(plain, [hidden, weight]), strict=True
    ):
        assert (a - b).abs().max() <= 1e-6 * max(1.0, b.abs().max().item()) * 10


def test_gradients_are_numerically_right():
    hidden, weight, targets = case()
    assert torch.autograd.gradcheck(lambda h, w: linear_cross_entropy(h, w, targets, 0.1, PAD)[0], (hidden, weight))


def test_padding_changes_nothing_however_much_there_is():
    hidden, weight, targets = case()
    more = torch.cat([hidden, torch.full((3, 50, 4), 1e3, dtype=hidden.dtype)], 1)
    padded = torch.cat([targets, torch.full((3, 50), PAD)], 1)
    torch.testing.assert_close(
        linear_cross_entropy(more, weight, padded, 0.1, PAD)[0],
        linear_cross_entropy(hidden, weight, targets, 0.1, PAD)[0],
    )


def test_a_batch_without_padding_and_one_of_nothing_else_are_finite():
    hidden, weight, _ = case()
    for targets, empty in ((torch.zeros(3, 5, dtype=torch.long), False), (torch.full((3, 5), PAD), True)):
        loss, _ = linear_cross_entropy(hidden, weight, targets, 0.1, PAD)
        gradients = torch.autograd.grad(loss, [hidden, weight])
        assert torch.isfinite(loss) and all(torch.isfinite(g).all() for g in gradients)
        assert (loss.item() == 0.0) is empty


@pytest.mark.parametrize("offsets", [(0, 0, 0), (400, 400, 400), (-400, -400, -400), (90, 0, -110)])
def test_logits_far_from_zero_neither_overflow_nor_vanish(offsets):
    """The last feature is added to every logit of its row, which changes no probability."""
    torch.manual_seed(0)
    hidden = torch.randn(3, 4, dtype=torch.float64)
    hidden[:, -1] = torch.tensor(offsets)
    weight = torch.randn(7, 4, dtype=torch.float64)
    weight[:, -1] = 1.0
    targets = torch.tensor([2, 0, 6])
    hidden.requires_grad_(), weight.requires_grad_()
    plain = label_smoothed_cross_entropy(hidden @ weight.t(), targets, 0.1, None).double()
    expected = torch.autograd.grad(plain, [hidden, weight])
    h, w = (t.detach().float().requires_grad_() for t in (hidden, weight))
    loss, _ = linear_cross_entropy(h, w, targets, 0.1, None)
    assert loss.item() == pytest.approx(plain.item(), rel=1e-4)
    for found, right in zip(torch.autograd.grad(loss, [h, w]), expected, strict=True):
        torch.testing.assert_close(found.double(), right, rtol=1e-3, atol=1e-3)


def test_infinite_logits_give_a_loss_that_is_no_number():
    """The trainer looks for that; a finite value would hide that training has gone wrong."""
    hidden = torch.full((2, 2), float("inf"))
    assert not torch.isfinite(linear_cross_entropy(hidden, torch.ones(3, 2), torch.tensor([0, 1]), 0.1, None)[0])


def test_a_chunk_stays_in_a_processors_cache_and_fills_a_gpu():
    """25,000 tokens and 32,000 words: each chunk adds to the whole gradient of the weight, 64 MB, so twelve and not 625."""
    assert rows_at_once(torch.device("cpu"), 32_000) == 40
    assert -(-25_000 // rows_at_once(torch.device("cuda"), 32_000)) == 12
    assert rows_at_once(torch.device("cpu"), 10_000_000) == 16


def test_bfloat16_hidden_states_give_a_float32_loss_and_finite_gradients():
    torch.manual_seed(0)
    hidden = torch.randn(20, 8, dtype=torch.bfloat16, requires_grad=True)
    weight = torch.randn(11, 8, requires_grad=True)
    loss, _ = linear_cross_entropy(hidden, weight, torch.randint(0, 11, (20,)), 0.1, None)
    loss.backward()
    assert loss.dtype == torch.float32 and hidden.grad.dtype == torch.bfloat16 and weight.grad.dtype == torch.float32
