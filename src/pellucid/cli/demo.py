"""`pellucid demo`."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pellucid.cli.common import examples, say
from pellucid.version import __version__

if TYPE_CHECKING:
    from pellucid.config import RunConfig
    from pellucid.demo_data import DemoCorpus, Item, Task
    from pellucid.training.evaluation import Scores
    from pellucid.translator import Translation, Translator

RESULT = "demo.json"
"""Written last into the demo's folder: a folder that has it holds a finished model."""
MARK = ".pellucid-demo"
"""Says that the folder is the demo's own, which --retrain may empty."""
MINUTES = 2.4
FEW_UPDATES = 300
"""With fewer than so many the models of both tasks are not worth looking at."""


@click.command(
    "demo",
    epilog=examples(
        "pellucid demo",
        "pellucid demo --retrain --minutes 5",
        "pellucid demo --task pinyin",
        "pellucid demo --serve",
        "pellucid demo --dir /tmp/demo",
    ),
)
@click.option("--task", type=click.Choice(["zh-en", "pinyin"]), default="zh-en", show_default=True,
              help="Chinese to English, or Chinese characters to pinyin.")  # fmt: skip
@click.option(
    "--minutes", type=click.FloatRange(0, min_open=True), metavar="M", help="Minutes of training, at most. [2.4]"
)
@click.option("--retrain", is_flag=True, help="Train anew, even if there is a model from an earlier time.")
@click.option("--dir", "directory", type=click.Path(file_okay=False, path_type=Path), metavar="DIR",
              help="Where it all goes. [the user's data folder]")  # fmt: skip
@click.option("--serve", is_flag=True, help="Open the page that shows the model at work afterwards.")
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
def command(task: str, minutes: float | None, retrain: bool, directory: Path | None, serve: bool, threads: int) -> None:
    """Train a small translator in two minutes, test it on unseen sentences, and look into it.

    The sentences are cut from an installed package; nothing is fetched from anywhere. Called again, it uses the model
    that it made the first time.
    """
    from pellucid import demo_data

    chosen = demo_data.TASKS[task]
    folder = directory or default_directory(task)
    if retrain:
        _clear(folder)
    if not (folder / RESULT).is_file():
        _train(chosen, folder, minutes, threads)
    else:
        say(f"using the model of an earlier time, {folder / 'model'}; --retrain makes it anew")
        if minutes is not None:
            say("note: --minutes is for training; give --retrain too")
    _show(chosen, folder, threads)
    if serve:
        from pellucid.cli.serve import serve_models

        serve_models([str(folder / "model")], threads=threads, open_page=True)


def default_directory(task: str) -> Path:
    """The user's data folder: $XDG_DATA_HOME/pellucid/demo-TASK, usually below ~/.local/share."""
    base = os.environ.get("XDG_DATA_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share") / "pellucid" / f"demo-{task}"


def _clear(folder: Path) -> None:
    """Empty a folder that the demo made.

    Raises:
        PellucidError: it is another's.
    """
    from pellucid.errors import PellucidError

    if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
        raise PellucidError(f"{folder}: was not made by the demo, and is left as it is", hint="--dir ANOTHER_FOLDER")
    (folder / RESULT).unlink(missing_ok=True)  # first: half a folder is not a finished one
    shutil.rmtree(folder, ignore_errors=True)


# --- training -----------------------------------------------------------------------------------------------------


