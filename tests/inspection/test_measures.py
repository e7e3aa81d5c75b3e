"""Measures of attention: planted heads score what they must, chance scores chance, and what the papers define is what
comes out, by hand or by another way."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from pellucid.inspection.measures import (
    alignment_error_rate,
    at_columns,
    at_offset,
    confidence,
    coverage,
    decoder_rollout,
    entropy,
    even,
    hard_links,
    head_distances,
    layer_norms,
    rarest_column,
    rollout,
    same_word,
    share_of_maxima,
    share_of_weight,
    spearman,
)
from pellucid.inspection.recorder import recorded
from pellucid.model.transformer import Transformer

N = 6
DRAW = np.random.default_rng(3)


def looking_at(columns: list[int], n: int = N) -> np.ndarray:
    """(T, n): row i looks at columns[i] and nowhere else."""
    return np.eye(n)[columns]


def random_rows(*shape: int) -> np.ndarray:
    return DRAW.dirichlet(np.ones(shape[-1]), shape[:-1])


# --- planted heads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "offset, columns", [(-1, [5, 0, 1, 2, 3, 4]), (0, [0, 1, 2, 3, 4, 5]), (1, [1, 2, 3, 4, 5, 0])]
)
def test_a_planted_positional_head_scores_one_at_its_offset_and_nothing_at_others(offset, columns):
    weights = looking_at(columns)
    for other in (-1, 0, 1):
        role = at_offset(N, N, other)
        for share in (share_of_weight(weights, role), share_of_maxima(weights, role)):
            assert np.nanmean(share) == (1.0 if other == offset else 0.0)
    # The first row has none before it, the last none after it: they have no answer, and do not count.
    assert np.isnan(share_of_weight(weights, at_offset(N, N, -1))).tolist() == [True] + 5 * [False]
    assert np.isnan(share_of_maxima(weights, at_offset(N, N, 1))).tolist() == 5 * [False] + [True]


def test_half_of_the_weight_is_half_a_share_but_may_be_all_of_the_maxima():
    weights = 0.5 * looking_at([1, 2, 3, 4, 5, 0]) + 0.5 / N
    role = at_offset(N, N, 1)
    assert np.nanmean(share_of_weight(weights, role)) == pytest.approx(0.5 + 0.5 / N)
    assert np.nanmean(share_of_maxima(weights, role)) == 1.0


def test_a_planted_rare_word_head():
    ranks = np.array([3, 800, 0, 9000, 40, -1])  # the rarest word stands in column 3; the end mark is no word
    role = at_columns(N, rarest_column(ranks))
    assert share_of_maxima(looking_at([3] * N), role).mean() == 1.0
    assert share_of_maxima(looking_at([1] * N), role).mean() == 0.0
    # Nothing rare in the sentence: no row has an answer.
    assert np.isnan(share_of_maxima(looking_at([3] * N), at_columns(N, rarest_column(ranks // 100, common=500)))).all()
    assert not rarest_column(np.array([-1, -1]), common=0).any()


def test_a_planted_head_of_the_same_word():
    words = ["the", "dog", "and", "the", "cat", "."]
    role = same_word(words, words)
    assert np.argwhere(role).tolist() == [[0, 3], [3, 0]]
    assert np.nanmean(share_of_weight(looking_at([3, 1, 2, 0, 4, 5]), role)) == 1.0
    assert np.nanmean(share_of_weight(looking_at([0, 1, 2, 3, 4, 5]), role)) == 0.0  # itself does not count


def test_a_planted_sink():
    marks = np.array([False] * 5 + [True])
    weights = 0.75 * looking_at([5] * N) + 0.25 * looking_at([0] * N)
    assert share_of_weight(weights, at_columns(N, marks)).tolist() == [0.75] * N


def test_an_even_head_has_the_entropy_of_an_even_choice_and_a_sharp_one_none():
    assert entropy(even(4, N)) == pytest.approx([math.log(N)] * 4)
    assert entropy(looking_at([2, 2])).tolist() == [0.0, 0.0]
    assert entropy(even(3, 3, causal=True)) == pytest.approx([0.0, math.log(2), math.log(3)])


def test_confidence_leaves_out_what_is_no_word():
    weights = np.array([[0.1, 0.2, 0.7], [0.5, 0.4, 0.1]])
    assert confidence(weights, np.array([True, True, False])).tolist() == [0.2, 0.5]
    assert confidence(weights, np.array([True, True, True])).tolist() == [0.7, 0.5]


def test_random_heads_score_at_chance():
    """Chance is the share of an even head; many random heads must come near it, planted ones must not."""
    heads = random_rows(4000, N, N)
    for role in (at_offset(N, N, -1), at_offset(N, N, 1), at_columns(N, np.arange(N) > 3)):
        chance = np.nanmean(share_of_weight(even(N, N), role))
        for share in (share_of_weight, share_of_maxima):
            assert np.nanmean(share(heads, role)) == pytest.approx(chance, abs=0.01)
    assert np.nanmean(share_of_maxima(looking_at([1, 2, 3, 4, 5, 0]), at_offset(N, N, 1))) > 0.9


def test_chance_of_a_causal_head_follows_what_a_row_sees():
    chance = share_of_weight(even(3, 3, causal=True), at_offset(3, 3, 0))
    assert chance == pytest.approx([1, 1 / 2, 1 / 3])


def test_measures_of_roles_follow_a_permutation_of_the_keys():
    """What a column is called decides, not where it stands; a positional role is the control that does not follow."""
    weights, order = random_rows(N, N), np.array([3, 0, 5, 1, 2, 4])
    ranks = np.array([3, 800, 0, 9000, 40, -1])
    before = share_of_weight(weights, at_columns(N, rarest_column(ranks)))
    assert np.array_equal(share_of_weight(weights[:, order], at_columns(N, rarest_column(ranks[order]))), before)
    assert np.allclose(entropy(weights[:, order]), entropy(weights))
    assert not np.allclose(
        np.nanmean(share_of_weight(weights[:, order], at_offset(N, N, -1))),
        np.nanmean(share_of_weight(weights, at_offset(N, N, -1))),
    )


def test_nothing_is_changed_in_place_and_leading_dimensions_are_carried_along():
    weights = random_rows(2, 3, N, N)
    weights.flags.writeable = False
    role, real = at_offset(N, N, -1), np.arange(N) < 5
    for measure in (
        lambda w: share_of_weight(w, role),
        lambda w: share_of_maxima(w, role),
        lambda w: confidence(w, real),
        entropy,
        coverage,
    ):
        found = measure(weights)
        assert found.shape == (2, 3, N)
        assert np.array_equal(found[1, 2], measure(weights[1, 2]), equal_nan=True)


def test_coverage_counts_what_every_column_gets():
    assert coverage(looking_at([0, 0, 2, 2, 2, 5])).tolist() == [2, 0, 3, 0, 0, 1]


# --- through the layers -----------------------------------------------------------------------------------------------


def test_rollout_by_hand():
    """Three tokens: in the first layer all look at token 0, in the second each looks at the one before it."""
    first, second = looking_at([0, 0, 0], 3), looking_at([0, 0, 1], 3)
    found = rollout(np.stack([first, second]))
    assert found[0].tolist() == [[1, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5]]
    assert found[1].tolist() == [[1, 0, 0], [0.75, 0.25, 0], [0.5, 0.25, 0.25]]


def test_rollout_is_the_sum_over_all_paths():
    """Another way: walk from token to token, layer by layer, half of the time staying where one is."""
    layers = random_rows(3, 4, 4)
    found = rollout(layers)[-1]
    for start in range(4):
        reached = np.zeros(4)
        paths = [(start, 1.0)]
        for layer in reversed(layers):
            paths = [(j, p * (0.5 * layer[i, j] + 0.5 * (i == j))) for i, p in paths for j in range(4)]
        for end, p in paths:
            reached[end] += p
        assert np.allclose(found[start], reached, atol=1e-12)


def test_rollout_through_a_decoder_by_hand():
    """One target token and two source tokens, one layer: half from the source, half from itself."""
    sources, targets = decoder_rollout(np.ones((1, 1, 1)), np.array([[[0.2, 0.8]]]), np.eye(2))
    assert sources[0].tolist() == [[0.1, 0.4]]
    assert targets[0].tolist() == [[0.5]]
    # A second layer that looks at the other word: a quarter is left of what the first one brought.
    sources, targets = decoder_rollout(np.ones((2, 1, 1)), np.array([[[0.0, 1.0]], [[1.0, 0.0]]]), np.eye(2))
    assert sources[1].tolist() == [[0.5, 0.25]]
    assert targets[1].tolist() == [[0.25]]


def test_rollout_through_a_decoder_is_the_rollout_of_both_sequences_as_one():
    """Source and target side by side are one sequence, in which the decoder's two sub-layers are two layers."""
    t, s, depth = 3, 4, 2
    decoder, cross, encoder = np.tril(random_rows(depth, t, t)), random_rows(depth, t, s), random_rows(depth, s, s)
    decoder /= decoder.sum(-1, keepdims=True)
    memory = rollout(encoder)[-1]
    joint = np.eye(s + t)
    joint[:s, :s] = memory
    for mine, theirs in zip(decoder, cross, strict=True):
        looks_at_itself, looks_at_source = np.eye(s + t), np.eye(s + t)
        looks_at_itself[s:, s:] = 0.5 * mine + 0.5 * np.eye(t)
        looks_at_source[s:, s:] = 0.5 * np.eye(t)
        looks_at_source[s:, :s] = 0.5 * theirs
        joint = looks_at_source @ looks_at_itself @ joint
    sources, targets = decoder_rollout(decoder, cross, memory)
    assert np.allclose(sources[-1], joint[s:, :s], atol=1e-12)
    assert np.allclose(targets[-1], joint[s:, s:], atol=1e-12)
    assert np.allclose(sources.sum(-1) + targets.sum(-1), 1)


