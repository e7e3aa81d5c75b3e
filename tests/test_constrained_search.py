"""Searches that must say given phrases: against brute force, and against beam search where there is nothing to say."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pellucid.config import SearchConfig
from pellucid.constrained_search import Phrase, constrained_search
from pellucid.search import Hypothesis, Vocabulary, beam_search
from test_search import EOS, PAD, WORDS, A, B, Table, brute_force, by_history, random_logits

SIGNS = "·AB"
"""Of the tokens, for regular expressions: the end mark has none."""


def phrase(text: str, not_before: str = "") -> Phrase:
    return Phrase(tuple(SIGNS.index(c) for c in text), frozenset(SIGNS.index(c) for c in not_before))


def says(tokens: Sequence[int], phrases: Sequence[Phrase]) -> bool:
    """Whether all `phrases` are in `tokens`, by regular expressions: these count from the left without overlap, too."""

    def count(what: Phrase, inside: Sequence[int]) -> int:
        text, wanted = ("".join(SIGNS[t] for t in part) for part in (inside, what.tokens))
        not_before = "".join(SIGNS[t] for t in what.not_before)
        return len(re.findall(wanted + (f"(?![{not_before}])" if not_before else ""), text))

    return all(count(one, tokens) >= sum(count(one, other.tokens) for other in phrases) for one in phrases)


def found_by(
    logits, longest: int, phrases: Sequence[Phrase], config: SearchConfig, words: Vocabulary = WORDS
) -> list[Hypothesis]:
    return constrained_search(Table(logits, 1), [longest], words, config, [phrases])[0]


WIDE = SearchConfig(beam_size=200, n_best=5)
PHRASES = [
    [phrase("AB")],
    [phrase("B"), phrase("B")],
    [phrase("AB"), phrase("BA")],
    [phrase("AB"), phrase("BB")],
    [phrase("AA")],
    [phrase("AA"), phrase("A")],
    [phrase("A"), phrase("AB")],
    [phrase("BAB"), phrase("AB")],
    [phrase("AAB")],
    [phrase("ABAA"), phrase("B")],
    [phrase("A", "B")],
    [phrase("A", "B"), phrase("AB")],
    [phrase("AA", "B"), phrase("B", "B")],
    [phrase("A", "A"), phrase("A", "A")],
]


@pytest.mark.parametrize("phrases", PHRASES, ids=str)
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_everything_is_brute_force(phrases, seed):
    """Overlapping phrases, one that begins another, one twice, one that a token undoes: of all that say them, the best."""
    logits, longest = random_logits(seed), 5
    every = brute_force(logits, 0, longest, 0.6)
    expected = [(score, tokens) for score, tokens in every if says(tokens, phrases)]
    assert 0 < len(expected) < len(every)
    found = found_by(logits, longest, phrases, WIDE)
    assert [h.tokens for h in found if h.finished] == [tokens for _, tokens in expected[:5]]
    assert [h.score for h in found if h.finished] == pytest.approx([score for score, _ in expected[:5]], abs=1e-4)


PHRASE = st.builds(phrase, st.text("AB", min_size=1, max_size=3), st.sampled_from(["", "A", "B"]))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.lists(PHRASE, max_size=3), st.sampled_from([0.0, 0.6, 2.0]))
def test_any_phrases_are_brute_force(seed, phrases, alpha):
    logits, longest = random_logits(seed), 5
    expected = [tokens for _, tokens in brute_force(logits, 0, longest, alpha) if says(tokens, phrases)]
    found = found_by(logits, longest, phrases, SearchConfig(beam_size=200, length_penalty=alpha))[0]
    assert (found.tokens, found.finished) == (expected[0], True) if expected else not found.finished


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.lists(PHRASE, max_size=3), st.integers(1, 8), st.integers(1, 12))
def test_what_is_finished_says_all(seed, phrases, beam, longest):
    """However narrow the beam is; and the log-probabilities are those of the tokens."""
    logits = random_logits(seed)
    for hypothesis in found_by(logits, longest, phrases, SearchConfig(beam_size=beam, n_best=beam)):
        assert says(hypothesis.tokens, phrases) or not hypothesis.finished
        assert len(hypothesis.tokens) <= longest
        assert hypothesis.log_prob == pytest.approx(math.fsum(hypothesis.token_log_probs))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 6), st.sampled_from([0.0, 0.6, 3.0]), st.data())
def test_with_nothing_to_say_it_is_beam_search_bit_for_bit(seed, beam, alpha, data):
    logits, words = random_logits(seed, vocab=9), Vocabulary(EOS, 8, (8,), unk_id=3)
    longest = data.draw(st.lists(st.integers(0, 8), min_size=1, max_size=4))
    prefixes = [data.draw(st.sampled_from([(), (4,), (5, 2)])) for _ in longest]
    config = SearchConfig(beam_size=beam, n_best=beam, length_penalty=alpha, min_length=1, no_repeat_ngram=2)
    ours, plain = Table(logits, len(longest)), Table(logits, len(longest))
    found = constrained_search(ours, longest, words, config, [()] * len(longest), prefixes)
    assert found == beam_search(plain, longest, words, config, prefixes)
    assert len(ours.calls) == len(plain.calls)


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 6), st.lists(st.lists(PHRASE, max_size=3), min_size=1, max_size=5), st.data()
)
def test_company_changes_nothing(seed, beam, phrases, data):
    """Of sentences with something to say and sentences without."""
    logits, config = random_logits(seed, vocab=6), SearchConfig(beam_size=beam, n_best=beam)
    words = Vocabulary(EOS, 5, (5,))
    longest = [data.draw(st.integers(0, 9)) for _ in phrases]
    together = constrained_search(Table(logits, len(phrases)), longest, words, config, phrases)
    for b, own in enumerate(phrases):
        alone = found_by(lambda _, history, b=b: logits(b, history), longest[b], own, config, words)
        assert [(h.tokens, h.finished) for h in alone] == [(h.tokens, h.finished) for h in together[b]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[b]], abs=1e-4)


TREE = {  # </s>   A     B
    "": [0.00, 0.95, 0.05],
    "A": [0.50, 0.49, 0.01],
    "B": [0.20, 0.40, 0.40],
    "AA": [0.90, 0.05, 0.05],
    "AB": [0.80, 0.10, 0.10],
    "BA": [0.90, 0.05, 0.05],
    "BB": [0.10, 0.45, 0.45],
}  # fmt: skip


def test_by_hand():
    """Plainly it says A (0.95 x 0.5). With B in it: B A (0.05 x 0.4 x 0.9), above B (0.01), A B (0.0076) and B B (0.002)."""
    config = SearchConfig(beam_size=4, length_penalty=0.0)
    plain = found_by(by_history(TREE), 2, [], config)[0]
    assert (plain.tokens, math.exp(plain.log_prob)) == ((A,), pytest.approx(0.475))
    with_b = found_by(by_history(TREE), 2, [phrase("B")], config)[0]
    assert (with_b.tokens, math.exp(with_b.log_prob)) == ((B, A), pytest.approx(0.018))
    # Beam search of the same width has no B in it, whatever comes of it.
    assert B not in beam_search(Table(by_history(TREE), 1), [2], WORDS, config)[0][0].tokens


def test_a_narrow_beam_finds_a_phrase_that_is_hardly_probable():
    """Each token has a probability of 0.001, and beam search would need a beam of hundreds."""
    words = Vocabulary(EOS, 5, (5,))
    logits = [math.log(p) for p in (0.3, 0.398, 0.3, 0.001, 0.001)] + [0.0]
    config = SearchConfig(beam_size=3)
    found = found_by(lambda *_: logits, 12, [Phrase((3, 4, 3))], config, words)[0]
    assert found.finished and (3, 4, 3) in zip(found.tokens, found.tokens[1:], found.tokens[2:], strict=False)
    plain = beam_search(Table(lambda *_: logits, 1), [12], words, SearchConfig(beam_size=3, n_best=3))[0]
    assert all({3, 4}.isdisjoint(h.tokens) for h in plain)


def test_a_word_that_wants_to_go_on_is_stopped():
    """After 3 only letters (4, 5) are likely, more than twice the beam of them; 1 is a word of its own."""
    letters = frozenset(range(4, 14))
    words = Vocabulary(EOS, 14, (14,))

    def logits(_: int, history: tuple[int, ...]) -> list[float]:
        return [5.0, 4.0, 0.0, 2.0] + [9.0 if history[-1:] == (3,) else 0.0] * 10 + [0.0]

    found = found_by(logits, 8, [Phrase((3,), letters)], SearchConfig(beam_size=2), words)[0]
    assert found.finished and 3 in found.tokens
    assert not letters & {b for a, b in zip(found.tokens, found.tokens[1:], strict=False) if a == 3}


@pytest.mark.parametrize("phrases", [[phrase("ABABAB")], [phrase("A"), phrase("B"), phrase("AA"), phrase("BB")]])
def test_what_does_not_fit_stays_unfinished(phrases):
    found = found_by(random_logits(1), 4, phrases, SearchConfig(beam_size=4, n_best=2))
    assert found and not any(h.finished for h in found)
    assert found_by(random_logits(1), 8, phrases, SearchConfig(beam_size=4))[0].finished


def test_what_may_not_be_said_is_not_said():
    """The unknown, padding, and what would repeat a pair: the sentence stays unfinished, and the one beside it does not care."""
    words = Vocabulary(EOS, PAD, (PAD,), unk_id=A)
    config = SearchConfig(beam_size=3, no_repeat_ngram=1)
    phrases = [[Phrase((A,))], [Phrase((PAD,))], [Phrase((B,)), Phrase((B,))], [Phrase((B,))]]
    found = constrained_search(Table(random_logits(2), 4), [6] * 4, words, config, phrases)
    assert [h[0].finished for h in found] == [False, False, False, True]
    assert all({A, PAD}.isdisjoint(h[0].tokens) for h in found)


def test_what_a_prefix_says_does_not_count():
    for seed in range(5):
        logits, prefix = random_logits(seed), (B, B)
        every = [tokens for _, tokens in brute_force(logits, 0, 6, 0.6) if tokens[:2] == prefix]
        expected = next(tokens for tokens in every if says(tokens[2:], [phrase("BB")]))
        found = constrained_search(Table(logits, 1), [6], WORDS, WIDE, [[phrase("BB")]], [prefix])[0][0]
        assert (found.tokens, found.finished) == (expected, True)


@pytest.mark.parametrize("latest", range(5))
@pytest.mark.parametrize("not_before", ["", "A"])
def test_a_phrase_that_must_begin_early_enough(latest, not_before):
    """Against brute force: a regular expression finds the first place where it stands."""
    wanted = Phrase((A, B), frozenset(SIGNS.index(c) for c in not_before), latest)
    said_in_time = re.compile(f"[AB]{{0,{latest}}}AB" + (f"(?![{not_before}])" if not_before else ""))
    for seed in range(5):
        logits = random_logits(seed)
        every = [tokens for _, tokens in brute_force(logits, 0, 5, 0.6)]
        expected = next((t for t in every if said_in_time.match("".join(SIGNS[i] for i in t))), None)
        found = found_by(logits, 5, [wanted], WIDE)[0]
        assert (found.tokens, found.finished) == (expected, True) if expected else not found.finished


def test_no_sentences_no_steps():
    assert constrained_search(Table(random_logits(1), 0), [], WORDS, SearchConfig(), []) == []
