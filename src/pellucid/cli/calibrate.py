"""`pellucid calibrate`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, input_lines, machine_options, refuse_tags_without_text, say, tag_options


@click.command(
    "calibrate",
    epilog=examples(
        "pellucid calibrate model",
        "pellucid calibrate model-int8 --src dev.en",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option(
    "--src", metavar="FILE", help="Text to translate for that, a sentence a line. [the run's validation sources]"
)
@tag_options
@machine_options
def command(model: str, src: str | None, to: str | None, tags: tuple[str, ...], device: str, threads: int) -> None:
    """Measure when a model is unsure, and which of its attentions says where words come from.

    It translates its validation sentences, and what 19 in 20 of the translations exceed in probability is kept in the model folder. Translations below that are then flagged `low-confidence`. Tags and placeholders are put in where that attention points. `pellucid train` does this at its end.
    """
    from pellucid.calibrating import calibrate

    refuse_tags_without_text(src, to, tags)
    texts = None if src is None else list(input_lines(src))
    done = calibrate(model, texts, device=device, threads=threads, to=to, tags=tags)
    say(f"measured    {done.sentences:,} texts" + ("" if done.single_sentences else "; many have several sentences"))
    say(f"unsure      below {done.low_confidence:.3f} nats a token, as {done.quantile:.0%} of them are")
    layer = "all layers" if done.alignment.layer is None else f"layer {done.alignment.layer + 1}"
    rows = "predict a token" if done.alignment.rows == "predicts" else "have it as input"
    say(f"alignment   {layer}, at the positions that {rows}")
