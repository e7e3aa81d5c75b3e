"""How much memory does a large corpus take? Trains on millions of made-up pairs and watches this process.

The whole job of `pellucid train` runs here, by the same function (`pellucid.training.run.train`): reading, holding out,
the tokenizer, the store, the plan, and `--updates` updates of the tiny model with batches of a whole-epoch plan. Then
every batch of that epoch is made once, without training on it, so that all of the store has been read.

The pairs are written to a temporary folder by another process, so that making them counts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import platform
import shutil
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import synthetic

BYTES_A_PAIR = 320
"""On the disk, the text and the ids together, with some room."""


@dataclass
class Phase:
    name: str
    seconds: float
    peak: int
    """Bytes resident at most, mapped files included (VmHWM)."""
    peak_anonymous: int
    """Bytes of memory proper at most (RssAnon, looked at ten times a second)."""


class Watch:
    """Peak memory of this process, phase by phase. Linux only."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.resettable = True
        """Whether the kernel lets us reset VmHWM; else a phase's peak is the highest so far."""
        self._name: str | None = None
        self._started = 0.0
        self._anonymous = 0
        self._over = threading.Event()
        threading.Thread(target=self._look, daemon=True).start()

    def phase(self, name: str | None) -> None:
        """End the phase under way, if there is one, and begin `name`. The same name again goes on with it."""
        if name == self._name:
            return
        now = time.monotonic()
        if self._name is not None:
            self._anonymous = max(self._anonymous, _status("RssAnon"))
            done = Phase(self._name, now - self._started, _status("VmHWM"), self._anonymous)
            self.phases.append(done)
            print(
                f"{done.name}: {done.seconds:.0f} s, peak {done.peak / 1e6:.0f} MB, of these "
                f"{done.peak_anonymous / 1e6:.0f} MB anonymous",
                flush=True,
            )
        try:
            Path("/proc/self/clear_refs").write_text("5")  # VmHWM becomes what is resident now
        except OSError:
            self.resettable = False
        self._name, self._started, self._anonymous = name, now, _status("RssAnon")

    def close(self) -> None:
        self.phase(None)
        self._over.set()

    def _look(self) -> None:
        while not self._over.wait(0.1):
            self._anonymous = max(self._anonymous, _status("RssAnon"))


