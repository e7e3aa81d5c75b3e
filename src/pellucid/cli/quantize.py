"""`pellucid quantize`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, input_lines, refuse_tags_without_text, say, tag_options


@click.command(
    "quantize",
    epilog=examples(
        "pellucid quantize model --out model-int8",
        "pellucid quantize model --out model-int8 --src dev.en --ref dev.de",
        "pellucid translate model-int8 < input.txt > output.txt",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--out", required=True, metavar="DIR", help="The new model folder.")
@click.option("--src", metavar="FILE", help="Text to calibrate and to compare with. [the run's validation pairs]")
@click.option("--ref", metavar="FILE", help="Its translations.")
@tag_options
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
def command(
    model: str, out: str, src: str | None, ref: str | None, to: str | None, tags: tuple[str, ...], threads: int
) -> None:
    """Make int8 weights of a model: a quarter of the size, and faster on a CPU.

    The model translates some sentences before and after. If it loses more than 0.5 chrF2++, nothing is kept and the exit status is 1.
    """
    from pellucid.errors import ConfigError
    from pellucid.quantization import MOST_CHRF_LOST, quantize_model

    if (src is None) != (ref is None):
        raise ConfigError("--src and --ref must come together")
    refuse_tags_without_text(src, to, tags)
    texts = None if src is None else list(input_lines(src))
    references = None if ref is None else list(input_lines(ref))
    done = quantize_model(model, out, texts, references, threads=threads, to=to, tags=tags)
    say(f"compared    {done.sentences:,} sentences; {done.same:,} come out the same")
    for name, scores in (("float32", done.before), ("int8", done.after)):
        for line in scores.lines():
            say(f"{name:<12}{line}")
    say(f"size        {done.bytes_before / 1e6:.1f} MB -> {done.bytes_after / 1e6:.1f} MB")
    if not done.is_good:
        lost = done.before.chrf - done.after.chrf
        raise ConfigError(
            f"int8 costs {lost:.2f} chrF2++, more than {MOST_CHRF_LOST}; {out} was not kept",
            hint="calibrate with more text, of the kind you will translate: --src FILE --ref FILE",
        )
    say(f"{out}: translate with it as with any model")
