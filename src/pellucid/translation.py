"""What comes of a text."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Alternative:
    """One of the translations of a text."""

    text: str
    score: float
    log_prob: float
    tokens: tuple[str, ...]
    finished: bool
    """False: the greatest length came before an end mark."""


@dataclass(frozen=True)
class Demand:
    """A term that a translation must have, and where."""

    term: str
    before: str
    """It begins after as many pieces as this has, at most."""


@dataclass(frozen=True)
class Translation:
    """What came of one text."""

    source: str
    text: str
    score: float
    """Length-normalised log-probability (see `search.py`); the mean over the segments of a split text."""
    log_prob: float
    alternatives: tuple[Alternative, ...]
    """The n best, the first being `text`; of a split text only that one."""
    flags: tuple[str, ...]
    """
    empty           there was nothing to translate
    split           too long for one piece, or several sentences
    truncated       an end mark never came
    unknown         `<unk>` in the source
    repeated        says the same again and again, more than its source
    low-confidence  less probable than nearly all translations of the validation pairs (:mod:`pellucid.calibration`)
    placed          placeholders, tags or terms were put in by attention: see that they stand well
    placeholders    some did not come out once each, or came out of nothing: `damaged` has them
    glossary        some terms did not come out: `damaged` has them
    """
    source_tokens: tuple[str, ...]
    damaged: tuple[str, ...] = ()
    """Placeholders and tags that did not come out exactly once each, and terms that did not come out."""
