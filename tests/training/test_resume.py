"""A resumed run is the unbroken run, bit for bit; whatever interrupts it, nothing is lost."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import pytest
import torch

from pellucid.checkpoint import load_tensors
from pellucid.errors import ConfigError, ModelFolderError, TrainingError
from pellucid.training import run as run_module
from pellucid.training.records import Finished, Progress, Validation
from pellucid.training.run import train
from pellucid.training.run_folder import RunFolder
from training.conftest import tiny, write_reversals


def checkpoint_tensors(out: Path) -> dict[str, torch.Tensor]:
    newest = sorted((out / "training" / "checkpoints").glob("step-*"))[-1]
    state = {f"state.{k}": v for k, v in load_tensors(newest / "state.safetensors").items()}
    return {**load_tensors(newest / "model.safetensors"), **state}


def assert_same_run(one: Path, other: Path) -> None:
    a, b = checkpoint_tensors(one), checkpoint_tensors(other)
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []
    assert (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()


def stop_at(update: int, records: list | None = None):
    """An `on_record` that asks the run to end after `update`, as a signal would."""

    def watch(record):
        if records is not None:
            records.append(record)
        if isinstance(record, Progress) and record.update == update:
            os.kill(os.getpid(), signal.SIGTERM)

    return watch


FEATURES = {
    "plain": {},
    "accumulation": {"accumulate": 3},
    "moving average": {"ema_decay": 0.9},
    "clipping, averaging": {"clip_norm": 0.5, "average_checkpoints": 2},
    "two threads": {"threads": 2, "batch_tokens": 2048, "cooldown_steps": 20},
    "muon": {"optimizer": "muon", "weight_decay": 0.1, "peak_rate": 0.003},
    "often validated": {"validate_every": 7, "patience": 50, "stop_on": "chrf"},
}


@pytest.mark.parametrize("name", FEATURES)
def test_stopped_in_mid_epoch_and_resumed_equals_unbroken(tmp_path, reversals, name):
    config = tiny(max_updates=45, **FEATURES[name])
    train([str(reversals)], out=tmp_path / "whole", config=config)
    train([str(reversals)], out=tmp_path / "parts", config=config, on_record=stop_at(11))
    assert len(checkpoint_tensors(tmp_path / "parts")) > 10
    train(out=tmp_path / "parts", resume=True, on_record=stop_at(30))
    train(out=tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_mixed_run_is_resumed_with_its_weights(tmp_path, reversals):
    more = write_reversals(tmp_path / "more.tsv", 50, seed=5)
    config = tiny(max_updates=45)
    mixed = dataclasses.replace(config, data=dataclasses.replace(config.data, mix=(0.4, 3.0)))
    inputs = [str(reversals), str(more)]
    train(inputs, out=tmp_path / "whole", config=mixed)
    train(inputs, out=tmp_path / "parts", config=mixed, on_record=stop_at(20))
    train(out=tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    train(inputs, out=tmp_path / "unmixed", config=config)  # the control: weights do change what is learnt
    one, other = (checkpoint_tensors(tmp_path / name) for name in ("whole", "unmixed"))
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_there_must_be_a_weight_for_each_input(tmp_path, reversals):
    config = tiny(max_updates=1)
    config = dataclasses.replace(config, data=dataclasses.replace(config.data, mix=(1.0, 2.0)))
    with pytest.raises(ConfigError, match=r"a number for each of the 1 inputs, but has 2"):
        train([str(reversals)], out=tmp_path / "run", config=config)


def test_patience_and_best_survive_resuming(tmp_path, reversals):
    """With rate 0 no validation is better than the first: the run ends after `patience` more, resumed or not."""
    config = tiny(peak_rate=1e-12, validate_every=5, patience=3, max_updates=100)
    seen: list = []
    train([str(reversals)], out=tmp_path / "run", config=config, on_record=stop_at(12))
    train(out=tmp_path / "run", resume=True, on_record=seen.append)
    finished = seen[-1]
    assert isinstance(finished, Finished)
    assert finished.reason == "patience" and finished.update <= 25


def test_learning_rate_goes_on_where_it_was(tmp_path, reversals):
    rates: dict[int, float] = {}

    def watch(record):
        if isinstance(record, Progress):
            assert rates.setdefault(record.update, record.rate) == record.rate
            if record.update == 10:
                os.kill(os.getpid(), signal.SIGTERM)

    config = tiny(max_updates=25)
    train([str(reversals)], out=tmp_path / "run", config=config, on_record=watch)
    train(out=tmp_path / "run", resume=True, on_record=watch)
    assert sorted(rates) == list(range(1, 26))
    assert rates[10] == pytest.approx(0.005 * 10 / 20)


def test_metrics_and_state_agree_after_a_kill_between_the_two(tmp_path, reversals):
    """Lines that were written after the last checkpoint are cut off, so that no update comes twice."""
    config = tiny(max_updates=20)
    train([str(reversals)], out=tmp_path / "run", config=config, on_record=stop_at(10))
    metrics = tmp_path / "run" / "training" / "metrics.jsonl"
    with metrics.open("a") as file:
        file.write('{"record": "progress", "update": 11}\n{"record": "pro')
    train(out=tmp_path / "run", resume=True)
    updates = [r["update"] for r in map(json.loads, metrics.read_text().splitlines()) if r["record"] == "progress"]
    assert updates == list(range(1, 21))


def test_a_damaged_newest_checkpoint_falls_back_to_the_one_before(tmp_path, reversals):
    config = tiny(max_updates=30, validate_every=10)
    train([str(reversals)], out=tmp_path / "whole", config=config)
    train([str(reversals)], out=tmp_path / "run", config=config, on_record=stop_at(21))
    newest = sorted((tmp_path / "run" / "training" / "checkpoints").glob("step-*"))[-1]
    data = (newest / "state.safetensors").read_bytes()
    (newest / "state.safetensors").write_bytes(data[: len(data) // 2])
    seen: list = []
    train(out=tmp_path / "run", resume=True, on_record=seen.append)
    notes = next(r.notes for r in seen if hasattr(r, "notes"))
    assert any(newest.name in note and "damaged" in note for note in notes)
    assert_same_run(tmp_path / "whole", tmp_path / "run")


def command(*arguments: object, **options: object) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "src"}
    return subprocess.Popen(
        [sys.executable, "-m", "pellucid", *map(str, arguments)],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True, **options,
    )  # fmt: skip


def wait_for(path: Path, process: subprocess.Popen, pattern: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not any(path.glob(pattern)):
        assert process.poll() is None, process.stderr.read()
        assert time.monotonic() < end
        time.sleep(0.02)


def test_killed_without_warning_and_resumed_equals_unbroken(tmp_path, reversals):
    config = tiny(max_updates=120, validate_every=8, save_minutes=0.002)
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml())
    train([str(reversals)], out=tmp_path / "whole", config=config)
    out = tmp_path / "killed"
    process = command("train", reversals, "--config", file, "--out", out)
    wait_for(out / "training" / "checkpoints", process, "step-*")
    process.kill()
    process.wait()
    process.stderr.close(), process.stdout.close()
    assert not (out / "training" / "checkpoints" / "step-00000120").exists()
    train(out=out, resume=True)
    assert_same_run(tmp_path / "whole", out)


def test_ctrl_c_saves_says_how_to_go_on_and_exits_with_130(tmp_path, reversals):
    file = tmp_path / "config.toml"
    file.write_text(tiny(max_updates=100_000).to_toml())
    out = tmp_path / "run"
    process = command("train", reversals, "--config", file, "--out", out)
    wait_for(out / "training" / "checkpoints", process, "step-*")
    process.send_signal(signal.SIGINT)
    _, talk = process.communicate(timeout=60)
    assert process.returncode == 130
    assert f"pellucid train --resume --out {out}" in talk
    assert "Traceback" not in talk


FULL_DISK = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
sys.argv[0] = "pellucid"
from pellucid.training import trainer
def limit(self, *a, original=trainer.Trainer._save, n=[0]):
    n[0] += 1
    if n[0] == 3:  # from the third checkpoint on no file may grow past 4 kB: a write fails in its middle
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    return original(self, *a)
trainer.Trainer._save = limit
from pellucid.__main__ import main
main()
"""


