"""The numbers that flow through one layer at one position: Figure 1 with real values.

Everything is what the model's own modules computed in one pass, read by hooks; nothing is computed a second way.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.errors import DataError
from pellucid.inspection.gates import without
from pellucid.inspection.recorder import Head, attentions, recorded
from pellucid.inspection.trace import Trace
from pellucid.inspection.words import Token, tokens_of
from pellucid.model.masks import causal_mask
from pellucid.search import log_probabilities
from pellucid.translator import Translator

LIKELIEST = 10
"""Next words that are shown."""


@dataclass(frozen=True)
class Flow:
    """What happens to one position in one layer, in the order of Figure 1. D, K, F, S as everywhere."""

    head: Head
    position: int
    token: Token
    """The input token of this position."""
    embedding: Tensor
    """(D,), times sqrt(d_model)."""
    position_vector: Tensor
    """(D,)."""
    sum: Tensor
    """(D,): what enters the first layer."""
    input: Tensor
    """(D,): what enters this attention."""
    normed: Tensor | None
    """(D,): the input after LayerNorm; of pre-norm models only."""
    q: Tensor
    """(K,)."""
    k: Tensor
    """(S, K)."""
    v: Tensor
    """(S, K)."""
    scores: Tensor
    """(S,): q k / sqrt(d_k)."""
    may_attend: Tensor
    """(S,) of bool."""
    weights: Tensor
    """(S,): the softmax of the scores that are left."""
    weighted_sum: Tensor
    """(K,): this head's output."""
    attention_output: Tensor
    """(D,): all heads through W^O."""
    add_norm: Tensor
    """(D,): after the residual sum (and LayerNorm, of post-norm models)."""
    hidden: Tensor
    """(F,): inside the feed-forward network, after ReLU."""
    feed_forward: Tensor
    """(D,)."""
    output: Tensor
    """(D,): what leaves the layer."""
    next: tuple[tuple[Token, float], ...]
    """Of a decoder: the likeliest tokens after this position, with their probabilities."""


@torch.inference_mode()
def flow(translator: Translator, trace: Trace, head: Head, position: int) -> Flow:
    """The numbers at `position` (from 0) of the queries of `head`'s attention.

    Raises:
        DataError: there is no such position.
    """
    side = trace.maps(head.kind).row_inputs
    if not 0 <= position < len(side):
        raise DataError(f"`position` must be from 0 to {len(side) - 1}, but is {position}")
    model = translator.model
    device = model.output.weight.device
    source = torch.tensor([trace.source_ids], device=device)
    target = torch.tensor([trace.decoder_ids], device=device)
    encoder = head.kind == "encoder"
    stack: Any = model.encoder if encoder else model.decoder
    layer = stack.layers[head.layer]
    attention = attentions(model)[head.kind][head.layer]
    add_norm = layer.add_norm_2 if head.kind == "cross" else layer.add_norm_1
    watched = {
        "attention": attention, "q": attention.w_q, "k": attention.w_k, "v": attention.w_v, "add_norm": add_norm,
        "w_1": layer.feed_forward.w_1, "feed_forward": layer.feed_forward, "layer": layer,
    }  # fmt: skip
    with without(model, trace.off), recorded(model) as recording, _tape(watched) as tape:
        logits = model(source, target)[0]
    ids, embed = (source, model.src_embedding) if encoder else (target, model.tgt_embedding)
    positions = model.src_positions if encoder else model.tgt_positions
    embedding = embed(ids)
    position_vector = positions(torch.zeros_like(embedding))

    def part(name: str) -> Tensor:
        return tape[name][0].unflatten(-1, (model.config.n_heads, -1))[:, head.head]  # (., K)

    q, k = part("q")[position], part("k")
    recorded_here = recording.of(head.kind)[head.layer]
    may_attend = torch.ones(k.size(0), dtype=torch.bool)
    if head.kind == "decoder":
        may_attend = causal_mask(k.size(0))[position]
    x = tape["add_norm.in"][0, position]
    return Flow(
        head=head,
        position=position,
        token=side.tokens[position],
        embedding=embedding[0, position],
        position_vector=position_vector[0, position],
        sum=embedding[0, position] + position_vector[0, position],
        input=x,
        normed=tape["attention.in"][0, position] if add_norm.pre else None,
        q=q,
        k=k,
        v=part("v"),
        scores=k @ q / math.sqrt(q.numel()),
        may_attend=may_attend,
        weights=recorded_here.weights[0, head.head, position],
        weighted_sum=recorded_here.heads[0, head.head, position],
        attention_output=tape["attention"][0, position],
        add_norm=tape["add_norm"][0, position],
        hidden=tape["w_1"][0, position].relu(),
        feed_forward=tape["feed_forward"][0, position],
        output=tape["layer"][0, position],
        next=() if encoder else _next(translator, logits[position]),
    )


def _next(translator: Translator, logits: Tensor) -> tuple[tuple[Token, float], ...]:
    probabilities = log_probabilities(logits.clone(), translator.vocabulary.forbidden).exp()
    best = probabilities.topk(min(LIKELIEST, probabilities.numel()))
    tokens = tokens_of(translator.target_tokenizer, best.indices.tolist())
    return tuple(zip(tokens, best.values.tolist(), strict=True))


@contextmanager
def _tape(modules: Mapping[str, nn.Module]) -> Iterator[dict[str, Tensor]]:
    """Inside, each module's output (of an attention the vectors) and first input stand under its name and `name.in`."""
    tape: dict[str, Tensor] = {}

    def listen(name: str) -> Any:
        def keep(module: Any, arguments: tuple[Tensor, ...], output: Any) -> None:
            tape[f"{name}.in"] = arguments[0]
            tape[name] = output[0] if isinstance(output, tuple) else output

        return keep

    handles = [module.register_forward_hook(listen(name)) for name, module in modules.items()]
    try:
        yield tape
    finally:
        for handle in handles:
            handle.remove()
