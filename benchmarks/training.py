"""How fast does pellucid train? The tiny model beside its peers, on the same batches, in one run.

All train a Transformer of 4 + 4 layers, width 128, feed-forward 256, 4 heads, dropout 0.3, one embedding matrix for
source, target and output (10,000 pieces), label smoothing 0.1, Adam; one update a batch, and all have the same batches
(pooled by length, as pellucid makes them). They take turns: round by round each trains on a few batches, so that
whatever else the machine does falls on all of them. What is timed is the update alone, from token ids to new weights;
reading and batching are done before.

    pellucid    the steps of pellucid's own Trainer: fused linear + cross-entropy, its dropout, fused Adam
    torch       a plain loop: torch.nn.Transformer, F.cross_entropy, fused Adam. Its one dropout rate counts for
                attention weights and inside the feed-forward network too
    marian      Hugging Face MarianMT (if `transformers` is installed) with F.cross_entropy, fused Adam;
                attention and activation dropout 0, which are its defaults
    joeynmt     JoeyNMT 2.3 as it comes (if installed, or --joeynmt names a checkout): its model from its `build_model`,
                its Batch, its XentLoss, its `build_optimizer` (Adam), and its `_train_step` line by line, with all
                that it computes there (sorting by source length, accuracy). Its four special symbols come first, so
                ids are shifted and its vocabulary has one entry more. Its loss is a divergence, lower by the entropy
                of the smoothed targets
    joeynmt-own the same, with batches as JoeyNMT makes them (its TokenBatchSampler over a random order): what
                somebody gets who trains with it. It does not sort by length, so half of such a batch is padding

The roof is the best float32 product of large square matrices with the same number of threads, measured in the same
rounds. On a machine that others use too, look at the columns by processor time (of all threads), with --threads 1. How much of it a trainer reaches follows from the multiplications and additions that a target token needs:

    6 (r (P_enc + P_cross) + P_dec + P_out),    r = source tokens / target tokens
    P_enc = L (4 d^2 + 2 d f),  P_cross = 2 L d^2,  P_dec = L (6 d^2 + 2 d f),  P_out = d V

(a forward pass is one multiplication and one addition per weight, a backward pass twice that; attention's own products
are not counted, nor is padding: it is not useful).
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import contextlib
import importlib.util
import itertools
import json
import math
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import synthetic
from pellucid.checkpoint import LoadedModel
from pellucid.config import DataConfig, SearchConfig, TrainingConfig, TransformerConfig
from pellucid.data.batching import Batch, make_batch, plan_epoch, useful_share
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer
from pellucid.machine import available_cores, keep_freed_memory
from pellucid.model.transformer import Transformer
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer

LAYERS, WIDTH, FEED_FORWARD, HEADS = 4, 128, 256, 4
DROPOUT, SMOOTHING, RATE = 0.3, 0.1, 5e-4
BETAS, EPSILON = (0.9, 0.98), 1e-9
LONGEST = 512
MULTI30K = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "multi30k" / "tok"
MULTI30K_WORDS = 13.0
SQUARES = (1024, 2048, 4096)

Step = Callable[[Batch], float]
"""Trains on one batch; the smoothed loss of a target token."""


@dataclass
class Result:
    name: str
    version: str
    parameters: int
    tokens_per_second: list[float] = field(default_factory=list)
    """Target tokens, round by round."""
    tokens_per_cpu_second: list[float] = field(default_factory=list)
    """The same by processor time of all threads, which other work on the machine disturbs less."""
    losses: list[float] = field(default_factory=list)
    """A token's, of the last batch of each round: they fall, or something is not training."""


# --- the trainers -------------------------------------------------------------------------------------------------------


def our_step(tokenizer: Tokenizer, store: PairStore, batch_tokens: int, run: RunFolder) -> tuple[Step, int]:
    """The middle of `Trainer.run`: gradients, the mean over tokens, Adam."""
    shape = TransformerConfig.preset(
        "tiny", len(tokenizer), len(tokenizer), d_model=WIDTH, n_heads=HEADS, num_encoder_layers=LAYERS,
        num_decoder_layers=LAYERS, d_ff=FEED_FORWARD, dropout=DROPOUT, pad_id=tokenizer.pad_id,
        eos_id=tokenizer.eos_id, unk_id=tokenizer.unk_id, start_id=tokenizer.pad_id,
    )  # fmt: skip
    model = Transformer.from_config(shape)
    loaded = LoadedModel(model, tokenizer, tokenizer, SearchConfig(), None, None)
    config = TrainingConfig(batch_tokens=batch_tokens, label_smoothing=SMOOTHING, device="cpu")
    trainer = Trainer(loaded, store, None, config, run, torch.device("cpu"))
    model.train()

    def step(batch: Batch) -> float:
        loss, _ = trainer._gradients(batch)
        trainer._scale_and_clip(batch.tgt_tokens)
        trainer._step(RATE)
        return loss / batch.tgt_tokens

    return step, _parameters(model)


