"""`pellucid shortlist`."""

from __future__ import annotations

import click

from pellucid.cli.common import examples, say


@click.command(
    "shortlist",
    epilog=examples("pellucid shortlist model", "pellucid shortlist model-int8 --run model"),
)
@click.argument("model", metavar="MODEL")
@click.option("--run", metavar="DIR", help="The model whose training pairs to learn from. [MODEL]")
@click.option("--threads", type=click.IntRange(0), metavar="N", default=0, help="CPU threads; 0: all that it may use.")
def command(model: str, run: str | None, threads: int) -> None:
    """Learn from a run's training pairs which target pieces every source piece may have, and keep that in MODEL.

    `--shortlist` of translate and evaluate then lets the output layer compute those only. That is faster the larger the
    vocabulary is, and costs what a list lacks: the validation pairs are translated with and without, and compared.
    A quantized model has no run of its own: --run names the folder that it was made from.
    """
    from pellucid.shortlisting import make_shortlist

    done = make_shortlist(model, run, threads=threads)
    say(
        f"learnt from {done.pairs:,} pairs; a sentence has {done.mean_size:,.0f} of {done.vocabulary:,} pieces to choose from"
    )
    say(f"compared    {done.sentences:,} sentences; {done.same:,} come out the same")
    for name, scores, seconds in (
        ("whole", done.before, done.seconds_before),
        ("shortlist", done.after, done.seconds_after),
    ):
        for line in scores.lines():
            say(f"{name:<12}{line}")
        say(f"{name:<12}{seconds:.1f} s")
