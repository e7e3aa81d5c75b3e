"""The pairs as token ids on the disk, read through a memory map: ten million pairs need little memory.

    source.ids, target.ids          all sequences one behind the other, each with its end mark (uint16 or uint32)
    source.offsets, target.offsets  int64, where each begins, and where the last one ends
    store.json                      fingerprint and report; written last

A store is built in a hidden folder that is renamed when it is whole, and used again while the fingerprint of inputs,
tokenizers and settings is the same.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import numpy as np

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, CorpusReport, why_dropped
from pellucid.data.formats.pair import SentencePair
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import DataError
from pellucid.machine import available_cores

CHUNK = 20_000
SIDES = ("source", "target")


class PairStore:
    """Made by :meth:`build` or :meth:`open`."""

    def __init__(self, directory: Path, dtype: str) -> None:
        self.directory = directory
        self._ids = {side: _map(directory / f"{side}.ids", np.dtype(dtype)) for side in SIDES}
        self._offsets = {side: _map(directory / f"{side}.offsets", np.dtype("int64")) for side in SIDES}
        self.source_lengths = np.diff(self._offsets["source"]).astype(np.int32)
        """Tokens of each source, its end mark included."""
        self.target_lengths = np.diff(self._offsets["target"]).astype(np.int32)

    @classmethod
    def open(cls, directory: str | Path) -> PairStore:
        """A store that :meth:`build` has made.

        Raises:
            DataError: there is none.
        """
        directory = Path(directory)
        try:
            described = json.loads((directory / "store.json").read_text(encoding="utf-8"))
            return cls(directory, described["dtype"])
        except (OSError, ValueError, KeyError) as error:
            raise DataError(f"is no store of pairs: {error}", file=str(directory)) from error

    @classmethod
    def build(
        cls,
        directory: str | Path,
        corpus: Corpus,
        source: Tokenizer,
        target: Tokenizer,
        config: DataConfig,
        progress: Callable[[int], None] | None = None,
    ) -> tuple[PairStore, CorpusReport]:
        """The store of `corpus`, built or found; and what was dropped on the way. `progress` is told of pairs done."""
        directory = Path(directory)
        fingerprint = _fingerprint(corpus, source, target, config)
        try:
            described = json.loads((directory / "store.json").read_text(encoding="utf-8"))
            if described["fingerprint"] == fingerprint:
                report = CorpusReport(described["read"], Counter(described["dropped"]))
                return cls.open(directory), report
        except (OSError, ValueError, KeyError, DataError):
            pass  # none, or damaged: built anew
        hidden = directory.with_name(f".{directory.name}.new")
        shutil.rmtree(hidden, ignore_errors=True)
        hidden.mkdir(parents=True)
        dtype = "uint16" if max(len(source), len(target)) <= 1 << 16 else "uint32"
        try:
            report = _write(hidden, corpus, source, target, config, np.dtype(dtype), progress)
            described = {"fingerprint": fingerprint, "dtype": dtype, "read": report.read, "dropped": report.dropped}
            (hidden / "store.json").write_text(json.dumps(described), encoding="utf-8")
        except OSError as error:
            shutil.rmtree(hidden, ignore_errors=True)
            raise DataError(f"cannot be written: {error.strerror}", file=str(directory)) from error
        shutil.rmtree(directory, ignore_errors=True)
        hidden.rename(directory)
        return cls.open(directory), report

    def __len__(self) -> int:
        return len(self.source_lengths)

    def source(self, i: int) -> np.ndarray:
        """The ids of source `i`, its end mark last."""
        offsets = self._offsets["source"]
        return self._ids["source"][offsets[i] : offsets[i + 1]]

    def target(self, i: int) -> np.ndarray:
        """The ids of target `i`, its end mark last."""
        offsets = self._offsets["target"]
        return self._ids["target"][offsets[i] : offsets[i + 1]]

    def release(self) -> None:
        """Let go of the pages that reading has brought in; the system would take them back anyway, but later."""
        for array in (*self._ids.values(), *self._offsets.values()):
            base = array.base
            while base is not None and not isinstance(base, mmap.mmap):
                base = getattr(base, "base", None)
            if isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED"):
                base.madvise(mmap.MADV_DONTNEED)


def _map(path: Path, dtype: np.dtype) -> np.ndarray:
    if path.stat().st_size == 0:
        return np.empty(0, dtype)  # an empty file cannot be mapped
    return np.memmap(path, dtype, "r")


def _fingerprint(corpus: Corpus, source: Tokenizer, target: Tokenizer, config: DataConfig) -> str:
    digest = hashlib.sha256(corpus.fingerprint().encode())
    digest.update(source.model_bytes)
    digest.update(target.model_bytes)
    digest.update(repr((source.config(), target.config(), config.max_tokens, config.max_ratio)).encode())
    return digest.hexdigest()


def _write(
    directory: Path,
    corpus: Corpus,
    source: Tokenizer,
    target: Tokenizer,
    config: DataConfig,
    dtype: np.dtype,
    progress: Callable[[int], None] | None,
) -> CorpusReport:
    report, threads = CorpusReport(), available_cores()
    files: dict[str, BinaryIO] = {
        f"{side}.{part}": (directory / f"{side}.{part}").open("wb") for side in SIDES for part in ("ids", "offsets")
    }
    ends = dict.fromkeys(SIDES, 0)
    try:
        for side in SIDES:
            files[f"{side}.offsets"].write(np.zeros(1, np.int64).tobytes())
        for chunk in _chunks(corpus):
            good: list[tuple[str, str]] = []
            for pair in chunk:
                report.read += 1
                why = why_dropped(pair)
                if why is None and pair.source is not None and pair.target is not None:
                    good.append((pair.source.strip(), pair.target.strip()))
                else:
                    report.dropped[why or "empty"] += 1
            rows = {
                "source": source.encode_batch([s for s, _ in good], threads),
                "target": target.encode_batch([t for _, t in good], threads),
            }
            kept: dict[str, list[list[int]]] = {side: [] for side in SIDES}
            for src, tgt in zip(rows["source"], rows["target"], strict=True):
                why = _too_long(len(src) + 1, len(tgt) + 1, config)
                if why:
                    report.dropped[why] += 1
                    continue
                kept["source"].append([*src, source.eos_id])
                kept["target"].append([*tgt, target.eos_id])
            for side in SIDES:
                lengths = np.fromiter(map(len, kept[side]), np.int64, len(kept[side]))
                offsets = ends[side] + np.cumsum(lengths)
                flat = np.fromiter((i for ids in kept[side] for i in ids), dtype, int(lengths.sum()))
                files[f"{side}.ids"].write(flat.tobytes())
                files[f"{side}.offsets"].write(offsets.tobytes())
                ends[side] = int(offsets[-1]) if len(offsets) else ends[side]
            if progress is not None:
                progress(report.read)
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    finally:
        for file in files.values():
            file.close()
    return report


def _too_long(source: int, target: int, config: DataConfig) -> str | None:
    if max(source, target) > config.max_tokens:
        return f"longer than {config.max_tokens} tokens"
    if config.max_ratio and max(source, target) > config.max_ratio * min(source, target):
        return f"one side more than {config.max_ratio:g} times as long"
    return None


def _chunks(corpus: Corpus) -> Iterator[list[SentencePair]]:
    pairs = iter(corpus)
    while chunk := list(islice(pairs, CHUNK)):
        yield chunk
