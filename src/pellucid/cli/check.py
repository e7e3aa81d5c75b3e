"""`pellucid check`."""

from __future__ import annotations

import json
from typing import Any

import click

from pellucid.cli.checking import Rules, check_options, corpus_of, look, pair_options
from pellucid.cli.common import examples, say
from pellucid.data.rules import RULES

HELP = """Look at sentence pairs before they are trained on: what is wrong, how often, where.

PAIRS are the training pairs. Nothing is changed (`pellucid clean` does that). Of equal pairs only the later ones count as
faults. What is looked for, by name:

\b
""" + "\n".join(f"{rule:<22}{meaning}" for rule, meaning in RULES.items())


@click.command(
    "check",
    help=HELP,
    epilog=examples(
        "pellucid check pairs.tsv",
        "pellucid check train.tsv --valid valid.tsv --test test.tsv --html report.html",
        "pellucid check --src train.en --tgt train.de --json > report.json",
        "pellucid check pairs.tsv --rules empty,duplicate,mojibake --strict",
    ),
)
@pair_options
@check_options
@click.option("--rules", type=Rules(), help="What to look for, with commas between. [all; language if one is named]")
@click.option(
    "--examples", "shown", type=click.IntRange(0), default=3, show_default=True, metavar="N", help="Of each fault."
)
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@click.option("--html", metavar="FILE", help="Write a page with plots too.")
@click.option("--strict", is_flag=True, help="Exit with 3 if anything is found.")
def command(
    rules: tuple[str, ...] | None, shown: int, as_json: bool, html: str | None, strict: bool, **given: Any
) -> None:
    from pellucid.data.check import faults_with_examples, places
    from pellucid.data.check_report import CheckReport, shift_ends, shift_places
    from pellucid.data.language import is_installed
    from pellucid.data.writing import NewFile

    if rules is None:
        judged = is_installed() and bool(given["source_lang"] or given["target_lang"])
        rules = tuple(rule for rule in RULES if rule != "language" or judged)
        if not judged:
            say(
                "note: scripts are looked at, languages only if you name them (--source-lang CODE --target-lang CODE) and "
                "have pip install 'pellucid[detect]'"
            )
    corpus = corpus_of(given)
    findings = look(corpus, rules, given)
    shifts = shift_places(findings, places(corpus, shift_ends(findings)))
    faults = faults_with_examples(corpus, findings, shown)
    inputs = tuple(name for item in corpus.inputs for name in item.names)
    report = CheckReport(inputs, findings, tuple(faults), shifts, rules)
    if html is not None:
        with NewFile(html) as page:
            page.write(report.as_html())
    click.echo(json.dumps(report.as_dict(), ensure_ascii=False, indent=1) if as_json else "\n".join(report.lines()))
    if strict and faults:
        say(f"--strict: {len(faults)} kinds of fault")
        raise SystemExit(3)
