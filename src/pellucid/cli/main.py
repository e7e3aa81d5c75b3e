"""`pellucid`: the group of verbs, each loaded only when it is called."""

from __future__ import annotations

import difflib
from importlib import import_module
from typing import Any

import click

from pellucid.errors import ConfigError
from pellucid.version import __version__

VERBS = {
    "demo": "Train a small translator in two minutes and look into it.",
    "train": "Make a translator from sentence pairs.",
    "translate": "Translate lines: one out for one in.",
    "score": "Say how probable given translations are.",
    "evaluate": "BLEU and chrF against references; compare two models.",
    "check": "Look at sentence pairs: what is wrong, and where.",
    "clean": "Drop pairs that have named faults; say which and why.",
    "split": "Cut pairs into training, validation and test set.",
    "average": "Average the weights of several checkpoints.",
    "quantize": "Make int8 weights of a model: smaller and faster.",
    "shortlist": "Learn which target pieces a source may have: for speed.",
    "calibrate": "Measure when a model is unsure, and which attention aligns.",
    "export": "Write a model in another program's format (CTranslate2).",
    "distill": "Train a small model on what a larger one translates.",
    "inspect": "Translate one text and show where every head looked.",
    "serve": "Translate for other programs; a page shows the model at work.",
    "heads": "Measure what every attention head does.",
    "align": "Say which word was translated by which, from attention.",
    "lab": "Run an idea of the paper as a small experiment, with checks.",
    "plot": "Draw the curves of a training run as SVG.",
    "doctor": "Look at this machine and installation; say what is missing.",
    "completion": "Print the script that makes a shell complete `pellucid`.",
}
"""The verbs in the order of the help page, with what they do: known without loading them."""


class Verbs(click.Group):
    """A click group whose commands live in modules of the same name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command: click.Command = import_module(f"pellucid.cli.{cmd_name}").command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            near = difflib.get_close_matches(args[0], VERBS, n=1)
            raise ConfigError(
                f"there is no verb {args[0]!r}",
                hint=f"did you mean `pellucid {near[0]}`?" if near else f"the verbs: {', '.join(VERBS)}",
            )
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would make a plain failure of it
            raise click.exceptions.Exit(141) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Verbs"):
            formatter.write_dl(list(VERBS.items()))


@click.group(
    cls=Verbs,
    subcommand_metavar="VERB [ARGS]...",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="`pellucid VERB --help` has examples.",
)
@click.version_option(__version__, prog_name="pellucid", message="%(prog)s %(version)s")
def cli() -> None:
    """The Transformer of "Attention Is All You Need": train a translator on your own pairs, translate, look inside."""
