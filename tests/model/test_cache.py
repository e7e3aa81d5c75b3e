"""The cache of a search against the simplest thing that could work: every hypothesis computed again, alone, in one pass."""

from __future__ import annotations

import random

import pytest
import torch
from torch import Tensor

from pellucid.errors import SearchError
from pellucid.model import attention, positional_encoding
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import GrowingKeyValues, KeyValueCache
from pellucid.model.transformer import DecoderState, Transformer

PAD = 19
RAGGED = torch.tensor([[3, 4, 5, 6, 0], [7, 8, 0, PAD, PAD], [9, 0, PAD, PAD, PAD], [PAD] * 5])  # the last is empty


def small(**options: object) -> Transformer:
    torch.manual_seed(0)
    return Transformer(20, 20, 8, 2, 2, 2, 16, pad_id=PAD, start_id=PAD, **options).double().eval()


def same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)


class Recomputed:
    """A search state without a cache: it remembers each row's tokens and its source, and starts afresh at every step."""

    def __init__(self, model: Transformer, src: Tensor) -> None:
        self.model = model
        self.sources = [row[row != PAD][None] if (row != PAD).any() else row[None] for row in src]
        self.rows: list[list[int]] = [[] for _ in src]

    def step(self, tokens: Tensor) -> Tensor:
        for row, token in zip(self.rows, tokens.tolist(), strict=True):
            row.append(token)
        width = len(self.rows) // len(self.sources)
        return torch.cat(
            [self.model(self.sources[i // width], torch.tensor([row]))[:, -1] for i, row in enumerate(self.rows)]
        )

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        self.rows = [list(self.rows[i]) for i in rows.tolist()]
        if sources is not None:
            self.sources = [self.sources[i] for i in sources.tolist()]


@pytest.mark.parametrize(
    "seed,options",
    [
        (0, {}),
        (1, {"norm": "pre"}),
        (2, {"positions": "learned", "max_len": 24}),
        (3, {"share_embeddings": "all"}),
        (4, {"share_embeddings": "decoder", "max_len": 3}),  # the table of positions grows in the middle
    ],
)
@torch.no_grad()
def test_any_walk_of_a_search_equals_recomputing_every_row(seed, options):
    """C75. Random walks: beams open, cross, die and multiply; sentences finish, change places, and leave."""
    draw, model = random.Random(seed), small(**options)
    cached, recomputed = DecoderState(model, RAGGED), Recomputed(model, RAGGED)
    sentences, width = len(RAGGED), 1
    for step in range(20):
        new_width = {1: 3, 8: 2, 14: 4}.get(step, width)  # hypotheses of a sentence
        if step in (5, 11, 17):
            kept = draw.sample(range(sentences), sentences - 1)
        elif step == 9:
            kept = draw.sample(range(sentences), sentences)  # only their order changes
        else:
            kept = list(range(sentences))
        if new_width != width or step in (5, 9, 11, 17) or draw.random() < 0.8:
            rows = torch.tensor([s * width + draw.randrange(width) for s in kept for _ in range(new_width)])
            sources = None if kept == list(range(sentences)) else torch.tensor(kept)
            cached.reorder(rows, sources)
            recomputed.reorder(rows, sources)
            sentences, width = len(kept), new_width
        tokens = torch.tensor([draw.randrange(PAD) for _ in range(sentences * width)])
        same(cached.step(tokens), recomputed.step(tokens))
    assert sentences == 1 and width == 4


@torch.no_grad()
def test_dropping_sentences_before_the_first_step():
    model = small()
    state = DecoderState(model, RAGGED)
    kept = torch.tensor([2, 0])
    state.reorder(kept, kept)
    same(state.step(torch.tensor([PAD, PAD])), model(RAGGED[kept], torch.tensor([[PAD], [PAD]]))[:, -1])


@pytest.mark.parametrize("width", [1, 3])
@torch.no_grad()
def test_a_prefix_of_several_tokens_in_every_beam_then_single_steps(width):
    """C75. The prefix is one call with many positions, so that its causal mask matters, beams or none."""
    model = small()
    src, rows = RAGGED[:2], 2 * width
    tgt = torch.randint(0, PAD, (rows, 7), generator=torch.Generator().manual_seed(1))
    whole = model(src.repeat_interleave(width, 0), tgt)
    cache, memory, mask = KeyValueCache(2), model.encode(src), model.padding_mask(src)
    for start, end in [(0, 4), (4, 5), (5, 6), (6, 7)]:
        assert cache.length == start
        same(model.project(model.decode(tgt[:, start:end], memory, None, mask, cache)), whole[:, start:end])


@torch.no_grad()
def test_cross_attention_projects_the_memory_once_and_keeps_a_row_a_sentence_not_a_beam(monkeypatch):
    model = small()
    seen: list[tuple[int, ...]] = []
    layer = model.decoder.layers[0].cross_attention
    handles = [w.register_forward_hook(lambda _, x, y: seen.append(tuple(y.shape))) for w in (layer.w_k, layer.w_v)]
    keys_in_attention: list[int] = []

    def watched(q, k, v, mask=None, dropout=0.0):
        keys_in_attention.append(k.size(0))
        return attention.scaled_dot_product_attention(q, k, v, mask, dropout)[0]

    state = DecoderState(model, RAGGED)
    state.step(torch.full((4,), PAD))
    state.reorder(torch.arange(4).repeat_interleave(5))
    monkeypatch.setattr(attention, "fused_attention", watched)
    for _ in range(3):
        state.step(torch.ones(20, dtype=torch.long))
    assert seen == [(4, 5, 8), (4, 5, 8)]  # keys and values, at the first step only, 4 sentences of 5 tokens
    assert keys_in_attention == [20, 4, 20, 4] * 3  # self, cross, in two layers: 20 hypotheses of 4 sentences
    for handle in handles:
        handle.remove()


@pytest.mark.parametrize("need_weights", [True, False])
def test_queries_that_share_a_sentences_keys_equal_keys_copied_per_beam(need_weights):
    torch.manual_seed(0)
    layer = MultiHeadAttention(8, 2).double()
    query, memory = torch.randn(6, 2, 8).double(), torch.randn(2, 5, 8).double()  # 3 beams of 2 positions, 2 sentences
    mask = torch.tensor([[True, True, True, True, False], [True, True, False, False, False]])[:, None, None, :]
    shared, weights = layer(query, memory, memory, mask, need_weights)
    copies, copied_mask = memory.repeat_interleave(3, 0), mask.repeat_interleave(3, 0)
    expected, expected_weights = layer(query, copies, copies, copied_mask)
    same(shared, expected)
    if need_weights:
        same(weights, expected_weights)


def test_a_sequence_of_n_positions_is_copied_log_n_times(monkeypatch):
    """Growing by one at every step would copy n times: quadratic in the length of the text."""
    buffers, copies = GrowingKeyValues(), []
    grown = GrowingKeyValues._grown
    monkeypatch.setattr(GrowingKeyValues, "_grown", lambda self, i, new: copies.append(i) or grown(self, i, new))
    everything = torch.arange(200.0).view(1, 1, 200, 1).expand(2, 3, 200, 4)
    for t in range(200):
        new = everything[:, :, t : t + 1]
        keys, values = buffers.extend(lambda new=new: (new, -new))
        assert torch.equal(keys, everything[:, :, : t + 1]) and torch.equal(values, -keys)
    assert buffers.length == 200 and len(copies) <= 2 * 5  # keys and values: at 1, 17, 35, 71, 143 positions


@torch.no_grad()
def test_a_search_past_max_len_goes_on_with_sinusoids_and_says_so_with_learned_positions():
    """C25, C29: elsewhere an index error deep inside, or a device-side assert."""
    unlimited, table_of_4 = small(max_len=50), small(max_len=4)
    one, other = DecoderState(unlimited, RAGGED[:, :4]), DecoderState(table_of_4, RAGGED[:, :4])
    for token in range(12):
        same(other.step(torch.full((4,), token)), one.step(torch.full((4,), token)))
    learned = DecoderState(small(positions="learned", max_len=4), RAGGED[:, :4])
    for token in range(4):
        learned.step(torch.full((4,), token))
    with pytest.raises(SearchError, match="up to 4 tokens, but the text has 5"):
        learned.step(torch.full((4,), 4))
    with pytest.raises(SearchError, match="up to 4 tokens, but the text has 5"):
        DecoderState(small(positions="learned", max_len=4), RAGGED)


def test_the_table_of_positions_is_computed_log_n_times_in_a_long_search(monkeypatch):
    """And in the number format that its input has."""
    lengths: list[int] = []
    sinusoids = positional_encoding.sinusoids
    monkeypatch.setattr(positional_encoding, "sinusoids", lambda n, d: lengths.append(n) or sinusoids(n, d))
    encoding = positional_encoding.PositionalEncoding(4, max_len=3)
    for position in range(40):
        x = encoding(torch.zeros(1, 1, 4, dtype=torch.bfloat16), start=position)
        assert x.dtype == torch.bfloat16
    assert lengths == [3, 6, 12, 24, 48]


@torch.no_grad()
def test_a_model_without_padding_can_be_searched_too():
    torch.manual_seed(0)
    model = Transformer(20, 20, 8, 2, 1, 1, 16).double().eval()
    state, src = DecoderState(model, RAGGED[:2]), RAGGED[:2]
    state.step(torch.tensor([1, 2]))
    state.reorder(torch.tensor([1]), torch.tensor([1]))
    same(state.step(torch.tensor([5])), model(src[1:], torch.tensor([[2, 5]]))[:, -1])


def test_two_layers_do_not_share_a_cache():
    cache = KeyValueCache(2)
    first, second = cache.self_attention
    first.extend(lambda: (torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1)))
    assert (first.length, second.length, cache.length) == (1, 0, 1)
