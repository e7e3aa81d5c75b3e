"""What a person sees of a training run: a bar on a terminal, else a line every so often."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn
from rich.progress import Progress as Bar

from pellucid.data.rules import RULES
from pellucid.training.records import (
    Finished,
    Plan,
    Prepared,
    Preparing,
    Progress,
    Record,
    Saved,
    Validation,
)

SECONDS_BETWEEN_LINES = 30.0
MOST_FAULTS = 6
"""Kinds of fault that are shown before training."""


def duration(seconds: float | None) -> str:
    """3725 -> 1h02m; 65 -> 1m05s; None -> ?"""
    if seconds is None:
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{rest:02d}s" if minutes else f"{rest}s"


class Countdown:
    """How far some work is and how long it will still take; on stderr, drawn over itself on a terminal.

    Call it with how much is done, and of how much.
    """

    def __init__(self, what: str, console: Console | None = None) -> None:
        self.what = what
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._begin = self._last = time.monotonic()
        self._drawn = False

    def __enter__(self) -> Countdown:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            self.console.file.write("\r\x1b[K")
            self.console.file.flush()

    def __call__(self, done: int, of: int) -> None:
        now = time.monotonic()
        if now - self._last < (0.25 if self.console.is_terminal else SECONDS_BETWEEN_LINES) or not done:
            return
        self._last = now
        text = f"{self.what}  {done / of:.0%}, {duration((now - self._begin) / done * (of - done))} left"
        if self.console.is_terminal:
            self._drawn = True
            self.console.file.write(f"\r{text}\x1b[K")
            self.console.file.flush()
        else:
            self.console.print(text, markup=False, emoji=False)


def _by_language(record: Validation) -> str:
    """` (de 41.0, fr 39.5)`, where there are several."""
    each = ", ".join(f"{language} {chrf:.1f}" for language, chrf in record.chrf_by_language.items())
    return f" ({each})" if each else ""


def _faults(record: Prepared) -> list[str]:
    """What the check found, the most frequent first."""
    if not record.faults:
        return []
    some = "" if record.looked_at == record.pairs_read else f" of the first {record.looked_at:,} pairs"
    most = sorted(record.faults.items(), key=lambda fault: -fault[1])[:MOST_FAULTS]
    lines = [f"  fault     {count:,}{some}: {rule}: {RULES[rule]}" for rule, count in most]
    return [*lines, "  see them: pellucid check PAIRS; train without them: pellucid clean PAIRS --out FILE"]


class Watch:
    """Draws records as they come; on stderr. `finished` is the last of them.

    Args:
        quiet: only the end.
        verbose: a line for every update, and no bar.
        samples: translations shown at each validation, at most.
    """

    def __init__(
        self, *, quiet: bool = False, verbose: bool = False, samples: int = 3, console: Console | None = None
    ) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self.quiet, self.verbose, self.samples = quiet, verbose, samples
        self.finished: Finished | None = None
        self.validations: list[Validation] = []
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._last_line = 0.0

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop_bar()

    def __call__(self, record: Record) -> None:
        match record:
            case Finished():
                self.finished = record
                self._stop_bar()
                reasons = {
                    "max_updates": "all updates done", "max_epochs": "all epochs done", "max_time": "time is up",
                    "patience": "no better for a while", "interrupted": "interrupted", "terminated": "asked to end",
                }  # fmt: skip
                self._print(
                    f"{reasons.get(record.reason, record.reason)}: update {record.update:,}, {duration(record.seconds)}"
                    + (f"; the best was update {record.best_update:,}" if record.best_update else "")
                )
            case _ if self.quiet:
                if isinstance(record, Validation):
                    self.validations.append(record)
            case Preparing():
                self._preparing(record)
            case Prepared():
                self._prepared(record)
            case Plan():
                self._plan(record)
            case Progress():
                self._progress(record)
            case Validation():
                self._validation(record)
            case Saved() if record.reason not in ("validated",):
                self._print(f"saved ({record.reason}): update {record.update:,}")
            case _:
                pass

    def _print(self, text: str) -> None:
        # Samples are other people's text: ":smile:" and "[b]" in it mean themselves.
        self.console.print(text, markup=False, emoji=False)

    def _preparing(self, record: Preparing) -> None:
        now = time.monotonic()
        if record.done == 0 or now - self._last_line > SECONDS_BETWEEN_LINES / 6:
            self._last_line = now
            self._print(f"{record.stage} …" + (f" {record.done:,}" if record.done else ""))

    def _prepared(self, record: Prepared) -> None:
        lines = [f"pairs       {record.pairs_kept:,} of {record.pairs_read:,}, {record.valid_pairs:,} to validate on"]
        lines += [f"  dropped   {count:,}: {why}" for why, count in record.dropped.items() if count]
        lines += _faults(record)
        vocab = f"{record.source_vocab:,}"
        if record.target_vocab != record.source_vocab:
            vocab += f" and {record.target_vocab:,}"
        lines += [
            f"vocabulary  {vocab} pieces",
            f"model       {record.preset}, {record.parameters:,} parameters",
            f"an epoch    {record.updates_per_epoch:,} updates; {record.useful_share:.0%} of the cells hold a token",
            f"machine     {record.device}, {record.precision}, {record.threads} threads",
        ]
        lines += [f"note: {note}" for note in record.notes]
        self._print("\n".join(lines))

    def _plan(self, record: Plan) -> None:
        rows, source, target = record.largest_batch
        self._print(
            f"plan        {record.seconds_per_update:.2f} s an update, "
            + (f"{record.updates_planned:,} updates, about {duration(record.seconds_to_end)}" if record.updates_planned else
               "until the validation gets no better")
            + f"; peak memory {record.peak_memory_bytes / 1e9:.1f} GB (largest batch {rows} x {source} + {target})"
        )  # fmt: skip

    def _progress(self, record: Progress) -> None:
        if self.console.is_terminal and not self.verbose:
            if self._bar is None:
                self._bar = Bar(
                    TextColumn("{task.description}"), BarColumn(bar_width=24), TextColumn("{task.fields[left]}"),
                    console=self.console, transient=True, refresh_per_second=4,
                )  # fmt: skip
                self._bar.start()
                self._task = self._bar.add_task("", total=None, left="")
            assert self._task is not None
            total = None
            if record.seconds_left is not None:
                total = record.seconds + record.seconds_left
            self._bar.update(
                self._task, total=total, completed=record.seconds,
                description=f"update {record.update:,}  epoch {record.epoch:.1f}  loss {record.loss:.3f}  "
                f"{record.target_tokens_per_second:,.0f} tok/s",
                left=f"{duration(record.seconds_left)} left" if record.seconds_left is not None else duration(record.seconds),
            )  # fmt: skip
            return
        now = time.monotonic()
        if self.verbose or record.update == 1 or now - self._last_line > SECONDS_BETWEEN_LINES:
            self._last_line = now
            of = f"/{record.updates_planned:,}" if record.updates_planned else ""
            self._print(
                f"update {record.update:,}{of}  epoch {record.epoch:.2f}  loss {record.loss:.3f}  ppl {record.perplexity:.1f}  "
                f"rate {record.rate:.2e}  norm {record.grad_norm:.2f}  {record.target_tokens_per_second:,.0f} tok/s  "
                f"{duration(record.seconds)} gone, {duration(record.seconds_left)} left"
            )

    def _validation(self, record: Validation) -> None:
        self.validations.append(record)
        scores = (
            f"  BLEU {record.bleu:.1f}  chrF {record.chrf:.1f}{_by_language(record)}"
            if record.bleu is not None and record.chrf is not None
            else ""
        )
        self._print(
            f"validation at update {record.update:,}: loss {record.loss:.3f}  ppl {record.perplexity:.2f}{scores}"
            + ("  (best)" if record.is_best else "")
        )
        first = (len(self.validations) - 1) * self.samples  # others each time, where not all are shown
        turned = record.samples[first % max(1, len(record.samples)) :] + record.samples
        for source, reference, translation in turned[: min(self.samples, len(record.samples))]:
            self._print(f"    {source}\n      → {translation}\n      = {reference}")

    def _stop_bar(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None
