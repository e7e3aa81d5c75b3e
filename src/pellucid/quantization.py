"""A model with int8 weights: a quarter of the file, and faster on a CPU.

The weights are rounded row by row. The inputs of each linear map are rounded to a range that is seen while the model
translates some text (calibration), so that the range is the same for every batch. What that costs is measured at once:
the same text is translated before and after, and compared with its references.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pellucid.checkpoint import LoadedModel, load_model, save_model, weights_of
from pellucid.data.store import PairStore
from pellucid.engines.executor import Executor
from pellucid.engines.linear import Observer
from pellucid.engines.search_engine import StateEngine
from pellucid.errors import DataError, ModelFolderError
from pellucid.tags import chosen, shown
from pellucid.training.evaluation import Scores, corpus_scores
from pellucid.translator import Translator

MOST_CHRF_LOST = 0.5
MOST_SENTENCES = 1000
"""Of the validation pairs; more would hardly change ranges or scores."""


@dataclass(frozen=True)
class Quantized:
    """What came of it."""

    sentences: int
    before: Scores
    after: Scores
    same: int
    """Sentences whose translation is the same as before."""
    bytes_before: int
    bytes_after: int

    @property
    def is_good(self) -> bool:
        return self.before.chrf - self.after.chrf <= MOST_CHRF_LOST


def quantize_model(
    directory: str | Path,
    out: str | Path,
    sources: Sequence[str] | None = None,
    references: Sequence[str] | None = None,
    *,
    threads: int = 0,
    to: str | None = None,
    tags: Sequence[str] = (),
) -> Quantized:
    """Write `out`, the quantized form of the model folder `directory`. A folder that is not good is taken away again.

    Args:
        sources, references: text to calibrate with and to compare; None: the run's own validation pairs, with all tags.
        to, tags: those of `sources`, see :meth:`~pellucid.translator.Translator.load`.

    Raises:
        ConfigError: this machine has no working int8, or the model no such language or tag.
        DataError: there is no text, or not as many references as sources.
        ModelFolderError: no model, one that is quantized already, or an `out` that is in use.
    """
    directory, out = Path(directory), Path(out)
    if (out / "config.json").exists():
        raise ModelFolderError(f"{out}: holds a model already", hint="name another folder")
    loaded = load_model(directory)
    if loaded.ranges is not None:
        raise ModelFolderError(f"{directory}: is quantized already")
    if sources is None or references is None:
        pairs = tagged_validation_pairs(loaded)
    elif len(sources) != len(references) or not sources:
        raise DataError(f"there are {len(sources)} sources and {len(references)} references; a pair at least is needed")
    else:
        pairs = {chosen(loaded.source_tokenizer.tags, to, tags): (list(sources), list(references))}
    expected = [reference for _, side in pairs.values() for reference in side]

    observer = Observer()
    translator = Translator.load(directory, device="cpu", threads=threads, tags=next(iter(pairs)))
    translator.engine = StateEngine(
        "calibration",
        Executor(translator.model, observer).state,
        loaded.source_tokenizer.pad_id,
        translator.vocabulary,
        translator.model.output.weight.device,
    )
    before = _translated(translator, pairs)
    try:
        save_model(
            out, weights_of(loaded.model), loaded.model.config, loaded.source_tokenizer, loaded.target_tokenizer,
            search=loaded.search, source_language=loaded.source_language, target_language=loaded.target_language,
            longest_source=loaded.longest_source, ranges=observer.ranges,
            card=f"# Quantized\n\nThe model of `{directory.name}` with int8 weights. Its own card is there.\n",
        )  # fmt: skip
        quantized = Translator.load(out, device="cpu", threads=threads, engine="torch-int8", tags=translator.tags)
        after = _translated(quantized, pairs)
        language = loaded.target_language
        result = Quantized(
            len(expected),
            corpus_scores(before, [expected], language),
            corpus_scores(after, [expected], language),
            sum(a == b for a, b in zip(before, after, strict=True)),
            *((folder / "model.safetensors").stat().st_size for folder in (directory, out)),
        )
    except BaseException:
        _take_away(out)
        raise
    if not result.is_good:
        _take_away(out)
    return result


TaggedPairs = dict[tuple[str, ...], tuple[list[str], list[str]]]
"""Sources and targets, by the tags of the sources."""


def _translated(translator: Translator, pairs: TaggedPairs) -> list[str]:
    """All sources with their tags, in order."""
    return [t.text for tags, (sources, _) in pairs.items() for t in translator.tagged(tags=tags).translate(sources)]


def validation_pairs(translator: Translator) -> tuple[list[str], list[str]]:
    """Sources and targets that the run kept for validation, of those with the tags of `translator`.

    Raises:
        DataError: the folder has none.
    """
    pairs = tagged_validation_pairs(translator.loaded)
    if translator.tags not in pairs:
        there = " and ".join(shown(tags) or "none" for tags in pairs)
        raise DataError(
            f"{translator.loaded.directory}: has no validation pairs with the tags {shown(translator.tags)}; there are "
            f"such with {there}",
            hint="name others with --to and --tag, or pairs: --src FILE and their translations",
        )
    return pairs[translator.tags]


def tagged_validation_pairs(loaded: LoadedModel) -> TaggedPairs:
    """:func:`validation_pairs` with all tags: of each as many, and `MOST_SENTENCES` together at most.

    Raises:
        DataError: the folder has none.
    """
    store_folder = None if loaded.directory is None else loaded.directory / "training" / "valid-store"
    store = PairStore.open(store_folder) if store_folder is not None and store_folder.is_dir() else None
    if not store:
        raise DataError(
            f"{loaded.directory}: has no validation pairs of its training any more",
            hint="--src FILE --ref FILE: some hundred sentences and their translations",
        )
    source, target = loaded.source_tokenizer, loaded.target_tokenizer
    numbers: dict[tuple[str, ...], list[int]] = {}
    for i in range(len(store)) if source.tags else range(min(len(store), MOST_SENTENCES)):
        numbers.setdefault(source.tags_of(store.source(i)), []).append(i)
    return {
        tags: ([source.decode(store.source(i)) for i in some], [target.decode(store.target(i)) for i in some])
        for tags, every in numbers.items()
        if (some := every[: MOST_SENTENCES // len(numbers)])
    }


def _take_away(folder: Path) -> None:
    """What `save_model` wrote, and the folder if nothing else is in it."""
    for name in ("config.json", "model.safetensors", "README.md", "tokenizer.model", "source.model", "target.model"):
        (folder / name).unlink(missing_ok=True)
    if folder.is_dir() and not any(folder.iterdir()):
        shutil.rmtree(folder)
