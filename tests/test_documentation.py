"""What the pages say about themselves and the program: links lead somewhere, options and settings exist."""

from __future__ import annotations

import dataclasses
import re
from importlib import import_module
from pathlib import Path

import click
import pytest

from pellucid.cli.main import VERBS
from pellucid.config import DataConfig, RunConfig, SearchConfig, TrainingConfig, TransformerConfig

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page.relative_to(ROOT).as_posix()
    for folder in (".", "docs", "examples", "examples/*", "benchmarks")
    for page in ROOT.glob(f"{folder}/*.md")
)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def options_of(verb: str) -> set[str]:
    command: click.Command = import_module(f"pellucid.cli.{verb}").command
    return {name for parameter in command.params for name in [*parameter.opts, *parameter.secondary_opts]}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.findall((ROOT / page).read_text(encoding="utf-8")):
        if not link.startswith(("http:", "https:", "#")):
            assert (ROOT / page).parent.joinpath(link.split("#")[0]).exists(), f"{page} links to {link}"


@pytest.mark.parametrize("page", PAGES)
def test_commands_have_the_options_that_a_page_gives_them(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    for verb, rest in re.findall(r"pellucid (\w+)((?: [^\n`|;&#]*)?)", text):
        if verb in VERBS:
            for option in re.findall(r"(?<= )--[a-z][a-z0-9-]*", rest):
                assert option in options_of(verb), f"{page}: pellucid {verb} has no {option}"


@pytest.mark.parametrize("page", ["docs/guide.md", "docs/articles.md", "CONTRIBUTING.md"])
def test_settings_that_a_page_names_exist(page: str) -> None:
    tables = {"data": DataConfig, "training": TrainingConfig, "search": SearchConfig, "model": TransformerConfig}
    text = (ROOT / page).read_text(encoding="utf-8")
    for table, name in re.findall(r"(?:`|--set )(data|training|search|model)\.(\w+)[=`]", text):
        known = {field.name for field in dataclasses.fields(tables[table])}
        assert name in known or name in ("safetensors", "warmup"), f"{page} names {table}.{name}"  # a file; a quotation


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*/*.toml")), ids=lambda path: path.parent.name)
def test_recipes_can_be_read(file: Path) -> None:
    RunConfig.from_toml(file)


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_map_of_the_code_is_complete(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    source = ROOT / "src" / "pellucid"
    for file in source.rglob("*.py"):
        name = file.relative_to(source).as_posix()
        if not name.startswith(("cli/", "data/formats/", "_", "version")) and file.name != "__init__.py":
            assert f"`{name}`" in text or f"`{file.name}`" in text, f"{page} does not name {name}"
    for folder in ("cli/", "data/formats/"):
        assert f"`{folder}`" in text
