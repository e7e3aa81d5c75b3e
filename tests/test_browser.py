"""The page in a real browser: `web/tests/browser.mjs` clicks, types, listens for requests and errors, and runs axe."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from pellucid.config import RunConfig
from pellucid.training.run import train
from server.shared import serving

ROOT = Path(__file__).parent.parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browse(screenshots: Path, *given: str) -> str:
    """What the browser's checks say. All of them must hold."""
    if shutil.which("node") is None:
        pytest.skip("needs node")
    if not (ROOT / "web" / "node_modules" / "playwright-core").exists():
        pytest.skip("needs the page's tools: make web")
    if not os.environ.get("CHROMIUM") and not any(map(shutil.which, BROWSERS)):
        pytest.skip("needs Chromium: apt-get install chromium fonts-wqy-microhei")
    done = subprocess.run(
        ["node", "tests/browser.mjs", *given],
        cwd=ROOT / "web", capture_output=True, text=True, env={**os.environ, "SCREENSHOTS": str(screenshots)},
    )  # fmt: skip
    assert done.returncode == 0, "\n".join(
        [*(x for x in done.stdout.splitlines() if x.startswith("FAIL")), done.stderr]
    )
    return done.stdout


def test_the_page_with_planted_answers(tmp_path):
    """A mock server: long sentences, errors, empty states, text that runs from right to left."""
    said = browse(tmp_path)
    assert "axe: translate, zh, dark: 0" in said
    assert len(list(tmp_path.glob("*.png"))) > 30


def model_that_talks(folder: Path) -> Path:
    """One that has learnt to say a sentence backwards, well enough that its translations have some words."""
    draw = random.Random(1)
    words = [
        "the",
        "old",
        "grey",
        "dog",
        "sees",
        "two",
        "birds",
        "near",
        "a",
        "river",
        "and",
        "many",
        "green",
        "hills",
        "under",
        "one",
        "tree",
    ]
    lines = []
    for _ in range(400):
        text = [draw.choice(words) for _ in range(draw.randint(6, 9))]
        lines.append(f"{' '.join(text)}\t{' '.join(reversed(text))}\n")
    (folder / "pairs.tsv").write_text("".join(lines), encoding="utf-8")
    shape = {"d_model": 32, "n_heads": 4, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 64, "dropout": 0.1}
    config = RunConfig.from_mapping(
        {
            "preset": "tiny",
            "model": shape,
            "data": {"tokenizer": "word", "valid_pairs": 20},
            "training": {
                "batch_tokens": 1500, "warmup_steps": 60, "peak_rate": 0.005, "max_updates": 200, "threads": 1,
                "validate_bleu": False,
            },
        }
    )  # fmt: skip
    train([str(folder / "pairs.tsv")], out=folder / "model", config=config)
    return folder / "model"


def test_the_page_with_the_real_server(tmp_path):
    with serving(model_that_talks(tmp_path)) as client:
        said = browse(tmp_path / "shots", f"http://127.0.0.1:{client.port}/")
    assert "no request to another host: 0" in said
