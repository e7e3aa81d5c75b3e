"""The pictures: well-formed, escaped, without styles, and true to their numbers."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import pytest

from pellucid.inspection.svg import (
    CATEGORIES,
    CIVIDIS,
    Axis,
    Picture,
    bars,
    beside,
    colour,
    fixed,
    heat_map,
    histogram,
    ink_on,
    line_chart,
    readable,
    text_width,
)

NAME = "{http://www.w3.org/2000/svg}"
HOSTILE = """</text><script>alert("1")</script> & 'x' ]]>"""


def parsed(picture: Picture, title: str = "picture", **options) -> ET.Element:
    return ET.fromstring(picture.svg(title, **options))


def texts(picture: Picture) -> list[str]:
    return [element.text or "" for element in parsed(picture).iter(f"{NAME}text")]


PICTURES = {
    "heat map": heat_map([[0.1, 0.9], [None, 0.5]], [HOSTILE, "猫"], ["a", HOSTILE], caption=HOSTILE, missing="−∞"),
    "large heat map": heat_map([[i * j / 100 for i in range(20)] for j in range(20)], digits=None),
    "lines": line_chart([(HOSTILE, [(0, 1), (1, 3)]), ("b", [(0, 2), (1, 1)])], "x", HOSTILE, marks=True),
    "logarithms": line_chart([("", [(1, 1e-9), (1000, 10)])], "x", "y", log_x=True, log_y=True),
    "bars": bars(["a", HOSTILE], [("one", [1, 2]), (HOSTILE, [0, 3])]),
    "histogram": histogram([("a", [0.0, 1, 1, 2]), ("b", [1.0, 1, 1])], "x", "y", bins=3),
    "several": beside([heat_map([[1.0]]), heat_map([[2.0, 3.0]])]),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_well_formed_and_has_no_styles_scripts_or_links(name):
    root = parsed(PICTURES[name], HOSTILE)
    assert root.attrib["role"] == "img"
    assert root.attrib["aria-label"] == HOSTILE
    assert root[0].tag == f"{NAME}title" and root[0].text == HOSTILE
    for element in root.iter():
        assert element.tag.removeprefix(NAME) in {
            "svg", "title", "g", "rect", "line", "path", "text", "circle",
        }  # fmt: skip
        assert "style" not in element.attrib
        assert not any(name.startswith("on") or "href" in name for name in element.attrib)


@pytest.mark.parametrize("name", PICTURES)
def test_everything_that_is_drawn_lies_inside(name):
    picture = PICTURES[name]
    for element in parsed(picture):
        if element.tag in (f"{NAME}rect", f"{NAME}line", f"{NAME}text"):
            if "transform" in element.attrib:
                continue  # a slanted label; its size depends on the font
            for attribute, end in (
                ("x", picture.width),
                ("x1", picture.width),
                ("y", picture.height),
                ("y2", picture.height),
            ):
                if attribute in element.attrib:
                    assert -0.01 <= float(element.attrib[attribute]) <= end + 0.01, (element.tag, element.attrib)
            if element.tag == f"{NAME}rect":
                assert float(element.attrib["x"]) + float(element.attrib["width"]) <= picture.width + 0.01


def test_text_comes_out_as_it_went_in():
    assert HOSTILE in texts(PICTURES["lines"])


@pytest.mark.parametrize("character", ["\x00", "\x08", "\x1f", "\ud800", "\uffff"])
def test_what_xml_cannot_hold_is_replaced(character):
    picture = heat_map([[1.0]], [f"a{character}b"])
    assert "a\ufffdb" in texts(picture)
    assert parsed(picture, f"t{character}").attrib["aria-label"] == "t\ufffd"


def test_a_heat_map_has_a_number_a_cell_and_its_colour_tells_the_value():
    assert texts(heat_map([[0.0, 1.0], [0.25, None]], missing="?")) == ["0.00", "1.00", "0.25", "?"]
    picture = parsed(heat_map([[0.0, 1.0]], low=0, high=1))
    fills = {path.attrib["fill"]: path.attrib["d"] for path in picture.iter(f"{NAME}path")}
    assert fills == {CIVIDIS[0]: "M0 0h1v1h-1z", CIVIDIS[-1]: "M1 0h1v1h-1z"}


def test_neighbours_of_one_colour_are_one_rectangle():
    picture = parsed(heat_map([[1.0, 1.0, 0.0, 1.0]], low=0, high=1))
    assert {path.attrib["d"] for path in picture.iter(f"{NAME}path")} == {"M0 0h2v1h-2zM3 0h1v1h-1z", "M2 0h1v1h-1z"}


def test_numbers_on_both_sides_of_zero_are_blue_and_red_with_white_between():
    fills = [p.attrib["fill"] for p in parsed(heat_map([[-1.0, 1.0]], low=-1, high=1)).iter(f"{NAME}path")]
    assert fills == list(CATEGORIES[:2])


@pytest.mark.parametrize("share", [i / 20 for i in range(21)])
def test_text_on_a_cell_can_be_read(share):
    """WCAG 2.1, 1.4.3: a contrast of 4.5 at least."""

    def luminance(fill: str) -> float:
        channels = [int(fill[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    cell = colour(share)
    light, dark = sorted((luminance(cell), luminance(ink_on(cell))), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_lightness_grows_with_the_value():
    greys = [sum(int(colour(i / 50)[k : k + 2], 16) * w for k, w in ((1, 0.3), (3, 0.6), (5, 0.1))) for i in range(51)]
    assert greys == sorted(greys)


def test_ticks_are_round():
    assert Axis(0, 10, 0, 100).ticks() == [0, 2, 4, 6, 8, 10]
    assert Axis(0.03, 0.97, 0, 1).ticks() == pytest.approx([0.2, 0.4, 0.6, 0.8])
    assert Axis(1, 1000, 0, 1, log=True).ticks() == [1, 10, 100, 1000]
    assert Axis(1, 100, 0, 50, log=True).at(10) == 25


def test_a_curve_goes_through_its_points():
    picture = parsed(line_chart([("", [(0.0, 0.0), (10.0, 5.0)])], "x", "y"))
    (path,) = picture.iter(f"{NAME}path")
    (x1, y1), (x2, y2) = ([float(n) for n in pair.split()] for pair in path.attrib["d"].removeprefix("M").split("L"))
    assert x1 < x2 and y1 > y2  # upwards: y counts from the top
    bottom = [
        float(t.attrib["y"]) - 4
        for t in picture.iter(f"{NAME}text")
        if t.text == "0" and t.attrib.get("text-anchor") == "end"
    ]
    assert bottom == [y1]


def test_bars_are_as_long_as_their_numbers():
    widths = [float(r.attrib["width"]) for r in parsed(bars(["a", "b"], [("", [1.0, 3.0])])).iter(f"{NAME}rect")]
    assert widths[1] == pytest.approx(3 * widths[0], abs=0.02)


def test_only_a_picture_of_its_own_has_paper():
    inside, alone = parsed(heat_map([[1.0]])), parsed(heat_map([[1.0]]), standalone=True)
    assert "color" not in inside.attrib and not [r for r in inside.iter(f"{NAME}rect") if r.attrib["fill"] == "#FFFFFF"]
    assert alone.attrib["color"] == "#000000" and alone[1].attrib["fill"] == "#FFFFFF"


def test_chinese_is_twice_as_wide():
    assert text_width("猫") == 12
    assert text_width("ab") == pytest.approx(2 * 0.62 * 12)
    assert text_width("é".replace("é", "e\u0301")) == text_width("e")  # a combining accent takes no room


def test_numbers_for_people():
    assert [fixed(x, 2) for x in (1.234, -0.5, -0.001, 0)] == ["1.23", "−0.50", "0.00", "0.00"]
    assert [readable(x) for x in (0.5, 0, 1.2e-7, -3e9)] == ["0.50", "0.00", "1.2e−7", "−3.0e9"]
    assert not re.search("-", readable(-1.5))
