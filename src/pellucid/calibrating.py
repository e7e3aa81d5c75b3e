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
from itertools import chain
from pathlib import Path
from typing import get_args

import numpy as np

from pellucid.calibration import FILE, Calibration, Reading, Rows
from pellucid.checkpoint import load_model, write_atomically
from pellucid.errors import DataError
from pellucid.quantization import tagged_validation_pairs
from pellucid.shortlist import model_1
from pellucid.tags import chosen
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
    directory: str | Path,
    texts: Sequence[str] | None = None,
    *,
    device: str = "auto",
    threads: int = 0,
    to: str | None = None,
    tags: Sequence[str] = (),
) -> Calibration:
    """Write `calibration.json` into a model folder.

    Args:
        texts: what to translate; None: the validation sources of its training, with all tags.
        to, tags: those of `texts`, see :meth:`~pellucid.translator.Translator.load`.

    Raises:
        ConfigError: the model has no such language or tag.
        DataError: there are no texts.
    """
    loaded = load_model(directory)
    if texts is None:
        given = {own: sources for own, (sources, _) in tagged_validation_pairs(loaded).items()}
    else:
        given = {chosen(loaded.source_tokenizer.tags, to, tags): list(texts)}
    most = MOST_SENTENCES // len(given)
    every = {own: [text.strip() for text in some if text.strip()][:most] for own, some in given.items()}
    if not any(every.values()):
        raise DataError("there must be a sentence at least to calibrate with, but there is none")
    whole = Translator.load(directory, device=device, threads=threads, tags=next(iter(every)))
    parts = []
    for own, sources in every.items():
        translator = whole.tagged(tags=own)
        translations = [t.alternatives[0] for t in translator.translate(sources)]
        parts.append((translator, list(zip(sources, translations, strict=True))))
    found = [pair for _, part in parts for pair in part]
    several = sum(len(split_sentences(source, whole.source_language)) > 1 for source, _ in found)
    calibration = Calibration(
        low_confidence=round(float(np.quantile([a.log_prob / (len(a.tokens) + 1) for _, a in found], QUANTILE)), 4),
        quantile=QUANTILE,
        sentences=len(found),
        alignment=best_reading([(own, [(source, a.text) for source, a in part]) for own, part in parts]),
        single_sentences=several <= FEW_WITH_SEVERAL * len(found),
    )
    write_atomically(Path(directory) / FILE, calibration.text())
    return calibration


def best_reading(parts: Sequence[tuple[Translator, Sequence[tuple[str, str]]]]) -> Reading:
    """The reading of the cross-attention that agrees best with Model 1 about some pairs; of few pairs the default.

    Args:
        parts: the model with some tags, and pairs that go with them.
    """
    parts = [(translator, [pair for pair in own if all(map(str.strip, pair))]) for translator, own in parts]
    pairs = [pair for _, own in parts for pair in own]
    if len(pairs) < FEWEST_FOR_ALIGNMENT:
        return Reading()
    places = [(words(source), words(target)) for source, target in pairs]
    causes = _causes(
        [[source[a:b].lower() for a, b in cut] for (source, _), (cut, _) in zip(pairs, places, strict=True)],
        [[target[a:b].lower() for a, b in cut] for (_, target), (_, cut) in zip(pairs, places, strict=True)],
    )
    layers = range(parts[0][0].model.config.num_decoder_layers)
    readings = [Reading(), *(Reading(layer, rows) for layer in layers for rows in get_args(Rows))]
    looked = [translator.attentions(own, readings) for translator, own in parts]
    agreed = []
    for attentions in zip(*looked, strict=True):  # of one reading, part by part
        every = chain.from_iterable(attentions)
        linked = [a.of_words(*cut).argmax(1) for a, cut in zip(every, places, strict=True)]
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
