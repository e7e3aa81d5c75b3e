"""The part of DeepL's HTTP API (version 2) that its clients need to translate text.

    POST /v2/translate     {"translations": [{"detected_source_language", "text", "billed_characters"}]}
    GET  /v2/languages     [{"language", "name", "supports_formality"}], for ?type=source or target
    GET  /v2/usage         {"character_count", "character_limit"}
    GET  /v2/glossary-language-pairs    none

Errors are {"message"}. Formality, context, model and the like are taken and have no effect.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pellucid.server import languages
from pellucid.server.endpoint import Doorman, Endpoint
from pellucid.server.libretranslate import pivot_header
from pellucid.server.reading import Fields
from pellucid.server.refusal import Refusal
from pellucid.server.service import Service
from pellucid.server.translating import Manner

NO_LIMIT = 1_000_000_000_000
"""What is said where a client wants to know how much it may still translate."""


def error(message: str, status: int) -> Response:
    """An error as this API writes it."""
    return JSONResponse({"message": message}, status)


class DeepL:
    """The endpoints over a service."""

    def __init__(self, service: Service, doorman: Doorman) -> None:
        self._service, self._doorman = service, doorman

    def endpoints(self) -> list[Endpoint]:
        """All of them."""
        return [
            Endpoint("/v2/translate", ("POST",), self._translate, error),
            Endpoint("/v2/languages", ("GET", "POST"), self._languages, error),
            Endpoint("/v2/usage", ("GET", "POST"), self._usage, error),
            Endpoint("/v2/glossary-language-pairs", ("GET",), self._glossary_pairs, error),
        ]

    def _check(self, request: Request, fields: Fields) -> str:
        """As the doorman's, but everything about a key is 403 here."""
        try:
            return self._doorman.check(request, fields)
        except Refusal as refusal:
            raise Refusal(str(refusal), 403) from None

    async def _translate(self, request: Request, fields: Fields) -> Response:
        client = self._check(request, fields)
        given = fields.texts("text")
        texts = fields.repeated.get("text", []) if not fields.is_json else given if isinstance(given, list) else []
        target, source = fields.text("target_lang"), fields.text("source_lang")
        if not texts:
            raise Refusal("Parameter 'text' not specified: it must be an array of strings")
        if not target:
            raise Refusal("Parameter 'target_lang' not specified")
        tags = fields.text("tag_handling")
        if tags not in (None, "", "xml", "html"):
            raise Refusal("Value for 'tag_handling' not supported")
        manner = Manner(html=bool(tags))
        self._service.check(texts, manner)
        self._doorman.count(client, request, len(texts))
        outcome = await self._service.translate(texts, source or None, target, manner)
        return JSONResponse(
            {
                "translations": [
                    {
                        "detected_source_language": _code(outcome.source),
                        "text": answer.text,
                        "billed_characters": len(text),
                    }
                    for text, answer in zip(texts, outcome.answers, strict=True)
                ]
            },
            headers=pivot_header(outcome.pivot),
        )

    async def _languages(self, request: Request, fields: Fields) -> Response:
        self._check(request, fields)
        kind = fields.text("type") or "source"
        if kind not in ("source", "target"):
            raise Refusal("Value for 'type' not supported")
        sources = self._service.sources()
        codes = sources if kind == "source" else sorted({t for s in sources for t in self._service.targets(s)})
        extra = {"supports_formality": False} if kind == "target" else {}
        return JSONResponse([{"language": _code(code), "name": languages.name(code), **extra} for code in codes])

    async def _usage(self, request: Request, fields: Fields) -> Response:
        self._check(request, fields)
        used = sum(self._service.metrics.characters.values())
        return JSONResponse({"character_count": used, "character_limit": NO_LIMIT})

    async def _glossary_pairs(self, request: Request, fields: Fields) -> Response:
        self._check(request, fields)
        return JSONResponse({"supported_languages": []})


def _code(code: str) -> str:
    return code.upper()
