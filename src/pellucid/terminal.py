"""Drawing in a terminal, where a Chinese character takes two columns. No torch here."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

SHADES = ((0.6, "█"), (0.35, "▓"), (0.18, "▒"), (0.08, "░"), (0.0, "·"))
"""From which weight on a cell is drawn with which shade."""
CLOSING = "，。；：？！、”）》"
"""Signs that no line may begin with."""
LONGEST_LABEL = 14
"""Columns of a piece; longer ones are cut."""


def fit(text: str, width: int) -> str:
    """`text` in exactly `width` terminal columns: filled with spaces, or cut with an ellipsis."""
    if cell_len(text) > width:
        return set_cell_size(text, width - 1) + "…" if width > 1 else set_cell_size(text, width)
    return set_cell_size(text, width)


def wrapped(text: str, width: int) -> list[str]:
    """`text` as lines of at most `width` columns, broken at spaces, and between Chinese characters."""
    lines = [""]
    for part in re.findall(r"[\u2e80-\u9fff\uff00-\uffef]|[^\s\u2e80-\u9fff\uff00-\uffef]+|\s", text):
        if cell_len(lines[-1] + part) > width and part not in CLOSING:
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        lines[-1] += part if lines[-1] or not part.isspace() else ""
    return lines


def shade(weight: float) -> str:
    """The character for a weight between 0 and 1."""
    return next((character for least, character in SHADES if weight >= least), SHADES[-1][1])


def attention_map(weights: Sequence[Sequence[float]], columns: Sequence[str], rows: Sequence[str]) -> list[str]:
    """A map of attention as lines of text of equal width: a row for each piece that looks, a column for each looked at.

    The last column says in words what each row looks at most, for whoever cannot see shades.

    Args:
        weights: [row][column], each row summing to 1.
        columns, rows: the pieces, as they should be read.
    """
    widths = [max(2, min(LONGEST_LABEL, cell_len(column))) for column in columns]
    label = max([0, *(min(LONGEST_LABEL, cell_len(row)) for row in rows)])
    lines = [
        " " * label + " │ " + " ".join(fit(c, w) for c, w in zip(columns, widths, strict=True)) + " │ looks most at"
    ]
    lines.append("─" * label + "─┼─" + "─".join("─" * w for w in widths) + "─┼─" + "─" * len("looks most at"))
    for row, values in zip(rows, weights, strict=True):
        most = max(range(len(values)), key=lambda i: values[i])
        cells = " ".join(shade(v) * w for v, w in zip(values, widths, strict=True))
        lines.append(f"{fit(row, label)} │ {cells} │ {columns[most]} {values[most]:.0%}")
    width = max(cell_len(line) for line in lines)
    return [fit(line, width).rstrip() if i != 1 else line for i, line in enumerate(lines)]


LEGEND = "  ".join(
    f"{character} {f'below {SHADES[-2][0]:.0%}' if least == 0 else f'from {least:.0%}'}"
    for least, character in reversed(SHADES)
)
"""What the shades mean."""
