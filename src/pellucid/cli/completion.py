"""`pellucid completion`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from pellucid.cli.common import examples


@click.command(
    "completion",
    epilog=examples(
        'eval "$(pellucid completion bash)"', "pellucid completion fish > ~/.config/fish/completions/pellucid.fish"
    ),
)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the script that makes a shell complete `pellucid`."""
    from pellucid.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # click knows the three shells above
    click.echo(kind(cli, {}, "pellucid", "_PELLUCID_COMPLETE").source())
