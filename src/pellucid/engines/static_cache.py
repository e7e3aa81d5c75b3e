"""Decoding on a GPU: every step in the same memory and in the same shapes, so that it is recorded once and then replayed.

A step of the decoder is some hundred small operations, and to start one from Python takes longer than the GPU needs for
it. A CUDA graph starts all of them at once. But it repeats exactly what it recorded: the same addresses, the same shapes.
So nothing here changes either from step to step:

    keys and values are written by index into memory that is as long as it will ever have to be, and a mask hides the
    positions that are still to come
    there are a few shapes, powers of two: a batch has the next larger one, and its last rows are computed for nothing
    a sentence that is finished leaves its rows empty; when half of them are, the others move to the next smaller shape
    a sentence's cross keys and values are there once, however many hypotheses it has

The layers are those of `executor.py`. With `bfloat16_pack` the products and the caches are bfloat16; the sums of "Add &
Norm", LayerNorm, softmax and the logits stay float32. On a CPU a step runs as it is written, which is how the tests
compare it with the readable model.

Dimensions as in `executor.py`: B sentences, R rows a sentence, N = B x R; S source and T target positions, L layers.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.engines.executor import Executor
from pellucid.engines.linear import Pack, bfloat16_pack
from pellucid.engines.search_engine import Request, StateEngine
from pellucid.model.transformer import DecoderState, Transformer
from pellucid.search import Hypothesis, Vocabulary, Watch

LEAST_SOURCE, LEAST_TARGET = 16, 32
"""The shortest lengths that there is a shape for."""
TOLERANCE = 0.03
"""How far off the logits may be, of their own size, in :func:`agrees`."""

Run = Callable[[], Tensor]
Record = Callable[[Run], Run]
"""Of a function that computes in fixed memory it makes one that does the same again, each result in the same memory."""


class Shape(NamedTuple):
    """What is fixed in a recorded step."""

    sentences: int
    rows: int
    """Of each sentence."""
    source: int
    target: int


class StaticExecutor:
    """An :class:`~pellucid.engines.executor.Executor` with memory of its own. One state at a time can use it.

    Args:
        record: what makes a step quick to repeat; None: :class:`CudaGraphs` on a GPU, and nothing elsewhere.
    """

    def __init__(self, model: Transformer, pack: Pack = bfloat16_pack, record: Record | None = None) -> None:
        self.executor = Executor(model, pack)
        self.device = model.output.weight.device
        if record is None:
            record = CudaGraphs(self.device) if self.device.type == "cuda" else lambda run: run
        self.record = record
        config = model.config
        self._longest = config.max_len if config.positions == "learned" else None
        self._memory: dict[str, Tensor] = {}
        self._steps: dict[Shape, _Step] = {}

    def state(self, src: Tensor) -> StaticState:
        """Encode source ids (B, S), padded on the right, for a search. Ends the use of any earlier state."""
        return StaticState(self, src)

    def step(self, shape: Shape, kind: torch.dtype) -> _Step:
        """The step of that shape, with keys and values of type `kind`; made when it is first asked for."""
        if shape not in self._steps:
            layers, width = len(self.executor.decoder), self.executor.d_model
            rows = shape.sentences * shape.rows
            length = shape.target if self._longest is None else min(shape.target, self._longest)
            step = _Step(
                self, shape,
                positions=self.executor.target_positions(length),
                tokens=self._piece("tokens", torch.long, rows),
                position=self._piece("position", torch.long, 1),
                own=self._piece("own", kind, layers, shape.target, 2, rows, width),
                cross=self._piece("cross", kind, layers, 2, shape.sentences, shape.source, width),
                mask=self._piece("mask", kind, shape.sentences, 1, 1, shape.source),
            )  # fmt: skip
            self._steps[shape] = step
        return self._steps[shape]

    def _piece(self, name: str, kind: torch.dtype, *shape: int) -> Tensor:
        """The beginning of a piece of memory that all shapes share. Where it must be larger, all steps are made anew."""
        size = math.prod(shape)
        if name not in self._memory or self._memory[name].numel() < size:
            # Zeros: what is masked is multiplied by 0, and 0 x NaN would be NaN.
            self._memory[name] = torch.zeros(size, dtype=kind, device=self.device)
            self._steps.clear()
        return self._memory[name][:size].view(shape)


class _Step:
    """One step of the decoder in one shape: from `tokens` (N) at `position` (1) to the decoder's output (N, D).

    Args:
        positions: what is added at each position (T or more, D).
        own: keys and values of the target (L, T, 2, N, D).
        cross: of the source (L, 2, B, S, D).
        mask: what to add to the cross-attention's scores (B, 1, 1, S).
    """

    def __init__(
        self, static: StaticExecutor, shape: Shape, positions: Tensor, tokens: Tensor, position: Tensor, own: Tensor,
        cross: Tensor, mask: Tensor,
    ) -> None:  # fmt: skip
        # All that is read in a recorded step is held here, so that its memory is given to nobody else.
        self.shape, self._positions = shape, positions
        self.tokens, self.position, self.own, self.cross, self.mask = tokens, position, own, cross, mask
        self._executor, self._record = static.executor, static.record
        self._numbers = torch.arange(shape.target, device=static.device)
        self._recorded: Run | None = None

    def __call__(self) -> Tensor:
        """The output (N, D), in memory that the next call writes over."""
        if self._recorded is None:
            self._recorded = self._record(self._run)
        return self._recorded()

    def _run(self) -> Tensor:
        executor, heads = self._executor, self._executor.n_heads
        x = executor.embed(self.tokens, self._positions.index_select(0, self.position))  # (N, D)
        # At least position 0 is visible, so no softmax is of nothing but -inf.
        hidden = (self._numbers > self.position)[None, None, None]  # (1, 1, 1, T)
        mask = torch.zeros_like(hidden, dtype=self.own.dtype).masked_fill_(hidden, float("-inf"))
        for layer, own, cross in zip(executor.decoder, self.own, self.cross, strict=True):
            x = layer(x, _Own(own, self.position, mask, heads), _Sources(cross, self.mask, heads))
        return x


@dataclass(frozen=True)
class _Own:
    """Self-attention to the keys and values (T, 2, N, D) up to `position`."""

    memory: Tensor
    position: Tensor
    mask: Tensor
    heads: int

    def attend(self, x: Tensor) -> Tensor:
        """See :class:`~pellucid.engines.executor.Attends`."""
        q, newest = x.unflatten(1, (3, -1)).split((1, 2), 1)  # (N, 1, D), (N, 2, D)
        self.memory.index_copy_(0, self.position, newest.transpose(0, 1)[None])
        k, v = self.memory.unflatten(-1, (self.heads, -1)).permute(1, 2, 3, 0, 4)  # (N, H, T, K) each
        q = q.unflatten(-1, (self.heads, -1)).transpose(1, 2)  # (N, H, 1, K)
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, scale=1.0).flatten(1)


@dataclass(frozen=True)
class _Sources:
    """Cross-attention to the keys and values (2, B, S, D)."""

    memory: Tensor
    mask: Tensor
    heads: int

    def attend(self, x: Tensor) -> Tensor:
        """See :class:`~pellucid.engines.executor.Attends`."""
        k, v = self.memory.unflatten(-1, (self.heads, -1)).transpose(2, 3)  # (B, H, S, K) each
        q = x.view(k.size(0), -1, self.heads, k.size(-1)).transpose(1, 2)  # (B, H, R, K)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, scale=1.0)
        return seen.transpose(1, 2).reshape(x.shape)


class StaticState:
    """See :class:`~pellucid.search.SearchState`; takes the place of `model.transformer.DecoderState`.

    A sentence has a place among those of the shape, and keeps it until the batch moves to a smaller shape. Where each
    row of the search stands in memory is known to the GPU alone (`_at`): to ask for it would be to wait.
    """

    def __init__(self, static: StaticExecutor, src: Tensor) -> None:
        kv, visible = static.executor.encode(src)  # (B, S, L, 2, D)
        self._static, self._kind = static, kv.dtype
        sentences, length = src.shape
        self._length = 0
        self._step = static.step(Shape(_bucket(sentences), 1, _bucket(length, LEAST_SOURCE), LEAST_TARGET), self._kind)
        self._step.cross[:, :, :sentences, :length] = kv.permute(2, 3, 0, 1, 4)
        mask = self._step.mask.zero_()  # a place without a sentence sees anything: finite numbers, which nobody reads
        mask[:sentences, :, :, length:] = float("-inf")
        if visible is not None:
            # A sentence of nothing but padding sees position 0, where there is nothing but zeros.
            hidden = ~visible
            hidden[..., 0] = False
            mask[:sentences, :, :, :length].masked_fill_(hidden, float("-inf"))
        self._places = torch.arange(sentences, device=static.device)
        self._at = self._places
        """The row in memory of each row of the search (N)."""

    def step(self, tokens: Tensor) -> Tensor:
        """The newest token of each row (N,) -> logits (N, V) of the next one."""
        shape = self._step.shape
        if self._length == shape.target:
            self._move(shape._replace(target=2 * shape.target))
        step, executor = self._step, self._static.executor
        executor.target_positions(self._length + 1)  # or says that there are none
        step.tokens.index_copy_(0, self._at, tokens.to(self._at.device, non_blocking=True))
        step.position.fill_(self._length)
        self._length += 1
        # Of the rows that somebody asks for alone: the output layer is the largest of all.
        return executor.logits(step().index_select(0, self._at))

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Each new row goes on from old row `rows[i]`; of the sentences, `sources` stay (None: all)."""
        shape = self._step.shape
        places = self._places if sources is None else self._places.index_select(0, sources)
        each = len(rows) // len(places)
        fewer = _bucket(len(places))
        if each == shape.rows == 1 and fewer == shape.sentences:  # a row is its sentence's only one: none can change
            self._places = self._at = places
            return
        held = max(each, shape.rows)  # a search that has more and fewer hypotheses in turn gets no shapes in between
        parents = self._at.index_select(0, rows)
        old_places = None
        if fewer < shape.sentences:
            old_places, places = places, torch.arange(len(places), device=places.device)
        self._places = places
        self._at = (places[:, None] * held + torch.arange(each, device=places.device)).flatten()
        # (N of the shape): a row that nobody asks for goes on from row 0, so that it has numbers.
        origins = parents.new_zeros(fewer * held).index_copy_(0, self._at, parents)
        self._move(shape._replace(sentences=fewer, rows=held), origins, old_places)

    def _move(self, shape: Shape, origins: Tensor | None = None, places: Tensor | None = None) -> None:
        """Go on in another shape: each row of its memory from row `origins` of the old one, each sentence from `places`.

        Everything goes by way of a copy, since both shapes lie in the same memory. Only what is filled is copied.
        """
        old, length = self._step, self._length
        filled = old.own[:, :length]
        own = filled.clone() if origins is None else filled.index_select(3, origins)
        new = self._step = self._static.step(shape, self._kind)
        new.own[:, :length] = own
        if places is not None:
            cross, mask = old.cross.index_select(2, places), old.mask.index_select(0, places)
            new.cross[:, :, : len(places)] = cross
            new.mask[: len(places)] = mask


