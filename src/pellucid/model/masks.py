"""Section 3.2.3: which positions may attend to which.

In every mask of pellucid **True in row i, column j means that position i may attend to position j**.
(`F.scaled_dot_product_attention` reads masks so too; `nn.MultiheadAttention` reads them the other way round.)
Masks hide keys only. A query whose keys are all hidden gets zeros, never NaN.
"""

from __future__ import annotations

import torch
from torch import Tensor


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Hides the padding of `tokens` (B, S) as keys: (B, 1, 1, S), the same for every head and query."""
    return (tokens != pad_id)[:, None, None, :]


def causal_mask(size: int, device: torch.device | str | None = None) -> Tensor:
    """The lower triangle (size, size): position i sees positions 0 to i, and what is above the diagonal is hidden.

    >>> causal_mask(3).int().tolist()
    [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    """
    return torch.ones(size, size, dtype=torch.bool, device=device).tril()


def generate_mask(size: int) -> Tensor:
    """:func:`causal_mask` under the name that introductions use: the upper triangle is what the decoder must not see."""
    return causal_mask(size)


def as_attention_mask(mask: Tensor) -> Tensor:
    """`mask` as bool, with a dimension for the heads: (T, S) stays, (B, T, S) becomes (B, 1, T, S).

    Zeros and ones of any type count as False and True.

    Raises:
        ValueError: a float mask with other values (a mask to be *added*, which would be read upside down).
    """
    if mask.dtype != torch.bool:
        if mask.is_floating_point() and not bool(((mask == 0) | (mask == 1)).all()):
            raise ValueError(
                "a mask must be bool (True = may attend) or 0 and 1, but this one has other values; "
                "an additive mask of 0 and -inf becomes one by `mask == 0`"
            )
        mask = mask != 0
    return mask[:, None] if mask.dim() == 3 else mask
