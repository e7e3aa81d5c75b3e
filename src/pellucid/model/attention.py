"""Section 3.2: attention.

    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V                                          (equation 1)

    MultiHead(Q, K, V) = Concat(head_1, ..., head_h) W^O
    head_i             = Attention(Q W_i^Q, K W_i^K, V W_i^V)                                  (section 3.2.2)

The h matrices W_i^Q stand side by side in one matrix `w_q` of D x D (likewise `w_k`, `w_v`), so that one product
serves all heads. Departure: the projections have a bias, as in nearly every program since (the paper shows none).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.cache import KeyValues
from pellucid.model.dropout import dropout as apply_dropout
from pellucid.model.masks import as_attention_mask


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Equation (1), step by step.

    Dividing by sqrt(d_k) keeps the scores' variance at 1, where softmax still has a gradient (section 3.2.1).

    Args:
        query, key, value: (..., T, K), (..., S, K), (..., S, K).
        mask: broadcasts to (..., T, S); True = may attend. None: every query sees every key.
        dropout: share of the weights to drop before they meet the values (beyond the paper).

    Returns:
        the output (..., T, K), and the weights (..., T, S) before dropout; each row sums to 1, or is all zeros where
        nothing may be attended to.
    """
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., T, K) @ (..., K, S) = (..., T, S)
    if mask is None:
        weights = scores.softmax(-1)
    else:
        # The smallest number rather than -inf: softmax of a row of nothing but -inf is NaN. The second fill makes the
        # weights of such a row zero; for every other row it changes nothing.
        hidden = ~mask
        weights = scores.masked_fill(hidden, torch.finfo(scores.dtype).min).softmax(-1).masked_fill(hidden, 0.0)
    return apply_dropout(weights, dropout, training=dropout > 0) @ value, weights


def fused_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None, dropout: float = 0.0
) -> Tensor:
    """The output of :func:`scaled_dot_product_attention` from PyTorch's fused kernel, which never builds the weights."""
    if dropout and query.device.type == "cpu":  # there PyTorch has no such kernel, and one generator for all threads
        return scaled_dot_product_attention(query, key, value, mask, dropout)[0]
    return F.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)


class MultiHeadAttention(nn.Module):
    """Section 3.2.2.

    Args:
        d_model: width of queries, keys, values and output.
        n_heads: h; each head has d_k = d_model / n_heads.
        dropout: on the attention weights. The paper has none there, so 0 is the default; later programs often do.

    Raises:
        ValueError: d_model is not a multiple of n_heads.
    """

    def __init__(self, d_model: int, n_heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"`d_model` must be a multiple of `n_heads`, but {d_model} is not a multiple of {n_heads}")
        self.n_heads = n_heads
        self.dropout = dropout
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        need_weights: bool = True,
        cache: KeyValues | None = None,
    ) -> tuple[Tensor, Tensor | None]:
        """The output (B, T, D), and the weights of every head (B, H, T, S), or None where they are not wanted.

        Which attention runs, plain or fused, depends on `need_weights` alone; both give the same output.

        Args:
            query: (B, T, D). With a cache whose keys stand once for W rows, (B x W, T, D).
            key, value: (B, S, D).
            mask: (T, S), (B, T, S) or (B, 1 or H, 1 or T, S); True = may attend.
            cache: keys and values of earlier positions (or of the memory), instead of computing them again.
        """
        q = self._heads(self.w_q(query))  # (B, H, T, K)
        if cache is None:
            k, v = self._heads(self.w_k(key)), self._heads(self.w_v(value))  # (B, H, S, K)
        else:
            k, v = cache.extend(lambda: (self._heads(self.w_k(key)), self._heads(self.w_v(value))))
        rows = q.size(0)
        if k.size(0) != rows:  # W rows share one sentence's keys: fold them into the query positions
            q = q.unflatten(0, (k.size(0), -1)).transpose(1, 2).flatten(2, 3)  # (B W, H, T, K) -> (B, H, W T, K)
        mask = None if mask is None else as_attention_mask(mask)
        dropout = self.dropout if self.training else 0.0
        if need_weights:
            heads, weights = scaled_dot_product_attention(q, k, v, mask, dropout)
        else:
            heads, weights = fused_attention(q, k, v, mask, dropout), None
        if k.size(0) != rows:
            heads, weights = self._unfold(heads, rows), None if weights is None else self._unfold(weights, rows)
        return self.w_o(heads.transpose(1, 2).flatten(2)), weights  # (B, H, T, K) -> (B, T, H, K) -> (B, T, D)

    def _heads(self, x: Tensor) -> Tensor:
        return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)  # (B, T, D) -> (B, T, H, K) -> (B, H, T, K)

    @staticmethod
    def _unfold(x: Tensor, rows: int) -> Tensor:
        return x.unflatten(2, (rows // x.size(0), -1)).transpose(1, 2).flatten(0, 1)  # (B, H, W T, .) -> (B W, H, T, .)


class SelfAttention(MultiHeadAttention):
    """Attention of a sequence to itself: queries, keys and values all come from `x`. One head unless told otherwise."""

    def __init__(self, d_model: int, n_heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__(d_model, n_heads, dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The output (B, T, D) and the weights (B, H, T, T) for `x` (B, T, D)."""
        output, weights = super().forward(x, x, x, mask)
        assert weights is not None
        return output, weights
