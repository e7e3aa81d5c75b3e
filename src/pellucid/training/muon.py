"""Muon (Jordan 2024): for the matrices inside the layers, a step of the same size in every direction. Beyond the paper,
which has Adam alone.

    M <- 0.95 M + 0.05 G                                G: the gradient; M: its momentum
    N  = 0.05 G + 0.95 M                                Nesterov's look ahead
    O  = U V^T, where N = U S V^T                       all singular values made (nearly) one
    W <- W - rate * 0.2 * sqrt(max(rows, columns)) * O

A gradient of a Transformer's matrix has few large singular values and many small ones, and Adam's step inherits that.
Here rare directions are learnt as fast as frequent ones. With the factor 0.2 sqrt(max(rows, columns)) an entry of the step
is as large as it usually is with Adam (Liu et al. 2025, arXiv 2502.16982, section 2.2), so that one rate serves both.

U V^T is found without a decomposition, by five times x <- a x + b (x x^T) x + c (x x^T)^2 x, a polynomial that drives every
singular value in (0, 1] towards one (https://kellerjordan.github.io/posts/muon/).

`torch.optim.Muon` does the same matrix by matrix; here those of one shape are stacked, because small products one by one
leave most of a processor idle (64 matrices of width 256 on two cores: 55 ms instead of 157).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

_A, _B, _C = 3.4445, -4.7750, 2.0315
_ITERATIONS = 5
_MOMENTUM = 0.95
_USUAL_STEP = 0.2
"""Root mean square of the entries of Adam's step at rate 1, as Liu et al. found it."""


class Muon(torch.optim.Optimizer):
    """Muon for matrices.

    Args:
        weights: parameters (rows, columns).
        weight_decay: the share of a weight that goes at each update, in units of the rate, apart from the gradient.
        bfloat16: make the products of the iteration in bfloat16; it corrects its own rounding.
    """

    def __init__(self, weights: Iterable[nn.Parameter], weight_decay: float = 0.0, bfloat16: bool = False) -> None:
        super().__init__(weights, {"lr": 0.0, "weight_decay": weight_decay})  # the rate is set before every update
        self._dtype = torch.bfloat16 if bfloat16 else torch.float32

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weights in _by_shape(weight for weight in group["params"] if weight.grad is not None):
                steps = orthogonalized(self._stacked([self._ahead(weight) for weight in weights]))
                for weight, step in zip(weights, steps, strict=True):
                    size = group["lr"] * _USUAL_STEP * max(weight.shape) ** 0.5
                    if group["weight_decay"]:
                        weight.mul_(1 - group["lr"] * group["weight_decay"])
                    weight.add_(step if _is_wide(weight) else step.mT, alpha=-size)

    @torch.no_grad()
    def rehearse(self) -> None:
        """The products of a step, for measuring. Changes nothing."""
        for group in self.param_groups:
            for weights in _by_shape(group["params"]):
                orthogonalized(self._stacked(weights))

    def _ahead(self, weight: Tensor) -> Tensor:
        """N of the formulas above, (rows, columns)."""
        gradient, kept = weight.grad, self.state[weight]
        assert gradient is not None
        if "momentum" not in kept:
            kept["momentum"] = torch.zeros_like(weight)
        momentum = kept["momentum"].lerp_(gradient, 1 - _MOMENTUM)
        return gradient.lerp(momentum, _MOMENTUM)

    def _stacked(self, matrices: list[Tensor]) -> Tensor:
        """Matrices of one shape, those with more rows than columns turned: (N, rows, columns), rows <= columns."""
        rows, columns = sorted(matrices[0].shape)
        stack = torch.empty(len(matrices), rows, columns, dtype=self._dtype, device=matrices[0].device)
        for row, matrix in zip(stack, matrices, strict=True):
            row.copy_(matrix if _is_wide(matrix) else matrix.mT)
        return stack


def orthogonalized(matrices: Tensor) -> Tensor:
    """U V^T of each matrix, nearly: its singular values come to lie between about 0.7 and 1.2.

    Args:
        matrices: (N, rows, columns), rows <= columns.

    Returns:
        The same shape and type. A matrix of zeros stays one.
    """
    x = matrices / (matrices.norm(dim=(-2, -1), keepdim=True) + 1e-7)  # no singular value is above one
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=_B, alpha=_C), x, beta=_A)
    return x


def _is_wide(matrix: Tensor) -> bool:
    return matrix.size(0) <= matrix.size(1)


def _by_shape(weights: Iterable[nn.Parameter]) -> Iterable[list[Tensor]]:
    """Those of one shape together, whichever of the two sides is the longer."""
    groups: dict[tuple[int, ...], list[Tensor]] = {}
    for weight in weights:
        groups.setdefault(tuple(sorted(weight.shape)), []).append(weight)
    return groups.values()
