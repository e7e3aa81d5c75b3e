"""The whole job, for Python and the command line alike: sentence pairs in, a model folder out."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import platform
import shlex
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pellucid.checkpoint import LoadedModel, average_weights, save_model, write_atomically
from pellucid.config import PRESETS, RunConfig, TransformerConfig
from pellucid.data.check import QUICK, Check
from pellucid.data.corpus import Corpus, check_tags, split_valid, why_dropped
from pellucid.data.formats.pair import SentencePair
from pellucid.data.overlap import EvaluationSets
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer, choose_vocab_size
from pellucid.errors import ConfigError, TrainingError
from pellucid.machine import available_cores, available_memory, keep_freed_memory
from pellucid.model.transformer import Transformer
from pellucid.tags import target_languages
from pellucid.training.bfloat16 import has_matrix_units
from pellucid.training.optimizer import noam_rate
from pellucid.training.records import Finished, Prepared, Preparing, Progress, Record, Saved, Validation
from pellucid.training.run_folder import RunFolder
from pellucid.training.trainer import Trainer, ValidationSet
from pellucid.version import __version__

PAPER_WARMUP = 4000
LEAST_WARMUP_COUNTED = 1000
"""A chosen peak rate is that of equation (3) for a warm-up of so many updates at least."""
MAY_CHANGE = {
    "max_updates", "max_epochs", "max_minutes", "patience", "save_minutes", "keep_checkpoints", "average_checkpoints",
    "device", "threads",
}  # fmt: skip
"""Training settings that a resumed run may change, because they do not change what an update does."""

MOST_LOOKED_AT = 1_000_000
"""Pairs that are checked before training: seconds, and some 50 MB."""
NOT_IN_TRAINING = ("bad-bytes", "empty", "one-to-many")
"""Faults that are not looked for there: the first two are dropped and counted, the third is as often meant."""

OnRecord = Callable[[Record], None]


def train(
    pairs: Sequence[str] = (),
    *,
    out: str | Path,
    src: Sequence[str] = (),
    tgt: Sequence[str] = (),
    valid: Sequence[str] = (),
    valid_src: Sequence[str] = (),
    valid_tgt: Sequence[str] = (),
    config: RunConfig | None = None,
    resume: bool = False,
    on_record: OnRecord | None = None,
) -> Path:
    """Train a translator.

    Args:
        pairs: pair files (.tsv, also .gz and .xz; "-" is standard input).
        out: the model folder to make; everything about the run goes into `out`/training.
        src, tgt: aligned text files, instead of or besides `pairs`; as many of one as of the other.
        valid, valid_src, valid_tgt: pairs to look at while training; none given: some are held out.
        config: settings; None takes the defaults (or, resuming, the run's own).
        resume: go on with the run in `out`. Its inputs are remembered; only limits may change.
        on_record: is told of all that happens (see `records.py`).

    Returns:
        `out`.

    Raises:
        ConfigError, DataError, TrainingError: before anything is lost.
    """
    out = Path(out)
    tell: OnRecord = on_record or (lambda record: None)
    inputs = {"pairs": pairs, "src": src, "tgt": tgt, "valid": valid, "valid_src": valid_src, "valid_tgt": valid_tgt}
    if not resume:
        _refuse_to_overwrite(out)
        if not pairs and not src:
            raise ConfigError("nothing to train on", hint="name a pair file, or --src and --tgt")
    elif not (out / "training" / "config.toml").is_file():
        raise TrainingError(f"{out}: there is no run to resume here", hint="train without --resume")
    folder = RunFolder(out)
    try:
        return _train(folder, inputs, config, resume, tell)
    finally:
        folder.close()


def _train(
    folder: RunFolder, inputs: dict[str, Sequence[str]], config: RunConfig | None, resume: bool, tell: OnRecord
) -> Path:
    if resume:
        config = resumed_config(folder, config)
        inputs = {**inputs, **{k: v for k, v in folder.read_run()["inputs"].items() if not inputs.get(k)}}
    config = config or RunConfig()
    notes: list[str] = []

    # 1. read
    corpus = Corpus.from_files(inputs["pairs"], inputs["src"], inputs["tgt"], config.data)
    if config.data.mix and len(config.data.mix) != len(corpus.inputs):
        raise ConfigError(
            f"`data.mix` must have a number for each of the {len(corpus.inputs)} inputs, but has {len(config.data.mix)}",
            hint="name the files with their weights: --mix a.tsv=1 --mix b.tsv=3",
        )
    corpus.check_lengths()
    if inputs["valid"] or inputs["valid_src"]:
        valid_corpus = Corpus.from_files(inputs["valid"], inputs["valid_src"], inputs["valid_tgt"], config.data)
        valid_corpus.check_lengths()
        check_tags(corpus, valid_corpus)
    else:
        check_tags(corpus)
        corpus, valid_corpus = split_valid(corpus, config.data.valid_pairs)
    fingerprints = {"train": corpus.fingerprint(), "valid": valid_corpus.fingerprint()}
    if resume and fingerprints != folder.read_run()["fingerprints"]:
        raise TrainingError(
            f"{', '.join(f for files in inputs.values() for f in files)}: is not the data that this run began with",
            hint="put the old files back, or train into a new folder",
        )

    # 2. cut into pieces
    device = choose_device(config.training.device)
    if config.training.precision == "bfloat16" and device.type == "cpu" and not has_matrix_units():
        raise ConfigError(
            "`precision` 'bfloat16' is for GPUs and for CPUs with matrix units (AMX), but this CPU has none",
            hint="--precision auto",
        )
    threads = config.training.threads or available_cores()
    torch.set_num_threads(threads)
    keep_freed_memory()
    source, target, config = _tokenizers(folder, corpus, config, threads, tell, notes)

    # 3. store
    def told(stage: str) -> Callable[[int], None]:
        return lambda done: tell(Preparing(stage=stage, done=done, total=None))

    look = _FirstLook(valid_corpus if inputs["valid"] or inputs["valid_src"] else None)
    store, report = PairStore.build(
        folder.store, corpus, source, target, config.data, told("pairs"), threads=threads, look=look
    )
    if not len(store):
        raise TrainingError(
            "no pair is left to train on: "
            + ("; ".join(f"{n} {why}" for why, n in report.dropped.items()) or "no input")
        )
    notes += report.problems
    valid = _validation_set(folder, valid_corpus, source, target, config, told("validation pairs"))
    if valid is None:
        notes.append("there is no validation set: no early stopping, and the newest weights become the model")

    # 4. the model
    config = _chosen(config, store, device, notes)
    torch.manual_seed(config.training.seed)
    # Two vocabularies have nothing to share, even where they happen to be equally large.
    own_shape = config.model if config.data.joint else {"share_embeddings": "decoder", **config.model}
    shape = TransformerConfig.preset(
        config.preset, len(source), len(target),
        **{"pad_id": target.pad_id, "src_pad_id": source.pad_id, "eos_id": target.eos_id, "unk_id": target.unk_id,
           "start_id": target.pad_id, **own_shape},
    )  # fmt: skip
    parameters = _refuse_if_too_large(shape, config)
    model = Transformer.from_config(shape).to(device)
    loaded = LoadedModel(
        model,
        source,
        target,
        config.search,
        config.data.source_language,
        config.data.target_language,
        folder.model_directory,
        int(store.source_lengths.max()),
    )
    trainer = Trainer(loaded, store, valid, config.training, folder, device, config.data.mix, config.data.max_tokens)
    if resume and folder.has_checkpoints:
        notes += trainer.resume()
    else:
        folder.discard_after(-1)
        folder.cut_metrics(0)
    folder.write_run(_describe(inputs, fingerprints, threads, device))
    write_atomically(folder.config_file, config.to_toml())  # last: a folder that has it can be resumed

    # 5. say what will happen
    tell(
        Prepared(
            pairs_read=report.read,
            pairs_kept=report.kept,
            dropped=dict(report.dropped),
            source_vocab=len(source),
            target_vocab=len(target),
            parameters=parameters,
            preset=config.preset,
            batches_per_epoch=trainer.batches_per_epoch(),
            updates_per_epoch=-(-trainer.batches_per_epoch() // config.training.accumulate),
            useful_share=trainer.useful_share(),
            valid_pairs=len(valid.store) if valid else 0,
            device=str(device),
            precision="bfloat16" if trainer.bfloat16 else "float32",
            threads=threads,
            notes=tuple(notes),
            looked_at=len(look.check),
            faults=look.faults(),
        )
    )
    tell(trainer.plan())

    # 6. train
    card, board = _Card(config, report.kept, parameters, target_languages(source.tags)), _TensorBoard(folder)
    with _stopped_by_signals(trainer), contextlib.closing(board):
        for record in trainer.run():
            if isinstance(record, Finished):
                _make_model(trainer, config, card)
            _write_metrics(folder, record)
            board.write(record)
            if isinstance(record, Validation):
                card.validation = record if record.is_best or card.validation is None else card.validation
            if isinstance(record, Saved) and trainer.position.best_update == record.update:
                _write_model(trainer, config, card, [Path(record.path) / "model.safetensors"])
            tell(record)
    return folder.model_directory


def resumed_config(folder: RunFolder, wanted: RunConfig | None) -> RunConfig:
    """The run's settings with the limits that `wanted` changes.

    Raises:
        ConfigError: `wanted` changes what an update does.
    """
    before = RunConfig.from_toml(folder.config_file)
    if wanted is None:
        return before
    old, new = dataclasses.asdict(before), dataclasses.asdict(wanted)
    changed = [
        f"{table}.{name}"
        for table in ("model", "data", "training", "search")
        for name in sorted(old[table].keys() | new[table].keys())
        if old[table].get(name) != new[table].get(name) and not (table == "training" and name in MAY_CHANGE)
    ]
    if changed or before.preset != wanted.preset:
        raise ConfigError(
            "a resumed run cannot change " + ", ".join(changed or ["preset"]),
            hint="it may change training." + ", training.".join(sorted(MAY_CHANGE)),
        )
    return wanted


def _refuse_to_overwrite(out: Path) -> None:
    if (out / "training" / "config.toml").exists() or (out / "config.json").exists():
        raise TrainingError(
            f"{out}: holds a model or a run already",
            hint=f"go on with it: pellucid train --resume --out {out}; or name another folder",
        )
    if out.exists() and not out.is_dir():
        raise TrainingError(f"{out}: is a file; --out must name a folder")


def _tokenizers(
    folder: RunFolder, corpus: Corpus, config: RunConfig, threads: int, tell: OnRecord, notes: list[str]
) -> tuple[Tokenizer, Tokenizer, RunConfig]:
    """Trained on the training pairs, or read again when the run has made them before."""
    data = config.data
    names = ("source", "target") if not data.joint else ("joint",)
    files = [folder.path / f"{name}.model" for name in names]
    tags = {name: corpus.tags if name != "target" else [] for name in names}
    kind: dict[str, Any] = {"kind": data.tokenizer, "normalization": data.normalization}
    if folder.config_file.exists() and all(f.exists() for f in files):
        made = [Tokenizer.load(f, {**kind, "tags": tags[name]}) for name, f in zip(names, files, strict=True)]
        return made[0], made[-1], config
    if not data.vocab_size:
        data = dataclasses.replace(data, vocab_size=choose_vocab_size(corpus, data))
        config = dataclasses.replace(config, data=data)
        notes.append(f"vocabulary: {data.vocab_size} pieces, chosen from the size of the data")
    made = []
    for name, file in zip(names, files, strict=True):
        tell(Preparing(stage=f"{name} tokenizer", done=0, total=None))
        tokenizer = Tokenizer.train(
            _side(corpus, name), vocab_size=data.vocab_size, kind=data.tokenizer, normalization=data.normalization,
            byte_fallback=data.byte_fallback, tags=tags[name], threads=threads,
        )  # fmt: skip
        tokenizer.save(file)
        made.append(tokenizer)
    return made[0], made[-1], config


def _side(corpus: Corpus, name: str) -> Iterator[str]:
    for pair in corpus:
        if name != "target":
            yield pair.source or ""
        if name != "source":
            yield pair.target or ""


def _validation_set(
    folder: RunFolder,
    corpus: Corpus,
    source: Tokenizer,
    target: Tokenizer,
    config: RunConfig,
    told: Callable[[int], None],
) -> ValidationSet | None:
    store, _ = PairStore.build(folder.path / "valid-store", corpus, source, target, config.data, told)
    if not len(store):
        return None
    together: dict[tuple[str, ...], dict[str, list[str]]] = {}
    for part in corpus.parts():
        own = together.setdefault(part.inputs[0].tags, {})
        for pair in part:
            if why_dropped(pair) is None and pair.source is not None and pair.target is not None:
                own.setdefault(pair.source.strip(), []).append(pair.target.strip())
    # Tag by tag in turn: who looks at the first of them only sees all tags.
    turns = zip_longest(*([(tags, *each) for each in own.items()] for tags, own in together.items()))
    every = [each for turn in turns for each in turn if each is not None]
    most = max(len(references) for _, _, references in every)
    # A sentence with fewer references than another repeats its first one, which changes no score.
    sides = [[refs[i] if i < len(refs) else refs[0] for _, _, refs in every] for i in range(most)]
    return ValidationSet(store, [source for _, source, _ in every], sides, [tags for tags, _, _ in every])


def _chosen(config: RunConfig, store: PairStore, device: torch.device, notes: list[str]) -> RunConfig:
    """`config` with all that was left to be chosen."""
    training, pairs = config.training, len(store)
    preset = config.preset
    if preset == "auto":
        preset = "tiny" if pairs < 200_000 else "small" if pairs < 2_000_000 or device.type == "cpu" else "base"
        notes.append(f"preset: {preset}, for {pairs:,} pairs")
    if not training.warmup_steps:
        weights = config.data.mix or [1.0] * len(store.parts)
        tokens = sum(weight * part for weight, part in zip(weights, _tokens(store), strict=True))
        per_epoch = tokens / (training.batch_tokens * training.accumulate)
        warmup = max(1, min(PAPER_WARMUP, round(8 * per_epoch)))
        if training.max_updates:
            warmup = max(1, min(warmup, training.max_updates // 4))
        training = dataclasses.replace(training, warmup_steps=warmup)
        notes.append(f"warmup_steps: {warmup}")
    elif training.max_updates and training.warmup_steps > training.max_updates // 2:
        notes.append(f"warmup_steps {training.warmup_steps} is more than half of the {training.max_updates} updates")
    if training.schedule == "inverse_sqrt" and not training.peak_rate:
        width = config.model.get("d_model", PRESETS[preset].get("d_model", TransformerConfig.d_model))
        # Equation (3)'s peak grows as the warm-up shrinks; a warm-up of a few updates would make it absurd.
        counted = max(training.warmup_steps, LEAST_WARMUP_COUNTED)
        training = dataclasses.replace(training, peak_rate=noam_rate(counted, width, counted))
        notes.append(f"peak_rate: {training.peak_rate:.2g}")
    return dataclasses.replace(config, preset=preset, training=training)


def _tokens(store: PairStore) -> list[int]:
    """The target tokens of each part of a store."""
    ends = np.cumsum(store.parts)[:-1]
    return [int(part.sum()) for part in np.split(store.target_lengths, ends)]


def _refuse_if_too_large(shape: TransformerConfig, config: RunConfig) -> int:
    """The number of parameters.

    Raises:
        TrainingError: weights, gradients and Adam's two moments alone are more than the memory that is left.
    """
    with torch.device("meta"):
        parameters = sum(p.numel() for p in Transformer.from_config(shape).parameters())
    need, have = parameters * 16, available_memory()
    if have is not None and need > have and config.training.device in ("auto", "cpu") and not torch.cuda.is_available():
        smaller = [name for name in ("tiny", "small", "base") if name != config.preset]
        raise TrainingError(
            f"preset {config.preset} needs {need / 1e9:.1f} GB for weights, gradients and Adam, but {have / 1e9:.1f} GB are left",
            hint=f"--preset {smaller[0]}",
        )
    return parameters


def choose_device(name: str) -> torch.device:
    """`auto` is a GPU where PyTorch sees one.

    Raises:
        ConfigError: a device that is not there.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"`device` {name!r} cannot be used: {error}", hint="--device cpu") from error
    return device


