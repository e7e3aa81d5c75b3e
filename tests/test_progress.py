"""What a person sees of a training run."""

from __future__ import annotations

import io
from itertools import pairwise

import pytest
from rich.console import Console

from pellucid.cli.progress import Watch, duration
from pellucid.training.records import Finished, Plan, Prepared, Preparing, Progress, Saved, Validation

PREPARED = Prepared(
    pairs_read=1000, pairs_kept=980, dropped={"empty source": 20, "ratio": 0}, source_vocab=500, target_vocab=500,
    parameters=1234567, preset="tiny", batches_per_epoch=20, updates_per_epoch=10, useful_share=0.93, valid_pairs=15,
    device="cpu", precision="float32", threads=2, notes=("preset: tiny, for 980 pairs",),
)  # fmt: skip
PLAN = Plan(seconds_per_update=0.5, updates_planned=100, seconds_to_end=50.0, peak_memory_bytes=2 * 10**9,
            largest_batch=(8, 30, 40))  # fmt: skip
SAMPLES = (("[b]eins", "one", ":smile: [red]one"), ("zwei", "two", "2"), ("drei", "three", "3"))


def progress(update: int) -> Progress:
    return Progress(update=update, epoch=update / 10, loss=2.5, perplexity=9.0, rate=0.001, grad_norm=0.7,
                    target_tokens_per_second=1234.0, seconds=update / 2, updates_planned=100, seconds_left=50 - update / 2)  # fmt: skip


def validation(update: int) -> Validation:
    return Validation(update=update, epoch=1.0, loss=2.0, perplexity=7.39, bleu=31.25, chrf=50.0, bleu_signature="",
                      samples=SAMPLES, is_best=True, seconds=0.5)  # fmt: skip


def watched(*records: object, terminal: bool = False, **options: object) -> str:
    console = Console(file=io.StringIO(), force_terminal=terminal, width=100, highlight=False, soft_wrap=True)
    with Watch(console=console, **options) as watch:  # type: ignore[arg-type]
        for record in records:
            watch(record)  # type: ignore[arg-type]
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.mark.parametrize("seconds, text", [(None, "?"), (0.4, "0s"), (65, "1m05s"), (3725, "1h02m"), (59.6, "1m00s")])
def test_durations(seconds: float | None, text: str) -> None:
    assert duration(seconds) == text


def test_what_is_said_before_the_first_update() -> None:
    said = watched(Preparing("pairs", 0), PREPARED, PLAN)
    for text in ("pairs …", "980 of 1,000", "20: empty source", "500 pieces", "1,234,567 parameters", "10 updates",
                 "93% of the cells", "note: preset: tiny", "0.50 s an update, 100 updates, about 50s",
                 "peak memory 2.0 GB (largest batch 8 x 30 + 40)"):  # fmt: skip
        assert text in said
    assert "ratio" not in said, "what dropped nothing is not worth a line"


def test_lines_where_there_is_no_terminal() -> None:
    said = watched(*(progress(n) for n in range(1, 50)), validation(49), Saved(49, "x", "validated"))
    assert said.count("update ") == 2, "the first update and the validation; the next line only after a while"
    assert "update 1/100  epoch 0.10  loss 2.500" in said
    assert "validation at update 49: loss 2.000  ppl 7.39  BLEU 31.2  chrF 50.0  (best)" in said
    assert "    [b]eins\n      → :smile: [red]one\n      = one\n" in said, "samples are printed as they are"
    assert "\x1b" not in said
    assert watched(*(progress(n) for n in range(1, 50)), verbose=True).count("update ") == 49


def test_a_bar_on_a_terminal() -> None:
    said = watched(progress(1), progress(2), validation(2), progress(3), terminal=True)
    assert "update 2" in said
    assert "1,234 tok/s" in said
    assert "48s left" in said
    assert "\x1b[?25h" in said.rpartition("update")[2], "the cursor is shown again at the end"


def test_fewer_samples_take_turns() -> None:
    first, second, third, fourth = (watched_sample.strip() for watched_sample in sources(4))
    assert (first, second, third, fourth) == ("[b]eins", "zwei", "drei", "[b]eins")


def sources(count: int) -> list[str]:
    said = watched(*(validation(n) for n in range(count)), samples=1)
    lines = said.splitlines()
    return [before for before, line in pairwise(lines) if line.startswith("      → ")]


def test_quiet_is_the_end_alone() -> None:
    end = Finished(update=50, reason="patience", best_update=40, seconds=70.0, directory="m")
    said = watched(PREPARED, PLAN, progress(1), validation(1), end, quiet=True)
    assert said == "no better for a while: update 50, 1m10s; the best was update 40\n"
