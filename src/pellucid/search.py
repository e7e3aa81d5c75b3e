"""Section 6.1: looking for a translation. A search knows a step function and a state, and no model.

    score(Y | X) = log P(Y | X) / lp(Y),    lp(Y) = ((5 + |Y|) / 6)^alpha        (Wu et al. 2016, equation 14)

|Y| counts the end mark. Scores are log-probabilities in nats, at most 0; higher is better. The paper: beam 4,
alpha 0.6, at most 50 pieces more than the source.

Dimensions: B sentences still searched, R rows a sentence (1 at first, then W, the beam), N = B x R, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from pellucid.config import SearchConfig

NEVER = float("-inf")
BLOCK = 128
"""Tokens that :func:`top_tokens` looks at together."""
FEW_SCORES = 20_000
"""So few are searched in one go: each of the operations that blocks need costs some microseconds."""


class SearchState(Protocol):
    """What is searched: all that a model knows of the sources and of the hypotheses so far."""

    def step(self, tokens: Tensor) -> Tensor:
        """The newest token of each row (N,) -> logits (N, V) of the next, a new tensor: the search writes into it."""
        ...

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Each new row goes on from old row `rows[i]`; of the sentences, `sources` stay (None: all)."""
        ...


@dataclass(frozen=True)
class Vocabulary:
    """The ids that a search must know. `forbidden` (padding, start) have no probability at all."""

    eos_id: int
    start_id: int
    forbidden: tuple[int, ...] = ()
    unk_id: int | None = None
    """Never generated either, but it keeps its share of the probability, since a given text may contain it."""


@dataclass(frozen=True)
class Hypothesis:
    """One translation."""

    tokens: tuple[int, ...]
    """Without the end mark."""
    log_prob: float
    """Sum of the log-probabilities of all tokens, the end mark included if it is finished."""
    score: float
    """`log_prob` over the length penalty."""
    finished: bool
    """False: the longest allowed length came before the end mark."""
    token_log_probs: tuple[float, ...]
    """One a token, the end mark's last."""


@dataclass(frozen=True)
class Candidate:
    """One way in which beam search could have gone on, for whoever watches."""

    parent: int
    """The place in the beam of the hypothesis that it goes on from: among those kept of the step before, in their order."""
    token: int
    log_prob: float
    """Of this token."""
    total: float
    """Of all tokens so far."""
    state: Literal["kept", "finished", "pruned"]


