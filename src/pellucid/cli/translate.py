"""`pellucid translate`."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import click

from pellucid.cli.common import (
    engine_option,
    examples,
    input_lines,
    machine_options,
    say,
    search_config,
    search_options,
    shortlist_option,
    tag_options,
    write_line,
)
from pellucid.cli.workers import translate_with_workers

if TYPE_CHECKING:
    from pellucid.text.options import TextOptions
    from pellucid.translation import Translation


NOTES = {
    "split": "were longer than anything the model has learnt from, and were translated in parts",
    "truncated": "reached the greatest length before an end",
    "unknown": "have characters that the model does not know",
    "repeated": "came out saying the same again and again (--retry-loops searches them anew)",
    "placeholders": "lost a placeholder or tag, or have one too many (--json names them)",
    "glossary": "lack a term (--json names it)",
}
"""What is said of lines with a flag."""


@click.command(
    "translate",
    epilog=examples(
        "pellucid translate model < input.txt > output.txt",
        "echo 'Good morning.' | pellucid translate model",
        "pellucid translate model input.txt --beam-size 1",
        "pellucid translate model large.txt --workers 4 > output.txt",
        "pellucid translate model page.html --format html > translated.html",
        "pellucid translate model input.txt --glossary terms.tsv --dnt names.txt --split-sentences",
        "pellucid translate model input.txt --n-best 3 --json",
        "pellucid translate model input.txt --sample --temperature 0.8 --top-k 20",
        "pellucid translate model messages.po --out messages-de.po --memory old.tmx",
        "pellucid translate model film.srt --out film-de.srt",
        "pellucid translate multilingual input.txt --to de --tag medical",
    ),
)
@click.argument("model", metavar="MODEL")
@click.argument("files", nargs=-1, metavar="[FILE]...")
@tag_options
@search_options
@click.option(
    "--n-best",
    type=click.IntRange(1),
    metavar="N",
    help="Print so many translations, best first: N lines a line in. [1]",
)
@click.option("--prefix", metavar="TEXT", help="What every translation must begin with; @FILE: one a line.")
@click.option("--sample", is_flag=True, default=None, help="Draw at random rather than search.")
@click.option(
    "--temperature", type=click.FloatRange(0, min_open=True), metavar="X", help="Below 1: closer to the likeliest. [1]"
)
@click.option("--top-k", type=click.IntRange(0), metavar="N", help="Draw from the likeliest k pieces. [all]")
@click.option(
    "--top-p", type=click.FloatRange(0, 1, min_open=True), metavar="X", help="Draw from the likeliest that reach p. [1]"
)
@click.option("--seed", type=int, metavar="N", help="Seed of drawing. [1]")
@click.option(
    "--format",
    "text_format",
    type=click.Choice(["text", "html"]),
    default="text",
    show_default=True,
    help="html: each file is a document; what a reader sees is translated, the rest stays as it is.",
)
@click.option(
    "--protect/--no-protect",
    default=True,
    show_default=True,
    help="Placeholders (%s, {name}), tags and addresses come out once, as they went in.",
)
@click.option("--glossary", metavar="FILE", help="Translations of terms that must be used: source, tab, target a line.")
@click.option("--dnt", metavar="FILE", help="Terms that must not be translated, one a line.")
@click.option(
    "--split-sentences", is_flag=True, help="Translate the sentences of a line one by one. [with html: always]"
)
@click.option("--retry-loops", is_flag=True, help="Search anew where the output says the same again and again.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line: scores, pieces, flags.")
@click.option("--skip-bad", is_flag=True, help="Treat lines that are not UTF-8 as empty rather than stop.")
@click.option(
    "--out",
    metavar="FILE",
    help="Write one FILE again with its translations in it: PO, XLIFF, TMX, SRT, VTT, HTML, TSV, JSONL or text.",
)
@click.option(
    "--memory",
    multiple=True,
    metavar="PAIRS",
    help="With --out: take the translations of whole texts from a file of pairs, such as a TMX, first. Repeatable.",
)
@click.option("--fuzzy", is_flag=True, help="With --out: translate anew also what is marked fuzzy or for review.")
@click.option("--source-lang", metavar="CODE", help="With --out: the language to translate. [model's]")
@click.option("--target-lang", metavar="CODE", help="With --out: the language to write. [model's]")
@machine_options
@engine_option
@shortlist_option
@click.option(
    "--workers",
    type=click.IntRange(1),
    metavar="N",
    default=1,
    help="Processes, for large files; each has a model of its own and its share of the cores. [1]",
)
@click.option("-v", "--verbose", is_flag=True, help="Say more on stderr.")
def command(
    model: str,
    files: tuple[str, ...],
    to: str | None,
    tags: tuple[str, ...],
    n_best: int | None,
    prefix: str | None,
    text_format: Literal["text", "html"],
    protect: bool,
    glossary: str | None,
    dnt: str | None,
    split_sentences: bool,
    retry_loops: bool,
    as_json: bool,
    skip_bad: bool,
    out: str | None,
    memory: tuple[str, ...],
    fuzzy: bool,
    source_lang: str | None,
    target_lang: str | None,
    device: str,
    threads: int,
    engine: str,
    shortlist: bool,
    workers: int,
    verbose: bool,
    **given: Any,
) -> None:
    """Translate lines: one out for one in, in order, whatever is in them.

    Reads the files one after the other, or standard input; writes standard output as it goes. MODEL is a folder that `pellucid train` made.

    With --out one file is written again with its translations in it, and all else as it was: only the empty entries of a
    PO are filled, and marked fuzzy; units of XLIFF and TMX that have no target yet; all text of subtitles (times are
    kept) and web pages; a column or key is added to TSV and JSONL.
    """
    import dataclasses
    import time

    from pellucid.config import DataConfig
    from pellucid.data.formats.document import fill_file, has_html
    from pellucid.data.memory import read_memory
    from pellucid.errors import ConfigError
    from pellucid.machine import available_cores
    from pellucid.translator import Translator

    is_html = text_format == "html"
    if is_html and n_best is not None and n_best > 1:
        raise ConfigError("--n-best is for lines; a document has one translation")
    if out is not None:
        _refuse_with_out(
            files,
            {
                "--format html": is_html,
                "--n-best": n_best,
                "--prefix": prefix,
                "--json": as_json,
                "--skip-bad": skip_bad,
            },
        )
    elif memory or fuzzy or source_lang or target_lang:
        raise ConfigError(
            "--memory, --fuzzy, --source-lang and --target-lang are for a file that is filled: --out FILE"
        )
    in_html = has_html(files[0]) if out is not None else is_html
    handling = _handling("html" if in_html else "text", protect, glossary, dnt, split_sentences, retry_loops)
    translator = Translator.load(
        model, device=device, threads=threads, engine=engine, shortlist=shortlist, to=to, tags=tags
    )
    defaults = translator.loaded.search
    if n_best is not None and given["beam_size"] is None and not given["sample"]:
        defaults = dataclasses.replace(defaults, beam_size=max(defaults.beam_size, n_best), n_best=n_best)
    config = search_config(defaults, {**given, "n_best": n_best})
    started, lines = time.perf_counter(), 0
    flagged: dict[str, list[int]] = {flag: [] for flag in NOTES}

    def translated(texts: Iterator[str], more: Callable[[], bool] | None = None) -> Iterator[Translation]:
        nonlocal lines
        if workers > 1:
            share = threads or max(1, available_cores() // workers)
            options = {
                "directory": model, "device": device, "engine": engine, "threads": share, "shortlist": shortlist,
                "tags": translator.tags,
            }  # fmt: skip
            found = translate_with_workers(workers, options, texts, config, _prefixes(prefix), as_json, handling)
        else:
            found = translator.stream(
                texts, config, prefixes=_prefixes(prefix), more=more, scores=as_json, text=handling
            )  # fmt: skip
        for lines, translation in enumerate(found, start=1):
            for flag, numbers in flagged.items():
                if flag in translation.flags:
                    numbers.append(lines)
            yield translation

    if out is not None:
        languages = DataConfig(
            source_language=source_lang or translator.source_language,
            target_language=target_lang or translator.target_language,
            fuzzy=fuzzy,
        )
        known = read_memory(memory, languages) if memory else None
        filled = fill_file(files[0], out, languages, lambda texts: (t.text for t in translated(texts)), known)
        say(filled.in_words(out))
    else:
        sources = (input_lines(file, skip_bad=skip_bad) for file in files or ("-",))
        texts = ("\n".join(source) for source in sources) if is_html else chain.from_iterable(sources)
        for translation in translated(texts, None if files else _input_is_waiting):
            if as_json:
                write_line(json.dumps(dataclasses.asdict(translation), ensure_ascii=False))
            elif is_html:
                sys.stdout.write(translation.text + "\n")
            elif config.n_best == 1:
                write_line(translation.text)
            else:
                texts_out = [a.text for a in translation.alternatives]
                # As many lines a line in as were asked for: whoever reads them can count.
                for text in (texts_out + [""] * config.n_best)[: config.n_best]:
                    write_line(text)
    for flag, numbers in flagged.items():
        if numbers:
            shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
            what = "documents" if is_html else "lines"
            say(f"note: {len(numbers)} {what} {NOTES[flag]}: {shown}")
    if verbose:
        seconds = time.perf_counter() - started
        say(f"engine      {translator.engine.name}")
        say(f"{lines:,} lines in {seconds:.1f} s ({lines / max(seconds, 1e-9):.1f} a second)")


def _refuse_with_out(files: tuple[str, ...], options: dict[str, object]) -> None:
    from pellucid.errors import ConfigError

    if len(files) != 1 or files[0] == "-":
        raise ConfigError("--out needs one file to fill", hint="pellucid translate MODEL messages.po --out FILE")
    for name, value in options.items():
        if value:
            raise ConfigError(f"{name} has no meaning with --out, which writes one translation into each place")


def _handling(
    text_format: Literal["text", "html"],
    protect: bool,
    glossary: str | None,
    dnt: str | None,
    split_sentences: bool,
    retry_loops: bool,
) -> TextOptions | None:
    """What is done around translating; None: nothing."""
    from pellucid.text.options import TextOptions
    from pellucid.text.terms import Terms

    is_html = text_format == "html"
    terms = Terms.read(glossary, dnt)
    if not (is_html or protect or terms or split_sentences or retry_loops):
        return None
    return TextOptions(text_format, protect, split_sentences or is_html, terms or None, retry_loops)


def _input_is_waiting() -> bool:
    """Whether standard input has something to read, or has ended. Not known (Windows, no real file): yes."""
    try:
        return bool(select.select([sys.stdin.fileno()], [], [], 0)[0])
    except (OSError, ValueError):
        return True


def _prefixes(prefix: str | None) -> Iterator[str] | None:
    from pellucid.errors import ConfigError

    if prefix is None:
        return None
    if prefix.startswith("@"):
        return _then_nothing(input_lines(prefix[1:]))
    try:
        # Under an ASCII locale Python hides the bytes of what was typed in surrogates; they are UTF-8.
        return _forever(os.fsencode(prefix).decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"--prefix must be UTF-8: {error}") from error


def _forever(text: str) -> Iterator[str]:
    while True:
        yield text


def _then_nothing(lines: Iterator[str]) -> Iterator[str]:
    yield from lines
    yield from _forever("")
