"""Mixed precision on a CPU: the products of training in bfloat16, all else in float32 (Micikevicius et al. 2018).

Intel's server processors since 2023 have units (AMX) that multiply matrices of bfloat16 four to five times as fast as
the vector units multiply float32, and sum up in float32. PyTorch's autocast hands more than products to bfloat16, among
it attention, whose many small products get slower with these units; so here the maps (`nn.Linear`) alone are changed.
Weights, gradients, sums and Adam stay float32. A whole update on one core: width 512 1.8 times as fast as in float32, 256
1.5 times, 128 a little slower (`benchmarks/mixed_precision.py`).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

NARROWEST = 256
"""Widths of a model from which the products are most of a step."""
ROWS = 64
"""Rows are filled up to a multiple of this (of more where there are thousands)."""


def has_matrix_units() -> bool:
    """Whether this CPU multiplies matrices of bfloat16 faster than of float32."""
    ask = getattr(torch.cpu, "get_capabilities", None)  # missing in older PyTorch
    return ask is not None and bool(ask().get("amx_bf16"))


def multiply_in_bfloat16(model: nn.Module) -> None:
    """From now on the maps of `model` round what they multiply, whenever it is training (`model.train()`)."""
    for module in model.modules():
        if type(module) is nn.Linear:
            module.__class__ = MixedPrecisionLinear


class MixedPrecisionLinear(nn.Linear):
    """x W^T + b for float32 `x` (..., in), weights and result. Products are of bfloat16 while training, else exact."""

    def forward(self, x: Tensor) -> Tensor:
        """(..., in) -> (..., out)."""
        if not self.training:
            return super().forward(x)
        y: Tensor = _Map.apply(x, self.weight, self.bias)
        return y


class _Map(torch.autograd.Function):
    """Three products: y = x W^T, dx = dy W and dW = dy^T x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        rows = x.reshape(-1, x.size(-1))
        narrow, w = _rounded(rows), weight.bfloat16()
        ctx.save_for_backward(narrow, w)
        y = F.linear(narrow, w)[: rows.size(0)].float()
        if bias is not None:
            y += bias
        return y.view(*x.shape[:-1], weight.size(0))

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        x, w = ctx.saved_tensors
        need_x, need_weight, need_bias = ctx.needs_input_grad
        rows = dy.reshape(-1, dy.size(-1))
        d = _rounded(rows)
        dx = (d @ w)[: rows.size(0)].float().view(*dy.shape[:-1], w.size(1)) if need_x else None
        dw = (d.t() @ x).float() if need_weight else None
        return dx, dw, rows.sum(0) if need_bias else None


def _rounded(rows: Tensor) -> Tensor:
    """`rows` (n, D) in bfloat16, with rows of zeros after them.

    The library compiles a program for each new shape, which takes ten times as long as the product, and keeps about a
    thousand. Batches come in any number of rows: so only some numbers are let through, 16 to 32 between n and 2 n.
    """
    n = rows.size(0)
    step = max(ROWS, 1 << max(0, n.bit_length() - 5))
    out = rows.new_zeros(-(-n // step) * step, rows.size(1), dtype=torch.bfloat16)
    out[:n] = rows
    return out
