"""Section 6.1, with no model in sight: searches over tables of probabilities, against brute force and by hand."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.search import (
    NEVER,
    Vocabulary,
    beam_search,
    fetched,
    greedy_search,
    length_penalty,
    log_probabilities,
    search,
    top_tokens,
)

EOS, A, B, PAD = range(4)
WORDS = Vocabulary(eos_id=EOS, start_id=PAD, forbidden=(PAD,))


class Table:
    """A stand-in for a model: the logits of the next token depend on sentence and history through `logits`."""

    def __init__(self, logits, sentences: int) -> None:
        self.logits = logits
        self.rows = [(b, ()) for b in range(sentences)]
        self.sources = list(range(sentences))
        self.calls: list[tuple[int, int]] = []
        """(rows, sentences) at each step."""

    def step(self, tokens: Tensor) -> Tensor:
        assert len(tokens) == len(self.rows)
        self.calls.append((len(self.rows), len(self.sources)))
        self.rows = [(b, (*history, int(t))) for (b, history), t in zip(self.rows, tokens, strict=True)]
        return torch.stack(
            [torch.as_tensor(self.logits(b, history[1:]), dtype=torch.float32) for b, history in self.rows]
        )

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        if sources is not None:
            self.sources = [self.sources[i] for i in sources.tolist()]
        self.rows = [self.rows[i] for i in rows.tolist()]
        assert len(self.rows) % max(1, len(self.sources)) == 0
        each = len(self.rows) // max(1, len(self.sources))
        assert [b for b, _ in self.rows] == [b for b in self.sources for _ in range(each)]


def by_history(table: dict[str, list[float]]):
    """Probabilities of </s>, A, B after a history such as "AB"; padding is given a large logit, which must not count."""

    def logits(_: int, history: tuple[int, ...]) -> list[float]:
        # Histories that the table leaves out are those of rows with no probability; what follows them is of no matter.
        p = table.get("".join("·AB·"[t] for t in history), [1.0, 0.0, 0.0])
        return [math.log(x) if x else NEVER for x in p] + [9.0]

    return logits


def random_logits(seed: int, vocab: int = 4, sharpness: float = 2.0):
    """A different distribution for every sentence and history."""

    def logits(sentence: int, history: tuple[int, ...]) -> Tensor:
        number = hash((seed, sentence, history)) & 0x7FFFFFFF
        return torch.randn(vocab, generator=torch.Generator().manual_seed(number)) * sharpness

    return logits


def brute_force(
    logits, sentence: int, longest: int, alpha: float, vocab: int = 4
) -> list[tuple[float, tuple[int, ...]]]:
    """Every finished sequence of at most `longest` tokens, best first."""
    words = [t for t in range(vocab) if t not in (EOS, vocab - 1)]
    found = []
    for n in range(longest + 1):
        for tokens in itertools.product(words, repeat=n):
            total = 0.0
            for i, token in enumerate((*tokens, EOS)):
                log_p = log_probabilities(torch.as_tensor(logits(sentence, tokens[:i])), (vocab - 1,))
                total += float(log_p[token])
            found.append((total / float(length_penalty(n + 1, alpha)), tokens))
    return sorted(found, reverse=True)


def test_length_penalty_by_hand():
    """Wu et al. 2016, equation 14: ((5 + 7) / 6)^0.6 = 2^0.6."""
    assert length_penalty(7, 0.6) == pytest.approx(2**0.6)
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(100, 0.0) == 1.0


TREE = {  #  </s>   A     B
    "": [0.00, 0.60, 0.40],
    "A": [0.35, 0.33, 0.32],
    "B": [0.90, 0.05, 0.05],
    "AA": [1.0, 0, 0], "AB": [1.0, 0, 0], "BA": [1.0, 0, 0], "BB": [1.0, 0, 0],
}  # fmt: skip


def test_greedy_takes_the_likeliest_step_and_a_beam_of_two_finds_the_likelier_whole():
    """Greedy: A (0.6), then </s> (0.35): 0.21. Beam 2 keeps B (0.4), whose end (0.9) makes 0.36."""
    config = SearchConfig(beam_size=2, length_penalty=0.0, n_best=2)
    greedy = greedy_search(Table(by_history(TREE), 1), [4], WORDS, config)[0][0]
    assert (greedy.tokens, greedy.finished) == ((A,), True)
    assert math.exp(greedy.log_prob) == pytest.approx(0.21)
    best, second = beam_search(Table(by_history(TREE), 1), [4], WORDS, config)[0]
    assert best.tokens == (B,) and math.exp(best.log_prob) == pytest.approx(0.36)
    assert second.tokens == (A,) and math.exp(second.log_prob) == pytest.approx(0.21)
    assert [math.exp(p) for p in best.token_log_probs] == pytest.approx([0.4, 0.9])


def test_the_penalty_uses_each_hypothesis_own_length():
    """C68: p(A) = 0.30 ends at length 2; p(AA) = 0.28 at length 3. alpha 0 prefers the first, a large one the second."""
    table = {"": [0.0, 1.0, 0.0], "A": [0.30, 0.70, 0.0], "AA": [0.4, 0.6, 0.0], "AAA": [1.0, 0, 0]}
    found = {
        alpha: beam_search(Table(by_history(table), 1), [3], WORDS, SearchConfig(beam_size=3, length_penalty=alpha))[0][
            0
        ]
        for alpha in (0.0, 3.0)
    }
    assert found[0.0].tokens == (A, A, A)  # 0.42
    assert found[3.0].tokens == (A, A, A)
    shorter = {**table, "AAA": [0.1, 0.9, 0.0], "AAAA": [1.0, 0, 0]}
    config = SearchConfig(beam_size=3, length_penalty=0.0)
    assert beam_search(Table(by_history(shorter), 1), [3], WORDS, config)[0][0].tokens == (A,)
    config = SearchConfig(beam_size=3, length_penalty=2.0)
    assert beam_search(Table(by_history(shorter), 1), [3], WORDS, config)[0][0].tokens == (A, A)


def test_the_search_goes_on_while_an_open_hypothesis_can_still_win():
    """C67: the first that ends has 0.5; the one that goes on ends with 0.49 and, being longer, a better score."""
    table = {
        "": [0.5, 0.5, 0.0],
        "A": [0.0, 1.0, 0.0],
        "AA": [0.0, 1.0, 0.0],
        "AAA": [0.98, 0.02, 0.0],
        "AAAA": [1.0, 0, 0],
    }
    for n_best in (1, 2):
        config = SearchConfig(beam_size=2, length_penalty=0.6, n_best=n_best)
        assert beam_search(Table(by_history(table), 1), [4], WORDS, config)[0][0].tokens == (A, A, A)


def test_it_stops_as_soon_as_nothing_open_can_win():
    table = {"": [0.9, 0.1, 0.0]} | {"A" * n: [0.5, 0.5, 0.0] for n in range(1, 60)}
    state = Table(by_history(table), 1)
    found = beam_search(state, [50], WORDS, SearchConfig(beam_size=2, length_penalty=0.0))
    assert found[0][0].tokens == () and len(state.calls) == 1


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), alpha=st.sampled_from([0.0, 0.6, 1.0, 2.0]), n_best=st.integers(1, 6))
def test_a_beam_that_holds_everything_is_brute_force(seed, alpha, n_best):
    """n-best too: sorted, none lost, and the same first one whatever n is."""
    logits, longest = random_logits(seed), 4
    expected = brute_force(logits, 0, longest, alpha)[:n_best]
    config = SearchConfig(beam_size=200, length_penalty=alpha, n_best=n_best)
    found = beam_search(Table(logits, 1), [longest], WORDS, config)[0]
    assert [h.tokens for h in found] == [tokens for _, tokens in expected]
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], abs=1e-4)
    assert all(h.finished for h in found)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.integers(1, 5), sentences=st.integers(1, 6), data=st.data())
def test_company_and_order_change_nothing(seed, beam, sentences, data):
    """C66: the result of a sentence is the same alone and in any batch."""
    logits = random_logits(seed, vocab=7)
    longest = [data.draw(st.integers(0, 9)) for _ in range(sentences)]
    words = Vocabulary(EOS, 6, (6,))
    config = SearchConfig(beam_size=beam, n_best=beam)
    together = search(Table(logits, sentences), longest, words, config)
    order = data.draw(st.permutations(range(sentences)))
    shuffled = search(Table(lambda b, h: logits(order[b], h), sentences), [longest[b] for b in order], words, config)
    for place, b in enumerate(order):
        alone = search(Table(lambda _, h, b=b: logits(b, h), 1), [longest[b]], words, config)[0]
        for other in (together[b], shuffled[place]):
            assert [h.tokens for h in alone] == [h.tokens for h in other]
            assert [h.score for h in alone] == pytest.approx([h.score for h in other], abs=1e-4)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), longest=st.integers(0, 8), alpha=st.sampled_from([0.0, 0.6, 3.0]))
def test_a_beam_of_one_is_greedy(seed, longest, alpha):
    """C71. `search` takes the short way for a beam of one, so the two are called by name."""
    logits = random_logits(seed, vocab=6)
    words, config = Vocabulary(EOS, 5, (5,)), SearchConfig(beam_size=1, length_penalty=alpha)
    greedy = greedy_search(Table(logits, 2), [longest] * 2, words, config)
    assert beam_search(Table(logits, 2), [longest] * 2, words, config) == greedy
    assert search(Table(logits, 2), [longest] * 2, words, config) == greedy


def test_a_beam_of_one_does_not_look_further_than_greedy_does():
    """C71: </s> (0.5) ends it; B (0.45) would go on to a better score under a large penalty, but is not in a beam of one."""
    table = {"": [0.5, 0.05, 0.45], "B": [0.0, 0.0, 1.0], "BB": [0.0, 0.0, 1.0], "BBB": [1.0, 0.0, 0.0]}
    found = {
        beam: beam_search(Table(by_history(table), 1), [3], WORDS, SearchConfig(beam_size=beam, length_penalty=2.0))[0][
            0
        ]
        for beam in (1, 2)
    }
    assert found[1].tokens == () and found[2].tokens == (B, B, B)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10**6), beam=st.integers(2, 6))
def test_the_best_of_one_is_the_first_of_many(seed, beam):
    logits, words = random_logits(seed, vocab=8), Vocabulary(EOS, 7, (7,))
    one = beam_search(Table(logits, 1), [8], words, SearchConfig(beam_size=beam, n_best=1))[0]
    many = beam_search(Table(logits, 1), [8], words, SearchConfig(beam_size=beam, n_best=beam))[0]
    assert one[0] == many[0]
    assert many == sorted(many, key=lambda h: (h.finished, h.score), reverse=True)  # unfinished ones last
    assert len({h.tokens for h in many if h.finished}) == sum(h.finished for h in many)


def test_finished_sentences_leave_the_batch():
    """Sentence b ends after b + 1 tokens: the batch shrinks with every step, and no step is made for nobody."""

    def logits(b: int, history: tuple[int, ...]) -> list[float]:
        return [50.0, 0.0, 0.0, 0.0] if len(history) == b else [NEVER, 30.0, 0.0, 0.0]

    for beam, each in ((1, 1), (2, 2)):
        state = Table(logits, 3)
        search(state, [9] * 3, WORDS, SearchConfig(beam_size=beam, length_penalty=0.0))
        assert [sentences for _, sentences in state.calls] == [3, 2, 1]
        assert [rows for rows, _ in state.calls] == [3, 2 * each, each]


def test_padding_and_start_are_never_said_whatever_their_logits():
    """C74."""

    def logits(b: int, history: tuple[int, ...]) -> list[float]:
        return [0.0 if len(history) > 2 else NEVER, 1.0, 0.5, 1000.0]

    for config in (SearchConfig(beam_size=1), SearchConfig(beam_size=3, n_best=3), SearchConfig(sample=True, n_best=4)):
        for hypotheses in search(Table(logits, 2), [5, 5], WORDS, config):
            assert all(PAD not in h.tokens for h in hypotheses)
            assert all(math.isfinite(h.log_prob) for h in hypotheses)


def test_unknown_is_never_said_but_keeps_its_probability():
    words = Vocabulary(EOS, PAD, (PAD,), unk_id=A)
    found = greedy_search(
        Table(lambda b, h: [0.0, 5.0, 1.0, 0.0] if not h else [9.0, 0, 0, 0], 1), [3], words, SearchConfig()
    )
    hypothesis = found[0][0]
    assert hypothesis.tokens == (B,)
    expected = torch.tensor([0.0, 5.0, 1.0]).log_softmax(-1)[2].item()
    assert hypothesis.token_log_probs[0] == pytest.approx(expected)


@pytest.mark.parametrize("beam", [1, 3])
def test_least_and_greatest_length(beam):
    logits = by_history({"A" * n: [0.8, 0.2, 0.0] for n in range(9)})
    config = SearchConfig(beam_size=beam, min_length=3)
    found = search(Table(logits, 1), [5], WORDS, config)[0][0]
    assert found.tokens == (A, A, A) and found.finished
    endless = by_history({"A" * n: [0.0, 1.0, 0.0] for n in range(9)})
    found = search(Table(endless, 2), [0, 4], WORDS, SearchConfig(beam_size=beam))
    assert [h[0].tokens for h in found] == [(), (A,) * 4]
    assert not found[1][0].finished and found[1][0].log_prob == pytest.approx(0.0)


@pytest.mark.parametrize("beam", [1, 4])
def test_a_prefix_is_said_whatever_its_probability_and_counts(beam):
    logits = random_logits(3)
    prefixes = [(), (B, B, A), (A,)]
    found = search(Table(logits, 3), [6] * 3, WORDS, SearchConfig(beam_size=beam), prefixes)
    for b, prefix in enumerate(prefixes):
        hypothesis = found[b][0]
        assert hypothesis.tokens[: len(prefix)] == prefix
        total = 0.0
        for i, token in enumerate([*hypothesis.tokens, *([EOS] if hypothesis.finished else [])]):
            total += float(log_probabilities(logits(b, hypothesis.tokens[:i]), (PAD,))[token])
        assert hypothesis.log_prob == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize("beam", [1, 4])
@pytest.mark.parametrize("ngram", [1, 2, 3])
def test_no_run_of_pieces_comes_twice(beam, ngram):
    """C105: a model that would say A A A ... for ever."""

    def logits(b: int, history: tuple[int, ...]) -> list[float]:
        return [-4.0, 3.0, 2.0, 1.0, 0.0, 0.0]

    words = Vocabulary(EOS, 5, (5,))
    tokens = search(Table(logits, 1), [12], words, SearchConfig(beam_size=beam, no_repeat_ngram=ngram))[0][0].tokens
    runs = [tokens[i : i + ngram] for i in range(len(tokens) - ngram + 1)]
    assert len(runs) == len(set(runs))
    assert len(tokens) >= 3


def test_sampling_draws_in_proportion_and_is_repeatable_in_any_batch():
    def logits(b: int, history: tuple[int, ...]) -> list[float]:
        return [math.log(0.1), math.log(0.6), math.log(0.3), 50.0] if not history else [9.0, 0.0, 0.0, 0.0]

    n = 2000
    config = SearchConfig(sample=True, seed=5)
    drawn = search(Table(logits, n), [3] * n, WORDS, config, seeds=range(n))
    firsts = [h[0].tokens[:1] for h in drawn]
    assert firsts.count((A,)) / n == pytest.approx(0.6, abs=0.04)
    assert firsts.count((B,)) / n == pytest.approx(0.3, abs=0.04)
    again = search(Table(logits, 3), [3] * 3, WORDS, config, seeds=[7, 0, 9])
    assert [h[0].tokens for h in again] == [drawn[i][0].tokens for i in (7, 0, 9)]
    other = search(Table(logits, n), [3] * n, WORDS, SearchConfig(sample=True, seed=6), seeds=range(n))
    assert [h[0].tokens for h in other] != [h[0].tokens for h in drawn]


def test_sampling_with_cuts():
    def logits(b: int, history: tuple[int, ...]) -> list[float]:
        return [math.log(0.15), math.log(0.5), math.log(0.35), NEVER] if not history else [9.0, 0.0, 0.0, 0.0]

    def firsts(**cuts: float) -> set[tuple[int, ...]]:
        found = search(Table(logits, 300), [3] * 300, WORDS, SearchConfig(sample=True, **cuts))
        return {h[0].tokens[:1] for h in found}

    assert firsts() == {(), (A,), (B,)}
    assert firsts(top_k=1) == {(A,)} == firsts(top_p=0.4) == firsts(temperature=0.01)
    assert firsts(top_k=2) == {(A,), (B,)} == firsts(top_p=0.6)


def test_log_probabilities_are_float32_even_of_half_precision_logits():
    found = log_probabilities(torch.tensor([[0.0, 1.0, 2.0]], dtype=torch.bfloat16), (2,))
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0, :2], torch.tensor([0.0, 1.0]).log_softmax(0))
    assert found[0, 2] == NEVER


@pytest.mark.parametrize("vocab", [5, 300, 1024, 1100, 5000])
@pytest.mark.parametrize("k", [1, 2, 8])
def test_top_tokens_are_the_highest_wherever_they_stand(vocab, k):
    """Against PyTorch's own, on rows whose best are spread, in one block, behind the last whole block, or forbidden."""
    torch.manual_seed(0)
    scores = torch.randn(6, vocab)
    scores[1, :k] += 10.0
    scores[2, -k:] += 10.0
    scores[3] = NEVER
    scores[3, vocab // 2] = -3.0
    scores[4] = torch.arange(vocab).float()
    values, places = top_tokens(scores, k)
    expected = scores.topk(min(k, vocab), -1)
    assert torch.equal(values, expected.values)
    assert torch.equal(scores.gather(1, places), values)
    assert all(len(set(row)) == len(row) for row in places.tolist())


class Far(Tensor):
    """On a GPU that is not there. It comes over by `cpu`, which is counted; whoever looks at it from afar would wait."""

    device = torch.device("cuda")
    transfers = 0

    def cpu(self) -> Tensor:
        Far.transfers += 1
        return self.as_subclass(Tensor)

    def _wait(self, *_: object) -> None:
        raise AssertionError("one more transfer")

    tolist = item = __bool__ = __int__ = __float__ = __getitem__ = _wait


def test_scores_and_tokens_come_from_a_gpu_in_one_piece():
    scores = torch.tensor([[-0.1, NEVER], [1e-42, -math.pi]])
    tokens = torch.tensor([[7], [2**31 - 1]])
    Far.transfers = 0
    found = fetched(scores.as_subclass(Far), tokens.as_subclass(Far))
    assert Far.transfers == 1
    assert [type(x) for x in found] == [Tensor, Tensor]
    assert torch.equal(found[0], scores) and torch.equal(found[1], tokens)
    assert found[1].dtype == torch.long
    assert fetched(scores, tokens) == (scores, tokens)  # on a CPU they are there


def test_no_translation_comes_twice_among_the_n_best():
    """At the longest length a hypothesis can end and stand open at once: A, A ended (0.6) and A that did not (0.4)."""
    table = {"": [0.0, 0.7, 0.3], "A": [0.6, 0.4, 0.0], "B": [0.2, 0.8, 0.0]}
    config = SearchConfig(beam_size=3, n_best=3, length_penalty=0.0)
    found = beam_search(Table(by_history(table), 1), [1], WORDS, config)[0]
    assert [(h.tokens, h.finished) for h in found] == [((A,), True), ((B,), False)]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), longest=st.integers(0, 6), beam=st.integers(2, 6))
