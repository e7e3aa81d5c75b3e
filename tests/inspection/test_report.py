"""One file with everything in it: nothing is fetched, and no text can break out of the data."""

from __future__ import annotations

import html
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

from click.testing import CliRunner

from inspection.shared import random_translator
from pellucid.cli.main import cli
from pellucid.config import SearchConfig
from pellucid.inspection.recorder import KINDS
from pellucid.inspection.report import inspect
from server.shared import trained

GREEDY = SearchConfig(beam_size=1, max_length=9)
ROOT = Path(__file__).parents[2]


def data_of(page: str) -> dict:
    (data,) = re.findall(r'<script type="application/json" id="pellucid-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_everything_is_in_the_file():
    report = inspect(random_translator(), "</script><b>two & 'dogs'", config=GREEDY, language="zh")
    page = report.html
    data = data_of(page)
    assert data["trace"]["text"] == "</script><b>two & 'dogs'"
    assert set(data["heads"]) == set(KINDS) and data["lang"] == "zh"
    assert set(data["flow"]) == {f"{kind}.{layer}.0" for kind in KINDS for layer in (0, 1)}
    assert data["positions"]["length"] == 64
    assert page.count("</script>") == 2, "of the data and of the script"
    assert "<title>pellucid · &lt;/script&gt;&lt;b&gt;two" in page
    for attribute in re.findall(r'(?:src|href)="([^"]*)"', page.split("<script")[0]):
        assert attribute.startswith("data:")
    assert not re.search(r"""(?:@import|url\(\s*["']?(?!data:|#))""", page.partition("</style>")[0])


def test_a_notebook_shows_it_in_a_frame_of_its_own():
    report = inspect(random_translator(), "two dogs", config=GREEDY)
    (inner,) = re.findall(r'<iframe srcdoc="([^"]*)"', report._repr_html_())
    assert html.unescape(inner) == report.html


def test_the_verb_writes_the_file_and_draws_the_map(tmp_path):
    model = trained(tmp_path)
    out = tmp_path / "look.html"
    table = tmp_path / "table.json"
    table.write_text('{"pairs": 0, "measures": [], "heads": [], "baselines": {}}')
    given = ["inspect", str(model), "1 2 3", "--html", str(out), "--heads-table", str(table), "--threads", "1"]
    done = CliRunner().invoke(cli, [*given, "--target", "3 2 1", "--map", "cross.1.2", "--off", "encoder.1.1"])
    assert done.exit_code == 0, done.output
    assert "(cross-attention, layer 1, head 2)" in done.stdout
    data = data_of(out.read_text(encoding="utf-8"))
    assert data["trace"]["forced"] and data["trace"]["off"] == ["encoder.1.1"]
    assert data["table"]["pairs"] == 0
    told = CliRunner().invoke(cli, ["inspect", str(model), "1 2 3", "--json", "--beam-size", "2"])
    assert json.loads(told.stdout)["beam"]["size"] == 2
    table.write_text("{")
    wrong = CliRunner().invoke(cli, given)
    assert wrong.exit_code == 1 and "is not JSON" in str(wrong.exception)
    wrong = CliRunner().invoke(cli, ["inspect", str(model), "1 2 3", "--map", "cross.7.1"])
    assert "there is no head 'cross.7.1'" in str(wrong.exception)


def test_the_wheel_holds_the_page(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", tmp_path, ROOT],
        capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as files:
        for name in ("index.html", "pellucid.js", "pellucid.css", "NOTICE.txt"):
            built = ROOT / "src" / "pellucid" / "server" / "static" / name
            assert files.read(f"pellucid/server/static/{name}") == built.read_bytes()
