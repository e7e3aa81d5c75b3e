"""What several verbs share: examples in help pages, search options, talk on stderr."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from pellucid.config import SearchConfig

F = TypeVar("F", bound=Callable[..., Any])


def examples(*lines: str) -> str:
    """An epilogue for `--help`, its lines kept as they are."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def say(text: str) -> None:
    """Talk goes to stderr; stdout is for results."""
    click.echo(text, err=True)


def language_of_environment() -> str:
    """zh if the environment speaks Chinese, else en."""
    names = ("LC_ALL", "LC_MESSAGES", "LANG")
    first = next((value for name in names if (value := os.environ.get(name))), "")
    return "zh" if first.lower().startswith("zh") else "en"


def search_options(function: F) -> F:
    """Options of :class:`~pellucid.config.SearchConfig`; what is not given comes from the model."""
    for option in reversed(
        [
            click.option(
                "--beam-size",
                type=click.IntRange(1),
                metavar="N",
                help="Hypotheses kept at each step; 1 is greedy. [model's]",
            ),
            click.option(
                "--length-penalty", type=click.FloatRange(0), metavar="X", help="alpha of ((5+|Y|)/6)^alpha. [model's]"
            ),
            click.option(
                "--max-length", type=click.IntRange(0), metavar="N", help="Most pieces; 0: the source's length + 50."
            ),
            click.option(
                "--length-ratio",
                type=click.FloatRange(0),
                metavar="X",
                help="Nor more than X times the source's pieces + 20; 0: no such bound. A server has 2.",
            ),
            click.option(
                "--min-length", type=click.IntRange(0), metavar="N", help="Fewest pieces before the end mark."
            ),
            click.option(
                "--no-repeat-ngram", type=click.IntRange(0), metavar="N", help="No run of so many pieces comes twice."
            ),
            click.option(
                "--batch-tokens", type=click.IntRange(1), metavar="N", help="Padded source tokens of one batch."
            ),
        ]
    ):
        function = option(function)
    return function


def machine_options(function: F) -> F:
    """Where and with how many threads."""
    threads = click.option(
        "--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use."
    )
    device = click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto.")
    return device(threads(function))


def tag_options(function: F) -> F:
    """What is wanted of a model that was trained for several languages or domains."""
    to = click.option("--to", metavar="CODE", help="Which of the model's target languages. [if it has one: that]")
    tags = click.option(
        "--tag", "tags", multiple=True, metavar="NAME", help="A tag of the model's, such as a domain (repeatable)."
    )
    return to(tags(function))


def refuse_tags_without_text(src: str | None, to: str | None, tags: tuple[str, ...]) -> None:
    """Nothing, if --to and --tag have a --src to be those of: the run's own validation pairs have tags of their own."""
    from pellucid.errors import ConfigError

    if src is None and (to or tags):
        raise ConfigError("--to and --tag are those of --src", hint="--src FILE, or leave them out")


def engine_option(function: F) -> F:
    """Which executor searches."""
    return click.option(
        "--engine",
        type=click.Choice(
            ["auto", "reference", "torch", "torch-int8", "ctranslate2", "ctranslate2-int8", "gpu", "gpu-float32"]
        ),
        default="auto",
        show_default=True,
        help="What searches: the model as it is read (reference), the same laid out for speed (torch), or with whole "
        "numbers, faster and a little less exact (torch-int8); or CTranslate2, if it is installed; or, with CUDA, in "
        "bfloat16 (gpu) or float32. auto: on a CPU torch or ctranslate2, whichever is faster, in int8 if the model is "
        "quantized; with CUDA gpu.",
    )(function)


def shortlist_option(function: F) -> F:
    """Search in a part of the vocabulary."""
    return click.option(
        "--shortlist",
        is_flag=True,
        help="Look only at the target pieces that a source may have: made before by `pellucid shortlist`.",
    )(function)


def search_config(defaults: SearchConfig, given: dict[str, Any]) -> SearchConfig:
    """`defaults` with the options that were given (those that are not None)."""
    names = {field.name for field in dataclasses.fields(defaults)}
    return dataclasses.replace(defaults, **{k: v for k, v in given.items() if k in names and v is not None})


def input_lines(path: str, *, skip_bad: bool = False) -> Iterator[str]:
    """The lines of a file or of standard input; a bad line that is skipped becomes an empty one, with a note."""
    from pellucid.data.formats.lines import read_lines

    for line in read_lines(path, skip_bad=skip_bad):
        if line.error is not None:
            say(f"note: {line.error}; treated as empty")
        yield line.text or ""


def write_line(text: str) -> None:
    """One line of result, at once. A line separator inside would make two of it."""
    sys.stdout.write(text.replace("\n", " ") + "\n")
    sys.stdout.flush()


def write_file(path: Path, text: str) -> None:
    """A result that the user named a file for: whole or not at all; into a device or pipe as it is."""
    from pellucid.checkpoint import write_atomically

    if path.exists() and not path.is_file():
        path.write_text(text, encoding="utf-8")  # a rename would put a file in the place of /dev/null
    else:
        write_atomically(path, text)
