"""Pictures as SVG, written by hand: no library, nothing to download, and text that the reader's own fonts draw.

Only presentation attributes, never `style=`: a page may forbid inline styles. Ink is `currentColor`, so that a picture
in a page has the page's ink on a light and on a dark background. Cells of a heat map are filled wholly, and their
numbers are black or white, whichever can be read. Colours are such that colour-blind readers tell them apart, and
never the only sign.

A picture is about 340 wide: it fits a telephone as it is, and a wide page puts several side by side.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any
from xml.sax.saxutils import escape, quoteattr

FONT = "system-ui, 'PingFang SC', 'Microsoft YaHei', 'Noto Sans CJK SC', 'WenQuanYi Micro Hei', sans-serif"
INK = "currentColor"
WIDTH = 340.0
SIZE = 12.0
"""Of text."""

CATEGORIES = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
"""Blue, vermilion, green, purple of Okabe and Ito, "Color Universal Design" (2008)."""
DASHES = ("", "6 3", "2 3", "8 3 2 3")
"""A second sign beside the colour."""
CIVIDIS = ("#00204D", "#414D6B", "#7C7B78", "#BCAF6F", "#FFEA46")
"""Five colours of the scale of Nunez, Anderton and Renslow (2018): lightness grows evenly, also for the colour-blind."""
BLUE_TO_RED = ("#0072B2", "#F2F2F2", "#D55E00")
"""For numbers on both sides of 0."""

FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Outside of XML 1.0's characters (section 2.2)."""

Values = Sequence[Sequence[float | None]]
Points = Sequence[tuple[float, float]]