def _train(task: Task, folder: Path, minutes: float | None, threads: int) -> None:
    """Train, or go on with training that was stopped; test; write down what came of it."""
    import dataclasses

    from pellucid import demo_data
    from pellucid.checkpoint import write_atomically
    from pellucid.cli.progress import Watch, duration
    from pellucid.config import RunConfig
    from pellucid.errors import PellucidError
    from pellucid.training.run import train

    corpus = demo_data.load(task)
    model = folder / "model"
    resume = (model / "training" / "config.toml").is_file()
    if not resume:
        if folder.exists() and any(folder.iterdir()) and not (folder / MARK).exists():
            raise PellucidError(f"{folder}: holds other files", hint="--dir ANOTHER_FOLDER")
        shutil.rmtree(model, ignore_errors=True)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PellucidError(f"{folder}: cannot be made: {error.strerror}", hint="--dir ANOTHER_FOLDER") from error
        write_atomically(folder / MARK, "")
        write_files(task, corpus, folder)
    config = None if minutes is None and resume else recipe(task, minutes or MINUTES, threads)
    if config is not None and resume:
        before = RunConfig.from_toml(model / "training" / "config.toml")
        config = dataclasses.replace(
            before, training=dataclasses.replace(before.training, max_minutes=config.training.max_minutes)
        )
    pairs = sum(len(item.targets) for item in corpus.train)
    say(f"{task.title}: {pairs:,} sentence pairs to learn from, {len(corpus.test)} unseen sentences to test with\n")
    with Watch(samples=1) as watch:
        train(
            [str(folder / "train.tsv")],
            valid=[str(folder / "valid.tsv")],
            out=model,
            config=config,
            resume=resume,
            on_record=watch,
        )
    finished = watch.finished
    if finished is not None and finished.reason in ("interrupted", "terminated"):
        say(f"stopped. Go on with:\n  {_program()} demo{_where(task, folder)}")
        raise SystemExit(130 if finished.reason == "interrupted" else 143)
    if finished is not None and finished.update < FEW_UPDATES:
        say(
            f"note: only {finished.update} updates fitted into {duration(finished.seconds)} (this machine is slow or busy); "
            f"expect little. More time: {_program()} demo --retrain --minutes 10{_where(task, folder)}"
        )
    say("testing on the unseen sentences …")
    scores, exact = _test(corpus.test, model, threads)
    result = {
        "pellucid": __version__,
        "task": task.name,
        "pairs": pairs,
        "tested": len(corpus.test),
        "seconds": finished.seconds if finished is not None else None,
        "bleu": scores.bleu,
        "bleu_signature": scores.bleu_signature,
        "chrf": scores.chrf,
        "chrf_signature": scores.chrf_signature,
        "exact": exact,
    }
    write_atomically(folder / RESULT, json.dumps(result, indent=2) + "\n")


def recipe(task: Task, minutes: float, threads: int) -> RunConfig:
    """The settings of a demo run."""
    from pellucid.config import RunConfig

    own = task.settings
    return RunConfig.from_mapping(
        {
            **own,
            "data": {
                "columns": [1, 2],
                "source_language": task.source_language,
                "target_language": task.target_language,
                **own["data"],
            },
            "training": {"max_minutes": minutes, "threads": threads, "patience": 0, **own["training"]},
        }
    )


def write_files(task: Task, corpus: DemoCorpus, folder: Path) -> None:
    """The three sets as files for other verbs: train.tsv, valid.tsv, test.SRC and test.TGT.1, .2, ..."""
    from pellucid.checkpoint import write_atomically

    for name, items in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
        rows = "".join(f"{source}\t{target}\t{credit}\n" for source, target, credit in corpus.pairs(items))
        write_atomically(folder / f"{name}.tsv", rows)
    write_atomically(folder / f"test.{task.source_language}", "".join(f"{item.source}\n" for item in corpus.test))
    for number, side in enumerate(references(corpus.test), 1):
        write_atomically(folder / f"test.{task.target_language}.{number}", "".join(f"{line}\n" for line in side))
    write_atomically(folder / "ATTRIBUTION.txt", task.attribution + "\n")


def references(items: Sequence[Item]) -> list[list[str]]:
    """[reference number][sentence]. A sentence with fewer than others repeats its first, which changes no score."""
    most = max(len(item.targets) for item in items)
    return [[item.targets[i] if i < len(item.targets) else item.targets[0] for item in items] for i in range(most)]


def _test(items: Sequence[Item], model: Path, threads: int) -> tuple[Scores, int]:
    from pellucid.training.evaluation import corpus_scores, exact_matches
    from pellucid.translator import Translator

    translator = Translator.load(model, threads=threads)
    texts = [t.text for t in translator.translate([item.source for item in items])]
    sides = references(items)
    return corpus_scores(texts, sides, translator.loaded.target_language), exact_matches(texts, sides)


