"""Which language a text is in, asked of py3langid where it is installed (the extra `detect`).

Only of texts that are long enough to be sure of: filters that guess the language of short texts throw good ones away.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any

import numpy as np

from pellucid.data.characters import Texts
from pellucid.data.formats.pair import SentencePair
from pellucid.errors import ConfigError

FEWEST_LETTERS = 30
"""Of shorter texts nothing is said. Han, kana and Hangul count three each."""
SURE = 0.9
"""The least probability of another language,"""
EXCLUDED = 0.02
"""and the largest of the right one, for a text to be called foreign."""


def is_installed() -> bool:
    """Is py3langid there?"""
    return find_spec("py3langid") is not None


class LanguageGuess:
    """Tells of many texts which are in another language than `source` and `target` (two-letter codes, such as zh).

    Raises:
        ConfigError: py3langid is not installed, or does not know the language.
    """

    def __init__(self, source: str, target: str) -> None:
        self._identifier = _identifier()
        self.languages = _primary(source), _primary(target)
        for language in self.languages:
            if language not in self._identifier.labels:
                raise ConfigError(
                    f"the language must be one that py3langid knows, but is {language!r}",
                    hint=f"one of {', '.join(sorted(self._identifier.labels))}",
                )

    @classmethod
    def learn(cls, pairs: Iterable[SentencePair]) -> LanguageGuess:
        """For the languages that most of some pairs are in; English where nothing is long enough to tell."""
        identifier, found = _identifier(), (Counter[str](), Counter[str]())
        for pair in pairs:
            for counter, text in zip(found, (pair.source, pair.target), strict=True):
                if text and len(text) >= FEWEST_LETTERS:
                    counter[identifier.classify(text)[0]] += 1
        return cls(*(counter.most_common(1)[0][0] if counter else "en" for counter in found))

    def __call__(self, source: Texts, target: Texts) -> np.ndarray:
        """(N,) bool: a side is surely in another language."""
        found = np.zeros(len(source), bool)
        for side, language in zip((source, target), self.languages, strict=True):
            _, letters, _ = side.main_scripts
            for i in np.flatnonzero(letters >= FEWEST_LETTERS).tolist():
                shares = dict(self._identifier.rank(side.texts[i]))
                best = max(shares, key=lambda name: shares[name])
                found[i] |= best != language and shares[best] >= SURE and shares[language] <= EXCLUDED
        return found


def _identifier() -> Any:
    if not is_installed():
        raise ConfigError(
            "to look for wrong languages, py3langid must be installed, but it is not",
            hint="pip install 'pellucid[detect]'; wrong scripts are found without it",
        )
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def _primary(code: str) -> str:
    return code.replace("_", "-").split("-")[0].lower()
