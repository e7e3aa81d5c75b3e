"""The real client libraries, pointed at this server. DeepL's is only ever given our address."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from server.shared import Client, serving

KEY = "a-key"


@pytest.fixture(scope="module")
def client(reverser) -> Iterator[Client]:
    with serving(f"en:de={reverser}", keys=[KEY]) as client:
        yield client


def expected(client: Client, text: str) -> str:
    return client.inspector.translator.translate([text])[0].text


# --- libretranslatepy -----------------------------------------------------------------------------------------------


@pytest.fixture
def libretranslate(client):
    api = pytest.importorskip("libretranslatepy")
    return api.LibreTranslateAPI(f"{client.url}/", KEY)


def test_libretranslatepy_translates(client, libretranslate):
    assert libretranslate.translate("1 2 3", "en", "de") == expected(client, "1 2 3")


def test_libretranslatepy_detects(libretranslate):
    assert libretranslate.detect("Das Wetter wird morgen wieder besser.")[0]["language"] == "de"


def test_libretranslatepy_lists_languages(libretranslate):
    assert [language["code"] for language in libretranslate.languages()] == ["de", "en"]


def test_libretranslatepy_without_a_key_is_refused(client):
    import urllib.error

    api = pytest.importorskip("libretranslatepy").LibreTranslateAPI(f"{client.url}/", "wrong")
    with pytest.raises(urllib.error.HTTPError) as raised:
        api.translate("1", "en", "de")
    assert raised.value.code == 403
    raised.value.close()


# --- deepl --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def deepl(client) -> Iterator:
    library = pytest.importorskip("deepl")
    translator = library.DeepLClient(KEY, server_url=client.url, send_platform_info=False)
    yield translator
    translator.close()


def test_deepl_translates_one_and_several(client, deepl):
    one = deepl.translate_text("1 2 3", source_lang="EN", target_lang="DE")
    assert (one.text, one.detected_source_lang, one.billed_characters) == (expected(client, "1 2 3"), "EN", 5)
    several = deepl.translate_text(["1 2", "3"], target_lang="DE", source_lang="EN")
    assert [x.text for x in several] == [expected(client, "1 2"), expected(client, "3")]


def test_deepl_finds_out_the_language(deepl):
    assert deepl.translate_text("good morning everybody", target_lang="DE").detected_source_lang == "EN"


def test_deepl_lists_languages(deepl):
    assert [x.code for x in deepl.get_source_languages()] == ["EN"]
    targets = deepl.get_target_languages()
    assert {x.code: x.supports_formality for x in targets} == {"DE": False, "EN": False}
    assert {x.name for x in targets} == {"German", "English"}


def test_deepl_has_usage_left(deepl):
    usage = deepl.get_usage()
    assert usage.character.valid and not usage.any_limit_reached


def test_deepl_says_what_is_wrong(client, deepl):
    library = pytest.importorskip("deepl")
    with pytest.raises(library.DeepLException, match="not available"):
        deepl.translate_text("1", source_lang="DE", target_lang="EN-US")
    other = library.DeepLClient("wrong", server_url=client.url, send_platform_info=False)
    with pytest.raises(library.AuthorizationException):
        other.translate_text("1", target_lang="DE")
    other.close()


# --- DeepL's wire format, without its library ---------------------------------------------------------------------------

HEADERS = {"Authorization": f"DeepL-Auth-Key {KEY}"}


def test_deepl_by_form(client):
    form = {**HEADERS, "Content-Type": "application/x-www-form-urlencoded"}
    told = client.ask("/v2/translate", b"text=1+2&text=3&target_lang=de&source_lang=en", headers=form).json
    assert [x["text"] for x in told["translations"]] == [expected(client, "1 2"), expected(client, "3")]


@pytest.mark.parametrize("body, status, said", [
    ({}, 400, "text"), ({"text": "1", "target_lang": "DE"}, 400, "array"), ({"text": ["1"]}, 400, "target_lang"),
    ({"text": [1], "target_lang": "DE"}, 400, "text"), ({"text": ["1"], "target_lang": "XX"}, 400, "not supported"),
    ({"text": ["1"], "target_lang": 5}, 400, "target_lang"), ({"text": ["1"], "target_lang": "DE", "tag_handling": "rtf"}, 400, "tag_handling"),
    ({"text": ["1"] * 101, "target_lang": "DE"}, 400, "limit"), (b"{", 400, "JSON"), (b"x" * (2 << 20), 413, "bytes"),
])  # fmt: skip
def test_deepl_refuses_in_its_own_words(client, body, status, said):
    answer = client.ask("/v2/translate", body, headers=HEADERS)
    assert answer.status == status and set(answer.json) == {"message"} and said in answer.json["message"]


def test_deepl_knows_no_glossaries_and_no_other_kind_of_languages(client):
    assert client.ask("/v2/glossary-language-pairs", headers=HEADERS).json == {"supported_languages": []}
    assert client.ask("/v2/languages?type=both", headers=HEADERS).status == 400
    assert client.ask("/v2/languages").status == 403
