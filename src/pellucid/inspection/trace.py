"""All that happened in one translation: tokens, the three attentions of every layer and head, and the beam.

The search is the one that translates, watched. The attention comes from one more pass with the translation as the
decoder's input (teacher forcing), with the readable model and the plain attention.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.engines.engine import make_engine
from pellucid.engines.search_engine import Request, StateEngine
from pellucid.errors import DataError
from pellucid.inspection.gates import without
from pellucid.inspection.recorder import KINDS, Head, Kind, Recording, recorded
from pellucid.inspection.words import Side, Token, tokens_of
from pellucid.search import NEVER, Candidate, Hypothesis, length_penalty, log_probabilities
from pellucid.translator import Alternative, Translator

Convention = Literal["predicts", "input"]
"""What a row of the decoder is named after: the token that it predicts, or the token that is its input."""


@dataclass(frozen=True)
class AttentionMaps:
    """One kind of attention of every layer and head, with the tokens of its rows and columns.

    Raises:
        ValueError: numbers and tokens do not fit: a map cannot be shown with the wrong side's tokens.
    """

    kind: Kind
    weights: Tensor
    """(L, H, T, S): how much each row's token takes of each column's; rows sum to 1."""
    norms: Tensor
    """(L, H, T, S): the length of what it takes, see :meth:`~pellucid.inspection.recorder.Recorded.norms`."""
    contributions: Tensor
    """(L, H, T): the length of what each head adds to each position."""
    rows: Side
    """The queries; of the decoder, what each row predicts."""
    row_inputs: Side
    """The queries by their input: of the encoder the same as `rows`."""
    columns: Side
    """The keys."""

    def __post_init__(self) -> None:
        for name, numbers in (("weights", self.weights), ("norms", self.norms)):
            if numbers.shape[2:] != (len(self.rows), len(self.columns)):
                raise ValueError(f"`{name}` has maps of {tuple(numbers.shape[2:])}, but there are "
                                 f"{len(self.rows)} rows and {len(self.columns)} columns")  # fmt: skip
        if len(self.row_inputs) != len(self.rows):
            raise ValueError(f"`row_inputs` must name {len(self.rows)} rows, but names {len(self.row_inputs)}")

    def rows_by(self, convention: Convention) -> Side:
        """The tokens that rows are named after."""
        return self.rows if convention == "predicts" else self.row_inputs


@dataclass(frozen=True)
class Node:
    """One candidate of a step of the search."""

    parent: int
    """Its parent's place among the nodes of the step before; -1 in the first step."""
    token: Token
    log_prob: float
    total: float
    """The log-probability of all tokens so far."""
    score: float
    """`total` over the length penalty."""
    state: Literal["kept", "finished", "pruned"]


@dataclass(frozen=True)
class BeamTree:
    """All that the search looked at."""

    size: int
    alpha: float
    steps: tuple[tuple[Node, ...], ...]
    """For each step the candidates, the likeliest first."""
    best: tuple[int, ...]
    """The translation's way through the steps; empty if another program searched and found another one."""


@dataclass(frozen=True)
class Trace:
    """What :func:`trace` found. T rows of the decoder: `target`, which ends with the end mark unless it was cut off."""

    text: str
    """What was translated: the first part, if the text is so long that it was split."""
    translation: str
    forced: bool
    """The translation was given, not searched."""
    off: tuple[Head, ...]
    flags: tuple[str, ...]
    score: float
    log_prob: float
    log_probs: tuple[float, ...]
    """One a token of `target`."""
    source: Side
    target: Side
    start: Token
    """What the decoder starts from."""
    alternatives: tuple[tuple[Alternative, tuple[int, ...]], ...]
    """The n best with their ids; none if the translation was given."""
    encoder: AttentionMaps
    decoder: AttentionMaps
    cross: AttentionMaps
    beam: BeamTree | None

    def maps(self, kind: Kind) -> AttentionMaps:
        """The maps of one kind."""
        return {"encoder": self.encoder, "decoder": self.decoder, "cross": self.cross}[kind]

    @property
    def source_ids(self) -> list[int]:
        """(S,), with tags and the end mark."""
        return [token.id for token in self.source.tokens]

    @property
    def decoder_ids(self) -> list[int]:
        """(T,): the decoder's input, which is the target shifted right."""
        return [self.start.id, *(token.id for token in self.target.tokens[:-1])]


