"""`pellucid distill`."""

from __future__ import annotations

import shlex
import time
from pathlib import Path
from typing import Any

import click

from pellucid.cli import train as train_verb
from pellucid.cli.common import examples, say, tag_options

TAKEN_OVER = [p for p in train_verb.command.params if p.name not in ("resume", "print_config", "tags")]
"""Everything that `pellucid train` can be told counts for the student, but for tags: it learns one language."""


@click.command(
    "distill",
    params=[click.Argument(["teacher"], metavar="TEACHER"), *TAKEN_OVER],
    epilog=examples(
        "pellucid distill model pairs.tsv --out student --preset fast",
        "pellucid distill model --src train.en --tgt train.de --out student --preset tiny --max-time 2h",
        "pellucid distill multilingual pairs.tsv --to de --out student",
    ),
)
@tag_options
def command(
    teacher: str,
    pairs: tuple[str, ...],
    to: str | None,
    tags: tuple[str, ...],
    out: Path | None,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Train a student on what TEACHER makes of the sources (sequence-level distillation).

    The targets of PAIRS are replaced by TEACHER's translations, which are kept in DIR/distillation; then a student is
    trained on them, with the options of `pellucid train`. Stopped while it translates, the same command goes on where it
    was; after that: pellucid train --resume --out DIR. A small student, or one with a shallow decoder (--preset fast),
    comes closer to its teacher so than by the original targets. --to and --tag choose among the teacher's languages and
    domains; the student has that one, and no tags.
    """
    from pellucid.errors import ConfigError, TrainingError

    config = train_verb.settings(None, False, {**given, "tags": ()})
    if config.data.tags:
        raise ConfigError(
            "a student learns one language, without tags", hint="take data.tags out; --to chooses the teacher's"
        )
    if out is None:
        raise ConfigError(
            "--out must name the folder of the student", hint=f"pellucid distill {teacher} PAIRS --out student"
        )
    if not pairs and not given["src"]:
        raise ConfigError("nothing to train on", hint="name a pair file, or --src and --tgt")
    if (out / "training" / "config.toml").exists():
        raise TrainingError(
            f"{out}: the student is in training already", hint=f"pellucid train --resume --out {shlex.quote(str(out))}"
        )

    from pellucid.cli.progress import duration
    from pellucid.distillation import distill
    from pellucid.training.run import train
    from pellucid.translator import Translator

    translator = Translator.load(
        teacher, device=config.training.device, threads=config.training.threads, to=to, tags=tags
    )
    started, first = time.monotonic(), -1

    def told(done: int, total: int) -> None:
        nonlocal first
        if first < 0:
            first = done
        seconds = time.monotonic() - started
        left = duration(seconds * (total - done) / (done - first)) if done > first else "?"
        if not quiet:
            say(f"teacher     {done:,} of {total:,} sentences, {left} left")

    files = {name: given[name] for name in ("src", "tgt", "valid", "valid_src", "valid_tgt")}
    try:
        done = distill(translator, out, pairs, **files, config=config.data, on_progress=told)
    except KeyboardInterrupt:
        say("stopped; what is translated is kept. The same command goes on with it.")
        raise
    del translator
    train_verb.run_and_report(
        lambda watch: train(
            src=[str(done.src)], tgt=[str(done.tgt)], valid_src=[str(done.valid_src)], valid_tgt=[str(done.valid_tgt)],
            out=out, config=config, on_record=watch,
        ),
        out, quiet, verbose,
    )  # fmt: skip
