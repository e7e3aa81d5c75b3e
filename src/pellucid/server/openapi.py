"""The API as an OpenAPI document, written by hand: one route takes JSON, forms and query strings alike."""

from __future__ import annotations

from typing import Any

from pellucid.server.limits import Limits
from pellucid.version import __version__

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
CODE: Schema = {"type": "string", "description": "A language: BCP 47, in any case.", "example": "en"}


def document(limits: Limits, key_needed: bool) -> dict[str, Any]:
    """The document for a server with these limits."""
    texts: Schema = {"type": "array", "items": {"type": "string", "maxLength": limits.characters}, "minItems": 1, "maxItems": limits.texts}  # fmt: skip
    one_or_many: Schema = {"oneOf": [{"type": "string", "minLength": 1, "maxLength": limits.characters}, texts]}
    key: Schema = {"type": "string", "description": "Needed here." if key_needed else "Not needed here."}
    source: Schema = {**CODE, "description": "A language, or auto: to be found out."}
    translate = _object(
        {
            "q": one_or_many,
            "source": source,
            "target": CODE,
            "format": {"type": "string", "enum": ["text", "html"]},
            "alternatives": {"type": "integer", "minimum": 0, "maximum": limits.alternatives},
            "api_key": key,
        },
        "q", "source", "target",
    )  # fmt: skip
    form = _object({**translate["properties"], "q": TEXT}, "q", "source", "target")
    detected = _object(
        {"confidence": {"type": "number", "minimum": 0, "maximum": 100}, "language": CODE}, "confidence", "language"
    )
    translated = _object(
        {
            "translatedText": {"oneOf": [TEXT, _array(TEXT)]},
            "detectedLanguage": {"oneOf": [detected, _array(detected)]},
            "alternatives": {"anyOf": [_array(TEXT), _array(_array(TEXT))]},
            "flags": {"anyOf": [_array(TEXT), _array(_array(TEXT))]},
        },
        "translatedText",
    )
    plain = [
        _query("from", source, required=False),
        _query("to", CODE),
        _query("text", {"type": "string", "minLength": 1, "maxLength": limits.characters}),
    ]
    deepl = _object(
        {
            "text": texts,
            "target_lang": CODE,
            "source_lang": CODE,
            "tag_handling": {"type": "string", "enum": ["xml", "html"]},
        },
        "text", "target_lang",
    )  # fmt: skip
    deepl_answer = _object(
        {
            "translations": _array(
                _object(
                    {"detected_source_language": TEXT, "text": TEXT, "billed_characters": {"type": "integer"}},
                    "detected_source_language", "text", "billed_characters",
                )
            )
        },
        "translations",
    )  # fmt: skip
    language = _object({"code": CODE, "name": TEXT, "targets": _array(CODE)}, "code", "name", "targets")
    file = _object({"file": {"type": "string", "format": "binary"}, "source": source, "target": CODE, "api_key": key}, "file", "source", "target")  # fmt: skip
    counts = _object({"character_count": {"type": "integer"}, "character_limit": {"type": "integer"}}, "character_count", "character_limit")  # fmt: skip
    deepl_language = _object(
        {"language": TEXT, "name": TEXT, "supports_formality": {"type": "boolean"}}, "language", "name"
    )
    kind = _query("type", {"type": "string", "enum": ["source", "target"]}, required=False)
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "pellucid",
            "version": __version__,
            "description": "Translations, asked for as LibreTranslate's and DeepL's clients do.",
        },
        "paths": {
            "/languages": _get("Which languages there are.", _array(language)),
            "/translate": _post("Translate a text or several.", translated, translate, form),
            "/detect": _post("Find out a language.", _array(detected), _object({"q": one_or_many, "api_key": key}, "q")),
            "/translate_file": _post("Translate a file.", _object({"translatedFileUrl": TEXT}, "translatedFileUrl"), multipart=file),
            "/frontend/settings": _get("What a page may ask for.", _object({"charLimit": {"type": "integer"}}, "charLimit")),
            "/plain": _get("One text, answered with plain text.", None, plain),
            "/v2/translate": _post("As DeepL's.", deepl_answer, deepl, errors="message"),
            "/v2/languages": _get("As DeepL's.", _array(deepl_language), [kind], errors="message"),
            "/v2/usage": _get("As DeepL's; there is no quota.", counts, errors="message"),
            "/health": _get("Whether the server lives.", _object({"status": TEXT}, "status")),
            "/ready": _get("Whether every model is in memory.", _object({"status": TEXT}, "status")),
            "/metrics": _get("What is counted, for Prometheus.", None),
            "/spec": _get("This document.", {"type": "object"}),
        },
        "components": {"securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}}},
        "security": [{"bearer": []}] if key_needed else [],
    }  # fmt: skip


def _object(properties: dict[str, Schema], *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _array(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _query(name: str, schema: Schema, *, required: bool = True) -> Schema:
    return {"name": name, "in": "query", "required": required, "schema": schema}


def _answers(schema: Schema | None, errors: str) -> Schema:
    """The answers by status; without a schema it is plain text."""
    content = {"text/plain": {"schema": TEXT}} if schema is None else {"application/json": {"schema": schema}}
    refused = {"content": {"application/json": {"schema": _object({errors: TEXT}, errors)}}}
    told = {
        "400": "What is asked for cannot be.",
        "403": "The key is wrong.",
        "408": "The body came too slowly.",
        "413": "The body is too large.",
        "415": "The body is of a kind that is not read.",
        "429": "Too much at once: try again later.",
        "503": "Still loading: try again later.",
        "504": "It took too long.",
    }
    return {
        "200": {"description": "The answer.", "content": content},
        **{status: {"description": why, **refused} for status, why in told.items()},
    }


def _get(summary: str, schema: Schema | None, parameters: list[Schema] | None = None, errors: str = "error") -> Schema:
    return {"get": {"summary": summary, "parameters": parameters or [], "responses": _answers(schema, errors)}}


def _post(
    summary: str,
    schema: Schema,
    json: Schema | None = None,
    form: Schema | None = None,
    *,
    multipart: Schema | None = None,
    errors: str = "error",
) -> Schema:
    bodies = {
        "application/json": json,
        "application/x-www-form-urlencoded": form,
        "multipart/form-data": form or multipart,
    }
    content = {kind: {"schema": body} for kind, body in bodies.items() if body is not None}
    return {
        "post": {
            "summary": summary,
            "requestBody": {"required": True, "content": content},
            "responses": _answers(schema, errors),
        }
    }
