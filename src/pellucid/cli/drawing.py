"""Attention of a trace, drawn in the terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pellucid.terminal import LEGEND, attention_map

if TYPE_CHECKING:
    from torch import Tensor

    from pellucid.inspection.recorder import Head
    from pellucid.inspection.trace import AttentionMaps, Trace

NAMES = {"encoder": "encoder self-attention", "decoder": "decoder self-attention", "cross": "cross-attention"}


def attention_lines(trace: Trace, head: Head | None = None, pieces: bool = False) -> list[str]:
    """A map with its title and its legend.

    Args:
        head: whose attention; None: the mean of all heads of the layer with the sharpest cross-attention.
        pieces: draw pieces and not words.
    """
    maps = trace.maps("cross" if head is None else head.kind)
    if head is None:
        means = maps.weights.mean(1)  # (L, T, S)
        layer = int(means.amax(-1).mean(-1).argmax())
        weights, heads = means[layer], maps.weights.size(1)
        title = f"{NAMES['cross']} of decoder layer {layer + 1}, mean of its {heads} heads"
    else:
        weights = maps.weights[head.layer, head.head]
        title = f"{NAMES[head.kind]}, layer {head.layer + 1}, head {head.head + 1}"
    return _lines(title, weights, maps, pieces)


def rollout_lines(trace: Trace, pieces: bool = False) -> list[str]:
    """What of the source each word was made from, through all layers: see :func:`~pellucid.inspection.measures.rollout`."""
    from torch import from_numpy

    from pellucid.inspection.measures import decoder_rollout, rollout

    encoder, decoder, cross = (
        maps.weights.mean(1).double().numpy() for maps in (trace.encoder, trace.decoder, trace.cross)
    )
    source = from_numpy(decoder_rollout(decoder, cross, rollout(encoder)[-1])[0][-1])  # (T, S)
    share = source.sum(-1, keepdim=True)
    title = f"rollout through all layers; on average {share.mean():.0%} comes from the source, the rest from the translation"
    return _lines(title, source / share, trace.cross, pieces)


def _lines(title: str, weights: Tensor, maps: AttentionMaps, pieces: bool) -> list[str]:
    from pellucid.inspection.words import merge

    rows, columns = maps.rows, maps.columns
    names, under = (rows.texts, columns.texts) if pieces else (rows.word_texts, columns.word_texts)
    if not pieces:
        weights = merge(weights, rows.words, columns.words)
    if maps.kind != "encoder" and len(names) > 1 and rows.tokens[-1].kind == "control":
        names, weights = names[:-1], weights[:-1]  # where it looked for the end mark says little
    lines = attention_map(weights.tolist(), [_shown(name) for name in under], [_shown(name) for name in names])
    return [f"  ({title})", "", *(f"  {line}" for line in lines), "", f"  {LEGEND}"]


def _shown(name: str) -> str:
    return {"</s>": "(end)", "<s>": "(start)"}.get(name, name)
