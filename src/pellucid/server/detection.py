"""In which of the served languages a text is written.

By py3langid where it is installed (`pip install 'pellucid[detect]'`), asked only about languages that are served: among
few it is right about short texts too. Else by the letters alone, which tells Russian from English but not German.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

FEWEST_LETTERS = 4
"""With fewer there is nothing to go by."""
MOST_CHARACTERS = 2_000
"""More of a text does not make it clearer."""

SCRIPTS = {
    "am": "ETHIOPIC", "ar": "ARABIC", "as": "BENGALI", "be": "CYRILLIC", "bg": "CYRILLIC", "bn": "BENGALI",
    "el": "GREEK", "fa": "ARABIC", "gu": "GUJARATI", "he": "HEBREW", "hi": "DEVANAGARI", "hy": "ARMENIAN",
    "ja": "HIRAGANA KATAKANA CJK", "ka": "GEORGIAN", "kk": "CYRILLIC", "km": "KHMER", "kn": "KANNADA", "ko": "HANGUL",
    "ky": "CYRILLIC", "lo": "LAO", "mk": "CYRILLIC", "ml": "MALAYALAM", "mn": "CYRILLIC", "mr": "DEVANAGARI",
    "my": "MYANMAR", "ne": "DEVANAGARI", "or": "ORIYA", "pa": "GURMUKHI", "ps": "ARABIC", "ru": "CYRILLIC",
    "sd": "ARABIC", "si": "SINHALA", "sr": "CYRILLIC LATIN", "ta": "TAMIL", "te": "TELUGU", "tg": "CYRILLIC",
    "th": "THAI", "tt": "CYRILLIC", "ug": "ARABIC", "uk": "CYRILLIC", "ur": "ARABIC", "yi": "HEBREW",
    "zh": "CJK BOPOMOFO",
}  # fmt: skip
"""How the names of a language's letters begin in Unicode; of those not named here, LATIN."""


class Detected(NamedTuple):
    """A language (in the form of :mod:`pellucid.server.languages`) and how sure it is, from 0 to 100."""

    language: str
    confidence: float


def detect(text: str, languages: Sequence[str]) -> list[Detected]:
    """The languages that `text` may be in, best first; none where it has too few letters.

    Args:
        languages: those that come into question.
    """
    text = text[:MOST_CHARACTERS]
    letters = sum(map(str.isalpha, text))
    wide = sum(ord(c) >= 0x2E80 for c in text if c.isalpha())  # Chinese and its neighbours say a word in a letter
    if not languages or letters + 3 * wide < FEWEST_LETTERS:
        return []
    by_script = _by_script(text, languages)
    if len(by_script) < 2 or (identifier := _identifier(_primaries(languages))) is None:
        return by_script
    alike = [detected.language for detected in by_script]
    found = [
        Detected(language, round(100 * float(probability), 1))
        for primary, probability in identifier.rank(text)
        for language in alike
        if language.partition("-")[0] == primary
    ]
    return found or by_script


def _by_script(text: str, languages: Sequence[str]) -> list[Detected]:
    """Languages whose letters the text has; those of one script share the confidence."""
    names = Counter(unicodedata.name(c, "?").partition(" ")[0] for c in text if c.isalpha())
    total = sum(names.values())
    shares: dict[str, float] = {}
    for language in languages:
        scripts = SCRIPTS.get(language.partition("-")[0], "LATIN").split()
        shares[language] = sum(names[script] for script in scripts) / total
    if "ja" in shares and names["HIRAGANA"] + names["KATAKANA"] == 0 and any(x.startswith("zh") for x in shares):
        shares["ja"] = 0.0  # no Japanese sentence is without kana
    best = max(shares.values())
    if best == 0:
        return []
    alike = [language for language in languages if shares[language] == best]
    return [Detected(language, round(100 * best / len(alike), 1)) for language in alike]


def _primaries(languages: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({language.partition("-")[0] for language in languages}))


@lru_cache(maxsize=64)
def _identifier(languages: tuple[str, ...]) -> Any:
    """py3langid for `languages`, or None where it is missing or knows none of them."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError:
        return None
    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    known = [language for language in languages if language in identifier.nb_classes]
    if not known:
        return None
    identifier.set_languages(known)
    return identifier
