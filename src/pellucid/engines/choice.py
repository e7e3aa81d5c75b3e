"""Which of the engines that are here is the fastest for a model: measured once, remembered.

Answered from a file in the user's cache folder (`$XDG_CACHE_HOME/pellucid`, by default `~/.cache/pellucid`) if the same
shape of model was measured before on the same kind of processor, with as many threads and the same versions. Delete the
file to have it measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import json
import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from pellucid.config import SearchConfig
from pellucid.engines.search_engine import Engine, Request
from pellucid.errors import ConfigError
from pellucid.machine import processor_name
from pellucid.model.transformer import Transformer
from pellucid.version import __version__

WORKLOADS = (1, 16)
"""Sentences searched together: somebody who waits for one, and a file."""
LENGTH, LONGEST = 20, 30
"""Tokens of a source, and of its translation at most."""
ROUNDS = 2
"""Besides one that warms up."""


def fastest(
    candidates: Mapping[str, Callable[[], Engine]], model: Transformer, quantized: bool, memory: Path | None = None
) -> Engine:
    """The engine that is the quickest, by the geometric mean of its times for each of `WORKLOADS`.

    One for all batches: another one for other sizes would make a translation depend on what it is batched with.

    Args:
        candidates: by name, what makes each. The first always works; another that cannot be made (its library is broken,
            say) is left out.
        memory: the file of results; None: the one in the user's cache folder.
    """
    memory = memory or cache_folder() / "engines.json"
    key = _key(candidates, model, quantized)
    known = _read(memory)
    if known.get(key) in candidates:
        with contextlib.suppress(ConfigError, RuntimeError):
            return candidates[known[key]]()
    first, *others = candidates
    engines = {first: candidates[first]()}
    for name in others:
        with contextlib.suppress(ConfigError, RuntimeError):
            engines[name] = candidates[name]()
    if len(engines) == 1:
        return engines[first]
    seconds = dict.fromkeys(engines, 1.0)
    for rows in WORKLOADS:
        best = dict.fromkeys(engines, float("inf"))
        for _ in range(1 + ROUNDS):
            for name, engine in engines.items():
                best[name] = min(best[name], _timed(engine, model, rows))
        seconds = {name: seconds[name] * best[name] for name in engines}
    name = min(seconds, key=seconds.__getitem__)
    # Without a place to remember it is measured each time.
    with contextlib.suppress(OSError):
        _write(memory, {**_read(memory), key: name})
    return engines[name]


def cache_folder() -> Path:
    """Where pellucid keeps what it can find out again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "pellucid"


@torch.inference_mode()
def _timed(engine: Engine, model: Transformer, rows: int) -> float:
    """Seconds for so many made-up sentences."""
    config = model.config
    drawn = random.Random(rows)
    length = min(LENGTH, config.max_len - 2)  # learned positions end there
    ids = [i for i in range(config.src_vocab) if i not in (config.source_pad, config.eos_id)]
    sources = [[*drawn.choices(ids, k=length), config.eos_id] for _ in range(rows)]
    lengths = [min(LONGEST, config.max_len - 2)] * rows
    started = time.perf_counter()
    engine.search(Request(sources, lengths, SearchConfig(beam_size=1), scores=False))
    return time.perf_counter() - started


def _key(names: Mapping[str, object], model: Transformer, quantized: bool) -> str:
    config = model.config
    shape = (
        config.src_vocab, config.tgt_vocab, config.d_model, config.n_heads, config.num_encoder_layers,
        config.num_decoder_layers, config.d_ff, config.norm, quantized,
    )  # fmt: skip
    versions = (__version__, torch.__version__, importlib.metadata.version("ctranslate2"))
    here = (processor_name(), torch.get_num_threads(), *sorted(names), *versions)
    return hashlib.sha256(repr((shape, here)).encode()).hexdigest()[:16]


def _read(memory: Path) -> dict[str, str]:
    try:
        known = json.loads(memory.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _write(memory: Path, known: Mapping[str, str]) -> None:
    memory.parent.mkdir(parents=True, exist_ok=True)
    fresh = memory.with_name(f"{memory.name}.{os.getpid()}")  # renamed, so that nobody reads half of it
    fresh.write_text(json.dumps(known, indent=1), encoding="utf-8")
    fresh.replace(memory)
