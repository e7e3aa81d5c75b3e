"""LibreTranslate's API: what each client of it sends, byte for byte where that matters, and what it reads in the answer.

The model is a toy that has learnt to write digits in reverse order; what it answers is compared with what a translator
of the same folder says.
"""

from __future__ import annotations

import json
import urllib.parse
from collections.abc import Iterator

import pytest

from pellucid.errors import ConfigError
from pellucid.server.limits import Limits
from pellucid.server.translating import Manner, translate
from server.shared import Client, raw, serving

FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def client(reverser) -> Iterator[Client]:
    with serving(f"en:de={reverser}") as client:
        yield client


def expected(client: Client, *texts: str, html: bool = False) -> list[str]:
    translator = client.inspector.translator
    return [translate(translator, [text], Manner(html=html), translator.loaded.search)[0].text for text in texts]


# --- every client in the way it asks ------------------------------------------------------------------------------------


def test_weblate(client):
    """GET /languages, then JSON with up to 20 strings and no format."""
    languages = client.ask("/languages", headers={"Content-Type": "application/json"}).json
    assert [(x["code"], x["name"], x["targets"]) for x in languages] == [
        ("de", "German", ["de"]), ("en", "English", ["de", "en"]),
    ]  # fmt: skip
    texts = [f"{i} {i + 1}" for i in range(20)]
    told = client.ask("/translate", {"api_key": "", "q": texts, "source": "en", "target": "de"}).json
    assert told == {"translatedText": expected(client, *texts)}


def test_mastodon(client):
    """An array as HTML; both the translations and the languages are read by index."""
    body = {"q": ["<p>1 2</p>", "3"], "source": "auto", "target": "de", "format": "html", "api_key": None}
    told = client.ask("/translate", body).json
    assert len(told["translatedText"]) == len(told["detectedLanguage"]) == 2
    assert told["translatedText"][0].startswith("<p>") and told["translatedText"][0].endswith("</p>")
    assert told["detectedLanguage"][0] == told["detectedLanguage"][1]


def test_discourse(client):
    """Urlencoded throughout; asks /detect first, and reads the first language of the list."""
    detected = client.ask("/detect", b"q=The+weather+is+fine+today", headers=FORM)
    assert detected.status == 200 and detected.json[0]["language"] in ("en", "de")
    answer = client.ask("/translate", b"q=%3Cb%3E1+a%3C%2Fb%3E+2&source=en&target=de&format=html", headers=FORM)
    assert answer.status == 200 and answer.json["translatedText"] == expected(client, "<b>1 a</b> 2", html=True)[0]
    assert answer.json["translatedText"].count("<b>") == answer.json["translatedText"].count("</b>") == 1


def test_akkoma(client):
    """One string: the language is an object and no array."""
    told = client.ask("/translate", {"q": "1 2", "source": "auto", "target": "de", "format": "html"}).json
    assert isinstance(told["translatedText"], str)
    assert set(told["detectedLanguage"]) == {"confidence", "language"}


def test_soapbox(client):
    """Codes in capitals."""
    told = client.ask("/translate", {"q": "1 2", "source": "EN", "target": "DE"})
    assert told.json == {"translatedText": expected(client, "1 2")[0]}


def test_libretranslatepy(client):
    """GET /languages with a body, which nobody else sends."""
    answer = client.ask("/languages", b"api_key=", headers=FORM, method="GET")
    assert answer.status == 200 and len(answer.json) == 2


def test_deep_translator(client):
    """POST with everything in the query string and no body."""
    query = urllib.parse.urlencode({"q": "1 2 3", "source": "en", "target": "de", "format": "text"})
    answer = raw(client, f"POST /translate?{query} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n".encode())
    assert answer.status == 200 and answer.json["translatedText"] == expected(client, "1 2 3")[0]


def test_npm_libretranslate(reverser):
    """`apiKey` in camel case."""
    with serving(f"en:de={reverser}", keys=["secret"]) as client:
        ask = {"q": "1", "source": "en", "target": "de"}
        assert client.ask("/translate", {**ask, "apiKey": "secret"}).status == 200
        assert client.ask("/translate", {**ask, "apiKey": "wrong"}).status == 403


