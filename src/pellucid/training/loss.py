"""Section 5.4: label smoothing.

    loss = -sum_v q(v) log p(v),    q(v) = (1 - eps) [v = y] + eps / V                (Szegedy et al. 2015, section 7)

eps is shared by all V words of the vocabulary, the right one included (PyTorch's convention; fairseq shares it among
the V - 1 others). Positions whose target is padding count nothing. The loss is a **sum** over target tokens: whoever
makes an update divides by the number of tokens of the whole update, so that one batch of eight and eight of one give
the same step.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

CHUNK_CELLS = 1_300_000
"""Logits held at once by the chunked loss: 128 rows of 10,000 words, about 5 MB, which stay in the processor's cache."""
CHUNK_CELLS_ELSEWHERE = 1 << 26
"""On a GPU there is no such cache, but so small a chunk does not fill it, and each one adds to the whole gradient of the
weight: 2,097 rows of 32,000 words, half a gigabyte with their exponentials."""


def label_smoothed_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float, pad_id: int | None) -> Tensor:
    """The formula above, summed. `logits` (..., V), `targets` (...). The plain version, to be read and to test against."""
    log_p = F.log_softmax(logits.float(), -1)  # (..., V)
    right = log_p.gather(-1, targets[..., None]).squeeze(-1)
    loss = -(1 - smoothing) * right - smoothing * log_p.mean(-1)
    return loss.sum() if pad_id is None else loss[targets != pad_id].sum()


def linear_cross_entropy(
    hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float, pad_id: int | None
) -> tuple[Tensor, Tensor]:
    """The same loss from the decoder's output, without ever holding all the logits.

    Its products are of the precision of `hidden`; what is summed up is float32. Training on a CPU is bound by memory here: at 4,096 tokens and 10,000 words the logits are 164 MB, and the plain
    way streams them six to eight times. This one makes a chunk of logits, takes the loss and both gradients from it
    while it is in the cache, and forgets it; the backward pass only scales.

    Args:
        hidden: (..., D).
        weight: (V, D), the output layer (it has no bias).
        targets: (...), on the same device or, better, on the CPU: to count the real ones on a GPU is to wait for it.

    Returns:
        the smoothed loss, summed, to be differentiated; and the sum of -log p(target) without smoothing, detached,
        from which perplexity is computed.
    """
    rows, targets = hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1)
    if pad_id is not None:
        real = (targets != pad_id).nonzero().squeeze(1)
        if real.numel() < targets.numel():
            targets = targets.index_select(0, real)
            rows = rows.index_select(0, real.to(rows.device, non_blocking=True))
    targets = targets.to(rows.device, non_blocking=True)
    loss, plain = _LinearCrossEntropy.apply(rows, weight, targets, smoothing)
    return loss, plain


def rows_at_once(device: torch.device, vocab: int) -> int:
    """Rows of logits in a chunk."""
    return max(16, (CHUNK_CELLS if device.type == "cpu" else CHUNK_CELLS_ELSEWHERE) // vocab)


class _LinearCrossEntropy(torch.autograd.Function):
    """`hidden` (N, D), `weight` (V, D), `targets` (N): see :func:`linear_cross_entropy`.

    With z = W h, the gradient by z is p - q. Three things keep the passes over a chunk few: the constant part -eps/V of
    q is added once at the end (to the gradient of h as -eps/V times the sum of W's rows, to that of W as -eps/V times
    the sum of all h); p = e^z / sum e^z is never divided out (both gradients are products with p: their small factor is
    divided instead); and the rows' largest z is subtracted only where e^z leaves float32's range.
    """

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, Tensor]:
        vocab, wide = weight.size(0), torch.promote_types(hidden.dtype, torch.float32)
        share = smoothing / vocab
        need_hidden, need_weight = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        d_hidden = torch.empty_like(hidden) if need_hidden else None
        d_weight = torch.zeros_like(weight, dtype=wide) if need_weight else None
        weight_sum = weight.sum(0, dtype=wide)  # (D)
        w = weight.to(hidden.dtype)
        w_t = w.t().contiguous()  # a copy, which makes the products of all chunks a tenth faster
        loss = torch.zeros((), dtype=wide, device=hidden.device)
        plain = torch.zeros((), dtype=wide, device=hidden.device)
        chunk = min(rows_at_once(hidden.device, vocab), max(1, hidden.size(0)))
        logits = hidden.new_empty(chunk, vocab)
        for start in range(0, hidden.size(0), chunk):
            h, y = hidden[start : start + chunk], targets[start : start + chunk, None]
            out = logits[: h.size(0)]
            # Looking at the sums is free on a CPU; a GPU would have to be waited for.
            try_without = hidden.device.type == "cpu" and hidden.dtype == wide
            right, top, p, total = _exponentials(h, w_t, y, wide, out, subtract_top=not try_without)
            if try_without and not (total.min() > 1e-30 and total.max() < 1e30):
                right, top, p, total = _exponentials(h, w_t, y, wide, out, subtract_top=True)
            log_total = total.log() if top is None else total.log() + top  # log sum e^z
            plain += (log_total - right).sum()
            loss += (log_total - (1 - smoothing) * right).sum() - share * (h.to(wide) @ weight_sum).sum()
            if not (need_hidden or need_weight):
                continue
            p.scatter_add_(1, y, (smoothing - 1) * total)
            p, per_total = p.to(hidden.dtype), total.reciprocal_()
            if d_hidden is not None:
                d_h = torch.mm(p, w, out=d_hidden[start : start + chunk])
                d_h.mul_(per_total)
            if d_weight is not None:
                divided = (h * per_total).to(hidden.dtype)
                d_weight.addmm_(p.t(), divided) if p.dtype == wide else d_weight.add_(p.t() @ divided)
        if d_hidden is not None:
            d_hidden -= (share * weight_sum).to(hidden.dtype)
        if d_weight is not None:
            d_weight -= share * hidden.sum(0, dtype=wide)
        ctx.save_for_backward(d_hidden, d_weight)
        ctx.weight_dtype = weight.dtype
        ctx.mark_non_differentiable(plain)
        return loss, plain

    @staticmethod
    def backward(ctx: Any, d_loss: Tensor, _: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        d_hidden, d_weight = ctx.saved_tensors
        return (
            None if d_hidden is None else d_hidden * d_loss.to(d_hidden.dtype),
            None if d_weight is None else (d_weight * d_loss).to(ctx.weight_dtype),
            None,
            None,
        )


def _exponentials(
    h: Tensor, w_t: Tensor, y: Tensor, wide: torch.dtype, out: Tensor, subtract_top: bool
) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """z_y (n, 1), the largest z of each row (n, 1) or None, e^(z - it or 0) (n, V), their sums (n, 1). `out` is used up."""
    z = torch.mm(h, w_t, out=out).to(wide)
    right, top = z.gather(1, y), None
    if subtract_top:
        top = z.amax(1, keepdim=True)
        z.sub_(top)
    p = z.exp_()
    return right, top, p, p.sum(1, keepdim=True)
