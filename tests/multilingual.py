"""A toy with two target languages: letters come out as capitals (`2up`) or as they are (`2lo`), and loud ones with a sign."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from pellucid.config import RunConfig
from pellucid.training.run import train

LANGUAGES: dict[str, Callable[[str], str]] = {"up": str.upper, "lo": str}


def loud(text: str) -> str:
    return f"{text.upper()} !"


def sources(count: int, seed: int) -> list[str]:
    """Lines of one to three letters, none twice."""
    draw = random.Random(seed)
    return [" ".join(draw.sample("abcdef", draw.randint(1, 3))) for _ in range(count)]


def write_pairs(file: Path, change: Callable[[str], str], count: int = 300, seed: int = 1) -> Path:
    file.write_text("".join(f"{text}\t{change(text)}\n" for text in sources(count, seed)), encoding="utf-8")
    return file


def write_all(folder: Path) -> tuple[list[str], tuple[str, ...]]:
    """The three files, and their tags."""
    files = [
        write_pairs(folder / "up.tsv", str.upper, seed=1),
        write_pairs(folder / "lo.tsv", str, seed=2),
        write_pairs(folder / "loud.tsv", loud, seed=3),
    ]
    up, lo, louder = map(str, files)
    return [up, lo, louder], (f"{up}=2up", f"{lo}=2lo", f"{louder}=2up,loud")


def config(tags: tuple[str, ...] = (), joint: bool = True, **training: object) -> RunConfig:
    """A run of seconds, without chance in its layers."""
    shape = {"d_model": 32, "n_heads": 4, "num_encoder_layers": 1, "num_decoder_layers": 1, "d_ff": 64}
    return RunConfig.from_mapping(
        {
            "preset": "tiny",
            "model": {**shape, "dropout": 0.0, "norm": "pre"},
            "data": {
                "tokenizer": "word", "valid_pairs": 60, "tags": list(tags), "source_language": "en", "joint": joint,
            },
            "training": {
                "batch_tokens": 600, "warmup_steps": 30, "peak_rate": 0.01, "threads": 1, "save_minutes": 0,
                "validate_bleu": False, **training,
            },
        }
    )  # fmt: skip


def trained(folder: Path) -> Path:
    """A model folder that has learnt all three."""
    pairs, tags = write_all(folder)
    run = config(tags, max_updates=500, cooldown_steps=250, validate_every=500)
    return train(pairs, out=folder / "model", config=run)
