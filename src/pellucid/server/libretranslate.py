"""LibreTranslate's HTTP API, as its clients use it: the fields, the errors and their status.

    GET  /languages            [{"code", "name", "targets"}]
    POST /translate            {"translatedText"}, and "detectedLanguage" if source is auto, "alternatives" if asked for,
                               "flags" (not LibreTranslate's) if something may be wrong with a translation
    POST /detect               [{"confidence", "language"}], best first
    GET  /frontend/settings    what a page of LibreTranslate's asks
    POST /translate_file       {"translatedFileUrl"}, then GET that
    POST /suggest              always refused

Departures: what is no text is refused with 400 where LibreTranslate fails with 500; plain text is not unescaped as if
it were HTML; case and punctuation of the source are not forced upon the translation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from pellucid.data.formats.document import document_suffixes
from pellucid.server import languages
from pellucid.server.documents import Documents
from pellucid.server.endpoint import Doorman, Endpoint
from pellucid.server.reading import Fields
from pellucid.server.refusal import Refusal
from pellucid.server.service import Service
from pellucid.server.translating import Manner

T = TypeVar("T")

FORMAT_NAMES = ("text", "html")


def error(message: str, status: int) -> Response:
    """An error as this API writes it."""
    return JSONResponse({"error": message}, status)


class LibreTranslate:
    """The endpoints over a service."""

    def __init__(self, service: Service, doorman: Doorman, documents: Documents) -> None:
        self._service, self._doorman, self._documents = service, doorman, documents

    def endpoints(self) -> list[Endpoint]:
        """All of them."""
        return [
            Endpoint("/languages", ("GET",), self._languages, error),
            Endpoint("/translate", ("POST",), self._translate, error),
            Endpoint("/detect", ("POST",), self._detect, error),
            Endpoint("/frontend/settings", ("GET",), self._settings, error),
            Endpoint("/translate_file", ("POST",), self._translate_file, error, file=True),
            Endpoint("/download_file/{name}", ("GET",), self._download, error),
            Endpoint("/suggest", ("POST",), self._suggest, error),
        ]

    async def _languages(self, request: Request, fields: Fields) -> Response:
        return JSONResponse(
            [
                {"code": code, "name": languages.name(code), "targets": self._service.targets(code)}
                for code in self._service.all_languages()
            ]
        )

    async def _translate(self, request: Request, fields: Fields) -> Response:
        client = self._doorman.check(request, fields)
        q = _required(fields.texts("q"), "q")
        source, target = _required(fields.text("source"), "source"), _required(fields.text("target"), "target")
        form = fields.text("format") or "text"
        if form not in FORMAT_NAMES:
            raise Refusal(f"{form[:40]} format is not supported")
        wanted = fields.number("alternatives", 0)
        texts = [q] if isinstance(q, str) else list(q)
        manner = Manner(alternatives=wanted, html=form == "html")
        self._service.check(texts, manner)
        self._doorman.count(client, request, len(texts))
        automatic = source.lower() == "auto"
        outcome = await self._service.translate(texts, None if automatic else source, target, manner)
        told: dict[str, Any] = {"translatedText": _as(q, [answer.text for answer in outcome.answers])}
        if outcome.detected is not None:
            detected = {"confidence": outcome.detected.confidence, "language": outcome.detected.language}
            told["detectedLanguage"] = _as(q, [detected] * len(texts))
        if wanted:
            told["alternatives"] = _as(q, [list(answer.alternatives) for answer in outcome.answers])
        if any(answer.flags for answer in outcome.answers):
            told["flags"] = _as(q, [list(answer.flags) for answer in outcome.answers])
        return JSONResponse(told, headers=pivot_header(outcome.pivot))

    async def _detect(self, request: Request, fields: Fields) -> Response:
        client = self._doorman.check(request, fields)
        q = _required(fields.texts("q"), "q")
        texts = [q] if isinstance(q, str) else list(q)
        self._service.check(texts, Manner())
        self._doorman.count(client, request, 1)
        found = await self._service.detect("\n".join(texts))
        told = [{"confidence": d.confidence, "language": d.language} for d in found]
        return JSONResponse(told or [{"confidence": 0.0, "language": "en"}])

    async def _settings(self, request: Request, fields: Fields) -> Response:
        service = self._service
        source, target = next(iter(service.models), ("en", "en"))
        return JSONResponse(
            {
                "charLimit": service.limits.characters,
                "frontendTimeout": 500,
                "apiKeys": bool(self._doorman.keys),
                "keyRequired": bool(self._doorman.keys),
                "suggestions": False,
                "filesTranslation": True,
                "supportedFilesFormat": list(document_suffixes()),
                "language": {
                    "source": {"code": source, "name": languages.name(source)},
                    "target": {"code": target, "name": languages.name(target)},
                },
            }
        )

    async def _translate_file(self, request: Request, fields: Fields) -> Response:
        client = self._doorman.check(request, fields)
        if fields.file is None:
            raise Refusal("Invalid request: missing file parameter")
        source, target = _required(fields.text("source"), "source"), _required(fields.text("target"), "target")
        called, content = fields.file
        automatic = source.lower() == "auto"
        name = await self._documents.translate(
            called,
            content,
            None if automatic else source,
            target,
            lambda texts: self._doorman.count(client, request, texts),
        )
        return JSONResponse({"translatedFileUrl": f"{request.base_url}download_file/{name}"})

    async def _download(self, request: Request, fields: Fields) -> Response:
        name, content = self._documents.take(str(request.path_params["name"]))
        return Response(
            content,
            media_type="application/octet-stream",
            headers={"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"},
        )

    async def _suggest(self, request: Request, fields: Fields) -> Response:
        raise Refusal("Suggestions are disabled on this server.", 403)


def pivot_header(pivot: str | None) -> dict[str, str]:
    """Says that a translation went through another language."""
    return {"X-Pellucid-Pivot": pivot} if pivot else {}


def _required(value: T | None, name: str) -> T:
    if not value:
        raise Refusal(f"Invalid request: missing {name} parameter")
    return value


def _as(q: Sequence[str], values: Sequence[Any]) -> Any:
    """One value for one text, an array for an array."""
    return values[0] if isinstance(q, str) else list(values)