Watch = Callable[[int, Sequence[Candidate]], None]
"""Told, step by step, the number of a sentence and all that could follow, the likeliest first."""


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp above; `length` counts the end mark."""
    return ((5 + length) / 6) ** alpha


def log_probabilities(logits: Tensor, forbidden: Sequence[int], normalize: bool = True) -> Tensor:
    """Log-softmax in float32 over what may be generated: (..., V). The scorer uses the same, so scores agree.

    `logits` are used up: what is forbidden is struck out in them, and without `normalize` that is all.
    """
    logits = logits.float()
    for token in forbidden:
        logits[..., token] = NEVER
    return logits.log_softmax(-1) if normalize else logits


def top_tokens(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The `k` highest scores of each row (N, V) and their places, best first: `scores.topk(k)`, some times faster on a CPU.

    The k best are in the k blocks of tokens whose own best are highest (or among those left over behind the blocks).
    Finding the best of a block is quick; PyTorch's search through a whole row is not.
    """
    blocks = scores.size(1) // BLOCK
    if scores.device.type != "cpu" or blocks <= 2 * k or scores.numel() <= FEW_SCORES:
        return scores.max(-1, keepdim=True) if k == 1 else scores.topk(min(k, scores.size(1)), -1)
    end = blocks * BLOCK
    whole = scores[:, :end].unflatten(1, (blocks, BLOCK))  # (N, blocks, BLOCK)
    best = whole.amax(-1).topk(k, -1).indices  # (N, k)
    inside = whole.gather(1, best[..., None].expand(-1, -1, BLOCK)).flatten(1)  # (N, k BLOCK)
    values, where = torch.cat([inside, scores[:, end:]], 1).topk(k, -1)
    places = best.gather(1, (where // BLOCK).clamp(max=k - 1)) * BLOCK + where % BLOCK
    return values, torch.where(where < k * BLOCK, places, where - k * BLOCK + end)


def fetched(scores: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Both on the CPU: scores (N, k) in float32, ids (N, l). In one piece, because for each the search waits for a GPU."""
    if scores.device.type == "cpu":
        return scores, tokens
    together = torch.cat([scores.view(torch.int32), tokens.int()], 1).cpu()  # the scores bit by bit
    return together[:, : scores.size(1)].view(torch.float32), together[:, scores.size(1) :].long()


def search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
    *,
    scores: bool = True,
) -> list[list[Hypothesis]]:
    """The `config.n_best` best (or drawn) hypotheses of each sentence, best first.

    Args:
        max_lengths: for each sentence, the most tokens before the end mark.
        prefixes: for each sentence, tokens that its translation must begin with; their probability counts.
        seeds: for each sentence, where its random numbers start (sampling only), so that what else is in the batch
            changes nothing.
        scores: False: nobody will look at log-probabilities and scores. Greedy search then leaves out the softmax,
            some per cent of its time, and they are NaN.
    """
    prefixes = prefixes or [()] * len(max_lengths)
    if not max_lengths:
        return []
    if config.sample:
        return sample_search(state, max_lengths, vocabulary, config, prefixes, seeds)
    if config.beam_size == 1:
        return greedy_search(state, max_lengths, vocabulary, config, prefixes, scores=scores)
    return beam_search(state, max_lengths, vocabulary, config, prefixes)


def greedy_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    *,
    scores: bool = True,
) -> list[list[Hypothesis]]:
    """The likeliest token at every step: a beam of one. `scores`: see :func:`search`."""
    prefixes = prefixes or [()] * len(max_lengths)

    def likeliest(log_p: Tensor, _: list[int]) -> Tensor:
        return top_tokens(log_p, 1)[1][:, 0]

    return _one_by_one(state, max_lengths, vocabulary, config, prefixes, 1, likeliest, normalize=scores)


def sample_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """`n_best` translations of each sentence, drawn token by token from softmax(logits / temperature).

    `top_k` keeps the likeliest k tokens, `top_p` the likeliest whose probabilities reach p. The log-probabilities
    reported are the model's own, before temperature and cuts. Best score first.
    """
    prefixes = prefixes or [()] * len(max_lengths)
    generators = [
        torch.Generator().manual_seed((config.seed * 1_000_003 + seed) % 2**63)
        for seed in seeds or range(len(max_lengths))
    ]

    def draw(log_p: Tensor, sentences: list[int]) -> Tensor:
        p = _cut(log_p / config.temperature, config.top_k, config.top_p).softmax(-1)  # (N, V)
        uniform = torch.cat([torch.rand(config.n_best, generator=generators[b]) for b in sentences]).to(p)  # (N)
        cumulated = p.cumsum(-1)
        # The first token at which the cumulated probability passes the uniform number; its own is never 0.
        return (cumulated <= (uniform * cumulated[:, -1])[:, None]).sum(-1).clamp(max=p.size(-1) - 1)

    return _one_by_one(state, max_lengths, vocabulary, config, prefixes, config.n_best, draw)


def _cut(log_p: Tensor, top_k: int, top_p: float) -> Tensor:
    if top_k:
        # By place and not by value: of equally likely tokens too, no more than k stay.
        kept = log_p.topk(min(top_k, log_p.size(-1)), -1).indices
        log_p = log_p.masked_fill(torch.ones_like(log_p, dtype=torch.bool).scatter(-1, kept, False), NEVER)
    if top_p < 1.0:
        ordered, order = log_p.sort(-1, descending=True)
        p = ordered.softmax(-1)
        outside = p.cumsum(-1) - p >= top_p  # the token that reaches top_p is still inside
        log_p = log_p.masked_fill(outside.gather(-1, order.argsort(-1)), NEVER)
    return log_p


def _one_by_one(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]],
    rows_each: int,
    choose: Callable[[Tensor, list[int]], Tensor],
    normalize: bool = True,
) -> list[list[Hypothesis]]:
    """Greedy and sampling: every row goes its own way, `choose` takes one token for each. Finished sentences leave.

    Without `normalize` it sees logits in the place of log-probabilities, which have the same order.
    """
    sentences = list(range(len(max_lengths)))
    tokens: list[list[list[int]]] = [[[] for _ in range(rows_each)] for _ in sentences]
    token_log_probs: list[list[list[float]]] = [[[] for _ in range(rows_each)] for _ in sentences]
    ended = [[False] * rows_each for _ in sentences]
    over = [[False] * rows_each for _ in sentences]  # ended, or with no token left that it may say
    newest = torch.full((len(sentences),), vocabulary.start_id, dtype=torch.long)
    t = 0
    while sentences:
        log_p = log_probabilities(state.step(newest), vocabulary.forbidden, normalize)  # (N, V)
        if t == 0 and rows_each > 1:
            everyone = torch.arange(len(sentences), device=log_p.device).repeat_interleave(rows_each)
            state.reorder(everyone)
            log_p = log_p[everyone]
        histories = [tokens[b][r] for b in sentences for r in range(rows_each)]
        allowed = allowed_only(log_p, t, histories, [prefixes[b] for b in sentences], vocabulary, config)
        chosen = choose(allowed, sentences)[:, None]  # (N, 1)
        reached, newest = fetched(torch.cat([log_p.gather(1, chosen), allowed.gather(1, chosen)], 1), chosen)
        gained = reached[:, 0].tolist() if normalize else [math.nan] * len(chosen)
        possible = (reached[:, 1] > NEVER).tolist()
        newest = newest[:, 0]
        said = newest.tolist()
        stay: list[int] = []
        for i, b in enumerate(sentences):
            for r in range(rows_each):
                token = said[i * rows_each + r]
                if over[b][r] or not possible[i * rows_each + r]:
                    over[b][r] = True
                    continue
                if token == vocabulary.eos_id:
                    ended[b][r] = over[b][r] = True
                elif len(tokens[b][r]) == max_lengths[b]:
                    continue  # no room: it stays without an end mark
                else:
                    tokens[b][r].append(token)
                token_log_probs[b][r].append(gained[i * rows_each + r])
            if t < max_lengths[b] and not all(over[b]):
                stay.append(i)
        if not stay:
            break
        if len(stay) < len(sentences):
            sentences = [sentences[i] for i in stay]
            rows = torch.tensor([i * rows_each + r for i in stay for r in range(rows_each)], dtype=torch.long)
            newest = newest[rows]
            state.reorder(rows.to(log_p.device), torch.tensor(stay, dtype=torch.long, device=log_p.device))
        t += 1
    found = []
    for b in range(len(max_lengths)):
        hypotheses = [
            scored_hypothesis(tokens[b][r], token_log_probs[b][r], ended[b][r], config.length_penalty)
            for r in range(rows_each)
        ]
        found.append(sorted(hypotheses, key=lambda h: (h.finished, h.score), reverse=True))
    return found


def scored_hypothesis(
    tokens: Sequence[int], token_log_probs: Sequence[float], finished: bool, alpha: float
) -> Hypothesis:
    log_prob = math.fsum(token_log_probs)
    score = log_prob / float(length_penalty(max(1, len(token_log_probs)), alpha))
    return Hypothesis(tuple(tokens), log_prob, score, finished, tuple(token_log_probs))


def allowed_only(
    log_p: Tensor,
    t: int,
    histories: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    config: SearchConfig,
) -> Tensor:
    """`log_p` (N, V) with -inf where a prefix, the least length or a repeated n-gram forbids a token.

    After the softmax, so that what is left keeps the probability that the model gave it. Without a prefix it is `log_p`
    itself that is changed: what is struck out is never chosen, so nobody asks for its probability.
    """
    forced = {i: prefix[t] for i, prefix in enumerate(prefixes) if t < len(prefix)}
    ngram = config.no_repeat_ngram
    allowed = log_p.clone() if forced else log_p
    if vocabulary.unk_id is not None:
        allowed[:, vocabulary.unk_id] = NEVER
    if t < config.min_length:
        allowed[:, vocabulary.eos_id] = NEVER
    if ngram and t >= ngram:
        for row, history in enumerate(histories):
            banned = _would_repeat(history, ngram)
            if banned:
                allowed[row, banned] = NEVER
    each = log_p.size(0) // len(prefixes)
    for sentence, token in forced.items():
        rows = slice(sentence * each, (sentence + 1) * each)
        allowed[rows] = NEVER
        # What is forced is never forbidden, and has its own probability: the sums of a beam and its bound depend on it.
        allowed[rows, token] = log_p[rows, token].nan_to_num(neginf=-1e4)
    return allowed


def _would_repeat(history: Sequence[int], ngram: int) -> list[int]:
    """The tokens that would complete an n-gram which `history` has already."""
    if len(history) < ngram:
        return []
    last = tuple(history[len(history) - ngram + 1 :])
    return [
        history[i + ngram - 1] for i in range(len(history) - ngram + 1) if tuple(history[i : i + ngram - 1]) == last
    ]


@dataclass(frozen=True)
class OpenHypothesis:
    """A hypothesis that has not ended."""

    tokens: tuple[int, ...]
    gains: tuple[float, ...]
    """The log-probability of each token."""
    log_prob: float
    """Of all of them; -inf: not possible, it only fills a row."""


@dataclass
class SentenceBeam:
    """One sentence under beam search."""

    number: int
    max_length: int
    beam: list[OpenHypothesis]
    """A row of the batch each, the likeliest first."""
    finished: list[Hypothesis]
    """What has ended, best first."""
    watch: Watch | None = None

    def extend(
        self, log_probs: Sequence[Sequence[float]], tokens: Sequence[Sequence[int]], eos_id: int, config: SearchConfig
    ) -> list[tuple[int, OpenHypothesis]]:
        """Each open hypothesis with its likeliest next tokens: what ends goes to `finished`, and the beam's new
        members come back, each with the place of its parent."""
        width = config.beam_size
        # 2 W candidates: each parent has one end mark, so that even if the best W all end, W go on.
        candidates = sorted(
            (
                (parent.log_prob + gain, place, gain, token)
                for place, parent in enumerate(self.beam)
                for gain, token in zip(log_probs[place], tokens[place], strict=True)
            ),
            key=lambda candidate: -candidate[0],
        )[: 2 * width]
        going: list[tuple[int, OpenHypothesis]] = []
        seen: list[Candidate] = []
        for rank, (total, place, gain, token) in enumerate(candidates):
            parent = self.beam[place]
            state: Literal["kept", "finished", "pruned"] = "pruned"
            if token != eos_id:
                if len(going) < width:
                    going.append((place, OpenHypothesis((*parent.tokens, token), (*parent.gains, gain), total)))
                    state = "kept"
            elif rank < width and total > NEVER:  # one of lower rank would not have been kept
                ended = scored_hypothesis(parent.tokens, (*parent.gains, gain), True, config.length_penalty)
                self.finished.append(ended)
                state = "finished"
            if self.watch is not None:
                seen.append(Candidate(place, token, gain, total, state))
        if self.watch is not None:
            self.watch(self.number, seen)
        self.finished.sort(key=lambda h: h.score, reverse=True)
        del self.finished[max(width, config.n_best) :]
        return going

    def is_decided(self, best_open: float, config: SearchConfig) -> bool:
        """Whether no open hypothesis can still reach the `n_best`-th finished one.

        `best_open` is the highest log-probability of an open one. It can only fall, and the penalty divides it by most
        at the greatest length: so this bound is the highest score that it could still have.
        """
        if best_open == NEVER or (config.beam_size == 1 and self.finished):
            return True  # a beam of one is full once its one hypothesis has ended: greedy search
        if len(self.finished) < config.n_best:
            return False
        bound = best_open / float(length_penalty(self.max_length + 1, config.length_penalty))
        return self.finished[config.n_best - 1].score >= bound

    def result(self, config: SearchConfig) -> list[Hypothesis]:
        """The best finished ones; places that are left go to open ones as they stand, marked unfinished.

        One that ended at this very step is among the finished and does not come twice, so there can be fewer.
        """
        best = self.finished[: config.n_best]
        if len(best) < config.n_best:
            ended = {h.tokens for h in self.finished}
            rest = [
                scored_hypothesis(h.tokens, h.gains, False, config.length_penalty)
                for h in self.beam
                if h.log_prob > NEVER and h.tokens not in ended
            ]
            best += sorted(rest, key=lambda h: h.score, reverse=True)[: config.n_best - len(best)]
        return best


def beam_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    watch: Watch | None = None,
) -> list[list[Hypothesis]]:
    """The `beam_size` most probable open hypotheses of each sentence go on at every step.

    A sentence is over only when no open hypothesis can still win (not when the first or the best ends), and then
    leaves the batch.
    """
    prefixes = prefixes or [()] * len(max_lengths)
    live = [SentenceBeam(b, longest, [OpenHypothesis((), (), 0.0)], [], watch) for b, longest in enumerate(max_lengths)]
    done: dict[int, list[Hypothesis]] = {}
    newest = torch.full((len(live),), vocabulary.start_id, dtype=torch.long)
    t = 0
    while live:
        log_p = log_probabilities(state.step(newest), vocabulary.forbidden)  # (N, V)
        histories = [h.tokens for s in live for h in s.beam]
        allowed = allowed_only(log_p, t, histories, [prefixes[s.number] for s in live], vocabulary, config)
        best, ids = fetched(*top_tokens(allowed, min(2 * config.beam_size, log_p.size(-1))))  # (N, 2 W)
        log_probs, tokens = best.tolist(), ids.tolist()

        # A sentence leaves when it has its longest length, or when nothing open can win any more.
        stay: list[int] = []
        rows: list[int] = []
        first = 0  # the first row of the sentence
        for b, sentence in enumerate(live):
            end = first + len(sentence.beam)
            going = sentence.extend(log_probs[first:end], tokens[first:end], vocabulary.eos_id, config)
            best_open = going[0][1].log_prob if going else NEVER
            if t == sentence.max_length or sentence.is_decided(best_open, config):
                done[sentence.number] = sentence.result(config)
            else:
                stay.append(b)
                rows += [first + place for place, _ in going]
                sentence.beam = [hypothesis for _, hypothesis in going]
            first = end
        live, before = [live[b] for b in stay], len(live)
        if not live:
            break
        newest = torch.tensor([h.tokens[-1] for s in live for h in s.beam])
        gone = len(live) < before
        state.reorder(
            torch.tensor(rows, device=log_p.device), torch.tensor(stay, device=log_p.device) if gone else None
        )
        t += 1
    return [done[b] for b in range(len(max_lengths))]
