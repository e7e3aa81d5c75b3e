"""docs/paper.md and docs/articles.md name things that exist, and their snippets run; so do the README's."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
NAMED = re.compile(r"`([\w./-]+) :: ([\w.]+)`")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = (
    "1", "2", "3", "3.1", "3.2", "3.2.1", "3.2.2", "3.2.3", "3.3", "3.4", "3.5", "4", "5.1", "5.2", "5.3", "5.4",
    "6.1", "6.2", "6.3", "equation 1", "equation 2", "equation 3", "Figure 1", "Figure 2 left", "Figure 2 right",
    "Figures 3, 4, 5", "Table 1", "Table 2", "Table 3", "Table 4",
)  # fmt: skip


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def named(page: str) -> list[tuple[str, str]]:
    return sorted(set(NAMED.findall(text_of(page))))


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language, in order."""
    return [body for kind, body in BLOCK.findall(text_of(page)) if kind == language]


@cache
def names_in(path: str) -> frozenset[str]:
    """All that a file defines, with methods and fields as Class.name."""
    found: set[str] = set()

    def add(nodes: list[ast.stmt], prefix: str) -> None:
        for node in nodes:
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                found.add(prefix + node.name)
                if isinstance(node, ast.ClassDef):
                    add(node.body, f"{node.name}.")
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                found.add(prefix + node.target.id)
            elif isinstance(node, ast.Assign):
                found.update(prefix + t.id for t in node.targets if isinstance(t, ast.Name))

    add(ast.parse((ROOT / path).read_text(encoding="utf-8")).body, "")
    return frozenset(found)


@pytest.mark.parametrize(
    "page, path, name", [(page, *row) for page in ("docs/paper.md", "docs/articles.md") for row in named(page)]
)
def test_what_a_page_names_exists(page: str, path: str, name: str) -> None:
    assert (ROOT / path).is_file(), f"{page} names {path}"
    assert name in names_in(path), f"{page} names {name}, which is not in {path}"


def test_the_map_has_every_part_of_the_paper() -> None:
    rows = [line.split("|")[1].strip() for line in text_of("docs/paper.md").splitlines() if line.startswith("| ")]
    parts = {part for row in rows for part in row.split(", ")} | set(rows)
    missing = [section for section in SECTIONS if section not in parts]
    assert not missing


def test_a_row_with_no_place_says_so() -> None:
    for line in text_of("docs/paper.md").splitlines():
        if line.startswith("| ") and not line.startswith(("| paper", "|---")) and not NAMED.search(line):
            assert re.search(r"not built|not reproduced|nothing to build", line), line


def test_the_articles_have_every_idea() -> None:
    headings = re.findall(r"^## (\d+)\.", text_of("docs/articles.md"), re.MULTILINE)
    assert headings == [str(n) for n in range(1, len(headings) + 1)]
    assert len(headings) >= 12


@pytest.mark.parametrize("number, code", list(enumerate(blocks("docs/articles.md", "python"), 1)))
def test_snippets_of_the_articles_run(number: int, code: str) -> None:
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("import", "from"))]
    assert len(lines) <= 8, f"snippet {number} is long for a snippet"
    exec(compile(code, f"docs/articles.md, snippet {number}", "exec"), {"__name__": "snippet"})


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_python_of_the_readme_runs(page: str, tmp_path: Path) -> None:
    """Its blocks together, in one process, beside a translator called `model` and a file called `pairs.tsv`."""
    code = "\n".join(blocks(page, "python"))
    assert code, f"{page} shows no Python"
    pairs = "".join(f"{i} {i + 1}\t{i + 1} {i}\n" for i in range(100))
    (tmp_path / "pairs.tsv").write_text(pairs, encoding="utf-8")
    make = (
        "from pellucid import RunConfig, train\n"
        "shape = {'d_model': 8, 'n_heads': 2, 'num_encoder_layers': 1, 'num_decoder_layers': 1, 'd_ff': 16}\n"
        "config = RunConfig.from_mapping({'preset': 'tiny', 'model': shape, 'data': {'tokenizer': 'word'},\n"
        "    'training': {'max_updates': 2, 'batch_tokens': 64, 'threads': 1, 'validate_bleu': False}})\n"
        "train(['pairs.tsv'], out='model', config=config)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", make + code], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
