"""`pellucid score`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from itertools import islice

import click

from pellucid.cli.common import examples, machine_options, say, tag_options, write_line


@click.command(
    "score",
    epilog=examples(
        "pellucid score model --src input.txt --tgt output.txt > scores.txt",
        "pellucid score model pairs.tsv --json",
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("pairs", nargs=-1, metavar="[PAIRS]...")
@click.option("--src", multiple=True, metavar="FILE", help="Source text (with --tgt).")
@click.option("--tgt", multiple=True, metavar="FILE", help="Its translation, line by line.")
@click.option("--length-penalty", type=click.FloatRange(0), metavar="X", help="alpha of the score. [model's]")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: log-probability of every piece.")
@tag_options
@machine_options
def command(
    model: str,
    pairs: tuple[str, ...],
    src: tuple[str, ...],
    tgt: tuple[str, ...],
    length_penalty: float | None,
    as_json: bool,
    to: str | None,
    tags: tuple[str, ...],
    device: str,
    threads: int,
) -> None:
    """Say how probable given translations are: one score a pair, the same that a search reports.

    The perplexity of all pairs together is printed on stderr.
    """
    import dataclasses

    from pellucid.cli.common import search_config
    from pellucid.config import DataConfig
    from pellucid.data.corpus import Corpus
    from pellucid.errors import ConfigError
    from pellucid.translator import Translator

    if not pairs and not src:
        raise ConfigError("nothing to score", hint="name a pair file, or --src and --tgt")
    corpus = Corpus.from_files(pairs, src, tgt, DataConfig())
    corpus.check_lengths()
    translator = Translator.load(model, device=device, threads=threads, to=to, tags=tags)
    config = search_config(translator.loaded.search, {"length_penalty": length_penalty})
    total, tokens = 0.0, 0
    stream: Iterator[tuple[str, str]] = ((p.source or "", p.target or "") for p in corpus)
    while some := list(islice(stream, 1000)):
        for score in translator.score(some, config):
            write_line(json.dumps(dataclasses.asdict(score), ensure_ascii=False) if as_json else f"{score.score:.6f}")
            total += score.log_prob
            tokens += len(score.token_log_probs)
    if tokens:
        say(f"perplexity {math.exp(min(700.0, -total / tokens)):.3f} over {tokens:,} tokens")
