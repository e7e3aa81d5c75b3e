"""How fast does pellucid translate on a CPU? Its engines beside their peers: the same weights, sentences and batches.

    torch           pellucid's engine, float32                      (--engine torch)
    torch-int8      the same, int8 with calibrated inputs           (--engine torch-int8 of a quantized model)
    reference       the model as it is read, cached step by step    (--engine reference)
    ct2             CTranslate2, float32, if it is installed, by its own `translate_batch`
    ct2-int8        CTranslate2, int8
    marian          Hugging Face MarianMT `generate` with these weights, if `transformers` is installed
    joeynmt         JoeyNMT's search with a model of this shape, if it is installed or --joeynmt names a checkout. Its
                    weights are its own; it keeps no cache
    no-cache        the model as it is read, the whole prefix decoded anew at each step (greedy only)

Models: `tiny` (4 + 4 layers, width 128, 10,000 pieces), `base` (6 + 6, width 512, 32,000) and `12+1` (12 + 1 of base's).
Their weights are random, sources have 10 to 30 made-up pieces, and every engine writes exactly 30 pieces: what is
measured is speed alone. With --model it is a trained model of yours and --src its text, and sentences end by themselves.

The engines take turns: in each round each translates the same batches, so that whatever else the machine does falls on
all of them. Ratios are medians over the rounds. On a busy machine look at the times of the processor (of all threads),
--threads 1. Beam search runs with beam 4, and the engines end a sentence by rules of their own.
"""

from __future__ import annotations

import os

os.environ.setdefault("GOMP_SPINCOUNT", "1000")  # before torch: see pellucid/__init__.py

import argparse
import importlib.util
import json
import platform
import random
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from pellucid.checkpoint import load_model
from pellucid.config import SearchConfig, TransformerConfig
from pellucid.engines.executor import Executor
from pellucid.engines.linear import Float32Linear, Observer, Pack, int8_pack
from pellucid.engines.search_engine import Request, StateEngine, padded
from pellucid.machine import available_cores, processor_name
from pellucid.model.masks import generate_mask
from pellucid.model.transformer import DecoderState, Transformer
from pellucid.search import Vocabulary

SHAPES: dict[str, tuple[str, int, dict[str, int]]] = {
    "tiny": ("tiny", 10_000, {}),
    "base": ("base", 32_000, {}),
    "12+1": ("base", 32_000, {"num_encoder_layers": 12, "num_decoder_layers": 1}),
    "smoke": ("tiny", 200, {"d_model": 16, "d_ff": 16, "num_encoder_layers": 1, "num_decoder_layers": 1}),
}
STEPS = 30
BEAM = 4
ENGINES = ("torch-int8", "torch", "reference", "ct2-int8", "ct2", "marian", "joeynmt", "no-cache")
AGAINST = "ct2-int8"

Batch = list[list[int]]
"""Source ids, each with the end mark."""
Run = Callable[[Batch, int], list[list[int]]]
"""Translates a batch with a beam of so many: target ids without end marks."""


@dataclass
class Workload:
    """What is translated, and with which model."""

    name: str
    model: Transformer
    vocabulary: Vocabulary
    sources: Batch
    steps: int
    """Pieces that every translation has; 0: it ends by itself."""
    length_penalty: float

    def batches(self, rows: int, sentences: int) -> list[Batch]:
        some = sorted(self.sources[:sentences], key=len, reverse=True)
        return [some[i : i + rows] for i in range(0, len(some), rows)]

    def longest(self, source: Sequence[int]) -> int:
        return self.steps or len(source) - 1 + 50


@dataclass
class Times:
    seconds: list[float] = field(default_factory=list)
    processor_seconds: list[float] = field(default_factory=list)
    tokens: int = 0
    """Pieces that it wrote in one round, end marks counted."""


# --- the engines --------------------------------------------------------------------------------------------------------


