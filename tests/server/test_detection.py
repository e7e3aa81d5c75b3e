"""Which language a text is in."""

from __future__ import annotations

import pytest

from pellucid.server import detection
from pellucid.server.detection import detect

SENTENCES = {
    "en": "The weather will be better tomorrow.",
    "de": "Das Wetter wird morgen wieder besser.",
    "fr": "Demain, il fera de nouveau beau chez nous.",
    "ru": "Завтра снова будет хорошая погода.",
    "zh-Hans": "明天天气会好一些。",
    "ja": "明日はもっと天気がよくなります。",
    "el": "Αύριο ο καιρός θα είναι καλύτερος.",
}


def test_sentences_are_told_apart():
    pytest.importorskip("py3langid")
    for language, sentence in SENTENCES.items():
        found = detect(sentence, list(SENTENCES))
        assert found[0].language == language, found
        assert 50 < found[0].confidence <= 100


def test_a_language_that_is_not_served_is_never_named():
    assert {d.language for d in detect(SENTENCES["fr"], ["en", "de"])} <= {"en", "de"}
    assert detect(SENTENCES["ru"], ["en", "de"]) == []  # no letter of theirs


@pytest.mark.parametrize("text", ["", "   ", "12 + 3", "🎉🎉", "ok"])
def test_too_little_to_go_by_is_no_language(text):
    assert detect(text, ["en", "de"]) == []


def test_without_py3langid_the_letters_say_what_they_can(monkeypatch):
    monkeypatch.setattr(detection, "_identifier", lambda languages: None)
    assert detect(SENTENCES["ru"], ["en", "ru"])[0] == ("ru", 100.0)
    assert detect(SENTENCES["ja"], ["zh-Hans", "ja"])[0] == ("ja", 100.0)
    assert detect(SENTENCES["zh-Hans"], ["zh-Hans", "ja"])[0] == ("zh-Hans", 100.0)
    assert detect(SENTENCES["de"], ["en", "de", "ru"]) == [("en", 50.0), ("de", 50.0)]


def test_a_language_that_py3langid_does_not_know_is_found_by_its_letters():
    pytest.importorskip("py3langid")
    assert detect(SENTENCES["en"], ["qqa", "qqb"]) == [("qqa", 50.0), ("qqb", 50.0)]
