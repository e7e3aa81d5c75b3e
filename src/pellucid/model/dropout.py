"""Section 5.4: dropout. The same as `F.dropout`, with masks that cost a fifth on a CPU.

PyTorch draws its CPU masks one number at a time on one core (pytorch/pytorch#138199), about an eighth of a training
step of a small model. Here each draw of 64 random bits decides four elements.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

LEVELS = 1 << 16
_of_this_thread = threading.local()


@contextmanager
def drawing_from(generator: torch.Generator) -> Iterator[None]:
    """Inside, CPU dropout in this thread draws from `generator` and not from PyTorch's only one.

    Threads that share a generator get its numbers in an order that differs from run to run.
    """
    _of_this_thread.generator = generator
    try:
        yield
    finally:
        _of_this_thread.generator = None


def dropout(x: Tensor, p: float, training: bool) -> Tensor:
    """Sets each element of `x` to zero with probability `p` and divides the others by 1 - p, while `training`.

    On a CPU `p` is rounded to a multiple of 1/65536, and the divisor with it, so that the mean is kept exactly.
    """
    if not training or p == 0.0:
        return x
    if x.device.type != "cpu":
        return F.dropout(x, p)
    dropped = min(round(p * LEVELS), LEVELS - 1)
    bits = torch.empty((x.numel() + 3) // 4, dtype=torch.int64)
    bits.random_(-(2**63), None, generator=getattr(_of_this_thread, "generator", None))
    keep = torch.empty(x.shape, dtype=x.dtype)  # 1 or 0, written as such: a bool tensor would be one more pass
    torch.ge(bits.view(torch.int16)[: x.numel()].view(x.shape), dropped - LEVELS // 2, out=keep)
    return x * keep.mul_(LEVELS / (LEVELS - dropped))
