"""What the server asks of a translator: the one place where the two meet.

A text is handled as `pellucid translate --split-sentences --retry-loops --length-ratio 2` handles a line, with its lines,
placeholders and tags kept: see :mod:`pellucid.handling`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.config import SearchConfig
from pellucid.text.options import SERVED
from pellucid.text.terms import Terms
from pellucid.translator import Translator

TOLD = ("repeated", "low-confidence", "truncated", "placeholders", "glossary")
"""Flags that a client is told of: what came out may not be what is wanted."""

LENGTH_RATIO = 2.0
"""No translation is longer than this times its source + 20 pieces, unless the server is asked for another bound."""


@dataclass(frozen=True)
class Manner:
    """How a text is to be translated; texts of one manner can be translated together."""

    alternatives: int = 0
    """Besides the best."""
    html: bool = False


@dataclass(frozen=True)
class Answer:
    """What came of one text."""

    text: str
    alternatives: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    """Of :data:`TOLD`; see :class:`~pellucid.translation.Translation`."""


def translate(
    translator: Translator, texts: Sequence[str], manner: Manner, config: SearchConfig, terms: Terms | None = None
) -> list[Answer]:
    """The answers to `texts`, one each, in order; what else is among them changes nothing.

    Args:
        terms: a glossary, and what must not be translated.
    """
    config = dataclasses.replace(config, length_ratio=config.length_ratio or LENGTH_RATIO)
    options = dataclasses.replace(SERVED, format="html" if manner.html else "text", terms=terms)
    if manner.alternatives and not manner.html:
        n_best = manner.alternatives + 1
        config = dataclasses.replace(config, n_best=n_best, beam_size=max(config.beam_size, n_best))
    answers = []
    for translation in translator.translate(texts, config, text=options):
        others = dict.fromkeys(alternative.text for alternative in translation.alternatives)
        others.pop(translation.text, None)
        wanted = tuple(others)[: manner.alternatives]
        flags = tuple(flag for flag in translation.flags if flag in TOLD)
        answers.append(Answer(translation.text, () if manner.html else wanted, flags))
    return answers
