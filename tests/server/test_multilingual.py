"""A model with several target languages is served with all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from multilingual import sources
from pellucid.translator import Translator
from server.shared import serving

TEXTS = sources(12, seed=9)


@pytest.fixture(scope="module")
def client(multilingual):
    with serving(multilingual) as client:
        yield client


def asked(client, target: str, texts: list[str] | str, **more: object):
    return client.ask("/translate", {"q": texts, "source": "en", "target": target, **more})


def test_each_target_language_is_there(client):
    told = {entry["code"]: entry["targets"] for entry in client.ask("/languages").json}
    assert set(told) == {"en", "lo", "up"}
    assert told["en"] == ["en", "lo", "up"]
    assert [entry["name"] for entry in client.ask("/api/models").json] == ["model-lo", "model-up"]


def test_requests_into_different_languages_at_once_get_their_own(client, multilingual):
    up = Translator.load(multilingual, threads=1, engine="torch", to="up")
    expected = {name: [t.text for t in up.tagged(name).translate(TEXTS)] for name in ("up", "lo")}
    assert expected["up"] != expected["lo"]
    wanted = ["up", "lo"] * 6
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda target: asked(client, target, TEXTS), wanted))
    for target, answer in zip(wanted, answers, strict=True):
        assert answer.json["translatedText"] == expected[target]


def test_a_language_that_it_does_not_have_is_refused(client):
    answer = asked(client, "de", "a")
    assert answer.status == 400 and "de" in answer.json["error"]


def test_the_page_shows_the_tag_of_each(client):
    for name, tag in [("model-up", "<2up>"), ("model-lo", "<2lo>")]:
        found = client.ask(f"/api/translate?model={name}", {"text": "a b"}).json
        assert found["source"]["tokens"][0]["text"] == tag
        assert found["source"]["tokens"][0]["kind"] == "tag"
        model = client.ask(f"/api/model?model={name}").json
        assert model["targetLanguage"] == name[-2:] and model["pairs"] > 0


def test_both_share_one_model(client):
    first, second = (served.inspector for served in client.service.models.values())
    assert first.translator.model is second.translator.model
    assert first.lock is second.lock


def test_one_language_alone_and_a_domain(multilingual):
    with serving(f"en:up={multilingual}", tags=["loud"]) as client:
        assert client.ask("/languages").json[0]["targets"] == ["en", "up"]
        assert asked(client, "up", "a b").json["translatedText"].endswith("!")
