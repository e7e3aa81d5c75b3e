"""`pellucid evaluate`."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

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
    write_file,
)


@click.command(
    "evaluate",
    epilog=examples(
        "pellucid evaluate model --src test.en --ref test.de",
        "pellucid evaluate model --src test.en --ref ref1.de --ref ref2.de --json",
        "pellucid evaluate model --src test.en --ref test.de --paired other-model",
        "pellucid evaluate multilingual --to de --src test.en --ref test.de",
        "pellucid evaluate --hyp output.txt --ref test.de --target-lang de",
    ),
)
@click.argument("model", required=False, metavar="[MODEL]")
@click.option("--src", metavar="FILE", help="Text to translate.")
@click.option("--ref", "refs", multiple=True, required=True, metavar="FILE", help="Reference (repeatable).")
@click.option("--hyp", metavar="FILE", help="Score these translations instead of translating.")
@click.option("--paired", metavar="MODEL", help="Compare with another model by paired bootstrap.")
@click.option("--target-lang", metavar="CODE", help="Decides how BLEU cuts words. [model's]")
@click.option("--tokenize", metavar="NAME", help="sacreBLEU's tokenizer, instead of the language's; none: as it is.")
@click.option("--smooth-method", type=click.Choice(["exp", "floor", "add-k", "none"]), default="exp", show_default=True)
@click.option("--save", metavar="FILE", help="Keep the translations.")
@tag_options
@search_options
@click.option("--json", "as_json", is_flag=True, help="As JSON.")
@machine_options
@engine_option
@shortlist_option
def command(
    model: str | None,
    src: str | None,
    refs: tuple[str, ...],
    hyp: str | None,
    paired: str | None,
    target_lang: str | None,
    tokenize: str | None,
    smooth_method: str,
    save: str | None,
    to: str | None,
    tags: tuple[str, ...],
    as_json: bool,
    device: str,
    threads: int,
    engine: str,
    shortlist: bool,
    **given: Any,
) -> None:
    """Translate --src and compare with the references: BLEU and chrF2++, with sacreBLEU's signatures."""
    from pathlib import Path

    from pellucid.errors import ConfigError
    from pellucid.training.evaluation import (
        corpus_scores,
        exact_matches,
        looks_tokenised,
        paired_bootstrap,
        refuse_pieces,
    )
    from pellucid.translator import Translator

    references = [list(input_lines(ref)) for ref in refs]
    if hyp is None and (model is None or src is None):
        raise ConfigError("there is nothing to evaluate", hint="MODEL and --src FILE, or --hyp FILE")

    def translated(folder: str) -> list[str]:
        nonlocal target_lang
        translator = Translator.load(
            folder, device=device, threads=threads, engine=engine, shortlist=shortlist, to=to, tags=tags
        )
        target_lang = target_lang or translator.target_language
        config = search_config(translator.loaded.search, given)
        assert src is not None
        return [t.text for t in translator.translate(list(input_lines(src)), config)]

    if hyp is not None:
        hypotheses = list(input_lines(hyp))
        if tokenize is None:
            refuse_pieces(hypotheses, hyp)
    else:
        assert model is not None
        hypotheses = translated(model)
    if save:
        write_file(Path(save), "".join(line + "\n" for line in hypotheses))
    if (why := looks_tokenised(hypotheses)) and tokenize is None:
        say(f"warning: {why}")
    scores = corpus_scores(hypotheses, references, target_lang, tokenize=tokenize, smooth_method=smooth_method)
    exact = exact_matches(hypotheses, references)
    result: dict[str, Any] = {**dataclasses.asdict(scores), "exact": exact, "sentences": len(hypotheses)}
    if paired is not None:
        if src is None:
            raise ConfigError("--paired translates with the other model too, and needs --src")
        systems = [(paired, translated(paired)), (model or hyp or "", hypotheses)]
        result["paired"] = paired_bootstrap(systems, references, target_lang, tokenize=tokenize)
    if as_json:
        click.echo(json.dumps(result, ensure_ascii=False, indent=2))
        return
    for line in scores.lines():
        click.echo(line)
    click.echo(f"exact    {exact} of {len(hypotheses)} sentences equal a reference")
    for metric, entries in result.get("paired", {}).items():
        for entry in entries:
            p = "baseline" if entry["p_value"] is None else f"p = {entry['p_value']:.4f}"
            click.echo(
                f"{metric:8} {entry['name']}: {entry['score']:.2f} (mean {entry['mean']:.2f} ± {entry['ci']:.2f}), {p}"
            )
