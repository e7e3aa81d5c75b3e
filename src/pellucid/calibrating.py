"""Measures on the validation pairs when a model is unsure and which of its attentions is an alignment.

- Of the translations of the validation sources, one in twenty is less probable, by token, than what is then called
  unsure: `low-confidence` says that a translation is as improbable as the worst of those that the model was meant for.
- Of the layers of the cross-attention, each with the two ways of reading rows, the one whose links agree best with each
  other over the pairs (:func:`~pellucid.inspection.alignment.lexical_consistency`).
- Whether the sources are single sentences: then texts of several are better translated one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pellucid.calibration import FILE, Calibration, Reading
from pellucid.checkpoint import write_atomically
from pellucid.errors import DataError
from pellucid.inspection.alignment import CONVENTIONS, align, lexical_consistency
from pellucid.inspection.alignment import Reading as LayerReading
from pellucid.quantization import validation_pairs
from pellucid.text.sentences import split_sentences
from pellucid.translator import Translator

QUANTILE = 0.05
MOST_PAIRS = 500
FEWEST_FOR_ALIGNMENT = 100
"""Fewer pairs say little about which links agree."""
FEW_WITH_SEVERAL = 0.1


def calibrate(
    directory: str | Path, texts: Sequence[str] | None = None, references: Sequence[str] | None = None,
    *, device: str = "auto", threads: int = 0,
) -> Calibration:  # fmt: skip
    """Write `calibration.json` into a model folder.

    Args:
        texts, references: None: the validation pairs of its training.

    Raises:
        DataError: no pairs, or not as many of one as of the other.
    """
    translator = Translator.load(directory, device=device, threads=threads)
    if texts is None or references is None:
        texts, references = validation_pairs(translator.loaded)
    if len(texts) != len(references):
        raise DataError(f"there must be one reference a text, but there are {len(references)} for {len(texts)} texts")
    pairs = [(s.strip(), t.strip()) for s, t in zip(texts, references, strict=True) if s.strip() and t.strip()]
    pairs = pairs[:MOST_PAIRS]
    if not pairs:
        raise DataError("there must be a pair at least to calibrate with, but there is none")
    found = [t.alternatives[0] for t in translator.translate([source for source, _ in pairs])]
    each = [a.log_prob / (len(a.tokens) + 1) for a in found]
    several = sum(len(split_sentences(source, translator.source_language)) > 1 for source, _ in pairs)
    calibration = Calibration(
        low_confidence=round(float(np.quantile(each, QUANTILE)), 4),
        quantile=QUANTILE,
        pairs=len(pairs),
        alignment=_best_reading(translator, pairs) if len(pairs) >= FEWEST_FOR_ALIGNMENT else Reading(),
        single_sentences=several <= FEW_WITH_SEVERAL * len(pairs),
    )
    write_atomically(Path(directory) / FILE, calibration.text())
    return calibration


def _best_reading(translator: Translator, pairs: Sequence[tuple[str, str]]) -> Reading:
    layers = range(translator.model.config.num_decoder_layers)
    readings = [LayerReading(layer, None, convention) for layer in layers for convention in CONVENTIONS]
    aligned = align(translator, pairs, readings)
    best = max(readings, key=lambda reading: lexical_consistency(aligned.links[reading], aligned.words))
    return Reading(best.layer, best.convention)
