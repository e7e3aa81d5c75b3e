from __future__ import annotations

import random

import numpy as np
import pytest

from pellucid.data.characters import Texts
from pellucid.data.near import ALIKE, MINIMA, NearDuplicates, alike, band_keys, signatures, sketches

WORDS = [f"word{number}" for number in range(2000)]


def found(texts: list[str], fewest_words: int = 5, chunk: int = 7) -> dict[int, int]:
    with NearDuplicates(fewest_words) as near:
        for begin in range(0, len(texts), chunk):
            some = Texts(texts[begin : begin + chunk])
            near.add(some.words(), some.word_bounds)
        later, earlier = near.find()
    assert later.tolist() == sorted(later.tolist())
    return dict(zip(later.tolist(), earlier.tolist(), strict=True))


def jaccard(one: str, other: str) -> float:
    a, b = set(one.split()), set(other.split())
    return len(a & b) / len(a | b)


def test_one_word_of_ten_is_near_and_another_sentence_is_not() -> None:
    first = "the old dog sleeps all day long in the warm sun"
    texts = [first, first.replace("warm", "hot"), "our new neighbours have planted two apple trees behind their house"]
    assert found(texts) == {1: 0}


def test_the_earliest_of_a_family_is_named() -> None:
    sentence = "a b c d e f g h i j k l"
    texts = [sentence, "m n o p q r s t u v", f"{sentence} x", f"{sentence} y", sentence]
    assert found(texts) == {2: 0, 3: 0, 4: 0}


def test_few_words_are_near_nothing() -> None:
    assert found(["good old days now", "good old days now"]) == {}
    assert found(["good old days right now", "good old days right now"]) == {1: 0}


@pytest.mark.parametrize("changed, least, most", [(1, 0.97, 1.0), (2, 0.6, 1.0), (4, 0.0, 0.1), (6, 0.0, 0.0)])
def test_how_many_are_found_falls_with_the_share_of_words(changed: int, least: float, most: float) -> None:
    """300 sentences of 12 words and their twins, of whose words some are changed."""
    draw = random.Random(1)
    texts = []
    for _ in range(300):
        words = draw.sample(WORDS, 12)
        texts.append(" ".join(words))
        texts.append(" ".join([*words[changed:], *draw.sample(["u", "v", "w", "x", "y", "z"], changed)]))
    share = len(found(texts, chunk=64)) / 300
    assert least <= share <= most


def test_equal_minima_estimate_the_share_of_common_words() -> None:
    """The theorem of MinHash, over 200 pairs: the estimate has no bias, and the spread of 48 coins."""
    draw = random.Random(2)
    errors = []
    for _ in range(200):
        words = draw.sample(WORDS, 30)
        cut = draw.randrange(5, 25)
        one, other = " ".join(words[:25]), " ".join(words[25 - cut : 25] + words[25:])
        signature = signatures(Texts([one, other]).words(), Texts([one, other]).word_bounds)
        errors.append(float((signature[0] == signature[1]).mean()) - jaccard(one, other))
    assert abs(np.mean(errors)) < 0.02
    assert np.std(errors) < 1 / np.sqrt(MINIMA)


def test_alike_on_both_sides_of_the_threshold() -> None:
    one = np.zeros((1, MINIMA), np.uint8)
    for equal, expected in ((int(np.ceil(ALIKE * MINIMA)), True), (int(np.ceil(ALIKE * MINIMA)) - 1, False)):
        other = one.copy()
        other[0, equal:] = 1
        assert alike(one, other).tolist() == [expected]


def test_a_band_key_is_of_all_its_minima() -> None:
    signature = np.arange(2 * MINIMA, dtype=np.uint32).reshape(2, MINIMA)
    signature[1] = signature[0]
    signature[1, 5] += 1  # in the second band
    equal = (band_keys(signature)[0] == band_keys(signature)[1]).tolist()
    assert equal == [True, False] + [True] * 10
    assert sketches(signature).dtype == np.uint8


def test_nothing_to_find() -> None:
    assert found([]) == {}
    assert found(["", "", "…"]) == {}