class PlainTransformer(nn.Module):
    """What a tutorial builds around `torch.nn.Transformer`."""

    def __init__(self, vocab: int, pad_id: int) -> None:
        super().__init__()
        self.pad_id = pad_id
        self.embedding = nn.Embedding(vocab, WIDTH, padding_idx=pad_id)
        nn.init.normal_(self.embedding.weight, std=WIDTH**-0.5)
        place = torch.arange(LONGEST)[:, None] * torch.exp(torch.arange(0, WIDTH, 2) * (-math.log(10000.0) / WIDTH))
        self.positions: Tensor
        self.register_buffer("positions", torch.stack([place.sin(), place.cos()], -1).flatten(1))
        self.dropout = nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(WIDTH, HEADS, LAYERS, LAYERS, FEED_FORWARD, DROPOUT, batch_first=True)
        self.output = nn.Linear(WIDTH, vocab, bias=False)
        self.output.weight = self.embedding.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        padding = src == self.pad_id
        causal = nn.Transformer.generate_square_subsequent_mask(tgt.size(1), dtype=torch.bool)
        hidden = self.transformer(
            self._embed(src), self._embed(tgt), tgt_mask=causal, src_key_padding_mask=padding,
            memory_key_padding_mask=padding, tgt_is_causal=True,
        )  # fmt: skip
        return self.output(hidden)

    def _embed(self, ids: Tensor) -> Tensor:
        return self.dropout(self.embedding(ids) * math.sqrt(WIDTH) + self.positions[: ids.size(1)])


def _cross_entropy_step(model: nn.Module, logits: Callable[[Tensor, Tensor], Tensor], pad_id: int) -> Step:
    optimizer = torch.optim.Adam(model.parameters(), RATE, BETAS, EPSILON, fused=True)
    model.train()

    def step(batch: Batch) -> float:
        src, tgt_in, tgt_out = (torch.from_numpy(ids) for ids in (batch.src, batch.tgt_in, batch.tgt_out))
        optimizer.zero_grad()
        loss = F.cross_entropy(
            logits(src, tgt_in).flatten(0, 1), tgt_out.flatten(), ignore_index=pad_id, label_smoothing=SMOOTHING
        )
        loss.backward()
        optimizer.step()
        return loss.item()

    return step


def torch_step(vocab: int, pad_id: int) -> tuple[Step, int]:
    model = PlainTransformer(vocab, pad_id)
    return _cross_entropy_step(model, model, pad_id), _parameters(model)


def marian_step(vocab: int, pad_id: int, eos_id: int) -> tuple[Step, int]:
    from transformers import MarianConfig, MarianMTModel

    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", FEED_FORWARD))
    }
    model = MarianMTModel(
        MarianConfig(
            vocab_size=vocab, d_model=WIDTH, **sides, dropout=DROPOUT, activation_function="relu",
            attention_dropout=0.0, activation_dropout=0.0, scale_embedding=True, max_position_embeddings=LONGEST,
            pad_token_id=pad_id, eos_token_id=eos_id, decoder_start_token_id=pad_id, forced_eos_token_id=eos_id,
        )
    )  # fmt: skip

    def logits(src: Tensor, tgt: Tensor) -> Tensor:
        return model(input_ids=src, attention_mask=src != pad_id, decoder_input_ids=tgt, use_cache=False).logits

    return _cross_entropy_step(model, logits, pad_id), _parameters(model)


JOEY_SPECIALS = ("unk", "pad", "bos", "eos")