def test_browser_extensions(client):
    """Several parts, an empty key, and a question before from the browser."""
    asked = client.ask("/translate", method="OPTIONS", headers={"Origin": "moz-extension://x", "Access-Control-Request-Method": "POST"})  # fmt: skip
    assert asked.status == 204 and asked.headers["access-control-allow-origin"] == "*"
    parts = {"q": "1 2", "source": "en", "target": "de", "format": "text", "api_key": ""}
    body = "".join(
        f'--XX\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n' for name, value in parts.items()
    )
    answer = client.ask(
        "/translate",
        f"{body}--XX--\r\n".encode(),
        headers={"Content-Type": "multipart/form-data; boundary=XX", "Origin": "moz-extension://x"},
    )
    assert answer.status == 200 and answer.json["translatedText"] == expected(client, "1 2")[0]
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in answer.headers


def test_xunity(client):
    """GET, answered with plain text alone."""
    answer = client.ask("/plain?from=en&to=de&text=1%202")
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.body.decode() == expected(client, "1 2")[0]
    assert client.ask("/plain?from=fr&to=de&text=1").status == 400
    assert client.ask("/plain?from=en&to=de").status == 400
    assert client.ask("/plain?to=de&text=1").status == 200  # the language is found out


# --- fields ---------------------------------------------------------------------------------------------------------


def test_alternatives_come_only_if_asked_for_and_are_not_the_translation(client):
    ask = {"q": "1 2 3", "source": "en", "target": "de"}
    told = client.ask("/translate", {**ask, "alternatives": 2}).json
    assert 1 <= len(told["alternatives"]) <= 2 and told["translatedText"] not in told["alternatives"]
    assert len(set(told["alternatives"])) == len(told["alternatives"])
    several = client.ask("/translate", {**ask, "q": ["1 2 3", "4"], "alternatives": 2}).json
    assert several["alternatives"][0] == told["alternatives"] and len(several["alternatives"]) == 2
    assert client.ask("/translate", b"q=1+2+3&source=en&target=de&alternatives=2", headers=FORM).json == told
    assert "alternatives" not in client.ask("/translate", {**ask, "alternatives": 0}).json


def test_lines_and_the_space_around_them_stay(client):
    text = "  1 2 \n\n\t3\r\n4  "
    told = client.ask("/translate", {"q": text, "source": "en", "target": "de"}).json["translatedText"]
    one, three, four = expected(client, "1 2", "3", "4")
    assert told == f"  {one} \n\n\t{three}\r\n{four}  "


def test_a_form_of_a_browser_has_its_line_ends_made_plain(client):
    answer = client.ask("/translate", b"q=1%0D%0A2&source=en&target=de", headers=FORM)
    assert answer.json["translatedText"] == "\n".join(expected(client, "1", "2"))


@pytest.mark.parametrize("text", ["🎉", "!?", " ", "…\n…"])
def test_what_has_no_word_in_it_comes_back_as_it_went(client, text):
    told = client.ask("/translate", {"q": [text, "1"], "source": "auto", "target": "de"}).json
    assert told["translatedText"] == [text, expected(client, "1")[0]]


def test_into_its_own_language_a_text_stays_as_it_is(client):
    assert client.ask("/translate", {"q": "1 2", "source": "en", "target": "EN-us"}).json == {"translatedText": "1 2"}


def test_detecting_says_english_with_no_confidence_where_it_cannot_know(client):
    assert client.ask("/detect", {"q": "🎉"}).json == [{"confidence": 0.0, "language": "en"}]
    assert client.ask("/detect", {"q": ["Good morning, everybody", "how are you?"]}).status == 200


def test_settings(client):
    told = client.ask("/frontend/settings").json
    assert told["charLimit"] == 5000 and told["keyRequired"] is False
    assert told["language"]["source"] == {"code": "en", "name": "English"}
    assert ".txt" in told["supportedFilesFormat"]


def test_suggestions_are_refused(client):
    answer = client.ask("/suggest", {"q": "a", "s": "b", "source": "en", "target": "de"})
    assert (answer.status, answer.json) == (403, {"error": "Suggestions are disabled on this server."})


def test_placeholders_and_tags_come_out_once_or_are_named(client):
    text = '1 2 [X12X] 3 %1$s, {name} <x id="1"/> https://example.org/a?b=c 4'
    told = client.ask("/translate", {"q": text, "source": "en", "target": "de"}).json
    for kept in ("[X12X]", "%1$s", "{name}", '<x id="1"/>', "https://example.org/a?b=c"):
        assert told["translatedText"].count(kept) == 1 or "placeholders" in told["flags"], told


