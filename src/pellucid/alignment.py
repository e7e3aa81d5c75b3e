"""Which source token each target token looks at: cross-attention (section 3.2.3) with the translation given.

    weights[t, s] = mean over heads of the weight with which the decoder, at target token t, attends to source token s

Which layer aligns best differs from model to model, and so does the position that stands for a token: the one that
predicts it, or the one whose input it is (Chen et al. 2020, 2004.14837). :mod:`pellucid.calibrating` measures it; where it
was not, it is the mean of all layers, at the position that predicts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from pellucid.calibration import Reading
from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer


def cross_attention(model: Transformer, src: Tensor, tgt: Tensor) -> list[Tensor]:
    """Of each decoder layer the mean of its heads, (B, T, S), for source ids (B, S) and the decoder's input (B, T).

    The decoder's forward pass (Figure 1, right) written out: who else uses the model at the same time sees no hooks.
    """
    mask = model.padding_mask(src)
    memory = model.encode(src, mask)
    causal = causal_mask(tgt.size(1), tgt.device)
    x = model.tgt_positions(model.tgt_embedding(tgt), 0)
    layers: Any = model.decoder.layers
    found = []
    for layer in layers:
        h = layer.add_norm_1.before(x)
        x = layer.add_norm_1(x, layer.self_attention(h, h, h, causal, need_weights=False)[0])
        h = layer.add_norm_2.before(x)
        output, weights = layer.cross_attention(h, memory, memory, mask, need_weights=True)  # weights (B, H, T, S)
        found.append(weights.mean(1))
        x = layer.add_norm_2(x, output)
        x = layer.add_norm_3(x, layer.feed_forward(layer.add_norm_3.before(x)))
    return found


def aligned(layers: Sequence[Tensor], reading: Reading) -> Tensor:
    """(B, T, S) of the T tokens that follow the start, from the layers' (B, T + 1, S)."""
    known = reading.layer is not None and 0 <= reading.layer < len(layers)
    weights = layers[reading.layer or 0] if known else torch.stack(list(layers)).mean(0)
    return weights[:, 1:] if reading.rows == "input" else weights[:, :-1]
