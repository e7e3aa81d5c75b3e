"""Which target pieces can a source have? A lexical shortlist: the output layer then has to look at a part of the
vocabulary only (Jean et al. 2015, https://arxiv.org/abs/1412.2007, section 3.3).

For every source piece, the target pieces that are likeliest beside it by IBM Model 1 (Brown et al. 1993), learned from
the training pairs; for every sentence those of its pieces, the frequent ones, and the bytes that spell everything else.
A sentence has its own list, whatever it is batched with. One with a piece that the pairs did not have gets no list: it is
searched in the whole vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import safetensors.numpy
from safetensors import SafetensorError

from pellucid.checkpoint import write_atomically
from pellucid.data.store import PairStore
from pellucid.errors import ModelFolderError

FILE = "shortlist.safetensors"
LIKELIEST = 100
FREQUENT = 300
ITERATIONS = 5
MOST_PAIRS = 100_000
"""That are learned from: some gigabytes are needed for more, and words that are rarer yet would hardly gain."""


@dataclass(frozen=True)
class Shortlist:
    """For source piece i, `tokens[offsets[i] : offsets[i + 1]]`; `always` belongs to every list."""

    offsets: np.ndarray
    tokens: np.ndarray
    always: np.ndarray

    def of(self, source: Sequence[int]) -> np.ndarray | None:
        """The target ids that a sentence of these pieces may have, sorted; None: all."""
        lists = [self.tokens[self.offsets[i] : self.offsets[i + 1]] for i in set(source)]
        if not all(map(len, lists)):
            return None
        return np.unique(np.concatenate([self.always, *lists]))

    def save(self, folder: Path) -> None:
        """Into a model folder."""
        arrays = {"offsets": self.offsets, "tokens": self.tokens, "always": self.always}
        write_atomically(folder / FILE, safetensors.numpy.save(arrays))

    @classmethod
    def load(cls, folder: Path, source_size: int, target_size: int) -> Shortlist:
        """The shortlist of a model folder.

        Raises:
            ModelFolderError: it has none, or a damaged one.
        """
        path = folder / FILE
        if not path.is_file():
            raise ModelFolderError(f"{folder}: has no shortlist", hint=f"pellucid shortlist {folder}")
        try:
            found = cls(**safetensors.numpy.load_file(path))
            whole = len(found.offsets) == source_size + 1 and found.offsets[-1] == len(found.tokens)
            if not whole or max(found.tokens.max(initial=0), found.always.max(initial=0)) >= target_size:
                raise ValueError("it belongs to another vocabulary")
        except (OSError, SafetensorError, TypeError, ValueError) as error:
            raise ModelFolderError(f"{path}: cannot be used: {error}", hint=f"pellucid shortlist {folder}") from error
        return found


def build_shortlist(
    store: PairStore, source_size: int, target_size: int, always: Sequence[int], same_ids: bool
) -> Shortlist:
    """Learn a shortlist from the pairs of `store`.

    Args:
        always: target ids that every list has (end mark, bytes), besides the `FREQUENT` most frequent ones.
        same_ids: both sides have one vocabulary, so a piece may be copied.
    """
    step = -(-len(store) // MOST_PAIRS)
    pairs = range(0, len(store), max(1, step))
    sources, targets = [store.source(i) for i in pairs], [store.target(i) for i in pairs]
    links, probability = model_1(sources, targets, target_size)
    of_source, of_target = links // target_size, links % target_size

    counts = np.bincount(np.concatenate(targets), minlength=target_size)
    frequent = np.argsort(-counts, kind="stable")[:FREQUENT]
    frequent = frequent[counts[frequent] > 0]

    # The likeliest of each source piece: by piece, then by falling probability; the rank inside the piece decides.
    order = np.lexsort((-probability, of_source))
    of_source, of_target = of_source[order], of_target[order]
    begins = np.searchsorted(of_source, np.arange(source_size))
    kept = np.arange(len(order)) - begins[of_source] < LIKELIEST
    of_source, of_target = of_source[kept], of_target[kept]
    if same_ids:
        seen = np.unique(of_source)
        of_source, of_target = np.concatenate([of_source, seen]), np.concatenate([of_target, seen])
        both = np.unique(of_source * target_size + of_target)
        of_source, of_target = both // target_size, both % target_size
    offsets = np.searchsorted(of_source, np.arange(source_size + 1)).astype(np.int64)
    everywhere = np.unique(np.concatenate([frequent, np.asarray(always, frequent.dtype)]))
    return Shortlist(offsets, of_target.astype(np.int32), everywhere.astype(np.int32))


def model_1(
    sources: Sequence[np.ndarray], targets: Sequence[np.ndarray], target_size: int
) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of pieces that stand in one sentence pair, as source x `target_size` + target, sorted; and t(target | source).

    Expectation maximization: each word of a target has one cause among its sources, in proportion to t.
    """
    cells, words = [], []  # one entry for every source and target position of a pair: which pieces, and whose cause
    word = 0
    for source, target in zip(sources, targets, strict=True):
        cells.append((source.astype(np.int64)[None, :] * target_size + target.astype(np.int64)[:, None]).ravel())
        words.append(np.repeat(np.arange(word, word + len(target)), len(source)))
        word += len(target)
    of_word = np.concatenate(words)
    links, of_link = np.unique(np.concatenate(cells), return_inverse=True)
    of_source = links // target_size
    probability = np.ones(len(links))
    for _ in range(ITERATIONS):
        share = probability[of_link]
        share /= np.bincount(of_word, share)[of_word]
        expected = np.bincount(of_link, share)
        probability = expected / np.bincount(of_source, expected)[of_source]
    return links, probability
