"""Which executor searches, by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.engines.executor import Executor
from pellucid.engines.linear import Float32Linear, Ranges, int8_pack
from pellucid.errors import ConfigError
from pellucid.model.transformer import DecoderState, Transformer
from pellucid.search import Hypothesis, SearchState, Vocabulary, search

ENGINES = ("auto", "reference", "torch", "torch-int8")
"""auto: on a CPU torch, or torch-int8 if the model folder is a quantized one; elsewhere reference. reference: the model as it is read. torch: the same numbers, laid out for
speed. torch-int8: with whole numbers, a little less exact."""


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
    ) -> list[list[Hypothesis]]:
        state = self._make_state(padded(sources, self._pad_id, self._device))
        return search(state, max_lengths, self._vocabulary, config, prefixes, seeds)


def make_engine(
    name: str, model: Transformer, source_pad_id: int, vocabulary: Vocabulary, ranges: Ranges | None = None
) -> Engine:
    """The engine `name` of `ENGINES` for `model`.

    Args:
        ranges: of a quantized model.

    Raises:
        ConfigError: no such engine, or not on this machine.
    """
    device = model.output.weight.device
    if name not in ENGINES:
        raise ConfigError(f"`engine` must be one of {', '.join(ENGINES)}, but is {name!r}")
    if name == "auto":
        name = "reference" if device.type != "cpu" else "torch" if ranges is None else "torch-int8"
    if name == "reference":
        return StateEngine(name, lambda src: DecoderState(model, src), source_pad_id, vocabulary, device)
    if device.type != "cpu":
        raise ConfigError(f"`engine` {name!r} is for a CPU, but the device is {device}", hint="--engine reference")
    pack = int8_pack(ranges) if name == "torch-int8" else Float32Linear
    if pack is None:
        raise ConfigError("this machine or this PyTorch has no working int8", hint="--engine torch")
    return StateEngine(name, Executor(model, pack).state, source_pad_id, vocabulary, device)


def padded(rows: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Tensor:
    """Rows of ids as a rectangle (rows, longest), padded on the right."""
    longest = max(map(len, rows))
    return torch.tensor([[*row, *[pad_id] * (longest - len(row))] for row in rows], device=device)
