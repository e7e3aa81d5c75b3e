"""The labs that docs/articles.md names are there."""

from __future__ import annotations

import re
from pathlib import Path

from pellucid.inspection.labs import catalogue


def test_every_lab_that_the_page_names_exists_and_every_lab_is_named():
    page = (Path(__file__).parents[2] / "docs" / "articles.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`pellucid lab ([a-z-]+)`", page))
    assert named == {lab.name for lab in catalogue.LABS}
