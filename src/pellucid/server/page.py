"""The page at `/`, and what it asks below `/api/`.

Only for whoever sits at this machine: requests must name it as their host (so that no page of another site can reach it
through DNS), no other site may read the answers (no CORS), and the page may load nothing from elsewhere (CSP).
"""

from __future__ import annotations

import ipaddress
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from importlib.resources import files
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from pellucid.errors import ConfigError, PellucidError
from pellucid.inspection.labs import catalogue
from pellucid.inspection.labs.base import LANGUAGES
from pellucid.server.inspector import Inspector, NoModelYetError, NotThereError

LARGEST_BODY = 256 * 1024
CONTENT_TYPES = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "txt": "text/plain; charset=utf-8",
}
"""Fixed, never the system's table: on some machines that makes plain text of scripts, which browsers then refuse."""
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
REFUSALS: dict[type[PellucidError], tuple[int, str]] = {
    NotThereError: (404, "not-there"),
    NoModelYetError: (400, "no-model-yet"),
    PellucidError: (400, "refused"),
}
"""The status and the `code` of an error's answer, by the first class that it is of. Programs read the code: words change."""
PAGES = {"/": "index.html", "/pellucid.js": "pellucid.js", "/pellucid.css": "pellucid.css", "/NOTICE.txt": "NOTICE.txt"}

logger = logging.getLogger(__name__)


def make_page(inspectors: Mapping[str, Inspector], hosts: Iterable[str] = ()) -> ASGIApp:
    """The page and what it asks, about several models.

    Args:
        inspectors: by name. `?model=name` says which is asked about; without it, the first.
        hosts: names besides localhost under which it may be asked. Addresses in numbers always may: no name was looked
            up for them.
    """
    asked = _Asked(inspectors)

    def get(answer: Callable[[Inspector, Query], Any]) -> Endpoint:
        return _get(lambda query: answer(asked.about(query.text("model", "")), query))

    def post(answer: Callable[[Inspector, dict[str, Any]], Any]) -> Endpoint:
        return _post(lambda query, body: answer(asked.about(query.text("model", "")), body))

    app = Starlette(
        routes=[
            *(Route(path, _page(name)) for path, name in PAGES.items()),
            Route("/api/models", _get(lambda q: [{"name": name} for name in inspectors])),
            Route("/api/model", get(lambda i, q: i.model())),
            Route("/api/translate", post(lambda i, body: i.translate(body)), methods=["POST"]),
            Route("/api/trace/{id}/head", get(lambda i, q: i.head(q.id, *q.head()))),
            Route("/api/trace/{id}/flow", get(lambda i, q: i.flow(q.id, *q.head(), q.number("position")))),
            Route("/api/positions", get(lambda i, q: i.positions(q.number("length", 64)))),
            Route("/api/heads", get(lambda i, q: i.heads())),
            Route("/api/heads", post(lambda i, body: i.measure_heads(body.get("limit", 200))), methods=["POST"]),
            Route("/api/labs", _get(lambda q: [lab.describe(q.language()) for lab in catalogue.LABS])),
            Route("/api/labs/{id}", _get(lambda q: _lab(asked, q))),
            Route("/api/training", get(lambda i, q: i.training(q.number("since", 0)))),
        ],
        exception_handlers={PellucidError: _refused, HTTPException: _no_such_page, Exception: _failed},
    )
    return _Guard(app, {"localhost", *hosts})


class _Asked:
    """Which model a request is about."""

    def __init__(self, inspectors: Mapping[str, Inspector]) -> None:
        self._inspectors = inspectors

    def about(self, name: str) -> Inspector:
        """The one called `name`, or the first.

        Raises:
            NotThereError: none is called so.
        """
        if not name:
            return next(iter(self._inspectors.values()))
        if name not in self._inspectors:
            raise NotThereError(f"there is no model {name[:40]!r}", hint=f"there is {', '.join(self._inspectors)}")
        return self._inspectors[name]


