"""Making a model's shortlist: learn it from the run's pairs, keep it in the folder, say what it costs and gains."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pellucid.checkpoint import load_model
from pellucid.data.store import PairStore
from pellucid.errors import DataError
from pellucid.quantization import tagged_validation_pairs
from pellucid.shortlist import build_shortlist
from pellucid.training.evaluation import Scores, corpus_scores
from pellucid.translator import Translator


@dataclass(frozen=True)
class Shortlisted:
    """What came of it, over the validation pairs."""

    pairs: int
    vocabulary: int
    mean_size: float
    """Target pieces that a sentence may have, on average; those without a list have all."""
    sentences: int
    same: int
    before: Scores
    after: Scores
    seconds_before: float
    seconds_after: float


def make_shortlist(directory: str | Path, run: str | Path | None = None, *, threads: int = 0) -> Shortlisted:
    """Write the shortlist of the model folder `directory`, learned from the training pairs of `run` (None: its own).

    Raises:
        DataError: the training or validation pairs are not there any more.
        ModelFolderError: no model.
    """
    directory = Path(directory)
    home = Path(run) if run is not None else directory
    loaded, source = load_model(directory), load_model(home)
    store_folder = home / "training" / "store"
    if not store_folder.is_dir():
        raise DataError(f"{home}: has no training pairs any more", hint="--run DIR: the model that it was made from")
    tokenizer = loaded.target_tokenizer
    if (source.source_tokenizer.fingerprint(), source.target_tokenizer.fingerprint()) != (
        loaded.source_tokenizer.fingerprint(),
        tokenizer.fingerprint(),
    ):
        raise DataError(f"{home}: its tokenizer is not that of {directory}")
    store = PairStore.open(store_folder)
    config = loaded.model.config
    ids = range(len(tokenizer))
    spelling = [
        i for i, piece in zip(ids, tokenizer.pieces(ids), strict=True) if piece[:3] == "<0x" and len(piece) == 6
    ]
    joint = loaded.source_tokenizer.fingerprint() == tokenizer.fingerprint()
    shortlist = build_shortlist(store, config.src_vocab, config.tgt_vocab, [tokenizer.eos_id, *spelling], joint)
    shortlist.save(directory)

    pairs = tagged_validation_pairs(source)
    references = [reference for _, side in pairs.values() for reference in side]
    scores, seconds, outputs = [], [], []
    for with_list in (False, True):
        engine = "torch" if loaded.ranges is None else "torch-int8"
        translator = Translator.load(
            directory, device="cpu", threads=threads, engine=engine, shortlist=with_list, tags=next(iter(pairs))
        )
        own = {tags: translator.tagged(tags=tags) for tags in pairs}
        translator.translate(["."])  # what is made at the first call counts for neither
        started = time.perf_counter()
        outputs.append([t.text for tags, (texts, _) in pairs.items() for t in own[tags].translate(texts, scores=False)])
        seconds.append(time.perf_counter() - started)
        scores.append(corpus_scores(outputs[-1], [references], loaded.target_language))
    lists = [
        shortlist.of(own[tags].source_ids(loaded.source_tokenizer.encode(text)))
        for tags, (texts, _) in pairs.items()
        for text in texts
    ]
    sizes = [config.tgt_vocab if found is None else len(found) for found in lists]
    return Shortlisted(
        len(store), config.tgt_vocab, float(np.mean(sizes)), len(references),
        sum(a == b for a, b in zip(*outputs, strict=True)), scores[0], scores[1], seconds[0], seconds[1],
    )  # fmt: skip
