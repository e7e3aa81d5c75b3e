"""What a training run leaves on the disk, under `training/` inside the model folder that it makes:

    config.toml      the resolved settings; `pellucid train --config` reproduces the run from them
    run.json         command, versions, hashes of the data
    metrics.jsonl    one record a line
    store/           the pairs as token ids
    checkpoints/step-00000500/   model.safetensors (what would translate), state.safetensors (what goes on), state.json

A checkpoint is written into a hidden folder that is renamed when everything in it has reached the disk, so that each
one is whole. Its state.json also says how long metrics.jsonl was: resuming cuts off what came later, so that state and
metrics always agree.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from torch import Tensor

from pellucid.checkpoint import fsync_directory, load_tensors, save_tensors, write_atomically
from pellucid.errors import ModelFolderError, TrainingError

KEEP_STATES = 2
"""The newest checkpoints that keep their optimizer state: one to go on from, one in case that one is damaged."""


@dataclass(frozen=True)
class Checkpoint:
    path: Path
    info: dict[str, Any]

    @property
    def update(self) -> int:
        return int(self.info["update"])

    @property
    def weights_file(self) -> Path:
        return self.path / "model.safetensors"


def is_training(model_directory: str | Path) -> bool:
    """Whether a process is training in a model folder just now."""
    try:
        with (Path(model_directory) / "training" / ".lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return False


class RunFolder:
    """The folder of one run; only one process at a time may hold it.

    Raises:
        TrainingError: another process is training in it.
    """

    def __init__(self, model_directory: str | Path) -> None:
        self.model_directory = Path(model_directory)
        self.path = self.model_directory / "training"
        self._checkpoints = self.path / "checkpoints"
        try:
            self._checkpoints.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TrainingError(f"{self.path}: cannot be made: {error.strerror}") from error
        self._lock = (self.path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            self._lock.close()
            raise TrainingError(f"{self.model_directory}: another process is training here") from error
        self._metrics: IO[bytes] | None = None

    @property
    def has_checkpoints(self) -> bool:
        return any(self._checkpoints.glob("step-*/state.json"))

    @property
    def config_file(self) -> Path:
        return self.path / "config.toml"

    @property
    def store(self) -> Path:
        return self.path / "store"

    def write_run(self, values: dict[str, Any]) -> None:
        write_atomically(self.path / "run.json", json.dumps(values, ensure_ascii=False, indent=2) + "\n")

    def read_run(self) -> dict[str, Any]:
        try:
            return dict(json.loads((self.path / "run.json").read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise TrainingError(f"{self.path / 'run.json'}: cannot be read: {error}") from error

    def add_metrics(self, record: dict[str, Any]) -> None:
        """Add one line to metrics.jsonl."""
        if self._metrics is None:
            self._metrics = (self.path / "metrics.jsonl").open("ab")
        self._metrics.write(json.dumps(record, ensure_ascii=False).encode("utf-8") + b"\n")
        self._metrics.flush()

    def cut_metrics(self, size: int) -> None:
        """Forget the lines after the first `size` bytes."""
        path = self.path / "metrics.jsonl"
        if path.exists() and path.stat().st_size > size:
            os.truncate(path, size)

    def save(
        self, update: int, weights: dict[str, Tensor], state: dict[str, Tensor], info: dict[str, Any]
    ) -> Checkpoint:
        """Write the checkpoint of `update` whole, or not at all.

        Raises:
            ModelFolderError: a full disk; the earlier checkpoints are intact.
        """
        final, hidden = self._checkpoints / f"step-{update:08d}", self._checkpoints / f".step-{update:08d}"
        shutil.rmtree(hidden, ignore_errors=True)
        metrics = self.path / "metrics.jsonl"
        info = {**info, "update": update, "metrics_bytes": metrics.stat().st_size if metrics.exists() else 0}
        try:
            hidden.mkdir()
            save_tensors(hidden / "model.safetensors", weights, {"format": "pt"})
            save_tensors(hidden / "state.safetensors", state)
            write_atomically(hidden / "state.json", json.dumps(info, indent=1))
            hidden.rename(final)
            fsync_directory(self._checkpoints)
        except (OSError, ModelFolderError) as error:
            shutil.rmtree(hidden, ignore_errors=True)
            if isinstance(error, ModelFolderError):
                raise
            raise ModelFolderError(f"{final}: cannot be written: {error.strerror}") from error
        return Checkpoint(final, info)

    def checkpoints(self) -> list[Checkpoint]:
        """All whole checkpoints, oldest first."""
        found = []
        for path in sorted(self._checkpoints.glob("step-*")):
            try:
                found.append(Checkpoint(path, dict(json.loads((path / "state.json").read_text(encoding="utf-8")))))
            except (OSError, ValueError):
                continue  # `load_newest` speaks of damage; here it only must not be in the way
        return found

    def load_newest(self) -> tuple[Checkpoint, dict[str, Tensor], dict[str, Tensor], list[str]]:
        """The newest checkpoint that can be read: itself, its weights, its state, and what was wrong with newer ones.

        Raises:
            TrainingError: none can be read.
        """
        problems: list[str] = []
        for path in sorted(self._checkpoints.glob("step-*"), reverse=True):
            if not (path / "state.safetensors").exists() and (path / "model.safetensors").exists():
                continue  # an old one whose optimizer state was let go
            try:
                info = dict(json.loads((path / "state.json").read_text(encoding="utf-8")))
                weights, state = load_tensors(path / "model.safetensors"), load_tensors(path / "state.safetensors")
            except (OSError, ValueError, ModelFolderError) as error:
                problems.append(f"{path.name} is damaged ({error}); going on from the one before it")
                continue
            return Checkpoint(path, info), weights, state, problems
        raise TrainingError(
            f"{self.path}: no checkpoint to go on from" + "".join(f"; {p}" for p in problems),
            hint="train without --resume into a new folder",
        )

    def prune(self, best: int | None, keep: int) -> None:
        """Delete what is not needed: all stay that are the best, among the newest `keep` validated, or the newest two."""
        found = self.checkpoints()
        newest = {c.update for c in found[-KEEP_STATES:]}
        validated = {c.update for c in [c for c in found if c.info.get("validated")][-keep:]}
        for checkpoint in found:
            if checkpoint.update not in newest:
                (checkpoint.path / "state.safetensors").unlink(missing_ok=True)
                if checkpoint.update not in validated and checkpoint.update != best:
                    shutil.rmtree(checkpoint.path, ignore_errors=True)

    def discard_after(self, update: int) -> None:
        """Delete checkpoints newer than `update` (damaged ones, when an older one is gone on from)."""
        for path in self._checkpoints.glob("step-*"):
            if int(path.name.removeprefix("step-")) > update:
                shutil.rmtree(path, ignore_errors=True)

    def close(self) -> None:
        if self._metrics is not None:
            self._metrics.close()
        self._lock.close()
        if not self.config_file.exists() and not self.has_checkpoints:
            # Nothing came of it (an input that is not there, say): leave no folder behind that looks like a run.
            shutil.rmtree(self.path, ignore_errors=True)
            with contextlib.suppress(OSError):
                self.model_directory.rmdir()  # only if it is empty
