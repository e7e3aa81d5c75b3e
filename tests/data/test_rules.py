"""Every rule that looks at a pair alone, by examples on either side of its line."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.data import rules
from pellucid.data.characters import Texts
from pellucid.data.rules import BIT, DROPPED, RULES, addresses, placeholders


def at_fault(test, source: str, target: str) -> bool:
    """The verdict on a pair, which must not depend on its neighbours in a chunk."""
    alone = test(Texts([source]), Texts([target])).tolist()
    among = test(Texts(["a", source, "é 5"]), Texts(["b", target, "%s 7"])).tolist()
    assert alone[0] == among[1]
    return bool(alone[0])


@pytest.mark.parametrize(
    "source, target, fault",
    [
        ("Wait 5 minutes.", "Warte 5 Minuten.", False),
        ("Wait 5 minutes.", "Warte 6 Minuten.", True),
        ("Wait five minutes.", "Warte 5 Minuten.", False),  # words
        ("It was in 1984.", "Das ist lange her.", True),  # a year is no word
        ("12 eggs", "zwölf Eier", False),
        ("120 eggs", "Eier", True),
        ("1,000.50", "1.000,50", False),
        ("12/31/1999", "31.12.1999", False),
        ("10,000 people", "10 тысяч человек", False),
        ("380,000 people", "38万人", False),
        ("٣٤٥ كتب", "345 books", False),
        ("page 21", "page 12", False),  # a known limit: digits are counted, not their order
        ("", "", False),
    ],
)
def test_numbers(source: str, target: str, fault: bool) -> None:
    assert at_fault(rules.has_other_numbers, source, target) is fault


@pytest.mark.parametrize(
    "source, target, fault",
    [
        ("Open %s", "%s öffnen", False),
        ("Open %s", "Öffnen", True),
        ("%1$s of %2$d", "%2$d von %1$s", False),
        ("Hello {name}", "Hallo {Name}", True),
        ("Hello {{ name }}", "Hallo {{name}}", False),
        ("${path} is full", "{path} ist voll", True),
        ("<b>bold</b>", "<b>fett</b>", False),
        ("<b>bold</b>", "<b>fett<b>", True),
        ('<a href="/en/">here</a>', '<a href="/de/">hier</a>', False),  # attributes may be translated
        ("100 %", "100 Prozent", False),
        ("50% discount", "50% Rabatt", False),
        ("5 < 6", "5 > 4", False),
        ("%(count)d files", "%(count)d Dateien", False),
        ("%(count)d files", "%(anzahl)d Dateien", True),
        ("[X1X] text", "Text [X1X]", False),
    ],
)
def test_placeholders(source: str, target: str, fault: bool) -> None:
    assert at_fault(rules.has_other_placeholders, source, target) is fault


def test_what_counts_as_a_placeholder() -> None:
    text = "%s %1$d %.2f %% %(a)s {0} {b} {{c}} ${d} <i> </i> <br/> [X12X] 5% d"
    assert placeholders(text) == sorted(
        ["%s", "%1$d", "%.2f", "%(a)s", "{0}", "{b}", "{{c}}", "${d}", "<i", "</i", "<br", "[X12X]"]
    )


@pytest.mark.parametrize(
    "source, target, fault",
    [
        ("See https://a.example/x.", "Siehe https://a.example/x", False),
        ("See https://a.example/x", "Siehe https://a.example/y", True),
        ("See www.a.example", "Siehe dort", True),
        ("Mail me@a.example", "me@a.example 에게", False),
        ("Mail me@a.example", "me@a.example에게", False),
        ("参见https://a.example/x。", "See https://a.example/x.", False),
        ("Note: this", "Achtung: das", False),
        ("@home", "zu Hause", False),
    ],
)
def test_addresses(source: str, target: str, fault: bool) -> None:
    assert at_fault(rules.has_other_addresses, source, target) is fault


def test_an_address_ends_before_the_marks_of_the_sentence() -> None:
    assert addresses("(https://a.example/b?c=1), me@b.example!") == ["https://a.example/b?c=1", "me@b.example"]


GOOD = [
    "Er sagte: „Spaß“ und ging…", "«Noël» à l’École", "ÅÄÖ – ÄRGER", "São Paulo, ÇÃO", "“Olé…” und «café…»", "© 2024 ½ ²",
    "Đường Â “tốt”", "Þórður Ægir", "naïve façade — ¿qué?", "我们", "Привет", "x² ± 3 µm", "Größe: 5 £",
]  # fmt: skip


@pytest.mark.parametrize("text", GOOD)
def test_good_text_is_not_garbled(text: str) -> None:
    assert not at_fault(rules.is_mojibake, "", text)


@pytest.mark.parametrize(
    "text", ["Spaß", "“Hello”", "École – été", "мир", "我们走吧", "こんにちは", "😀", "šest žab łódź ćma"]
)
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_the_same_text_garbled_is_found(text: str, encoding: str) -> None:
    assert not at_fault(rules.is_mojibake, "a", text)
    garbled = text.encode().decode(encoding, errors="replace")
    assert at_fault(rules.is_mojibake, "a", garbled)
    assert at_fault(rules.is_mojibake, garbled, "a")


def test_a_replacement_character_is_found() -> None:
    assert at_fault(rules.is_mojibake, "a", "caf\ufffd")


@pytest.mark.parametrize(
    "source, target, fault",
    [
        ("I like tea.", "I like tea.", True),
        ("I like tea.", "I like Tea.", False),
        ("Berlin", "Berlin", False),  # a name
        ("12:30 - 14:00", "12:30 - 14:00", False),
        ("我爱你", "我爱你", True),
    ],
)
def test_same_sides(source: str, target: str, fault: bool) -> None:
    assert at_fault(rules.has_same_sides, source, target) is fault


@pytest.mark.parametrize("test, character", [
    (rules.has_control, "\x07"), (rules.has_invisible, "\u200b"), (rules.has_bidi, "\u202e")])  # fmt: skip
def test_characters(test, character: str) -> None:
    assert at_fault(test, f"a{character}", "b")
    assert at_fault(test, "a", f"b{character}")
    assert not at_fault(test, "a", "b")


def test_empty() -> None:
    assert [at_fault(rules.is_empty, *pair) for pair in (("", "a"), ("a", ""), ("", ""), ("a", "b"))] == [True] * 3 + [
        False
    ]


def test_marks_agree_where_numbers_and_questions_do() -> None:
    source, target = Texts(["Is it 12?", "no mark", "It is 12.", ""]), Texts(["12是吗？", "none", "It is 13.", ""])
    assert (rules.marks(source) == rules.marks(target)).tolist() == [True, True, False, True]
    assert (rules.marks(source) > 0).tolist() == [True, False, True, False]


TESTS = [
    rules.is_empty, rules.has_same_sides, rules.has_control, rules.has_invisible, rules.has_bidi, rules.is_mojibake,
    rules.mixes_scripts, rules.has_other_numbers, rules.has_other_placeholders, rules.has_other_addresses,
]  # fmt: skip


@given(st.lists(st.tuples(st.text(max_size=30), st.text(max_size=30)), max_size=6))
@settings(max_examples=100, deadline=None)
def test_any_text_can_be_looked_at_and_neighbours_do_not_matter(pairs: list[tuple[str, str]]) -> None:
    source, target = Texts([s for s, _ in pairs]), Texts([t for _, t in pairs])
    for test in TESTS:
        alone = [test(Texts([s]), Texts([t])).tolist()[0] for s, t in pairs]
        assert np.asarray(test(source, target)).tolist() == alone


@given(st.text(max_size=40))
@settings(deadline=None)
def test_a_text_agrees_with_itself(text: str) -> None:
    for test in (rules.has_other_numbers, rules.has_other_placeholders, rules.has_other_addresses):
        assert not at_fault(test, text, text)


def test_each_rule_has_a_bit_of_its_own() -> None:
    assert len(set(BIT.values())) == len(RULES) <= 32
    assert set(DROPPED) <= set(RULES)
