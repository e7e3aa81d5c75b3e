from __future__ import annotations

import pytest

pytest.importorskip("py3langid", reason="needs the extra detect")

from pellucid.data.characters import Texts
from pellucid.data.formats.pair import SentencePair
from pellucid.data.language import LanguageGuess
from pellucid.errors import ConfigError

ENGLISH = "We would like to eat something warm this evening."
GERMAN = "Wir möchten heute Abend gerne etwas Warmes essen."
FRENCH = "Nous aimerions bien manger quelque chose de chaud ce soir."
JAPANESE = "今夜は何か温かいものを食べたいです。"


def foreign(guess: LanguageGuess, *pairs: tuple[str, str]) -> list[bool]:
    return guess(Texts([s for s, _ in pairs]), Texts([t for _, t in pairs])).tolist()


def learnt(*pairs: tuple[str, str]) -> LanguageGuess:
    return LanguageGuess.learn([SentencePair(s, t, "f", 1) for s, t in pairs], None, None)


def test_other_languages_are_found_on_either_side() -> None:
    guess = LanguageGuess("en", "de-AT")
    pairs = (ENGLISH, GERMAN), (ENGLISH, ENGLISH), (GERMAN, GERMAN), (ENGLISH, FRENCH), (GERMAN, ENGLISH)
    assert foreign(guess, *pairs) == [False, True, True, True, True]


@pytest.mark.parametrize("text", ["OK", "Bonne nuit", "Save file as...", "今夜", "Tom Hunter", "12:30", "", "???"])
def test_of_short_texts_nothing_is_said(text: str) -> None:
    assert foreign(LanguageGuess("en", "de"), (text, text)) == [False]


def test_the_language_of_a_side_is_learnt_from_its_long_texts() -> None:
    assert learnt(*[(ENGLISH, JAPANESE)] * 5, ("OK", "OK"), (FRENCH, GERMAN)).languages == ("en", "ja")
    assert learnt(("OK", "OK"), ("Hi", "こんにちは")).languages == (None, None)
    assert learnt((ENGLISH, ENGLISH), (GERMAN, FRENCH), (FRENCH, GERMAN)).languages == (None, None)
    assert LanguageGuess.learn([], "en", None).languages == ("en", None)


def test_a_side_of_unknown_language_is_not_judged() -> None:
    assert foreign(LanguageGuess("en", None), (ENGLISH, FRENCH), (GERMAN, FRENCH)) == [False, True]


def test_a_language_that_is_not_known() -> None:
    with pytest.raises(ConfigError, match="must be one that py3langid knows, but is 'xx'"):
        LanguageGuess("xx", "de")