def _status(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    raise SystemExit(f"store_memory.py: this system does not tell {name}; Linux does")


def measure(
    folder: Path, pairs: int, updates: int, batch_tokens: int, vocab_size: int
) -> tuple[list[Phase], list[str]]:
    """The phases; and lines that say what was measured."""
    tsv = folder / "pairs.tsv"
    started = time.monotonic()
    maker = multiprocessing.get_context("spawn").Process(target=synthetic.write_tsv, args=(tsv, pairs))
    maker.start()
    maker.join()
    if maker.exitcode:
        raise SystemExit("store_memory.py: the pairs could not be written")
    print(
        f"{pairs:,} pairs written, {tsv.stat().st_size / 1e9:.2f} GB, in {time.monotonic() - started:.0f} s", flush=True
    )

    watch = Watch()
    watch.phase("importing torch")
    import pellucid  # noqa: F401  # sets GOMP_SPINCOUNT, before torch is imported
    from pellucid.config import DataConfig, RunConfig, TrainingConfig
    from pellucid.data.batching import make_batch, plan_epoch
    from pellucid.data.store import PairStore
    from pellucid.data.tokenizer import Tokenizer
    from pellucid.training.records import Finished, Plan, Prepared, Preparing, Progress, Record, Validation
    from pellucid.training.run import train

    config = RunConfig(
        preset="tiny",
        data=DataConfig(vocab_size=vocab_size),
        training=TrainingConfig(batch_tokens=batch_tokens, max_updates=updates, device="cpu"),
    )
    seen: list[Record] = []

    def on_record(record: Record) -> None:
        seen[:] = [r for r in seen if type(r) is not type(record)] + [record]
        if isinstance(record, Preparing):
            watch.phase("tokenizer" if "tokenizer" in record.stage else "store of ids")
        elif isinstance(record, Prepared):
            watch.phase("trying the largest batch")
        elif isinstance(record, (Plan, Progress)):
            watch.phase(f"{updates} updates, validation, saving")

    watch.phase("reading, holding out, size of the vocabulary" if not vocab_size else "reading, holding out")
    train([str(tsv)], out=folder / "model", config=config, on_record=on_record)
    prepared = next(r for r in seen if isinstance(r, Prepared))
    finished = next(r for r in seen if isinstance(r, Finished))
    validation = next(r for r in seen if isinstance(r, Validation))

    watch.phase("every batch of an epoch made once")
    store = PairStore.open(folder / "model" / "training" / "store")
    pad = Tokenizer.load(folder / "model" / "tokenizer.model").pad_id
    plan = plan_epoch(store.source_lengths, store.target_lengths, batch_tokens, 1, 1)
    tokens = rows = 0
    for indices in plan:
        batch = make_batch(store, indices, pad, pad, pad)
        rows, tokens = rows + len(batch.indices), tokens + batch.src_tokens + batch.tgt_tokens
    watch.close()
    if rows != len(store):
        raise SystemExit(f"store_memory.py: an epoch has {rows:,} pairs, but the store {len(store):,}")
    size = sum(f.stat().st_size for f in (folder / "model" / "training" / "store").iterdir())
    return watch.phases, [
        f"{pairs:,} made-up pairs ({tsv.stat().st_size / 1e9:.2f} GB of text), {len(store):,} trained on, "
        f"{prepared.valid_pairs:,} held out; {prepared.source_vocab:,} pieces; {tokens:,} tokens in {len(plan):,} batches "
        f"of at most {batch_tokens:,}; the store is {size / 1e9:.2f} GB; {prepared.threads} thread(s), torch "
        f"{_torch_version()}, Python {platform.python_version()}.",
        f"{finished.update} updates of the tiny model ({prepared.parameters:,} parameters); validation loss "
        f"{validation.loss:.3f} at the end.",
        "" if watch.resettable else "The kernel did not let peaks be reset: each is the highest so far.",
    ]


def _torch_version() -> str:
    import torch

    return torch.__version__


def table(phases: list[Phase], notes: list[str]) -> str:
    """Markdown."""
    lines = ["# Memory of a large corpus", "", "Written by `benchmarks/store_memory.py`. All peaks of one process.", ""]
    lines += [line for note in notes if note for line in (note, "")]
    lines += ["| phase | seconds | peak resident (VmHWM), MB | of it anonymous (RssAnon), MB |", "|---|---|---|---|"]
    lines += [f"| {p.name} | {p.seconds:.0f} | {p.peak / 1e6:.0f} | {p.peak_anonymous / 1e6:.0f} |" for p in phases]
    highest, anonymous = max(p.peak for p in phases), max(p.peak_anonymous for p in phases)
    seconds = sum(p.seconds for p in phases)
    lines += [f"| **whole** | **{seconds:.0f}** | **{highest / 1e6:.0f}** | **{anonymous / 1e6:.0f}** |", ""]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=10_000_000)
    parser.add_argument("--updates", type=int, default=50)
    parser.add_argument("--batch-tokens", type=int, default=4096)
    parser.add_argument("--vocab-size", type=int, default=0, help="0: as pellucid chooses")
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    parser.add_argument("--out", type=Path, help="write the table here too")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="pellucid-store-", dir=options.folder))
    try:
        need, free = options.pairs * BYTES_A_PAIR + (200 << 20), shutil.disk_usage(folder).free
        if free < need:
            raise SystemExit(
                f"store_memory.py: {need / 1e9:.1f} GB are needed in {folder.parent}, but {free / 1e9:.1f} GB are free; "
                "--folder names another place, --pairs fewer pairs"
            )
        phases, notes = measure(folder, options.pairs, options.updates, options.batch_tokens, options.vocab_size)
    finally:
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
    text = table(phases, notes)
    print("\n" + text)
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
