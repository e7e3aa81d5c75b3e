"""Results of labs as one page that needs nothing else: no script, no other file, light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from pellucid.inspection.labs.base import Check, Lab, Result, Text
from pellucid.inspection.svg import FONT, WIDTH

STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1b1b1b; --paper: #ffffff; --faint: #5c5c5c; --line: #d6d6d6; --panel: #f6f6f4;
  --good: #00654a; --bad: #a83a00; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #ececec; --paper: #161718; --faint: #a9a9a9; --line: #3a3b3d; --panel: #1f2022;
    --good: #5fd3ac; --bad: #ff9d66; }}
}}
* {{ box-sizing: border-box; }}
body {{ margin: 0; padding: 16px; color: var(--ink); background: var(--paper); font: 16px/1.55 {FONT}; }}
main {{ max-width: 1180px; margin: 0 auto; }}
h1, .title {{ font-size: 1.6rem; line-height: 1.25; margin: 0 0 .2em; }}
.part {{ font-size: 1rem; margin: 1.6em 0 .5em; }}
section + section {{ border-top: 1px solid var(--line); margin-top: 3em; padding-top: 2em; }}
nav ol {{ columns: 18em; column-gap: 2em; padding-left: 1.6em; margin: 0 0 2.5em; }}
nav li {{ break-inside: avoid; padding: 3px 0; }}
a {{ color: inherit; }}
.question {{ font-size: 1.1rem; color: var(--faint); margin: 0 0 .8em; }}
.idea {{ max-width: 46em; margin: 0; }}
.pictures {{ display: flex; flex-wrap: wrap; gap: 28px 36px; margin-top: 12px; align-items: flex-start; }}
figure {{ margin: 0; max-width: 100%; }}
figcaption {{ font-weight: 700; margin-bottom: 10px; max-width: 345px; line-height: 1.35; min-height: 2.7em;
  display: flex; align-items: flex-end; }}
.wide {{ overflow-x: auto; }}
svg {{ display: block; }}
table {{ border-collapse: collapse; width: 100%; max-width: 1000px; }}
th, td {{ text-align: left; font-weight: 400; padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }}
td {{ font-variant-numeric: tabular-nums; }}
.mark {{ font-weight: 700; white-space: nowrap; width: 1%; }}
.good {{ color: var(--good); }}
.bad {{ color: var(--bad); }}
.found {{ min-width: 13em; }}
@media (max-width: 640px) {{
  figcaption {{ min-height: 0; }}
  .pictures {{ gap: 24px; }}
  table, tbody, tr, th, td {{ display: block; }}
  tr {{ border-bottom: 1px solid var(--line); padding: 8px 0; }}
  th, td {{ border: 0; padding: 0; }}
  td {{ color: var(--faint); }}
  .mark {{ width: auto; }}
}}
.source {{ color: var(--faint); font-size: .875rem; margin-top: 1.4em; }}
"""

NUMBERS, CHECKS = Text("Numbers", "数据"), Text("Checks", "验证")
LABS = Text("Labs", "实验")
SOURCE = Text("Source", "出处")


def verdict(check: Check, language: str) -> str:
    """What came of a claim, in words."""
    if check.control:
        return (Text("control: holds!", "对照组：竟然成立") if check.holds else Text("control: fails, as it must", "对照组：如期不成立")).of(language)  # fmt: skip
    return (Text("holds", "成立") if check.holds else Text("does not hold", "不成立")).of(language)


def page(results: Sequence[tuple[Lab, Result]], language: str) -> str:
    """One HTML page with all of `results`, which must be in `language`."""
    title = results[0][0].title.of(language) if len(results) == 1 else f"pellucid: {LABS.of(language)}"
    sections = "\n".join(_section(lab, result, language, 1 if len(results) == 1 else 2) for lab, result in results)
    if len(results) > 1:
        links = "".join(f'<li><a href="#{lab.name}">{escape(lab.title.of(language))}</a></li>\n' for lab, _ in results)
        sections = f"<nav>\n<h1>{escape(title)}</h1>\n<ol>\n{links}</ol>\n</nav>\n{sections}"
    return (
        f'<!doctype html>\n<html lang="{"zh-Hans" if language == "zh" else "en"}">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{sections}\n</main>\n</body>\n</html>\n"
    )


def _section(lab: Lab, result: Result, language: str, level: int) -> str:
    """One lab, under a heading of that level."""
    title = f'<h{level} class="title">{lab.number}. {escape(lab.title.of(language))}</h{level}>'
    figures = "".join(
        f'<figure><figcaption>{escape(title)}</figcaption><div class="wide"{_tab(svg)}>{svg}</div></figure>\n'
        for title, svg in result.pictures
    )
    numbers = "".join(
        f'<tr><th scope="row">{escape(label)}</th><td>{escape(value)}</td></tr>\n' for label, value in result.numbers
    )
    checks = "".join(
        f'<tr><th scope="row">{escape(check.claim)}</th><td class="found">{escape(check.found)}</td>'
        f'<td class="mark {"good" if check.as_it_should_be else "bad"}">{"✓" if check.as_it_should_be else "✗"} '
        f"{escape(verdict(check, language))}</td></tr>\n"
        for check in result.checks
    )
    return (
        f'<section id="{lab.name}">\n{title}\n<p class="question">{escape(lab.question.of(language))}</p>\n'
        f'<p class="idea">{escape(result.idea)}</p>\n'
        f'<div class="pictures">\n{figures}</div>\n'
        + (_table(NUMBERS.of(language), numbers, level + 1) if numbers else "")
        + _table(CHECKS.of(language), checks, level + 1)
        + f'<p class="source">{SOURCE.of(language)}: {escape(lab.source)}</p>\n</section>'
    )


def _table(title: str, rows: str, level: int) -> str:
    return f'<h{level} class="part">{title}</h{level}>\n<table>\n{rows}</table>\n'


def _tab(svg: str) -> str:
    """What is wider than a telephone scrolls sideways, by keyboard too."""
    width = re.search(r' width="([\d.]+)"', svg)
    return ' tabindex="0"' if width and float(width[1]) > WIDTH + 20 else ""
