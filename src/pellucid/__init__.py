"""pellucid: the Transformer of "Attention Is All You Need", to train, to translate with and to look into.

The public names below are loaded when they are first used, so that `pellucid --help` need not wait for torch.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pellucid.version import __version__

# libgomp's threads wait for each other by spinning. With another busy process on the same cores that makes training
# eight times slower; a short spin costs nothing. It is read when torch loads libgomp, so it has to be said before.
os.environ.setdefault("GOMP_SPINCOUNT", "1000")

if TYPE_CHECKING:
    from pellucid.checkpoint import load_model
    from pellucid.config import DataConfig, RunConfig, SearchConfig, TrainingConfig, TransformerConfig
    from pellucid.errors import PellucidError
    from pellucid.inspection.report import inspect
    from pellucid.inspection.trace import trace
    from pellucid.model.transformer import Transformer
    from pellucid.training.run import train
    from pellucid.translator import Translation, Translator

__all__ = [
    "DataConfig",
    "PellucidError",
    "RunConfig",
    "SearchConfig",
    "TrainingConfig",
    "Transformer",
    "TransformerConfig",
    "Translation",
    "Translator",
    "__version__",
    "inspect",
    "load_model",
    "trace",
    "train",
]

_HOMES = {
    "DataConfig": "config",
    "PellucidError": "errors",
    "RunConfig": "config",
    "SearchConfig": "config",
    "TrainingConfig": "config",
    "Transformer": "model.transformer",
    "TransformerConfig": "config",
    "Translation": "translator",
    "Translator": "translator",
    "inspect": "inspection.report",
    "load_model": "checkpoint",
    "trace": "inspection.trace",
    "train": "training.run",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"pellucid.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'pellucid' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
