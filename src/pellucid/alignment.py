"""Which source token each target token looks at: cross-attention (section 3.2.3) with the translation given.

    weights[t, s] = mean over layers and heads of the weight with which the decoder attends to source token s where it
                    predicts target token t

Of single layers some align much better than others, and which differs from model to model; the mean of all was as good as
the best. (:mod:`pellucid.inspection.alignment` has the other ways of reading.)
"""

from __future__ import annotations

from typing import Any

from torch import Tensor

from pellucid.model.masks import causal_mask
from pellucid.model.transformer import Transformer


def cross_attention(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """(B, T, S), the mean over layers and heads, for source ids (B, S) and the decoder's input (B, T).

    The decoder's forward pass (Figure 1, right) written out: who else uses the model at the same time sees no hooks.
    """
    mask = model.padding_mask(src)
    memory = model.encode(src, mask)
    causal = causal_mask(tgt.size(1), tgt.device)
    x = model.tgt_positions(model.tgt_embedding(tgt), 0)
    layers: Any = model.decoder.layers
    total = memory.new_zeros(tgt.size(0), tgt.size(1), src.size(1))
    for layer in layers:
        h = layer.add_norm_1.before(x)
        x = layer.add_norm_1(x, layer.self_attention(h, h, h, causal, need_weights=False)[0])
        h = layer.add_norm_2.before(x)
        output, weights = layer.cross_attention(h, memory, memory, mask, need_weights=True)  # weights (B, H, T, S)
        total += weights.mean(1)
        x = layer.add_norm_2(x, output)
        x = layer.add_norm_3(x, layer.feed_forward(layer.add_norm_3.before(x)))
    return total / len(layers)
