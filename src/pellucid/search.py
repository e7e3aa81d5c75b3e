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
from typing import Protocol

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


def length_penalty(length: int | Tensor, alpha: float) -> float | Tensor:
    """lp above; `length` counts the end mark."""
    return ((5 + length) / 6) ** alpha


def log_probabilities(logits: Tensor, forbidden: Sequence[int]) -> Tensor:
    """Log-softmax in float32 over what may be generated: (..., V). The scorer uses the same, so scores agree.

    `logits` are used up: what is forbidden is struck out in them.
    """
    logits = logits.float()
    for token in forbidden:
        logits[..., token] = NEVER
    return logits.log_softmax(-1)


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


def search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
    seeds: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """The `config.n_best` best (or drawn) hypotheses of each sentence, best first.

    Args:
        max_lengths: for each sentence, the most tokens before the end mark.
        prefixes: for each sentence, tokens that its translation must begin with; their probability counts.
        seeds: for each sentence, where its random numbers start (sampling only), so that what else is in the batch
            changes nothing.
    """
    prefixes = prefixes or [()] * len(max_lengths)
    if not max_lengths:
        return []
    if config.sample:
        return sample_search(state, max_lengths, vocabulary, config, prefixes, seeds)
    if config.beam_size == 1:
        return greedy_search(state, max_lengths, vocabulary, config, prefixes)
    return beam_search(state, max_lengths, vocabulary, config, prefixes)