class Query:
    """The parameters of a request, each of the right type or refused in words."""

    def __init__(self, request: Request) -> None:
        self._values = {**request.query_params}
        self.id = str(request.path_params.get("id", ""))

    def text(self, name: str, default: str) -> str:
        return self._values.get(name, default)

    def number(self, name: str, default: int | None = None) -> int:
        """A whole number, at least 0.

        Raises:
            ConfigError: it is none, or missing.
        """
        given = self._values.get(name)
        if given is None and default is not None:
            return default
        if given is None or not given.isascii() or not given.isdigit() or len(given) > 9:
            raise ConfigError(f"`{name}` must be a whole number, but is {(given or 'missing')[:40]!r}")
        return int(given)

    def language(self) -> str:
        language = self.text("lang", "en")
        if language not in LANGUAGES:
            raise ConfigError(f"`lang` must be one of {', '.join(LANGUAGES)}, but is {language[:20]!r}")
        return language

    def head(self) -> tuple[str, int, int]:
        return self.text("kind", "cross"), self.number("layer"), self.number("head")

    def rest(self, *names: str) -> dict[str, str]:
        """All others than `names`."""
        return {name: value for name, value in self._values.items() if name not in names}


def _lab(asked: _Asked, query: Query) -> dict[str, Any]:
    """Here `model` says whether the lab is to look at a model: `0` no, `1` at the first, or at one by its name."""
    name = query.text("model", "0")
    inspector = asked.about("" if name in ("0", "1") else name)
    return inspector.lab(query.id, query.rest("lang", "model"), query.language(), name != "0")


Endpoint = Callable[[Request], Awaitable[Response]]


def _get(answer: Callable[[Query], Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        return _json(await run_in_threadpool(answer, Query(request)))

    return endpoint


def _post(answer: Callable[[Query, dict[str, Any]], Any]) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        # Another site's form cannot send this type without asking first, and it is never told yes.
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "the body must be JSON (Content-Type: application/json)")
        body = bytearray()
        async for part in request.stream():
            body += part
            if len(body) > LARGEST_BODY:
                raise HTTPException(413, f"the body must have at most {LARGEST_BODY} bytes")
        try:
            value = json.loads(body)
        except (ValueError, RecursionError):
            raise HTTPException(400, "the body is not JSON in UTF-8") from None
        if not isinstance(value, dict):
            raise HTTPException(400, "the body must be a JSON object")
        return _json(await run_in_threadpool(answer, Query(request), value))

    return endpoint


def _page(name: str) -> Endpoint:
    async def endpoint(request: Request) -> Response:
        content = files("pellucid.server").joinpath("static", name).read_bytes()
        kind = CONTENT_TYPES[name.rpartition(".")[2]]
        return Response(content, headers={"Content-Type": kind, "Cache-Control": "no-cache"})

    return endpoint


def _json(value: Any, status: int = 200) -> Response:
    return JSONResponse(value, status, headers={"Cache-Control": "no-store"})


def _error(message: str, status: int, code: str = "refused", hint: str | None = None) -> Response:
    return _json({"error": message, "code": code, **({"hint": hint} if hint else {})}, status)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, PellucidError)
    status, code = next(told for kind, told in REFUSALS.items() if isinstance(error, kind))
    return _error(str(error), status, code, error.hint)


async def _no_such_page(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(str(error.detail), error.status_code)


async def _failed(request: Request, error: Exception) -> Response:
    logger.exception("%s %s failed", request.method, request.url.path, exc_info=error)
    return _error("something went wrong inside; the server's log says what", 500, "failed")


class _Guard:
    """Answers only those who ask for this host, and puts the headers of safety on every answer."""

    def __init__(self, app: ASGIApp, hosts: set[str]) -> None:
        self._app, self._hosts = app, {host.lower() for host in hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(k.lower().encode(), v.encode()) for k, v in HEADERS.items()]
            await send(message)

        named = [value.decode("latin-1") for key, value in scope["headers"] if key == b"host"]
        if len(named) != 1 or not self._allows(named[0]):
            answer = _error(
                "this server answers only to localhost and to addresses in numbers",
                421,
                hint="pellucid serve --allow-host NAME",
            )
            await answer(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _allows(self, host: str) -> bool:
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() and not host.endswith("]") else host
        if name.lower().rstrip(".") in self._hosts:
            return True
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True