def _bucket(number: int, least: int = 1) -> int:
    """The power of two that is not less."""
    return max(least, 1 << (number - 1).bit_length())


class CudaGraphs:
    """Records steps as CUDA graphs of one device, which share the memory for what lies between input and output."""

    one_at_a_time = threading.Lock()
    """A process can record one graph at a time, whatever the device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @cached_property
    def _pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    @cached_property
    def _stream(self) -> torch.cuda.Stream:
        return torch.cuda.Stream()

    def __call__(self, run: Run) -> Run:
        with self.one_at_a_time, torch.cuda.device(self._device):
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                run()  # libraries set themselves up at their first call, which cannot be recorded
            torch.cuda.current_stream().wait_stream(self._stream)
            graph = torch.cuda.CUDAGraph()
            # thread_local: other threads may use the GPU meanwhile.
            with torch.cuda.graph(graph, self._pool, self._stream, capture_error_mode="thread_local"):
                output = run()

        def replay() -> Tensor:
            graph.replay()
            return output

        return replay


class StaticEngine(StateEngine):
    """A :class:`~pellucid.engines.search_engine.StateEngine` for one search at a time."""

    def __init__(self, name: str, static: StaticExecutor, pad_id: int, vocabulary: Vocabulary) -> None:
        super().__init__(name, static.state, pad_id, vocabulary, static.device)
        self._alone = threading.Lock()

    def search(self, request: Request) -> list[list[Hypothesis]]:
        """See :class:`~pellucid.engines.search_engine.Engine`."""
        with self._alone:
            return self._part(request)

    def watched(self, request: Request, watch: Watch) -> list[list[Hypothesis]]:
        """See :meth:`StateEngine.watched`."""
        with self._alone:
            return super().watched(request, watch)


@torch.inference_mode()
def agrees(static: StaticExecutor, model: Transformer) -> bool:
    """Whether some steps, with every kind of move between them, give what the readable model gives, up to rounding."""
    config, generator = model.config, torch.Generator().manual_seed(0)
    ids = torch.tensor([i for i in range(min(config.src_vocab, config.tgt_vocab)) if i != config.source_pad])
    src = ids[torch.randint(len(ids), (3, 5), generator=generator)]
    if config.source_pad is not None:
        src[2, 3:] = config.source_pad
    moves: list[tuple[list[int], list[int] | None]] = [
        ([0, 0, 1, 1, 2, 2], None),
        ([1, 0, 2, 2, 5, 4], None),
        ([0, 1, 3, 2, 4, 4], None),
        ([5, 4], [2]),
        ([1, 1], None),
        ([0, 1], None),
    ]
    tokens = src[:, 0]
    try:
        right, tried = DecoderState(model, src.to(static.device)), static.state(src.to(static.device))
        for rows, sources in moves:
            expected, found = right.step(tokens), tried.step(tokens)
            if not (found - expected).norm() <= TOLERANCE * expected.norm():
                return False
            for state in (right, tried):
                state.reorder(
                    torch.tensor(rows, device=static.device),
                    None if sources is None else torch.tensor(sources, device=static.device),
                )
            tokens = tokens[rows]
    except RuntimeError:  # of CUDA or a driver
        return False
    return True
