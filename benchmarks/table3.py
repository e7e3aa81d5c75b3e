"""A small Table 3: which part of the model matters how much? One thing is changed at a time.

The base is the tiny model (4 + 4 layers, width 128, feed-forward 256, 4 heads, dropout 0.3, label smoothing 0.1,
sinusoids) with pre-norm, because in so few updates post-norm, the paper's, is still far from its end. Every row is
trained by `pellucid.training.run.train` on the same pairs for the same few updates, then translates the validation set.
So short a training favours what learns quickly (little dropout, say), not what ends best; and the learning rate is one
that suits the base. Base rows with other seeds show how much is chance.

Rows that are done are kept in a file of JSON lines and not trained again; a row that was interrupted is resumed. Without
inputs the pairs are Multi30k's English-German ones, if they are here.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import synthetic
from pellucid.config import DataConfig, RunConfig, SearchConfig, TrainingConfig
from pellucid.errors import PellucidError

MULTI30K = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "multi30k" / "tok"
BASE: dict[str, Any] = {
    "layers": 4, "d_model": 128, "d_ff": 256, "heads": 4, "dropout": 0.3, "smoothing": 0.1, "positions": "sinusoidal",
    "norm": "pre", "optimizer": "adam", "seed": 1,
}  # fmt: skip
CHANGES: list[tuple[str, list[dict[str, Any]]]] = [
    ("base", [{}]),
    ("chance", [{"seed": 2}, {"seed": 3}]),
    ("(A) heads", [{"heads": n} for n in (1, 2, 8)]),
    ("(B) layers", [{"layers": n} for n in (2, 6)]),
    ("(C) width", [{"d_model": n} for n in (64, 256)]),
    ("(D) dropout", [{"dropout": p} for p in (0.0, 0.1)]),
    ("(E) smoothing", [{"smoothing": e} for e in (0.0, 0.2)]),
    ("(F) positions", [{"positions": "learned"}]),
    ("(G) norm", [{"norm": "post"}]),
    ("(H) optimizer", [{"optimizer": "muon"}]),
]
"""Groups of rows: what differs from the base. The base itself stands for its own values."""


@dataclass(frozen=True)
class Data:
    what: str
    files: list[Path]
    """Source, target, source and target of the validation set."""
    source_language: str | None
    target_language: str | None

    @property
    def inputs(self) -> dict[str, list[str]]:
        """As `train` wants them."""
        return {n: [str(f)] for n, f in zip(("src", "tgt", "valid_src", "valid_tgt"), self.files, strict=True)}


def run_config(row: dict[str, Any], options: argparse.Namespace, data: Data) -> RunConfig:
    """The settings of a row, `row` being the base with a change."""
    return RunConfig(
        preset="tiny",
        model={
            "num_encoder_layers": row["layers"], "num_decoder_layers": row["layers"], "d_model": row["d_model"],
            "d_ff": row["d_ff"], "n_heads": row["heads"], "dropout": row["dropout"], "positions": row["positions"],
            "norm": row["norm"],
        },
        data=DataConfig(
            vocab_size=options.vocab_size, tokenizer="bpe", source_language=data.source_language,
            target_language=data.target_language,
        ),
        training=TrainingConfig(
            batch_tokens=options.batch_tokens, peak_rate=options.peak_rate,
            warmup_steps=max(1, options.updates // 6), cooldown_steps=options.updates // 3, clip_norm=25.0, label_smoothing=row["smoothing"],
            max_updates=options.updates, validate_every=options.updates, validate_bleu=False, patience=0,
            save_minutes=2.0, keep_checkpoints=1, optimizer=row["optimizer"], seed=row["seed"], device=options.device, threads=options.threads,
        ),
        search=SearchConfig(beam_size=options.beam_size),
    )  # fmt: skip


def train_row(config: RunConfig, data: Data, folder: Path, tokenize: str) -> dict[str, Any]:
    """Train (or resume) in `folder` and score; what the table says of it."""
    import torch

    from pellucid.training.evaluation import corpus_scores
    from pellucid.training.records import Prepared, Progress, Record, Validation
    from pellucid.training.run import train
    from pellucid.translator import Translator

    said: dict[type, Any] = {}

    def on_record(record: Record) -> None:
        said[type(record)] = record
        if isinstance(record, Progress) and record.update % 50 == 0:
            print(f"  update {record.update}: loss {record.loss:.3f}", file=sys.stderr, flush=True)

    resume = (folder / "training" / "config.toml").exists()
    inputs: dict[str, Any] = {**data.inputs, "config": config}
    train(out=folder, on_record=on_record, **({"resume": True} if resume else inputs))
    if Validation not in said:  # it was interrupted after its last update: all that is missing is in its metrics
        lines = (folder / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        validations = [r for r in map(json.loads, lines) if r["record"] == "validation"]
        if not validations:
            raise SystemExit("stopped; the same command goes on with this row")
        found = validations[-1]
    else:
        found = dataclasses.asdict(said[Validation])
    progress = said.get(Progress)
    sources, references = (_lines(path) for path in data.files[2:])
    started = time.monotonic()
    translations = [t.text for t in Translator.load(folder).translate(sources)]
    scores = corpus_scores(translations, [references], data.target_language, tokenize=tokenize)
    return {
        "parameters": said[Prepared].parameters, "valid_loss": found["loss"], "valid_perplexity": found["perplexity"],
        "bleu": scores.bleu, "bleu_signature": scores.bleu_signature, "chrf": scores.chrf,
        "training_seconds": progress.seconds if progress else None,
        "translating_seconds": time.monotonic() - started, "threads": said[Prepared].threads,
        "torch": torch.__version__,
    }  # fmt: skip


def _lines(path: Path) -> list[str]:
    from pellucid.data.formats.lines import read_lines

    return [line.text or "" for line in read_lines(str(path))]


def table(rows: list[tuple[str, dict[str, Any], dict[str, Any] | None]], notes: list[str]) -> str:
    """Markdown in the manner of the paper's Table 3: an empty cell is as in the base. Rows: group, change, result."""
    names = {
        "layers": "N", "d_model": "d_model", "heads": "h", "dropout": "P_drop", "smoothing": "ε_ls",
        "positions": "positions", "norm": "norm", "optimizer": "optimizer", "seed": "seed",
    }  # fmt: skip
    measured = ["validation loss (as trained)", "perplexity", "BLEU", "chrF2++", "parameters, millions", "minutes"]
    header = ["", *names.values(), *measured]
    lines = ["# A small Table 3", "", "Written by `benchmarks/table3.py`.", ""]
    lines += [line for note in notes for line in (note, "")]
    lines += [f"| {' | '.join(header)} |", "|" + "---|" * len(header)]
    before = None
    for group, change, result in rows:
        shown = BASE if group == "base" else change
        cells = [group if group != before else "", *(str(shown.get(name, "")) for name in names)]
        before = group
        if result is None:
            cells += ["to be done", *[""] * 5]
        elif "failed" in result:
            cells += [result["failed"], *[""] * 5]
        else:
            seconds = result["training_seconds"]
            cells += [
                f"{result['valid_loss']:.3f}", f"{result['valid_perplexity']:.2f}", f"{result['bleu']:.2f}",
                f"{result['chrf']:.1f}", f"{result['parameters'] / 1e6:.2f}",
                "" if seconds is None else f"{seconds / 60:.1f}",
            ]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def find_data(options: argparse.Namespace, folder: Path) -> Data:
    given = (options.src, options.tgt, options.valid_src, options.valid_tgt)
    languages = options.source_lang, options.target_lang
    if any(given):
        if not all(given):
            raise SystemExit("table3.py: --src, --tgt, --valid-src and --valid-tgt must come together")
        return Data(f"{options.src.name} and {options.tgt.name}", list(given), *languages)
    names = [f"{part}.lc.norm.tok.{language}.xz" for part in ("train", "val") for language in ("en", "de")]
    files = [MULTI30K / name for name in names]
    if not options.made_up and all(f.exists() for f in files):
        return Data("Multi30k en-de, lc.norm.tok", files, "en", "de")
    if not options.made_up:
        raise SystemExit("table3.py: Multi30k is not here; name other files with --src ..., or --made-up PAIRS")
    files = []
    for part, count, seed in (("train", options.made_up, 1), ("val", max(10, options.made_up // 50), 2)):
        sides = list(zip(*synthetic.pairs(count, seed), strict=True))
        for side, language in zip(sides, ("a", "b"), strict=True):
            files.append(folder / f"{part}.{options.made_up}.{language}")
            files[-1].write_text("\n".join(side) + "\n", encoding="utf-8")
    return Data(f"{options.made_up:,} made-up pairs", files, *languages)


def key_of(config: RunConfig, data: Data, tokenize: str) -> str:
    """Names a result: other settings or other pairs have another. Threads change nothing but times and chance. What is left
    at its default does not count, so that results stay when the program gets a new setting."""
    training = dataclasses.replace(config.training, threads=0, save_minutes=5.0)
    usual = dataclasses.asdict(RunConfig())
    settings = sorted(
        (f"{table}.{name}", value)
        for table, values in dataclasses.asdict(dataclasses.replace(config, training=training)).items()
        for name, value in (values.items() if isinstance(values, dict) else [("", values)])
        if not isinstance(values, dict) or table == "model" or value != usual[table][name]
    )
    sizes = [path.stat().st_size for path in data.files]
    return hashlib.sha256(repr((settings, data.what, sizes, tokenize)).encode()).hexdigest()[:16]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--src", "--tgt", "--valid-src", "--valid-tgt"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--source-lang")
    parser.add_argument("--target-lang")
    parser.add_argument("--made-up", type=int, default=0, metavar="PAIRS", help="train on so many made-up pairs")
    parser.add_argument("--tokenize", default="none", help="sacreBLEU's; none suits text that is tokenised already")
    parser.add_argument("--updates", type=int, default=600)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--peak-rate", type=float, default=0.003)
    parser.add_argument("--vocab-size", type=int, default=10_000)
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=0, help="0: the cores that this process may use")
    parser.add_argument("--only", action="append", metavar="TEXT", help="groups whose name has TEXT; repeatable")
    here = Path(__file__).resolve().parent / "results"
    parser.add_argument("--results", type=Path, default=here / "table3.jsonl", help="rows that are done")
    parser.add_argument("--out", type=Path, default=here / "table3.md", help="the table")
    work = Path(tempfile.gettempdir()) / "pellucid-table3"
    parser.add_argument("--folder", type=Path, default=work, help="for the runs; each is deleted when its row is done")
    options = parser.parse_args(arguments)
    for path in (options.folder, options.results.parent, options.out.parent):
        path.mkdir(parents=True, exist_ok=True)
    data = find_data(options, options.folder)
    done: dict[str, dict[str, Any]] = {}
    if options.results.exists():
        lines = options.results.read_text(encoding="utf-8").splitlines()
        done = {entry["key"]: entry for entry in map(json.loads, filter(None, lines))}
    wanted = [
        (group, change, run_config({**BASE, **change}, options, data))
        for group, changes in CHANGES
        for change in changes
        if not options.only or any(text in group for text in options.only)
    ]
    notes = [
        f"{data.what}; {options.updates} updates of {options.batch_tokens:,} padded tokens; peak rate "
        f"{options.peak_rate:g} at update {max(1, options.updates // 6)}, a third of the updates to cool down; {options.vocab_size:,} pieces (BPE, joint); "
        f"beam {options.beam_size}; BLEU of the validation set, tokenize {options.tokenize}.",
        "Perplexity is of the unsmoothed probabilities, per piece, so it can be compared between all rows; the loss only "
        "between rows of equal smoothing. Differences smaller than those between the seeds are chance.",
    ]
    for number, (group, change, config) in enumerate(wanted, 1):
        key = key_of(config, data, options.tokenize)
        if key not in done:
            label = ", ".join(f"{k}={v}" for k, v in change.items()) or "as it is"
            print(f"{number} of {len(wanted)}: {group}, {label}", file=sys.stderr, flush=True)
            entry: dict[str, Any] = {"key": key, "group": group, "change": change, "updates": options.updates}
            try:
                entry |= train_row(config, data, options.folder / key, options.tokenize)
            except PellucidError as error:
                entry["failed"] = str(error)
                print(f"  failed: {error}", file=sys.stderr)
            with options.results.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, ensure_ascii=False) + "\n")
            done[key] = entry
            shutil.rmtree(options.folder / key, ignore_errors=True)
        rows = [(g, c, done.get(key_of(k, data, options.tokenize))) for g, c, k in wanted]
        options.out.write_text(table(rows, notes), encoding="utf-8")
    print(options.out.read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
