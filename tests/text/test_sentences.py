"""Sentences end where a reader would end them, and nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.text.sentences import TAG, join, split_lines, split_sentences


@pytest.mark.parametrize(
    ("language", "sentences"),
    [
        ("en", ["Is it?", "Yes!", "It is."]),
        ("en", ["Dr. Brown met Mrs. Green.", "They spoke e.g. of J. Smith."]),
        ("en", ["“Really?” he asked.", "It costs 3.50 at a.b.c now."]),
        ("en", ["He was 42.", "She was not."]),
        ("en", ["1. Open the door.", "2. Close it."]),
        ("en", ["Well... all right.", "He said “no.”", "Then he left (slowly).", "End"]),
        ("en", ["a man runs .", "a dog sleeps ."]),
        ("de", ["Am 3. Oktober kam er z.B. mit Hrn. Weiß.", "Und dann?", "Ja!"]),
        ("pt-BR", ["O Sr. Alves saiu.", "Voltou?"]),
        ("ar", ["هل هذا صحيح؟", "نعم."]),
        ("hi", ["यह घर है।", "वह पेड़ है।"]),
        ("th", ["บ้านนี้สวย ต้นไม้ก็สวย"]),
        (None, ["One.", "Two."]),
    ],
)
def test_sentences(language, sentences):
    found = split_sentences(" ".join(sentences), language)
    assert [sentence for sentence, _ in found] == sentences
    assert [space for _, space in found] == [" "] * (len(sentences) - 1) + [""]


def test_chinese_and_japanese_need_no_space():
    assert [s for s, _ in split_sentences("他来了。真的吗？！是！“好。”他说")] == [
        "他来了。",
        "真的吗？！",
        "是！",
        "“好。”",
        "他说",
    ]
    assert split_sentences("はい。 いいえ。") == [("はい。", " "), ("いいえ。", "")]


def test_the_language_counts():
    assert len(split_sentences("It was on the 3. May was late.", "en")) == 2
    assert len(split_sentences("It was on the 3. May was late.", "de")) == 1


def test_a_tag_behind_the_end_stays_with_the_sentence():
    assert [s for s, _ in split_sentences(f"One.{TAG * 4} Two.")] == [f"One.{TAG * 4}", "Two."]
    assert [s for s, _ in split_sentences(f"One. {TAG * 3}Two. {TAG}three.")] == ["One.", f"{TAG * 3}Two. {TAG}three."]


def test_lines():
    assert split_lines("a\r\nb\n\nc\u2028") == [("a", "\r\n"), ("b", "\n"), ("", "\n"), ("c", "\u2028"), ("", "")]
    assert split_lines("") == [("", "")]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="aB1 .!?。！\"')”\u2028\t\n" + TAG, max_size=40), st.sampled_from(["en", "de", None]))
def test_nothing_is_lost(text, language):
    assert "".join(line + end for line, end in split_lines(text)) == text
    for line, _ in split_lines(text):
        parts = split_sentences(line, language)
        assert "".join(sentence + space for sentence, space in parts) == line
        assert len(parts) == 1 or all(sentence for sentence, _ in parts)


@pytest.mark.parametrize(
    "parts, expected",
    [
        ([("你好。", "Hello.", ""), ("再见。", "Goodbye.", "")], "Hello. Goodbye."),
        ([("好吗？", "Well?", ""), ("“走吧！”", "“Let us go!”", ""), ("是", "Yes", "")], "Well? “Let us go!” Yes"),
        ([("你好。", "Hello.", " "), ("再见。", "Goodbye.", "\n")], "Hello. Goodbye.\n"),
        ([("你好。", "こんにちは。", ""), ("再见。", "さようなら。", "")], "こんにちは。さようなら。"),
        ([("Hello.", "你好。", " "), ("Goodbye.", "再见。", "")], "你好。 再见。"),
        ([("www.a", "www.", ""), ("b.org", "b.org", "")], "www.b.org"),
        ([], ""),
    ],
)
def test_sentences_come_together_as_their_language_has_it(parts, expected):
    assert join(parts) == expected
