"""CTranslate2 (extra `ct2`) as what searches: the same weights, its own beam search, our scores.

Its search is not quite ours. It ends a sentence when as many hypotheses have ended as the beam is wide, and ranks by
log P / |Y|^alpha; of what it finds, the scores here are computed anew (equation (14) of Wu et al. 2016), and the best by
those comes first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from pellucid.config import SearchConfig
from pellucid.engines.search_engine import Request
from pellucid.errors import ConfigError
from pellucid.interop.ctranslate2 import load_ctranslate2
from pellucid.model.transformer import Transformer
from pellucid.search import Hypothesis, Vocabulary, length_penalty

MOST_ROWS = 32
"""Sentences that a thread searches together: with more, what a step works on does not fit into a core's cache."""


class CTranslate2Engine:
    """See :class:`~pellucid.engines.search_engine.Engine`.

    Args:
        together: all threads work on the same sentences, rather than each on a part of them. That is better for a large
            model and few sentences.

    Raises:
        ConfigError: ctranslate2 is not installed.
    """

    def __init__(self, name: str, model: Transformer, vocabulary: Vocabulary, together: bool = False) -> None:
        self.name = name
        self._eos, self._unknown = vocabulary.eos_id, vocabulary.unk_id
        compute_type = "int8_float32" if name.endswith("-int8") else "float32"
        self._translator = load_ctranslate2(
            model, vocabulary.start_id, vocabulary.forbidden, compute_type, torch.get_num_threads(), together
        )
        self._parts = 1 if together else torch.get_num_threads()
        self._longest_source, self._longest = len(model.src_positions.table), len(model.tgt_positions.table)

    def refuses(self, request: Request, number: int) -> str | None:
        """What of a sentence of `request` it cannot do; None: nothing."""
        config = request.config
        for what, wanted in (
            ("draw at random", config.sample),
            ("begin with a prefix", bool(request.prefixes[number])),
            ("say what it must", bool(request.phrases[number])),
            ("forbid an early end as we do", config.min_length),
            ("avoid repeated n-grams as we do", config.no_repeat_ngram),
            ("read a source as long as this", len(request.sources[number]) > self._longest_source),
        ):
            if wanted:
                return what
        return None

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """See :class:`~pellucid.engines.search_engine.Engine`. `token_log_probs` stay empty: it does not tell.

        Raises:
            ConfigError: something that CTranslate2 cannot do.
        """
        sources, config = request.sources, request.config
        for i in range(len(request)):
            if what := self.refuses(request, i):
                raise ConfigError(f"CTranslate2 cannot {what}", hint="--engine torch")
        # One more than the longest: the end mark.
        found: list[list[Hypothesis]] = []
        short: dict[int, list[int]] = {}  # by greatest length, sentences of which there is too little yet
        for i, hypotheses in enumerate(self._found(sources, max(request.max_lengths) + 1, config)):
            longest = request.max_lengths[i]
            whole = (h for h in hypotheses if h.finished and len(h.tokens) <= longest)
            found.append([h for h in whole if self._unknown not in h.tokens][: config.n_best])
            if len(found[i]) == config.n_best:
                continue
            if config.beam_size == 1 and self._unknown not in hypotheses[0].tokens:  # broken off, where it stood
                cut = Hypothesis(hypotheses[0].tokens[:longest], math.nan, math.nan, False, ())
                found[i] = self._scored(sources[i], [cut], config.length_penalty) if request.scores else [cut]
            else:  # others have the unknown in them, or are broken off
                short.setdefault(longest, []).append(i)
        for longest, numbers in short.items():
            again = self._found([sources[i] for i in numbers], longest, config, disable_unk=self._unknown is not None)
            for i, hypotheses in zip(numbers, again, strict=True):
                known = {h.tokens for h in found[i]}
                rest = [h for h in hypotheses if h.tokens not in known]
                found[i] += self._scored(sources[i], rest, config.length_penalty)[: config.n_best - len(known)]
        return found

    def _found(
        self, sources: Sequence[Sequence[int]], steps: int, config: SearchConfig, *, disable_unk: bool = False
    ) -> list[list[Hypothesis]]:
        """What its beam holds after so many steps at most, best first.

        `disable_unk` gives the share of the unknown to the other pieces, so what comes then must be scored again.
        """
        results = self._translator.translate_batch(
            [[str(i) for i in source] for source in sources],
            max_batch_size=min(MOST_ROWS, -(-len(sources) // self._parts)),
            beam_size=config.beam_size,
            num_hypotheses=config.beam_size,
            length_penalty=config.length_penalty,
            max_input_length=0,
            max_decoding_length=min(steps, self._longest),
            min_decoding_length=0,
            disable_unk=disable_unk,
            return_scores=True,
            return_end_token=True,
        )
        alpha = config.length_penalty
        return [
            sorted(
                (
                    self._hypothesis([int(piece) for piece in pieces], score * len(pieces) ** alpha, alpha)
                    for pieces, score in zip(result.hypotheses, result.scores, strict=True)
                ),
                key=_order,
                reverse=True,
            )
            for result in results
        ]

    def _scored(self, source: Sequence[int], hypotheses: Sequence[Hypothesis], alpha: float) -> list[Hypothesis]:
        """With the probabilities that the model gives them, best first."""
        if not hypotheses:
            return []
        results = self._translator.score_batch(
            [[str(i) for i in source]] * len(hypotheses), [[str(i) for i in h.tokens] for h in hypotheses]
        )
        scored = []
        for result, h in zip(results, hypotheses, strict=True):
            tokens = [*h.tokens, *([self._eos] if h.finished else [])]
            scored.append(self._hypothesis(tokens, math.fsum(result.log_probs[: len(tokens)]), alpha))
        return sorted(scored, key=_order, reverse=True)

    def _hypothesis(self, tokens: list[int], log_prob: float, alpha: float) -> Hypothesis:
        finished = tokens[-1:] == [self._eos]
        kept = tuple(tokens[:-1] if finished else tokens)
        return Hypothesis(kept, log_prob, log_prob / float(length_penalty(max(1, len(tokens)), alpha)), finished, ())


def _order(hypothesis: Hypothesis) -> tuple[bool, float]:
    return hypothesis.finished, hypothesis.score
