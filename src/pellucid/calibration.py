"""What was measured of a model on its validation pairs, in its folder (`calibration.json`): when it is unsure, which
of its attentions is an alignment, and whether it has learnt from single sentences. :mod:`pellucid.calibrating` measures it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pellucid.errors import ModelFolderError

FILE = "calibration.json"
Rows = Literal["predicts", "input"]


@dataclass(frozen=True)
class Reading:
    """Which cross-attention is read as an alignment."""

    layer: int | None = None
    """From 0; None: the mean of all."""
    rows: Rows = "predicts"
    """Which position of the decoder stands for a token: the one that predicts it, or the one whose input it is."""


@dataclass(frozen=True)
class Calibration:
    """Of a model that was not calibrated: nothing is called unsure, and all layers align together."""

    low_confidence: float | None = None
    """Mean log-probability of a token, the end mark included, in nats: what is below is called unsure."""
    quantile: float = 0.0
    """The share of the translations of the validation sources that is below."""
    sentences: int = 0
    """Those that were looked at."""
    alignment: Reading = Reading()
    single_sentences: bool = True
    """Whether nearly all sources that it has learnt from are single sentences."""

    @classmethod
    def load(cls, directory: Path | None) -> Calibration:
        """That of a model folder; the default if it has none.

        Raises:
            ModelFolderError: a damaged file.
        """
        if directory is None or not (directory / FILE).is_file():
            return cls()
        try:
            found = json.loads((directory / FILE).read_text(encoding="utf-8"))
            made = cls(**{**found, "alignment": Reading(**found["alignment"])})
            if not (isinstance(made.low_confidence, float | None) and isinstance(made.alignment.layer, int | None)):
                raise TypeError("`low_confidence` and `layer` must be numbers")
            return made
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise ModelFolderError(
                f"{directory / FILE}: cannot be read: {error}", hint=f"pellucid calibrate {directory}"
            ) from error

    def text(self) -> str:
        """What the file holds."""
        return json.dumps(dataclasses.asdict(self), indent=1) + "\n"

    def is_unsure(self, log_prob: float, tokens: int) -> bool:
        """Whether so many tokens (without the end mark) of that log-probability are less sure than usual."""
        return self.low_confidence is not None and log_prob / (tokens + 1) < self.low_confidence
