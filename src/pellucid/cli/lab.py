"""`pellucid lab`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pellucid.cli.common import examples, language_of_environment, say, tag_options, write_file

if TYPE_CHECKING:
    from pellucid.inspection.labs.base import Lab, Result

WIDTH = 100


@click.command(
    "lab",
    epilog=examples(
        "pellucid lab",
        "pellucid lab why-sqrt --set d_k=256",
        "pellucid lab order-blind --set text=狗咬人 --set train=yes --lang zh",
        "pellucid lab beam-search --model model --html beam.html",
        "pellucid lab all --html labs.html",
    ),
)
@click.argument("name", required=False, metavar="[NAME]")
@click.option("--lang", type=click.Choice(["en", "zh"]), help="English or Chinese. [that of the environment]")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A parameter of the lab (repeatable).")
@click.option("--model", metavar="DIR", help="A trained model, for the labs that can look at one.")
@tag_options
@click.option("--html", metavar="FILE", help="Write pictures, numbers and checks as one page.")
@click.option("--json", "as_json", is_flag=True, help="As JSON, pictures included.")
def command(
    name: str | None,
    lang: str | None,
    settings: tuple[str, ...],
    model: str | None,
    to: str | None,
    tags: tuple[str, ...],
    html: str | None,
    as_json: bool,
) -> None:
    """Run a lab: an idea of the paper as a small experiment, with pictures, checks and a control that must fail.

    Without NAME the labs are listed; `all` runs every one. The exit status is 1 if a claim does not hold, or a control does.
    """
    from pellucid.errors import ConfigError
    from pellucid.inspection.labs.catalogue import LABS, find
    from pellucid.inspection.labs.page import page
    from pellucid.translator import Translator

    language = lang or language_of_environment()
    if name is None:
        _list(LABS, language, as_json)
        return
    labs = LABS if name == "all" else (find(name),)
    given = dict(_setting(text) for text in settings)
    if given and name == "all":
        raise ConfigError("--set belongs to one lab, not to all", hint="pellucid lab NAME --set ...")
    for lab in labs:
        lab.read(given)  # complains before anything is loaded
    translator = None if model is None else Translator.load(model, device="cpu", to=to, tags=tags)
    if translator is not None and not any(lab.takes_model for lab in labs):
        say(f"note: the lab {name} looks at no model")
    results = [(lab, lab.run(given, language, translator)) for lab in labs]
    if html is not None:
        write_file(Path(html), page(results, language))
        say(html)
    if as_json:
        found = [lab.to_json(result, language) for lab, result in results]
        click.echo(json.dumps(found if name == "all" else found[0], ensure_ascii=False, indent=2))
    elif name == "all":
        _table(results, language)
    else:
        _show(*results[0], language)
        if html is None:
            say(f"its pictures: pellucid lab {name} --html FILE")
    if any(not check.as_it_should_be for _, result in results for check in result.checks):
        raise click.exceptions.Exit(1)


def _setting(text: str) -> tuple[str, str]:
    from pellucid.errors import ConfigError

    name, equals, value = text.partition("=")
    if not equals:
        raise ConfigError(f"--set must be NAME=VALUE, but is {text!r}")
    return name.strip(), value


def _list(labs: Iterable[Lab], language: str, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps([lab.describe(language) for lab in labs], ensure_ascii=False, indent=2))
        return
    for lab in labs:
        click.echo(f"{lab.number:2}  {lab.name:24}{lab.question.of(language)}")
        for parameter in lab.parameters:
            described = parameter.to_json(language)
            choices = f" ({', '.join(described['choices'])})" if "choices" in described else ""
            click.echo(f"    {'':24}--set {parameter.name}={parameter.default}  {described['label']}{choices}")


def _show(lab: Lab, result: Result, language: str) -> None:
    from pellucid.inspection.labs.page import CHECKS, NUMBERS, SOURCE, verdict
    from pellucid.terminal import wrapped

    click.echo(f"{lab.number}. {lab.title.of(language)}\n{lab.question.of(language)}\n")
    click.echo("\n".join(wrapped(result.idea, WIDTH)))
    if result.numbers:
        click.echo(f"\n{NUMBERS.of(language)}")
        for label, value in result.numbers:
            click.echo(f"  {label}: {value}")
    click.echo(f"\n{CHECKS.of(language)}")
    for check in result.checks:
        mark = "✓" if check.as_it_should_be else "✗"
        click.echo(f"  {mark} {check.claim}: {check.found}  [{verdict(check, language)}]")
    click.echo(f"\n{SOURCE.of(language)}: {lab.source}")


def _table(results: Iterable[tuple[Lab, Result]], language: str) -> None:
    from pellucid.inspection.labs.page import verdict
    from pellucid.terminal import fit

    for lab, result in results:
        for check in result.checks:
            mark = "✓" if check.as_it_should_be else "✗"
            click.echo(f"{mark} {fit(lab.name, 24)}{check.claim}: {check.found}  [{verdict(check, language)}]")
