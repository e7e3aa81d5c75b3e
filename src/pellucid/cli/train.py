"""`pellucid train`."""

from __future__ import annotations

import contextlib
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.cli.columns import Columns
from pellucid.cli.common import examples, say

if TYPE_CHECKING:
    from collections.abc import Callable

    from pellucid.cli.progress import Watch
    from pellucid.config import RunConfig


class Duration(click.ParamType):
    """90s, 10m, 2h, 1h30m, or plain minutes; becomes minutes."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        match = re.fullmatch(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m?)?(?:(\d+(?:\.\d+)?)s)?", str(value).strip())
        seconds_only = re.fullmatch(r"(\d+(?:\.\d+)?)s", str(value).strip())
        if seconds_only:
            return float(seconds_only[1]) / 60
        if not match or not any(match.groups()):
            self.fail(f"{value!r} is no time; write 90s, 10m, 2h or 1h30m", param, ctx)
        hours, minutes, seconds = (float(g or 0) for g in match.groups())
        return hours * 60 + minutes + seconds / 60


class Weighted(click.ParamType):
    """A file and how much it counts: more.tsv=0.5."""

    name = "FILE=WEIGHT"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, float]:
        file, _, weight = str(value).rpartition("=")
        try:
            found = float(weight)
        except ValueError:
            found = 0.0
        if not file or not 0 < found < float("inf"):
            self.fail(f"{value!r} must be a file and a number above 0, such as more.tsv=0.5", param, ctx)
        return file, found


@click.command(
    "train",
    epilog=examples(
        "pellucid train pairs.tsv --out model",
        "pellucid train memory.tmx messages.po --out model --source-lang en --target-lang de",
        "pellucid train --src train.en --tgt train.de --out model --source-lang en --target-lang de",
        "pellucid train pairs.tsv.gz --valid valid.tsv --out model --preset small --max-time 2h",
        "pellucid train pairs.tsv --out model --set training.warmup_steps=2000 --set model.norm=pre",
        "pellucid train general.tsv --mix ours.tsv=3 --mix web.tsv=0.2 --out model",
        "pellucid train de.tsv fr.tsv --tag de.tsv=2de --tag fr.tsv=2fr --out model",
        "pellucid train --resume --out model",
        "pellucid train --print-config > my.toml; pellucid train pairs.tsv --config my.toml --out model",
    ),
)
@click.argument("pairs", nargs=-1, metavar="[PAIRS]...")
@click.option("--src", multiple=True, metavar="FILE", help="Source text, a sentence a line (repeatable, with --tgt).")
@click.option("--tgt", multiple=True, metavar="FILE", help="Its translation, line by line.")
@click.option(
    "--mix", multiple=True, type=Weighted(), help="A pair file whose pairs an epoch takes WEIGHT times (repeatable)."
)
@click.option(
    "--tag",
    "tags",
    multiple=True,
    metavar="FILE=TAG[,TAG]",
    help="What stands before each source of an input: a target language (2de), a domain (medical). Repeatable.",
)
@click.option("--valid", multiple=True, metavar="FILE", help="Pair file to validate on; none: some pairs are held out.")
@click.option("--valid-src", multiple=True, metavar="FILE", help="Source text to validate on (with --valid-tgt).")
@click.option("--valid-tgt", multiple=True, metavar="FILE", help="Its translation.")
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="The model folder to make.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out.")
@click.option("--preset", type=click.Choice(["auto", "tiny", "small", "base", "big", "fast"]), help="Size. [auto]")
@click.option(
    "--config", "config_file", type=click.Path(exists=True, dir_okay=False), metavar="FILE", help="Settings (TOML)."
)
@click.option("--set", "overrides", multiple=True, metavar="NAME=VALUE", help="One setting, such as training.seed=2.")
@click.option("--print-config", is_flag=True, help="Print all settings as TOML and stop.")
@click.option("--columns", type=Columns(), help="Source and target column of pair files, from 1.")
@click.option("--skip-bad", is_flag=True, default=None, help="Drop pairs that are not UTF-8 rather than stop.")
@click.option("--source-lang", metavar="CODE", help="Language of the source, such as zh.")
@click.option("--target-lang", metavar="CODE", help="Language of the target; decides how BLEU cuts words.")
@click.option("--vocab-size", type=int, metavar="N", help="Pieces of the tokenizer. [from the data]")
@click.option("--seed", type=int, metavar="N", help="Seed of everything random. [1]")
@click.option("--max-updates", type=click.IntRange(1), metavar="N", help="Stop after so many updates.")
@click.option("--max-epochs", type=click.IntRange(1), metavar="N", help="Stop after so many passes over the data.")
@click.option("--max-time", type=Duration(), help="Stop after this time: 90s, 10m, 2h.")
@click.option("--device", help="cpu, cuda, or auto. [auto]")
@click.option(
    "--precision", type=click.Choice(["auto", "float32", "bfloat16"]), help="Of products. [auto: bfloat16 if faster]"
)
@click.option("--threads", type=click.IntRange(0), metavar="N", help="CPU threads. [all that it may use]")
@click.option("-q", "--quiet", is_flag=True, help="Only errors, and the summary at the end.")
@click.option("-v", "--verbose", is_flag=True, help="A line for every update.")
def command(
    pairs: tuple[str, ...],
    src: tuple[str, ...],
    tgt: tuple[str, ...],
    mix: tuple[tuple[str, float], ...],
    valid: tuple[str, ...],
    valid_src: tuple[str, ...],
    valid_tgt: tuple[str, ...],
    out: Path | None,
    resume: bool,
    print_config: bool,
    quiet: bool,
    verbose: bool,
    **given: Any,
) -> None:
    """Make a translator from sentence pairs.

    PAIRS are files of pairs: .tsv (source, tab, target), .csv, .jsonl, .tmx, .xlf, .po or .mo, also with .gz or .xz;
    "-" is standard input, read as .tsv. Where a file has several languages, --source-lang and --target-lang choose two.
    Two aligned text files are named by --src and --tgt. A file that is named by --mix counts more or less than others:
    with a weight of 3 each of its pairs comes three times an epoch, with 0.5 every other time.

    By --tag one model learns several target languages or domains: `pellucid translate --to de --tag medical` asks for
    them. A tag is a token of its own, which no text can have. One that begins with 2 and a code names the target language.
    FILE is a file of pairs, or one of two aligned files, whichever tells the inputs apart.

    The run can be stopped at any time with Ctrl-C and resumed. Everything about it is kept in DIR/training.
    """
    from pellucid.errors import ConfigError, DataError

    config = settings(out, resume, given)
    if mix:
        config = mixed(config, pairs, mix, src)
        pairs = (*pairs, *(file for file, _ in mix))
    if print_config:
        click.echo(config.to_toml(), nl=False)
        return
    if out is None:
        raise ConfigError("--out must name the folder of the new model", hint="pellucid train PAIRS --out model")

    from pellucid.calibrating import calibrate
    from pellucid.training.run import train

    run_and_report(
        lambda watch: train(
            pairs, src=src, tgt=tgt, valid=valid, valid_src=valid_src, valid_tgt=valid_tgt, out=out, config=config,
            resume=resume, on_record=watch,
        ),
        out, quiet, verbose, config,
    )  # fmt: skip
    with contextlib.suppress(DataError):  # no validation pairs: nothing to measure on
        calibrate(out, device=config.training.device, threads=config.training.threads)


def mixed(
    config: RunConfig, pairs: tuple[str, ...], mix: tuple[tuple[str, float], ...], src: tuple[str, ...]
) -> RunConfig:
    """`config` with a weight for each input, in the order in which they are read."""
    import dataclasses

    weights = (*(1.0 for _ in pairs), *(weight for _, weight in mix), *(1.0 for _ in src))
    return dataclasses.replace(config, data=dataclasses.replace(config.data, mix=weights))


def run_and_report(
    run: Callable[[Watch], object], out: Path, quiet: bool, verbose: bool, config: RunConfig | None = None
) -> None:
    """Show a run while it goes on, and say at its end what to type next, if `config` has target languages with one."""
    from pellucid.cli.progress import Watch
    from pellucid.tags import assigned, target_languages

    with Watch(quiet=quiet, verbose=verbose) as watch:
        run(watch)
    finished = watch.finished
    where = shlex.quote(str(out))
    if finished is not None and finished.reason in ("interrupted", "terminated"):
        say(f"saved at update {finished.update:,}. Go on with:\n  pellucid train --resume --out {where}")
        raise SystemExit(130 if finished.reason == "interrupted" else 143)
    languages = target_languages(tag for text in (config.data.tags if config else ()) for tag in assigned(text)[1])
    to = f" --to {languages[0]}" if languages else ""
    say(f"\nThe model is in {out}. Translate with it:\n  pellucid translate {where}{to} < input.txt > output.txt")


def settings(out: Path | None, resume: bool, given: dict[str, Any]) -> RunConfig:
    """The settings: the file's (or, resuming, the run's), then --set, then single options."""
    import dataclasses
    import tomllib

    from pellucid.config import RunConfig
    from pellucid.errors import ConfigError

    values: dict[str, Any] = {}
    file = given["config_file"]
    run_file = out / "training" / "config.toml" if out is not None else None
    if file is None and resume and run_file is not None and run_file.is_file():
        file = str(run_file)
    if file is not None:
        try:
            values = tomllib.loads(Path(file).read_text(encoding="utf-8"))
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise ConfigError(f"{file}: cannot be read as TOML: {error}") from error
    places = {
        "preset": (),
        "columns": ("data",), "tags": ("data",), "skip_bad": ("data",), "vocab_size": ("data",), "source_lang": ("data", "source_language"),
        "target_lang": ("data", "target_language"), "seed": ("training",), "max_updates": ("training",),
        "max_epochs": ("training",), "max_time": ("training", "max_minutes"), "device": ("training",),
        "precision": ("training",), "threads": ("training",),
    }  # fmt: skip
    from_file = RunConfig.from_mapping(values, given["overrides"], file or "")
    config = from_file  # options that were typed win over the file and over --set
    for option, place in places.items():
        value = given[option]
        if value is None or value == ():
            continue
        if not place:
            config = dataclasses.replace(config, preset=value)
            continue
        table, name = place[0], place[1] if len(place) > 1 else option
        config = dataclasses.replace(config, **{table: dataclasses.replace(getattr(config, table), **{name: value})})
    return config
