"""Whole files: read, translated in slices among everything else, and kept for a while to be fetched.

All in memory and for whoever knows the name, which cannot be guessed. No name that a client gives becomes a path.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable

from pellucid.server.refusal import Refusal
from pellucid.server.service import Service
from pellucid.server.translating import Manner

FORMATS = frozenset({".txt"})
KEPT_SECONDS = 600.0
KEPT_BYTES = 64 << 20
AT_ONCE = 4
"""Files that are translated at the same time; each may take ten megabytes several times over."""


class Documents:
    """Files that were translated."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._kept: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._turn = asyncio.Semaphore(AT_ONCE)

    async def translate(
        self, name: str, content: bytes, source: str | None, target: str, count: Callable[[int], None]
    ) -> str:
        """The name under which the translation can be fetched.

        Args:
            name: what the client calls the file; its end says the format.
            count: told how many texts it has, before any is translated.

        Raises:
            Refusal: another format, not UTF-8, a line too long, no time.
        """
        suffix = re.sub(r".*(?=\.)", "", name.lower(), flags=re.DOTALL)
        if suffix not in FORMATS:
            raise Refusal(f"Invalid request: file format not supported; supported are {', '.join(sorted(FORMATS))}")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise Refusal(f"Invalid request: the file is not UTF-8 (byte {error.start})") from None
        try:
            async with asyncio.timeout(self._service.limits.file_deadline), self._turn:
                translated = await self._text(text, source, target, count)
        except TimeoutError:
            raise Refusal("The file took too long to translate", 504) from None
        return self._keep(f"{secrets.token_urlsafe(24)}{suffix}", translated.encode())

    async def _text(self, text: str, source: str | None, target: str, count: Callable[[int], None]) -> str:
        lines = text.split("\n")
        count(sum(1 for line in lines if line.strip()))
        if source is None:
            found = await self._service.detect(text)
            source = found[0].language if found else None
        size = self._service.limits.texts
        for first in range(0, len(lines), size):
            outcome = await self._service.translate(lines[first : first + size], source, target, Manner())
            lines[first : first + size] = [answer.text for answer in outcome.answers]
        return "\n".join(lines)

    def _keep(self, name: str, content: bytes) -> str:
        self._kept[name] = (time.monotonic(), content)
        self._forget()
        return name

    def take(self, name: str) -> tuple[str, bytes]:
        """What to call a file that is kept, and what is in it.

        Raises:
            Refusal: it is not there (any more).
        """
        self._forget()
        if name not in self._kept:
            raise Refusal("There is no such file (any more)", 404)
        return "translated" + name[name.rindex(".") :], self._kept[name][1]

    def _forget(self) -> None:
        """Those that are too old, and the oldest of too many."""
        while self._kept:
            since, _ = next(iter(self._kept.values()))
            size = sum(len(content) for _, content in self._kept.values())
            if time.monotonic() - since < KEPT_SECONDS and size <= KEPT_BYTES:
                return
            self._kept.popitem(last=False)
