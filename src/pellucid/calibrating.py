"""Measures on the validation pairs when a model is unsure, and whether it has learnt from single sentences.

Of the translations of the validation sources, one in twenty is less probable, by token, than what is then called unsure:
`low-confidence` says that a translation is as improbable as the worst of those that the model was made for.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pellucid.calibration import FILE, Calibration
from pellucid.checkpoint import write_atomically
from pellucid.errors import DataError
from pellucid.quantization import validation_pairs
from pellucid.text.sentences import split_sentences
from pellucid.translator import Translator

QUANTILE = 0.05
MOST_SENTENCES = 500
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
        single_sentences=several <= FEW_WITH_SEVERAL * len(sources),
    )
    write_atomically(Path(directory) / FILE, calibration.text())
    return calibration