def test_a_glossary_for_a_pair(reverser, tmp_path):
    (tmp_path / "terms.tsv").write_text("7\tseven\n")
    (tmp_path / "names.txt").write_text("Ann\n")
    with serving(
        f"en:de={reverser}",
        f"de:en={reverser}",
        glossaries=[f"EN:de={tmp_path}/terms.tsv"],
        dnt=f"{tmp_path}/names.txt",
    ) as client:
        told = client.ask("/translate", {"q": "1 7 2 Ann", "source": "en", "target": "de"}).json
        assert "seven" in told["translatedText"] and "Ann" in told["translatedText"]
        told = client.ask("/translate", {"q": "1 7 2", "source": "de", "target": "en"}).json
        assert "seven" not in told["translatedText"]
    with pytest.raises(ConfigError, match="none does"), serving(f"en:de={reverser}", glossaries=["en:fr=x.tsv"]):
        pass


# --- a way through another language -----------------------------------------------------------------------------------


def test_a_language_between(reverser):
    with serving(f"en:pt-BR={reverser}", f"pt-BR:zh={reverser}") as client:
        assert client.ask("/languages").json[0] == {
            "code": "en", "name": "English", "targets": ["en", "pt-BR", "zh-Hans"],
        }  # fmt: skip
        answer = client.ask("/translate", {"q": "1 2 3", "source": "en", "target": "zh"})
        (middle,) = expected(client, "1 2 3")
        assert answer.json["translatedText"] == expected(client, middle)[0]
        assert answer.headers["x-pellucid-pivot"] == "pt-BR"
        direct = client.ask("/translate", {"q": "1 2 3", "source": "pb", "target": "zh-CN"})
        assert direct.status == 200 and "x-pellucid-pivot" not in direct.headers
        assert client.ask("/translate", {"q": "1", "source": "zh", "target": "en"}).status == 400


# --- refusals ---------------------------------------------------------------------------------------------------------

GOOD = {"q": "1", "source": "en", "target": "de"}


@pytest.mark.parametrize("body, status, said", [
    (b"{", 400, "Invalid JSON format"), (b"[]", 400, "Invalid JSON format"), (b'"q"', 400, "Invalid JSON format"),
    (b"", 400, "Invalid JSON format"), (b'{"q": NaN}', 400, "Invalid JSON format"),
    ({}, 400, "Invalid request: missing q parameter"), ({"q": "", "source": "en", "target": "de"}, 400, "missing q parameter"),
    ({**GOOD, "q": []}, 400, "missing q parameter"), ({"q": "1"}, 400, "missing source parameter"),
    ({"q": "1", "source": "en"}, 400, "missing target parameter"), ({**GOOD, "q": None}, 400, "missing q parameter"),
    ({**GOOD, "q": 5}, 400, "q must be a string or an array of strings"), ({**GOOD, "q": ["1", None]}, 400, "array of strings"),
    ({**GOOD, "q": {"a": "b"}}, 400, "array of strings"), ({**GOOD, "q": [["1"]]}, 400, "array of strings"),
    ({**GOOD, "source": 3}, 400, "source must be a string"), ({**GOOD, "target": ["de"]}, 400, "target must be a string"),
    ({**GOOD, "source": "xx"}, 400, "xx is not supported"), ({**GOOD, "target": "../../etc/passwd"}, 400, "../../etc/passwd is not supported"),
    ({**GOOD, "source": "de", "target": "en"}, 400, "English (en) is not available as a target language from German (de)"),
    ({**GOOD, "format": "docx"}, 400, "docx format is not supported"), ({**GOOD, "format": 1}, 400, "format must be a string"),
    ({**GOOD, "alternatives": "many"}, 400, "alternatives parameter is not a number"),
    ({**GOOD, "alternatives": -1}, 400, "not a number"), ({**GOOD, "alternatives": True}, 400, "not a number"),
    ({**GOOD, "alternatives": 1.5}, 400, "not a number"), ({**GOOD, "alternatives": [1]}, 400, "not a number"),
    ({**GOOD, "alternatives": 10_000}, 400, "alternatives parameter must be <= 5"),
    ({**GOOD, "alternatives": 10**400}, 400, "not a number"),
    ({**GOOD, "q": "1" * 5001}, 400, "request (5001) exceeds text limit (5000)"), ({**GOOD, "q": ["1"] * 101}, 400, "request (101) exceeds text limit (100)"),
    ({**GOOD, "q": "a\ud800"}, 400, "not valid Unicode"), ({**GOOD, "api_key": 3}, 400, "api_key must be a string"),
    (b'{"q": "\xff\xfe", "source": "en", "target": "de"}', 400, "Invalid JSON format"),
    (b'{"q": ' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400, "Invalid JSON format"),
    (b'{"x": ' + b"[" * 20 + b"]" * 20 + b', "q": "1", "source": "en", "target": "de"}', 400, "too deep"),
    (b'{"q": "' + b"1" * (2 << 20) + b'"}', 413, "at most 1048576 bytes"),
])  # fmt: skip
def test_what_cannot_be_is_refused_in_words(client, body, status, said):
    answer = client.ask("/translate", body)
    assert answer.status == status, answer.body[:200]
    assert said in answer.json["error"]


