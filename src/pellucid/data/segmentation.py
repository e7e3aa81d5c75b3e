"""Beyond the paper: a word cut into pieces in a way drawn at random.

BPE-dropout leaves out merges (Provilkov et al. 2020, https://arxiv.org/abs/1910.13267); with a unigram model a
segmentation is drawn from all that there are (Kudo 2018, https://arxiv.org/abs/1804.10959).

SentencePiece draws too, but its version 0.2.3 does so in another way in each process, whatever seed it is given; a
training that is resumed must see the same pieces as one that was never stopped. So the drawing is done here, with a seed
that counts: from ids to ids, so that the text cannot change.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from pellucid.data.tokenizer import SPACE, Tokenizer
from pellucid.errors import TokenizerError

Ids = tuple[int, ...]

CHARACTERS_KEPT = 300_000
"""So many characters of words have their lattices in memory, half a kilobyte each."""


def segmenter(tokenizer: Tokenizer, alpha: float, seed: int | Sequence[int]) -> Segmenter:
    """What cuts the words of `tokenizer` anew.

    Args:
        alpha: with bpe the probability that a merge is left out, below 1. A merge once left out of a word is not come
            back to, as in SentencePiece; the paper tries it again after each other merge, so that its 0.1 cuts about as
            much as 0.05 does here. With unigram a segmentation is drawn in proportion to its probability to the power
            of `alpha`, above 0.
        seed: non-negative; the same seed and the same rows, in order, give the same cuts.

    Raises:
        TokenizerError: char and word, which can cut a text in one way only.
    """
    kinds: dict[str, type[Segmenter]] = {"bpe": BPESegmenter, "unigram": UnigramSegmenter}
    if tokenizer.kind not in kinds:
        raise TokenizerError(
            f"a tokenizer of kind {tokenizer.kind!r} cuts a text in one way only", hint="bpe or unigram"
        )
    return kinds[tokenizer.kind](tokenizer, alpha, seed)


class Segmenter(ABC):
    """Draws; made by :func:`segmenter`."""

    def __init__(self, tokenizer: Tokenizer, alpha: float, seed: int | Sequence[int]) -> None:
        self._pieces = tokenizer.scored_pieces()
        """Id and score of each piece that stands for text."""
        self._texts = {i: text for text, (i, _) in self._pieces.items()}
        self._begins = {i for i, text in self._texts.items() if text.startswith(SPACE)}
        self._alpha = alpha
        self._random = np.random.default_rng(seed)

    def cut(self, ids: Sequence[int]) -> list[int]:
        """`ids` with each word cut in a way drawn anew. What is no text, a tag or the end mark, and what is spelt in
        bytes or unknown, stays where it is."""
        found: list[int] = []
        word: list[int] = []
        for i in ids:
            fixed = i not in self._texts
            if word and (fixed or i in self._begins):
                found += self._draw(tuple(word))
                word = []
            if fixed:
                found.append(i)
            else:
                word.append(i)
        if word:
            found += self._draw(tuple(word))
        return found

    @abstractmethod
    def _draw(self, word: Ids) -> Ids:
        """Pieces with the text of `word`, which are the pieces that it usually has."""


class BPESegmenter(Segmenter):
    """BPE whose merges are left out at random: algorithm 1 of Provilkov et al. (2020)."""

    def __init__(self, tokenizer: Tokenizer, alpha: float, seed: int | Sequence[int]) -> None:
        super().__init__(tokenizer, alpha, seed)
        self._left = 0
        """Merges before the next one that is left out. Drawn ahead, so that most words cost one subtraction."""
        self._next_gap()

    def _next_gap(self) -> None:
        self._left = int(self._random.geometric(self._alpha)) - 1

    def _draw(self, word: Ids) -> Ids:
        text = "".join(self._texts[i] for i in word)
        merges = len(text) - len(word)
        if merges <= self._left:  # none of them is left out: the usual pieces
            self._left -= merges
            return word
        if any(character not in self._pieces for character in text):
            return word  # another program's tokenizer: one character cannot stand alone
        parts = list(text)
        ranks = [self._rank(a + b) for a, b in pairwise(parts)]
        while ranks and (best := min(ranks)) < math.inf:
            k = ranks.index(best)  # the first of several
            if not self._left:
                self._next_gap()
                ranks[k] = math.inf
                continue
            self._left -= 1
            parts[k : k + 2] = [parts[k] + parts[k + 1]]
            del ranks[k]
            if k:
                ranks[k - 1] = self._rank(parts[k - 1] + parts[k])
            if k < len(ranks):
                ranks[k] = self._rank(parts[k] + parts[k + 1])
        return tuple(self._pieces[part][0] for part in parts)

    def _rank(self, text: str) -> float:
        """The place of a merge among all merges, the first learnt the lowest; infinite if there is none."""
        return -self._pieces[text][1] if text in self._pieces else math.inf


class UnigramSegmenter(Segmenter):
    """Forward filtering and backward sampling over the lattice of a word (Kudo 2018, section 3.2), which is kept, since
    words come again."""

    def __init__(self, tokenizer: Tokenizer, alpha: float, seed: int | Sequence[int]) -> None:
        super().__init__(tokenizer, alpha, seed)
        self._longest = max(map(len, self._pieces))
        self._lattices: dict[Ids, list[tuple[list[float], list[tuple[int, int]]]]] = {}
        """Of each word, for each place in it: the pieces that end there, as (where it begins, id), and the sum of the
        probabilities of these and all before them in the list."""
        self._kept = 0

    def _draw(self, word: Ids) -> Ids:
        lattice = self._lattices.get(word)
        if lattice is None:
            lattice = self._lattice("".join(self._texts[i] for i in word))
            self._kept += len(lattice)
            if self._kept > CHARACTERS_KEPT:
                self._lattices.clear()
                self._kept = len(lattice)
            self._lattices[word] = lattice
        end, found = len(lattice) - 1, []
        while end:
            sums, pieces = lattice[end]
            chosen = bisect(sums, self._random.random() * sums[-1]) if len(pieces) > 1 else 0
            end, piece = pieces[min(chosen, len(pieces) - 1)]
            found.append(piece)
        return tuple(reversed(found))

    def _lattice(self, text: str) -> list[tuple[list[float], list[tuple[int, int]]]]:
        forward = [0.0]  # the logarithm of the sum over all ways to each place
        lattice: list[tuple[list[float], list[tuple[int, int]]]] = [([], [])]
        for end in range(1, len(text) + 1):
            logs, pieces = [], []
            for begin in range(max(0, end - self._longest), end):
                if forward[begin] > -math.inf and text[begin:end] in self._pieces:
                    piece, score = self._pieces[text[begin:end]]
                    logs.append(forward[begin] + self._alpha * score)
                    pieces.append((begin, piece))
            most = max(logs, default=-math.inf)
            weights = [math.exp(log - most) for log in logs]
            forward.append(most + math.log(sum(weights)) if weights else -math.inf)
            lattice.append((np.cumsum(weights).tolist(), pieces))
        return lattice
