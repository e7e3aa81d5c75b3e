"""Write docs/reference.md from the program itself: every verb, every setting, every public name of Python.

python scripts/make_reference.py            writes the page
python scripts/make_reference.py --check    fails, with the difference, if the page is not what it should be
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import inspect
import re
import sys
import typing
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import click

import pellucid
from pellucid import config
from pellucid.cli.main import VERBS, cli

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reference.md"
WIDTH = 100

TABLES = {
    "model": (config.TransformerConfig, "The shape of the model: differences from the preset."),
    "data": (config.DataConfig, "Reading, cleaning, cutting into pieces."),
    "training": (config.TrainingConfig, "Optimizer, schedule, regularization; when to look, save and stop."),
    "search": (config.SearchConfig, "How the model translates unless told otherwise."),
}
NOT_SET = {"src_vocab", "tgt_vocab", "pad_id", "src_pad_id", "eos_id", "unk_id", "start_id"}
"""Fields of the model that follow from the tokenizer."""


def page() -> str:
    parts = [
        "# Reference",
        "This page is written by `scripts/make_reference.py` (`make docs`) from the program itself.",
        "[Command line](#command-line) · [Settings](#settings) · [Python](#python)",
        "## Command line",
        "Results go to stdout, talk to stderr. Exit codes: 0 done, 1 failed, 2 misused, 130 interrupted (Ctrl-C), 141 "
        "nobody reads the output any more, 143 asked to end (SIGTERM).",
        _block(_help(cli, "pellucid")),
        *(part for verb in VERBS for part in _verb(verb)),
        "## Settings",
        "For `pellucid train --config FILE` (TOML, a table each) and `--set TABLE.NAME=VALUE`. `pellucid train "
        "--print-config` prints them all; the folder of a finished run has its own in `training/config.toml`.",
        "`preset` (tiny, small, base, big, or auto: chosen from the number of pairs) stands before the tables.",
        *(part for table in TABLES for part in _table(table)),
        "### Presets",
        _presets(),
        "## Python",
        "The names below are `pellucid.NAME`; they are loaded when they are first used.",
        *(_name(name) for name in pellucid.__all__ if name != "__version__"),
    ]
    return "\n\n".join(parts) + "\n"


def _verb(verb: str) -> list[str]:
    command: click.Command = import_module(f"pellucid.cli.{verb}").command
    return [f"### pellucid {verb}", _block(_help(command, f"pellucid {verb}"))]


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=WIDTH, max_content_width=WIDTH,
                            help_option_names=["-h", "--help"])  # fmt: skip
    return command.get_help(context)


def _block(text: str) -> str:
    return "```text\n" + "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n```"


def _table(table: str) -> list[str]:
    kind, what = TABLES[table]
    comments = _comments(kind)
    hints = typing.get_type_hints(kind)
    rows = ["| setting | default | |", "|---|---|---|"]
    for field in dataclasses.fields(kind):
        if not (table == "model" and field.name in NOT_SET):
            default = config._toml_value(field.default) if field.default is not None else "none"
            choices = typing.get_args(hints[field.name]) if typing.get_origin(hints[field.name]) is Literal else ()
            said = [f"One of {', '.join(choices)}." if choices else "", comments.get(field.name, "")]
            rows.append(f"| `{table}.{field.name}` | {default} | {_cell(' '.join(said))} |")
    return [f"### [{table}]", what, "\n".join(rows)]


def _comments(kind: type) -> dict[str, str]:
    """The text under each field of a dataclass."""
    (body,) = ast.parse(inspect.getsource(kind)).body
    assert isinstance(body, ast.ClassDef)
    comments = {}
    for field, after in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            comments[field.target.id] = str(after.value.value)
    return comments


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _presets() -> str:
    names = list(dict.fromkeys(name for preset in config.PRESETS.values() for name in preset))
    rows = ["| |" + "".join(f" {preset} |" for preset in config.PRESETS), "|---|" + "---|" * len(config.PRESETS)]
    defaults: dict[str, Any] = {field.name: field.default for field in dataclasses.fields(config.TransformerConfig)}
    for name in names:
        values = "".join(f" {preset.get(name, defaults[name])} |" for preset in config.PRESETS.values())
        rows.append(f"| `{name}` |{values}")
    return "\n".join(rows)


def _name(name: str) -> str:
    thing = getattr(pellucid, name)
    lines = [f"### {name}"]
    if inspect.isclass(thing) and dataclasses.is_dataclass(thing) and thing in [kind for kind, _ in TABLES.values()]:
        table = next(table for table, (kind, _) in TABLES.items() if kind is thing)
        lines.append(f"{_first(thing)} Its fields: [[{table}]](#{table}).")
    elif inspect.isclass(thing) and issubclass(thing, Exception):
        tree = inspect.getdoc(inspect.getmodule(thing)) or ""
        lines += [_first(thing), _block(tree)]
    else:
        lines += [_signature(name, thing), _first(thing)]
        if inspect.isclass(thing):
            lines += [
                f"- `.{method}{_plain(inspect.signature(found))}` {_first(found)}"
                for method, found in _methods(thing).items()
            ]
    head, *rest = lines
    together = "\n\n".join(line for line in rest if not line.startswith("- "))
    methods = "\n".join(line for line in rest if line.startswith("- "))
    return "\n\n".join(part for part in (head, together, methods) if part)


def _methods(thing: type) -> dict[str, Any]:
    return {
        name: getattr(thing, name)
        for name, found in vars(thing).items()
        if not name.startswith("_") and (inspect.isfunction(found) or isinstance(found, classmethod))
    }


def _signature(name: str, thing: Any) -> str:
    signature = inspect.signature(thing)
    text = f"{name}{_plain(signature)}"
    if len(text) > WIDTH:
        inner, star = [], False
        for parameter in signature.parameters.values():
            if parameter.kind is parameter.KEYWORD_ONLY and not star:
                inner, star = [*inner, "*"], True
            inner.append(_parameter(parameter))
        back = signature.return_annotation
        end = f") -> {back}" if isinstance(back, str) and back not in ("None",) else ")"
        text = f"{name}(\n" + "".join(f"    {part},\n" for part in inner) + end
    return f"```python\n{text}\n```"


def _plain(signature: inspect.Signature) -> str:
    """A signature without the quotes that `from __future__ import annotations` leaves around types."""
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(signature)).removesuffix(" -> None")


def _parameter(parameter: inspect.Parameter) -> str:
    return re.sub(r": '([^']*)'", r": \1", str(parameter))


def _first(thing: Any) -> str:
    """The first paragraph of a docstring, as one line, without the marks of another markup language."""
    text = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return re.sub(r":\w+:`~?([\w.]*\.)?(\w+)`", r"`\2`", text).replace("``", "`")


def main() -> None:
    new, old = page(), PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(new, encoding="utf-8")
    elif new != old:
        sys.stdout.writelines(
            difflib.unified_diff(old.splitlines(True), new.splitlines(True), "docs/reference.md", "the program")
        )
        sys.exit("error: docs/reference.md is not what the program says\nhint: make docs")


if __name__ == "__main__":
    main()
