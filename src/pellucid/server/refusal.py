"""A request that is not granted: what the client is told, and with which status."""

from __future__ import annotations

from pellucid.errors import PellucidError


class Refusal(PellucidError):
    """Why a request gets no answer.

    Args:
        status: of HTTP.
        retry_after: seconds after which it is worth trying again.
    """

    def __init__(self, message: str, status: int = 400, *, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after