def test_n_best_are_different_sequences(seed, longest, beam):
    words, config = Vocabulary(EOS, 5, (5,)), SearchConfig(beam_size=beam, n_best=beam)
    found = beam_search(Table(random_logits(seed, vocab=6), 1), [longest], words, config)[0]
    assert 1 <= len(found) == len({h.tokens for h in found})


@pytest.mark.parametrize("ban", ["unknown", "repeated"])
@pytest.mark.parametrize("beam", [2, 4])
def test_a_prefix_that_is_otherwise_forbidden_keeps_its_own_probability(ban, beam):
    """Its sums decide when the search may stop: with a stand-in for the probability it stopped at the first end."""
    table = {"": [0.0, 0.5, 0.5], "A": [0.0, 0.5, 0.5], "AA": [0.40, 0.0, 0.60], "AAB": [0.99, 0.0, 0.01]}
    words = Vocabulary(EOS, PAD, (PAD,), unk_id=A if ban == "unknown" else None)
    config = SearchConfig(beam_size=beam, length_penalty=0.6, no_repeat_ngram=int(ban == "repeated"))
    prefix = (A, A)
    found = beam_search(Table(by_history(table), 1), [4], words, config, [prefix])[0][0]
    assert found.tokens == (A, A, B)
    assert [math.exp(p) for p in found.token_log_probs] == pytest.approx([0.5, 0.5, 0.6, 0.99], rel=1e-5)
    assert found.log_prob == pytest.approx(math.log(0.5 * 0.5 * 0.6 * 0.99), abs=1e-5)


