"""What do products of bfloat16 gain on this CPU? The same updates, by presets, in three ways, in turn, in one run.

    float32     nothing rounded
    bfloat16    the maps multiply in bfloat16 (pellucid.training.bfloat16)
    autocast    PyTorch's own mixed precision: products, attention and the loss in bfloat16

All make the updates of pellucid's Trainer, on the same made-up batches, with weights of their own. Batches differ in
their number of rows, as in training: what compiling for a new shape costs is in the figures. Processors without matrix
units (AMX) lose by it. Ratios are round by round, so that all had the same company on the machine.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import contextlib
import itertools
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import synthetic
from pellucid.checkpoint import LoadedModel
from pellucid.config import DataConfig, SearchConfig, TrainingConfig, TransformerConfig
from pellucid.data.batching import Batch, make_batch, plan_epoch
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.machine import available_cores, keep_freed_memory
from pellucid.model.transformer import Transformer
from pellucid.training.bfloat16 import has_matrix_units
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer

WAYS = ("float32", "bfloat16", "autocast")
RATE = 5e-4


def trainer(way: str, preset: str, tokenizer: Tokenizer, store: PairStore, folder: RunFolder, tokens: int) -> Trainer:
    torch.manual_seed(1)
    size, pad = len(tokenizer), tokenizer.pad_id
    model = Transformer.from_config(TransformerConfig.preset(preset, size, size, pad_id=pad, start_id=pad))
    config = TrainingConfig(batch_tokens=tokens, precision="bfloat16" if way == "bfloat16" else "float32")
    loaded = LoadedModel(model, tokenizer, tokenizer, SearchConfig(), None, None)
    made = Trainer(loaded, store, None, config, folder, torch.device("cpu"))
    made._autocasts = way == "autocast"
    model.train()
    return made


def update(trainer: Trainer, batch: Batch) -> float:
    loss, _ = trainer._gradients(batch)
    trainer._scale_and_clip(batch.tgt_tokens)
    trainer._step(RATE)
    return loss / batch.tgt_tokens


def measure(trainers: dict[str, Trainer], rounds: list[list[Batch]]) -> dict[str, dict[str, list[float]]]:
    """Target tokens a second of each way, round by round, and the last loss; the first round only warms up."""
    found: dict[str, dict[str, list[float]]] = {way: {"tokens_per_second": [], "losses": []} for way in trainers}
    names = list(trainers)
    for number, batches in enumerate(rounds):
        turn = number % len(names)
        for way in names[turn:] + names[:turn]:
            started = time.perf_counter()
            losses = [update(trainers[way], batch) for batch in batches]
            seconds = time.perf_counter() - started
            if number:
                found[way]["tokens_per_second"].append(sum(batch.tgt_tokens for batch in batches) / seconds)
                found[way]["losses"].append(losses[-1])
    return found


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="append", help="repeatable [tiny, small, base]")
    parser.add_argument("--threads", type=int, default=0, help="0: the cores that this process may use")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=5, help="that count; one more warms up")
    parser.add_argument("--batches", type=int, default=3, help="of each way in each round")
    parser.add_argument("--pairs", type=int, default=20_000)
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    threads = options.threads or available_cores()
    torch.set_num_threads(threads)
    keep_freed_memory()
    results: dict[str, Any] = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-bench-")))
        run = stack.enter_context(contextlib.closing(RunFolder(folder / "run")))
        synthetic.write_tsv(folder / "pairs.tsv", options.pairs)
        config = DataConfig(vocab_size=options.vocab_size, tokenizer="bpe")
        corpus = Corpus.from_files([str(folder / "pairs.tsv")], [], [], config)
        texts = (text for pair in corpus for text in (pair.source, pair.target))
        tokenizer = Tokenizer.train(texts, vocab_size=options.vocab_size, kind="bpe")
        store, _ = PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config)
        plan = itertools.cycle(plan_epoch(store.source_lengths, store.target_lengths, options.batch_tokens, 1, 0))
        pad = tokenizer.pad_id
        rounds = [
            [make_batch(store, next(plan), pad, pad, pad) for _ in range(options.batches)]
            for _ in range(options.rounds + 1)
        ]
        for preset in options.preset or ("tiny", "small", "base"):
            ways = {way: trainer(way, preset, tokenizer, store, run, options.batch_tokens) for way in WAYS}
            results[preset] = measure(ways, rounds)
    print(
        f"{len(tokenizer):,} pieces, {options.batch_tokens:,} padded tokens a batch, {threads} thread(s), matrix units: "
        f"{'yes' if has_matrix_units() else 'no'}, torch {torch.__version__}\n\n"
        "| preset | " + " | ".join(f"{way}: target tokens/s, × float32, last loss" for way in WAYS) + " |\n"
        "|---|" + "---|" * len(WAYS)
    )
    for preset, found in results.items():
        plain = found["float32"]["tokens_per_second"]
        cells = []
        for way in WAYS:
            rates = found[way]["tokens_per_second"]
            ratio = statistics.median(a / b for a, b in zip(rates, plain, strict=True))
            cells.append(f"{statistics.median(rates):,.0f}, × {ratio:.2f}, {found[way]['losses'][-1]:.3f}")
        print(f"| {preset} | {' | '.join(cells)} |")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
