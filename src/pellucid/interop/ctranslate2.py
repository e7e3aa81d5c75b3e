"""A model as a CTranslate2 folder (https://opennmt.net/CTranslate2/, extra `ct2`), for anybody's `ctranslate2.Translator`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from pellucid.errors import ConfigError
from pellucid.model.attention import MultiHeadAttention
from pellucid.model.feed_forward import FeedForward
from pellucid.model.stacks import AddAndNorm, DecoderLayer, EncoderLayer
from pellucid.model.transformer import Transformer

IMPOSSIBLE = -1e9
"""Added to a logit: no probability is left in float32."""
LONGEST = 1024
"""Positions that are written at least where the model computes its sinusoids: CTranslate2 cuts longer sources anyway."""


def write_ctranslate2(
    model: Transformer,
    directory: Path,
    source_pieces: Sequence[str],
    target_pieces: Sequence[str],
    start_id: int,
    forbidden: Sequence[int],
    *,
    quantization: str = "float32",
    add_source_end: bool = True,
) -> None:
    """Write `model` into the folder `directory`, which is made if it is not there.

    Args:
        source_pieces, target_pieces: what stands for each id; CTranslate2 is given and gives back these.
        start_id: what the decoder is fed first.
        forbidden: target ids that have no probability (padding, start).
        quantization: float32, int8 or int16, for the file.
        add_source_end: CTranslate2 puts the end mark behind each source; otherwise whoever calls it does.

    Raises:
        ConfigError: ctranslate2 is not installed, or two ids have the same piece.
    """
    specs = _installed().specs
    config = model.config
    for side, pieces in (("source", source_pieces), ("target", target_pieces)):
        if len(set(pieces)) != len(pieces):
            twice = next(p for i, p in enumerate(pieces) if p in pieces[:i])
            raise ConfigError(f"the {side} vocabulary has {twice!r} twice, and CTranslate2 could not tell them apart")
    spec = specs.TransformerSpec.from_config(
        (config.num_encoder_layers, config.num_decoder_layers), config.n_heads, pre_norm=config.norm == "pre"
    )
    sides = (
        (spec.encoder, spec.encoder.embeddings[0], model.src_embedding, model.src_positions, model.encoder),
        (spec.decoder, spec.decoder.embeddings, model.tgt_embedding, model.tgt_positions, model.decoder),
    )
    for side_spec, embedding, weights, positions, stack in sides:
        embedding.weight = _copy(weights.weight)
        side_spec.scale_embeddings = weights.scale
        if config.positions == "sinusoidal" and len(positions.table) < LONGEST:
            positions(torch.zeros(1, LONGEST, config.d_model))  # makes its table longer
        side_spec.position_encodings.encodings = _copy(positions.table)
        if config.norm == "pre":
            _layer_norm(side_spec.layer_norm, cast("nn.LayerNorm", stack.norm))
    encoder = cast("list[EncoderLayer]", list(model.encoder.layers))
    decoder = cast("list[DecoderLayer]", list(model.decoder.layers))
    for layer, of in zip(spec.encoder.layer, encoder, strict=True):
        _self_attention(layer.self_attention, of.self_attention, of.add_norm_1)
        _feed_forward(layer.ffn, of.feed_forward, of.add_norm_2)
    for layer, ours in zip(spec.decoder.layer, decoder, strict=True):
        _self_attention(layer.self_attention, ours.self_attention, ours.add_norm_1)
        cross = ours.cross_attention
        _maps(layer.attention.linear[0], [cross.w_q])
        _maps(layer.attention.linear[1], [cross.w_k, cross.w_v])
        _maps(layer.attention.linear[2], [cross.w_o])
        _layer_norm(layer.attention.layer_norm, ours.add_norm_2.norm)
        _feed_forward(layer.ffn, ours.feed_forward, ours.add_norm_3)
    spec.decoder.projection.weight = _copy(model.output.weight)
    # Ours has no bias. What CTranslate2 is told at a call to suppress keeps its share of the probability.
    bias = torch.zeros(config.tgt_vocab)
    bias[list(forbidden)] = IMPOSSIBLE
    spec.decoder.projection.bias = bias.numpy()

    spec.register_source_vocabulary(list(source_pieces))
    spec.register_target_vocabulary(list(target_pieces))
    spec.config.bos_token = target_pieces[config.eos_id]  # there is none; it is never used
    spec.config.eos_token = target_pieces[config.eos_id]
    spec.config.unk_token = target_pieces[config.unk_id]
    spec.config.decoder_start_token = target_pieces[start_id]
    spec.config.add_source_bos, spec.config.add_source_eos = False, add_source_end
    spec.config.layer_norm_epsilon = decoder[0].add_norm_1.norm.eps
    spec.validate()
    spec.optimize(quantization=quantization)
    directory.mkdir(parents=True, exist_ok=True)
    spec.save(str(directory))


def load_ctranslate2(
    model: Transformer, start_id: int, forbidden: Sequence[int], compute_type: str, threads: int, together: bool = False
) -> Any:
    """A `ctranslate2.Translator` of `model` whose pieces are the ids, written as numbers; it wants end marks given.

    Args:
        threads: that translate at once, each a part of what it is given; with `together` all work on the same part.

    Raises:
        ConfigError: ctranslate2 is not installed.
    """
    ctranslate2 = _installed()
    source, target = ([str(i) for i in range(n)] for n in (model.config.src_vocab, model.config.tgt_vocab))
    with tempfile.TemporaryDirectory(prefix="pellucid-ctranslate2-") as folder:
        write_ctranslate2(model, Path(folder), source, target, start_id, forbidden, add_source_end=False)
        return ctranslate2.Translator(
            folder,
            compute_type=compute_type,
            inter_threads=1 if together else threads,
            intra_threads=threads if together else 1,
        )


def _installed() -> Any:
    try:
        import ctranslate2
        import ctranslate2.specs
    except ImportError as error:
        raise ConfigError("CTranslate2 is not installed", hint="pip install 'pellucid[ct2]'") from error
    return ctranslate2


def _copy(tensor: Tensor) -> Any:
    return tensor.detach().clone().numpy()  # CTranslate2 quantizes in place


def _maps(spec: Any, maps: Sequence[nn.Linear]) -> None:
    spec.weight = _copy(torch.cat([m.weight for m in maps]))
    spec.bias = _copy(torch.cat([m.bias for m in maps]))


def _layer_norm(spec: Any, norm: nn.LayerNorm) -> None:
    spec.gamma, spec.beta = _copy(norm.weight), _copy(norm.bias)


def _self_attention(spec: Any, attention: MultiHeadAttention, add_norm: AddAndNorm) -> None:
    _maps(spec.linear[0], [attention.w_q, attention.w_k, attention.w_v])
    _maps(spec.linear[1], [attention.w_o])
    _layer_norm(spec.layer_norm, add_norm.norm)


def _feed_forward(spec: Any, feed_forward: FeedForward, add_norm: AddAndNorm) -> None:
    _maps(spec.linear_0, [feed_forward.w_1])
    _maps(spec.linear_1, [feed_forward.w_2])
    _layer_norm(spec.layer_norm, add_norm.norm)
