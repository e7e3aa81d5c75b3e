"""The simplest question there is: `GET /plain?from=ja&to=en&text=...`, answered with nothing but the translation.

XUnity.AutoTranslator asks so, by its endpoint CustomTranslate; and so can anything that can fetch an address.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from pellucid.server.endpoint import Doorman, Endpoint
from pellucid.server.libretranslate import error, pivot_header
from pellucid.server.reading import Fields
from pellucid.server.refusal import Refusal
from pellucid.server.service import Service
from pellucid.server.translating import Manner


class Plain:
    """The endpoint over a service."""

    def __init__(self, service: Service, doorman: Doorman) -> None:
        self._service, self._doorman = service, doorman

    def endpoints(self) -> list[Endpoint]:
        """The one."""
        return [Endpoint("/plain", ("GET",), self._translate, error)]

    async def _translate(self, request: Request, fields: Fields) -> Response:
        client = self._doorman.check(request, fields)
        text, source, target = fields.text("text"), fields.text("from") or "auto", fields.text("to")
        if not text:
            raise Refusal("text is missing: /plain?from=ja&to=en&text=...")
        if not target:
            raise Refusal("to is missing: /plain?from=ja&to=en&text=...")
        self._service.check([text], Manner())
        self._doorman.count(client, request, 1)
        automatic = source.lower() == "auto"
        outcome = await self._service.translate([text], None if automatic else source, target, Manner())
        return PlainTextResponse(outcome.answers[0].text, headers=pivot_header(outcome.pivot))