# --- weight times vector ----------------------------------------------------------------------------------------------


def test_norms_of_a_layer_are_those_of_the_summed_vectors():
    """Against the vectors themselves, one place at a time; and below the sum of the heads' own norms."""
    torch.manual_seed(2)
    model = (
        Transformer(11, 12, d_model=16, n_heads=4, num_encoder_layers=1, num_decoder_layers=1, d_ff=32).double().eval()
    )
    with torch.no_grad(), recorded(model) as record:
        model(torch.tensor([[5, 6, 7, 2, 0]]), torch.tensor([[1, 5, 6]]))
    layer = record.cross[0]
    weights, values, w_o = layer.weights[0].numpy(), layer.values[0].numpy(), layer.w_o.weight.detach().T.numpy()
    found = layer_norms(weights, values, w_o)
    assert found.shape == (3, 5)
    for row in range(3):
        for column in range(5):
            moved = sum(weights[h, row, column] * values[h, column] @ w_o[4 * h : 4 * h + 4] for h in range(4))
            assert found[row, column] == pytest.approx(np.linalg.norm(moved), abs=1e-12)
    together = layer.norms()[0].sum(0).detach().numpy()
    assert (found <= together + 1e-12).all() and not np.allclose(found, together)


# --- heads beside each other ------------------------------------------------------------------------------------------