def test_full_disk_while_saving_leaves_the_earlier_checkpoint_to_go_on_from(tmp_path, reversals):
    config = tiny(max_updates=40, validate_every=10)
    file = tmp_path / "config.toml"
    file.write_text(config.to_toml())
    train([str(reversals)], out=tmp_path / "whole", config=config)
    out = tmp_path / "full"
    script = tmp_path / "full_disk.py"
    script.write_text(FULL_DISK)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": "src"}
    done = subprocess.run(
        [sys.executable, str(script), "train", str(reversals), "--config", str(file), "--out", str(out)],
        capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "cannot be written" in done.stderr and "Traceback" not in done.stderr
    steps = [p.name for p in sorted((out / "training" / "checkpoints").iterdir())]
    assert steps == ["step-00000010", "step-00000020"]
    train(out=out, resume=True)
    assert_same_run(tmp_path / "whole", out)


def test_a_run_is_never_overwritten_by_accident(tmp_path, reversals):
    train([str(reversals)], out=tmp_path / "run", config=tiny(max_updates=2))
    with pytest.raises(TrainingError, match="holds a model or a run already") as raised:
        train([str(reversals)], out=tmp_path / "run", config=tiny(max_updates=2))
    assert "--resume" in raised.value.hint


def test_resuming_refuses_what_would_change_the_run_and_takes_new_limits(tmp_path, reversals):
    train([str(reversals)], out=tmp_path / "run", config=tiny(max_updates=3))
    before = run_module.RunConfig.from_toml(tmp_path / "run" / "training" / "config.toml")
    toml = before.to_toml()
    other = run_module.RunConfig.from_mapping(tomllib.loads(toml), ("training.batch_tokens=64",))
    with pytest.raises(ConfigError, match=r"training\.batch_tokens"):
        train(out=tmp_path / "run", config=other, resume=True)
    longer = run_module.RunConfig.from_mapping(tomllib.loads(toml), ("training.max_updates=5",))
    seen: list = []
    train(out=tmp_path / "run", config=longer, resume=True, on_record=seen.append)
    assert seen[-1].update == 5


def test_changed_data_is_noticed_when_resuming(tmp_path, reversals):
    train([str(reversals)], out=tmp_path / "run", config=tiny(max_updates=3))
    write_reversals(reversals, 300, seed=1)
    with pytest.raises(TrainingError, match="not the data"):
        train(out=tmp_path / "run", resume=True)


def test_one_process_at_a_time(tmp_path):
    first = RunFolder(tmp_path / "run")
    with pytest.raises(TrainingError, match="another process"):
        RunFolder(tmp_path / "run")
    first.close()
    RunFolder(tmp_path / "run").close()


def test_nothing_to_resume(tmp_path):
    with pytest.raises(TrainingError, match="no run to resume"):
        train(out=tmp_path / "none", resume=True)
    assert not (tmp_path / "none").exists()


def test_old_checkpoints_go_and_the_best_and_the_newest_stay(tmp_path, reversals):
    records: list = []
    train(
        [str(reversals)], out=tmp_path / "run", config=tiny(max_updates=60, validate_every=5, keep_checkpoints=2, patience=0),
        on_record=records.append,
    )  # fmt: skip
    best = [r for r in records if isinstance(r, Validation) and r.is_best][-1].update
    kept = {int(p.name[5:]) for p in (tmp_path / "run" / "training" / "checkpoints").glob("step-*")}
    assert kept == {best, 55, 60}
    with_state = {p.parent.name for p in (tmp_path / "run" / "training" / "checkpoints").glob("*/state.safetensors")}
    assert with_state == {"step-00000055", "step-00000060"}


def test_an_unwritable_folder_is_an_error_that_says_so(tmp_path):
    folder = RunFolder(tmp_path / "run")
    shutil.rmtree(tmp_path / "run" / "training" / "checkpoints")
    with pytest.raises(ModelFolderError, match="cannot be written"):
        folder.save(1, {}, {}, {})
    folder.close()
