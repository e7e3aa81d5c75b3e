"""Beam search for a translation that must say given phrases: lexically constrained search by dynamic beam allocation
(Post and Vilar 2018, https://arxiv.org/abs/1804.06609, section 3).

Whoever says a prescribed word is mostly less probable, for the moment, than whoever does not, and a beam of the most
probable would lose it. So the places of the beam are dealt out among banks: hypotheses that have said as many tokens of
their phrases compete with each other alone. Where a bank has too few for its places, the others have them.

    phrase "das Licht", a beam of 6        said    its places
    der Hund sieht | der Hund mag             0    2, the most probable
    der Hund sieht das | ein Hund das         1    2
    das Licht sieht | sieht das Licht         2    2; only here may the end mark come

Three sources of candidates: the likeliest tokens of every row; of every row the next token of each phrase that it has
still to say; and where a phrase has just ended, the likeliest tokens that leave it whole.

A phrase counts as often as it stands in the tokens, counted from the left without overlap, each time whole and not
followed by a token that would make another word of its last one. Where several phrases are asked for, each must stand as
often as all of them together have it: of `a b` and `a`, `a` must stand twice. `a b c` has both `a b` and `b c`.

A phrase may have to begin early enough. Without that, a search for the most probable sentence with a word that the model
would not have chosen often finds the sentence without it, and the word where it disturbs least, behind the full stop.

Dimensions as in `search.py`: R rows a sentence, N = B x R, W the beam, V vocabulary.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.search import (
    NEVER,
    Hypothesis,
    OpenHypothesis,
    SearchState,
    SentenceBeam,
    Vocabulary,
    allowed_only,
    log_probabilities,
    scored_hypothesis,
    top_tokens,
)


@dataclass(frozen=True)
class Phrase:
    """Tokens that a translation must say, one right after the other."""

    tokens: tuple[int, ...]
    """At least one."""
    not_before: frozenset[int] = frozenset()
    """If one of these follows, the last word of the phrase goes on and is another word: the phrase has not been said."""
    latest: int | None = None
    """Tokens before it, at most (before the first, if it must be said more than once); None: any number."""


class Place(NamedTuple):
    """How far a text has come with a phrase."""

    said: int = 0
    """Times that it was said, but for one that ends with the newest token: the next may undo that."""
    at: int = 0
    """Tokens of the phrase that the text ends with."""


class Matcher:
    """Counts a phrase in a text that comes token by token (Knuth, Morris and Pratt 1977)."""

    def __init__(self, phrase: Phrase) -> None:
        self.tokens, self.not_before, self._latest = phrase.tokens, phrase.not_before, phrase.latest
        # Of the first n tokens, how many of the last are the first ones again, n itself left out.
        self._shorter = [0, 0]
        for token in phrase.tokens[1:]:
            self._shorter.append(self._step(self._shorter[-1], token))

    def _step(self, at: int, token: int) -> int:
        while at and self.tokens[at] != token:
            at = self._shorter[at]
        return at + (self.tokens[at] == token)

    def after(self, place: Place, token: int) -> Place:
        said, at = place
        if at == len(self.tokens):
            said, at = (said, self._shorter[at]) if token in self.not_before else (said + 1, 0)
        return Place(said, self._step(at, token))

    def has_just_ended(self, place: Place) -> bool:
        return place.at == len(self.tokens)

    def times(self, place: Place) -> int:
        """How often the phrase has been said, if the text ends here."""
        return place.said + self.has_just_ended(place)

    def is_late(self, place: Place, length: int) -> bool:
        """Whether a text of so many tokens, in which it has not begun yet, cannot begin it early enough any more."""
        return self._latest is not None and not self.times(place) and length - place.at > self._latest


Progress = tuple[Place, ...]
"""A place for each phrase."""


class Wanted:
    """All that one translation must say."""

    def __init__(self, phrases: Iterable[Phrase]) -> None:
        asked = list(phrases)
        self._matchers = [Matcher(phrase) for phrase in dict.fromkeys(asked)]
        self._times = [sum(_count(matcher, phrase.tokens) for phrase in asked) for matcher in self._matchers]
        self.start: Progress = tuple(Place() for _ in self._matchers)
        self.all = sum(n * len(m.tokens) for m, n in zip(self._matchers, self._times, strict=True))
        """Tokens of all phrases."""

    def after(self, progress: Progress, token: int) -> Progress:
        return tuple(m.after(place, token) for m, place in zip(self._matchers, progress, strict=True))

    def met(self, progress: Progress) -> int:
        """How many tokens of the phrases have been said, those of a phrase that has begun among them: the bank."""
        found = 0
        for matcher, place, wanted in zip(self._matchers, progress, self._times, strict=True):
            times = matcher.times(place)
            begun = 0 if times >= wanted or matcher.has_just_ended(place) else place.at
            found += min(times, wanted) * len(matcher.tokens) + begun
        return found

    def following(self, progress: Progress) -> list[int]:
        """The next token of each phrase that has still to be said."""
        return [
            matcher.tokens[0 if matcher.has_just_ended(place) else place.at]
            for matcher, place, wanted in zip(self._matchers, progress, self._times, strict=True)
            if matcher.times(place) < wanted
        ]

    def is_late(self, progress: Progress, length: int) -> bool:
        """Whether a text of so many tokens has missed the place of a phrase."""
        return any(m.is_late(place, length) for m, place in zip(self._matchers, progress, strict=True))

    def harmful(self, progress: Progress) -> frozenset[int]:
        """The tokens that would undo a phrase which has just ended."""
        ended = (m.not_before for m, place in zip(self._matchers, progress, strict=True) if m.has_just_ended(place))
        return frozenset().union(*ended)


def _count(matcher: Matcher, tokens: Iterable[int]) -> int:
    place = Place()
    for token in tokens:
        place = matcher.after(place, token)
    return matcher.times(place)


class _Way(NamedTuple):
    """One way in which a hypothesis could go on."""

    total: float
    """The log-probability of all tokens."""
    place: int
    """Of the hypothesis in its beam."""
    gain: float
    token: int
    progress: Progress
    bank: int


def dealt(ways: Iterable[_Way], places: int) -> list[_Way]:
    """`ways`, the likeliest first, that get one of the `places`: a round each bank has one, the fullest bank first."""
    banks: dict[int, list[_Way]] = {}
    for way in ways:
        banks.setdefault(way.bank, []).append(way)
    rounds = itertools.zip_longest(*(banks[bank] for bank in sorted(banks, reverse=True)))
    return list(itertools.islice((way for ways in rounds for way in ways if way is not None), places))


@dataclass
class _Sentence(SentenceBeam):
    """One sentence under constrained search."""

    wanted: Wanted = field(default_factory=lambda: Wanted(()))
    progress: list[Progress] = field(default_factory=list)
    """Of each hypothesis of the beam."""
    prescribed: int = 0
    """Tokens of the prefix: what they say does not count."""

    def go_on(self, candidates: Sequence[dict[int, float]], eos_id: int, config: SearchConfig) -> list[_Way]:
        """As :meth:`SentenceBeam.extend`: what ends goes to `finished`; what goes on comes back, the likeliest first.

        Args:
            candidates: for each hypothesis of the beam, tokens and their log-probabilities.
        """
        wanted, ways = self.wanted, []
        counts = len(self.beam[0].tokens) >= self.prescribed
        for place, (parent, progress) in enumerate(zip(self.beam, self.progress, strict=True)):
            for token, gain in candidates[place].items():
                reached = wanted.after(progress, token) if counts and token != eos_id else progress
                if parent.log_prob + gain > NEVER and not wanted.is_late(reached, len(parent.tokens) + 1):
                    ways.append(_Way(parent.log_prob + gain, place, gain, token, reached, wanted.met(reached)))
        ways.sort(key=lambda way: -way.total)
        # As there: one of lower rank would not have been kept. Ranked in its bank, since what ends takes no place there.
        for way in [way for way in ways if way.bank == wanted.all][: config.beam_size]:
            if way.token == eos_id:
                parent = self.beam[way.place]
                gains = (*parent.gains, way.gain)
                self.finished.append(scored_hypothesis(parent.tokens, gains, True, config.length_penalty))
        self.finished.sort(key=lambda h: h.score, reverse=True)
        del self.finished[max(config.beam_size, config.n_best) :]
        going = dealt((way for way in ways if way.token != eos_id), config.beam_size)
        return sorted(going, key=lambda way: -way.total)

    def take(self, going: Sequence[_Way], rows: int) -> list[int]:
        """Make `going` the beam, with as many rows as the other sentences have; of each row, the old place."""
        filled = [*going, *[going[0]._replace(total=NEVER)] * (rows - len(going))]
        self.beam = [
            OpenHypothesis((*parent.tokens, way.token), (*parent.gains, way.gain), way.total)
            for way in filled
            for parent in [self.beam[way.place]]
        ]
        self.progress = [way.progress for way in filled]
        return [way.place for way in filled]


def constrained_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    phrases: Sequence[Sequence[Phrase]],
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """:func:`~pellucid.search.beam_search` for translations that say all their `phrases`; without any it is the same.

    A hypothesis that is finished says all of them. If there is none (the longest length came first, or the phrases cannot
    be said), the first one of the sentence is unfinished, and says what it says. What a prefix says does not count.

    Args:
        phrases: for each sentence; one that must come twice stands there twice.
    """
    prefixes = prefixes or [()] * len(max_lengths)
    live = []
    for b, (longest, own, prefix) in enumerate(zip(max_lengths, phrases, prefixes, strict=True)):
        wanted, nothing = Wanted(own), OpenHypothesis((), (), 0.0)
        live.append(_Sentence(b, longest, [nothing], [], None, wanted, [wanted.start], len(prefix)))
    done: dict[int, list[Hypothesis]] = {}
    newest = torch.full((len(live),), vocabulary.start_id, dtype=torch.long)
    numbers = _as_tensor()
    t = 0
    while live:
        log_p = log_probabilities(state.step(newest), vocabulary.forbidden)  # (N, V)
        histories = [h.tokens for s in live for h in s.beam]
        allowed = allowed_only(log_p, t, histories, [prefixes[s.number] for s in live], vocabulary, config)
        candidates = _candidates(allowed, live, vocabulary.eos_id, config.beam_size, numbers)

        stay: list[int] = []
        going: list[list[_Way]] = []
        firsts: list[int] = []  # the first row of each that stays
        first = 0
        for b, sentence in enumerate(live):
            end = first + len(sentence.beam)
            ways = sentence.go_on(candidates[first:end], vocabulary.eos_id, config)
            best_open = ways[0].total if ways else NEVER
            if t == sentence.max_length or sentence.is_decided(best_open, config):
                done[sentence.number] = sentence.result(config)
            else:
                stay.append(b)
                going.append(ways)
                firsts.append(first)
            first = end
        live, before = [live[b] for b in stay], len(live)
        if not live:
            break
        most = max(map(len, going))
        places = [
            start + place
            for sentence, ways, start in zip(live, going, firsts, strict=True)
            for place in sentence.take(ways, most)
        ]
        newest = torch.tensor([h.tokens[-1] for s in live for h in s.beam])
        rows, sources = torch.tensor(places, device=log_p.device), torch.tensor(stay, device=log_p.device)
        state.reorder(rows, sources if len(live) < before else None)
        t += 1
    return [done[b] for b in range(len(max_lengths))]


def _candidates(
    allowed: Tensor,
    live: Sequence[_Sentence],
    eos_id: int,
    width: int,
    numbers: Callable[[frozenset[int]], Tensor],
) -> list[dict[int, float]]:
    """For each row, tokens that could follow and their log-probabilities. `allowed` (N, V) is used up."""
    rows = [(sentence.wanted, progress) for sentence in live for progress in sentence.progress]
    unmet = [i for i, (wanted, progress) in enumerate(rows) if wanted.met(progress) < wanted.all]
    if unmet:
        allowed[unmet, eos_id] = NEVER
    k = min(2 * width, allowed.size(-1))
    best, ids = top_tokens(allowed, k)  # (N, 2 W)
    found = [dict(zip(*row, strict=True)) for row in zip(ids.tolist(), best.tolist(), strict=True)]
    following = [(i, token) for i in unmet for token in rows[i][0].following(rows[i][1])]
    if following:
        gains = allowed[[i for i, _ in following], [token for _, token in following]].tolist()
        for (i, token), gain in zip(following, gains, strict=True):
            found[i].setdefault(token, gain)
    ended = {i: harmful for i, (wanted, progress) in enumerate(rows) if (harmful := wanted.harmful(progress))}
    if ended:
        whole = allowed[list(ended)]  # a copy
        for row, harmful in zip(whole, ended.values(), strict=True):
            row[numbers(harmful)] = NEVER
        best, ids = top_tokens(whole, k)
        for i, gains, tokens in zip(ended, best.tolist(), ids.tolist(), strict=True):
            for token, gain in zip(tokens, gains, strict=True):
                found[i].setdefault(token, gain)
    return found


def _as_tensor() -> Callable[[frozenset[int]], Tensor]:
    """Sets of tokens as tensors, each made once."""
    made: dict[frozenset[int], Tensor] = {}

    def tensor(tokens: frozenset[int]) -> Tensor:
        if tokens not in made:
            made[tokens] = torch.tensor(sorted(tokens))
        return made[tokens]

    return tensor