def ours(workload: Workload, pack: Pack | None) -> Run:
    """`pack` None: the model as it is read."""
    model, vocabulary = workload.model, workload.vocabulary
    pad = vocabulary.start_id
    make = (lambda src: DecoderState(model, src)) if pack is None else Executor(model, pack).state
    engine = StateEngine("", make, pad, vocabulary, torch.device("cpu"))

    def run(batch: Batch, beam: int) -> list[list[int]]:
        config = SearchConfig(beam_size=beam, length_penalty=workload.length_penalty, min_length=workload.steps)
        found = engine.search(Request(batch, [workload.longest(s) for s in batch], config, scores=False))
        return [list(h[0].tokens) for h in found]

    return run


def calibrated(workload: Workload) -> Pack:
    """int8, with ranges seen on other sentences of the same kind."""
    observer = Observer()
    run = ours(workload, observer)
    for batch in workload.batches(8, len(workload.sources))[-4:]:
        run(batch, 1)
    pack = int8_pack(observer.ranges)
    if pack is None:
        raise SystemExit("this machine has no working int8")
    return pack


def ctranslate2(workload: Workload, compute_type: str) -> Run:
    from pellucid.interop.ctranslate2 import load_ctranslate2

    vocabulary = workload.vocabulary
    translator = load_ctranslate2(
        workload.model, vocabulary.start_id, vocabulary.forbidden, compute_type, torch.get_num_threads()
    )

    def run(batch: Batch, beam: int) -> list[list[int]]:
        results = translator.translate_batch(
            [[str(i) for i in source] for source in batch],
            beam_size=beam,
            length_penalty=workload.length_penalty,
            max_input_length=0,
            max_decoding_length=max(workload.longest(s) for s in batch),
            min_decoding_length=workload.steps,
        )
        return [[int(i) for i in r.hypotheses[0]] for r in results]

    return run


