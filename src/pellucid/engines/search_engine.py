"""What searches a batch, and our own search over the state of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.search import Hypothesis, SearchState, Vocabulary, search


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
    """Our own search over a state of some executor."""

    def __init__(self, name: str, make_state: Callable[[Tensor], SearchState], pad_id: int, vocabulary: Vocabulary,
                 device: torch.device) -> None:  # fmt: skip
        self.name = name
        self._make_state, self._pad_id, self._vocabulary, self._device = make_state, pad_id, vocabulary, device

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
        state = self._make_state(padded(sources, self._pad_id, self._device))
        return search(state, max_lengths, self._vocabulary, config, prefixes, seeds, scores=scores)


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of ids as a rectangle (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