# --- showing ------------------------------------------------------------------------------------------------------


def _show(task: Task, folder: Path, threads: int) -> None:
    from pellucid.errors import PellucidError
    from pellucid.translator import Translator

    model = folder / "model"
    again = f"{_program()} demo --retrain{_where(task, folder)}"
    try:
        result = json.loads((folder / RESULT).read_text(encoding="utf-8"))
        scores = _scores(result)
        started = time.perf_counter()
        translator = Translator.load(model, threads=threads)
    except (ValueError, KeyError, OSError) as error:
        raise PellucidError(f"{folder / RESULT}: cannot be read: {error!r}", hint=again) from error
    except PellucidError as error:
        raise PellucidError(str(error), hint=again) from error
    translations = translator.translate(task.sentences)
    seconds = time.perf_counter() - started
    heading = f"{task.title}: {result['tested']} sentences that it has never seen"
    lines = ["", click.style(heading, bold=True), *(f"  {line}" for line in scores)]
    lines += ["", click.style(f"Sentences of our own ({seconds:.1f} s with loading)", bold=True)]
    lines += [f"  {translation.source}  →  {translation.text}" for translation in translations]
    lines += ["", *_drawn(translator, translations), "", task.attribution, "", *_next(task, folder)]
    for line in lines:
        click.echo(line)


def _scores(result: dict[str, Any]) -> list[str]:
    lines = [
        f"BLEU {result['bleu']:.1f}   ({result['bleu_signature']})",
        f"chrF2++ {result['chrf']:.1f}   ({result['chrf_signature']})",
        f"{result['exact']} are exactly right",
    ]
    if result["task"] == "pinyin":
        lines = [f"{lines[2]} ({result['exact'] / result['tested']:.0%})", *lines[:2]]
    if result["seconds"] is not None:
        lines.append(f"after {result['seconds']:.0f} seconds of training on {result['pairs']:,} sentence pairs")
    return lines


def _drawn(translator: Translator, translations: Sequence[Translation]) -> list[str]:
    """A map of the first translation that has any words."""
    from pellucid.cli.drawing import attention_lines
    from pellucid.inspection.trace import trace

    for translation in translations:
        if translation.text:
            found = trace(translator, translation.source)
            title = click.style("What it looked at while it wrote each word", bold=True)
            return [title, *attention_lines(found)]
    return []


def _program() -> str:
    """How this program is called: by its name where that is found."""
    if shutil.which("pellucid"):
        return "pellucid"
    path = Path(sys.argv[0])
    if path.name == "pellucid" and path.is_file():
        here = os.path.relpath(path)
        return shlex.quote(here if not here.startswith("..") else str(path.resolve()))
    return "python -m pellucid"


def _where(task: Task, folder: Path) -> str:
    text = "" if task.name == "zh-en" else f" --task {task.name}"
    return text if folder == default_directory(task.name) else f"{text} --dir {shlex.quote(str(folder))}"


def _next(task: Task, folder: Path) -> list[str]:
    program, model = _program(), shlex.quote(str(folder / "model"))
    tested = shlex.quote(str(folder / f"test.{task.source_language}"))
    sides = sorted(folder.glob(f"test.{task.target_language}.*"))
    refs = " ".join(f"--ref {shlex.quote(str(side))}" for side in sides)
    return [
        click.style("What to type next", bold=True),
        "  # this model, on sentences that you type",
        f"  {program} translate {model}",
        "  # every head of it at work, in the browser",
        f"  {program} demo --serve{_where(task, folder)}",
        "  # its score once more",
        f"  {program} evaluate {model} --src {tested} {refs}",
        "  # this page again, without training",
        f"  {program} demo{_where(task, folder)}",
        "  # your own pairs: a file of lines with source, tab, target",
        f"  {program} train pairs.tsv --out my-model",
    ]