def marian(workload: Workload) -> Run:
    """MarianMT is post-norm; our positions take the place of its own."""
    from transformers import MarianConfig, MarianMTModel
    from transformers.utils import logging

    logging.set_verbosity_error()
    model, config, vocabulary = workload.model, workload.model.config, workload.vocabulary
    if config.norm != "post":
        raise NotAvailable("MarianMT is post-norm, this model is not")
    longest = 512
    theirs = MarianMTModel(
        MarianConfig(
            vocab_size=config.src_vocab, decoder_vocab_size=config.tgt_vocab, d_model=config.d_model,
            encoder_layers=config.num_encoder_layers, decoder_layers=config.num_decoder_layers,
            encoder_attention_heads=config.n_heads, decoder_attention_heads=config.n_heads,
            encoder_ffn_dim=config.d_ff, decoder_ffn_dim=config.d_ff, activation_function="relu", scale_embedding=True,
            max_position_embeddings=longest, pad_token_id=vocabulary.start_id, eos_token_id=vocabulary.eos_id,
            decoder_start_token_id=vocabulary.start_id, forced_eos_token_id=None,
            share_encoder_decoder_embeddings=config.src_vocab == config.tgt_vocab,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        theirs.lm_head.weight.copy_(model.output.weight)
        theirs.final_logits_bias.zero_()
        for side, embedding, positions, stack in (
            (theirs.model.encoder, model.src_embedding, model.src_positions, model.encoder),
            (theirs.model.decoder, model.tgt_embedding, model.tgt_positions, model.decoder),
        ):
            side.embed_tokens.weight.copy_(embedding.weight)
            side.embed_positions.weight.copy_(positions.table[:longest])
            for their_layer, layer in zip(side.layers, stack.layers, strict=True):
                pairs = [(their_layer.self_attn, layer.self_attention)]
                norms = [(their_layer.self_attn_layer_norm, layer.add_norm_1)]
                if hasattr(layer, "cross_attention"):
                    pairs.append((their_layer.encoder_attn, layer.cross_attention))
                    norms += [
                        (their_layer.encoder_attn_layer_norm, layer.add_norm_2),
                        (their_layer.final_layer_norm, layer.add_norm_3),
                    ]
                else:
                    norms.append((their_layer.final_layer_norm, layer.add_norm_2))
                maps = [(their_layer.fc1, layer.feed_forward.w_1), (their_layer.fc2, layer.feed_forward.w_2)]
                for attention, own in pairs:
                    maps += [
                        (attention.q_proj, own.w_q), (attention.k_proj, own.w_k), (attention.v_proj, own.w_v),
                        (attention.out_proj, own.w_o),
                    ]  # fmt: skip
                for theirs_, own_ in [*maps, *((n, a.norm) for n, a in norms)]:
                    theirs_.weight.copy_(own_.weight)
                    theirs_.bias.copy_(own_.bias)
    pad = vocabulary.start_id

    def run(batch: Batch, beam: int) -> list[list[int]]:
        src = padded(batch, pad, torch.device("cpu"))
        steps = {"min_new_tokens": workload.steps} if workload.steps else {}
        out = theirs.generate(
            input_ids=src, attention_mask=src != pad, num_beams=beam, do_sample=False, bad_words_ids=[[pad]],
            length_penalty=workload.length_penalty, max_new_tokens=max(workload.longest(s) for s in batch), **steps,
        )  # fmt: skip
        return [_until(row[1:], vocabulary) for row in out.tolist()]

    return run


def joeynmt(workload: Workload) -> Run:
    from types import SimpleNamespace

    from joeynmt.model import build_model
    from joeynmt.search import search
    from joeynmt.vocabulary import Vocabulary as Names

    config = workload.model.config
    specials = ("unk", "pad", "bos", "eos")
    ids = {f"{name}_id": i for i, name in enumerate(specials)}
    tokens = {f"{name}_token": f"<{name}>" for name in specials}
    names = Names(
        [f"piece{i}" for i in range(config.tgt_vocab - len(specials))],
        SimpleNamespace(**ids, **tokens, sep_token=None, sep_id=None, lang_tags=[]),
    )

    def side(layers: int) -> dict[str, Any]:
        return {
            "type": "transformer", "num_layers": layers, "num_heads": config.n_heads, "hidden_size": config.d_model,
            "ff_size": config.d_ff, "dropout": 0.1, "layer_norm": "post", "activation": "relu",
            "embeddings": {"embedding_dim": config.d_model, "scale": True, "dropout": 0.1},
        }  # fmt: skip

    sides = {"encoder": side(config.num_encoder_layers), "decoder": side(config.num_decoder_layers)}
    model = build_model({"tied_embeddings": True, "tied_softmax": True, **sides}, names, names).eval()

    def run(batch: Batch, beam: int) -> list[list[int]]:
        src = padded([[i % config.src_vocab for i in s] for s in batch], ids["pad_id"], torch.device("cpu"))
        longest = max(workload.longest(s) for s in batch)
        joey_batch = SimpleNamespace(
            src=src, src_length=torch.tensor([len(s) for s in batch]), src_mask=(src != ids["pad_id"]).unsqueeze(1),
            nseqs=len(batch), trg=None, trg_input=None, trg_prompt_mask=None, has_trg=False, src_prompt_mask=None,
        )  # fmt: skip
        found, _, _ = search(
            model=model, batch=joey_batch, max_output_length=longest, beam_size=beam,
            beam_alpha=workload.length_penalty, n_best=1, min_output_length=workload.steps or 1, generate_unk=True,
        )  # fmt: skip
        return [[int(i) for i in row if i != ids["eos_id"] and i != ids["pad_id"]] for row in found]

    return run


def no_cache(workload: Workload) -> Run:
    model, vocabulary = workload.model, workload.vocabulary
    pad = vocabulary.start_id

    def run(batch: Batch, beam: int) -> list[list[int]]:
        if beam > 1:
            raise NotAvailable("greedy only")
        src = padded(batch, pad, torch.device("cpu"))
        mask = model.padding_mask(src)
        memory = model.encode(src, mask)
        tgt = torch.full((len(batch), 1), vocabulary.start_id)
        over = torch.zeros(len(batch), dtype=torch.bool)
        longest = max(workload.longest(s) for s in batch)
        while tgt.size(1) <= longest and not over.all():
            x = model.decode(tgt, memory, generate_mask(tgt.size(1)), mask)
            logits = model.project(x[:, -1])
            logits[:, list(vocabulary.forbidden)] = float("-inf")
            if tgt.size(1) <= workload.steps:
                logits[:, vocabulary.eos_id] = float("-inf")
            newest = logits.argmax(-1)
            tgt = torch.cat([tgt, newest[:, None]], 1)
            over |= newest == vocabulary.eos_id
        return [_until(row[1:], vocabulary) for row in tgt.tolist()]

    return run


class NotAvailable(Exception):
    """With the reason."""


def _until(ids: Sequence[int], vocabulary: Vocabulary) -> list[int]:
    kept: list[int] = []
    for i in ids:
        if i == vocabulary.eos_id or i in vocabulary.forbidden:
            break
        kept.append(i)
    return kept


def make(name: str, workload: Workload) -> Run:
    """Raises NotAvailable."""
    needs = {"ct2": "ctranslate2", "marian": "transformers", "joeynmt": "joeynmt"}.get(name.removesuffix("-int8"))
    if needs and importlib.util.find_spec(needs) is None:
        raise NotAvailable(f"{needs} is not installed")
    return {
        "torch": lambda: ours(workload, Float32Linear),
        "torch-int8": lambda: ours(workload, calibrated(workload)),
        "reference": lambda: ours(workload, None),
        "ct2": lambda: ctranslate2(workload, "float32"),
        "ct2-int8": lambda: ctranslate2(workload, "int8_float32"),
        "marian": lambda: marian(workload),
        "joeynmt": lambda: joeynmt(workload),
        "no-cache": lambda: no_cache(workload),
    }[name]()


# --- the workloads ------------------------------------------------------------------------------------------------------


def made_up(name: str) -> Workload:
    preset, vocab, shape = SHAPES[name]
    pad = vocab - 1
    torch.manual_seed(0)
    config = TransformerConfig.preset(preset, vocab, vocab, pad_id=pad, start_id=pad, eos_id=0, unk_id=1, **shape)
    drawn = random.Random(1)
    sources = [[drawn.randrange(2, pad) for _ in range(drawn.randint(10, 30))] + [0] for _ in range(1024)]
    model = Transformer.from_config(config).eval()
    return Workload(name, model, Vocabulary(0, pad, (pad,)), sources, STEPS, 1.0)


def trained(folder: str, text: Path) -> Workload:
    loaded = load_model(folder)
    tokenizer = loaded.source_tokenizer
    lines = text.read_text(encoding="utf-8").split("\n")
    sources = [[*tokenizer.encode(line), tokenizer.eos_id] for line in lines if line.strip()]
    random.Random(1).shuffle(sources)
    pad = loaded.target_tokenizer.pad_id
    return Workload(
        Path(folder).resolve().name, loaded.model, Vocabulary(0, pad, (pad,)), sources, 0, loaded.search.length_penalty
    )


# --- measuring ----------------------------------------------------------------------------------------------------------


def measure(
    workload: Workload, runs: dict[str, Run], rows: int, beam: int, sentences: int, rounds: int
) -> tuple[dict[str, Times], dict[str, float]]:
    """Times of each engine, and the share of its sentences that are those of the first float32 engine.

    The first round warms up and is not counted.
    """
    batches = workload.batches(rows, sentences)
    times = {name: Times() for name in runs}
    outputs: dict[str, list[list[int]]] = {}
    for number in range(rounds + 1):
        names = list(runs)
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            started, processor_started = time.perf_counter(), time.process_time()
            try:
                found = [out for batch in batches for out in runs[name](batch, beam)]
            except NotAvailable:
                times.pop(name, None)
                continue
            if number:
                times[name].seconds.append(time.perf_counter() - started)
                times[name].processor_seconds.append(time.process_time() - processor_started)
            times[name].tokens = sum(map(len, found)) + (0 if workload.steps else len(found))
            outputs[name] = found
    basis = next((outputs[n] for n in ("torch", "reference", "ct2") if n in outputs), [])
    return times, {
        name: sum(a == b for a, b in zip(out, basis, strict=True)) / len(basis)
        for name, out in outputs.items()
        if basis
    }


def row_of(times: dict[str, Times], same: dict[str, float]) -> dict[str, dict[str, float]]:
    against = AGAINST if AGAINST in times else next(iter(times))
    found = {}
    for name, t in times.items():
        other = times[against]
        found[name] = {
            "tokens_per_second": t.tokens / statistics.median(t.seconds),
            "tokens_per_processor_second": t.tokens / statistics.median(t.processor_seconds),
            # Of speed, tokens a second: where sentences end by themselves, engines may write more or fewer.
            "ratio": statistics.median(
                b / a * t.tokens / other.tokens for a, b in zip(t.seconds, other.seconds, strict=True)
            ),
            "ratio_by_processor": statistics.median(
                b / a * t.tokens / other.tokens
                for a, b in zip(t.processor_seconds, other.processor_seconds, strict=True)
            ),
            "same": same.get(name, 0.0),
        }
    return found


def peak_memory(arguments: list[str], name: str) -> float:
    """Megabytes of a process that translates a batch of 32 with one engine."""
    code = [sys.executable, __file__, *arguments, "--only", name, "--batch", "32", "--beam", "1", "--rounds", "1",
            "--sentences", "32", "--print-memory"]  # fmt: skip
    done = subprocess.run(code, capture_output=True, text=True, check=False)
    return float(done.stdout.strip().splitlines()[-1]) if done.returncode == 0 else float("nan")


def markdown(title: str, results: dict[tuple[int, int], dict[str, dict[str, float]]]) -> str:
    names = [n for n in ENGINES if any(n in r for r in results.values())]
    lines = [f"### {title}", "", "| batch, beam | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    for (rows, beam), found in results.items():
        cells = [
            f"{found[n]['tokens_per_second']:,.0f} (× {found[n]['ratio']:.2f}; {found[n]['ratio_by_processor']:.2f})"
            if n in found
            else "–"
            for n in names
        ]
        lines.append(f"| {rows}, {'greedy' if beam == 1 else f'beam {beam}'} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def plot(path: Path, everything: dict[str, dict[tuple[int, int], dict[str, dict[str, float]]]]) -> None:
    """Tokens a second beside CTranslate2's int8, for each model, batch and beam."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.hashsalt"] = "pellucid"
    figure, axes = plt.subplots(len(everything), 1, figsize=(9, 3 * len(everything)), squeeze=False)
    for axis, (title, results) in zip(axes[:, 0], everything.items(), strict=True):
        names = [n for n in ENGINES if any(n in r for r in results.values())]
        for i, name in enumerate(names):
            places = [k + (i - len(names) / 2) * 0.8 / len(names) for k, r in enumerate(results.values()) if name in r]
            heights = [r[name]["ratio"] for r in results.values() if name in r]
            axis.bar(places, heights, 0.8 / len(names), label=name, align="edge")
        axis.set_xticks(range(len(results)), [f"{r}, {'greedy' if b == 1 else f'beam {b}'}" for r, b in results])
        axis.axhline(1.0, color="black", linewidth=0.5)
        axis.set_title(title)
        axis.set_ylabel(f"speed, {AGAINST} = 1")
    axes[0, 0].legend(fontsize="small", ncols=4)
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", action="append", choices=SHAPES, help="repeatable; [tiny, base, 12+1]")
    parser.add_argument("--model", help="a trained model of yours instead")
    parser.add_argument("--src", type=Path, help="text for it")
    parser.add_argument("--threads", type=int, default=1, help="0: the cores that this process may use")
    parser.add_argument("--batch", type=int, action="append", help="sentences a batch; repeatable; [1, 8, 32, 128]")
    parser.add_argument("--beam", type=int, action="append", help="repeatable; [1, 4]")
    parser.add_argument("--sentences", type=int, default=0, help="a round; [the batch, 8 at least]")
    parser.add_argument("--rounds", type=int, default=5, help="that count; one more warms up")
    parser.add_argument("--only", action="append", choices=ENGINES, help="engines; repeatable")
    parser.add_argument("--joeynmt", type=Path, help="a checkout of JoeyNMT, if it is not installed")
    parser.add_argument(
        "--memory", action="store_true", help="peak memory of each engine too, in processes of their own"
    )
    parser.add_argument("--print-memory", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--json", type=Path, help="write all numbers here")
    parser.add_argument("--svg", type=Path, help="draw them here")
    options = parser.parse_args(arguments)
    torch.set_num_threads(options.threads or available_cores())
    if options.joeynmt:
        sys.path.insert(0, str(options.joeynmt))
    workloads: list[Callable[[], Workload]]
    if options.model:
        workloads = [lambda: trained(options.model, options.src)]
    else:
        workloads = [lambda name=name: made_up(name) for name in options.shape or ("tiny", "base", "12+1")]
    print(f"{torch.get_num_threads()} thread(s) of {processor_name()}; torch {torch.__version__}; load of the machine "
          f"before: {os.getloadavg()[0]:.1f}; {platform.system()}.\n")  # fmt: skip
    everything: dict[str, dict[tuple[int, int], dict[str, dict[str, float]]]] = {}
    memory: dict[str, dict[str, float]] = {}
    with torch.inference_mode():
        for make_workload in workloads:
            workload = make_workload()
            runs: dict[str, Run] = {}
            for name in options.only or ENGINES:
                try:
                    runs[name] = make(name, workload)
                except NotAvailable as reason:
                    print(f"{name} is left out: {reason}", file=sys.stderr)
            results = everything.setdefault(workload.name, {})
            for rows in options.batch or (1, 8, 32, 128):
                for beam in options.beam or (1, BEAM):
                    sentences = options.sentences or max(rows, 8)
                    times, same = measure(workload, runs, rows, beam, sentences, options.rounds)
                    results[rows, beam] = row_of(times, same)
                    print(
                        f"{workload.name} {rows} {beam}: "
                        + "  ".join(f"{n} {r['tokens_per_second']:,.0f}" for n, r in results[rows, beam].items()),
                        file=sys.stderr,
                        flush=True,
                    )
            if options.print_memory:
                print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
                return
            print(markdown(f"{workload.name}: tokens a second (× {AGAINST}; by processor time)", results) + "\n")
            if options.memory:
                what = (
                    ["--model", options.model, "--src", str(options.src)]
                    if options.model
                    else ["--shape", workload.name]
                )
                memory[workload.name] = {name: peak_memory(what, name) for name in runs}
                print("Peak memory in MB, batch of 32, greedy: "
                      + ", ".join(f"{n} {m:,.0f}" for n, m in memory[workload.name].items()) + ".\n")  # fmt: skip
    if options.json:
        plain = {t: {f"{r},{b}": found for (r, b), found in rs.items()} for t, rs in everything.items()}
        options.json.write_text(json.dumps({"models": plain, "memory": memory}, indent=1) + "\n", encoding="utf-8")
    if options.svg:
        plot(options.svg, everything)


if __name__ == "__main__":
    main()