@pytest.mark.parametrize("config", [{"beam_size": 1}, {"beam_size": 3}, {"sample": True}])
def test_where_no_token_is_left_the_hypothesis_stays_unfinished(config):
    """Two words, neither twice, at least five: impossible. It must not end before its least length."""
    logits = by_history({"": [0.2, 0.5, 0.3], "A": [0.2, 0.5, 0.3], "B": [0.2, 0.5, 0.3]})
    for hypothesis in search(Table(logits, 1), [9], WORDS, SearchConfig(min_length=5, no_repeat_ngram=1, **config))[0]:
        assert sorted(hypothesis.tokens) == [A, B] and not hypothesis.finished
        assert len(hypothesis.token_log_probs) == 2


def test_top_k_of_equally_likely_tokens_is_still_k():
    logits = by_history({"": [1 / 3] * 3, **{h: [1.0, 0.0, 0.0] for h in "AB"}})
    config = SearchConfig(sample=True, top_k=1)
    assert len({h[0].tokens for h in search(Table(logits, 200), [2] * 200, WORDS, config)}) == 1


def test_any_seed_will_do():
    for seed in (-1, 0, 2**63, 10**30):
        search(Table(random_logits(1), 1), [3], WORDS, SearchConfig(sample=True, seed=seed))


def test_no_sentences_no_steps():
    assert search(Table(random_logits(1), 0), [], WORDS, SearchConfig()) == []


@pytest.mark.parametrize("least", [0, 3])
def test_without_scores_greedy_search_says_the_same(least):
    """The softmax does not change which token is the likeliest; padding's large logit must still not count."""
    words, config = Vocabulary(EOS, 5, (5,), unk_id=1), SearchConfig(beam_size=1, min_length=least, no_repeat_ngram=2)
    for seed in range(20):
        logits = random_logits(seed, vocab=6)
        prefixes = [(), (2, 3), ()]
        scored = search(Table(logits, 3), [5, 8, 2], words, config, prefixes)
        plain = search(Table(logits, 3), [5, 8, 2], words, config, prefixes, scores=False)
        assert [[(h.tokens, h.finished) for h in found] for found in plain] == [
            [(h.tokens, h.finished) for h in found] for found in scored
        ]
        assert all(math.isnan(h.score) for found in plain for h in found if h.tokens)
