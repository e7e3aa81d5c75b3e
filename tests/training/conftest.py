"""A task that a tiny model learns in seconds: write the digits in reverse order."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from pellucid.config import RunConfig


@pytest.fixture(autouse=True)
def one_thread():
    """Small matrices are faster on one thread, and results do not depend on the machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def write_reversals(path: Path, pairs: int, seed: int = 0, digits: str = "0123456789", longest: int = 5) -> Path:
    draw = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(pairs):
            text = [draw.choice(digits) for _ in range(draw.randint(1, longest))]
            file.write(f"{' '.join(text)}\t{' '.join(reversed(text))}\n")
    return path


@pytest.fixture
def reversals(tmp_path: Path) -> Path:
    return write_reversals(tmp_path / "reversals.tsv", 300)


def tiny(**training: object) -> RunConfig:
    """A run of seconds: one layer of width 16; `training` changes [training]."""
    return RunConfig.from_mapping(
        {
            "preset": "tiny",
            "model": {"d_model": 16, "n_heads": 2, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 32, "dropout": 0.1},
            "data": {"tokenizer": "word", "valid_pairs": 20},
            "training": {"batch_tokens": 128, "warmup_steps": 20, "peak_rate": 0.005, "threads": 1, "save_minutes": 0, **training},
        }
    )  # fmt: skip
