"""What a training run tells whoever watches: plain records, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Preparing:
    """Something before training is under way: `done` of `total` (None: not known)."""

    stage: str
    done: int
    total: int | None = None


@dataclass(frozen=True)
class Prepared:
    """What is about to be trained, on what."""

    pairs_read: int
    pairs_kept: int
    dropped: dict[str, int]
    source_vocab: int
    target_vocab: int
    parameters: int
    preset: str
    batches_per_epoch: int
    updates_per_epoch: int
    useful_share: float
    """Of all cells of an epoch's batches, those that hold a token."""
    valid_pairs: int
    device: str
    precision: str
    threads: int
    notes: tuple[str, ...]
    looked_at: int = 0
    """How many of the pairs were checked for faults; 0 where they had been prepared before."""
    faults: dict[str, int] = field(default_factory=dict)
    """What the check found, by the names of `pellucid check`, and in how many pairs."""


@dataclass(frozen=True)
class Plan:
    """Measured before the first update."""

    seconds_per_update: float
    updates_planned: int | None
    seconds_to_end: float | None
    peak_memory_bytes: int
    largest_batch: tuple[int, int, int]
    """Rows, longest source, longest target."""


@dataclass(frozen=True)
class Progress:
    """After an update."""

    update: int
    epoch: float
    loss: float
    """Label-smoothed, a target token."""
    perplexity: float
    rate: float
    target_tokens_per_second: float
    seconds: float
    updates_planned: int | None
    seconds_left: float | None
    grad_norm: float


@dataclass(frozen=True)
class Validation:
    """A look at the validation set."""

    update: int
    epoch: float
    loss: float
    perplexity: float
    bleu: float | None
    chrf: float | None
    bleu_signature: str
    samples: tuple[tuple[str, str, str], ...]
    """Source, reference, translation."""
    is_best: bool
    seconds: float
    chrf_by_language: dict[str, float] = field(default_factory=dict)
    """By target language, where there are several."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint is on the disk."""

    update: int
    path: str
    reason: str


@dataclass(frozen=True)
class Finished:
    """The run is over: `reason` is max_updates, max_epochs, max_time, patience, interrupted or terminated."""

    update: int
    reason: str
    best_update: int
    seconds: float
    directory: str


Record = Preparing | Prepared | Plan | Progress | Validation | Saved | Finished
