"""Measures on the validation sources, and their translations, what the program should know of a model.

- When it is unsure: one in twenty of these translations is less probable, by token. `low-confidence` says that a
  translation is as improbable as the worst of those that the model was made for.
- Which of its cross-attentions is an alignment: the one that agrees best with IBM Model 1 (Brown et al. 1993), learned from
  the same translations, where that is sure. (Agreement of the links with each other,
  :func:`~pellucid.inspection.alignment.lexical_consistency`, chose a reading by which every fourth tag went astray.)
- Whether the sources are single sentences: then texts of several are better translated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from pellucid.calibration import FILE, Calibration, Reading, Rows
from pellucid.checkpoint import write_atomically
from pellucid.errors import DataError
from pellucid.quantization import validation_pairs
from pellucid.shortlist import model_1
from pellucid.text.bare import words
from pellucid.text.sentences import split_sentences
from pellucid.translator import Translator

QUANTILE = 0.05
MOST_SENTENCES = 500
FEWEST_FOR_ALIGNMENT = 100
"""Fewer pairs teach Model 1 too little."""
SURE = 0.5
FEW_WITH_SEVERAL = 0.1


def calibrate(
    directory: str | Path, texts: Sequence[str] | None = None, *, device: str = "auto", threads: int = 0
) -> Calibration:
    """Write `calibration.json` into a model folder.

    Args:
        texts: what to translate; None: the validation sources of its training.

    Raises:
        DataError: there are none.
    """
    translator = Translator.load(directory, device=device, threads=threads)
    if texts is None:
        texts = validation_pairs(translator.loaded)[0]
    sources = [text.strip() for text in texts if text.strip()][:MOST_SENTENCES]
    if not sources:
        raise DataError("there must be a sentence at least to calibrate with, but there is none")
    found = [t.alternatives[0] for t in translator.translate(sources)]
    each = [a.log_prob / (len(a.tokens) + 1) for a in found]
    several = sum(len(split_sentences(source, translator.source_language)) > 1 for source in sources)
    calibration = Calibration(
        low_confidence=round(float(np.quantile(each, QUANTILE)), 4),
        quantile=QUANTILE,
        sentences=len(sources),
        alignment=best_reading(translator, [(s, a.text) for s, a in zip(sources, found, strict=True)]),
        single_sentences=several <= FEW_WITH_SEVERAL * len(sources),
    )
    write_atomically(Path(directory) / FILE, calibration.text())
    return calibration


def best_reading(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Reading:
    """The reading of the cross-attention that agrees best with Model 1 about `pairs`; of few pairs the default."""
    pairs = [(source, target) for source, target in pairs if source.strip() and target.strip()]
    if len(pairs) < FEWEST_FOR_ALIGNMENT:
        return Reading()
    places = [(words(source), words(target)) for source, target in pairs]
    causes = _causes(
        [[source[a:b].lower() for a, b in cut] for (source, _), (cut, _) in zip(pairs, places, strict=True)],
        [[target[a:b].lower() for a, b in cut] for (_, target), (_, cut) in zip(pairs, places, strict=True)],
    )
    layers = range(translator.model.config.num_decoder_layers)
    readings = [Reading(), *(Reading(layer, rows) for layer in layers for rows in get_args(Rows))]
    agreed = []
    for attentions in translator.attentions(pairs, readings):
        linked = [a.of_words(*cut).argmax(1) for a, cut in zip(attentions, places, strict=True)]
        agreed.append(sum(int((link == cause).sum()) for link, cause in zip(linked, causes, strict=True)))
    return readings[int(np.argmax(agreed))]


def _causes(sources: Sequence[Sequence[str]], targets: Sequence[Sequence[str]]) -> list[np.ndarray]:
    """For each target word of each pair the place of the source word that Model 1 is sure of; -1: it is of none.

    Every source has one word more, which no text has: the cause of what has no other.
    """
    source_ids, target_ids = _ids(sources), _ids(targets)
    nobody, size = len(source_ids), len(target_ids)
    s = [np.array([*(source_ids[w] for w in words_), nobody]) for words_ in sources]
    t = [np.array([target_ids[w] for w in words_]) for words_ in targets]
    links, probability = model_1(s, t, size)
    causes = []
    for source, target in zip(s, t, strict=True):
        share = probability[np.searchsorted(links, source[None, :] * size + target[:, None])]  # (T, S + 1)
        share /= share.sum(1, keepdims=True)
        best = share.argmax(1)
        causes.append(np.where((share.max(1) > SURE) & (best < len(source) - 1), best, -1))
    return causes


def _ids(texts: Sequence[Sequence[str]]) -> dict[str, int]:
    return {word: i for i, word in enumerate(dict.fromkeys(word for text in texts for word in text))}
