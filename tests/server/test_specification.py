"""Requests made up from the OpenAPI document, right ones and wrong ones: each gets an answer that the document knows.

schemathesis does the same at greater length, where it is installed: `schemathesis run http://127.0.0.1:7878/spec`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from server.shared import Client, serving

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
CODES = st.sampled_from(["en", "de", "EN", "auto", "zh", "xx", "../..", "", "en-GB"])
CALM = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(scope="module")
def client(reverser) -> Iterator[Client]:
    with serving(f"en:de={reverser}") as client:
        yield client


@pytest.fixture(scope="module")
def document(client) -> dict[str, Any]:
    return client.ask("/spec").json


def schema_holds(value: Any, schema: dict[str, Any]) -> bool:
    """Whether `value` is as `schema` says: the few words of JSON Schema that the document uses."""
    if "anyOf" in schema:
        return any(schema_holds(value, one) for one in schema["anyOf"])
    if "oneOf" in schema:
        return sum(schema_holds(value, one) for one in schema["oneOf"]) == 1
    kinds = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float), "boolean": bool}
    if not isinstance(value, kinds[schema["type"]]):
        return False
    if schema["type"] == "object":
        known = schema.get("properties", {})
        return set(schema.get("required", ())) <= set(value) and all(
            schema_holds(v, known[k]) for k, v in value.items() if k in known
        )
    return schema["type"] != "array" or all(schema_holds(item, schema["items"]) for item in value)


def made_up(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values as `schema` wants them; codes of languages are mostly ones that mean something."""
    if "oneOf" in schema or "anyOf" in schema:
        return st.one_of(*map(made_up, schema.get("oneOf") or schema["anyOf"]))
    if schema["type"] == "object":
        required = {k: made_up(v) for k, v in schema["properties"].items() if k in schema["required"]}
        other = {k: made_up(v) for k, v in schema["properties"].items() if k not in schema["required"]}
        return st.fixed_dictionaries(required, optional=other)
    if schema["type"] == "array":
        return st.lists(made_up(schema["items"]), min_size=schema.get("minItems", 0), max_size=4)
    if schema["type"] == "integer":
        return st.integers(schema.get("minimum"), schema.get("maximum"))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    return CODES if "description" in schema else st.text("0123 aÄ中🎉\n<&", max_size=20)


def check(document: dict[str, Any], path: str, method: str, answer: Any) -> None:
    """The document knows this status for that route, and what comes with it."""
    known = document["paths"][path][method]["responses"]
    assert str(answer.status) in known, (path, answer.status, answer.body[:200])
    assert answer.status < 500
    content = known[str(answer.status)]["content"]
    kind = answer.headers["content-type"].partition(";")[0]
    assert kind in content
    if kind == "application/json":
        assert schema_holds(answer.json, content[kind]["schema"]), (path, answer.json)


@pytest.mark.parametrize("path", ["/translate", "/detect", "/v2/translate"])
def test_what_the_document_allows_and_what_it_does_not(client, document, path):
    schema = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    spoilt = st.tuples(made_up(schema), st.sampled_from(sorted(schema["properties"])), JUNK)

    @CALM
    @given(body=made_up(schema) | spoilt.map(lambda s: {**s[0], s[1]: s[2]}) | JUNK)
    def ask(body: Any) -> None:
        check(document, path, "post", client.ask(path, json.dumps(body).encode()))

    ask()


def test_forms_and_query_strings(client, document):
    schema = document["paths"]["/translate"]["post"]["requestBody"]["content"]["application/x-www-form-urlencoded"][
        "schema"
    ]

    @CALM
    @given(fields=made_up(schema), plain=st.fixed_dictionaries({"text": st.text(max_size=9), "to": CODES}))
    def ask(fields: dict[str, Any], plain: dict[str, str]) -> None:
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        check(document, "/translate", "post", client.ask("/translate", urlencode(fields).encode(), headers=form))
        check(document, "/plain", "get", client.ask(f"/plain?{urlencode(plain)}"))

    ask()


def test_every_route_stands_in_the_document_and_gives_what_it_says(client, document):
    for path in ("/translate", "/translate_file", "/detect", "/v2/translate", "/plain", "/ready", "/metrics"):
        assert path in document["paths"]
    for path, methods in document["paths"].items():
        assert client.ask(path, method="DELETE").status == 405, path
        if "get" in methods:
            check(document, path, "get", client.ask(path))


def test_the_check_would_notice(client, document):
    answer = client.ask("/languages")
    with pytest.raises(AssertionError):
        check(document, "/health", "get", answer)
    assert not schema_holds({"error": 1}, document["paths"]["/translate"]["post"]["responses"]["400"]["content"]["application/json"]["schema"])  # fmt: skip


@pytest.mark.skipif(not shutil.which("schemathesis"), reason="schemathesis is not here")
def test_schemathesis_finds_nothing(client):
    done = subprocess.run(
        ["schemathesis", "run", f"{client.url}/spec", "--max-examples", "50", "--seed", "1",
         "--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:]
