"""The same Transformer, laid out for decoding: the weights of `pellucid.model`, in another order of work.

`DecoderState` in `model/transformer.py` is the one to read; this one gives the same logits, and a test holds the two
together. What differs:

    all projections of one input are one product (W^Q, W^K, W^V; the cross keys and values of all layers)
    padding meets no linear map: the encoder's run over the real tokens only
    a cache is one piece of memory to which a step appends, so that nothing is copied but what a beam reorders
    a query of length 1 is two small batched products and no attention kernel
    the linear maps are those of `engines/linear.py`, float32, int8 or bfloat16

`ExecutorState` is what a CPU searches. `static_cache.py` has a GPU's, with the same layers and another memory.

Dimensions as in `search.py`: B sentences, R rows a sentence, N = B x R; S source positions, t target positions so far.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.engines.linear import Float32Linear, Linear, Pack
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.embeddings import TokenEmbedding
from pellucid.model.feed_forward import FeedForward
from pellucid.model.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from pellucid.model.stacks import AddAndNorm, DecoderLayer, EncoderLayer
from pellucid.model.transformer import Transformer


class Executor:
    """A model in evaluation, packed once. It shares what it can with the model's memory.

    Args:
        pack: what makes a linear map of a weight and a bias.
    """

    def __init__(self, model: Transformer, pack: Pack = Float32Linear) -> None:
        config = model.config
        self.n_heads, self.d_model = config.n_heads, config.d_model
        self._source_pad = config.source_pad
        self._source = _Embedding(model.src_embedding, model.src_positions)
        self._target = _Embedding(model.tgt_embedding, model.tgt_positions)
        encoder = cast("list[EncoderLayer]", list(model.encoder.layers))
        decoder = cast("list[DecoderLayer]", list(model.decoder.layers))
        self._encoder = [_EncoderLayer(f"encoder.{i}", layer, pack) for i, layer in enumerate(encoder)]
        self._encoder_end, self._decoder_end = _Norm(model.encoder.norm), _Norm(model.decoder.norm)
        self.decoder = [_DecoderLayer(f"decoder.{i}", layer, pack) for i, layer in enumerate(decoder)]
        cross = [layer.cross_attention for layer in decoder]
        maps = [w for attention in cross for w in (attention.w_k, attention.w_v)]
        self._memory = pack("memory", *_side_by_side([(m.weight, m.bias) for m in maps]))
        self._pack, self._output_weight = pack, model.output.weight.detach()
        self._output = pack("output", self._output_weight, None)

    def state(self, src: Tensor) -> ExecutorState:
        """Encode source ids (B, S), padded on the right, for a search."""
        return ExecutorState(self, src)

    def part_of_output(self, tokens: Tensor) -> Linear:
        """The output layer for the target ids `tokens` (C) alone: (N, D) -> (N, C)."""
        return self._pack("output", self._output_weight[tokens], None)

    def encode(self, src: Tensor) -> tuple[Tensor, Tensor | None]:
        """The cross keys and values of all decoder layers (B, S, L, 2, D), and which may be seen (B, 1, 1, S); None: all."""
        rows, length = src.shape
        padding = None if self._source_pad is None else _Padding.of(src != self._source_pad)
        visible = None if padding is None else padding.real[:, None, None, :]
        positions = torch.arange(length, device=src.device).expand(rows, length).flatten()
        tokens = src.flatten()
        if padding is not None:
            tokens, positions = tokens.index_select(0, padding.where), positions.index_select(0, padding.where)
        x = self._source(tokens, self._source.positions(length).index_select(0, positions))  # (n, D)
        for layer in self._encoder:
            x = layer(x, self.n_heads, padding, visible, rows, length)
        kv = self._memory(self._encoder_end(x))  # (n, 2 L D)
        if padding is not None:
            kv = kv.index_select(0, padding.back)
            # A sentence of nothing but padding adds nothing.
            kv.view(rows, length, -1).masked_fill_(~padding.real[:, :1, None], 0.0)
        return kv.view(rows, length, len(self.decoder), 2, self.d_model), visible

    def target_positions(self, length: int) -> Tensor:
        """(length or more, D): what the model adds at each position of the target.

        Raises:
            SearchError: the model has learned positions, and not so many.
        """
        return self._target.positions(length)

    def embed(self, tokens: Tensor, position: Tensor) -> Tensor:
        """(N,) target ids, all at the place whose row of :meth:`target_positions` is `position` -> (N, D)."""
        return self._target(tokens, position)

    def logits(self, x: Tensor, output: Linear | None = None) -> Tensor:
        """(N, D) -> (N, V), or (N, C) with a :meth:`part_of_output`."""
        return (output or self._output)(self._decoder_end(x))


class ExecutorState:
    """See :class:`~pellucid.search.SearchState`; takes the place of `model.transformer.DecoderState`."""

    def __init__(self, executor: Executor, src: Tensor) -> None:
        self._executor = executor
        self.output: Linear | None = None
        """What takes the place of the whole output layer."""
        kv, visible = executor.encode(src)
        added = None if visible is None else torch.zeros(visible.shape).masked_fill_(~visible, torch.finfo().min)
        by_head = kv.unflatten(-1, (executor.n_heads, -1)).permute(2, 3, 0, 4, 1, 5)  # (L, 2, B, H, S, K)
        self._cross = [_Sources(keys.contiguous(), values.contiguous(), added) for keys, values in by_head]
        self._length = 0
        self._caches = [_Cache(executor.n_heads, executor.d_model) for _ in executor.decoder]

    def step(self, tokens: Tensor) -> Tensor:
        """The newest token of each row (N,) -> logits (N, V) of the next one."""
        executor = self._executor
        x = executor.embed(tokens, executor.target_positions(self._length + 1)[self._length])
        self._length += 1
        for layer, cache, cross in zip(executor.decoder, self._caches, self._cross, strict=True):
            x = layer(x, cache, cross)
        return executor.logits(x, self.output)

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Each new row goes on from old row `rows[i]`; of the sentences, `sources` stay (None: all)."""
        for cache in self._caches:
            cache.reorder(rows)
        if sources is not None:
            mask = None if self._cross[0].mask is None else self._cross[0].mask.index_select(0, sources)
            self._cross = [
                _Sources(cross.keys.index_select(0, sources), cross.values.index_select(0, sources), mask)
                for cross in self._cross
            ]


