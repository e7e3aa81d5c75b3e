"""Whatever the attention is: every placeholder once, tags balanced; and with the right attention, the right place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.text.bare import Bare, take_out, words
from pellucid.text.placement import Attention, Term, place
from pellucid.text.spans import find_spans, occurrences, pair_tags


def bare(text: str) -> Bare:
    spans = find_spans(text)
    return take_out(text, spans, pair_tags(spans))


def links(source: str, target: str, pairs: str) -> Attention:
    """Attention that is all on the source word of each target word: `0-0 2-1` (target-source)."""
    columns, rows = words(source), words(target)
    weights = np.full((len(rows), len(columns)), 0.01)
    for pair in pairs.split():
        t, s = map(int, pair.split("-"))
        weights[t, s] = 1
    return Attention(weights, columns, rows)


def placed(source: str, target: str, pairs: str) -> str:
    made = bare(source)
    return place(made, target, links(made.text, target, pairs))


@pytest.mark.parametrize(
    ("source", "target", "pairs", "expected"),
    [
        # In the middle: between the translations of both neighbours.
        ("You have %d new mails.", "Du hast neue Mails.", "0-0 1-1 2-2 3-3 4-4", "Du hast %d neue Mails."),
        # The verb goes to the end; what stood before "dog" stays before "Hund".
        ("I saw {x} dog.", "Ich habe den Hund gesehen.", "0-0 1-1 2-1 3-2 4-1 5-3", "Ich habe den {x} Hund gesehen."),
        # At the edges, with spaces as in the source.
        ("{a} {b} goes to {c}.", "geht nach.", "0-0 1-1 2-2", "{a} {b} geht nach {c}."),
        ("Open: %s", "Öffnen:", "0-0 1-1", "Öffnen: %s"),
        ("[X1X] one two[X2X]", "eins zwei", "0-0 1-1", "[X1X] eins zwei[X2X]"),
        # Around the words that belong inside, however they are ordered.
        ("the <b>red</b> dog", "le chien rouge", "0-0 1-2 2-1", "le chien <b>rouge</b>"),
        ("<b>the dog</b> runs", "il chien court", "0-0 1-1 2-2", "<b>il chien</b> court"),
        ("<i>a <b>red</b> dog</i>.", "rot ein hund.", "0-1 1-0 2-2 3-3", "<i><b>rot</b> ein hund</i>."),
        ("a <b>{x}</b> dog", "ein Hund", "0-0 1-1", "ein <b>{x}</b> Hund"),
        ("the dog<br> runs <img/>", "der Hund rennt", "0-0 1-1 2-2", "der Hund<br> rennt <img/>"),
        # Scripts without spaces, to and from.
        ("你好{n}先生", "Hello Sir", "0-0 1-2", "Hello {n} Sir"),
        ("Hi {n} sir", "您先生好", "0-0 1-1 2-1 3-0", "您 {n} 先生好"),
        ("我有{n}书", "我有书", "0-0 1-1 2-2", "我有{n}书"),
        # An entity that is a space takes the place of one.
        ("10&nbsp;km long", "10 km lang", "0-0 1-1 2-2", "10&nbsp;km lang"),
        # A full stop that looks at the last word is not in its tag.
        ("I like <b>dogs</b>", "Ich mag Hunde.", "0-0 1-1 2-2 3-2", "Ich mag <b>Hunde</b>."),
    ],
)
def test_places(source, target, pairs, expected):
    assert placed(source, target, pairs) == expected


def test_the_place_follows_the_attention():
    """The control: other links, another place."""
    assert placed("a {x} b", "A B", "0-0 1-1") == "A {x} B"
    assert placed("a {x} b", "B A", "0-1 1-0") == "{x} B A"
    assert placed("<b>a</b> b", "A B", "0-1 1-0") == "A <b>B</b>"


def test_a_term_takes_the_place_of_its_translation():
    source = Bare("a big dog runs", ())
    found = place(source, "ein grosser hund rennt", links(source.text, "ein grosser hund rennt", "0-0 1-1 2-2 3-3"),
                  terms=[Term(6, 9, "Dogge")])  # fmt: skip
    assert found == "ein grosser Dogge rennt"


def test_text_is_escaped_and_spans_are_not():
    made = bare("a <b>x</b>")
    found = place(made, "A & <x>", links(made.text, "A & <x>", "0-0 3-1"), escape=lambda t: t.replace("&", "&amp;"))
    assert found.startswith("A &amp; ") and found.count("<b>") == found.count("</b>") == 1


def test_tokens_are_made_into_words():
    """Two source tokens make one word: their sum; two target tokens make one: their mean."""
    attention = Attention(np.array([[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]), [(0, 2), (2, 4), (5, 6)], [(0, 1), (1, 3)])
    assert attention.of_words([(0, 4), (5, 6)], [(0, 3)]) == pytest.approx(np.array([[0.5, 0.5]]))


PARTS = st.sampled_from(
    ["one", "two", "x", ".", ",", "(", ")", "你好", " ", " ", " ", "{a}", "%d", "%1$s", "{{b}}", "<b>", "</b>", "<i>", "</i>",
     "<br>", "<x id='1'/>", "&nbsp;", "&lt;", " https://a.b/c ", "[X1X]", "\n", "{n, plural, one {#} other {#}}", "'", '"', "-"]
)  # fmt: skip
TARGET = st.lists(st.sampled_from(["eins", "zwei", "drei", ".", ",", " ", " ", "好", "(", ")"]), max_size=12)


@settings(max_examples=400, deadline=None)
@given(st.lists(PARTS, max_size=20), TARGET, st.integers(0, 2**31))
def test_everything_once_and_balanced_whatever_the_attention(parts, target_parts, seed):
    source, target = "".join(parts), "".join(target_parts)
    spans = find_spans(source)
    made = take_out(source, spans, pair_tags(spans))
    assert made.restored() == source
    columns, rows = words(made.text), words(target)
    weights = np.random.default_rng(seed).dirichlet(np.ones(max(1, len(columns))), len(rows))
    found = place(made, target, Attention(weights[:, : len(columns)], columns, rows))
    wanted = [span.text for span in spans]
    assert occurrences(set(wanted), found)[0] == {text: wanted.count(text) for text in wanted}
    partners = pair_tags(spans)
    if spans and all(p is not None for p, span in zip(partners, spans, strict=True) if span.name):
        again = find_spans(found)
        assert all(p is not None for p, span in zip(pair_tags(again), again, strict=True) if span.name)
    # The translation itself stays, letter by letter.
    rest = found
    for text in sorted(set(wanted), key=len, reverse=True):
        rest = rest.replace(text, "")
    assert rest.replace(" ", "") == target.replace(" ", "")
