"""`pellucid heads`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.common import (
    examples,
    input_lines,
    language_of_environment,
    machine_options,
    say,
    tag_options,
    write_file,
)

if TYPE_CHECKING:
    from pellucid.inspection.heads import HeadReport, HeadTable
    from pellucid.inspection.recorder import Head
    from pellucid.translator import Translator

CELL = 19
"""Columns of a head in the tables."""
MOST_RETRANSLATED = 3
KINDS_IN_WORDS = {
    "encoder": "encoder: the source looks at itself",
    "decoder": "decoder: the translation looks at what is written",
    "cross": "cross: the translation looks at the source",
}
LEGEND = """\
{pairs:,} pairs, loss {loss:.3f} nats a piece. In each cell, for layer and head:
  what the head leans to: its share of the weight / the share of a head that looks everywhere evenly; – nothing above that
    previous, same, next: the place before, its own, the place after (cross: those of the source)
    separator: marks and punctuation; rare: the rarest word of the source; same_word: other places of the same piece
    * half of the weight (Clark et al. 2019), ** 90 % of the largest weights (Voita et al. 2019)
  I importance by gradient (Michel et al. 2019; all of a layer is 1), Δ nats a piece that are lost {off}
  Spearman's correlation of gradient and Δ: {spearman}
Weights are not explanations: a head that leans to something need not matter; Δ says what it matters for the loss."""


@click.command(
    "heads",
    epilog=examples(
        "pellucid heads model",
        "pellucid heads model --src dev.en --tgt dev.de --limit 500 --html heads.html",
        "pellucid heads model --head cross.3.6 --head encoder.1.2 --bleu",
        "pellucid heads model --json > heads.json",
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("pairs", nargs=-1, metavar="[PAIRS]...")
@click.option("--src", multiple=True, metavar="FILE", help="Source text. [the run's validation pairs]")
@click.option("--tgt", multiple=True, metavar="FILE", help="Its translation, line by line.")
@click.option("--limit", type=click.IntRange(1), metavar="N", default=200, show_default=True, help="Pairs, at most.")
@click.option("--bleu", is_flag=True, help="Translate without a head too, and compare BLEU and chrF2++: slow.")
@click.option(
    "--head", "named", multiple=True, metavar="NAME",
    help=f"With --bleu: which head, as in cross.3.6 (repeatable). [the {MOST_RETRANSLATED} that the loss needs most]",
)  # fmt: skip
@click.option("--mean", is_flag=True, help="A head that is off gives its mean output, instead of nothing: gentler.")
@click.option("--gold", metavar="FILE", help="Gold links of the pairs (0-0 1p2 ...): alignment error of cross heads.")
@click.option("--json", "as_json", is_flag=True, help="As JSON; layers and heads count from 0 there.")
@click.option("--html", metavar="FILE", help="Also as a page: every measure, coloured, with examples.")
@click.option("--lang", type=click.Choice(["en", "zh"]), help="The language of the page. [that of the environment]")
@tag_options
@machine_options
def command(
    model: str,
    pairs: tuple[str, ...],
    src: tuple[str, ...],
    tgt: tuple[str, ...],
    limit: int,
    bleu: bool,
    named: tuple[str, ...],
    mean: bool,
    gold: str | None,
    as_json: bool,
    html: str | None,
    lang: str | None,
    to: str | None,
    tags: tuple[str, ...],
    device: str,
    threads: int,
) -> None:
    """Measure every attention head: where it looks, how sharply, and what the model loses without it.

    Given translations are fed to the model piece by piece (teacher forcing), so nothing is searched for.
    """
    from pellucid.cli.progress import Countdown
    from pellucid.errors import ConfigError
    from pellucid.inspection.heads import measure_heads
    from pellucid.inspection.recorder import Head
    from pellucid.translator import Translator

    if named and not bleu:
        raise ConfigError("--head says which heads to translate without, and needs --bleu", hint="--bleu")
    if gold is not None and not (src or pairs):
        raise ConfigError("--gold has the links of pairs that must be named", hint="--src FILE --tgt FILE")
    translator = Translator.load(model, device=device, threads=threads, to=to, tags=tags)
    chosen = [Head.parse(name, translator.model) for name in named]
    some = _pairs(translator, pairs, src, tgt, limit)
    with Countdown("measuring") as countdown:
        table = measure_heads(translator, some, off="means" if mean else "zeros", progress=countdown)
    if gold is not None:
        table = _with_alignment(translator, some, list(input_lines(gold)), gold, table)
    if bleu:
        needed = sorted(table.heads, key=lambda report: -(report.values["delta_loss"] or 0.0))
        chosen = chosen or [report.head for report in needed[:MOST_RETRANSLATED]]
        table = _retranslated(translator, some, chosen, mean, table)
    if html is not None:
        from pellucid.inspection.heads_page import heads_page

        write_file(Path(html), heads_page(table, Path(model).resolve().name, lang or language_of_environment()))
        say(f"{html}: open it in a browser")
    if as_json:
        click.echo(json.dumps(table.to_json(), ensure_ascii=False, indent=1))
        return
    for line in _lines(table, mean, shutil.get_terminal_size((100, 24)).columns):
        click.echo(line)
    for report in table.heads:
        if report.values.get("delta_bleu") is not None:
            click.echo(_comparison(report))


def _pairs(
    translator: Translator, pairs: Sequence[str], src: Sequence[str], tgt: Sequence[str], limit: int
) -> list[tuple[str, str]]:
    """The pairs that were named, or those that the run kept to validate on."""
    from itertools import islice

    from pellucid.config import DataConfig
    from pellucid.data.corpus import Corpus
    from pellucid.errors import DataError
    from pellucid.quantization import validation_pairs

    if pairs or src or tgt:
        corpus = Corpus.from_files(pairs, src, tgt, DataConfig())
        corpus.check_lengths()
        return [(pair.source or "", pair.target or "") for pair in islice(corpus, limit)]
    try:
        return list(islice(zip(*validation_pairs(translator), strict=True), limit))
    except DataError as error:
        raise DataError(
            str(error), hint="--src FILE --tgt FILE: some hundred sentences and their translations"
        ) from error


def _with_alignment(
    translator: Translator, pairs: Sequence[tuple[str, str]], lines: Sequence[str], file: str, table: HeadTable
) -> HeadTable:
    """The alignment error rate of every cross-attention head, by the better of both conventions."""
    from pellucid.inspection.alignment import align, all_readings, read_gold, split_at_spaces
    from pellucid.inspection.measures import alignment_error_rate
    from pellucid.inspection.recorder import Head

    gold = read_gold(lines[: len(pairs)], file)
    if strangers := gold.strangers(pairs):
        say(f"note: {strangers} gold links name words that their sentences do not have")
    pairs = [(" ".join(source.split()), " ".join(target.split())) for source, target in pairs]
    readings = [reading for reading in all_readings(translator.model) if reading.head is not None]
    found = align(translator, pairs, readings, cut=split_at_spaces).links
    rates: dict[Head, float] = {}
    for reading in readings:
        assert reading.head is not None
        head = Head("cross", reading.layer, reading.head)
        rates[head] = min(rates.get(head, 1.0), alignment_error_rate(found[reading], gold.sure, gold.possible))
    return table.with_measure("alignment_error", -1, rates)


def _retranslated(
    translator: Translator, pairs: Sequence[tuple[str, str]], heads: Sequence[Head], mean: bool, table: HeadTable
) -> HeadTable:
    """What translating without each of `heads` does to the scores."""
    from pellucid.cli.progress import Countdown
    from pellucid.inspection.ablation import mean_outputs, scores_without
    from pellucid.inspection.forcing import ForcedPair

    sources, references = [source for source, _ in pairs], [target for _, target in pairs]
    means = mean_outputs(translator, [ForcedPair.of(translator, *pair) for pair in pairs]) if mean else None
    with Countdown("translating without") as countdown:
        found = scores_without(translator, sources, references, heads, means, progress=countdown)
    for name in ("delta_bleu", "bleu_p", "delta_chrf", "chrf_p", "same_translations"):
        values = {head: float(getattr(result, name)) for head, result in found.items()}
        table = table.with_measure(name, -1, values)  # what is low stands out: points lost, chance, translations kept
    return table


def _comparison(report: HeadReport) -> str:
    values = {name: value or 0.0 for name, value in report.values.items()}
    return (
        f"without {report.head}: BLEU {values['delta_bleu']:+.2f} (p = {values['bleu_p']:.3f}), "
        f"chrF2++ {values['delta_chrf']:+.2f} (p = {values['chrf_p']:.3f}); {values['same_translations']:.0f} translations stay the same"
    )


# --- tables -----------------------------------------------------------------------------------------------------------


def _lines(table: HeadTable, mean: bool, width: int) -> Iterator[str]:
    """One table a kind of attention: a row a layer, a column a head."""
    from pellucid.inspection.measures import spearman
    from pellucid.inspection.recorder import KINDS
    from pellucid.terminal import fit

    for kind in KINDS:
        reports = table.of(kind)
        yield KINDS_IN_WORDS[kind]
        layers = [[r for r in reports if r.head.layer == n] for n in range(reports[-1].head.layer + 1)]
        together = max(1, (width - 4) // (CELL + 1))  # heads that fit beside each other
        for first in range(0, len(layers[0]), together):
            shown = [layer[first : first + together] for layer in layers]
            yield "    " + " ".join(fit(f"head {report.head.head + 1}", CELL) for report in shown[0])
            for number, layer in enumerate(shown, 1):
                yield fit(f"{number:>2}", 4) + " ".join(fit(_lean(report), CELL) for report in layer)
                yield "    " + " ".join(fit(_worth(report), CELL) for report in layer)
        yield ""
    correlations = []
    for kind in KINDS:
        gradient, loss = ([r.values[name] or 0.0 for r in table.of(kind)] for name in ("gradient", "delta_loss"))
        correlations.append(f"{kind} {spearman(gradient, loss):.2f}")
    off = "with the head's mean in its place" if mean else "without the head"
    yield LEGEND.format(pairs=table.pairs, loss=table.loss, spearman=", ".join(correlations), off=off)


def _lean(report: HeadReport) -> str:
    """`previous 67/7%*`."""
    from pellucid.inspection.heads import CLEAR, STRONG
    from pellucid.inspection.roles import MAXIMA

    if report.leans is None:
        return "–"
    maxima = report.values[report.leans.to + MAXIMA] or 0.0
    mark = "**" if maxima >= STRONG else "*" if report.leans.share >= CLEAR else ""
    return f"{report.leans.to} {100 * report.leans.share:.0f}/{report.leans.baseline:.0%}{mark}"


def _worth(report: HeadReport) -> str:
    return f"  I {report.values['importance']:.2f}  Δ{report.values['delta_loss']:+.3f}"
