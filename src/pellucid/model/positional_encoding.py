"""Section 3.5: positional encoding. Attention alone does not know the order of its input; this tells it.

    PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))

Why these: every position has its own vector; the values stay within [-1, 1] however long the text; positions never
seen in training still have one; and PE(pos + k) is PE(pos) with each pair (2i, 2i+1) rotated by the angle
k / 10000^(2i / d_model), a linear map that depends on the distance k alone.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.errors import SearchError


def sinusoids(length: int, d_model: int) -> Tensor:
    """The table of section 3.5, (length, d_model) in float64, sines and cosines interleaved. Any d_model, odd too."""
    position = torch.arange(length, dtype=torch.float64)[:, None]
    even = torch.arange(0, d_model, 2, dtype=torch.float64)  # 2i
    angle = position / 10000.0 ** (even / d_model)  # (length, ceil(D / 2))
    table = torch.empty(length, d_model, dtype=torch.float64)
    table[:, 0::2] = angle.sin()
    table[:, 1::2] = angle[:, : d_model // 2].cos()
    return table


class PositionalEncoding(nn.Module):
    """Adds the sinusoids to (B, T, D). `max_len` positions are computed in advance; a longer text grows the table.

    The table is computed in float64 and kept in float32: in float32 the angle of a late position would be off.
    """

    table: Tensor

    def __init__(self, d_model: int, max_len: int = 5000) -> None:
        super().__init__()
        self.register_buffer("table", sinusoids(max_len, d_model).float(), persistent=False)  # (max_len, D)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """`x` (B, T, D) plus the encodings of positions `start` to `start + T - 1`."""
        end = start + x.size(1)
        if end > self.table.size(0):
            self.table = sinusoids(max(end, 2 * self.table.size(0)), x.size(-1)).float().to(self.table)
        return x + self.table[start:end].to(x.dtype)


class LearnedPositionalEncoding(nn.Module):
    """Beyond the paper's default (its Table 3, row E; BERT's way): a trained vector for each of `max_len` positions."""

    def __init__(self, d_model: int, max_len: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.empty(max_len, d_model).normal_(0.0, d_model**-0.5))

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """As :meth:`PositionalEncoding.forward`.

        Raises:
            SearchError: a position that has no vector.
        """
        end = start + x.size(1)
        if end > self.table.size(0):
            raise SearchError(
                f"this model has learned positions up to {self.table.size(0)} tokens, but the text has {end}",
                hint="shorten the text, or train with positions='sinusoidal' or a larger max_len",
            )
        return x + self.table[start:end].to(x.dtype)
