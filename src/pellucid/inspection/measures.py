"""What a map of attention can be measured by: pure functions on arrays, one sentence at a time, no padding in it.

`weights` is (..., T, S): a row is a query, a column a key, a row sums to 1; what stands before (layers, heads) is
carried along. Measures of rows give (..., T) and NaN for a row that has no answer (the first word has none before it):
the mean over a corpus is over all rows that have one. Nothing is changed in place.

Where a head might look is a role: a bool array (T, S), True at the places it stands for. There are two shares of a role,
Clark's by weight and Voita's by the largest weight; chance for both is the share by weight of a head that looks at all
it may see evenly (:func:`even`).

Sources: Voita et al. 2019 (P19-1580), Clark et al. 2019 (1906.04341), Abnar & Zuidema 2020 (2005.00928), Kobayashi et
al. 2020 (2004.10102), Och & Ney 2003 (alignment error rate).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Links = frozenset[tuple[int, int]]
"""Words that belong together: (source word, target word), counted from 0."""

SMOOTHING = 1e-3
"""How much of an even distribution Clark et al. mix into rows before they compare them."""


def even(rows: int, columns: int, causal: bool = False) -> Array:
    """(rows, columns): every row spread evenly over what it may see; `causal`: row i sees columns 0 to i."""
    seen = np.ones((rows, columns))
    seen = np.tril(seen) if causal else seen
    return seen / seen.sum(-1, keepdims=True)


# --- how sharp --------------------------------------------------------------------------------------------------------


def confidence(weights: Array, real: Array) -> Array:
    """The largest weight of each row, (..., T), among the `real` columns (S,): Voita et al. leave out the end mark."""
    return np.where(real, weights, 0.0).max(-1)


def entropy(weights: Array) -> Array:
    """-sum_j A log A of each row, in nats: (..., T). 0: one column has it all; log n: n columns share it evenly."""
    return np.asarray(-_xlogx(weights).sum(-1))


# --- where to ---------------------------------------------------------------------------------------------------------


def at_offset(rows: int, columns: int, offset: int) -> Array:
    """The role of a positional head: row i looks at column i + offset. -1: the word before."""
    return np.eye(rows, columns, offset, dtype=bool)


def at_columns(rows: int, columns: Array) -> Array:
    """The role of a head that looks at `columns` (S,) from everywhere: end mark, punctuation."""
    return np.broadcast_to(np.asarray(columns, bool), (rows, len(columns)))


def rarest_column(ranks: Array, common: int = 500) -> Array:
    """(S,): True at the rarest word, for :func:`at_columns`. Voita et al. pass over sentences of common words only.

    Args:
        ranks: (S,) how rare each column is: 0 for the most frequent word of all; the marks of the model -1.
        common: a sentence that has only words of a lower rank has no rare word: False everywhere.
    """
    rarest = ranks.max(initial=-1)
    return np.asarray((ranks == rarest) & (rarest >= common))


def same_word(queries: Sequence[object], keys: Sequence[object]) -> Array:
    """The role of a head that looks at other places of the same word: (T, S). Place i itself does not count."""
    return np.array([[q == k and i != j for j, k in enumerate(keys)] for i, q in enumerate(queries)], bool)


def share_of_weight(weights: Array, role: Array) -> Array:
    """Clark's share: how much of each row is on the role's places, (..., T)."""
    return _answered((weights * role).sum(-1), role)


def share_of_maxima(weights: Array, role: Array) -> Array:
    """Voita's share: 1 where a row's largest weight is on a place of the role, else 0, (..., T)."""
    rows = np.arange(role.shape[0])
    return _answered(role[rows, weights.argmax(-1)].astype(float), role)


def _answered(values: Array, role: Array) -> Array:
    return np.where(role.any(-1), values, np.nan)


def coverage(weights: Array) -> Array:
    """sum_i A[i, j]: how much each column is looked at in all, (..., S). Far below 1: perhaps left untranslated."""
    return np.asarray(weights.sum(-2))


# --- through the layers -----------------------------------------------------------------------------------------------


def rollout(layers: Array) -> Array:
    """Attention of each layer to the input: A' = (A + I) / 2, R_1 = A'_1, R_l = A'_l R_(l-1) (Abnar & Zuidema 2020).

    The half that is the identity stands for the residual connection.

    Args:
        layers: (L, T, T), the mean over the heads of each layer's self-attention.

    Returns:
        (L, T, T): rows sum to 1.
    """
    mixed = _with_residual(layers)
    rolled = [mixed[0]]
    for layer in mixed[1:]:
        rolled.append(layer @ rolled[-1])
    return np.stack(rolled)


def decoder_rollout(decoder: Array, cross: Array, memory: Array) -> tuple[Array, Array]:
    """:func:`rollout` through a decoder, whose cross-attention brings the source in at every layer.

    With A' = (A + I) / 2 of the self-attention, C of the cross-attention and M of the whole encoder:

        to the target   U_l = A'_l U_(l-1) / 2,                  U_0 = I
        to the source   R_l = (A'_l R_(l-1) + C_l M) / 2,        R_0 = 0

    since the residual connection around the cross-attention is the other half there. Departure: Abnar & Zuidema treat
    one stack; this is the same rule applied to the second residual connection.

    Args:
        decoder, cross: (L, T, T) and (L, T, S), means over heads.
        memory: (S, S), the encoder's last rollout (or the identity: as far as the encoder's output).

    Returns:
        to the source (L, T, S) and to the target's own inputs (L, T, T); rows of both together sum to 1.
    """
    to_target, to_source = np.eye(decoder.shape[-1]), np.zeros(cross.shape[-2:])
    targets, sources = [], []
    for mixed, layer in zip(_with_residual(decoder), cross, strict=True):
        to_target = mixed @ to_target / 2
        to_source = (mixed @ to_source + layer @ memory) / 2
        targets.append(to_target)
        sources.append(to_source)
    return np.stack(sources), np.stack(targets)


def _with_residual(layers: Array) -> Array:
    return (layers + np.eye(layers.shape[-1])) / 2


# --- weight times vector ----------------------------------------------------------------------------------------------


def layer_norms(weights: Array, values: Array, w_o: Array) -> Array:
    """||sum_h alpha_h f_h(x)|| of Kobayashi et al. 2020: how much all heads together bring from each column, (T, S).

    f_h(x_j) = v_j W^O_h is a head's value vector as it leaves the layer; vectors of several heads may cancel out. (One
    head alone: :meth:`~pellucid.inspection.recorder.Recorded.norms`.)

    Args:
        weights: (H, T, S).
        values: (H, S, K), with the bias of W^V.
        w_o: (H K, D), the paper's W^O; of a `torch.nn.Linear` its weight transposed.

    Returns:
        (T, S), in the length of the layer's output; rows do not sum to 1.
    """
    heads, _, width = values.shape
    moved = values @ w_o.reshape(heads, width, -1)  # (H, S, K) @ (H, K, D) = (H, S, D)
    return np.linalg.norm(np.einsum("hts,hsd->tsd", weights, moved), axis=-1)


# --- heads beside each other ------------------------------------------------------------------------------------------


def head_distances(weights: Array) -> Array:
    """Jensen-Shannon divergence between heads, the mean over rows, in nats (0 to log 2): (N, N) for (N, T, S).

    Rows are smoothed as Clark et al. do: 0.999 A + 0.001 / S.
    """
    smooth = (1 - SMOOTHING) * weights + SMOOTHING / weights.shape[-1]
    own = _xlogx(smooth).sum(-1)  # (N, T): minus the entropy
    distances = [
        ((own[n] + own) / 2 - _xlogx((head + smooth) / 2).sum(-1)).mean(-1) for n, head in enumerate(smooth)
    ]  # fmt: skip
    return np.maximum(np.stack(distances), 0.0)  # rounding makes a head's distance to itself -1e-17


def spearman(a: Sequence[float], b: Sequence[float]) -> float:
    """Correlation of the ranks, equal numbers sharing the mean of theirs. NaN where all of one side are equal."""
    x, y = (_ranks(np.asarray(side, float)) for side in (a, b))
    x, y = x - x.mean(), y - y.mean()
    spread = float(np.sqrt((x @ x) * (y @ y)))
    return float(x @ y) / spread if spread else float("nan")


def _ranks(values: Array) -> Array:
    _, where, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[where])


# --- alignment --------------------------------------------------------------------------------------------------------


def hard_links(weights: Array) -> Links:
    """The source word that each target word looks at most: {(column, row)} of one map (T, S), words in both."""
    return frozenset((int(column), row) for row, column in enumerate(weights.argmax(-1))) if weights.size else Links()


def alignment_error_rate(found: Iterable[Links], sure: Iterable[Links], possible: Iterable[Links]) -> float:
    """1 - (|A and S| + |A and P|) / (|A| + |S|), each number a sum over the corpus (Och & Ney 2003). 0 is perfect.

    `possible` links are those that a sentence may have besides the `sure` ones, which count as possible too. NaN where
    there is no link at all.
    """
    hits = size = 0
    for a, s, p in zip(found, sure, possible, strict=True):
        hits += len(a & s) + len(a & (s | p))
        size += len(a) + len(s)
    return 1 - hits / size if size else float("nan")


def _xlogx(p: Array) -> Array:
    """p log p, and 0 for 0."""
    return np.asarray(p * np.log(np.where(p > 0, p, 1.0)))
