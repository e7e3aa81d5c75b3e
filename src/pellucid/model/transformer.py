"""Section 3, Figure 1: the whole model.

    source ids -> embedding + position -> encoder -> memory
    target ids -> embedding + position -> decoder (masked; looks at the memory) -> linear -> logits

The probabilities of Figure 1 are softmax(logits); the loss and the search take the logits.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch import Tensor, nn

from pellucid.config import TransformerConfig
from pellucid.model.cache import KeyValueCache
from pellucid.model.dropout import dropout
from pellucid.model.embeddings import TokenEmbedding
from pellucid.model.masks import causal_mask, padding_mask
from pellucid.model.positional_encoding import LearnedPositionalEncoding, PositionalEncoding
from pellucid.model.stacks import Decoder, Encoder


class Transformer(nn.Module):
    """The encoder-decoder Transformer. The defaults are the paper's base model.

    Masks that are not given are made here: the source's padding is hidden (if there is a `pad_id`), and the decoder's
    self-attention sees no later position. Padding at the end of a target needs no mask: no earlier position sees it.

    Args:
        options: further fields of :class:`~pellucid.config.TransformerConfig` (norm, positions, share_embeddings, ...).

    Raises:
        ConfigError: values that do not fit together.
    """

    def __init__(
        self,
        src_vocab: int,
        tgt_vocab: int,
        d_model: int = 512,
        n_heads: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        d_ff: int = 2048,
        dropout: float = 0.1,
        max_len: int = 5000,
        **options: Any,
    ) -> None:
        super().__init__()
        config = self.config = TransformerConfig(
            src_vocab, tgt_vocab, d_model, n_heads, num_encoder_layers, num_decoder_layers, d_ff, dropout, max_len,
            **options,
        )  # fmt: skip
        self.src_embedding = TokenEmbedding(src_vocab, d_model, config.source_pad)
        self.tgt_embedding = (
            self.src_embedding
            if config.share_embeddings == "all"
            else TokenEmbedding(tgt_vocab, d_model, config.pad_id)
        )
        positions = PositionalEncoding if config.positions == "sinusoidal" else LearnedPositionalEncoding
        self.src_positions = positions(d_model, max_len)
        self.tgt_positions = self.src_positions if config.share_embeddings == "all" else positions(d_model, max_len)
        layer: dict[str, Any] = {
            "norm": config.norm,
            "attention_dropout": config.attention_dropout,
            "activation_dropout": config.activation_dropout,
        }
        self.encoder = Encoder(num_encoder_layers, d_model, n_heads, d_ff, dropout, **layer)
        self.decoder = Decoder(num_decoder_layers, d_model, n_heads, d_ff, dropout, **layer)
        self.output = nn.Linear(d_model, tgt_vocab, bias=False)
        self._initialise()
        if config.share_embeddings != "none":
            self.output.weight = self.tgt_embedding.weight  # section 3.4

    @classmethod
    def from_config(cls, config: TransformerConfig) -> Transformer:
        return cls(**dataclasses.asdict(config))

    def _initialise(self) -> None:
        """Xavier's uniform distribution for every matrix but the embeddings (theirs: variance 1 / d_model), biases 0.

        W^Q, W^K and W^V are drawn as if they were the one matrix of D x 3D that most programs make of them, which is
        Xavier's with a gain of 1 / sqrt(2). With the full gain post-norm learns markedly slower (docs/log.md).
        """
        for name, module in self.named_modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight, gain=2**-0.5 if name.endswith((".w_q", ".w_k", ".w_v")) else 1.0)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def padding_mask(self, src: Tensor) -> Tensor | None:
        """(B, 1, 1, S) that hides the padding of `src` (B, S); None where nothing is padding."""
        pad_id = self.config.source_pad
        return None if pad_id is None else padding_mask(src, pad_id)

    def encode(self, src: Tensor, src_mask: Tensor | None = None) -> Tensor:
        """Source ids (B, S) -> memory (B, S, D)."""
        src_mask = self.padding_mask(src) if src_mask is None else src_mask
        return self.encoder(self._dropped(self.src_positions(self.src_embedding(src))), src_mask)

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: KeyValueCache | None = None,
    ) -> Tensor:
        """Target ids (B, T), shifted right, and memory (B, S, D) -> (B, T, D), which :meth:`project` turns into logits.

        With a cache, `tgt` holds the positions that it has not seen yet.
        """
        start = 0 if cache is None else cache.length
        if tgt_mask is None and tgt.size(1) > 1:  # a single newest position sees all there is
            tgt_mask = causal_mask(start + tgt.size(1), tgt.device)[start:]  # (T, start + T)
        x = self._dropped(self.tgt_positions(self.tgt_embedding(tgt), start))
        return self.decoder(x, memory, tgt_mask, memory_mask, cache)

    def project(self, x: Tensor) -> Tensor:
        """(..., D) -> logits (..., V)."""
        return self.output(x)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
    ) -> Tensor:
        """Source ids (B, S) and target ids (B, T), shifted right -> logits (B, T, V) of the token after each position.

        `memory_mask` is the source's mask for the decoder; None: what is hidden from every position of the encoder (the
        padding) is hidden from the decoder too.
        """
        if memory_mask is None:
            same_for_all = src_mask is not None and src_mask.dim() > 2 and src_mask.size(-2) == 1
            memory_mask = src_mask if same_for_all else self.padding_mask(src)
        return self.project(self.decode(tgt, self.encode(src, src_mask), tgt_mask, memory_mask))

    def _dropped(self, x: Tensor) -> Tensor:
        return dropout(x, self.config.dropout, self.training)  # section 5.4: on the sums of embedding and position


class DecoderState:
    """What a search steps through: the sources, encoded once, and all that the decoder has seen so far.

    Args:
        model: in evaluation mode.
        src: source ids (B, S), padded.
    """

    def __init__(self, model: Transformer, src: Tensor) -> None:
        self._model = model
        self._mask = model.padding_mask(src)
        self._memory = model.encode(src, self._mask)  # (B, S, D)
        self._cache = KeyValueCache(model.config.num_decoder_layers)

    def step(self, tokens: Tensor) -> Tensor:
        """The newest token of each row (N,) -> logits (N, V) of the next one. N is B times rows per sentence."""
        tokens = tokens.to(self._memory.device)
        x = self._model.decode(tokens[:, None], self._memory, None, self._mask, self._cache)
        return self._model.project(x[:, -1])

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """See :meth:`KeyValueCache.reorder`."""
        self._cache.reorder(rows, sources)
        if sources is not None:
            self._memory = self._memory.index_select(0, sources)
            self._mask = None if self._mask is None else self._mask.index_select(0, sources)
