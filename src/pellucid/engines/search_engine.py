"""What searches a batch, and our own search over the state of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.search import Hypothesis, SearchState, Vocabulary, search

PART_ROWS = 4
"""No thread gets fewer sentences at a time."""
MOST_ROWS = 128
"""Nor more hypotheses: with four times as many, the logits of a large vocabulary do not fit into any cache, and a step
takes longer than four steps."""


class Engine(Protocol):
    """What searches a batch."""

    name: str

    def search(
        self,
        sources: Sequence[Sequence[int]],
        max_lengths: Sequence[int],
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]],
        seeds: Sequence[int],
        *,
        scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each of `sources` (ids with the end mark), best first; see :func:`pellucid.search.search`."""
        ...


class StateEngine:
    """Our own search over a state of some executor.

    On a CPU a batch is cut into parts, which the threads take one by one: the operations of a step are too small to be
    cut up themselves.
    """

    def __init__(self, name: str, make_state: Callable[[Tensor], SearchState], pad_id: int, vocabulary: Vocabulary,
                 device: torch.device) -> None:  # fmt: skip
        self.name = name
        self._make_state, self._pad_id, self._vocabulary, self._device = make_state, pad_id, vocabulary, device
        self._threads = torch.get_num_threads() if device.type == "cpu" else 1

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._threads, "pellucid-search", lambda: torch.set_num_threads(1))

    def search(
        self,
        sources: Sequence[Sequence[int]],
        max_lengths: Sequence[int],
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]],
        seeds: Sequence[int],
        *,
        scores: bool = True,
    ) -> list[list[Hypothesis]]:
        """See :class:`Engine`."""

        def part(rows: slice) -> list[list[Hypothesis]]:
            return self._part(sources[rows], max_lengths[rows], config, prefixes[rows], seeds[rows], scores)

        rows_each = config.n_best if config.sample else config.beam_size
        size = max(PART_ROWS, min(MOST_ROWS // rows_each, -(-len(sources) // self._threads)))
        if self._device.type != "cpu" or len(sources) <= size:
            return part(slice(None))
        parts = [slice(first, first + size) for first in range(0, len(sources), size)]
        found = map(part, parts) if self._threads == 1 else self._pool.map(part, parts)
        return [hypotheses for some in found for hypotheses in some]

    @torch.inference_mode()  # of this thread
    def _part(
        self,
        sources: Sequence[Sequence[int]],
        max_lengths: Sequence[int],
        config: SearchConfig,
        prefixes: Sequence[Sequence[int]],
        seeds: Sequence[int],
        scores: bool,
    ) -> list[list[Hypothesis]]:
        state = self._make_state(padded(sources, self._pad_id, self._device))
        return search(state, max_lengths, self._vocabulary, config, prefixes, seeds, scores=scores)


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of ids as a rectangle (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
