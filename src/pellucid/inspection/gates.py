"""Switching heads off: MultiHead = Concat(g_1 head_1, ..., g_h head_h) W^O with gates g (Michel et al. 2019, section 2.3).

A gate of 0 is the same as zeros in that head's rows of W^O; the bias of W^O stays. All gates 1 changes no bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from pellucid.inspection.recorder import KINDS, Head, Kind, attentions
from pellucid.model.transformer import Transformer

Gates = Mapping[Kind, Tensor]
"""For each kind of attention (L, H), or (L, B, H) with gates of its own for each sentence: 1 a head as it is, 0 switched
off. A kind that is missing stays as it is."""


def gates_without(model: Transformer, off: Iterable[Head]) -> dict[Kind, Tensor]:
    """Gates that are 0 for the heads of `off`, and 1 else."""
    weight = model.output.weight
    layers = attentions(model)
    gates = {kind: weight.new_ones(len(layers[kind]), model.config.n_heads) for kind in KINDS}
    for head in off:
        gates[head.kind][head.layer, head.head] = 0.0
    return gates


@contextmanager
def gated(model: Transformer, gates: Gates, means: Mapping[Kind, Tensor] | None = None) -> Iterator[None]:
    """Inside, every head's output is multiplied by its gate. Gates may require gradients.

    Args:
        means: for each kind (L, H, K), what is put in the place of a head that is off, in proportion to 1 - g: with the
            mean of its outputs over a corpus this is the gentler control (mean ablation). None: zeros.
    """
    handles: list[Any] = []

    def multiply(gate: Tensor, mean: Tensor | None) -> Any:
        def hook(module: Any, arguments: tuple[Tensor]) -> tuple[Tensor]:
            (x,) = arguments  # (B, T, D)
            gates = gate[..., None, :, None]  # (1, H, 1) or (B, 1, H, 1)
            heads = x.unflatten(-1, (gate.size(-1), -1)) * gates  # (B, T, H, K)
            if mean is not None:
                heads = heads + (1 - gates) * mean
            return (heads.flatten(-2),)

        return hook

    try:
        for kind, layers in attentions(model).items():
            if kind not in gates:
                continue
            for number, attention in enumerate(layers):
                mean = None if means is None or kind not in means else means[kind][number]
                handles.append(attention.w_o.register_forward_pre_hook(multiply(gates[kind][number], mean)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def without(model: Transformer, off: Iterable[Head]) -> Any:
    """:func:`gated` with the heads of `off` switched off."""
    return gated(model, gates_without(model, off))
