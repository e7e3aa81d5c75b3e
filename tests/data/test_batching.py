from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import shared_data

from pellucid.config import DataConfig
from pellucid.data.batching import EpochPlan, largest_batch, make_batch, mixed_pairs, plan_epoch, useful_share
from pellucid.data.corpus import Corpus
from pellucid.data.store import PairStore
from pellucid.data.tokenizer import Tokenizer

LENGTHS = st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), max_size=300)


def arrays(pairs) -> tuple[np.ndarray, np.ndarray]:
    source, target = np.array(pairs, np.int32).reshape(-1, 2).T
    return source, target


def batches(plan: EpochPlan) -> list[list[int]]:
    return [indices.tolist() for indices in plan]


def some_lengths(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    source = np.clip(random.gamma(4, 5, count), 2, 200)
    target = np.clip(source * random.normal(1.1, 0.15, count), 2, 200)
    return source.astype(np.int32), target.astype(np.int32)


@given(LENGTHS, st.integers(1, 400), st.integers(0, 3), st.integers(0, 3))
@settings(max_examples=200, deadline=None)
def test_each_pair_once_and_within_the_budget(pairs, budget, seed, epoch):
    source, target = arrays(pairs)
    plan = plan_epoch(source, target, budget, seed, epoch)
    assert sorted(i for batch in batches(plan) for i in batch) == list(range(len(pairs)))
    for batch in batches(plan):
        cells = len(batch) * max(source[batch].max(), target[batch].max())
        assert cells <= budget or len(batch) == 1
    assert batches(plan) == batches(plan_epoch(source, target, budget, seed, epoch))


@given(LENGTHS, st.integers(1, 400))
@settings(max_examples=100, deadline=None)
def test_cutting_is_as_greedy_as_it_can_be(pairs, budget):
    """One pool, so the batches in order of length: each takes its next pair if there is room for it."""
    source, target = arrays(pairs)
    order = sorted(range(len(pairs)), key=lambda i: (max(pairs[i]), pairs[i][1], pairs[i][0]))
    expected: list[list[tuple[int, int]]] = []
    for pair in (pairs[i] for i in order):
        if expected and (len(expected[-1]) + 1) * max(pair) <= budget:
            expected[-1].append(pair)
        else:
            expected.append([pair])
    if sum(map(max, pairs)) < 128 * budget:
        found = [[pairs[i] for i in batch] for batch in batches(plan_epoch(source, target, budget, 1, 0))]
        assert sorted(found) == sorted(expected)


def test_epochs_and_seeds_differ():
    source, target = some_lengths(20_000)
    plans = [
        batches(plan_epoch(source, target, 500, seed, epoch))
        for seed, epoch in ((1, 0), (1, 1), (2, 0), (0, 1), (0, 2))
    ]
    assert all(one != other for i, one in enumerate(plans) for other in plans[:i])
    members = [{frozenset(batch) for batch in plan} for plan in plans[:2]]
    assert len(members[0] & members[1]) < 0.05 * len(members[0])


def test_batches_come_in_no_order_of_length():
    source, target = some_lengths(5000)
    longest = [int(source[batch].max()) for batch in batches(plan_epoch(source, target, 500, 1, 0))]
    assert abs(np.corrcoef(longest, np.arange(len(longest)))[0, 1]) < 0.2


@pytest.mark.parametrize("count", [0, 1, 2, 63, 64, 65])
def test_any_number_of_pairs(count):
    lengths = np.full(count, 10, np.int32)
    plan = plan_epoch(lengths, lengths, 640, 1, 0)
    assert len(plan) == -(-count // 64)
    assert sum(len(batch) for batch in plan) == count
    with pytest.raises(IndexError):
        plan[len(plan)]


def test_a_budget_below_the_shortest_pair_gives_batches_of_one():
    source, target = some_lengths(50)
    assert all(len(batch) == 1 for batch in plan_epoch(source, target, 1, 1, 0))


def test_a_pair_longer_than_the_budget_is_a_batch_alone():
    source, target = arrays([(5, 5), (5, 6), (201, 3), (3, 500), (6, 6)])
    assert sorted(map(sorted, batches(plan_epoch(source, target, 200, 1, 0)))) == [[0, 1, 4], [2], [3]]


def test_equal_pairs_are_all_there():
    lengths = np.full(10, 7, np.int32)
    assert sorted(np.concatenate(list(plan_epoch(lengths, lengths, 21, 3, 5)))) == list(range(10))


def test_the_largest_batch_and_the_useful_share_by_hand():
    source, target = arrays([(2, 2), (2, 2), (3, 9), (4, 8)])
    plan = plan_epoch(source, target, 18, 1, 0)
    assert sorted(map(sorted, batches(plan))) == [[0, 1], [2, 3]]
    assert sorted(plan.shapes(source, target).tolist()) == [[2, 2, 2], [2, 4, 9]]
    assert sorted(plan[largest_batch(plan, source, target)]) == [2, 3]
    assert useful_share(plan, source, target) == (4 + 4 + 12 + 12) / (8 + 26)
    nothing = np.zeros(0, np.int32)
    assert useful_share(plan_epoch(nothing, nothing, 9, 1, 0), nothing, nothing) == 1.0


def test_a_million_pairs_are_planned_in_seconds():
    source, target = some_lengths(1_000_000)
    started = time.process_time()
    plan = plan_epoch(source, target, 4096, 1, 0)
    assert time.process_time() - started < 5
    assert plan._order.dtype == np.int32
    assert useful_share(plan, source, target) > 0.9


def test_multi30k_is_at_least_nine_tenths_useful(tmp_path):
    folder = shared_data("multi30k") / "raw"
    corpus = Corpus.from_files([], [str(folder / "train.en.gz")], [str(folder / "train.de.gz")], DataConfig())
    lines = (side for i, pair in enumerate(corpus) if i % 10 == 0 for side in (pair.source, pair.target))
    tokenizer = Tokenizer.train(lines, vocab_size=4000, kind="bpe")
    store, report = PairStore.build(tmp_path / "store", corpus, tokenizer, tokenizer, DataConfig())
    assert report.kept == len(store) == 29_000
    for budget in (2048, 4096, 8192):
        plan = plan_epoch(store.source_lengths, store.target_lengths, budget, 1, 0)
        assert useful_share(plan, store.source_lengths, store.target_lengths) >= 0.90


# --- rectangles -------------------------------------------------------------------------------------------------------

END, SOURCE_PAD, TARGET_PAD, START = 0, 90, 91, 92


def tiny_store(pairs: list[tuple[list[int], list[int]]]) -> PairStore:
    """What make_batch uses of a store, from lists without end marks."""
    sides = [[[*pair[side], END] for pair in pairs] for side in (0, 1)]

    def padded(side: int, indices: np.ndarray, pad: int) -> np.ndarray:
        rows = [sides[side][i] for i in indices]
        return np.array([row + [pad] * (max(map(len, rows)) - len(row)) for row in rows], np.int64)

    lengths = [np.array([len(row) for row in side], np.int32) for side in sides]
    made = SimpleNamespace(source_lengths=lengths[0], target_lengths=lengths[1], padded=padded)
    return made  # type: ignore[return-value]


def test_a_batch_as_rows_to_read():
    store = tiny_store([([5, 6], [7, 8, 9]), ([5], [7]), ([5, 6, 7, 8], [9])])
    batch = make_batch(store, np.array([1, 0]), SOURCE_PAD, TARGET_PAD, START)
    assert batch.src.tolist() == [
        [5, END, SOURCE_PAD],
        [5, 6, END],
    ]
    assert batch.tgt_in.tolist() == [
        [START, 7, TARGET_PAD, TARGET_PAD],
        [START, 7, 8, 9],
    ]
    assert batch.tgt_out.tolist() == [
        [7, END, TARGET_PAD, TARGET_PAD],
        [7, 8, 9, END],
    ]
    assert (batch.src_tokens, batch.tgt_tokens) == (5, 6)
    assert batch.indices.tolist() == [1, 0]
    assert {a.dtype for a in (batch.src, batch.tgt_in, batch.tgt_out)} == {np.dtype(np.int64)}


def test_start_and_padding_may_be_one_id():
    store = tiny_store([([5, 6], [7, 8]), ([5], [7])])
    batch = make_batch(store, np.array([0, 1]), SOURCE_PAD, TARGET_PAD, TARGET_PAD)
    assert batch.tgt_in.tolist() == [[TARGET_PAD, 7, 8], [TARGET_PAD, 7, TARGET_PAD]]


def test_a_batch_of_one_has_no_padding():
    batch = make_batch(tiny_store([([5, 6], [7])]), np.array([0]), SOURCE_PAD, TARGET_PAD, START)
    assert batch.src.tolist() == [[5, 6, END]]
    assert batch.tgt_in.tolist() == [[START, 7]]
    assert batch.tgt_out.tolist() == [[7, END]]


# --- mixing -----------------------------------------------------------------------------------------------------------


def test_weights_say_how_often_an_epoch_takes_each_pair():
    chosen = mixed_pairs([3, 4, 2], [1, 0.5, 2], seed=1, epoch=0).tolist()
    times = [chosen.count(pair) for pair in range(9)]
    assert times[:3] == [1, 1, 1]
    assert sorted(times[3:7]) == [0, 0, 1, 1]
    assert times[7:] == [2, 2]


def test_a_fraction_takes_all_pairs_in_turn():
    """2.25 times 8 pairs: twice all, and in each of four epochs another two of them."""
    extra = [sorted(set(c) for c in [mixed_pairs([8], [2.25], 7, epoch).tolist()[16:]]) for epoch in range(4)]
    assert set.union(*(epoch[0] for epoch in extra)) == set(range(8))
    assert mixed_pairs([8], [2.25], 7, 2).tolist() == mixed_pairs([8], [2.25], 7, 2).tolist()
    assert mixed_pairs([8], [2.25], 7, 2).tolist() != mixed_pairs([8], [2.25], 8, 2).tolist()


def test_a_plan_of_chosen_pairs_has_those_and_a_weight_of_one_changes_nothing():
    random = np.random.default_rng(1)
    lengths = random.integers(2, 40, 500), random.integers(2, 40, 500)
    chosen = mixed_pairs([300, 200], [0.3, 3], 1, 0)
    plan = plan_epoch(*lengths, 256, 1, 0, chosen)
    assert sorted(np.concatenate(list(plan)).tolist()) == sorted(chosen.tolist())
    assert 0.8 < useful_share(plan, *lengths) <= 1
    ones = plan_epoch(*lengths, 256, 1, 0, mixed_pairs([300, 200], [1, 1], 1, 0))
    assert [batch.tolist() for batch in ones] == [batch.tolist() for batch in plan_epoch(*lengths, 256, 1, 0)]


@given(st.lists(st.tuples(st.integers(0, 12), st.floats(0.05, 4)), max_size=4), st.integers(0, 5), st.integers(0, 20))
@settings(max_examples=80, deadline=None)
def test_each_pair_comes_as_often_as_its_neighbours_and_its_weight(parts, seed, epoch):
    chosen = mixed_pairs([n for n, _ in parts], [w for _, w in parts], seed, epoch)
    begin = 0
    for count, weight in parts:
        times = np.bincount(chosen, minlength=begin + count)[begin : begin + count]
        assert abs(times.sum() - weight * count) <= 0.5 + 1e-9
        assert count == 0 or times.max() - times.min() <= 1
        begin += count
