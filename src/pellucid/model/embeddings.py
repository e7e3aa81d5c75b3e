"""Section 3.4: embeddings and softmax.

One matrix can serve as the source's embedding, the target's embedding and (transposed) the last linear map before
softmax. As embedding it is multiplied by sqrt(d_model), so that a word weighs as much as its position.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class TokenEmbedding(nn.Module):
    """Token ids (B, S) to vectors (B, S, D), times sqrt(d_model).

    `pad_id`, if given, is a row of zeros that training leaves alone.
    """

    def __init__(self, vocab_size: int, d_model: int, pad_id: int | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(vocab_size, d_model).normal_(0.0, d_model**-0.5))
        self.pad_id = pad_id
        self.scale = math.sqrt(d_model)
        if pad_id is not None:
            nn.init.zeros_(self.weight.data[pad_id])

    def forward(self, tokens: Tensor) -> Tensor:
        return F.embedding(tokens, self.weight, self.pad_id) * self.scale
