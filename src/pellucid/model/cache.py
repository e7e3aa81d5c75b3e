"""Beyond the paper: keys and values kept between the steps of a search.

The decoder is fed one new position at a time; what it computed for the earlier ones does not change (the causal mask
sees to that), so it is kept. What is kept is overwritten in place, so no gradient goes through it. Hypotheses of one sentence are neighbouring rows. The one verb for beams is
:meth:`KeyValueCache.reorder`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from torch import Tensor

Projection = Callable[[], tuple[Tensor, Tensor]]


class KeyValues(Protocol):
    """What attention asks of a cache: all keys and values (rows, H, positions, K), the new ones included."""

    def extend(self, project: Projection) -> tuple[Tensor, Tensor]: ...


class GrowingKeyValues:
    """Self-attention's: each call adds the new positions behind the old ones. One row a hypothesis."""

    def __init__(self) -> None:
        self.length = 0
        self._buffers: list[Tensor] = []

    def extend(self, project: Projection) -> tuple[Tensor, Tensor]:
        new = project()  # each (N, H, T, K)
        start, self.length = self.length, self.length + new[0].size(2)
        if not self._buffers or self._buffers[0].size(2) < self.length:
            self._buffers = [self._grown(i, x) for i, x in enumerate(new)]
        for buffer, x in zip(self._buffers, new, strict=True):
            buffer[:, :, start : self.length] = x
        keys, values = (buffer[:, :, : self.length] for buffer in self._buffers)
        return keys, values

    def _grown(self, i: int, new: Tensor) -> Tensor:
        # Twice what is needed, so that a sequence of n positions is copied log2(n) times and not n times.
        rows, heads, _, width = new.shape
        grown = new.new_empty(rows, heads, max(16, 2 * self.length), width)
        if self._buffers:
            old = self._buffers[i]
            grown[:, :, : old.size(2)] = old
        return grown

    def reorder(self, rows: Tensor) -> None:
        # Only what is filled is copied.
        filled = [buffer[:, :, : self.length].index_select(0, rows) for buffer in self._buffers]
        self._buffers = filled


class FixedKeyValues:
    """Cross-attention's: computed from the memory at the first call and kept. One row a source sentence."""

    def __init__(self) -> None:
        self._kept: tuple[Tensor, Tensor] | None = None

    def extend(self, project: Projection) -> tuple[Tensor, Tensor]:
        if self._kept is None:
            self._kept = project()
        return self._kept

    def reorder(self, sources: Tensor) -> None:
        if self._kept is not None:
            keys, values = self._kept
            self._kept = keys.index_select(0, sources), values.index_select(0, sources)


class KeyValueCache:
    """The caches of all decoder layers."""

    def __init__(self, num_layers: int) -> None:
        self.self_attention = [GrowingKeyValues() for _ in range(num_layers)]
        self.cross_attention = [FixedKeyValues() for _ in range(num_layers)]

    @property
    def length(self) -> int:
        """How many target positions the decoder has seen."""
        return self.self_attention[0].length

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Keep, move, copy or drop hypotheses.

        Args:
            rows: (N',) for each new row, the old row it goes on from.
            sources: (B',) the source sentences that stay, in their new order; None keeps all as they are. The
                hypotheses of a sentence must be neighbours, and equally many for all sentences.
        """
        for growing in self.self_attention:
            growing.reorder(rows)
        if sources is not None:
            for fixed in self.cross_attention:
                fixed.reorder(sources)
