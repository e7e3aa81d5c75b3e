"""Section 3.1: encoder and decoder stacks, Figure 1.

Every sub-layer is wrapped in "Add & Norm": LayerNorm(x + Dropout(Sublayer(x))) (section 3.1; the dropout is section
5.4's). That is ``norm="post"``. ``norm="pre"``, beyond the paper, is x + Dropout(Sublayer(LayerNorm(x))) with one more
LayerNorm at the end of each stack; it trains at high learning rates with no warm-up.
"""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from pellucid.model.attention import MultiHeadAttention
from pellucid.model.cache import KeyValueCache, KeyValues
from pellucid.model.dropout import dropout
from pellucid.model.feed_forward import FeedForward


class AddAndNorm(nn.Module):
    """The residual sum and the normalisation around one sub-layer."""

    def __init__(self, d_model: int, dropout: float, norm: str) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(d_model)
        self.dropout = dropout
        self.pre = norm == "pre"

    def before(self, x: Tensor) -> Tensor:
        """What the sub-layer is given."""
        return self.norm(x) if self.pre else x

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        """What leaves: `x` (B, T, D) and the sub-layer's output of the same shape, summed."""
        x = x + dropout(sublayer, self.dropout, self.training)
        return x if self.pre else self.norm(x)


class EncoderLayer(nn.Module):
    """Figure 1, left: self-attention, then the feed-forward network."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        *,
        norm: str = "post",
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, norm)

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        h = self.add_norm_1.before(x)
        x = self.add_norm_1(x, self.self_attention(h, h, h, src_mask, need_weights=False)[0])
        return self.add_norm_2(x, self.feed_forward(self.add_norm_2.before(x)))


class DecoderLayer(nn.Module):
    """Figure 1, right: masked self-attention, attention to the encoder's output, then the feed-forward network."""

    def __init__(
        self,
        d_model: int,
        n_heads: int,
        d_ff: int,
        dropout: float = 0.1,
        *,
        norm: str = "post",
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.self_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.cross_attention = MultiHeadAttention(d_model, n_heads, attention_dropout)
        self.feed_forward = FeedForward(d_model, d_ff, activation_dropout)
        self.add_norm_1 = AddAndNorm(d_model, dropout, norm)
        self.add_norm_2 = AddAndNorm(d_model, dropout, norm)
        self.add_norm_3 = AddAndNorm(d_model, dropout, norm)

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        self_cache: KeyValues | None = None,
        cross_cache: KeyValues | None = None,
    ) -> Tensor:
        """`x` (B, T, D) and the encoder's output `memory` (B, S, D) -> (B, T, D)."""
        h = self.add_norm_1.before(x)
        x = self.add_norm_1(x, self.self_attention(h, h, h, tgt_mask, need_weights=False, cache=self_cache)[0])
        h = self.add_norm_2.before(x)
        x = self.add_norm_2(
            x, self.cross_attention(h, memory, memory, memory_mask, need_weights=False, cache=cross_cache)[0]
        )
        return self.add_norm_3(x, self.feed_forward(self.add_norm_3.before(x)))


class Encoder(nn.Module):
    """`num_layers` encoder layers. Further options (norm, ...) as for :class:`EncoderLayer`."""

    def __init__(
        self, num_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1, **options: Any
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, d_ff, dropout, **options) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model) if options.get("norm") == "pre" else nn.Identity()

    def forward(self, x: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """(B, S, D) -> (B, S, D)."""
        for layer in self.layers:
            x = layer(x, src_mask)
        return self.norm(x)


class Decoder(nn.Module):
    """`num_layers` decoder layers. Further options (norm, ...) as for :class:`DecoderLayer`."""

    def __init__(
        self, num_layers: int, d_model: int, n_heads: int, d_ff: int, dropout: float = 0.1, **options: Any
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(DecoderLayer(d_model, n_heads, d_ff, dropout, **options) for _ in range(num_layers))
        self.norm = nn.LayerNorm(d_model) if options.get("norm") == "pre" else nn.Identity()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """`x` (B, T, D), `memory` (B, S, D) -> (B, T, D)."""
        for i, layer in enumerate(self.layers):
            caches = (None, None) if cache is None else (cache.self_attention[i], cache.cross_attention[i])
            x = layer(x, memory, tgt_mask, memory_mask, *caches)
        return self.norm(x)
