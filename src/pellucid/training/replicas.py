"""Section 5.2, on a CPU: the gradients of one batch by several threads, each with a part of the rows.

Left to itself, PyTorch cuts every single operation of a step into pieces, one a thread, and waits for the slowest after
each; what it does not cut (random numbers, small tensors) runs on one core. Where the operations are as small as those
of a model for a CPU, it is faster to give each thread a part of the batch and to wait once.

Each part has a replica of the model: the same weights, in the same memory, and gradients of its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor

from pellucid.data.batching import Batch
from pellucid.model.dropout import drawing_from
from pellucid.model.transformer import Transformer

PART_TOKENS = 1024
"""No part gets fewer padded tokens of a full batch: below that, Python's own time between operations counts, and Python
runs on one core."""
LARGEST = 20_000_000
"""Parameters above which there are no replicas: each costs the memory of one more set of gradients, and the operations
of a large model are worth cutting up."""

Loss = Callable[[Transformer, np.ndarray, np.ndarray, np.ndarray], tuple[Tensor, Tensor]]
"""(model, src, tgt_in, tgt_out), the last three as in :class:`Batch` -> the loss, summed over target tokens, to be differentiated; and a second sum that goes along."""


class Replicas:
    """Replicas of `model` for as many threads as PyTorch has now and batches of `batch_tokens` padded tokens can use.

    The same number of threads and the same state of PyTorch's random generator give the same gradients, bit by bit.
    """

    def __init__(self, model: Transformer, batch_tokens: int) -> None:
        self._model = model
        threads = torch.get_num_threads()
        large = sum(p.numel() for p in model.parameters()) > LARGEST
        on_cpu = next(model.parameters()).device.type == "cpu"
        self.count = max(1, min(threads, batch_tokens // PART_TOKENS)) if on_cpu and not large else 1
        self._others = [self._replica() for _ in range(self.count - 1)]
        self._pool = ThreadPoolExecutor(
            self.count, "pellucid-replica", initializer=lambda: torch.set_num_threads(max(1, threads // self.count))
        )

    def _replica(self) -> Transformer:
        replica = copy.deepcopy(self._model)
        for own, shared in zip(replica.parameters(), self._model.parameters(), strict=True):
            own.data = shared.data
        return replica

    def gradients(self, loss: Loss, batch: Batch) -> tuple[float, float]:
        """Adds the gradients of `loss` to those of the model, and returns both its sums."""
        if self.count == 1:
            return _gradients(loss, self._model, batch.src, batch.tgt_in, batch.tgt_out)
        seeds = torch.randint(2**62, (self.count,)).tolist()
        models = [self._model, *self._others][: len(batch.src)]

        def part(i: int) -> tuple[float, float]:
            rows = slice(i, None, len(models))  # in turn, because they are in order of length
            with drawing_from(torch.Generator().manual_seed(seeds[i])):
                return _gradients(loss, models[i], batch.src[rows], batch.tgt_in[rows], batch.tgt_out[rows])

        sums = list(self._pool.map(part, range(len(models))))
        for other in models[1:]:
            torch._foreach_add_(_gradients_of(self._model), _gradients_of(other))
            other.zero_grad()
        return sum(first for first, _ in sums), sum(second for _, second in sums)


def _gradients(
    loss: Loss, model: Transformer, src: np.ndarray, tgt_in: np.ndarray, tgt_out: np.ndarray
) -> tuple[float, float]:
    smoothed, plain = loss(model, src, tgt_in, tgt_out)
    smoothed.backward()
    return float(smoothed.detach()), float(plain)


def _gradients_of(model: Transformer) -> list[Tensor]:
    return [p.grad for p in model.parameters() if p.grad is not None]
