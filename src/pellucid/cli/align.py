"""`pellucid align`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from pellucid.cli.common import examples, input_lines, machine_options, say, tag_options, write_line

if TYPE_CHECKING:
    from pellucid.inspection.alignment import Convention, Cut, Gold, Reading
    from pellucid.inspection.measures import Links
    from pellucid.model.transformer import Transformer
    from pellucid.translator import Translator

FEW_PAIRS = 100
WINDOW = 1024
"""Pairs that are read together; then their links are written."""
HEAD = re.compile(r"best|average|cross\.[1-9]\d*(\.[1-9]\d*)?")


@click.command(
    "align",
    epilog=examples(
        "pellucid align model --src test.en --tgt test.de > links.txt",
        "pellucid align model --src test.en --tgt test.de --tokenized --gold links.wa --norms",
        "pellucid align model --src test.en --tgt test.de --head cross.2.3 --convention input --words",
    ),
)
@click.argument("model", metavar="MODEL")
@click.option("--src", required=True, metavar="FILE", help="Source text.")
@click.option("--tgt", required=True, metavar="FILE", help="Its translation, line by line.")
@click.option(
    "--gold", metavar="FILE", help="Gold links, a line a pair: 0-1 sure, 0p1 possible. Words: as --tokenized."
)
@click.option(
    "--gold-first",
    type=click.IntRange(0, 1),
    default=0,
    show_default=True,
    help="The number of a sentence's first word there.",
)
@click.option(
    "--head", default="best", show_default=True, metavar="NAME",
    help="A head (cross.3.6), a whole layer (cross.3), average (the layer before the last), or best: the one with the "
    "fewest errors on --gold, else the one whose links are the most consistent.",
)  # fmt: skip
@click.option(
    "--convention", type=click.Choice(["input", "predicts"]),
    help="Which row of the decoder stands for a word: that with it as input, or that which predicts it. [best: the "
    "better one, else input]",
)  # fmt: skip
@click.option("--norms", is_flag=True, help="Read the lengths of what the weights move, instead of the weights.")
@click.option("--tokenized", is_flag=True, help="Words are what spaces separate. [our words: letters, else signs]")
@click.option("--words", is_flag=True, help="After each line's links, and tabs, the words of both sides.")
@tag_options
@machine_options
def command(
    model: str,
    src: str,
    tgt: str,
    gold: str | None,
    gold_first: int,
    head: str,
    convention: str | None,
    norms: bool,
    tokenized: bool,
    words: bool,
    to: str | None,
    tags: tuple[str, ...],
    device: str,
    threads: int,
) -> None:
    """Say which source word each target word was translated from: one line of links a pair (`0-0 1-2`), from 0.

    The links are read from the model's cross-attention with the given translation. Which head was read, and the
    alignment error rate on --gold, are said on stderr.
    """
    from pellucid.errors import AlignmentError, ConfigError
    from pellucid.inspection.alignment import CONVENTIONS, align, pharaoh, read_gold, split_at_spaces
    from pellucid.inspection.measures import alignment_error_rate
    from pellucid.inspection.words import words_of
    from pellucid.translator import Translator

    if HEAD.fullmatch(head) is None:
        raise ConfigError(f"--head must be best, average, or like cross.3.6 or cross.3, but is {head!r}")
    cut = split_at_spaces if tokenized or gold is not None else words_of
    sources, targets = list(input_lines(src)), list(input_lines(tgt))
    if len(sources) != len(targets):
        raise AlignmentError(
            f"{src} and {tgt} must have equally many lines, but have {len(sources):,} and {len(targets):,}"
        )
    pairs = [
        (" ".join(source.split()), " ".join(target.split())) for source, target in zip(sources, targets, strict=True)
    ]
    links = None if gold is None else read_gold(list(input_lines(gold)), gold, gold_first)
    if links is not None and (strangers := links.strangers(pairs)):
        say(f"note: {strangers} gold links name words that their sentences do not have; is --gold-first right?")

    translator = Translator.load(model, device=device, threads=threads, to=to, tags=tags)
    conventions = [name for name in CONVENTIONS if convention in (name, None)]
    if head == "best":
        reading = _best(translator, pairs, links, cut, conventions, norms)
    else:
        reading = _named(translator.model, head, conventions[-1], norms)
    say(f"reads {reading}")
    every: list[Links] = []
    for first in range(0, len(pairs), WINDOW):
        found = align(translator, pairs[first : first + WINDOW], [reading], cut=cut)
        for each, sides in zip(found.links[reading], found.words, strict=True):
            write_line("\t".join([pharaoh(each), *(" ".join(side) for side in sides if words)]))
        every += found.links[reading]
    if links is not None:
        rate = alignment_error_rate(every, links.sure, links.possible)
        say(
            f"alignment error rate {100 * rate:.1f} % over {len(pairs):,} pairs"
            + " (chosen on them)" * (head == "best")
        )


def _named(model: Transformer, name: str, convention: Convention, norms: bool) -> Reading:
    """The reading of a name that :data:`HEAD` knows."""
    from pellucid.inspection.alignment import Reading, layer_average
    from pellucid.inspection.recorder import Head

    if name == "average":
        return layer_average(model, convention, norms)
    whole_layer = name.count(".") == 1
    head = Head.parse(f"{name}.1" if whole_layer else name, model)
    return Reading(head.layer, None if whole_layer else head.head, convention, norms)


def _best(
    translator: Translator,
    pairs: Sequence[tuple[str, str]],
    gold: Gold | None,
    cut: Cut,
    conventions: Sequence[Convention],
    norms: bool,
) -> Reading:
    """The reading with the fewest errors on gold links; without any, the most consistent one over some hundred pairs."""
    from pellucid.cli.progress import Countdown
    from pellucid.errors import DataError
    from pellucid.inspection.alignment import align, all_readings, lexical_consistency
    from pellucid.inspection.measures import alignment_error_rate
    from pellucid.quantization import validation_pairs

    if gold is None:
        try:
            pairs = list(zip(*validation_pairs(translator), strict=True))
        except DataError:
            if len(pairs) < FEW_PAIRS:
                say(f"note: {len(pairs)} pairs are few to choose a head by; say --head, or give more")
    readings = all_readings(translator.model, conventions, norms)
    with Countdown("choosing a head") as countdown:
        found = align(translator, pairs, readings, cut=cut, progress=countdown)
    if gold is not None:
        return min(readings, key=lambda r: alignment_error_rate(found.links[r], gold.sure, gold.possible))
    return max(readings, key=lambda r: lexical_consistency(found.links[r], found.words))
