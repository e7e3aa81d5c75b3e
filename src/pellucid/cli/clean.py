"""`pellucid clean`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pellucid.cli.checking import Rules, check_options, corpus_of, look, pair_options
from pellucid.cli.common import examples, say
from pellucid.data.rules import DROPPED

HELP = f"""Drop sentence pairs that have named faults; write down which, and why.

What stays is not changed, but for tabs and line ends inside a text, which become spaces. `pellucid check` shows the faults
and explains them. Where no rules are named, these drop a pair: {", ".join(DROPPED)}.

Languages are only guessed where that is asked for (--rules language), and only of texts that are long enough.
"""


@click.command(
    "clean",
    help=HELP,
    epilog=examples(
        "pellucid clean pairs.tsv --out clean.tsv",
        "pellucid clean pairs.tsv --out clean.tsv --rules duplicate,near-duplicate,numbers",
        "pellucid clean train.tsv --out clean.tsv --test test.tsv --report dropped.tsv",
    ),
)
@pair_options
@check_options
@click.option("--out", required=True, metavar="FILE", help="The pairs that stay, as TSV (also .tsv.gz, .tsv.xz).")
@click.option("--report", metavar="FILE", help="What was dropped: rules, file, line, source, target. [OUT.dropped.tsv]")
@click.option("--rules", type=Rules(), help="Which faults drop a pair, with commas between, or all (see below).")
def command(rules: tuple[str, ...] | None, out: str, report: str | None, **given: Any) -> None:
    from pellucid.data.cleaning import write_clean
    from pellucid.errors import ConfigError

    rules = rules or DROPPED
    report = report or f"{out}.dropped.tsv"
    corpus = corpus_of(given)
    sources = {Path(path).resolve() for item in corpus.inputs for path in item.paths}
    for path in (out, report):
        if Path(path).resolve() in sources:
            raise ConfigError(f"{path} must be another file than the pairs that are read", hint="--out NEW.tsv")
    findings = look(corpus, rules, given)
    cleaned = write_clean(corpus, findings, rules, out, report)
    say(f"{cleaned.read:,} pairs read, {cleaned.kept:,} kept in {out}")
    for rule, count in cleaned.dropped.most_common():
        say(f"{count:>10,}  {rule}")
    if cleaned.dropped:
        say(f"what was dropped: {report}")
