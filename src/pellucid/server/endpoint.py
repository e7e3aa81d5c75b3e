"""What every answer to a program goes through: who asks, how often, whether they are still there, and what is logged."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import Callable, Collection, Coroutine
from dataclasses import dataclass, field

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pellucid.errors import PellucidError
from pellucid.server.limits import DEFAULT_RATE, Buckets, Keys, Limits, client_address, is_this_machine
from pellucid.server.reading import Fields, read_fields
from pellucid.server.refusal import Refusal
from pellucid.server.service import Service

GONE = 499
"""The status that is counted for a client that has left; nobody is there to read it."""
SCHEMES = ("bearer ", "deepl-auth-key ")

logger = logging.getLogger(__name__)

Answer = Callable[[Request, Fields], Coroutine[None, None, Response]]


@dataclass
class Doorman:
    """Knows the keys, and counts what each client asks for."""

    service: Service
    keys: Keys = field(default_factory=Keys)
    proxies: Collection[str] = ()

    def __post_init__(self) -> None:
        rate = self.service.limits.rate
        self._buckets = Buckets(DEFAULT_RATE if rate is None else rate)

    def check(self, request: Request, fields: Fields | None = None) -> str:
        """Who asks: a key that is known, or an address.

        Raises:
            Refusal: 400 without a key where one is needed, 403 with a wrong one.
        """
        given = _key_in(request, fields)
        if self.keys:
            if not given:
                raise Refusal("Please contact the server operator to get an API key")
            if not self.keys.knows(given):
                raise Refusal("Invalid API key", 403)
            return f"key {given}"
        return client_address(_peer(request), request.headers, self.proxies)

    def count(self, client: str, request: Request, texts: int) -> None:
        """Take so many texts from what `client` may ask for.

        Raises:
            Refusal: 429, too many.
        """
        unlimited = self.service.limits.rate is None and is_this_machine(_peer(request), request.headers)
        if not unlimited:
            self._buckets.take(client, max(1, texts))


def _peer(request: Request) -> str:
    return request.client.host if request.client else ""


def _key_in(request: Request, fields: Fields | None) -> str:
    header = request.headers.get("authorization", "")
    for scheme in SCHEMES:
        if header.lower().startswith(scheme):
            return header[len(scheme) :].strip()
    return ((fields and fields.text("api_key", "apiKey", "auth_key")) or "").strip()


@dataclass(frozen=True)
class Endpoint:
    """A route and what answers it.

    Args:
        error: how this dialect writes an error: its message and status.
        file: its body may be a file.
    """

    path: str
    methods: tuple[str, ...]
    answer: Answer
    error: Callable[[str, int], Response]
    file: bool = False

    def route(self, service: Service) -> Route:
        """For the application: refusals and failures are written as errors, all is counted, and work ends when the
        client leaves."""

        async def endpoint(request: Request) -> Response:
            started = time.perf_counter()
            response = await self._respond(request, service.limits)
            seconds = time.perf_counter() - started
            service.metrics.request(self.path, response.status_code, seconds)
            logger.info("%s %s %d %.0f ms", request.method, self.path, response.status_code, 1000 * seconds)
            return response

        return Route(self.path, endpoint, methods=list(self.methods))

    async def _respond(self, request: Request, limits: Limits) -> Response:
        size, seconds = (limits.file, limits.file_seconds) if self.file else (limits.body, limits.body_seconds)
        try:
            fields = await read_fields(request, size, seconds, file=self.file)
            return await _while_there(request, self.answer(request, fields))
        except Refusal as refusal:
            response = self.error(str(refusal), refusal.status)
            if refusal.retry_after is not None:
                response.headers["Retry-After"] = str(refusal.retry_after)
            if refusal.status in (408, 413):
                response.headers["Connection"] = "close"  # the rest of the body is not read
            return response
        except PellucidError as refused:
            return self.error(str(refused), 400)
        except Exception as failure:
            # Where and of what kind, but not its message: there may be a user's words in it.
            where = "".join(traceback.format_tb(failure.__traceback__))
            logger.error("%s %s failed: %s\n%s", request.method, self.path, type(failure).__name__, where)
            return self.error("Something went wrong inside; the server's log says where", 500)


async def _while_there(request: Request, answer: Coroutine[None, None, Response]) -> Response:
    """What `answer` gives; it is cancelled when the client leaves."""
    work = asyncio.create_task(answer)
    leaving = asyncio.create_task(_leaving(request))
    try:
        await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise Refusal("The client has left", GONE)
    finally:
        work.cancel()
        leaving.cancel()


async def _leaving(request: Request) -> None:
    """Until the client has gone. The body has been read, or is not wanted."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
