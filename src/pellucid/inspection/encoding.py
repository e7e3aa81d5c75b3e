"""What the page is told, as JSON: the one place that knows its form.

Maps of attention go as base64: for the thumbnails a byte a weight, and the model's own float32 numbers (little-endian)
for the head that is open. Layers, heads and positions count from 0.
"""

from __future__ import annotations

import base64
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from pellucid.inspection.flow import Flow
from pellucid.inspection.recorder import KINDS
from pellucid.inspection.trace import AttentionMaps, BeamTree, Trace
from pellucid.inspection.words import Side, Token
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator
from pellucid.version import __version__

RIGHT_TO_LEFT = {"ar", "arc", "ckb", "dv", "fa", "he", "iw", "ks", "ps", "sd", "ug", "ur", "yi"}
SHAPE = (
    "d_model", "n_heads", "num_encoder_layers", "num_decoder_layers", "d_ff", "src_vocab", "tgt_vocab", "dropout",
    "norm", "positions", "max_len", "share_embeddings",
)  # fmt: skip

Json = dict[str, Any]


def float32(numbers: Tensor) -> str:
    """Numbers in their order as little-endian float32, base64."""
    return base64.b64encode(numbers.detach().cpu().contiguous().numpy().astype("<f4").tobytes()).decode()


def bytes_of(weights: Tensor) -> str:
    """Weights from 0 to 1 as a byte each, base64: for colours, not for numbers."""
    return base64.b64encode(weights.mul(255).round().to(torch.uint8).numpy().tobytes()).decode()


def rounded(number: float) -> float | None:
    """Six significant digits; None for what is no number, which JSON does not know."""
    return float(f"{number:.6g}") if math.isfinite(number) else None


def numbers_of(x: Tensor) -> list[Any]:
    """A tensor as nested lists of :func:`rounded` numbers."""
    values = x.detach().cpu().double().numpy()
    flat = [rounded(value) for value in values.ravel().tolist()]
    return np.array(flat, dtype=object).reshape(values.shape).tolist()


def token_json(token: Token) -> Json:
    return {"text": token.text, "id": token.id, "kind": token.kind}


def side_json(side: Side) -> Json:
    return {"tokens": [token_json(token) for token in side.tokens], "words": [list(word) for word in side.words]}


def maps_json(maps: AttentionMaps) -> Json:
    layers, heads, rows, columns = maps.weights.shape
    return {"layers": layers, "heads": heads, "rows": rows, "columns": columns, "weights": bytes_of(maps.weights)}


def beam_json(beam: BeamTree) -> Json:
    return {
        "size": beam.size,
        "alpha": beam.alpha,
        "steps": [
            [
                {
                    "parent": node.parent, "token": token_json(node.token), "log_prob": rounded(node.log_prob),
                    "total": rounded(node.total), "score": rounded(node.score), "state": node.state,
                }
                for node in nodes
            ]
            for nodes in beam.steps
        ],
        "best": list(beam.best),
    }  # fmt: skip


def trace_json(trace: Trace) -> Json:
    """A whole trace, its maps as thumbnails."""
    return {
        "text": trace.text,
        "translation": trace.translation,
        "forced": trace.forced,
        "off": [str(head) for head in trace.off],
        "score": rounded(trace.score),
        "log_prob": rounded(trace.log_prob),
        "flags": list(trace.flags),
        "source": side_json(trace.source),
        "target": {**side_json(trace.target), "log_probs": [rounded(x) for x in trace.log_probs]},
        "start": token_json(trace.start),
        "alternatives": [
            {
                "text": a.text, "score": rounded(a.score), "log_prob": rounded(a.log_prob), "ids": list(ids),
                "finished": a.finished,
            }
            for a, ids in trace.alternatives
        ],
        "attention": {kind: maps_json(trace.maps(kind)) for kind in KINDS},
        "beam": None if trace.beam is None else beam_json(trace.beam),
    }  # fmt: skip


def head_json(maps: AttentionMaps, layer: int, head: int) -> Json:
    """One head at full precision."""
    weights = maps.weights[layer, head]
    return {
        "weights": float32(weights), "norms": float32(maps.norms[layer, head]), "rows": weights.size(0),
        "columns": weights.size(1),
    }  # fmt: skip


def flow_json(flow: Flow) -> Json:
    """See :class:`~pellucid.inspection.flow.Flow`."""
    vectors = (
        "embedding", "position_vector", "sum", "input", "q", "k", "v", "scores", "weights", "weighted_sum",
        "attention_output", "add_norm", "hidden", "feed_forward", "output",
    )  # fmt: skip
    decoder = flow.head.kind != "encoder"
    return {
        "side": "target" if decoder else "source",
        "kind": flow.head.kind,
        "position": flow.position,
        "token": token_json(flow.token),
        "layer": flow.head.layer,
        "head": flow.head.head,
        **{name: numbers_of(getattr(flow, name)) for name in vectors},
        "normed": None if flow.normed is None else numbers_of(flow.normed),
        "masked": flow.may_attend.tolist(),
        "next": [{"token": token_json(t), "probability": rounded(p)} for t, p in flow.next] if decoder else None,
    }


def positions_json(model: Transformer, length: int) -> Json:
    """The table that is added to the source's embeddings, its first `length` positions (or all that there are)."""
    config = model.config
    if config.positions == "learned":
        length = min(length, config.max_len)
    with torch.inference_mode():
        weight = model.output.weight
        table = model.src_positions(torch.zeros(1, length, config.d_model, device=weight.device))[0]
    return {
        "kind": config.positions, "d_model": config.d_model, "max_len": config.max_len, "length": length,
        "table": float32(table),
    }  # fmt: skip


def model_json(translator: Translator, name: str) -> Json:
    """What a model is."""
    loaded, config = translator.loaded, translator.model.config
    languages = {"source": loaded.source_language, "target": translator.target_language}
    search = translator.loaded.search
    return {
        "name": name,
        "version": __version__,
        "sourceLanguage": languages["source"],
        "targetLanguage": languages["target"],
        "rightToLeft": {side: (code or "").split("-")[0].lower() in RIGHT_TO_LEFT for side, code in languages.items()},
        "parameters": sum(p.numel() for p in translator.model.parameters()),
        "config": {**{field: getattr(config, field) for field in SHAPE}, "activation": "relu"},
        "search": {
            "beam_size": search.beam_size, "length_penalty": search.length_penalty, "n_best": search.n_best,
        },
    }  # fmt: skip
