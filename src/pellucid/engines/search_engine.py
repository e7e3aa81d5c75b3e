"""What searches a batch, and our own search over the state of an executor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.constrained_search import Phrase, constrained_search
from pellucid.search import Hypothesis, SearchState, Vocabulary, Watch, beam_search, search

PART_ROWS = 4
"""No thread gets fewer sentences at a time."""
MOST_ROWS = 128
"""Nor more hypotheses: with four times as many, the logits of a large vocabulary do not fit into any cache, and a step
takes longer than four steps."""


@dataclass(frozen=True)
class Request:
    """Sentences to search together, and how."""

    sources: Sequence[Sequence[int]]
    """Ids, with the end mark."""
    max_lengths: Sequence[int]
    """For each sentence, the most tokens before the end mark."""
    config: SearchConfig
    prefixes: Sequence[Sequence[int]] = ()
    """For each sentence, tokens that its translation must begin with; none given: nobody must."""
    seeds: Sequence[int] = ()
    """For each sentence, where its random numbers start; none given: their places."""
    scores: bool = True
    """See :func:`pellucid.search.search`."""
    phrases: Sequence[Sequence[Phrase]] = ()
    """For each sentence, what its translation must say; none given: nothing. Where there are any, no sentence is drawn at random."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "prefixes", self.prefixes or [()] * len(self.sources))
        object.__setattr__(self, "seeds", self.seeds or range(len(self.sources)))
        object.__setattr__(self, "phrases", self.phrases or [()] * len(self.sources))

    def __len__(self) -> int:
        return len(self.sources)

    def of(self, numbers: Sequence[int]) -> Request:
        """Those sentences alone."""
        sources, lengths = [self.sources[i] for i in numbers], [self.max_lengths[i] for i in numbers]
        prefixes, seeds = [self.prefixes[i] for i in numbers], [self.seeds[i] for i in numbers]
        phrases = [self.phrases[i] for i in numbers]
        return Request(sources, lengths, self.config, prefixes, seeds, self.scores, phrases)


class Engine(Protocol):
    """What searches a batch."""

    name: str

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence, best first; see :func:`pellucid.search.search`."""
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

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """See :class:`Engine`."""
        rows_each = request.config.n_best if request.config.sample else request.config.beam_size
        size = max(PART_ROWS, min(MOST_ROWS // rows_each, -(-len(request) // self._threads)))
        if self._device.type != "cpu" or len(request) <= size:
            return self._part(request)
        parts = [request.of(range(first, len(request))[:size]) for first in range(0, len(request), size)]
        found = map(self._part, parts) if self._threads == 1 else self._pool.map(self._part, parts)
        return [hypotheses for some in found for hypotheses in some]

    @torch.inference_mode()
    def watched(self, request: Request, watch: Watch) -> list[list[Hypothesis]]:
        """Beam search while somebody looks on; a beam of one is greedy search."""
        state = self._make_state(padded(request.sources, self._pad_id, self._device))
        return beam_search(
            state, request.max_lengths, self._vocabulary, request.config, request.prefixes, watch
        )  # fmt: skip

    @torch.inference_mode()  # of this thread
    def _part(self, request: Request) -> list[list[Hypothesis]]:
        state = self._make_state(padded(request.sources, self._pad_id, self._device))
        return searched(state, request, self._vocabulary)


def searched(state: SearchState, request: Request, vocabulary: Vocabulary) -> list[list[Hypothesis]]:
    """:func:`pellucid.search.search` for a request, or the search for what must be said if any of it has phrases."""
    lengths, config, prefixes = request.max_lengths, request.config, request.prefixes
    if any(request.phrases):
        return constrained_search(state, lengths, vocabulary, config, request.phrases, prefixes)
    return search(state, lengths, vocabulary, config, prefixes, request.seeds, scores=request.scores)


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of ids as a rectangle (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
