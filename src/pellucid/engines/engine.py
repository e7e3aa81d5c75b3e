"""Which executor searches, by name."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import cached_property

import torch

from pellucid.engines.choice import fastest
from pellucid.engines.ctranslate2 import CTranslate2Engine
from pellucid.engines.executor import Executor
from pellucid.engines.linear import Float32Linear, Pack, Ranges, bfloat16_pack, int8_pack, multiplies_bfloat16
from pellucid.engines.search_engine import Engine, Request, StateEngine
from pellucid.engines.shortlist_engine import ShortlistEngine
from pellucid.engines.static_cache import StaticEngine, StaticExecutor, agrees
from pellucid.errors import ConfigError
from pellucid.model.transformer import DecoderState, Transformer
from pellucid.search import Hypothesis, Vocabulary
from pellucid.shortlist import Shortlist

ENGINES = ("auto", "reference", "torch", "torch-int8", "ctranslate2", "ctranslate2-int8", "gpu", "gpu-float32")
"""reference: the model as it is read. torch: the same numbers, laid out for speed on a CPU. torch-int8: with whole
numbers, a little less exact. ctranslate2 and ctranslate2-int8: that program, if it is installed. gpu: bfloat16 and
recorded steps, for CUDA; gpu-float32: the same without rounding. auto: on a CPU torch, or ctranslate2 if it is installed
and faster, and of a quantized model folder the int8 ones; with CUDA gpu (gpu-float32 where the GPU does not multiply
bfloat16), or reference if a trial of it goes wrong."""

GPU_PACKS: dict[str, Pack] = {"gpu": bfloat16_pack, "gpu-float32": Float32Linear}


def make_engine(
    name: str,
    model: Transformer,
    source_pad_id: int,
    vocabulary: Vocabulary,
    ranges: Ranges | None = None,
    shortlist: Shortlist | None = None,
) -> Engine:
    """The engine `name` of `ENGINES` for `model`.

    Args:
        ranges: of a quantized model.
        shortlist: the target pieces that a source may have; only for torch and torch-int8, and what auto takes then.

    Raises:
        ConfigError: no such engine, or not on this machine.
    """
    device = model.output.weight.device
    if name not in ENGINES:
        raise ConfigError(f"`engine` must be one of {', '.join(ENGINES)}, but is {name!r}")
    if shortlist is not None and name not in ("auto", "torch", "torch-int8"):
        raise ConfigError(f"`engine` {name!r} has no use for a shortlist", hint="--engine torch, or no --shortlist")
    if name == "auto" and shortlist is not None:
        name = "torch" if ranges is None or int8_pack(ranges) is None else "torch-int8"
    if name == "auto" and device.type != "cpu":
        return _for_accelerator(model, source_pad_id, vocabulary)
    if name == "auto":
        suffix = "" if ranges is None else "-int8"

        def own() -> Engine:
            try:
                return make_engine(f"torch{suffix}", model, source_pad_id, vocabulary, ranges)
            except ConfigError:  # no int8 here: the rounded weights in float32
                return make_engine("torch", model, source_pad_id, vocabulary)

        if importlib.util.find_spec("ctranslate2") is None:
            return own()

        def other(together: bool) -> Engine:
            return _Either(CTranslate2Engine(f"ctranslate2{suffix}", model, vocabulary, together), own)

        candidates: dict[str, Callable[[], Engine]] = {
            f"torch{suffix}": own,
            f"ctranslate2{suffix}": lambda: other(False),
        }
        if torch.get_num_threads() > 1:
            candidates[f"ctranslate2{suffix}, threads together"] = lambda: other(True)
        return fastest(candidates, model, ranges is not None)
    if name == "reference":
        return StateEngine(name, lambda src: DecoderState(model, src), source_pad_id, vocabulary, device)
    if name in GPU_PACKS:
        if device.type != "cuda":
            raise ConfigError(f"`engine` {name!r} is for CUDA, but the device is {device}", hint="--engine auto")
        return StaticEngine(name, StaticExecutor(model, GPU_PACKS[name]), source_pad_id, vocabulary)
    if device.type != "cpu":
        raise ConfigError(f"`engine` {name!r} is for a CPU, but the device is {device}", hint="--engine auto")
    if name.startswith("ctranslate2"):
        return CTranslate2Engine(name, model, vocabulary)
    pack = int8_pack(ranges) if name == "torch-int8" else Float32Linear
    if pack is None:
        raise ConfigError("this machine or this PyTorch has no working int8", hint="--engine torch")
    executor = Executor(model, pack)
    if shortlist is not None:
        return ShortlistEngine(name, executor, source_pad_id, vocabulary, shortlist)
    return StateEngine(name, executor.state, source_pad_id, vocabulary, device)


def _for_accelerator(model: Transformer, source_pad_id: int, vocabulary: Vocabulary) -> Engine:
    """What auto takes on another device than a CPU: with CUDA an engine of its own, tried before anybody relies on it."""
    device = model.output.weight.device
    if device.type == "cuda":
        name = "gpu" if multiplies_bfloat16(device) else "gpu-float32"
        static = StaticExecutor(model, GPU_PACKS[name])
        if agrees(static, model):
            return StaticEngine(name, static, source_pad_id, vocabulary)
    return make_engine("reference", model, source_pad_id, vocabulary)


class _Either:
    """CTranslate2, and our own engine for what it cannot do: sentence by sentence, so that neighbours change nothing."""

    def __init__(self, ctranslate2: CTranslate2Engine, make_own: Callable[[], Engine]) -> None:
        self.name = ctranslate2.name
        self._ctranslate2, self._make_own = ctranslate2, make_own

    @cached_property
    def _own(self) -> Engine:
        return self._make_own()

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """See :class:`~pellucid.engines.search_engine.Engine`."""
        parts: dict[bool, list[int]] = {}
        for i in range(len(request)):
            parts.setdefault(self._ctranslate2.refuses(request, i) is None, []).append(i)
        found: dict[int, list[Hypothesis]] = {}
        for it_can, numbers in parts.items():
            engine: Engine = self._ctranslate2 if it_can else self._own
            found |= zip(numbers, engine.search(request.of(numbers)), strict=True)
        return [found[i] for i in range(len(request))]
