"""`pellucid inspect`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from pellucid.cli.common import examples, say, search_config, search_options, tag_options
from pellucid.cli.drawing import attention_lines, rollout_lines


@click.command(
    "inspect",
    epilog=examples(
        'pellucid inspect model "Two dogs run over the grass."',
        'pellucid inspect model "Two dogs run over the grass." --html look.html',
        'pellucid inspect model "Two dogs run over the grass." --target "Zwei Hunde laufen." --map cross.4.1',
        'pellucid inspect model "Two dogs run over the grass." --rollout',
        'pellucid inspect model "Two dogs run over the grass." --off cross.4.1 --off cross.4.2',
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("text", metavar="TEXT")
@click.option("--target", metavar="TEXT", help="A translation to look at, instead of the model's own.")
@click.option(
    "--map", "shown", metavar="HEAD", help="The head to draw, like cross.4.1. [all heads of the sharpest layer]"
)
@click.option("--rollout", is_flag=True, help="Draw what of the source each word was made from, through all layers.")
@click.option("--off", multiple=True, metavar="HEAD", help="A head to switch off; may be given several times.")
@click.option("--pieces", is_flag=True, help="Draw pieces and not words.")
@click.option("--html", metavar="FILE", help="Write the page with everything in it; it opens without a server.")
@click.option(
    "--heads-table", metavar="FILE", help="Put this table of heads into the page: pellucid heads MODEL --json."
)
@click.option("--lang", type=click.Choice(["en", "zh"]), help="The language of the page. [the reader's]")
@click.option("--json", "as_json", is_flag=True, help="Print the whole trace as JSON.")
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
@tag_options
@search_options
def command(
    model: str,
    text: str,
    target: str | None,
    shown: str | None,
    rollout: bool,
    off: tuple[str, ...],
    pieces: bool,
    html: str | None,
    heads_table: str | None,
    lang: str | None,
    as_json: bool,
    threads: int,
    to: str | None,
    tags: tuple[str, ...],
    **given: object,
) -> None:
    """Translate one text and show where every head looked meanwhile.

    In the terminal one map is drawn; --html has all of them, and the beam.
    """
    from pellucid.errors import DataError
    from pellucid.inspection.recorder import Head
    from pellucid.inspection.report import inspect
    from pellucid.inspection.trace import trace
    from pellucid.translator import Translator

    translator = Translator.load(model, device="cpu", threads=threads, engine="torch", to=to, tags=tags)
    config = search_config(translator.loaded.search, given)
    heads = [Head.parse(name, translator.model) for name in off]
    wanted = Head.parse(shown, translator.model) if shown else None
    if html is not None:
        table = None
        if heads_table is not None:
            try:
                table = json.loads(Path(heads_table).read_text(encoding="utf-8"))
            except ValueError as error:
                raise DataError(f"is not JSON: {error}", file=heads_table) from None
        report = inspect(translator, text, target, config, off=heads, language=lang, table=table)
        report.save(html)
        found = report.trace
    else:
        found = trace(translator, text, target, config, off=heads)
    if as_json:
        from pellucid.inspection.encoding import trace_json

        click.echo(json.dumps(trace_json(found), ensure_ascii=False))
    else:
        click.echo(found.translation)
        lines = rollout_lines(found, pieces) if rollout else attention_lines(found, wanted, pieces)
        click.echo("\n".join(["", *lines]))
    if html is not None:
        say(f"{html}: open it in a browser")