def trace(
    translator: Translator,
    text: str,
    target: str | None = None,
    config: SearchConfig | None = None,
    *,
    off: Sequence[Head] = (),
    prefix_ids: Sequence[int] = (),
) -> Trace:
    """Translate `text` and look at everything.

    Args:
        target: a translation to force, instead of searching one.
        config: None: the model's own. Sampling is not watched; beam and greedy search are.
        off: heads to switch off. The readable model searches then.
        prefix_ids: tokens that the translation must begin with.

    Raises:
        DataError: there is nothing to translate.
        ConfigError: settings that cannot be.
    """
    segments = translator.segments(text)
    if not segments:
        raise DataError("there must be some text to translate, but it is empty")
    config = config or translator.loaded.search
    if config.sample:
        config = dataclasses.replace(config, sample=False)
    segment = segments[0]
    source_ids = translator.source_ids(segment.ids)
    flags = ["split"] if len(segments) > 1 else []
    if translator.source_tokenizer.unk_id in segment.ids:
        flags.append("unknown")
    alternatives: list[tuple[Alternative, tuple[int, ...]]] = []
    beam = None
    with torch.inference_mode(), without(translator.model, off):
        if target is not None:
            predicted = [*translator.target_tokenizer.encode(target.strip()), translator.vocabulary.eos_id]
        else:
            hypotheses, beam = _search(translator, source_ids, config, bool(off), prefix_ids)
            best = hypotheses[0]
            predicted = [*best.tokens, translator.vocabulary.eos_id] if best.finished else list(best.tokens)
            alternatives = [(_alternative(translator, h), h.tokens) for h in hypotheses]
            if not best.finished:
                flags.append("truncated")
        start_id = translator.vocabulary.start_id
        inputs = [start_id, *predicted[:-1]]
        recording, log_probs = _forced(translator, source_ids, inputs, predicted)
        source = Side.of(tokens_of(translator.source_tokenizer, source_ids))
        rows = Side.of(tokens_of(translator.target_tokenizer, predicted))
        row_inputs = Side.of(tokens_of(translator.target_tokenizer, inputs, start_id))
        sides = {
            "encoder": (source, source, source),
            "decoder": (rows, row_inputs, row_inputs),
            "cross": (rows, row_inputs, source),
        }
        maps = {kind: _maps(kind, recording, *sides[kind]) for kind in KINDS}
    total = sum(log_probs)
    return Trace(
        text=segment.text,
        translation=translator.target_tokenizer.decode(predicted),
        forced=target is not None,
        off=tuple(off),
        flags=tuple(flags),
        score=total / float(length_penalty(len(log_probs), config.length_penalty)),
        log_prob=total,
        log_probs=tuple(log_probs),
        source=source,
        target=rows,
        start=row_inputs.tokens[0],
        alternatives=tuple(alternatives),
        encoder=maps["encoder"],
        decoder=maps["decoder"],
        cross=maps["cross"],
        beam=beam,
    )


def _search(
    translator: Translator, source_ids: list[int], config: SearchConfig, heads_off: bool, prefix_ids: Sequence[int]
) -> tuple[list[Hypothesis], BeamTree]:
    """The hypotheses of the translator's own engine, and the tree of our search."""
    pieces = len(source_ids) - len(translator.source_ids(()))
    longest = translator.max_length(pieces, len(prefix_ids), config)
    request = Request([source_ids], [longest], config, [tuple(prefix_ids)])
    engine = translator.engine
    own = engine
    if heads_off or not isinstance(own, StateEngine):
        own = make_engine(
            "reference" if heads_off else "torch", translator.model, translator.source_tokenizer.pad_id,
            translator.vocabulary,
        )  # fmt: skip
        assert isinstance(own, StateEngine)
    steps: list[Sequence[Candidate]] = []
    watched = own.watched(request, lambda _, candidates: steps.append(candidates))[0]
    # CTranslate2 cannot be watched: its translation, and beside it the tree of our own search.
    found = watched if heads_off or own is engine else engine.search(request)[0]
    return found, _tree(translator, steps, config, found[0])


def _tree(
    translator: Translator, steps: Sequence[Sequence[Candidate]], config: SearchConfig, best: Hypothesis
) -> BeamTree:
    """The candidates as a tree, and the way of `best` through it."""
    found: list[tuple[Node, ...]] = []
    kept: list[int] = []  # the places of the nodes that the step before has kept
    path: list[int] = []
    wanted = [*best.tokens, translator.vocabulary.eos_id] if best.finished else list(best.tokens)
    for t, candidates in enumerate(steps):
        possible = [c for c in candidates if c.total > NEVER]
        tokens = tokens_of(translator.target_tokenizer, [c.token for c in possible])
        penalty = float(length_penalty(t + 1, config.length_penalty))
        nodes = tuple(
            Node(kept[c.parent] if t else -1, token, c.log_prob, c.total, c.total / penalty, c.state)
            for c, token in zip(possible, tokens, strict=True)
        )
        parent = path[-1] if path else -1
        if len(path) == t < len(wanted):
            path += [
                i for i, n in enumerate(nodes) if n.parent == parent and n.token.id == wanted[t] and n.state != "pruned"
            ]
        kept = [i for i, node in enumerate(nodes) if node.state == "kept"]
        found.append(nodes)
    return BeamTree(
        config.beam_size, config.length_penalty, tuple(found), tuple(path if len(path) == len(wanted) else ())
    )


def _forced(
    translator: Translator, source_ids: list[int], inputs: list[int], predicted: list[int]
) -> tuple[Recording, list[float]]:
    """One pass with the decoder's input given: what the attentions did, and the log-probability of each token."""
    model = translator.model
    device = model.output.weight.device
    with recorded(model) as recording:
        logits = model(torch.tensor([source_ids], device=device), torch.tensor([inputs], device=device))[0]  # (T, V)
    log_p = log_probabilities(logits, translator.vocabulary.forbidden)
    return recording, log_p.gather(-1, torch.tensor(predicted, device=device)[:, None])[:, 0].tolist()


def _maps(kind: Kind, recording: Recording, rows: Side, row_inputs: Side, columns: Side) -> AttentionMaps:
    layers = recording.of(kind)

    def stacked(numbers: list[Tensor]) -> Tensor:
        return torch.stack([x[0] for x in numbers]).float().cpu()

    return AttentionMaps(
        kind,
        stacked([layer.weights for layer in layers]),
        stacked([layer.norms() for layer in layers]),
        stacked([layer.contributions().norm(dim=-1) for layer in layers]),
        rows,
        row_inputs,
        columns,
    )


def _alternative(translator: Translator, h: Hypothesis) -> Alternative:
    target = translator.target_tokenizer
    return Alternative(target.decode(h.tokens), h.score, h.log_prob, tuple(target.pieces(h.tokens)), h.finished)
