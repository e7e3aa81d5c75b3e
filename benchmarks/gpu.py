"""One GPU in under eight minutes: training and decoding of base and big, beside the GPU's own limits.

    python benchmarks/gpu.py --json benchmarks/results/gpu.json

Decoding runs the engine `gpu` (bfloat16, recorded steps) with random weights, greedy and with beam 4, every sentence 30
pieces long; at batch 32 beside the readable model, the same in float32, and the steps compiled by `torch.compile` before
they are recorded. "search alone" is our search over logits that cost nothing: no engine gets past it. Training runs the
steps of pellucid's own Trainer (bfloat16 and torch.compile, its defaults on a GPU) on batches of made-up pairs.

Two limits are measured in the same run: the best bfloat16 product of large square matrices, and the copying of a large
piece of memory (bytes read and bytes written). Of the first there is a share for everything, of the second for decoding:
`decoding_floor` has the operations and the fewest bytes, and `training.py` the operations of training. The larger share
says what is in the way, and how far it is.

A part that no time is left for is skipped, and one that fails is named; the run goes on. Without a GPU, or with --tiny,
the same runs in miniature: that shows that the script works, and nothing about speed.
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
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import synthetic
from pellucid.checkpoint import LoadedModel
from pellucid.config import DataConfig, SearchConfig, TrainingConfig, TransformerConfig
from pellucid.data.batching import make_batch, plan_epoch
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.engines.engine import make_engine
from pellucid.engines.linear import Float32Linear, bfloat16_pack
from pellucid.engines.search_engine import Engine, Request, StateEngine
from pellucid.engines.static_cache import CudaGraphs, Run, StaticEngine, StaticExecutor, agrees
from pellucid.model.transformer import Transformer
from pellucid.search import Vocabulary
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer

STEPS = 30
"""Pieces of each translation."""
NEEDED = {"decode": 15.0, "compile": 60.0, "train": 100.0}
"""Seconds that a part can take, its preparation included: with less left it is not begun."""
MEASURED = {"decode": 4.0, "train": 30.0}
"""Seconds of measuring in a part."""


# --- the limits -----------------------------------------------------------------------------------------------------


def now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def best_rate(device: torch.device, work: float, run: Callable[[], object]) -> float:
    """`work` a second in the quickest of ten rounds."""
    best = 0.0
    for _ in range(10):
        started = now(device)
        run()
        best = max(best, work / (now(device) - started))
    return best


def products_a_second(device: torch.device, size: int) -> float:
    """Floating-point operations a second of the best bfloat16 product of random matrices."""
    a, b = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return best_rate(device, 2.0 * size**3, lambda: a @ b)


def bytes_a_second(device: torch.device, size: int) -> float:
    """Of copying `size` bytes, each read once and written once."""
    a = torch.zeros(size, dtype=torch.uint8, device=device)
    b = torch.zeros_like(a)
    return best_rate(device, 2.0 * size, lambda: b.copy_(a))


def decoding_floor(config: TransformerConfig, sources: Sequence[int], steps: int, beam: int) -> tuple[float, float]:
    """The floating-point operations of decoding a batch, and the fewest bytes that must be read for it in bfloat16.

    Operations: all products, a multiplication and an addition each. Bytes: the weights once for the encoder and once a
    step; at each step the keys and values of each hypothesis so far, and those of each source once, whatever the beam.

    Args:
        sources: tokens of each source, the end mark included.
    """
    d, f, layers = config.d_model, config.d_ff, config.num_decoder_layers
    encoder = config.num_encoder_layers * (4 * d * d + 2 * d * f) + 2 * layers * d * d  # with the cross keys and values
    decoder = layers * (6 * d * d + 2 * d * f) + d * config.tgt_vocab
    tokens = sum(sources)
    multiplied = float(encoder * tokens + config.num_encoder_layers * 2 * d * sum(s * s for s in sources))
    read = float(encoder)
    for t in range(1, steps + 1):
        each = 1 if t == 1 else beam  # the first step has one hypothesis a sentence
        rows = each * len(sources)
        multiplied += rows * (decoder + layers * 2 * d * t) + each * layers * 2 * d * tokens
        read += decoder + layers * 2 * d * (rows * t + tokens)
    return 2 * multiplied, 2 * read


def flop_per_target_token(config: TransformerConfig, source_per_target: float) -> float:
    """Of training: see `training.py`."""
    d, f = config.d_model, config.d_ff
    encoder = config.num_encoder_layers * (4 * d * d + 2 * d * f)
    cross = 2 * config.num_decoder_layers * d * d
    decoder = config.num_decoder_layers * (6 * d * d + 2 * d * f)
    return 6.0 * (source_per_target * (encoder + cross) + decoder + d * config.tgt_vocab)


# --- what is measured -----------------------------------------------------------------------------------------------


def train(
    loaded: LoadedModel, store: PairStore, folder: Path, device: torch.device, batch_tokens: int, seconds: float
) -> dict[str, float]:
    """Target tokens a second: the median over updates, the first few (which compile) left out."""
    tokenizer = loaded.source_tokenizer
    config = TrainingConfig(batch_tokens=batch_tokens, device=device.type)
    run = RunFolder(folder)
    trainer = Trainer(loaded, store, None, config, run, device)
    loaded.model.train()
    plan = plan_epoch(store.source_lengths, store.target_lengths, batch_tokens, 1, 0)
    rates: list[float] = []
    sources = targets = updates = 0
    started = now(device)
    while updates < 4 or time.perf_counter() - started < seconds:
        pad = tokenizer.pad_id
        batch = make_batch(store, plan[updates % len(plan)], pad, pad, pad)
        begin = now(device)
        trainer._gradients(batch)
        trainer._scale_and_clip(batch.tgt_tokens)
        trainer._step(1e-4)
        if updates >= 3:
            rates.append(batch.tgt_tokens / (now(device) - begin))
        else:
            started = now(device)  # what is compiled before counts for nothing
        sources, targets, updates = sources + int((batch.src != pad).sum()), targets + batch.tgt_tokens, updates + 1
    run.close()
    loaded.model.eval()
    rate = statistics.median(rates)
    return {
        "target_tokens_per_second": rate, "updates": updates,
        "flops": rate * flop_per_target_token(loaded.model.config, sources / targets),
    }  # fmt: skip


def static_engine(model: Transformer, kind: str) -> Engine:
    """`gpu`, `gpu-float32` or `gpu, compiled`: also on a CPU, where `make_engine` refuses them."""
    device = model.output.weight.device

    def compiled(run: Run) -> Run:
        quick = torch.compile(run, dynamic=False, backend="inductor" if device.type == "cuda" else "aot_eager")
        return CudaGraphs(device)(quick) if device.type == "cuda" else quick

    pack = Float32Linear if kind == "gpu-float32" else bfloat16_pack
    static = StaticExecutor(model, pack, compiled if kind == "gpu, compiled" else None)
    return StaticEngine(kind, static, pad_of(model), vocabulary_of(model))


class Nothing:
    """A state that costs nothing: the same logits at every step."""

    def __init__(self, vocab: int, device: torch.device, src: Tensor) -> None:
        self._logits = torch.randn(len(src), vocab, device=device)

    def step(self, tokens: Tensor) -> Tensor:
        return self._logits

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        self._logits = self._logits[rows]


def engine_named(kind: str, model: Transformer) -> Engine:
    device = model.output.weight.device
    if kind == "search alone":
        nothing = partial(Nothing, model.config.tgt_vocab, device)
        return StateEngine(kind, nothing, pad_of(model), vocabulary_of(model), device)
    if kind == "reference":
        return make_engine(kind, model, pad_of(model), vocabulary_of(model))
    return static_engine(model, kind)


def pad_of(model: Transformer) -> int:
    return model.config.start_id or 0


def vocabulary_of(model: Transformer) -> Vocabulary:
    pad = pad_of(model)
    return Vocabulary(model.config.eos_id, pad, (pad,))


@torch.inference_mode()
def decode(engine: Engine, model: Transformer, batch: int, beam: int, steps: int, seconds: float) -> dict[str, float]:
    """Target tokens a second: the median of up to seven rounds, after one that records and compiles."""
    config, device = model.config, model.output.weight.device
    drawn = random.Random(1)
    sources = [[drawn.randrange(2, pad_of(model)) for _ in range(drawn.randint(10, 30))] + [0] for _ in range(batch)]
    request = Request(sources, [steps] * batch, SearchConfig(beam_size=beam, min_length=steps), scores=False)
    took: list[float] = []
    while len(took) < 2 or (len(took) < 8 and sum(took[1:]) < seconds):
        started = now(device)
        engine.search(request)
        took.append(now(device) - started)
    middle = statistics.median(took[1:])
    flop, read = decoding_floor(config, [len(s) for s in sources], steps + 1, beam)  # a step for the end mark
    return {
        "target_tokens_per_second": batch * steps / middle, "flops": flop / middle, "bytes": read / middle,
        "milliseconds_per_step": 1000 * middle / (steps + 1),
    }  # fmt: skip


# --- the run --------------------------------------------------------------------------------------------------------


class Report:
    """The table, part by part, and the clock."""

    def __init__(self, seconds: float, flops: float, bandwidth: float) -> None:
        self.end = time.perf_counter() + seconds
        self.flops, self.bandwidth = flops, bandwidth
        self.found: dict[str, dict[str, Any]] = {}
        self.left_out: list[str] = []
        print("| model | what | target tokens/s | ms a step | of the bfloat16 roof | of the bandwidth |")
        print("|---|---|---|---|---|---|", flush=True)

    def part(self, model: str, what: str, needed: float, run: Callable[[], dict[str, float]]) -> None:
        """Runs it, if `needed` seconds are left."""
        if self.end - time.perf_counter() < needed:
            self.left_out.append(f"{model}, {what}: no time left")
            return
        try:
            row = run()
        except Exception as error:  # the only run on such a machine for a while: what else works must be seen
            self.left_out.append(f"{model}, {what}: {type(error).__name__}: {' '.join(str(error).split())[:300]}")
            return
        self.found.setdefault(model, {})[what] = row
        step, read = row.get("milliseconds_per_step"), row.get("bytes")
        print(
            f"| {model} | {what} | {row['target_tokens_per_second']:,.0f} | {'' if step is None else f'{step:.2f}'} "
            f"| {row['flops'] / self.flops:.1%} | {'' if read is None else f'{read / self.bandwidth:.1%}'} |",
            flush=True,
        )


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=420, help="for all of it; no part begins later [420]")
    parser.add_argument("--tiny", action="store_true", help="in miniature, as without a GPU")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    started = time.perf_counter()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tiny = options.tiny or device.type == "cpu"
    name = torch.cuda.get_device_name() if device.type == "cuda" else "no GPU: the CPU, for a test of this script"
    flops = products_a_second(device, 256 if tiny else 8192)
    bandwidth = bytes_a_second(device, 1 << (20 if tiny else 31))
    print(
        f"{name}{', in miniature' if tiny else ''}; torch {torch.__version__}; "
        f"bfloat16 {flops / 1e12:,.2f} TFLOP/s; memory {bandwidth / 1e12:,.3f} TB/s\n"
    )
    pairs, vocab, batch_tokens, steps = (300, 400, 256, 4) if tiny else (40_000, 32_000, 25_000, STEPS)
    small = {"d_model": 16, "n_heads": 2, "d_ff": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}
    batches = (
        ((1, 1), (4, 1), (4, 4)) if tiny else ((1, 1), (32, 1), (128, 1), (512, 1), (1, 4), (32, 4), (128, 4), (512, 4))
    )
    beside = 4 if tiny else 32
    limits = dict.fromkeys((*NEEDED, *MEASURED), 0.0)
    needed, measured = (limits, limits) if tiny else (NEEDED, MEASURED)
    report = Report(options.seconds, flops, bandwidth)
    with tempfile.TemporaryDirectory(prefix="pellucid-gpu-") as temporary:
        folder = Path(temporary)
        synthetic.write_tsv(folder / "pairs.tsv", pairs, words=40 if tiny else 2_000)
        config = DataConfig(vocab_size=vocab, tokenizer="bpe")
        corpus = Corpus.from_files([str(folder / "pairs.tsv")], [], [], config)
        texts = (text for pair in corpus for text in (pair.source, pair.target))
        tokenizer = Tokenizer.train(texts, vocab_size=vocab, kind="bpe")
        store, _ = PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config)
        for shape in ("base", "big"):
            size = len(tokenizer) if tiny else vocab  # made-up words need fewer pieces; the output layer has them all
            model = Transformer.from_config(
                TransformerConfig.preset(
                    "tiny" if tiny else shape, size, size, pad_id=tokenizer.pad_id, eos_id=0, unk_id=1,
                    start_id=tokenizer.pad_id, **(small if tiny else {}),
                )
            ).to(device).eval()  # fmt: skip
            for pack in (bfloat16_pack, Float32Linear):
                if not agrees(StaticExecutor(model, pack), model):
                    report.left_out.append(f"{shape}: the engine's trial fails with {pack.__name__}")

            def measure(engine: Engine, batch: int, beam: int, model: Transformer = model) -> dict[str, float]:
                return decode(engine, model, batch, beam, steps, measured["decode"])

            engine = static_engine(model, "gpu")
            for batch, beam in batches:
                what = f"gpu, batch {batch}, beam {beam}"
                report.part(shape, what, needed["decode"], partial(measure, engine, batch, beam))
            del engine
            loaded = LoadedModel(model, tokenizer, tokenizer, SearchConfig(), None, None)
            training = partial(train, loaded, store, folder / shape, device, batch_tokens, measured["train"])
            report.part(shape, "training", needed["train"], training)
            for kind, beam in (
                ("reference", 1), ("reference", 4), ("search alone", 1), ("search alone", 4), ("gpu-float32", 1),
                ("gpu, compiled", 1),
            ):  # fmt: skip
                other = needed["compile" if kind == "gpu, compiled" else "decode"]
                made = partial(engine_named, kind, model)
                report.part(
                    shape, f"{kind}, batch {beside}, beam {beam}", other,
                    lambda made=made, beam=beam, measure=measure: measure(made(), beside, beam),
                )  # fmt: skip
            del model, loaded, training, made, measure
    if report.left_out:
        print("\nLeft out:\n\n" + "\n".join(f"- {line}" for line in report.left_out))
    print(f"\n{time.perf_counter() - started:.0f} s")
    if options.json:
        found = {"device": name, "torch": torch.__version__, "flops": flops, "bandwidth": bandwidth}
        whole = {**found, "models": report.found, "left_out": report.left_out}
        options.json.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