@pytest.mark.parametrize(
    "body", [b"q=%ff&source=en&target=de", b"q=\xff&source=en&target=de", b"&".join([b"a=1"] * 600)]
)
def test_a_form_that_cannot_be_read_is_refused(client, body):
    assert client.ask("/translate", body, headers=FORM).status == 400


@pytest.mark.parametrize("body", [
    b"", b"--XX", b"--XX\r\n\r\n\r\n--XX--\r\n", b'--XX\r\nContent-Disposition: form-data; name="q"\r\n\r\n\xff\r\n--XX--\r\n',
    b'--XX\r\nContent-Disposition: form-data; name="q"; filename="a"\r\n\r\na\r\n--XX--\r\n',
    b'--XX\r\nContent-Disposition: form-data; name="q"\r\n\r\na\r\n' * 50 + b"--XX--\r\n", b"garbage" * 100,
])  # fmt: skip
def test_parts_that_cannot_be_read_are_refused(client, body):
    for kind in ("multipart/form-data; boundary=XX", "multipart/form-data", "multipart/form-data; boundary="):
        answer = client.ask("/translate", body, headers={"Content-Type": kind})
        assert answer.status == 400 and answer.json["error"]


def test_another_kind_of_body_is_refused(client):
    assert client.ask("/translate", b"<q>1</q>", headers={"Content-Type": "text/xml"}).status == 415


@pytest.mark.parametrize("method, path, status", [
    ("GET", "/translate", 405), ("GET", "/detect", 405), ("POST", "/languages", 405), ("PUT", "/translate", 405),
    ("GET", "/nothing", 404), ("GET", "/download_file/..%2F..%2Fetc%2Fpasswd", 404), ("GET", "/languages/", 404), ("GET", "//", 404),
])  # fmt: skip
def test_wrong_paths_and_methods_get_json(client, method, path, status):
    answer = client.ask(path, method=method)
    assert answer.status == status and answer.json["error"]


# --- keys, origins, rates -------------------------------------------------------------------------------------------


def test_keys(reverser):
    with serving(f"en:de={reverser}", keys=["first", "second"], page=False) as client:
        none = client.ask("/translate", GOOD)
        assert (none.status, none.json) == (400, {"error": "Please contact the server operator to get an API key"})
        assert client.ask("/translate", {**GOOD, "api_key": ""}).status == 400
        wrong = client.ask("/translate", {**GOOD, "api_key": "firs"})
        assert (wrong.status, wrong.json) == (403, {"error": "Invalid API key"})
        assert client.ask("/translate", {**GOOD, "api_key": "second"}).status == 200
        assert client.ask("/translate", GOOD, headers={"Authorization": "Bearer first"}).status == 200
        assert client.ask("/translate", GOOD, headers={"Authorization": "bearer nobody"}).status == 403
        assert client.ask("/detect", {"q": "1"}).status == 400
        assert client.ask("/plain?from=en&to=de&text=1&api_key=first").status == 200
        assert client.ask("/metrics").status == 400
        assert client.ask("/metrics?api_key=first").status == 200
        for open_to_all in ("/languages", "/health", "/ready", "/spec", "/frontend/settings"):
            assert client.ask(open_to_all).status == 200
        assert client.ask("/frontend/settings").json["keyRequired"] is True
        assert client.ask("/").status == 404  # the page knows no keys


