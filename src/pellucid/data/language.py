"""Which language a text is in, asked of py3langid where it is installed (the extra `detect`).

Only of texts that are long enough to be sure of: filters that guess the language of short texts throw good ones away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from itertools import islice
from typing import Any

import numpy as np

from pellucid.data.characters import Texts
from pellucid.data.formats.languages import primary
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import ConfigError

FEWEST_LETTERS = 30
"""Of shorter texts nothing is said. Han, kana and Hangul count three each."""
SURE = 0.9
"""The least probability of another language,"""
EXCLUDED = 0.02
"""and the largest of the right one, for a text to be called foreign."""
LEARNT_FROM = 300
"""So many long texts say which language a side is in,"""
LOOKED_AT = 50_000
"""looked for among so many pairs."""


def is_installed() -> bool:
    """Is py3langid there?"""
    return find_spec("py3langid") is not None


class LanguageGuess:
    """Tells of many texts which are in another language than `source` and `target` (two-letter codes, such as zh).

    A side whose language is None is not judged.

    Raises:
        ConfigError: py3langid is not installed, or does not know the language.
    """

    def __init__(self, source: str | None, target: str | None) -> None:
        self._identifier = _identifier()
        self.languages = tuple(primary(code) if code else None for code in (source, target))
        for language in self.languages:
            if language is not None and language not in self._identifier.labels:
                raise ConfigError(
                    f"the language must be one that py3langid knows, but is {language!r}",
                    hint=f"one of {', '.join(sorted(self._identifier.labels))}",
                )

    @classmethod
    def learn(cls, pairs: Iterable[SentencePair], source: str | None, target: str | None) -> LanguageGuess:
        """With the language of most of the first long texts where none is given."""
        identifier, found = _identifier(), (Counter[str](), Counter[str]())
        wanted = [counter for counter, given in zip(found, (source, target), strict=True) if given is None]
        for some in _some(pairs):
            if all(counter.total() >= LEARNT_FROM for counter in wanted):
                break
            for counter, side in zip(found, _sides(some), strict=True):
                if any(counter is w for w in wanted) and counter.total() < LEARNT_FROM:
                    counter.update(identifier.classify(side.texts[i])[0] for i in _long(side))
        return cls(source or _usual(found[0]), target or _usual(found[1]))

    def __call__(self, source: Texts, target: Texts) -> np.ndarray:
        """(N,) bool: a side is surely in another language."""
        found = np.zeros(len(source), bool)
        for side, language in zip((source, target), self.languages, strict=True):
            for i in _long(side) if language is not None else ():
                shares = dict(self._identifier.rank(side.texts[i]))
                best = max(shares, key=lambda name: shares[name])
                found[i] |= best != language and shares[best] >= SURE and shares[language] <= EXCLUDED
        return found


def _long(texts: Texts) -> list[int]:
    """Which texts are long enough to be judged."""
    _, letters, _ = texts.main_scripts
    return np.flatnonzero(letters >= FEWEST_LETTERS).tolist()


def _sides(pairs: list[SentencePair]) -> tuple[Texts, Texts]:
    return Texts([pair.source or "" for pair in pairs]), Texts([pair.target or "" for pair in pairs])


def _usual(counter: Counter[str]) -> str | None:
    """The language of more than half of the texts."""
    for language, count in counter.most_common(1):
        if 2 * count > counter.total():
            return language
    return None


def _some(pairs: Iterable[SentencePair]) -> Iterator[list[SentencePair]]:
    """The first pairs, some at a time."""
    iterator = iter(pairs)
    for _ in range(LOOKED_AT // 500):
        if some := list(islice(iterator, 500)):
            yield some


def _identifier() -> Any:
    if not is_installed():
        raise ConfigError(
            "to look for wrong languages, py3langid must be installed, but it is not",
            hint="pip install 'pellucid[detect]'; wrong scripts are found without it",
        )
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
