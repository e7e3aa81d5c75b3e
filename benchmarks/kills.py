"""Does every run survive kill -9? Trains the reverse-digits task, kills it at random moments, resumes, compares.

An unbroken run comes first. Then the same run again and again in new folders, each killed (SIGKILL) at moments drawn
uniformly from the length of the unbroken run, and resumed, until it ends before its next kill; until there have been
`--kills` kills. Every broken run must end with the same `model.safetensors` and the same last checkpoint (weights and
state), bit for bit, and the same losses in `metrics.jsonl`, each update once.

The settings make it hard: accumulation of 2, a moving average of the weights, early stopping, an average of the last
checkpoints at the end, a validation every few updates, and a save after every update, so that many kills fall into one.
A run that was killed before it had written its settings cannot be resumed, and says so; it is begun anew.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LONGEST = 8
CONFIG = """
preset = "tiny"

[model]
d_model = 32
num_encoder_layers = 1
num_decoder_layers = 1
d_ff = 64
dropout = 0.1

[data]
tokenizer = "word"
valid_pairs = 100

[training]
batch_tokens = 512
accumulate = 2
peak_rate = 0.005
warmup_steps = 50
ema_decay = 0.9
clip_norm = 1.0
max_updates = {updates}
validate_every = 10
patience = 2
stop_on = "loss"
save_minutes = {save_minutes}
keep_checkpoints = 3
average_checkpoints = 3
threads = 1
device = "cpu"
"""


@dataclass
class Tally:
    goal: int
    """Kills wanted."""
    kills: int = 0
    during_save: int = 0
    """Kills that left a half-written checkpoint or file."""
    begun_anew: int = 0
    resumes: int = 0
    resumes_that_worked: int = 0
    runs: int = 0
    runs_equal: int = 0
    problems: list[str] = field(default_factory=list)


def command(folder: Path, out: Path) -> list[str]:
    """To begin the run in `out`, or to go on with it if it has got so far as to have settings."""
    pellucid = [sys.executable, "-m", "pellucid", "train", "-q"]
    if (out / "training" / "config.toml").exists():
        return [*pellucid, "--resume", "--out", str(out)]
    return [*pellucid, str(folder / "pairs.tsv"), "--config", str(folder / "config.toml"), "--out", str(out)]


def start(arguments: list[str], log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with log.open("ab") as file:
        return subprocess.Popen(arguments, env=environment, stdout=file, stderr=file, stdin=subprocess.DEVNULL)


def outcome(out: Path) -> dict[str, Any]:
    """What must be the same: hashes of the model and of the last checkpoint, where the run stands, all losses."""
    last = max((out / "training" / "checkpoints").glob("step-*"))
    files = {"model": out / "model.safetensors"}
    files |= {f"last checkpoint's {n}": last / f"{n}.safetensors" for n in ("model", "state")}
    found: dict[str, Any] = {n: hashlib.sha256(path.read_bytes()).hexdigest() for n, path in files.items()}
    position = json.loads((last / "state.json").read_text(encoding="utf-8"))["position"]
    found["position"] = {name: value for name, value in position.items() if name != "seconds"}
    lines = (out / "training" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    found["losses"] = [[r["record"], r["update"], r["loss"]] for r in records if "loss" in r]
    found["reason"] = next(r["reason"] for r in records if r["record"] == "finished")
    return found


def half_written(out: Path) -> bool:
    """Hidden folders and files are what a save (of a checkpoint, of the model) is made in before it gets its name."""
    places = [out, out / "training", out / "training" / "checkpoints"]
    return any(p.name != ".lock" for place in places if place.is_dir() for p in place.glob(".*"))


def broken_run(
    folder: Path, out: Path, whole: dict[str, Any], seconds: float, draw: random.Random, tally: Tally
) -> None:
    """One run, killed until it ends in time or there have been enough kills."""
    log = out.with_suffix(".log")
    began = False
    while True:
        arguments = command(folder, out)
        resuming = "--resume" in arguments
        tally.resumes += resuming
        tally.begun_anew += began and not resuming
        began = True
        child = start(arguments, log)
        try:
            code = child.wait(draw.uniform(0, seconds) if tally.kills < tally.goal else None)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
            tally.kills += 1
            saving = half_written(out)
            tally.during_save += saving
            tally.resumes_that_worked += resuming  # it had not failed when it was killed
            print(f"kill {tally.kills}{' (while saving)' * saving}", file=sys.stderr, flush=True)
            continue
        if code:
            last_words = " ".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-2:])
            tally.problems.append(
                f"{out.name}: {'resuming' if resuming else 'beginning'} failed ({code}): {last_words}"
            )
            return
        tally.resumes_that_worked += resuming
        break
    tally.runs += 1
    found = outcome(out)
    different = [name for name in whole if found[name] != whole[name]]
    if different:
        tally.problems.append(f"{out.name}: ended with another {', another '.join(different)}")
    tally.runs_equal += not different


def report(tally: Tally, whole: dict[str, Any], seconds: float) -> str:
    updates = whole["position"]["update"]
    lines = [
        f"unbroken run: {updates} updates in {seconds:.1f} s, ended by {whole['reason']}, best at update "
        f"{whole['position']['best_update']}; model {whole['model'][:16]}",
        f"kills: {tally.kills}, of these {tally.during_save} left something half written; {tally.begun_anew} came "
        "before there was anything to resume",
        f"resumes that worked: {tally.resumes_that_worked} of {tally.resumes}",
        f"runs that ended as the unbroken one, bit for bit: {tally.runs_equal} of {tally.runs}",
        *(f"problem: {problem}" for problem in tally.problems),
    ]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--updates", type=int, default=400, help="most updates of a run")
    parser.add_argument("--save-minutes", type=float, default=1e-6, help="between saves; the default saves every time")
    parser.add_argument("--pairs", type=int, default=300, help="few, so that the run ends by patience")
    parser.add_argument("--seed", type=int, default=1, help="of the moments")
    parser.add_argument("--keep", action="store_true", help="leave the folders where they are")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="pellucid-kills-"))
    tally, draw = Tally(options.kills), random.Random(options.seed)
    try:
        write_inputs(folder, options.pairs, options.updates, options.save_minutes)
        started = time.monotonic()
        out = folder / "whole"
        if start(command(folder, out), out.with_suffix(".log")).wait():
            sys.exit("kills.py: the unbroken run failed:\n" + out.with_suffix(".log").read_text(encoding="utf-8"))
        seconds, whole = time.monotonic() - started, outcome(out)
        print(f"unbroken: {seconds:.1f} s, ended by {whole['reason']}", file=sys.stderr, flush=True)
        while tally.kills < tally.goal and len(tally.problems) < 5:
            broken = folder / f"broken-{tally.runs + len(tally.problems)}"
            broken_run(folder, broken, whole, seconds, draw, tally)
            if not options.keep:
                shutil.rmtree(broken, ignore_errors=True)
        print(report(tally, whole, seconds))
    finally:
        if options.keep:
            print(f"everything is in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    if tally.problems or tally.runs_equal != tally.runs or tally.resumes_that_worked != tally.resumes:
        sys.exit(1)


def write_inputs(folder: Path, pairs: int, updates: int, save_minutes: float) -> None:
    draw = random.Random(1)
    with (folder / "pairs.tsv").open("w", encoding="utf-8") as file:
        for _ in range(pairs):
            digits = [draw.choice("0123456789") for _ in range(draw.randint(1, LONGEST))]
            file.write(f"{' '.join(digits)}\t{' '.join(reversed(digits))}\n")
    settings = CONFIG.format(updates=updates, save_minutes=save_minutes)
    (folder / "config.toml").write_text(settings, encoding="utf-8")


if __name__ == "__main__":
    main()
