"""What a check has found, for people (a table in the terminal, a page) and for programs (JSON)."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pellucid.data.check import Fault, Findings
from pellucid.data.rules import RULES

MOST_BARS = 30
CELLS = 40
WIDTH, HEIGHT = 560, 240
_LONGEST_SHOWN = 200
_VISIBLE = str.maketrans({code: f"\\u{code:04x}" for code in [*range(0x20), *range(0x7F, 0xA0), 0x200B, 0x200E, 0x200F,
                          0x2028, 0x2029, *range(0x202A, 0x202F), *range(0x2060, 0x206A), 0xFEFF]})  # fmt: skip


@dataclass(frozen=True)
class CheckReport:
    """Everything that is shown of a check."""

    inputs: tuple[str, ...]
    findings: Findings
    faults: tuple[Fault, ...]
    shifts: tuple[tuple[str, str, int], ...] = ()
    """The first and the last place of each shifted stretch, and by how many lines."""
    looked_for: tuple[str, ...] = tuple(RULES)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "inputs": list(self.inputs),
            "pairs": len(self.findings),
            "looked_for": list(self.looked_for),
            "faults": {
                fault.rule: {
                    "meaning": RULES[fault.rule],
                    "count": fault.count,
                    "share": fault.share,
                    "examples": [example._asdict() for example in fault.examples],
                }
                for fault in self.faults
            },
            "overlaps": self.findings.overlaps,
            "shifts": [{"from": first, "to": last, "by": by} for first, last, by in self.shifts],
            "length_ratio": self.findings.ratio,
            "scripts": dict(zip(("source", "target"), self.findings.scripts, strict=True)),
        }

    def lines(self) -> list[str]:
        """For a terminal."""
        found = [f"{len(self.findings):,} pairs in {', '.join(self.inputs)}"]
        for name, scripts in zip(("source", "target"), self.findings.scripts, strict=True):
            most = ", ".join(f"{script.capitalize()} {share:.1%}" for script, share in list(scripts.items())[:4])
            found.append(f"{name}: {most or 'too few letters to tell the script'}")
        found += [f"a source character has {self.findings.ratio:.2f} target characters as a rule", ""]
        found += [summary(fault.rule, fault.count, fault.share) for fault in self.faults]
        if not self.faults:
            found.append("nothing found")
        for name, counts in self.findings.overlaps.items():
            seen = sum(count for kind, count in counts.items() if kind != "pairs")
            found.append(f"of the {counts['pairs']:,} pairs of the {name} set, {seen:,} have a source that is trained on: "
                         f"{counts['overlap']:,} the same, {counts['overlap-normalised']:,} but for case and "
                         f"punctuation, {counts['overlap-near']:,} nearly")  # fmt: skip
        found += [f"shifted by {by:+d} lines from {first} to {last}" for first, last, by in self.shifts]
        for fault in self.faults:
            found += ["", f"{fault.rule}: {RULES[fault.rule]}"]
            for example in fault.examples:
                like = f"   (like {example.like})" if example.like else ""
                found.append(f"  {example.file}:{example.line}{like}")
                found += [f"    {shown(text)}" for text in (example.source, example.target)]
        return found

    def as_html(self) -> str:
        """A page of its own: no script, nothing to fetch, light and dark."""
        rows = "".join(
            f"<tr><td><a href='#{fault.rule}'>{fault.rule}</a><td>{RULES[fault.rule]}<td class=n>{fault.count:,}"
            f"<td class=n>{fault.share:.2%}"
            for fault in self.faults
        ) or "<tr><td colspan=4>nothing found"  # fmt: skip
        overlaps = "".join(
            f"<tr><td>{html.escape(name)}<td class=n>{c['pairs']:,}<td class=n>{c['overlap']:,}"
            f"<td class=n>{c['overlap-normalised']:,}<td class=n>{c['overlap-near']:,}"
            for name, c in self.findings.overlaps.items()
        )
        overlaps = overlaps and (
            "<h2>Seen in training</h2><table><tr><th>set<th>pairs<th>the same source<th>but for case and punctuation"
            f"<th>nearly{overlaps}</table>"
        )
        shifts = "".join(
            f"<li>by {by:+d} lines from {html.escape(first)} to {html.escape(last)}" for first, last, by in self.shifts
        )
        details = "".join(map(_details, self.faults))
        return (
            "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>Check of {html.escape(', '.join(self.inputs))}</title><style>{_STYLE}</style>"
            f"<h1>{len(self.findings):,} pairs</h1><p>{html.escape(', '.join(self.inputs))}"
            f"<table><tr><th>fault<th>meaning<th class=n>pairs<th class=n>share{rows}</table>{overlaps}"
            + (f"<h2>Shifted</h2><ul>{shifts}</ul>" if shifts else "")
            + f"<h2>Lengths</h2>{length_histogram(self.findings)}{length_scatter(self.findings)}{details}</html>\n"
        )


def summary(rule: str, count: int, share: float) -> str:
    """One fault as a line."""
    return f"{count:>10,} {share:>7.2%}  {rule:<22}{RULES[rule]}"


def shown(text: str | None) -> str:
    """A text as it can be shown: what is invisible is written out, what is long is cut."""
    if text is None:
        return "(not UTF-8)"
    visible = text.translate(_VISIBLE)
    return visible if len(visible) <= _LONGEST_SHOWN else visible[: _LONGEST_SHOWN - 1] + "…"


def length_histogram(findings: Findings) -> str:
    """An SVG of how many texts have how many characters, source and target side by side."""
    longest = _usual_longest(findings.lengths)
    step = max(1, -(-longest // MOST_BARS))
    edges = np.arange(0, longest + step + 1, step)
    counts = [np.histogram(np.minimum(side, longest), edges)[0] for side in findings.lengths]
    most = max(1, *(int(c.max(initial=0)) for c in counts))
    slot = WIDTH / max(1, len(edges) - 1)
    bars = []
    for side, (name, values) in enumerate(zip(("source", "target"), counts, strict=True)):
        for i, value in enumerate(values.tolist()):
            tall = value / most * HEIGHT
            bars.append(
                f"<rect class={name} x={i * slot + side * slot * 0.45:.1f} y={HEIGHT - tall:.1f} width={slot * 0.42:.1f} "
                f"height={tall:.1f}><title>{name}, {edges[i]} to {edges[i + 1] - 1} characters: {value:,}</title></rect>"
            )
    legend = "".join(
        f"<rect class={name} x={WIDTH - 150 + 80 * i} y=-18 width=10 height=10 /><text x={WIDTH - 135 + 80 * i} y=-8>{name}</text>"
        for i, name in enumerate(("source", "target"))
    )
    return _figure(
        "".join(bars) + legend, longest, f"{most:,}", "characters (the last bar: all that is longer)", "texts"
    )


def length_scatter(findings: Findings) -> str:
    """An SVG of source against target length: a cell is the stronger the more pairs it holds; a line is the usual ratio."""
    longest = [_usual_longest(side) for side in findings.lengths]
    edges = [np.linspace(0, most + 1, CELLS + 1) for most in longest]
    source, target = (np.minimum(side, most) for side, most in zip(findings.lengths, longest, strict=True))
    counts = np.histogram2d(source, target, edges)[0].astype(np.int64)
    wide, high = WIDTH / CELLS, HEIGHT / CELLS
    most = np.log1p(max(1, int(counts.max(initial=0))))
    cells = [
        f"<rect class=cell x={i * wide:.1f} y={HEIGHT - (j + 1) * high:.1f} width={wide:.1f} height={high:.1f} "
        f"fill-opacity={0.15 + 0.85 * np.log1p(counts[i, j]) / most:.2f}><title>{counts[i, j]:,} pairs, source from "
        f"{edges[0][i]:.0f}, target from {edges[1][j]:.0f} characters</title></rect>"
        for i, j in zip(*(axis.tolist() for axis in np.nonzero(counts)), strict=True)
    ]
    end = min(longest[0], longest[1] / findings.ratio)  # of the line of the usual ratio
    line = (
        f"<line x1=0 y1={HEIGHT} x2={end / longest[0] * WIDTH:.1f} "
        f"y2={HEIGHT - end * findings.ratio / longest[1] * HEIGHT:.1f} />"
    )
    return _figure("".join(cells) + line, longest[0], f"{longest[1]:,}", "source characters", "target characters")


def _usual_longest(lengths: np.ndarray) -> int:
    """The axes end where all but one in two hundred texts do: a few long ones would squeeze the others."""
    return max(10, int(np.quantile(lengths, 0.995))) if lengths.size else 10


def _figure(inside: str, last_x: int, last_y: str, x: str, y: str) -> str:
    return (
        f"<svg viewBox='-60 -20 {WIDTH + 80} {HEIGHT + 70}' role=img aria-label='{y} over {x}'>"
        f"<path class=axis d='M0 0V{HEIGHT}H{WIDTH}'/>{inside}"
        f"<text x=0 y={HEIGHT + 18}>0</text><text x={WIDTH} y={HEIGHT + 18} text-anchor=end>{last_x:,}</text>"
        f"<text x={WIDTH / 2} y={HEIGHT + 36} text-anchor=middle>{x}</text>"
        f"<text x=-6 y=8 text-anchor=end>{last_y}</text><text x=0 y=-8>{y}</text></svg>"
    )


def _details(fault: Fault) -> str:
    rows = "".join(
        f"<tr><td>{html.escape(f'{e.file}:{e.line}')}{html.escape(f' (like {e.like})' if e.like else '')}"
        + "".join(f"<td><bdi>{html.escape(shown(text))}</bdi>" for text in (e.source, e.target))
        for e in fault.examples
    )
    return (
        f"<h2 id={fault.rule}>{fault.rule}</h2><p>{RULES[fault.rule]}: {fault.count:,} pairs, {fault.share:.2%}"
        f"<table><tr><th>where<th>source<th>target{rows}</table>"
    )


def shift_places(findings: Findings, where: dict[int, str]) -> tuple[tuple[str, str, int], ...]:
    """The shifts of `findings` with places for numbers of pairs."""
    return tuple((where[begin], where[end - 1], by) for begin, end, by in findings.shifts)


def shift_ends(findings: Findings) -> Sequence[int]:
    """The numbers of the pairs that :func:`shift_places` asks for."""
    return [number for begin, end, _ in findings.shifts for number in (begin, end - 1)]


_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --paper: #fff; --line: #c9d1dc; --source: #2f6fb3; --target: #c2571a }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e8ef; --paper: #14181f; --line: #3b4554; --source: #74b0f0; --target: #f0965a } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 70rem; margin: 2rem auto;
  padding: 0 1rem }
table { border-collapse: collapse; width: 100% } th { text-align: left } td, th { border-bottom: 1px solid var(--line); padding: .3rem .6rem;
  vertical-align: top; overflow-wrap: anywhere } .n { text-align: right } a { color: var(--source) }
svg { width: 100%; max-width: 44rem; display: block; margin: 1rem 0 } text { font-size: 12px; fill: var(--ink) }
.axis { fill: none; stroke: var(--line) } .source { fill: var(--source) } .target { fill: var(--target) }
.cell { fill: var(--source) } line { stroke: var(--target); stroke-width: 1.5; stroke-dasharray: 5 4 }
"""
