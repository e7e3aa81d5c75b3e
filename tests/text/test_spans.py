"""What is taken for a placeholder, and what is not."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.text.bare import take_out, words
from pellucid.text.spans import MOSES, find_spans, occurrences, pair_tags


def texts(text: str) -> list[str]:
    return [span.text for span in find_spans(text)]


@pytest.mark.parametrize(
    "placeholder",
    ["%s", "%d", "%1$s", "%2$05d", "%.2f", "%-10s", "%lu", "%@", "%(name)s", "%(n)03d", "%%", "%1", "%{name}", "{name}", "{0}",
     "{0:.2f}", "${name}", "{}", "{{x}}", "{{ user.name }}", "{{{x}}}", "{% if x %}", "{user.name}", "[X12X]", "&nbsp;",
     "&#160;", "&#xA0;", '<x id="1"/>', "<b>", "</b>", "<br/>", "<a href='x>y' class=z>", "<!-- a note -->",
     "https://a.example/b?c=d&e=%20f#g", "http://x.example/z_(q)", "www.example.org", "ftp://x.example/y", "a.b+c@d-e.example",
     "{n, plural, one {# file} other {# files in {folder}}}", "{g, select, f {she} other {they}}", "{d, date, short}"],
)  # fmt: skip
@pytest.mark.parametrize("around", ["{}", "a {} b", "a {}, b", "({})", "好{}好", "a {}."])
def test_kinds(placeholder, around):
    found = texts(around.replace("{}", placeholder, 1))
    assert found in ([placeholder], [f"({placeholder})"])


@pytest.mark.parametrize(
    "text",
    ["100 % sure", "5%d", "50% done", "a < b and c > d", "{a sentence in braces}", "I <3 you", "AT&T", "a@b", "[1]", "[X]",
     "50%, or 60%.", "x{", "}", "{n, plural, one {# file}", "e.g. this"],
)  # fmt: skip
def test_what_is_none(text):
    assert texts(text) == []


def test_a_word_that_has_one_in_its_middle_is_kept_whole():
    assert texts("open file_%d.txt now") == ["file_%d.txt"]
    assert texts("AT&amp;T sells") == ["AT&amp;T"]
    assert texts("see x-{a}/b, y") == ["x-{a}/b"]
    assert texts("page{n} and %dpx") == ["{n}", "%d"]  # only at one side
    assert texts("我{n}你") == ["{n}"]  # no spaces there: no words either


def test_brackets_and_quotes_right_around_it_stay_with_it():
    assert texts('say "%s" to ({name})!') == ['"%s"', "({name})"]
    assert texts("« {x} »") == ["{x}"]


def test_an_address_ends_before_what_ends_the_sentence():
    assert texts("See https://a.example/b. Or (www.x.example), or http://x.example/去") == [
        "https://a.example/b", "(www.x.example)", "http://x.example/"]  # fmt: skip


def test_entities_that_a_model_knows_are_left_to_it():
    assert [s.text for s in find_spans("a &amp; b&nbsp;c", entities=lambda e: e not in MOSES)] == ["&nbsp;"]


def test_tags_are_paired_as_in_html():
    spans = find_spans("<p>a<br>b <b>c <i>d</i></b> </u></p>")
    assert [s.name for s in spans] == ["p", "br", "b", "i", "i", "b", "u", "p"]
    assert pair_tags(spans) == [7, None, 5, 4, 3, 2, None, 0]


@settings(max_examples=400, deadline=None)
@given(st.text(alphabet="ab %1$sd{}<>/=\"'&;x.@:[X]好,\n()", max_size=50))
def test_spans_are_in_order_and_the_text_comes_back(text):
    spans = find_spans(text)
    assert all(span.text == text[span.start : span.end] != "" for span in spans)
    assert all(a.end <= b.start for a, b in pairwise(spans))
    assert take_out(text, spans, pair_tags(spans)).restored() == text


def test_no_space_stands_twice_where_something_was_taken_out():
    def without(text: str) -> str:
        spans = find_spans(text)
        return take_out(text, spans, pair_tags(spans)).text

    assert without("You have %d mails") == "You have mails"
    assert without("%s, hello {name}.") == ", hello."
    assert without("a {x} {y}, b") == "a, b"
    assert without("a <b>c</b> d") == "a c d"
    assert without("你{n}好") == "你好"
    assert without("10&nbsp;km &nbsp; x") == "10 km x"


def test_longer_texts_are_counted_before_those_inside_them():
    assert occurrences({"{a}", "{{a}}"}, "{{a}} {a} {{a}}") == ({"{a}": 1, "{{a}}": 2}, "\0 \0 \0")


def test_words():
    text = "don't {x} 你好, a_b"
    assert [text[a:b] for a, b in words(text, ["{x}"])] == ["don't", "{x}", "你", "好", ",", "a", "_", "b"]


@pytest.mark.parametrize(
    "text",
    ["{a,plural" * 3000, "<a b=" * 6000, "%(" * 15000, "a" * 30000 + "@", "{{" * 15000, "<!--" * 7000, "&a" * 15000,
     "http://" + "(" * 30000, "<a" + " b" * 15000, "{n, plural, " + "{" * 10000, "'{" * 15000],
)  # fmt: skip
def test_odd_texts_take_no_time(text):
    started = time.process_time()
    find_spans(text)
    assert time.process_time() - started < 4
