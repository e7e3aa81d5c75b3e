"""What the server asks of a translator: the one place where the two meet.

Each line of a text is translated by itself, as `pellucid translate` does, and what stands around it stays.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pellucid.config import SearchConfig
from pellucid.errors import DataError
from pellucid.translator import Translator

LINE_END = re.compile(r"(\r\n|\n|\r)")


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
    """See :class:`~pellucid.translator.Translation`."""


def translate(translator: Translator, texts: Sequence[str], manner: Manner, config: SearchConfig) -> list[Answer]:
    """The answers to `texts`, one each, in order; what else is among them changes nothing.

    Raises:
        DataError: HTML, which is not translated yet.
    """
    if manner.html:
        raise DataError("html format is not supported")
    if manner.alternatives:
        n_best = manner.alternatives + 1
        config = dataclasses.replace(config, n_best=n_best, beam_size=max(config.beam_size, n_best))
    parts = [_lines(text) for text in texts]
    found = iter(translator.translate([line for lines in parts for _, line, _ in lines if line], config))
    answers = []
    for lines in parts:
        each = [(before, next(found) if line else None, after) for before, line, after in lines]
        best = [
            "".join(
                before + (t.alternatives[min(k, len(t.alternatives) - 1)].text if t and t.alternatives else "") + after
                for before, t, after in each
            )
            for k in range(manner.alternatives + 1)
        ]
        flags = dict.fromkeys(flag for _, t, _ in each if t for flag in t.flags)
        others = [other for other in dict.fromkeys(best[1:]) if other != best[0]]
        answers.append(Answer(best[0], tuple(others), tuple(flags)))
    return answers


def _lines(text: str) -> list[tuple[str, str, str]]:
    """`text` as (space before, line, space and line end after): joined they are `text`.

    >>> _lines(" one \\n\\ntwo")
    [(' ', 'one', ' \\n'), ('', '', '\\n'), ('', 'two', '')]
    """
    pieces = [*LINE_END.split(text), ""]
    parts = []
    for line, end in zip(pieces[::2], pieces[1::2], strict=True):
        rest, bare = line.lstrip(), line.strip()
        parts.append((line[: len(line) - len(rest)], bare, rest[len(bare) :] + end))
    return parts
