"""`pellucid export`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, input_lines, say


@click.command(
    "export",
    epilog=examples(
        "pellucid export model --to ctranslate2 model-ct2",
        "pellucid export model --to ctranslate2 model-ct2 --int8",
        "pellucid export model --to ctranslate2 model-ct2 --src dev.en",
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("out", metavar="DIR")
@click.option("--to", "format_", required=True, type=click.Choice(["ctranslate2"]), help="The other program.")
@click.option("--int8", is_flag=True, help="Store weights as whole numbers: a quarter of the size.")
@click.option("--src", metavar="FILE", help="Text to verify with. [the run's validation pairs]")
def command(model: str, out: str, format_: str, int8: bool, src: str | None) -> None:
    """Write MODEL as a folder DIR that another program reads, and verify that both translate alike.

    If they do not, nothing is kept and the exit status is 1. DIR has the SentencePiece models and a README too.
    """
    from pellucid.exporting import export_model

    texts = None if src is None else list(input_lines(src))
    done = export_model(model, out, int8=int8, sources=texts)
    say(
        f"verified    {done.sentences} sentences: {done.same} the same; log-probabilities of a token differ by {done.mean_difference:.1g} (at most {done.largest_difference:.1g})"
    )
    say(f"{out}: ready for ctranslate2.Translator; see the README there")
