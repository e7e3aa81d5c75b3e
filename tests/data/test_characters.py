from __future__ import annotations

import unicodedata
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pellucid.data.characters import BIDI, CONTROL, INVISIBLE, WORD, Texts, _powers, mixed, tables


def hashes(*texts: str) -> list[int]:
    return Texts(list(texts)).normalised_hashes().tolist()


def words(*texts: str) -> list[list[int]]:
    array = Texts(list(texts))
    found = array.words().tolist()
    return [found[a:b] for a, b in pairwise(array.word_bounds.tolist())]


@pytest.mark.parametrize(
    "one, other",
    [
        ("Hello, world!", "hello world"),
        ("HELLO  WORLD", "(hello) - world…"),
        ("ＡＢＣ １２", "abc 12"),
        ("٣ apples", "3 apples"),
        ("ÄRGER", "ärger"),
        ("世界，你好。", "世界 你好"),
        ("  spaces\t", "spaces"),
    ],
)
def test_case_punctuation_space_and_width_do_not_count(one: str, other: str) -> None:
    assert hashes(one) == hashes(other)


@pytest.mark.parametrize(
    "one, other",
    [
        ("the cat", "thecat"),
        ("a b", "b a"),
        ("10110", "11010"),
        ("schon", "schön"),
        ("7 days", "8 days"),
        ("...", "!!!"),
        ("", "a"),
        ("我爱你", "你爱我"),
    ],
)
def test_what_makes_a_different_text(one: str, other: str) -> None:
    assert hashes(one) != hashes(other)


def plain_hash(text: str) -> int:
    """The same by a plain loop over words of Latin letters."""

    def mixed(number: int) -> int:
        number = (number + 1) * 0x9E3779B97F4A7C15 % 2**64
        number = (number ^ number >> 32) * 0x9E3779B97F4A7C15 % 2**64
        return number ^ number >> 29

    def in_order(values: list[int]) -> int:
        return mixed(sum(value * (mixed(place) | 1) for place, value in enumerate(values)) % 2**64)

    return in_order([in_order([mixed(ord(letter)) for letter in word]) for word in text.lower().split()])


@pytest.mark.parametrize("text", ["a", "the cat", "The cat sleeps on 12 mats", "x" * 100])
def test_hashes_are_of_the_text_alone(text: str) -> None:
    """The split depends on it: another hash would cut everybody's corpus in other sets."""
    assert hashes(text) == [plain_hash(text)]


# Not what Python's tables do not know: of those, code points among Chinese characters are taken for letters too.
@given(st.lists(st.text(st.characters(exclude_categories=("Cs", "Cn")), max_size=12), max_size=8))
@example(["0", "00ก"])
@settings(max_examples=150, deadline=None)
def test_a_text_is_alone_in_a_chunk_as_among_others(texts: list[str]) -> None:
    together, array = hashes(*texts), Texts(texts)
    assert together == [hashes(text)[0] for text in texts]
    assert words(*texts) == [words(text)[0] for text in texts]
    assert array.lengths.tolist() == [len(text) for text in texts]
    for i, text in enumerate(texts):
        categories = [unicodedata.category(c) for c in text]
        assert bool(array.has[i] & WORD) == any(c[0] in "LMN" for c in categories)
        expected = [
            sum(unicodedata.digit(c, -1) == d for c in text if unicodedata.category(c) == "Nd") for d in range(10)
        ]
        assert array.digits[i].tolist() == expected


@given(st.text(alphabet="ab .,?ÄäЖ漢", max_size=20))
@settings(deadline=None)
def test_words_are_those_of_a_plain_loop(text: str) -> None:
    expected = "".join(f" {c} " if c == "漢" else c if c.isalpha() else " " for c in text.lower()).split()
    found = words(text)[0]
    assert len(found) == len(expected)
    assert len(set(found)) == len(set(expected))


def test_scripts_without_spaces_have_words_of_three_letters() -> None:
    one, other = words("สวัสดีครับผม", "สวัสดีคะ")
    assert len(one) > 4
    assert set(one) & set(other)
    assert set(one) - set(other)


def test_the_main_script_is_that_of_most_letters() -> None:
    texts = ["hello", "привет", "世界", "iPhone 手机壳", "カタカナ", "안녕하세요", "123 !?", "", "שלום", "ｆｕｌｌ"]
    script, letters, of_all = Texts(texts).main_scripts
    names = [tables().script_names[number] for number in script]
    assert names == ["LATIN", "CYRILLIC", "HAN", "HAN", "KATAKANA", "HANGUL", "", "", "HEBREW", "LATIN"]
    assert letters[:4].tolist() == [5, 6, 6, 9]
    assert of_all[3] == 15


def test_letters_of_two_scripts_side_by_side() -> None:
    texts = ["pаypal", "paypal привет", "IT-отдел", "paypal", ""]  # the second letter of the first word is Cyrillic
    assert Texts(texts).mixes("LATIN", "CYRILLIC").tolist() == [True, False, False, False, False]


@pytest.mark.parametrize(
    "character, bit",
    [("\a", CONTROL), ("\x85", CONTROL), ("\ufffe", CONTROL), ("\xad", INVISIBLE), ("\u200b", INVISIBLE),
     ("\u2028", INVISIBLE), ("\ufeff", INVISIBLE), ("\u202e", BIDI), ("\u2067", BIDI)],
)  # fmt: skip
def test_characters_that_should_not_be_there(character: str, bit: int) -> None:
    assert Texts([f"a{character}b"]).has[0] & (CONTROL | INVISIBLE | BIDI) == bit


@pytest.mark.parametrize(
    "character", ["\t", "\n", "\u00a0", "\u200d", "\u200e", "\u3000", "é", "😀", "\u0301", "\ue000"]
)
def test_characters_that_may_be_there(character: str) -> None:
    assert not Texts([f"a{character}b"]).has[0] & (CONTROL | INVISIBLE | BIDI)


def test_no_texts() -> None:
    texts = Texts([])
    assert len(texts.normalised_hashes()) == len(texts.words()) == len(texts.has) == 0
    assert texts.digits.shape == (0, 10)
    assert texts.word_bounds.tolist() == [0]


def test_a_lone_surrogate_is_a_character_like_others() -> None:
    assert Texts(["a\ud800b"]).lengths.tolist() == [3]
    assert np.array_equal(Texts(["a\ud800b"]).normalised_hashes(), Texts(["A\ud800B"]).normalised_hashes())


@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 66, 5000])
def test_the_place_of_each_letter_counts_in_short_and_long_words(length: int) -> None:
    """Against the sum as it is defined, a letter after the other, in numbers without end."""
    word = "".join("abcdefg"[i * i % 7] for i in range(length))
    sums = [
        sum(int(tables().values[ord(c)]) * int(_powers()[i % 4096]) for i, c in enumerate(w))
        for w in (word, word[::-1])
    ]
    expected = mixed(np.array([total % 2**64 for total in sums], np.uint64))
    assert Texts([f"({word}) ", f"a {word[::-1]}"]).words()[[0, 2]].tolist() == expected.tolist()