class Attends(Protocol):
    """The memory of one attention of one decoder layer."""

    def attend(self, x: Tensor) -> Tensor:
        """What is seen (N, D). `x`: for cross-attention the queries (N, D); for self-attention the queries, keys and
        values of the newest position (N, 3 D), which is remembered first. The queries come divided by sqrt(d_k)."""
        ...


@dataclass(frozen=True)
class _Sources:
    """Cross-attention's: keys and values (B, H, S, K), and a mask to add (B, 1, 1, S)."""

    keys: Tensor
    values: Tensor
    mask: Tensor | None

    def attend(self, x: Tensor) -> Tensor:
        sentences, heads, length, width = self.keys.shape
        q = x.view(sentences, -1, heads, width).transpose(1, 2)  # (B, H, R, K)
        if length < SHORT or sentences <= FEW:
            seen = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=self.mask, scale=1.0)
        else:
            scores = torch.matmul(q, self.keys.transpose(2, 3))  # (B, H, R, S)
            seen = torch.matmul((scores if self.mask is None else scores.add_(self.mask)).softmax(-1), self.values)
        return seen.transpose(1, 2).reshape(x.shape)


class _Cache:
    """Self-attention's, (t, 2, N, H, K): position by position in one piece of memory, which doubles when full."""

    def __init__(self, heads: int, width: int) -> None:
        self._heads, self._width = heads, width
        self._length = self._room = 0

    def _take(self, memory: Tensor) -> None:
        """Work in `memory` (t, 2, N, D) from now on."""
        self._memory, self._room, rows = memory, len(memory), memory.size(2)
        by_head = memory.view(self._room, 2, rows, self._heads, self._width // self._heads).permute(1, 2, 3, 0, 4)
        self._keys, self._values = by_head.unbind(0)  # (N, H, t, K) each

    def attend(self, x: Tensor) -> Tensor:
        rows = x.size(0)
        if self._length == self._room:
            grown = torch.empty(max(16, 2 * self._length), 2, rows, self._width)
            if self._length:
                grown[: self._length] = self._memory
            self._take(grown)
        q, newest = x.view(rows, 3, self._width).transpose(0, 1).split_with_sizes((1, 2))
        self._memory.select(0, self._length).copy_(newest)
        self._length += 1
        length, heads = self._length, self._heads
        if length < SHORT or rows <= FEW:
            q = q.view(rows, heads, 1, -1)
            k, v = self._keys.narrow(2, 0, length), self._values.narrow(2, 0, length)
            return F.scaled_dot_product_attention(q, k, v, scale=1.0).view(rows, self._width)
        k, v = self._memory.narrow(0, 0, length).view(length, 2, rows * heads, -1).unbind(1)  # (t, N H, K) each
        weights = torch.bmm(q.reshape(rows * heads, 1, -1), k.permute(1, 2, 0)).softmax(-1)  # (N H, 1, t)
        return torch.bmm(weights, v.transpose(0, 1)).view(rows, self._width)

    def reorder(self, rows: Tensor) -> None:
        if self._length:
            fresh = torch.empty(self._room, 2, len(rows), self._width)
            torch.index_select(self._memory[: self._length], 2, rows, out=fresh[: self._length])
            self._take(fresh)


SHORT = 16
"""PyTorch's attention kernel is quicker than three operations for lengths below this, and for few rows."""
FEW = 4


class _Padding:
    """Where the real tokens of a batch (B, S) stand, and the way back. What is put at padding is anything: no sight of it."""

    @classmethod
    def of(cls, real: Tensor) -> _Padding | None:
        """None where nothing is padding."""
        return None if bool(real.all()) else cls(real)

    def __init__(self, real: Tensor) -> None:
        self.real, flat = real, real.flatten()
        self.where = flat.nonzero().squeeze(1)  # (n) of B x S
        self.back = (flat.cumsum(0) - 1).clamp_(min=0)  # (B S) of n


class _Embedding:
    """Ids to vectors, the position added."""

    def __init__(self, embedding: TokenEmbedding, positions: PositionalEncoding | LearnedPositionalEncoding) -> None:
        self._embedding, self._positions = embedding, positions

    def positions(self, length: int) -> Tensor:
        """(length or more, D): what the model adds at each position."""
        if length > self._positions.table.size(0):
            width = self._positions.table.size(1)
            self._positions(self._positions.table.new_zeros(1, length, width))  # grows, or says why it cannot
        return self._positions.table

    def __call__(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return self._embedding(tokens).add_(positions)


class _Norm:
    """Layer normalisation, or nothing where the model has none."""

    def __init__(self, model: nn.Module) -> None:
        self._arguments = (
            (model.normalized_shape, model.weight.detach(), model.bias.detach(), model.eps)
            if isinstance(model, nn.LayerNorm)
            else None
        )

    def __call__(self, x: Tensor) -> Tensor:
        return x if self._arguments is None else torch.layer_norm(x, *self._arguments)


class _AddAndNorm:
    """:class:`~pellucid.model.stacks.AddAndNorm` in evaluation."""

    def __init__(self, model: AddAndNorm) -> None:
        self._norm, self._pre = _Norm(model.norm), model.pre

    def before(self, x: Tensor) -> Tensor:
        return self._norm(x) if self._pre else x

    def after(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """`sublayer` is used up. The sum keeps the precision of `x`, whatever that of `sublayer`."""
        y = sublayer.add_(x) if sublayer.dtype == x.dtype else x + sublayer
        return y if self._pre else self._norm(y)


class _FeedForward:
    def __init__(self, name: str, model: FeedForward, add_norm: AddAndNorm, pack: Pack) -> None:
        self._w_1 = pack(f"{name}.w_1", model.w_1.weight, model.w_1.bias, relu=True)
        self._w_2 = pack(f"{name}.w_2", model.w_2.weight, model.w_2.bias)
        self._add_norm = _AddAndNorm(add_norm)

    def __call__(self, x: Tensor) -> Tensor:
        return self._add_norm.after(x, self._w_2(self._w_1(self._add_norm.before(x))))


class _EncoderLayer:
    def __init__(self, name: str, model: EncoderLayer, pack: Pack) -> None:
        attention = model.self_attention
        self._qkv = _queries_keys_values(f"{name}.qkv", attention, pack)
        self._out = pack(f"{name}.out", attention.w_o.weight, attention.w_o.bias)
        self._add_norm = _AddAndNorm(model.add_norm_1)
        self._feed_forward = _FeedForward(name, model.feed_forward, model.add_norm_2, pack)

    def __call__(
        self, x: Tensor, heads: int, padding: _Padding | None, visible: Tensor | None, rows: int, length: int
    ) -> Tensor:
        """`x` (n, D): the real tokens of (rows, length)."""
        qkv = self._qkv(self._add_norm.before(x))
        qkv = qkv if padding is None else qkv.index_select(0, padding.back)
        q, k, v = qkv.view(rows, length, 3, heads, -1).permute(2, 0, 3, 1, 4)  # (B, H, S, K) each
        seen = (
            F.scaled_dot_product_attention(q, k, v, attn_mask=visible, scale=1.0)
            .transpose(1, 2)
            .reshape(rows * length, -1)
        )
        x = self._add_norm.after(x, self._out(seen if padding is None else seen.index_select(0, padding.where)))
        return self._feed_forward(x)


class _DecoderLayer:
    def __init__(self, name: str, model: DecoderLayer, pack: Pack) -> None:
        own, cross = model.self_attention, model.cross_attention
        self._qkv = _queries_keys_values(f"{name}.qkv", own, pack)
        self._own_out = pack(f"{name}.out", own.w_o.weight, own.w_o.bias)
        self._cross_q = pack(f"{name}.cross_q", *_divided(cross))
        self._cross_out = pack(f"{name}.cross_out", cross.w_o.weight, cross.w_o.bias)
        self._add_norm_1, self._add_norm_2 = _AddAndNorm(model.add_norm_1), _AddAndNorm(model.add_norm_2)
        self._feed_forward = _FeedForward(name, model.feed_forward, model.add_norm_3, pack)

    def __call__(self, x: Tensor, own: Attends, cross: Attends) -> Tensor:
        """(N, D) -> (N, D)."""
        x = self._add_norm_1.after(x, self._own_out(own.attend(self._qkv(self._add_norm_1.before(x)))))
        x = self._add_norm_2.after(x, self._cross_out(cross.attend(self._cross_q(self._add_norm_2.before(x)))))
        return self._feed_forward(x)


def _divided(attention: MultiHeadAttention) -> tuple[Tensor, Tensor]:
    """W^Q and its bias over sqrt(d_k): equation (1)'s division, done once."""
    root = math.sqrt(attention.w_q.out_features // attention.n_heads)
    return attention.w_q.weight / root, attention.w_q.bias / root


def _queries_keys_values(name: str, attention: MultiHeadAttention, pack: Pack) -> Linear:
    k, v = attention.w_k, attention.w_v
    return pack(name, *_side_by_side([_divided(attention), (k.weight, k.bias), (v.weight, v.bias)]))


def _side_by_side(maps: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
    """The weight and the bias of one map that gives the outputs of all."""
    return torch.cat([weight for weight, _ in maps]), torch.cat([bias for _, bias in maps])