class _FirstLook:
    """The quick part of `pellucid check`, on the first pairs while they are prepared; what is dropped is left to others."""

    def __init__(self, valid: Corpus | None) -> None:
        sets = None if valid is None else EvaluationSets({"valid": valid}, near=False)
        self.check = Check([rule for rule in QUICK if rule not in NOT_IN_TRAINING], evaluation=sets)

    def __call__(self, pairs: Sequence[SentencePair]) -> None:
        self.check.add(pairs[: MOST_LOOKED_AT - len(self.check)])

    def faults(self) -> dict[str, int]:
        return self.check.finish().counts()


def _describe(
    inputs: dict[str, Sequence[str]], fingerprints: dict[str, str], threads: int, device: torch.device
) -> dict[str, Any]:
    return {
        "command": shlex.join(["pellucid", *sys.argv[1:]]),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "inputs": {name: [str(f) for f in files] for name, files in inputs.items()},
        "fingerprints": fingerprints,
        "versions": {"pellucid": __version__, "torch": torch.__version__, "python": platform.python_version()},
        "machine": {"threads": threads, "device": str(device), "system": platform.platform()},
    }


class _TensorBoard:
    """Writes the same numbers for TensorBoard, if its extra is installed."""

    def __init__(self, folder: RunFolder) -> None:
        self._writer: Any = None
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder.path / "tensorboard"))

    def write(self, record: Record) -> None:
        if self._writer is None:
            return
        if isinstance(record, Progress):
            values = {"loss": record.loss, "rate": record.rate, "tokens per second": record.target_tokens_per_second}
            where = "training"
        elif isinstance(record, Validation):
            values = {"loss": record.loss, "perplexity": record.perplexity}
            values |= {} if record.bleu is None or record.chrf is None else {"BLEU": record.bleu, "chrF": record.chrf}
            where = "validation"
        else:
            return
        for name, value in values.items():
            self._writer.add_scalar(f"{where}/{name}", value, record.update)

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def _write_metrics(folder: RunFolder, record: Record) -> None:
    if not isinstance(record, Saved):
        folder.add_metrics({"record": type(record).__name__.lower(), **dataclasses.asdict(record)})