def joeynmt_step(vocab: int, pad_id: int, eos_id: int, unk_id: int) -> tuple[Step, int]:
    """`TrainManager._train_step` and the update of `TrainManager.train_and_validate`, with JoeyNMT's own parts."""
    from types import SimpleNamespace

    from joeynmt.batch import Batch as JoeyBatch
    from joeynmt.builders import build_optimizer
    from joeynmt.model import build_model
    from joeynmt.vocabulary import Vocabulary

    special = {f"{name}_id": i for i, name in enumerate(JOEY_SPECIALS)}
    special_tokens = {f"{name}_token": f"<{name}>" for name in JOEY_SPECIALS}
    names = SimpleNamespace(**special, **special_tokens, sep_token=None, sep_id=None, lang_tags=[])
    pieces = [i for i in range(vocab) if i not in (pad_id, eos_id, unk_id)]
    vocabulary = Vocabulary([f"piece{i}" for i in pieces], names)
    new_id = np.zeros(vocab, np.int64)  # our id -> JoeyNMT's
    new_id[pieces] = len(JOEY_SPECIALS) + np.arange(len(pieces))
    new_id[[pad_id, eos_id, unk_id]] = special["pad_id"], special["eos_id"], special["unk_id"]

    side = {
        "type": "transformer", "num_layers": LAYERS, "num_heads": HEADS, "hidden_size": WIDTH,
        "ff_size": FEED_FORWARD, "dropout": DROPOUT, "layer_norm": "post", "activation": "relu",
        "embeddings": {"embedding_dim": WIDTH, "scale": True, "dropout": DROPOUT},
    }  # fmt: skip
    model = build_model(
        {"tied_embeddings": True, "tied_softmax": True, "encoder": side, "decoder": side}, vocabulary, vocabulary
    )
    model.loss_function = ("crossentropy", SMOOTHING)
    optimizer = build_optimizer(
        {"optimizer": "adam", "learning_rate": RATE, "adam_betas": BETAS}, parameters=model.parameters()
    )
    device = torch.device("cpu")

    def step(batch: Batch) -> float:
        rows = len(batch.src)
        target = np.full((rows, batch.tgt_out.shape[1] + 1), special["bos_id"])  # it wants the start and the end
        target[:, 1:] = new_id[batch.tgt_out]
        joey = JoeyBatch(
            src=torch.from_numpy(new_id[batch.src]), src_length=torch.from_numpy((batch.src != pad_id).sum(1)),
            src_prompt_mask=None, trg=torch.from_numpy(target), trg_prompt_mask=None, indices=torch.arange(rows),
            device=device, pad_index=special["pad_id"], eos_index=special["eos_id"],
        )  # fmt: skip
        model.train()
        joey.sort_by_src_length()
        batch_loss, _, _, correct = model(return_type="loss", **vars(joey))
        loss = joey.normalize(batch_loss, normalization="tokens", n_gpu=0, n_accumulation=1)
        correct = joey.normalize(correct, "sum", 0)
        loss.backward()
        loss, correct = loss.item(), correct.item()
        optimizer.step()
        model.zero_grad()
        return float(loss)

    return step, _parameters(model)


def joeynmt_batches(store: PairStore, batch_tokens: int) -> Iterator[np.ndarray]:
    """Pair numbers, batch by batch and epoch by epoch, from JoeyNMT's sampler (its `batch_type: "token"`)."""
    from joeynmt.datasets import TokenBatchSampler

    class Pairs:
        indices = range(len(store))

        def __getitem__(self, i: int) -> tuple[int, np.ndarray, np.ndarray]:
            return i, store.source(i)[:-1], store.target(i)[:-1]  # it adds the end marks itself

    class RandomOrder:
        data_source = Pairs()
        random = np.random.default_rng(1)

        def __iter__(self) -> Iterator[int]:
            return iter(self.random.permutation(len(store)).tolist())

    while True:
        yield from map(np.array, TokenBatchSampler(RandomOrder(), batch_size=batch_tokens, drop_last=False, seed=1))


def _parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


# --- data ---------------------------------------------------------------------------------------------------------------


def prepare(folder: Path, pairs: int, vocab_size: int) -> tuple[Tokenizer, PairStore, str]:
    """Tokenizer, store, and what the pairs are: Multi30k's training part if it is here, else made up."""
    config = DataConfig(vocab_size=vocab_size, tokenizer="bpe")
    source, target = (MULTI30K / f"train.lc.norm.tok.{language}.xz" for language in ("en", "de"))
    if source.exists() and target.exists() and not pairs:
        what = "Multi30k en-de, lc.norm.tok, train"
        corpus = Corpus.from_files([], [str(source)], [str(target)], config)
    else:
        tsv = folder / "pairs.tsv"
        pairs = pairs or 29_000
        synthetic.write_tsv(tsv, pairs, mean=MULTI30K_WORDS)
        what = f"{pairs:,} made-up pairs of about {MULTI30K_WORDS:g} words"
        corpus = Corpus.from_files([str(tsv)], [], [], config)
    texts = (text for pair in corpus for text in (pair.source, pair.target))
    tokenizer = Tokenizer.train(texts, vocab_size=vocab_size, kind=config.tokenizer)
    store, _ = PairStore.build(folder / "store", corpus, tokenizer, tokenizer, config)
    return tokenizer, store, what


# --- measuring ----------------------------------------------------------------------------------------------------------


