"""A search in a part of the target vocabulary: each sentence in that of its own shortlist."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from pellucid.engines.executor import Executor, ExecutorState
from pellucid.engines.search_engine import Request, StateEngine, padded, searched
from pellucid.search import NEVER, Hypothesis, Vocabulary
from pellucid.shortlist import Shortlist


class ShortlistEngine(StateEngine):
    """A :class:`StateEngine` that looks only at the target pieces that a sentence may have.

    Sentences without a list, those whose prefix has other pieces, and those with phrases that they must say are searched
    in the whole vocabulary.
    """

    def __init__(
        self, name: str, executor: Executor, pad_id: int, vocabulary: Vocabulary, shortlist: Shortlist
    ) -> None:
        super().__init__(name, executor.state, pad_id, vocabulary, torch.device("cpu"))
        self._executor, self._shortlist = executor, shortlist

    @torch.inference_mode()
    def _part(self, request: Request) -> list[list[Hypothesis]]:
        lists: dict[int, np.ndarray] = {}
        for i, (source, prefix) in enumerate(zip(request.sources, request.prefixes, strict=True)):
            own = self._shortlist.of(source)
            if own is not None and np.isin(prefix, own).all() and not request.phrases[i]:
                lists[i] = own
        found: dict[int, list[Hypothesis]] = {}
        others = [i for i in range(len(request)) if i not in lists]
        if others:
            found |= zip(others, super()._part(request.of(others)), strict=True)
        if lists:
            listed = self._with_lists(request.of(list(lists)), list(lists.values()))
            found |= zip(lists, listed, strict=True)
        return [found[i] for i in range(len(request))]

    def _with_lists(self, request: Request, lists: Sequence[np.ndarray]) -> list[list[Hypothesis]]:
        """In numbers of the union of all lists instead of ids."""
        union = np.unique(np.concatenate(lists))
        number = {int(token): i for i, token in enumerate(union)}
        ids = torch.from_numpy(union.astype(np.int64))
        mask = torch.zeros(len(lists), len(union))
        for row, own in enumerate(lists):
            mask[row] = torch.from_numpy(np.where(np.isin(union, own), 0.0, NEVER)).float()
        vocabulary = Vocabulary(
            number[self._vocabulary.eos_id],
            -1,  # stands for the real one
            tuple(number[i] for i in self._vocabulary.forbidden if i in number),
            number.get(-1 if self._vocabulary.unk_id is None else self._vocabulary.unk_id),
        )
        state = self._executor.state(padded(request.sources, self._pad_id, self._device))
        state.output = self._executor.part_of_output(ids)
        numbered = dataclasses.replace(request, prefixes=[[number[int(i)] for i in p] for p in request.prefixes])
        found = searched(_Numbered(state, ids, mask, self._vocabulary.start_id), numbered, vocabulary)
        return [
            [dataclasses.replace(h, tokens=tuple(union[list(h.tokens)].tolist())) for h in hypotheses]
            for hypotheses in found
        ]


class _Numbered:
    """A state whose tokens are numbers of `ids` (C); `mask` (B, C) has -inf where a sentence has no such token."""

    def __init__(self, state: ExecutorState, ids: Tensor, mask: Tensor, start_id: int) -> None:
        self._state, self._ids, self._mask, self._start_id = state, ids, mask, start_id

    def step(self, tokens: Tensor) -> Tensor:
        logits = self._state.step(torch.where(tokens < 0, self._start_id, self._ids[tokens]))  # (N, C)
        logits.view(len(self._mask), -1, len(self._ids)).add_(self._mask[:, None])
        return logits

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        self._state.reorder(rows, sources)
        if sources is not None:
            self._mask = self._mask[sources]