def _make_model(trainer: Trainer, config: RunConfig, card: _Card) -> None:
    """The final model: an average of the newest checkpoints if asked for, else the best, else the newest."""
    checkpoints = trainer.folder.checkpoints()
    validated = [c for c in checkpoints if c.info.get("validated")]
    if config.training.average_checkpoints and validated:
        chosen = validated[-config.training.average_checkpoints :]
    else:
        chosen = [c for c in validated if c.update == trainer.position.best_update] or checkpoints[-1:]
    card.updates = [c.update for c in chosen]
    _write_model(trainer, config, card, [c.weights_file for c in chosen])


def _write_model(trainer: Trainer, config: RunConfig, card: _Card, files: list[Path]) -> None:
    loaded = trainer.loaded
    save_model(
        trainer.folder.model_directory, average_weights(files), loaded.model.config, loaded.source_tokenizer,
        loaded.target_tokenizer, search=config.search, source_language=loaded.source_language,
        target_language=loaded.target_language, longest_source=loaded.longest_source, card=card.text(),
    )  # fmt: skip


class _Card:
    """The model card: what a person who finds the folder wants to know."""

    def __init__(self, config: RunConfig, pairs: int, parameters: int, targets: Sequence[str] = ()) -> None:
        self.config, self.pairs, self.parameters, self.targets = config, pairs, parameters, targets
        self.validation: Validation | None = None
        self.updates: list[int] = []

    def text(self) -> str:
        data, training = self.config.data, self.config.training
        target = ", ".join(self.targets) or data.target_language or "target"
        to = f" --to {self.targets[0]}" if self.targets else ""
        lines = [
            f"# Translator {data.source_language or 'source'} → {target}",
            "",
            f"An encoder-decoder Transformer (preset {self.config.preset}, {self.parameters:,} parameters), trained with "
            f"pellucid {__version__} on {self.pairs:,} sentence pairs (seed {training.seed}).",
            "",
        ]
        if self.updates:
            lines += ["Weights: " + ("the mean of updates " if len(self.updates) > 1 else "update ")
                      + ", ".join(map(str, self.updates)) + ".", ""]  # fmt: skip
        if self.validation is not None:
            v = self.validation
            lines += [f"Best validation (update {v.update}): loss {v.loss:.4f}, perplexity {v.perplexity:.2f}."]
            if v.bleu is not None and v.chrf is not None:
                lines += [f"Greedy: BLEU {v.bleu:.1f} (`{v.bleu_signature}`), chrF {v.chrf:.1f}."]
            lines += [""]
        lines += [
            f"    pellucid translate .{to} < input.txt > output.txt",
            "",
            "All settings: training/config.toml.",
            "",
        ]
        return "\n".join(lines)


@contextmanager
def _stopped_by_signals(trainer: Trainer) -> Iterator[None]:
    """Ctrl-C and SIGTERM finish the update under way, save and end the run; a second one ends it at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        trainer.stop_requested = "interrupted" if number == signal.SIGINT else "terminated"
        signal.signal(number, before[number])

    before: dict[int, Any] = {}
    for number in (int(signal.SIGINT), int(signal.SIGTERM)):
        before[number] = signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