class Roof:
    """The best rate of float32 matrix products seen so far, in floating-point operations a second."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.best, self.size, self.best_cpu = 0.0, 0, 0.0
        self._matrices: list[tuple[int, Tensor]] = [(n, torch.randn(3, n, n)) for n in sizes]

    def measure(self) -> None:
        for n, (a, b, out) in self._matrices:
            for _ in range(max(2, (4096 // n) ** 2 // 2)):
                started, cpu_started = time.perf_counter(), time.process_time()
                torch.mm(a, b, out=out)
                seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
                if 2 * n**3 / seconds > self.best:
                    self.best, self.size = 2 * n**3 / seconds, n
                self.best_cpu = max(self.best_cpu, 2 * n**3 / cpu_seconds)


def flop_per_target_token(vocab: int, source_per_target: float) -> float:
    """See the top of this file."""
    d, f = WIDTH, FEED_FORWARD
    encoder, cross = LAYERS * (4 * d * d + 2 * d * f), 2 * LAYERS * d * d
    decoder, output = LAYERS * (6 * d * d + 2 * d * f), d * vocab
    return 6.0 * (source_per_target * (encoder + cross) + decoder + output)


def measure(
    steps: dict[str, Step], results: dict[str, Result], rounds: dict[str, list[list[Batch]]], roof: Roof
) -> None:
    """Every round, each trainer on its batches, in another order each time. The first round only warms up."""
    names = list(steps)
    count = len(rounds[names[0]])
    for number in range(count):
        roof.measure()
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            batches, result = rounds[name][number], results[name]
            tokens = sum(batch.tgt_tokens for batch in batches)
            started, cpu_started = time.perf_counter(), time.process_time()
            for batch in batches:
                loss = steps[name](batch)
            seconds, cpu_seconds = time.perf_counter() - started, time.process_time() - cpu_started
            if number:
                result.tokens_per_second.append(tokens / seconds)
                result.tokens_per_cpu_second.append(tokens / cpu_seconds)
                result.losses.append(loss)
        rates = "  ".join(f"{n} {r.tokens_per_second[-1]:,.0f}" for n, r in results.items() if r.tokens_per_second)
        print(f"round {number} of {count - 1}: {rates or 'warming up'}", file=sys.stderr, flush=True)


def report(results: dict[str, Result], roof: Roof, flop: float) -> tuple[str, dict[str, Any]]:
    """A table in Markdown, and the same for JSON."""
    ours = results["pellucid"]
    lines = [
        "| trainer | parameters | target tokens/s: median (lowest to highest) | pellucid is faster | of the roof "
        "| by processor time: tokens/s | pellucid is faster | of the roof | loss: first, last |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    rows: dict[str, Any] = {}
    for name, result in results.items():
        cells = [f"{name} ({result.version})", f"{result.parameters:,}"]
        row = asdict(result)
        for key, best in (("tokens_per_second", roof.best), ("tokens_per_cpu_second", roof.best_cpu)):
            rates, our_rates = getattr(result, key), getattr(ours, key)
            median = statistics.median(rates)
            # Round by round, because both had the same company on the machine then.
            ratio = statistics.median(a / b for a, b in zip(our_rates, rates, strict=True))
            spread = f" ({min(rates):,.0f} to {max(rates):,.0f})" if key == "tokens_per_second" else ""
            cells += [f"{median:,.0f}{spread}", f"× {ratio:.2f}", f"{median * flop / best:.1%}"]
            row[key] = {
                "rounds": rates, "median": median, "pellucid_is_faster": ratio, "share_of_roof": median * flop / best,
            }  # fmt: skip
        cells.append(f"{result.losses[0]:.3f}, {result.losses[-1]:.3f}")
        lines.append(f"| {' | '.join(cells)} |")
        rows[name] = row
    return "\n".join(lines), rows


def trainers(
    options: argparse.Namespace, tokenizer: Tokenizer, store: PairStore, run: RunFolder
) -> tuple[dict[str, Step], dict[str, Result]]:
    """Those that are installed and wanted; says which are not."""
    vocab, pad, eos, unk = len(tokenizer), tokenizer.pad_id, tokenizer.eos_id, tokenizer.unk_id
    if options.joeynmt:
        sys.path.insert(0, str(options.joeynmt))
    makers: dict[str, tuple[str, Callable[[], tuple[Step, int]]]] = {
        "pellucid": ("pellucid", lambda: our_step(tokenizer, store, options.batch_tokens, run)),
        "torch": ("torch", lambda: torch_step(vocab, pad)),
        "marian": ("transformers", lambda: marian_step(vocab, pad, eos)),
        "joeynmt": ("joeynmt", lambda: joeynmt_step(vocab, pad, eos, unk)),
        "joeynmt-own": ("joeynmt", lambda: joeynmt_step(vocab, pad, eos, unk)),
    }
    steps: dict[str, Step] = {}
    results: dict[str, Result] = {}
    for name, (module, make) in makers.items():
        if options.only and module not in options.only and name not in (*options.only, "pellucid"):
            continue
        if importlib.util.find_spec(module) is None:
            hint = "pip install transformers" if name == "marian" else "--joeynmt FOLDER of a checkout"
            print(f"{name} is left out: there is no module {module} ({hint})", file=sys.stderr)
            continue
        torch.manual_seed(1)
        steps[name], parameters = make()
        version = getattr(importlib.import_module(module), "__version__", "")
        results[name] = Result(name, version, parameters)
    return steps, results


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: the cores that this process may use")
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=7, help="that count; one more warms up")
    parser.add_argument("--batches", type=int, default=4, help="of each trainer in each round")
    parser.add_argument("--pairs", type=int, default=0, help="made-up pairs even if Multi30k is here")
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--only", action="append", choices=["torch", "marian", "joeynmt"], help="peers; repeatable")
    parser.add_argument("--joeynmt", type=Path, help="a checkout of JoeyNMT, if it is not installed")
    parser.add_argument("--roof-size", type=int, action="append", help=f"of square matrices; {SQUARES} unless given")
    parser.add_argument("--json", type=Path, help="write all numbers here")
    options = parser.parse_args(arguments)
    if options.rounds < 1 or options.batches < 1:
        parser.error("--rounds and --batches must be at least 1")
    threads = options.threads or available_cores()
    torch.set_num_threads(threads)
    keep_freed_memory()  # as `pellucid train` does; here all trainers have it

    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="pellucid-bench-")))
        run = stack.enter_context(contextlib.closing(RunFolder(folder / "run")))
        tokenizer, store, what = prepare(folder, options.pairs, options.vocab_size)
        plan = plan_epoch(store.source_lengths, store.target_lengths, options.batch_tokens, 1, 0)
        pad = tokenizer.pad_id

        def in_rounds(chosen: Iterator[np.ndarray]) -> list[list[Batch]]:
            return [
                [make_batch(store, next(chosen), pad, pad, pad) for _ in range(options.batches)]
                for _ in range(options.rounds + 1)
            ]

        pooled = in_rounds(itertools.cycle(plan))
        used = [batch for batches in pooled[1:] for batch in batches]
        source_per_target = sum(b.src_tokens for b in used) / sum(b.tgt_tokens for b in used)
        flop = flop_per_target_token(len(tokenizer), source_per_target)
        useful = useful_share(plan, store.source_lengths, store.target_lengths)
        steps, results = trainers(options, tokenizer, store, run)
        rounds = dict.fromkeys(steps, pooled)
        if "joeynmt-own" in steps:
            rounds["joeynmt-own"] = in_rounds(joeynmt_batches(store, options.batch_tokens))
        roof = Roof(options.roof_size or SQUARES)
        load = os.getloadavg()[0]
        measure(steps, results, rounds, roof)
    table, rows = report(results, roof, flop)
    setting = {
        "data": what, "pieces": len(tokenizer), "batch_tokens": options.batch_tokens, "threads": threads,
        "rounds": options.rounds, "batches_a_round": options.batches, "useful_share": useful,
        "source_per_target": source_per_target, "flop_per_target_token": flop, "roof_flop_per_second": roof.best,
        "roof_flop_per_cpu_second": roof.best_cpu, "roof_matrix_size": roof.size, "load_before": load, "torch": torch.__version__,
        "python": platform.python_version(), "processor": _processor(),
    }  # fmt: skip
    print(
        f"{what}; {len(tokenizer):,} pieces; batches of {options.batch_tokens:,} padded tokens, {useful:.1%} of them "
        f"useful; {threads} thread(s) of {_processor()}; torch {torch.__version__}; {options.rounds} rounds of "
        f"{options.batches} updates each; load of the machine before: {load:.1f}.\n"
        f"Source tokens to a target token {source_per_target:.3f}; {flop / 1e6:.2f} MFLOP a target token; the roof, "
        f"{roof.best / 1e9:.0f} GFLOP/s (n = {roof.size}; {roof.best_cpu / 1e9:.0f} by processor time), would be "
        f"{roof.best / flop:,.0f} target tokens/s.\n"
    )
    print(table)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps({"setting": setting, "trainers": rows}, indent=1) + "\n", encoding="utf-8")


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    main()
