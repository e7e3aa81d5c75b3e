"""One GPU in under eight minutes: training and decoding of base and big, beside the GPU's own bfloat16 roof.

    python benchmarks/gpu.py --json benchmarks/results/gpu.json

Training runs the steps of pellucid's own Trainer (bfloat16 and torch.compile, its defaults on a GPU) on batches of made-up
pairs; decoding runs `Translator` with random weights, greedy and with beam 4, every sentence 30 pieces long. The roof is
the best bfloat16 product of large square matrices in the same run; the shares follow from the formula at the top of
`training.py`. Parts that no time is left for are skipped, and the table says so.

Without a GPU it says so and runs the same in miniature on the CPU, in float32: that shows that the script works, and
nothing about speed.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import json
import random
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import synthetic
from pellucid.checkpoint import LoadedModel
from pellucid.config import DataConfig, SearchConfig, TrainingConfig, TransformerConfig
from pellucid.data.batching import make_batch, plan_epoch
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.engine import make_engine
from pellucid.engines.search_engine import Request
from pellucid.model.transformer import Transformer
from pellucid.search import Vocabulary
from pellucid.training.optimizer import set_rate
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer

STEPS = 30


def roof(device: torch.device, size: int) -> float:
    """Floating-point operations a second of the best product, bfloat16 on a GPU, else float32."""
    kind = torch.bfloat16 if device.type == "cuda" else torch.float32
    a, b = (torch.randn(size, size, device=device, dtype=kind) for _ in range(2))
    best = 0.0
    for _ in range(10):
        started = now(device)
        a @ b
        best = max(best, 2 * size**3 / (now(device) - started))
    return best


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def flop_per_target_token(config: TransformerConfig, source_per_target: float) -> float:
    """Of training: see `training.py`."""
    d, f = config.d_model, config.d_ff
    encoder = config.num_encoder_layers * (4 * d * d + 2 * d * f)
    cross = 2 * config.num_decoder_layers * d * d
    decoder = config.num_decoder_layers * (6 * d * d + 2 * d * f)
    return 6.0 * (source_per_target * (encoder + cross) + decoder + d * config.tgt_vocab)


def train(
    loaded: LoadedModel, store: PairStore, folder: Path, device: torch.device, batch_tokens: int, seconds: float
) -> dict[str, float]:
    """Target tokens a second: the median over updates, the first few (which compile) left out."""
    tokenizer = loaded.source_tokenizer
    config = TrainingConfig(batch_tokens=batch_tokens, device=device.type)
    run = RunFolder(folder)
    trainer = Trainer(loaded, store, None, config, run, device)
    loaded.model.train()
    set_rate(trainer.optimizer, 1e-4)
    plan = plan_epoch(store.source_lengths, store.target_lengths, batch_tokens, 1, 0)
    rates: list[float] = []
    sources = targets = updates = 0
    started = time.perf_counter()
    while updates < 3 or time.perf_counter() - started < seconds:
        pad = tokenizer.pad_id
        batch = make_batch(store, plan[updates % len(plan)], pad, pad, pad)
        begin = now(device)
        trainer._gradients(batch)
        trainer._scale_and_clip(batch.tgt_tokens)
        trainer.optimizer.step()
        trainer.optimizer.zero_grad()
        if updates >= 2:
            rates.append(batch.tgt_tokens / (now(device) - begin))
        sources, targets, updates = sources + int((batch.src != pad).sum()), targets + batch.tgt_tokens, updates + 1
    run.close()
    return {
        "target_tokens_per_second": statistics.median(rates), "updates": updates,
        "flop_per_token": flop_per_target_token(loaded.model.config, sources / targets),
    }  # fmt: skip


@torch.inference_mode()
def decode(model: Transformer, rows: int, beam: int, rounds: int) -> float:
    """Target tokens a second."""
    config, device = model.config, model.output.weight.device
    pad = config.start_id or 0
    engine = make_engine("reference", model, pad, Vocabulary(config.eos_id, pad, (pad,)))
    drawn = random.Random(1)
    sources = [[drawn.randrange(2, pad) for _ in range(drawn.randint(10, 30))] + [0] for _ in range(rows)]
    search = SearchConfig(beam_size=beam, min_length=STEPS)
    rates = []
    for _ in range(rounds + 1):
        started = now(device)
        engine.search(Request(sources, [STEPS] * rows, search, scores=False))
        rates.append(rows * STEPS / (now(device) - started))
    return statistics.median(rates[1:])


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=400, help="for all of it")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda" if on_gpu else "cpu")
    name = torch.cuda.get_device_name() if on_gpu else "no GPU: the CPU in miniature, for a test of this script"
    peak = roof(device, 8192 if on_gpu else 256)
    print(f"{name}; torch {torch.__version__}; roof {peak / 1e12:,.1f} TFLOP/s\n")
    pairs, vocab, batch_tokens = (200_000, 32_000, 25_000) if on_gpu else (300, 400, 256)
    shapes: dict[str, tuple[str, dict[str, int]]] = (
        {"base": ("base", {}), "big": ("big", {})}
        if on_gpu
        else {
            n: ("tiny", {"d_model": 16, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1})
            for n in ("base", "big")
        }
    )
    found: dict[str, Any] = {"device": name, "roof": peak}
    with tempfile.TemporaryDirectory(prefix="pellucid-gpu-") as temporary:
        folder = Path(temporary)
        synthetic.write_tsv(folder / "pairs.tsv", pairs, words=2_000 if on_gpu else 40)
        config = DataConfig(vocab_size=vocab, tokenizer="bpe")
        corpus = Corpus.from_files([str(folder / "pairs.tsv")], [], [], config)
        texts = (text for pair in corpus for text in (pair.source, pair.target))
        tokenizer = Tokenizer.train(texts, vocab_size=vocab, kind="bpe")
        store, _ = PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config)
        print("| model | what | target tokens/s | of the roof |\n|---|---|---|---|")
        for shape, (preset, changes) in shapes.items():
            size = vocab if on_gpu else len(tokenizer)  # made-up words need fewer pieces; the output layer has them all
            model = Transformer.from_config(
                TransformerConfig.preset(
                    preset, size, size, pad_id=tokenizer.pad_id, eos_id=0, unk_id=1, start_id=tokenizer.pad_id, **changes
                )
            ).to(device)  # fmt: skip
            loaded = LoadedModel(model, tokenizer, tokenizer, SearchConfig(), None, None)
            left = options.seconds - (time.perf_counter() - started)
            rows = found[shape] = {}
            if left > options.seconds / 4 or not on_gpu:
                rows["train"] = train(
                    loaded, store, folder / shape, device, batch_tokens, min(60.0, left / 4) if on_gpu else 0
                )
                rate = rows["train"]["target_tokens_per_second"]
                share = rate * rows["train"]["flop_per_token"] / peak
                print(
                    f"| {shape} | training, {rows['train']['updates']} updates | {rate:,.0f} | {share:.1%} |",
                    flush=True,
                )
            model.eval()
            for batch, beam in ((1, 1), (32, 1), (128, 1), (32, 4)) if on_gpu else ((1, 1), (4, 4)):
                if options.seconds - (time.perf_counter() - started) < 20 and on_gpu:
                    print(f"| {shape} | batch {batch}, beam {beam} | no time left | |")
                    continue
                rate = rows[f"{batch},{beam}"] = decode(model, batch, beam, 3 if on_gpu else 1)
                print(f"| {shape} | batch {batch}, beam {beam} | {rate:,.0f} | |", flush=True)
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
