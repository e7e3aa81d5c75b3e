"""Text with markup inside a sentence: what is text, what is code, and where the code goes in a translation."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Literal, NamedTuple

XML_TOKEN = re.compile(
    r"<!--.*?-->|<!\[CDATA\[(?P<cdata>.*?)\]\]>|<\?.*?\?>|<(?P<close>/?)(?P<name>[^\s<>/]+)(?:[^<>\"']|\"[^\"]*\"|'[^']*')*?(?P<empty>/?)>",
    re.DOTALL,
)
REFERENCE = re.compile(r"&(#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6}|[^\s&;<]{1,32});")
NAMED = {"lt": "<", "gt": ">", "amp": "&", "quot": '"', "apos": "'"}
NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MOST_PAIRED = 1000
"""Codes of a text, at most, for which it is looked whether their words stand in the translation."""
WORD = re.compile(r"[^\W_]")
WIDE = re.compile(r"[\u3000-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uffef\U00020000-\U0003ffff]")


class Code(NamedTuple):
    """Markup at a place of a text (characters before it), and whether it opens something, closes it, or neither."""

    place: int
    markup: str
    kind: Literal["open", "close", "alone"] = "alone"


class Marked(NamedTuple):
    """A text without its markup, and the markup."""

    text: str
    codes: tuple[Code, ...] = ()


def from_xml(fragment: str, code: Set[str]) -> Marked:
    """What stands in an element: elements named in `code` are markup with all that is in them, of others only the tags.

    Raises:
        ValueError: an entity that is declared nowhere.
    """
    text: list[str] = []
    codes: list[Code] = []
    length = place = 0
    inside: list[str] = []  # open elements from the outermost with code on
    begun = 0

    def add(piece: str) -> None:
        nonlocal length
        if not inside:
            text.append(piece)
            length += len(piece)

    for token in XML_TOKEN.finditer(fragment):
        add(from_references(fragment[place : token.start()]))
        place = token.end()
        name = token["name"]
        if name is None:  # comment, instruction, or text that needs no references
            add((token["cdata"] or "").replace("\r\n", "\n"))
            continue
        if inside:
            if token["close"]:
                inside.pop()
                if not inside:
                    codes.append(Code(length, fragment[begun:place]))
            elif not token["empty"]:
                inside.append(name)
        elif name.rpartition(":")[2] in code and not token["close"] and not token["empty"]:
            inside.append(name)
            begun = token.start()
        else:
            kind: Literal["open", "close", "alone"] = (
                "alone" if token["empty"] else "close" if token["close"] else "open"
            )
            codes.append(Code(length, token[0], kind))
    add(from_references(fragment[place:]))
    return Marked("".join(text), tuple(codes))


def with_single_blanks(marked: Marked) -> Marked:
    """White space as it is shown: a line end, or several blanks, are one blank. The markup moves with the text.

    Blanks on the two sides of markup stay apart.
    """
    text, codes = marked
    marks = {code.place for code in codes}
    shown: list[str] = []
    length = 0
    places = []  # for each character of `text`, and its end, how long what is shown was before it
    for place, character in enumerate(text):
        places.append(length)
        if not character.isspace() or character in "\u00a0\u202f\u3000":
            shown.append(character)
            length += 1
        elif not shown or shown[-1] != " " or place in marks:
            shown.append(" ")
            length += 1
    places.append(length)
    return Marked("".join(shown), tuple(code._replace(place=places[code.place]) for code in codes))


def from_references(text: str) -> str:
    """Text as it is meant: `&lt;` is `<`.

    Raises:
        ValueError: a name that XML does not know.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return REFERENCE.sub(_meant, text) if "&" in text else text


def _meant(match: re.Match[str]) -> str:
    name = match[1]
    if name[0] == "#":
        return chr(int(name[2:], 16) if name[1] in "xX" else int(name[1:]))
    if name not in NAMED:
        raise ValueError(f"the entity &{name};, which is declared nowhere")
    return NAMED[name]


def to_xml(text: str) -> str:
    """Text as XML has it. What XML cannot have (most control characters) becomes U+FFFD."""
    text = NOT_XML.sub("\ufffd", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("\r", "&#13;")


def project(source: Marked, target: str, written: Callable[[str], str]) -> str:
    """`target` (put through `written`) with the markup of `source`: all of it, once, in its order.

    Markup before the first or after the last word stays there. In between, a pair around words that stand in the
    translation as they are (a name, a number) goes around them; other markup goes to the edge of a word, as far through
    the translation as it was through the source. That is a guess, so what is made this way is marked for review.
    """
    return "".join(_pieces(target, list(_places(source, target)), written))


def _pieces(target: str, placed: list[tuple[int, str]], written: Callable[[str], str]) -> Iterator[str]:
    done = 0
    for place, markup in placed:
        yield written(target[done:place])
        yield markup
        done = place
    yield written(target[done:])


def _places(source: Marked, target: str) -> Iterator[tuple[int, str]]:
    text, codes = source
    first, last = _edges(text)
    starts, ends = word_edges(target)
    wanted = dict(_around_same_words(source, target)) if len(codes) <= MOST_PAIRED else {}
    done = 0
    last_open = False
    for number, code in enumerate(codes):
        if code.place <= first:
            place = 0
        elif code.place >= last:
            place = len(target)
        elif number in wanted:
            place = wanted[number]
        else:
            edges = ends if code.kind == "close" else starts
            place = _nearest(edges, (code.place - first) / max(1, last - first) * len(target))
        if code.kind == "close" and place <= done and last_open:
            place = ends[min(bisect_right(ends, done), len(ends) - 1)]  # not around nothing
        done = max(done, place)
        last_open = code.kind == "open"
        markup = code.markup
        if code.kind == "alone" and text[max(0, code.place - 1) : code.place + 1] == "  ":
            # It stood between words as a word does.
            markup = markup if done == 0 or target[done - 1].isspace() else f" {markup}"
            markup = markup if target[done : done + 1].isspace() or done == len(target) else f"{markup} "
        yield done, markup


def _edges(text: str) -> tuple[int, int]:
    """Where the text begins and ends, white space apart."""
    return len(text) - len(text.lstrip()), len(text.rstrip())


def word_edges(text: str) -> tuple[list[int], list[int]]:
    """Where words may begin, and where they may end. A wide character (Chinese, Japanese) is a word."""
    starts, ends = [0], []
    for i in range(1, len(text)):
        before, here = text[i - 1], text[i]
        if before.isspace() and not here.isspace():
            starts.append(i)
        elif here.isspace() and not before.isspace():
            ends.append(i)
        elif WIDE.match(here) or WIDE.match(before):
            starts.append(i)
            ends.append(i)
    return starts, [*ends, len(text)]


def _nearest(edges: Sequence[int], place: float) -> int:
    right = bisect_left(edges, place)
    return min(edges[max(0, right - 1) : right + 1], key=lambda edge: abs(edge - place))


def _around_same_words(source: Marked, target: str) -> Iterator[tuple[int, int]]:
    """(number of a code, its place) for pairs around words that stand once in the translation as in the source."""
    opened: list[int] = []
    for number, code in enumerate(source.codes):
        if code.kind == "open":
            opened.append(number)
        elif code.kind == "close" and opened:
            start = opened.pop()
            words = source.text[source.codes[start].place : code.place].strip()
            if WORD.search(words) and target.count(words) == 1:
                yield start, target.index(words)
                yield number, target.index(words) + len(words)
