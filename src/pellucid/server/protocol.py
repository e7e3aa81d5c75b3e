"""HTTP/1.1 as uvicorn speaks it, but nobody holds a connection without asking, and what is no HTTP gets JSON too."""

from __future__ import annotations

import asyncio

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

HEAD_SECONDS = 20.0
"""How long a client may take to send the head of a request. (uvicorn waits for ever once the first byte is there.)"""


class Protocol(H11Protocol):
    """One connection."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._look_again(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _look_again(self, last: RequestResponseCycle | None) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._look, last)

    def _look(self, last: RequestResponseCycle | None) -> None:
        """Close the connection if nothing has been asked since the last look, and nothing is being answered."""
        if self.cycle is last and (last is None or last.response_complete):
            self.transport.close()
        else:
            self._look_again(self.cycle)

    def send_400_response(self, msg: str) -> None:
        """What is told to somebody who does not speak HTTP."""
        body = b'{"error":"Invalid HTTP request received."}'
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
