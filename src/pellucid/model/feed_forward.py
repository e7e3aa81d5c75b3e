"""Section 3.3: position-wise feed-forward network.

FFN(x) = max(0, x W_1 + b_1) W_2 + b_2                                                         (equation 2)
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.dropout import dropout


class FeedForward(nn.Module):
    """Equation (2), the same two linear maps at every position: d_model -> d_ff -> d_model.

    `dropout` acts between the two. The paper has none there, so 0 is the default.
    """

    def __init__(self, d_model: int, d_ff: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = dropout

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) -> (..., F) -> (..., D)."""
        return self.w_2(dropout(F.relu(self.w_1(x)), self.dropout, self.training))