def test_sites_can_be_listed(reverser):
    with serving(f"en:de={reverser}", origins=["https://ours.example"]) as client:
        ours = client.ask("/languages", headers={"Origin": "https://ours.example"})
        assert ours.headers["access-control-allow-origin"] == "https://ours.example"
        theirs = client.ask("/languages", headers={"Origin": "https://theirs.example"})
        assert "access-control-allow-origin" not in theirs.headers and theirs.headers["vary"] == "Origin"


def test_the_page_s_own_questions_are_never_open_to_other_sites(client):
    for path in ("/", "/api/model", "/api/nothing"):
        answer = client.ask(path, headers={"Origin": "https://site.example"})
        assert "access-control-allow-origin" not in answer.headers
    assert client.ask("/api/model", headers={"Host": "site.example"}).status == 421
    assert client.ask("/languages", headers={"Host": "site.example"}).status == 200


def test_too_often_is_too_often_for_that_client_alone(reverser):
    with serving(f"en:de={reverser}", limits=Limits(rate=30), proxies=["127.0.0.1"]) as client:

        def ask(address: str, texts: int) -> int:
            return client.ask("/translate", {**GOOD, "q": ["1"] * texts}, headers={"X-Forwarded-For": address}).status

        assert ask("9.0.0.1", 20) == 200
        refused = client.ask("/translate", {**GOOD, "q": ["1"] * 20}, headers={"X-Forwarded-For": "9.0.0.1"})
        assert (refused.status, refused.json) == (429, {"error": "Slowdown: 30 per 1 minute"})
        assert 1 <= int(refused.headers["retry-after"]) <= 60
        assert ask("9.0.0.2", 20) == 200
        for free in ("/health", "/languages"):
            assert client.ask(free, headers={"X-Forwarded-For": "9.0.0.1"}).status == 200


def test_programs_on_this_machine_are_not_slowed_unless_somebody_says_so(client):
    statuses = {client.ask("/translate", {**GOOD, "q": [" "] * 100}).status for _ in range(70)}
    assert statuses == {200}  # 7,000 texts
    through_a_proxy = {
        client.ask("/translate", {**GOOD, "q": [" "] * 100}, headers={"X-Forwarded-For": "9.0.0.1"}).status
        for _ in range(70)
    }
    assert through_a_proxy == {200, 429}


# --- files ------------------------------------------------------------------------------------------------------------


def file_body(name: str, content: bytes, **fields: str) -> tuple[bytes, dict[str, str]]:
    parts = [
        f'--XX\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items()
    ] + [
        f'--XX\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n'
        f"Content-Type: application/octet-stream\r\n\r\n".encode() + content + b"\r\n"
    ]  # fmt: skip
    return b"".join(parts) + b"--XX--\r\n", {"Content-Type": "multipart/form-data; boundary=XX"}


def test_a_file(client):
    lines = [f"{i % 10} {i % 7}" for i in range(250)] + ["", "  1 2"]
    body, headers = file_body("a.txt", "\n".join(lines).encode(), source="en", target="de")
    answer = client.ask("/translate_file", body, headers=headers)
    url = answer.json["translatedFileUrl"]
    assert url.startswith(f"{client.url}/download_file/") and url.endswith(".txt")
    got = client.ask(url.removeprefix(client.url))
    assert got.headers["content-disposition"] == 'attachment; filename="translated.txt"'
    assert got.body.decode().split("\n") == [*expected(client, *lines[:250]), "", "  " + expected(client, "1 2")[0]]


def test_a_catalogue_and_subtitles_keep_all_but_their_texts(client):
    catalogue = b'# A note.\nmsgid ""\nmsgstr "Language: de\\n"\n\n#: a.c:1\nmsgid "1 2 3"\nmsgstr ""\n'
    subtitles = b"1\n00:00:01,000 --> 00:00:02,000\n4 5 6\n"
    for name, content, text in (("a.po", catalogue, "1 2 3"), ("A.SRT", subtitles, "4 5 6")):
        body, headers = file_body(name, content, source="auto" if name == "a.po" else "en", target="de")
        url = client.ask("/translate_file", body, headers=headers).json["translatedFileUrl"]
        got = client.ask(url.removeprefix(client.url)).body.decode()
        (translation,) = expected(client, text)
        assert translation in got and len(got.splitlines()) >= len(content.splitlines())
        assert all(line in got for line in content.decode().splitlines() if line.startswith(("#", "00:")))


