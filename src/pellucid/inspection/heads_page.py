"""The table of heads as one page of HTML: no script, no other file, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pellucid.inspection.heads import HeadReport, HeadTable
from pellucid.inspection.recorder import KINDS
from pellucid.inspection.roles import MAXIMA

SHADES = 8
"""Steps of colour, from the lowest to the highest value of a measure within a kind of attention."""

TITLES = {
    "encoder": "Encoder: the source looks at itself",
    "decoder": "Decoder: the translation looks at what is written",
    "cross": "Cross-attention: the translation looks at the source",
}

STYLE = """
:root { color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --accent: 33 102 172; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e6ea; --paper: #17181c; --accent: 103 169 222; } }
body { font: 16px/1.5 system-ui, "PingFang SC", "Microsoft YaHei", "Noto Sans CJK SC", "WenQuanYi Micro Hei", sans-serif;
       color: var(--ink); background: var(--paper); max-width: 76rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2 { line-height: 1.2; } h2 { margin-top: 3rem; }
.maps { display: flex; flex-wrap: wrap; gap: 1.5rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }
caption { text-align: start; font-weight: 600; padding-bottom: .25rem; }
caption small { font-weight: 400; }
th { font-weight: 500; text-align: start; } td, th { padding: .2rem .5rem; white-space: nowrap; }
.maps td, .maps th[scope=col] { text-align: center; min-width: 2.6rem; }
.list { width: 100%; margin-top: 1.5rem; } .list td, .list th { border-top: 1px solid rgb(128 128 128 / .3); vertical-align: top; }
.list td:last-child { white-space: normal; }
""" + "".join(
    f".s{step} {{ background: rgb(var(--accent) / {0.06 + 0.5 * step / (SHADES - 1):.2f}); }}\n"
    for step in range(SHADES)
)


def heads_page(table: HeadTable, model: str) -> str:
    """A page for people, with every measure, and for every head what it leans to and where it looks hardest."""
    return "".join(_page(table, model))


def _page(table: HeadTable, model: str) -> Iterator[str]:
    title = f"Attention heads of {escape(model)}"
    yield f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    yield (
        f"<p>{table.pairs:,} pairs with teacher forcing; the whole model's loss is {table.loss:.3f} nats a piece. Shares "
        "stand beside chance: the share of a head that looks everywhere evenly. Weights are not explanations: whether a "
        "head matters, importance and loss say.</p>\n"
    )
    for kind in KINDS:
        reports = table.of(kind)
        yield f'<h2>{TITLES[kind]}</h2>\n<div class="maps">\n'
        for measure in table.measures:
            if any(report.values[measure] is not None for report in reports):
                yield from _map(reports, measure, table)
        yield '</div>\n<div class="wide">\n<table class="list">\n<caption>Each head</caption>\n'
        yield (
            "<thead><tr>"
            + "".join(
                f'<th scope="col">{name}</th>'
                for name in (
                    "head",
                    "leans to",
                    "share (95 % interval)",
                    "largest weights",
                    "chance",
                    "like",
                    "looks hardest at",
                )
            )
            + "</tr></thead>\n<tbody>\n"
        )
        for report in reports:
            yield from _row(report)
        yield "</tbody>\n</table>\n</div>\n"
    yield "</main>\n</body>\n</html>\n"


def _map(reports: list[HeadReport], measure: str, table: HeadTable) -> Iterator[str]:
    """One measure: a row a layer, a column a head. The darkest is what stands out, be it the highest or the lowest."""
    known = [value for report in reports if (value := report.values[measure]) is not None]
    low, high = sorted((min(known), max(known)), reverse=table.measures[measure] < 0)
    chance = table.baselines[reports[0].head.kind].get(measure)
    digits = 2 if max(map(abs, known)) >= 0.1 else 3
    name = escape(measure.replace(MAXIMA, ": largest weights").replace("_", " "))
    yield f"<table>\n<caption>{name}{'' if chance is None else f' <small>chance {chance:.2f}</small>'}</caption>\n"
    heads = [report.head.head for report in reports if report.head.layer == 0]
    yield "<tr><th></th>" + "".join(f'<th scope="col">{head + 1}</th>' for head in heads) + "</tr>\n"
    for layer in range(reports[-1].head.layer + 1):
        yield f'<tr><th scope="row">layer {layer + 1}</th>'
        for report in reports:
            if report.head.layer == layer:
                value = report.values[measure]
                if value is None:
                    yield "<td>–</td>"
                else:
                    yield f'<td class="s{_shade(value, low, high)}">{value:.{digits}f}</td>'
        yield "</tr>\n"
    yield "</table>\n"


def _shade(value: float, low: float, high: float) -> int:
    """Which of :data:`SHADES`, `high` being the darkest; it may be the lower number."""
    return 0 if low == high else round((value - low) / (high - low) * (SHADES - 1))


def _row(report: HeadReport) -> Iterator[str]:
    lean = report.leans
    yield f'<tr><th scope="row">{report.head}</th>'
    if lean is None:
        yield "<td>–</td><td>nothing above chance</td><td></td><td></td>"
    else:
        maxima = report.values[lean.to + MAXIMA]
        yield f"<td>{lean.to.replace('_', ' ')}</td><td>{lean.share:.2f} ({lean.low:.2f} to {lean.high:.2f})</td>"
        yield f"<td>{'–' if maxima is None else f'{maxima:.2f}'}</td><td>{lean.baseline:.2f}</td>"
    yield f"<td>{', '.join(f'{head} ({distance:.2f})' for head, distance in report.similar)}</td><td>"
    yield "<br>".join(
        f"{escape(e.row)} → {escape(e.column)} {e.weight:.2f} in: {escape(e.text)}" for e in report.examples
    )
    yield "</td></tr>\n"
