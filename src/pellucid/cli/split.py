"""`pellucid split`."""

from __future__ import annotations

from typing import Any

import click

from pellucid.cli.checking import corpus_of, pair_options
from pellucid.cli.common import examples, say


@click.command(
    "split",
    epilog=examples(
        "pellucid split pairs.tsv --out data --valid 1000 --test 1000",
    ),
)
@pair_options
@click.option("--out", required=True, metavar="DIR", help="The folder for train.tsv, valid.tsv and test.tsv.")
@click.option("--valid", type=click.IntRange(0), required=True, metavar="N", help="Pairs to validate on, at most.")
@click.option("--test", type=click.IntRange(0), required=True, metavar="N", help="Pairs to test on, at most.")
@click.option(
    "--seed", type=int, default=0, show_default=True, metavar="N", help="Another one chooses other sentences."
)
def command(out: str, valid: int, test: int, seed: int, **given: Any) -> None:
    """Cut pairs into a training, a validation and a test set that share no source.

    Sources that differ only in case, punctuation, white space or the value of numbers count as one, and all their pairs
    come into one set. Which set that is depends on a hash of the source, so it is the same in every run and whatever the
    order of the pairs. Pairs with an empty side are left out. A sentence with more pairs than a set may take stays in
    training.
    """
    from pellucid.data.splitting import SETS, assign, write_split

    corpus = corpus_of(given)
    sets = assign(corpus, valid, test, seed)
    counts = write_split(corpus, sets, out)
    for name in SETS:
        say(f"{counts[name]:>10,} pairs  {out}/{name}.tsv")
    if left := int((sets < 0).sum()):
        say(f"{left:>10,} pairs  left out: a side is empty or not UTF-8")