@dataclass
class Picture:
    """A drawing surface; the origin is the upper left corner."""

    width: float
    height: float
    parts: list[str] = field(default_factory=list)

    def draw(self, tag: str, content: str | None = None, **attributes: object) -> None:
        """An element. `stroke_width` becomes `stroke-width`, None leaves an attribute out; `content` is escaped."""
        self.parts.append(element(tag, None if content is None else escape(allowed(content)), **attributes))

    def rect(self, x: float, y: float, width: float, height: float, fill: str, **more: Any) -> None:
        self.draw("rect", x=x, y=y, width=width, height=height, fill=fill, **more)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = INK, **more: Any) -> None:
        self.draw("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def text(self, x: float, y: float, text: str, anchor: str = "start", fill: str = INK, **more: Any) -> None:
        """`y` is the base line; `anchor` is start, middle or end."""
        self.draw("text", text, x=x, y=y, text_anchor=None if anchor == "start" else anchor, fill=fill, **more)

    def place(self, other: Picture, x: float, y: float) -> None:
        """All of `other`, moved."""
        self.parts += [f'<g transform="translate({short(x)} {short(y)})">', *other.parts, "</g>"]

    def svg(self, title: str, *, standalone: bool = False) -> str:
        """The whole picture. `standalone`: for a file of its own, with black ink on white."""
        white = element("rect", width=self.width, height=self.height, fill="#FFFFFF") if standalone else ""
        content = element("title", escape(allowed(title))) + white + "".join(self.parts)
        return element(
            "svg", content, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {short(self.width)} {short(self.height)}",
            width=self.width, height=self.height, role="img", aria_label=title, font_family=FONT, font_size=SIZE,
            color="#000000" if standalone else None,
        )  # fmt: skip


def element(tag: str, content: str | None = None, **attributes: object) -> str:
    """`content` is XML already."""
    written = "".join(
        f" {name if name == 'viewBox' else name.replace('_', '-')}"
        f"={quoteattr(short(value) if isinstance(value, int | float) else allowed(str(value)))}"
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{written}/>" if content is None else f"<{tag}{written}>{content}</{tag}>"


def allowed(text: str) -> str:
    """`text` with U+FFFD in the place of what no XML may hold: pieces of text can be any character, control characters too."""
    return FORBIDDEN.sub("\ufffd", text)


def short(number: float) -> str:
    """At most two decimals, and no more than needed: for coordinates."""
    return f"{number:.2f}".rstrip("0").rstrip(".")


def fixed(number: float, digits: int) -> str:
    """With so many decimals, a true minus sign, and no "−0.00"."""
    text = f"{number:.{digits}f}"
    return text.replace("-", "−") if float(text) else text.lstrip("-")


def readable(number: float, digits: int = 2) -> str:
    """As :func:`fixed`, but with a power of ten where decimals would show nothing, or too much."""
    if number == 0 or 10.0**-digits <= abs(number) < 1e6:
        return fixed(number, digits)
    mantissa, _, exponent = f"{number:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}".replace("-", "−")


def text_width(text: str, size: float = SIZE) -> float:
    """About how wide `text` will be. Wide characters take their whole square, others a little more than half."""
    ems = (0.0 if unicodedata.combining(c) else 1.0 if unicodedata.east_asian_width(c) in "WF" else 0.62 for c in text)
    return size * sum(ems)


def colour(share: float, scale: Sequence[str] = CIVIDIS) -> str:
    """The colour at `share` (0 to 1) of the way through `scale`."""
    place = min(max(share, 0.0), 1.0) * (len(scale) - 1)
    i = min(int(place), len(scale) - 2)
    mixed = (a + (b - a) * (place - i) for a, b in zip(_rgb(scale[i]), _rgb(scale[i + 1]), strict=True))
    return "#" + "".join(f"{round(c):02X}" for c in mixed)


def ink_on(background: str) -> str:
    """Black or white, whichever has the greater contrast (WCAG 2.1, relative luminance)."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _rgb(background))]
    luminance = 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
    return "#000000" if (luminance + 0.05) ** 2 > 0.05 * 1.05 else "#FFFFFF"


def _rgb(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


# --- matrices -----------------------------------------------------------------------------------------------------------


def heat_map(
    values: Values,
    rows: Sequence[str] = (),
    columns: Sequence[str] = (),
    *,
    caption: str = "",
    digits: int | None = 2,
    low: float | None = None,
    high: float | None = None,
    cell: tuple[float, float] = (38.0, 26.0),
    missing: str = "",
    scale: bool = True,
) -> Picture:
    """A matrix as coloured cells, with its numbers in them.

    Args:
        values: [row][column]; None leaves a cell empty but for the text `missing`.
        rows, columns: labels, or none at all.
        digits: decimals of the numbers; None: no numbers, but a scale below (unless `scale` is False).
        low, high: the values with the first and the last colour; by default the least and greatest. If `low` is
            -`high`, the scale is blue to red by way of white, else dark to light.
        cell: width and height of a cell.
    """
    known = [v for row in values for v in row if v is not None]
    low = min(known, default=0.0) if low is None else low
    high = max(known, default=1.0) if high is None else high
    colours = BLUE_TO_RED if low == -high and high > 0 else CIVIDIS
    scale = scale and digits is None
    wide, tall = cell
    n_rows, n_columns = len(values), len(values[0])
    slanted = any(text_width(c) > wide - 2 for c in columns)
    left = 6 + max((text_width(r) for r in rows), default=0.0) if rows else 0.0
    top = (18.0 if caption else 0.0) + _labels_height(columns, slanted)
    overhang = max(0.0, text_width(columns[-1]) * 0.71 + 10 - wide / 2) if slanted else 0.0
    right = left + n_columns * wide
    width = max(right + overhang, text_width(caption)) + 1
    picture = Picture(width, top + n_rows * tall + (28 if scale else 0) + 2)
    if caption:
        picture.text(0, 12, caption, font_weight="700")
    for j, label in enumerate(columns):
        if label:
            _column_label(picture, label, left + (j + 0.5) * wide, top - 5, slanted)
    for i, label in enumerate(rows):
        if label:
            picture.text(left - 6, top + (i + 0.5) * tall + 4, label, "end")
    # All cells of one colour are one path, neighbours in a row one rectangle: thousands of cells stay small.
    paths: dict[str, list[str]] = {}
    for i, row in enumerate(values):
        fills = [None if v is None else colour(_step(v, low, high), colours) for v in row]
        for fill, run in groupby(range(n_columns), key=fills.__getitem__):
            if fill is not None:
                first, *others = run
                n = len(others) + 1
                paths.setdefault(fill, []).append(f"M{first} {i}h{n}v1h-{n}z")
    place = f"translate({short(left)} {short(top)}) scale({short(wide)} {short(tall)})"
    for fill, cells in paths.items():
        picture.draw("path", d="".join(cells), fill=fill, transform=place, shape_rendering="crispEdges")
    if digits is not None:
        for i, row in enumerate(values):
            for j, value in enumerate(row):
                fill = INK if value is None else ink_on(colour(_step(value, low, high), colours))
                text = missing if value is None else fixed(value, digits)
                if text:
                    x, y = left + (j + 0.5) * wide, top + (i + 0.5) * tall + 4
                    picture.text(x, y, text, "middle", fill, font_size=11)
    picture.rect(left, top, n_columns * wide, n_rows * tall, "none", stroke=INK, stroke_width=0.5)
    if scale:
        _scale(picture, left, top + n_rows * tall + 8, min(n_columns * wide, 120.0), low, high, colours)
    return picture


def _step(value: float, low: float, high: float) -> float:
    """Where `value` stands between `low` and `high`, in 63 steps: so many colours are enough, and cells can share one."""
    return round(min(max((value - low) / (high - low), 0.0), 1.0) * 63) / 63 if high > low else 0.5


def _labels_height(labels: Sequence[str], slanted: bool) -> float:
    if not labels:
        return 1.0
    return 8 + max(text_width(c) for c in labels) * 0.71 + 6 if slanted else 20.0


def _column_label(picture: Picture, label: str, x: float, y: float, slanted: bool) -> None:
    if slanted:
        picture.text(x, y, label, transform=f"rotate(-45 {short(x)} {short(y)})")
    else:
        picture.text(x, y, label, "middle")


def _scale(picture: Picture, x: float, y: float, width: float, low: float, high: float, colours: Sequence[str]) -> None:
    start = x + text_width(readable(low)) + 4
    for i in range(32):
        picture.rect(start + i * width / 32, y, width / 32, 10, colour(i / 31, colours), shape_rendering="crispEdges")
    picture.text(x, y + 9, readable(low), font_size=10)
    picture.text(start + width + 4, y + 9, readable(high), font_size=10)
    picture.width = max(picture.width, start + width + 8 + text_width(readable(high), 10))


def beside(pictures: Sequence[Picture], width: float = WIDTH, gap: float = 20.0) -> Picture:
    """Pictures in lines from left to right, a new line where the next would go beyond `width`; feet on one level."""
    lines: list[list[Picture]] = []
    for picture in pictures:
        if lines and sum(p.width + gap for p in lines[-1]) + picture.width <= width:
            lines[-1].append(picture)
        else:
            lines.append([picture])
    whole = Picture(0.0, -gap)
    for line in lines:
        x, tallest = 0.0, max(picture.height for picture in line)
        for picture in line:
            whole.place(picture, x, whole.height + gap + tallest - picture.height)
            x += picture.width + gap
        whole.width, whole.height = max(whole.width, x - gap), whole.height + gap + tallest
    return whole


# --- charts -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Numbers to places along one axis."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, value = (math.log10(v) for v in (self.low, self.high, value)) if self.log else (self.low, self.high, value)  # fmt: skip
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Round numbers: tens (where they are many, only some of them), or steps of 1, 2 or 5 times a power of ten."""
        if self.log:
            first, last = math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9)
            return [10.0**e for e in range(first, last + 1, max(1, math.ceil((last - first) / 5)))]
        rough = (self.high - self.low) / 5
        power = 10.0 ** math.floor(math.log10(rough))
        step = next(s * power for s in (1, 2, 5, 10) if s * power >= rough * 0.999)
        first = math.ceil(self.low / step - 1e-9)
        return [i * step for i in range(first, math.floor(self.high / step + 1e-9) + 1)]


def _tick(value: float, log: bool) -> str:
    if log and not 1e-3 <= value < 1e5:
        return f"1e{round(math.log10(value))}".replace("-", "−")
    return f"{value:g}".replace("-", "−")


@dataclass(frozen=True)
class Plot:
    """The frame of a chart: two axes with ticks, and their titles."""

    picture: Picture
    x: Axis
    y: Axis


def plot(
    xs: Sequence[float], ys: Sequence[float], x_title: str, y_title: str, *, log_x: bool = False, log_y: bool = False,
    x_ticks: Sequence[float] = (), height: float = 210.0,
) -> Plot:  # fmt: skip
    """An empty chart in which all of `xs` and `ys` have room. `x_ticks`: where the marks are, instead of at round numbers."""
    (x_low, x_high), (y_low, y_high) = _range(xs, log_x), _range(ys, log_y)
    if not log_y:
        y_low, y_high = _to_steps(min(y_low, 0.0) if 0 < y_low < 0.6 * y_high else y_low, y_high)
    left = 10 + max(text_width(_tick(t, log_y), 11) for t in Axis(y_low, y_high, 0, 1, log_y).ticks() or [0.0])
    right = WIDTH - max(8.0, text_width(_tick(x_high, log_x), 11) / 2)
    picture = Picture(WIDTH, height)
    x, y = Axis(x_low, x_high, left, right, log_x), Axis(y_low, y_high, height - 38, 28, log_y)
    for tick in y.ticks():
        picture.line(left, y.at(tick), right, y.at(tick), stroke_opacity=0.2)
        picture.text(left - 5, y.at(tick) + 4, _tick(tick, log_y), "end", font_size=11)
    last = -math.inf
    for tick in x_ticks or x.ticks():
        picture.line(x.at(tick), y.start, x.at(tick), y.start + 4)
        if x.at(tick) - last > text_width(_tick(tick, log_x), 11) + 4:
            picture.text(x.at(tick), y.start + 16, _tick(tick, log_x), "middle", font_size=11)
            last = x.at(tick)
    picture.line(left, y.start, right, y.start)
    picture.text((left + right) / 2, height - 6, x_title, "middle")
    picture.text(0, 12, y_title)
    return Plot(picture, x, y)


def _range(values: Sequence[float], log: bool) -> tuple[float, float]:
    low, high = min(values), max(values)
    if log:
        low = max(low, 1e-300)
        return (low, high) if high / low > 1.5 else (low / 2, high * 2)
    return (low, high) if high > low else (low - 1, high + 1)


def _to_steps(low: float, high: float) -> tuple[float, float]:
    """Both moved outwards to the next round number."""
    ticks = Axis(low, high, 0, 1).ticks()
    step = ticks[1] - ticks[0]
    return math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step


def line_chart(
    series: Sequence[tuple[str, Points]],
    x_title: str,
    y_title: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    marks: bool = False,
    height: float = 210.0,
) -> Picture:
    """Curves, each with its name below, its colour and its dashes. `marks`: a dot at every point, a tick below each."""
    points = [point for _, line in series for point in line]
    xs, ys = sorted({x for x, _ in points}), [y for _, y in points]
    ticks = xs if marks and len(xs) <= 8 else ()
    chart = plot(xs, ys, x_title, y_title, log_x=log_x, log_y=log_y, x_ticks=ticks, height=height)
    for i, (_, line) in enumerate(series):
        stroke, dash = CATEGORIES[i % len(CATEGORIES)], DASHES[i % len(DASHES)] or None
        corners = [(chart.x.at(x), chart.y.at(max(y, chart.y.low) if log_y else y)) for x, y in line]
        path = "M" + "L".join(f"{short(x)} {short(y)}" for x, y in corners)
        chart.picture.draw("path", d=path, fill="none", stroke=stroke, stroke_width=2, stroke_dasharray=dash)
        for x, y in corners if marks else []:
            chart.picture.draw("circle", cx=x, cy=y, r=3, fill=stroke)
    if len(series) > 1:
        legend(chart.picture, [name for name, _ in series])
    return chart.picture


def legend(picture: Picture, names: Sequence[str], dashes: Sequence[str] = DASHES) -> None:
    """What the colours mean, in lines below the picture."""
    x, y = 0.0, picture.height + 12
    for i, name in enumerate(names):
        if x and x + 28 + text_width(name) > picture.width:
            x, y = 0.0, y + 18
        stroke, dash = CATEGORIES[i % len(CATEGORIES)], dashes[i % len(dashes)] or None
        picture.line(x, y - 4, x + 22, y - 4, stroke, stroke_width=4, stroke_dasharray=dash)
        picture.text(x + 27, y, name)
        x += 27 + text_width(name) + 16
        picture.width = max(picture.width, x - 16)
    picture.height = y + 6


def bars(
    names: Sequence[str], series: Sequence[tuple[str, Sequence[float]]], *, digits: int = 2, low: float = 0.0
) -> Picture:
    """Lying bars, one group a name, one bar in it a series; the number stands behind its bar.

    They start at `low`; a number below it has no bar.
    """
    left = 8 + max(text_width(name) for name in names)
    values = [value for _, line in series for value in line]
    highest = max([*values, low + 1e-12])
    room = WIDTH - left - 8 - max(text_width(fixed(v, digits), 11) for v in values)
    thick, gap = (16.0, 6.0) if len(series) == 1 else (13.0, 8.0)
    picture = Picture(WIDTH, len(names) * (len(series) * thick + gap))
    for i, name in enumerate(names):
        top = i * (len(series) * thick + gap)
        picture.text(left - 8, top + len(series) * thick / 2 + 4, name, "end")
        for s, (_, line) in enumerate(series):
            length = max(0.0, (line[i] - low) / (highest - low) * room)
            y = top + s * thick
            picture.rect(left, y, length, thick - 2, CATEGORIES[s % len(CATEGORIES)])
            picture.text(left + length + 5, y + thick - 4, fixed(line[i], digits), font_size=11)
    picture.line(left, 0, left, picture.height - gap)
    if len(series) > 1:
        legend(picture, [name for name, _ in series], dashes=("",))
    return picture


def histogram(samples: Sequence[tuple[str, Sequence[float]]], x_title: str, y_title: str, bins: int = 41) -> Picture:
    """How often which value comes, as outlines over each other: the share of the samples in each of `bins` equal bins."""
    everything = [value for _, values in samples for value in values]
    low, high = min(everything), max(everything)
    step = (high - low) / bins or 1.0
    series = []
    for name, values in samples:
        counts = [0] * bins
        for value in values:
            counts[min(bins - 1, int((value - low) / step))] += 1
        shares = [count / len(values) for count in counts]
        corners = [(low + (i + side) * step, share) for i, share in enumerate(shares) for side in (0, 1)]
        series.append((name, [(low, 0.0), *corners, (high, 0.0)]))
    return line_chart(series, x_title, y_title)
