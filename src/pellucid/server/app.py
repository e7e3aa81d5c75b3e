"""HTTP: one application of the page, for whoever sits at this machine, and of the API, for programs anywhere."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pellucid.server import openapi
from pellucid.server.deepl import DeepL
from pellucid.server.documents import Documents
from pellucid.server.endpoint import Doorman, Endpoint
from pellucid.server.libretranslate import LibreTranslate, error
from pellucid.server.metrics import CONTENT_TYPE
from pellucid.server.page import PAGES
from pellucid.server.plain import Plain
from pellucid.server.reading import Fields
from pellucid.server.service import Service


def make_app(
    service: Service, doorman: Doorman, page: ASGIApp | None = None, origins: Sequence[str] = ("*",)
) -> ASGIApp:
    """The application: `page` at `/` and below `/api/`, everything else is the API.

    Args:
        page: see :func:`~pellucid.server.page.make_page`; None: there is none.
        origins: sites whose pages may read answers of the API; `*` is all, as extensions of browsers need it. The API
            knows no cookies, so that no site can use what another has been granted.
    """
    endpoints = [
        *LibreTranslate(service, doorman, Documents(service)).endpoints(),
        *DeepL(service, doorman).endpoints(),
        *Plain(service, doorman).endpoints(),
        *_own(service, doorman),
    ]

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with service.running():
            yield

    starlette = Starlette(
        routes=[endpoint.route(service) for endpoint in endpoints],
        exception_handlers={HTTPException: _no_such_page},
        lifespan=lifespan,
    )
    starlette.router.redirect_slashes = False
    api = _Api(starlette, origins)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        to_page = page is not None and scope["type"] == "http" and (path in PAGES or path.startswith("/api/"))
        await (page if page is not None and to_page else api)(scope, receive, send)

    return app


def _own(service: Service, doorman: Doorman) -> list[Endpoint]:
    """What is neither LibreTranslate's nor DeepL's alone: how the server is, and what it can."""

    async def health(request: Request, fields: Fields) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(request: Request, fields: Fields) -> Response:
        loading = sorted(model.name for model in service.models.values() if not model.ready)
        return JSONResponse({"status": "loading" if loading else "ready", "loading": loading}, 503 if loading else 200)

    async def metrics(request: Request, fields: Fields) -> Response:
        doorman.check(request, fields)
        return Response(service.metrics.text(service.gauges()), media_type=CONTENT_TYPE)

    async def spec(request: Request, fields: Fields) -> Response:
        return JSONResponse(openapi.document(service.limits, bool(doorman.keys)))

    return [
        Endpoint("/health", ("GET",), health, error),
        Endpoint("/ready", ("GET",), ready, error),
        Endpoint("/metrics", ("GET",), metrics, error),
        Endpoint("/spec", ("GET",), spec, error),
    ]


async def _no_such_page(request: Request, failure: Exception) -> Response:
    assert isinstance(failure, HTTPException)
    response = error(str(failure.detail), failure.status_code)
    response.headers.update(failure.headers or {})
    return response


class _Api:
    """Lets pages of other sites read the answers, and answers their browsers' question whether they may."""

    def __init__(self, app: ASGIApp, origins: Sequence[str]) -> None:
        self._app, self._origins = app, origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = self._headers(dict(scope["headers"]).get(b"origin", b"").decode("latin-1"))

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *headers]
            await send(message)

        app = Response(status_code=204) if scope["method"] == "OPTIONS" else self._app
        await app(scope, receive, send_with_headers)

    def _headers(self, origin: str) -> list[tuple[bytes, bytes]]:
        headers = {"X-Content-Type-Options": "nosniff"}
        if "*" in self._origins or origin in self._origins:
            headers |= {
                "Access-Control-Allow-Origin": "*" if "*" in self._origins else origin,
                "Access-Control-Allow-Methods": "GET, POST",
                "Access-Control-Allow-Headers": "Authorization, Content-Type",
                "Access-Control-Expose-Headers": "Authorization, Retry-After, X-Pellucid-Pivot",
                "Access-Control-Max-Age": "1728000",
            }
        if "*" not in self._origins:
            headers["Vary"] = "Origin"
        return [(name.lower().encode(), value.encode()) for name, value in headers.items()]
