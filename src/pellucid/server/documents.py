"""Whole files: read, translated in slices among everything else, and kept for a while to be fetched.

What a format is and how it is filled is :mod:`pellucid.data.formats.document`'s. It reads from a disk, so that an upload
lies in a folder of its own until it is translated, under a name of ours. The result is kept in memory, for whoever knows
its name, which cannot be guessed.
"""

from __future__ import annotations

import asyncio
import secrets
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from itertools import islice
from pathlib import Path, PurePath

from pellucid.config import DataConfig
from pellucid.data.formats.document import document_reader, document_suffixes, fill, has_html
from pellucid.errors import DataError
from pellucid.server.refusal import Refusal
from pellucid.server.service import Outcome, Service
from pellucid.server.translating import Manner

KEPT_SECONDS = 600.0
KEPT_BYTES = 64 << 20
AT_ONCE = 4
"""Files that are translated at the same time; each may take ten megabytes several times over."""
LANGUAGE_TEXTS = 50
"""So many texts say in which language a file is."""


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
            source, target: codes as the client wrote them; None: to be found out.
            count: told how many texts it has, before any is translated.

        Raises:
            Refusal: another format, a file that cannot be read, a text too long, no time.
        """
        suffix = PurePath(name.lower()).suffix
        if suffix not in document_suffixes():
            known = ", ".join(document_suffixes())
            raise Refusal(f"Invalid request: file format not supported; supported are {known}")
        limits = self._service.limits
        try:
            async with asyncio.timeout(limits.file_deadline), self._turn:
                with tempfile.TemporaryDirectory(prefix="pellucid-") as folder:
                    path = Path(folder) / f"source{suffix}"
                    path.write_bytes(content)
                    translated = await self._filled(path, source, target, count)
        except TimeoutError:
            raise Refusal(f"The file took more than {limits.file_deadline:g} seconds", 504) from None
        return self._keep(f"{secrets.token_urlsafe(24)}{suffix}", translated)

    async def _filled(self, path: Path, source: str | None, target: str, count: Callable[[int], None]) -> bytes:
        goal = self._service.language(target)
        start = self._service.language(source) if source is not None else None
        loop = asyncio.get_running_loop()
        gone = threading.Event()  # nobody waits for it any more
        slices: list[Future[Outcome]] = []  # the one that is being translated
        manner = Manner(html=has_html(str(path)))

        def translations(texts: Iterator[str]) -> Iterable[str]:
            while some := list(islice(texts, self._service.limits.texts)):
                if gone.is_set():
                    return
                asked = self._service.translate(some, start, goal, manner)
                slices[:] = [asyncio.run_coroutine_threadsafe(asked, loop)]
                yield from (answer.text for answer in slices[0].result().answers)

        def filled(config: DataConfig) -> bytes:
            written = bytearray()
            fill(document_reader(str(path))(str(path), config), translations, written.extend)
            return bytes(written)

        try:
            texts = await asyncio.to_thread(_texts, path, DataConfig(source_language=start, target_language=goal))
            count(len(texts))
            if start is None:
                found = await self._service.detect("\n".join(texts[:LANGUAGE_TEXTS]))
                start = found[0].language if found else None
            return await asyncio.to_thread(filled, DataConfig(source_language=start, target_language=goal))
        except DataError as error:
            raise Refusal(f"Invalid request: {str(error).replace(str(path), 'the file')}") from None
        finally:
            gone.set()
            for one in slices:
                one.cancel()

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


def _texts(path: Path, config: DataConfig) -> list[str]:
    """All that is to be translated in a file."""
    pieces = document_reader(str(path))(str(path), config)
    return [text for piece in pieces if not isinstance(piece, bytes) for text in piece.texts]
