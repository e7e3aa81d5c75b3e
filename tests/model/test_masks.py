"""Section 3.2.3: masks, drawn."""

from __future__ import annotations

import pytest
import torch

from pellucid.model.masks import as_attention_mask, causal_mask, generate_mask, padding_mask


def drawn(mask: torch.Tensor) -> list[str]:
    return ["".join("1" if may else "." for may in row) for row in mask.tolist()]


def test_causal_mask_hides_the_upper_triangle():
    assert drawn(causal_mask(5)) == [
        "1....",
        "11...",
        "111..",
        "1111.",
        "11111",
    ]


def test_generate_mask_is_the_causal_mask():
    assert torch.equal(generate_mask(7), causal_mask(7))


def test_padding_mask_hides_padding_as_keys_for_every_query():
    tokens = torch.tensor([[5, 6, 7, 9], [5, 9, 9, 9], [9, 9, 9, 9]])
    mask = padding_mask(tokens, 9)
    assert mask.shape == (3, 1, 1, 4)
    assert drawn(mask[:, 0, 0]) == ["111.", "1...", "...."]


def test_causal_and_padding_together():
    both = causal_mask(4) & padding_mask(torch.tensor([[5, 6, 7, 9]]), 9)
    assert drawn(both[0, 0]) == ["1...", "11..", "111.", "111."]


def test_zeros_and_ones_mean_false_and_true():
    """C10: elsewhere a float mask of 0 and 1 is added to the scores, and nothing is masked."""
    expected = causal_mask(3)
    for dtype in (torch.float32, torch.int64, torch.uint8):
        assert torch.equal(as_attention_mask(torch.ones(3, 3, dtype=dtype).tril()), expected)


def test_an_additive_mask_is_refused_rather_than_read_upside_down():
    additive = torch.zeros(3, 3).masked_fill(~causal_mask(3), float("-inf"))
    with pytest.raises(ValueError, match="True = may attend"):
        as_attention_mask(additive)
    assert torch.equal(as_attention_mask(additive == 0), causal_mask(3))


def test_a_mask_for_each_sentence_is_the_same_for_all_heads():
    assert as_attention_mask(torch.ones(2, 3, 3, dtype=torch.bool)).shape == (2, 1, 3, 3)
