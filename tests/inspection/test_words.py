"""Pieces to words, and attention with them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pellucid.inspection.words import Side, Token, merge, readable, words_of


def pieces(*texts: str) -> list[Token]:
    """Tokens from what SentencePiece would write: <0xE4> is a byte, </s> and <s> are marks."""

    def kind(text: str) -> str:
        if text in ("</s>", "<s>"):
            return "control"
        return "unknown" if text == "<unk>" else "byte" if text.startswith("<0x") else "piece"

    return [Token(text, i, kind(text)) for i, text in enumerate(texts)]  # type: ignore[arg-type]


def words(*texts: str) -> list[str]:
    return Side.of(pieces(*texts)).word_texts


@pytest.mark.parametrize(
    "given, expected",
    [
        (["▁two", "▁do", "gs", ".", "</s>"], ["two", "dogs", ".", "</s>"]),
        (["▁don", "'", "t", "!"], ["don't", "!"]),
        (["▁", "M", "y", "▁friends", "▁", "c", "up"], ["My", "friends", "cup"]),
        (["▁well", "-", "known"], ["well", "-", "known"]),
        (["▁", "two", "▁", "▁", "dogs"], ["two", "␣", "dogs"]),
        (["▁3", ".", "5"], ["3", ".", "5"]),
        (["▁caf", "e", "\u0301"], ["cafe\u0301"]),
        (["▁我", "们", "今天", "去", "。", "</s>"], ["我", "们", "今天", "去", "。", "</s>"]),
        (["▁iPhone", "很", "好", "abc"], ["iPhone", "很", "好", "abc"]),
        (["▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>", "<0x41>", "▁a"], ["␣", "😀", "A", "a"]),
        (["<s>", "▁a", "<unk>", "b", "</s>"], ["<s>", "a", "<unk>", "b", "</s>"]),
        (["▁</", "script", ">"], ["</", "script", ">"]),
        ([], []),
    ],
)
def test_words_begin_where_a_reader_sees_them(given, expected, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert words(*given) == expected


def test_jieba_puts_chinese_characters_together_where_it_is_installed(monkeypatch):
    class FakeJieba:
        """Splits as told: what is tested is that pieces are never cut and that other text stays as it is."""

        @staticmethod
        def setLogLevel(level):
            pass

        @staticmethod
        def cut(text, HMM):
            assert text == "我们今天去"
            return iter(["我们", "今", "天去"])

    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    monkeypatch.setitem(__import__("sys").modules, "jieba", FakeJieba)
    # "今天" is one piece across two of its words: what jieba cuts inside a piece stays together.
    assert words("▁我", "们", "今天", "去", "。", "▁ok", "</s>") == ["我们", "今天去", "。", "ok", "</s>"]


def test_half_a_character_is_shown_as_bytes_and_not_as_a_question_mark():
    assert readable(pieces("<0xE4>", "<0xBD>")) == "0xE4 0xBD"


@given(
    st.lists(
        st.sampled_from(["▁a", "b", "▁", "中", "。", "<0xE4>", "<0xBD>", "</s>", "<unk>", "'", "ก", "า"]), max_size=12
    )
)
def test_words_cover_all_pieces_in_order(texts):
    ranges = words_of(pieces(*texts))
    assert [i for first, end in ranges for i in range(first, end)] == list(range(len(texts)))
    assert all(first < end for first, end in ranges)


def test_merging_sums_what_is_attended_to_and_averages_who_attends():
    weights = torch.tensor(
        [[0.5, 0.3, 0.2], [0.1, 0.1, 0.8]]
    )  # two pieces of one word look at a word of two and one of one
    assert torch.allclose(merge(weights, [(0, 2)], [(0, 2), (2, 3)]), torch.tensor([[0.5, 0.5]]))
    assert torch.allclose(merge(weights, [(0, 1), (1, 2)], [(0, 3)]), torch.ones(2, 1))


def test_merged_rows_still_sum_to_one_for_every_head():
    weights = torch.rand(6, 8, 7, 5).softmax(-1)
    merged = merge(weights, [(0, 3), (3, 4), (4, 7)], [(0, 2), (2, 5)])
    assert merged.shape == (6, 8, 3, 2)
    assert torch.allclose(merged.sum(-1), torch.ones(6, 8, 3))
