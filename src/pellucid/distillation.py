"""Sequence-level distillation (Kim and Rush 2016, https://arxiv.org/abs/1606.07947, section 3.3): the training targets
are written anew by a teacher's beam search. A student learns them more easily than what people wrote, so a shallow decoder
loses less (Kasai et al. 2021, https://arxiv.org/abs/2006.10369).

What is held out for validation keeps its own targets.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from pellucid.checkpoint import write_atomically
from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, split_valid, why_dropped
from pellucid.errors import DataError, TrainingError
from pellucid.translator import Translator

SECONDS_BETWEEN_FLUSHES = 5.0


@dataclass(frozen=True)
class Distilled:
    """Files for :func:`~pellucid.training.run.train`."""

    src: Path
    tgt: Path
    valid_src: Path
    valid_tgt: Path


def distill(
    teacher: Translator,
    out: str | Path,
    pairs: Sequence[str] = (),
    *,
    src: Sequence[str] = (),
    tgt: Sequence[str] = (),
    valid: Sequence[str] = (),
    valid_src: Sequence[str] = (),
    valid_tgt: Sequence[str] = (),
    config: DataConfig | None = None,
    on_progress: Callable[[int, int], None] | None = None,
) -> Distilled:
    """Write `out`/distillation: the sources with the teacher's translations, and the pairs to validate on.

    Interrupted at any moment and called again with the same arguments, it goes on with the next line.

    Args:
        teacher: translates as its own search settings say.
        pairs, src, tgt, valid, valid_src, valid_tgt: as of :func:`~pellucid.training.run.train`.
        on_progress: is told lines done and lines in all.

    Raises:
        DataError: no pair, or files of different length.
        TrainingError: the folder was begun with another teacher or other data.
    """
    config = config or DataConfig()
    corpus = Corpus.from_files(pairs, src, tgt, config)
    corpus.check_lengths()
    if valid or valid_src:
        valid_corpus = Corpus.from_files(valid, valid_src, valid_tgt, config)
        valid_corpus.check_lengths()
    else:
        corpus, valid_corpus = split_valid(corpus, config.valid_pairs)
    folder = Path(out) / "distillation"
    folder.mkdir(parents=True, exist_ok=True)
    done = Distilled(*(folder / f"{part}.{side}" for part in ("train", "valid") for side in ("source", "target")))
    _same_as_before(folder / "about.json", teacher, corpus)

    held_out = [p for p in valid_corpus if why_dropped(p) is None]
    for file, side in ((done.valid_src, "source"), (done.valid_tgt, "target")):
        write_atomically(file, "".join(f"{getattr(p, side)}\n" for p in held_out))
    total = sum(1 for _ in _sources(corpus))
    if not total:
        raise DataError("there is no pair to distill")
    first = _whole_lines(done.src, done.tgt)
    if on_progress is not None:
        on_progress(first, total)
    flushed = time.monotonic()
    with done.src.open("a", encoding="utf-8", newline="\n") as sources, \
         done.tgt.open("a", encoding="utf-8", newline="\n") as targets:  # fmt: skip
        rest = islice(_sources(corpus), first, None)
        for number, translation in enumerate(teacher.stream(rest, scores=False), start=first + 1):
            sources.write(translation.source + "\n")
            targets.write(translation.text.replace("\n", " ") + "\n")
            if time.monotonic() - flushed > SECONDS_BETWEEN_FLUSHES:
                flushed = time.monotonic()
                sources.flush()
                targets.flush()
                if on_progress is not None:
                    on_progress(number, total)
    if on_progress is not None:
        on_progress(total, total)
    return done


def _sources(corpus: Corpus) -> Iterator[str]:
    for pair in corpus:
        if why_dropped(pair) is None and pair.source is not None:
            yield pair.source


def _whole_lines(*files: Path) -> int:
    """How many lines all `files` have whole; what is beyond is cut off."""
    counts = []
    for file in files:
        file.touch()
        with file.open("rb") as lines:
            counts.append(sum(line.endswith(b"\n") for line in lines))
    count = min(counts)
    for file in files:
        with file.open("rb+") as lines:
            size = sum(len(line) for line in islice(lines, count))
            lines.truncate(size)
    return count


def _same_as_before(about: Path, teacher: Translator, corpus: Corpus) -> None:
    directory = teacher.loaded.directory
    weights = b"" if directory is None else (directory / "model.safetensors").read_bytes()
    now = {
        "teacher": hashlib.sha256(weights).hexdigest(),
        "search": repr(teacher.loaded.search),
        **({"tags": list(teacher.tags)} if teacher.tags else {}),
        "data": corpus.fingerprint(),
    }
    if about.exists():
        before = json.loads(about.read_text(encoding="utf-8"))
        changed = [name for name in before | now if before.get(name) != now.get(name)]
        if changed:
            raise TrainingError(
                f"{about.parent}: was begun with another {' and '.join(changed)}",
                hint="name another --out, or delete that folder",
            )
    write_atomically(about, json.dumps(now, indent=1) + "\n")
