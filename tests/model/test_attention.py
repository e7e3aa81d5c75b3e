"""Section 3.2. Independent witnesses: torch.nn.MultiheadAttention, finite differences, and eyes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pellucid.model.attention import (
    MultiHeadAttention,
    SelfAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from pellucid.model.masks import causal_mask

DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


def qkv(*shape: int, dtype: torch.dtype = torch.float64, grad: bool = False) -> list[torch.Tensor]:
    torch.manual_seed(0)
    return [torch.randn(*shape, dtype=dtype, requires_grad=grad) for _ in range(3)]


def test_equation_1_by_hand():
    """One query that fits key 0 with score 2 / sqrt(4) = 1 and key 1 with 0: weights e/(e+1) and 1/(e+1)."""
    query = torch.tensor([[[2.0, 0, 0, 0]]])
    key = torch.tensor([[[1.0, 0, 0, 0], [0, 1.0, 0, 0]]])
    value = torch.tensor([[[10.0, 0, 0, 0], [0, 10.0, 0, 0]]])
    output, weights = scaled_dot_product_attention(query, key, value)
    share = math.e / (math.e + 1)
    torch.testing.assert_close(weights, torch.tensor([[[share, 1 - share]]]))
    torch.testing.assert_close(output, torch.tensor([[[10 * share, 10 * (1 - share), 0, 0]]]))


def test_scores_keep_variance_one_because_they_are_divided():
    """The reason that section 3.2.1 gives for sqrt(d_k): without it the variance of a score is d_k."""
    torch.manual_seed(0)
    query, key = torch.randn(2, 500, 64).unbind(0)
    raw = query @ key.T
    assert raw.var().item() == pytest.approx(64, rel=0.1)
    assert (raw / 8).var().item() == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("masked", [False, True])
def test_plain_equals_fused(masked):
    q, k, v = qkv(2, 3, 5, 8)
    mask = torch.rand(2, 1, 5, 5) > 0.4 if masked else None
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    torch.testing.assert_close(fused_attention(q, k, v, mask), output)
    torch.testing.assert_close(weights @ v, output)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("attend", ["plain", "fused"])
def test_a_row_that_may_attend_to_nothing_gives_zeros_and_finite_gradients(dtype, attend):
    """C1, C3, C77: other programs give NaN here, in the output and after one step in every weight."""
    q, k, v = qkv(1, 2, 4, 8, dtype=dtype, grad=True)
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[1] = False
    if attend == "plain":
        output, weights = scaled_dot_product_attention(q, k, v, mask)
        assert weights[:, :, 1].abs().max() == 0
        torch.testing.assert_close(weights[:, :, 2].sum(-1), torch.ones(1, 2, dtype=dtype))
    else:
        output = fused_attention(q, k, v, mask)
    assert output[:, :, 1].abs().max() == 0
    output.float().sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v))
    assert q.grad[:, :, 1].abs().max() == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_hidden_keys_get_exactly_no_weight_even_with_huge_scores(dtype):
    q = torch.full((1, 1, 1, 4), 100.0, dtype=dtype)
    k = torch.tensor([[[[-100.0] * 4, [100.0] * 4, [-100.0] * 4]]], dtype=dtype)
    v = torch.tensor([[[[1.0], [float(1000)], [3.0]]]], dtype=dtype).expand(1, 1, 3, 4)
    mask = torch.tensor([[True, False, True]])
    output, weights = scaled_dot_product_attention(q, k, v, mask)
    assert weights.flatten().tolist() == [0.5, 0.0, 0.5]
    torch.testing.assert_close(output, torch.full_like(output, 2.0))


def test_one_answer_however_the_mask_is_written():
    """C3: bool, additive -inf and softmax by hand agree."""
    q, k, v = qkv(1, 1, 6, 4)
    mask = torch.rand(6, 6) > 0.5
    mask[:, 0] = True
    scores = (q @ k.mT / 2).masked_fill(~mask, float("-inf"))
    by_hand = scores.softmax(-1) @ v
    torch.testing.assert_close(scaled_dot_product_attention(q, k, v, mask)[0], by_hand)
    additive = torch.zeros(6, 6, dtype=torch.float64).masked_fill(~mask, float("-inf"))
    torch.testing.assert_close(nn.functional.scaled_dot_product_attention(q, k, v, additive), by_hand)


@pytest.mark.parametrize("masked", [False, True])
def test_gradients_are_numerically_right(masked):
    q, k, v = qkv(1, 2, 3, 2, grad=True)
    mask = torch.tensor([[True, False, True], [False, False, False], [True, True, True]]) if masked else None
    assert torch.autograd.gradcheck(lambda *x: scaled_dot_product_attention(*x, mask), (q, k, v))
    assert torch.autograd.gradcheck(lambda *x: fused_attention(*x, mask), (q, k, v))


def ours_and_torchs(d_model: int, n_heads: int) -> tuple[MultiHeadAttention, nn.MultiheadAttention]:
    torch.manual_seed(0)
    ours = MultiHeadAttention(d_model, n_heads).double()
    theirs = nn.MultiheadAttention(d_model, n_heads, batch_first=True).double()
    for parameter in ours.parameters():
        nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([ours.w_q.weight, ours.w_k.weight, ours.w_v.weight]))
        theirs.in_proj_bias.copy_(torch.cat([ours.w_q.bias, ours.w_k.bias, ours.w_v.bias]))
        theirs.out_proj.weight.copy_(ours.w_o.weight)
        theirs.out_proj.bias.copy_(ours.w_o.bias)
    return ours, theirs


@pytest.mark.parametrize("n_heads", [1, 2, 8])
def test_multi_head_attention_equals_torchs_output_and_weights_of_every_head(n_heads):
    ours, theirs = ours_and_torchs(16, n_heads)
    query, memory = torch.randn(2, 4, 16).double(), torch.randn(2, 6, 16).double()
    padding = torch.tensor([[True] * 6, [True, True, True, False, False, False]])
    output, weights = ours(query, memory, memory, padding[:, None, None, :])
    # torch's key_padding_mask is the other way round: True = ignore.
    expected, expected_weights = theirs(query, memory, memory, key_padding_mask=~padding, average_attn_weights=False)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(weights, expected_weights)
    assert weights.shape == (2, n_heads, 4, 6)


def test_causal_and_padding_masks_combined_equal_torchs():
    ours, theirs = ours_and_torchs(8, 2)
    x = torch.randn(2, 5, 8).double()
    padding = torch.tensor([[True] * 5, [True, True, True, False, False]])
    output, _ = ours(x, x, x, causal_mask(5) & padding[:, None, None, :])
    expected, _ = theirs(x, x, x, attn_mask=~causal_mask(5), key_padding_mask=~padding)
    torch.testing.assert_close(output, expected)


def test_weights_wanted_or_not_the_output_is_the_same():
    ours, _ = ours_and_torchs(16, 4)
    x = torch.randn(3, 7, 16).double()
    with_weights, weights = ours(x, x, x, causal_mask(7), need_weights=True)
    without, none = ours(x, x, x, causal_mask(7), need_weights=False)
    torch.testing.assert_close(with_weights, without)
    assert none is None and weights is not None


def test_weights_are_those_before_dropout():
    """They sum to 1 while training too; after dropout they would be scaled and have holes."""
    attention = MultiHeadAttention(8, 2, dropout=0.5).train()
    x = torch.randn(2, 5, 8)
    one, weights = attention(x, x, x)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2, 5))
    two, _ = attention(x, x, x)
    assert not torch.equal(one, two)
    attention.eval()
    torch.testing.assert_close(attention(x, x, x)[0], attention(x, x, x, need_weights=False)[0])


@pytest.mark.parametrize("n_heads", [1, 4])
def test_self_attention_gives_output_and_weights_per_head(n_heads):
    attention = SelfAttention(8, n_heads)
    output, weights = attention(torch.randn(2, 3, 8))
    assert output.shape == (2, 3, 8) and weights.shape == (2, n_heads, 3, 3)


def test_a_width_that_heads_do_not_divide_is_refused_by_name():
    with pytest.raises(ValueError, match=r"`d_model`.*`n_heads`.*29.*2"):
        MultiHeadAttention(29, 2)


def test_without_positions_attention_does_not_know_the_order():
    """Order-blindness: permute the words and the outputs are permuted with them, nothing else."""
    attention = SelfAttention(8, 2).double()
    x, order = torch.randn(1, 5, 8).double(), torch.tensor([3, 0, 4, 1, 2])
    torch.testing.assert_close(attention(x[:, order])[0], attention(x)[0][:, order])


def test_autocast_to_bfloat16_keeps_masked_rows_at_zero():
    attention = MultiHeadAttention(8, 2)
    x, mask = torch.randn(1, 3, 8), torch.tensor([[True, False, False], [False] * 3, [True] * 3])
    with torch.autocast("cpu", torch.bfloat16):
        for wanted in (True, False):
            output, _ = attention(x, x, x, mask, need_weights=wanted)
            assert torch.isfinite(output).all()
            torch.testing.assert_close(output[0, 1].float(), attention.w_o.bias, atol=1e-2, rtol=1e-2)
