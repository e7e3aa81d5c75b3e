"""What is a loop, and what is language."""

from __future__ import annotations

import pytest

from pellucid.text.loops import is_loop, repeats


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a b c d", 1),
        ("a b a b", 1),
        ("a b a b a b", 3),
        ("a a a a a", 1),
        ("a a a a a a", 6),
        ("x a b c a b c a b c y", 3),
    ],
)
def test_repeats(text, expected):
    assert repeats(text.split()) == expected


def test_a_loop_is_more_than_language_and_more_than_the_source():
    assert is_loop(["one", "two"], ["the", "the", "the", "the", "the", "the"])
    assert is_loop(["one", "two"], ("a man and " * 4).split())
    assert not is_loop(["one", "two"], ("a man and " * 3).split())
    assert not is_loop(["ha", "ha", "ha", "ha", "ha", "ha", "ha"], ["ha", "ha", "ha", "ha", "ha", "ha", "ha"])
    assert not is_loop([], [])