def test_the_distance_of_heads():
    twins = np.stack([looking_at([0, 1, 2], 3), looking_at([0, 1, 2], 3), looking_at([1, 2, 0], 3)])
    found = head_distances(twins)
    assert found[0, 1] == pytest.approx(0, abs=1e-12)
    assert found[0, 2] == pytest.approx(math.log(2), abs=0.01)  # nothing in common, but for the smoothing
    assert np.allclose(found, found.T) and np.allclose(np.diag(found), 0, atol=1e-12)


def test_the_distance_of_heads_by_its_definition():
    heads = random_rows(3, 4, 5)
    smooth = 0.999 * heads + 0.001 / 5

    def divergence(p, q):
        return (p * np.log(p / q)).sum(-1).mean()

    middle = (smooth[0] + smooth[2]) / 2
    expected = (divergence(smooth[0], middle) + divergence(smooth[2], middle)) / 2
    assert head_distances(heads)[0, 2] == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "a, b, expected",
    [
        ([1, 2, 3, 4], [10, 20, 30, 1000], 1.0),
        ([1, 2, 3, 4], [4, 3, 2, 1], -1.0),
        ([1, 2, 3, 4, 5], [2, 1, 4, 3, 5], 0.8),  # 1 - 6 * 4 / (5 * 24)
        ([1, 1, 2], [1, 1, 2], 1.0),
    ],
)
def test_spearman_by_hand(a, b, expected):
    assert spearman(a, b) == pytest.approx(expected)


def test_spearman_of_equal_numbers_is_no_number():
    assert math.isnan(spearman([1, 1, 1], [1, 2, 3]))


# --- alignment --------------------------------------------------------------------------------------------------------


def test_alignment_error_rate_by_hand():
    """Two sentences; sums over both, not the mean of two rates.

    First: 2 links found, 1 sure of them; sure 2, possible 1 more, of which 1 was found. Second: all right.
    """
    found = [frozenset({(0, 0), (1, 2)}), frozenset({(0, 0)})]
    sure = [frozenset({(0, 0), (1, 1)}), frozenset({(0, 0)})]
    possible = [frozenset({(1, 2)}), frozenset()]
    # |A and S| = 1 + 1, |A and P| = 2 + 1, |A| = 2 + 1, |S| = 2 + 1
    assert alignment_error_rate(found, sure, possible) == pytest.approx(1 - 5 / 6)
    assert alignment_error_rate(sure, sure, possible) == 0.0
    assert alignment_error_rate([frozenset(), frozenset()], sure, possible) == 1.0
    assert math.isnan(alignment_error_rate([], [], []))


def test_hard_links_take_the_largest_weight_of_each_row():
    weights = np.array([[0.2, 0.5, 0.3], [0.6, 0.3, 0.1]])
    assert hard_links(weights) == {(1, 0), (0, 1)}
    assert hard_links(np.zeros((0, 3))) == frozenset()
