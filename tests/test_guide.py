"""Every command of docs/guide.md and of the README's part on one's own data runs, in order, in one process.

Fenced blocks are read from the pages: `sh` blocks are commands, `python` blocks run, and a block with `file=NAME` is
saved under that name first, as the page asks its reader to.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from pellucid.cli.main import cli

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHORT = "--config small.toml --max-updates 2 --set training.validate_bleu=false"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = torch.get_num_threads()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("pellucid.training.run.available_cores", lambda: 1)
    monkeypatch.setattr("pellucid.translator.available_cores", lambda: 1)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    yield
    torch.set_num_threads(before)


def blocks(page: str) -> list[tuple[str, str, str]]:
    """(language, file name or "", text) of each fenced block of a page or a part of one."""
    return BLOCK.findall(page)


def run(command: str) -> None:
    """One line of a shell. What `pellucid` does runs in this process, where torch is loaded already."""
    before, _, rest = command.rpartition("| ") if "| pellucid" in command else ("", "", command)
    if not rest.startswith("pellucid "):
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
        return
    given = subprocess.run(["sh", "-c", before], capture_output=True, check=True).stdout if before else b""
    words, files = [], {}
    pieces = iter(shlex.split(rest)[1:])
    for piece in pieces:
        if piece in ("<", ">"):
            files[piece] = Path(next(pieces))
        elif "*" in piece:
            words += sorted(str(path) for path in Path().glob(piece))
        else:
            words.append(piece)
    if "<" in files:
        given = files["<"].read_bytes()
    result = CliRunner().invoke(cli, words, input=given, prog_name="pellucid")
    assert result.exit_code == 0, f"{command}\n{result.output}\n{result.exception!r}"
    if ">" in files:
        files[">"].write_text(result.stdout, encoding="utf-8")
        assert result.stdout, f"{command}: nothing came out"


def follow(page: str, short: str = "") -> None:
    """Do what the page says. `short` is added to commands that train."""
    names: dict[str, object] = {"__name__": "guide"}
    for language, file, text in blocks(page):
        if file:
            Path(file).write_text(text, encoding="utf-8")
        elif language == "sh":
            for command in text.splitlines():
                training = command.startswith("pellucid train ") and "--print-config" not in command
                run(command.split("  #")[0] + (f" {short}" if short and training else ""))
        elif language == "python":
            exec(compile(text, "docs/guide.md", "exec"), names)


def test_the_guide_can_be_followed(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the guide draws curves")
    follow((ROOT / "docs" / "guide.md").read_text(encoding="utf-8"))
    translated = (tmp_path / "test.out").read_text(encoding="utf-8").splitlines()
    wanted = (tmp_path / "test.de").read_text(encoding="utf-8").splitlines()
    assert len(translated) == len(wanted)
    right = sum(map(str.__eq__, translated, wanted))
    assert right > len(wanted) / 2, f"the reader should see it work, but only {right} of {len(wanted)} are right"
    doubled = (tmp_path / "two-a-line.out").read_text(encoding="utf-8").splitlines()
    assert len(doubled) == 2 * len(wanted)


@pytest.mark.parametrize("page, heading", [("README.md", "## Your own data"), ("README.zh.md", "## 用自己的数据")])
def test_the_readme_on_ones_own_data(page: str, heading: str, tmp_path: Path) -> None:
    files = {file: text for _, file, text in blocks((ROOT / "docs" / "guide.md").read_text(encoding="utf-8")) if file}
    for file, text in files.items():
        Path(file).write_text(text, encoding="utf-8")
    run("python make_pairs.py")
    Path("input.txt").write_text("The dog sees the lamp today.\n", encoding="utf-8")
    part = (ROOT / page).read_text(encoding="utf-8").split(heading)[1].split("\n## ")[0]
    follow(part, SHORT)
    assert (tmp_path / "model" / "config.json").is_file()


def test_messages_that_the_guide_quotes_are_those_of_the_program() -> None:
    """The plain beginnings of the messages in "When something goes wrong" stand in the source."""
    source = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "src").rglob("*.py"))
    joined = re.sub(r'"\s*\n\s*f?"', "", source)
    for words in (
        "a line must have", "must have the same number of lines, but have", "must be UTF-8, but byte",
        "a file of pairs must end in", "unknown setting", "holds a model or a run already", "a resumed run cannot change",
        "is not the data that this run began with", "does not fit into memory", "updates fit", "the loss is",
        "is not a model folder: it has no config.json", "what was there before is intact",
    ):  # fmt: skip
        assert words in joined, words
        assert words in (ROOT / "docs" / "guide.md").read_text(encoding="utf-8"), words