def greedy_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The likeliest token at every step: a beam of one."""
    prefixes = prefixes or [()] * len(max_lengths)
    return _one_by_one(
        state, max_lengths, vocabulary, config, prefixes, 1, lambda log_p, _: top_tokens(log_p, 1)[1][:, 0]
    )


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
) -> list[list[Hypothesis]]:
    """Greedy and sampling: every row goes its own way, `choose` takes one token for each. Finished sentences leave."""
    sentences = list(range(len(max_lengths)))
    tokens: list[list[list[int]]] = [[[] for _ in range(rows_each)] for _ in sentences]
    token_log_probs: list[list[list[float]]] = [[[] for _ in range(rows_each)] for _ in sentences]
    ended = [[False] * rows_each for _ in sentences]
    over = [[False] * rows_each for _ in sentences]  # ended, or with no token left that it may say
    newest = torch.full((len(sentences),), vocabulary.start_id, dtype=torch.long)
    t = 0
    while sentences:
        log_p = log_probabilities(state.step(newest), vocabulary.forbidden)  # (N, V)
        if t == 0 and rows_each > 1:
            everyone = torch.arange(len(sentences), device=log_p.device).repeat_interleave(rows_each)
            state.reorder(everyone)
            log_p = log_p[everyone]
        histories = [tokens[b][r] for b in sentences for r in range(rows_each)]
        allowed = _allowed(log_p, t, histories, [prefixes[b] for b in sentences], vocabulary, config)
        chosen = choose(allowed, sentences)  # (N)
        gained = log_p.gather(-1, chosen[:, None]).squeeze(-1).tolist()
        possible = (allowed.gather(-1, chosen[:, None]).squeeze(-1) > NEVER).tolist()
        newest = chosen.cpu()
        stay: list[int] = []
        for i, b in enumerate(sentences):
            for r in range(rows_each):
                token = int(newest[i * rows_each + r])
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
            _hypothesis(tokens[b][r], token_log_probs[b][r], ended[b][r], config.length_penalty)
            for r in range(rows_each)
        ]
        found.append(sorted(hypotheses, key=lambda h: (h.finished, h.score), reverse=True))
    return found


def _hypothesis(tokens: Sequence[int], token_log_probs: Sequence[float], finished: bool, alpha: float) -> Hypothesis:
    log_prob = math.fsum(token_log_probs)
    score = log_prob / float(length_penalty(max(1, len(token_log_probs)), alpha))
    return Hypothesis(tuple(tokens), log_prob, score, finished, tuple(token_log_probs))


def _allowed(
    log_p: Tensor,
    t: int,
    histories: Sequence[Sequence[int]],
    prefixes: Sequence[Sequence[int]],
    vocabulary: Vocabulary,
    config: SearchConfig,
) -> Tensor:
    """`log_p` (N, V) with -inf where a prefix, the least length or a repeated n-gram forbids a token.

    After the softmax, so that what is left keeps the probability that the model gave it. Usually nothing is forbidden
    but the unknown, and then it is `log_p` itself that is changed: an unknown that is not forced is never chosen.
    """
    forced = {i: prefix[t] for i, prefix in enumerate(prefixes) if t < len(prefix)}
    ngram = config.no_repeat_ngram
    allowed = log_p.clone() if forced or ngram or t < config.min_length else log_p
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


@dataclass
class _Sentence:
    """One sentence under beam search: its number, its longest length, and what has ended, best first."""

    number: int
    max_length: int
    finished: list[Hypothesis]

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

    def result(
        self, open_tokens: Tensor, open_gains: Tensor, open_log_probs: Tensor, config: SearchConfig
    ) -> list[Hypothesis]:
        """The best finished ones; places that are left go to open ones (R, t) as they stood, marked unfinished.

        One that ended at this very step is among the finished and does not come twice, so there can be fewer.
        """
        best = self.finished[: config.n_best]
        if len(best) < config.n_best:
            ended = {h.tokens for h in self.finished}
            rest = [
                _hypothesis(open_tokens[r].tolist(), open_gains[r].tolist(), False, config.length_penalty)
                for r in range(len(open_tokens))
                if open_log_probs[r] > NEVER and tuple(open_tokens[r].tolist()) not in ended
            ]
            best += sorted(rest, key=lambda h: h.score, reverse=True)[: config.n_best - len(best)]
        return best


def beam_search(
    state: SearchState,
    max_lengths: Sequence[int],
    vocabulary: Vocabulary,
    config: SearchConfig,
    prefixes: Sequence[Sequence[int]] | None = None,
) -> list[list[Hypothesis]]:
    """The `beam_size` most probable open hypotheses of each sentence go on at every step.

    A sentence is over only when no open hypothesis can still win (not when the first or the best ends), and then
    leaves the batch.
    """
    width = config.beam_size
    prefixes = prefixes or [()] * len(max_lengths)
    live = [_Sentence(b, longest, []) for b, longest in enumerate(max_lengths)]
    done: dict[int, list[Hypothesis]] = {}
    newest = torch.full((len(live),), vocabulary.start_id, dtype=torch.long)
    rows_each = 1
    log_probs: Tensor | None = None  # (B, R) of the open hypotheses
    tokens = torch.empty(len(live), 1, 0, dtype=torch.long)  # (B, R, t)
    gains = torch.empty(len(live), 1, 0)  # (B, R, t) the log-probability of each token
    t = 0
    while live:
        log_p = log_probabilities(state.step(newest), vocabulary.forbidden)  # (N, V)
        device, vocab = log_p.device, log_p.size(-1)
        histories = tokens.flatten(0, 1).tolist() if config.no_repeat_ngram else ()
        wanted = [prefixes[s.number] for s in live]
        allowed = _allowed(log_p, t, histories, wanted, vocabulary, config)
        if log_probs is None:
            log_probs = torch.zeros(len(live), 1, device=device)

        # 2 W candidates: each of the R rows has one end mark, so that even if the best W all end, W go on.
        of_each, ids = top_tokens(allowed, min(2 * width, vocab))  # (N, 2 W): no row can have more among the best
        totals = (log_probs[..., None] + of_each.view(len(live), rows_each, -1)).flatten(1)  # (B, R 2 W)
        count = min(2 * width, totals.size(1))
        best, where = totals.topk(count, -1)  # (B, 2 W), best first
        parents, ids = where // of_each.size(1), ids.view(len(live), -1).gather(1, where)  # (B, 2 W)
        ends = ids == vocabulary.eos_id

        # Those that end, if they are among the W best, are finished. (One that is not would not have been kept.)
        final: list[list[int]] = (ends & (best > NEVER))[:, :width].nonzero().tolist()
        if final:
            parents_cpu = parents.cpu()
            ending = log_p[:, vocabulary.eos_id].view(-1, rows_each).cpu()  # (B, R)
            for b, k in final:
                row = int(parents_cpu[b, k])
                each = [*gains[b, row].tolist(), float(ending[b, row])]
                hypothesis = _hypothesis(tokens[b, row].tolist(), each, True, config.length_penalty)
                live[b].finished.append(hypothesis)
            for b in {b for b, _ in final}:
                live[b].finished.sort(key=lambda h: h.score, reverse=True)
                del live[b].finished[max(width, config.n_best) :]

        # Of the others the W best go on.
        going, kept = best.masked_fill(ends, NEVER).topk(min(width, count), -1)  # (B, W)
        parents, ids = parents.gather(1, kept), ids.gather(1, kept)

        # A sentence leaves when it has its longest length, or when nothing open can win any more.
        tops = going[:, 0].tolist()
        stay = []
        for b, sentence in enumerate(live):
            if t == sentence.max_length or sentence.is_decided(tops[b], config):
                done[sentence.number] = sentence.result(tokens[b], gains[b], log_probs[b], config)
            else:
                stay.append(b)
        sources = torch.tensor(stay, dtype=torch.long)
        live = [live[b] for b in stay]
        if not live:
            break

        # The hypotheses that go on, each behind its parent.
        on_device = sources.to(device)
        parents, ids, going = parents[on_device], ids[on_device], going[on_device]
        gained = log_p.view(-1, rows_each, vocab)[on_device[:, None], parents, ids]  # (B, W)
        rows = (on_device[:, None] * rows_each + parents).flatten()  # (B W)
        behind = parents.cpu()[..., None].expand(-1, -1, t)
        tokens = torch.cat([tokens[sources].gather(1, behind), ids.cpu()[..., None]], -1)  # (B, W, t + 1)
        gains = torch.cat([gains[sources].gather(1, behind), gained.cpu()[..., None]], -1)
        log_probs, rows_each = going, going.size(1)
        state.reorder(rows, on_device if len(stay) < len(best) else None)
        newest = ids.flatten().cpu()
        t += 1
    return [done[b] for b in range(len(max_lengths))]
