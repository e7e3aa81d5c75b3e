"""`pellucid calibrate`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, input_lines, machine_options, say


@click.command(
    "calibrate",
    epilog=examples(
        "pellucid calibrate model",
        "pellucid calibrate model-int8 --src dev.en --ref dev.de",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--src", metavar="FILE", help="Text to measure on. [the run's validation pairs]")
@click.option("--ref", metavar="FILE", help="Its translations.")
@machine_options
def command(model: str, src: str | None, ref: str | None, device: str, threads: int) -> None:
    """Measure when a model is unsure, and which of its attentions says where words come from.

    The result is kept in the model folder. Translations that are less probable than 19 in 20 of the measured ones are then flagged `low-confidence`, and tags and placeholders are put in where that attention points. `pellucid train` does this at its end.
    """
    from pellucid.calibrating import calibrate
    from pellucid.errors import ConfigError

    if (src is None) != (ref is None):
        raise ConfigError("--src and --ref must come together")
    texts = None if src is None else list(input_lines(src))
    references = None if ref is None else list(input_lines(ref))
    done = calibrate(model, texts, references, device=device, threads=threads)
    say(f"measured    {done.pairs:,} pairs" + ("" if done.single_sentences else "; many have several sentences"))
    say(f"unsure      below {done.low_confidence:.3f} nats a token, as {done.quantile:.0%} of them are")
    if done.alignment.layer is None:
        say("alignment   all layers together (too few pairs to say which is best)")
    else:
        rows = "has as input" if done.alignment.rows == "input" else "predicts"
        say(f"alignment   layer {done.alignment.layer + 1}, rows named by the token that a position {rows}")
