"""`pellucid average`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, say


@click.command(
    "average",
    epilog=examples(
        "pellucid average run/training/checkpoints/step-0000{0800,0900,1000} --out averaged",
        "pellucid average model-seed1 model-seed2 --out averaged",
    ),
)
@click.argument("models", nargs=-1, required=True, metavar="MODEL...")
@click.option("--out", required=True, metavar="DIR", help="The new model folder.")
def command(models: tuple[str, ...], out: str) -> None:
    """Average the weights of several checkpoints or models of one shape (section 6.1 of the paper)."""
    from pathlib import Path

    from pellucid.checkpoint import average_models
    from pellucid.errors import ModelFolderError

    if (Path(out) / "config.json").exists():
        raise ModelFolderError(f"{out}: holds a model already", hint="name another folder")
    average_models(models, out)
    say(f"{out}: the mean of {len(models)}")
