"""What `check` and `clean` share: their inputs, their rules, the look at the pairs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pellucid.cli.columns import Columns
from pellucid.cli.common import say

if TYPE_CHECKING:
    from pellucid.config import DataConfig
    from pellucid.data.check import Findings
    from pellucid.data.corpus import Corpus

F = TypeVar("F", bound=Callable[..., Any])
PAIRS_BETWEEN_LINES = 1_000_000


def pair_options(function: F) -> F:
    """Where the pairs are."""
    for option in reversed(
        [
            click.argument("pairs", nargs=-1, metavar="[PAIRS]..."),
            click.option("--src", multiple=True, metavar="FILE", help="Source text, a sentence a line (with --tgt)."),
            click.option("--tgt", multiple=True, metavar="FILE", help="Its translation, line by line."),
            click.option(
                "--source-lang", metavar="CODE", help="Language of the source, such as zh: which one to read."
            ),
            click.option("--target-lang", metavar="CODE", help="Language of the target."),
            click.option("--columns", type=Columns(), help="Source and target column of pair files, from 1."),
        ]
    ):
        function = option(function)
    return function


def check_options(function: F) -> F:
    """What the pairs are looked at for."""
    for option in reversed(
        [
            click.option("--valid", multiple=True, metavar="FILE", help="Pair file that must share no source with PAIRS."),
            click.option("--test", multiple=True, metavar="FILE", help="Another such."),
            click.option(
                "--max-characters", type=click.IntRange(1), default=1000, show_default=True, metavar="N",
                help="A longer side is too long.",
            ),
        ]
    ):  # fmt: skip
        function = option(function)
    return function


class Rules(click.ParamType):
    """Names of rules with commas between them, or all."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        from difflib import get_close_matches

        from pellucid.data.rules import RULES

        if value == "all":
            return tuple(RULES)
        names = tuple(name.strip() for name in str(value).split(",") if name.strip())
        for name in names:
            if name not in RULES:
                near = get_close_matches(name, RULES, n=1)
                self.fail(
                    f"there is no rule {name!r}; "
                    + (f"did you mean {near[0]!r}?" if near else f"the rules: {', '.join(RULES)}"), param, ctx,
                )  # fmt: skip
        if not names:
            self.fail("must name a rule, or all", param, ctx)
        return names


def _reading(given: dict[str, Any]) -> DataConfig:
    from pellucid.config import DataConfig

    return DataConfig(
        columns=given["columns"],
        skip_bad=True,
        source_language=given["source_lang"],
        target_language=given["target_lang"],
    )


def corpus_of(given: dict[str, Any]) -> Corpus:
    """The pairs that the options name. Bytes that are not UTF-8 do not stop it: they are a fault like others."""
    from pellucid.data.corpus import Corpus

    config = _reading(given)
    corpus = Corpus.from_files(given["pairs"], given["src"], given["tgt"], config)
    corpus.check_lengths()
    return corpus


def look(corpus: Corpus, look_for: Sequence[str], given: dict[str, Any]) -> Findings:
    """Check the pairs for some rules, with talk on stderr where it takes long."""
    from pellucid.data.check import Check, check_corpus
    from pellucid.data.corpus import Corpus
    from pellucid.data.language import LanguageGuess
    from pellucid.data.overlap import EvaluationSets

    sets = {}
    for name in ("valid", "test"):
        if given[name]:
            sets[name] = Corpus.from_files(given[name], [], [], _reading(given))
    evaluation = EvaluationSets(sets, near="overlap-near" in look_for) if sets else None
    guess = None
    if "language" in look_for:
        guess = LanguageGuess.learn(corpus, given["source_lang"], given["target_lang"])
    told = 0

    def progress(done: int) -> None:
        nonlocal told
        if done // PAIRS_BETWEEN_LINES > told and sys.stderr.isatty():
            told = done // PAIRS_BETWEEN_LINES
            say(f"{done:,} pairs …")

    check = Check(look_for, max_characters=given["max_characters"], evaluation=evaluation, is_foreign=guess)
    return check_corpus(corpus, check, progress)
