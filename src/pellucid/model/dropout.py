"""Section 5.4: dropout. The same as `F.dropout`, with masks that cost a fifth on a CPU.

PyTorch draws its CPU masks one number at a time on one core (pytorch/pytorch#138199), about an eighth of a training
step of a small model. Here each draw of 64 random bits decides four elements.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Sets each element of `x` to zero with probability `p` and divides the others by 1 - p, while `training`.

    On a CPU `p` is rounded to a multiple of 1/65536, and the divisor with it, so that the mean is kept exactly.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64).random_(-(2**63), None)
    keep = bits.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - LEVELS // 2
    return x * keep.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))