def test_a_page_is_translated_as_html(client):
    page = '<p title="1 2">3 <b>4 5</b> a</p><script>6</script>'
    body, headers = file_body("a.html", page.encode(), source="en", target="de")
    url = client.ask("/translate_file", body, headers=headers).json["translatedFileUrl"]
    got = client.ask(url.removeprefix(client.url)).body.decode()
    assert got == expected(client, page, html=True)[0] != page
    assert got.count("<b>") == 1 and got.endswith("</p><script>6</script>")


@pytest.mark.parametrize("name, content, fields, said", [
    ("a.exe", b"1", {"source": "en", "target": "de"}, "file format not supported"), ("", b"1", {"source": "en", "target": "de"}, ""),
    ("../../a.txt", b"\xff", {"source": "en", "target": "de"}, "UTF-8"), ("a.po.gz", b"1", {"source": "en", "target": "de"}, "not supported"), ("a.xliff", b"<x", {"source": "en", "target": "de"}, "the file"), ("a.txt", b"1", {"source": "en"}, "missing target"),
    ("a.txt", b"1" * 6000, {"source": "en", "target": "de"}, "exceeds text limit"), ("a.txt", b"1", {"source": "en", "target": "xx"}, "xx is not supported"),
])  # fmt: skip
def test_a_file_that_cannot_be_translated_is_refused(client, name, content, fields, said):
    body, headers = file_body(name, content, **fields)
    answer = client.ask("/translate_file", body, headers=headers)
    assert answer.status == 400 and said in answer.json["error"]


def test_a_file_too_large_is_refused_and_none_is_missed(client):
    body, headers = file_body("a.txt", b"1 2\n" * (3 << 20), source="en", target="de")
    assert client.ask("/translate_file", body, headers=headers).status == 413
    assert client.ask("/translate_file", {"source": "en", "target": "de"}).status == 400


# --- the rest ---------------------------------------------------------------------------------------------------------


def test_weblate_s_trial_is_answered_only_if_asked_for(reverser):
    ask = {"q": ["test"], "source": "en", "target": "de"}
    with serving(f"fr:it={reverser}", weblate=True) as client:
        assert {x["code"] for x in client.ask("/languages").json} == {"de", "en", "fr", "it"}
        assert client.ask("/translate", ask).json == {"translatedText": ["test"]}
        assert client.ask("/translate", {**ask, "q": "another"}).status == 400
    with serving(f"fr:it={reverser}") as client:
        assert client.ask("/translate", ask).status == 400
    with serving(f"en:de={reverser}", weblate=True) as client:  # there the model answers
        assert client.ask("/translate", ask).json == {"translatedText": expected(client, "test")}


def test_metrics_count_and_tell_no_text(client):
    client.ask("/translate", {**GOOD, "q": ["0 0 7", "1"]})
    client.ask("/secret-path-of-a-user")
    told = client.ask("/metrics")
    assert told.headers["content-type"].startswith("text/plain")
    text = told.body.decode()
    assert 'pellucid_requests_total{route="/translate",status="200"}' in text
    assert 'pellucid_texts_total{source="en",target="de"}' in text
    assert "0 0 7" not in text and "127.0.0.1" not in text and "secret-path" not in text
    counted = [line for line in text.splitlines() if line.startswith("pellucid_request_seconds_bucket")]
    assert len(counted) == 13 and counted[-1].startswith('pellucid_request_seconds_bucket{le="+Inf"}')


def test_a_failure_inside_is_told_without_a_word_of_the_text(client, monkeypatch, caplog):
    def fail(*args, **kwargs):
        raise RuntimeError(f"the text was {args}")

    monkeypatch.setattr(client.service, "way", fail)
    answer = client.ask("/translate", {**GOOD, "q": "0 0 private 0 0"})
    assert answer.status == 500 and "private" not in answer.body.decode()
    assert "RuntimeError" in caplog.text and "private" not in caplog.text


def test_every_answer_to_a_program_is_json_in_utf_8(client):
    answer = client.ask("/translate", {"q": "日本 ünï", "source": "en", "target": "en"})
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert json.loads(answer.body)["translatedText"] == "日本 ünï"
