"""Texts of many requests, translated together: one thread a model, and a batch is what has come while the last one ran.

Nobody waits for a batch to fill, but for one thing: whoever has just been answered may ask again at once, and if others
wait meanwhile they would otherwise be two groups that are served in turn, each in half a batch. So after a batch the next
one gives those a small part of its time to come back, and starts as soon as they are there. A batch takes a text from each waiting request in turn until it is full, so that a long
request does not hold up short ones, and only texts that are to be searched in the same way.

    request 1   a b c d e          batch 1   a x p b y c       (full)
    request 2   x y                batch 2   d e
    request 3   p

How many tokens may wait is bounded; a request that finds no room waits for some, for a while. A request that is
cancelled takes its waiting texts with it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Generic, TypeVar

from pellucid.errors import PellucidError
from pellucid.server.refusal import Refusal

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

TOKENS_A_CORE = 1_024
"""In one batch, for each core: enough to use it well, and over in a fraction of a second."""
BYTES_A_TOKEN = 3
COME_BACK = 0.05
"""Of the time of the last batch: so long those that it answered may take to ask again."""

logger = logging.getLogger(__name__)


def tokens_about(text: str) -> int:
    """About how many tokens `text` has: a third of its bytes in UTF-8. Good enough to count by, and costs nothing.

    >>> tokens_about("Two dogs run."), tokens_about("两只狗在跑。")
    (5, 7)
    """
    return 1 + len(text.encode()) // BYTES_A_TOKEN


class _Request(Generic[K, R]):
    """Texts of one call that wait, each with the place that its answer goes to."""

    def __init__(self, texts: Sequence[str], kind: K) -> None:
        self.kind = kind
        self.waiting = deque(enumerate(texts))
        self.answers: list[R | None] = [None] * len(texts)
        self.missing = len(texts)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()


class Batcher(Generic[K, R]):
    """Gives texts to `work` in batches, in a thread of its own.

    Args:
        work: the answers to some texts of one kind, one each, in order.
        batch_tokens: in one batch; a single text may have more.
        waiting_tokens: of all that wait; a single request may have more while no other waits.
    """

    def __init__(
        self, work: Callable[[list[str], K], list[R]], name: str, batch_tokens: int, waiting_tokens: int
    ) -> None:
        self._work = work
        self._batch_tokens, self._most_waiting = batch_tokens, waiting_tokens
        self._thread = ThreadPoolExecutor(1, f"pellucid-{name}")
        self._requests: deque[_Request[K, R]] = deque()
        self._door, self._room = asyncio.Lock(), asyncio.Event()
        self._something = asyncio.Event()
        self.waiting_tokens = 0
        self.batches = 0
        self.texts = 0

    async def translate(self, texts: Sequence[str], kind: K, patience: float) -> list[R]:
        """The answers to `texts`, in order.

        Args:
            patience: seconds to wait for room in the queue.

        Raises:
            Refusal: 429, there was no room.
        """
        if not texts:
            return []
        tokens = sum(map(tokens_about, texts))
        await self._enter(tokens, patience)
        request: _Request[K, R] = _Request(texts, kind)
        try:
            self._requests.append(request)
            self._something.set()
            await request.done
        finally:  # also of one that was cancelled: what waits of it goes
            left = sum(tokens_about(text) for _, text in request.waiting)
            request.waiting.clear()
            self._leave(left)
        return [answer for answer in request.answers if answer is not None]

    async def _enter(self, tokens: int, patience: float) -> None:
        """Wait until there is room, behind those who wait for it already."""
        try:
            async with asyncio.timeout(patience), self._door:
                while self.waiting_tokens and self.waiting_tokens + tokens > self._most_waiting:
                    self._room.clear()
                    await self._room.wait()
        except TimeoutError:
            raise Refusal("Too many requests are waiting; try again later", 429, retry_after=10) from None
        self.waiting_tokens += tokens

    def _leave(self, tokens: int) -> None:
        self.waiting_tokens -= tokens
        self._room.set()

    async def run(self) -> None:
        """Work until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._something.wait()
            batch = self._next()
            if not batch:
                self._something.clear()
                continue
            kind = batch[0][0].kind
            texts = [text for _, _, text in batch]
            self._leave(sum(map(tokens_about, texts)))
            began = loop.time()
            answers = await loop.run_in_executor(self._thread, self._answers, texts, kind)
            ended = loop.time()
            self.batches += 1
            waiting, answered = self._asking(), 0
            self.texts += len(texts)
            for (request, place, _), answer in zip(batch, answers, strict=True):
                if request.done.done():
                    continue
                if isinstance(answer, BaseException):
                    request.done.set_exception(answer)
                    continue
                request.answers[place] = answer
                request.missing -= 1
                if not request.missing:
                    request.done.set_result(None)
                    answered += 1
            if answered and waiting:
                await self._until(waiting + answered, ended + COME_BACK * (ended - began))

    async def _until(self, requests: int, end: float) -> None:
        """Wait until so many requests are there, or until the time `end` of the loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(end):
                while self._asking() < requests:
                    self._something.clear()
                    await self._something.wait()
        self._something.set()

    def _asking(self) -> int:
        """Requests of which a text waits."""
        return sum(bool(request.waiting) for request in self._requests)

    def close(self) -> None:
        """End the thread when its batch is done."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _next(self) -> list[tuple[_Request[K, R], int, str]]:
        """The next batch: a text of each request in turn, of the kind of the one that has waited longest."""
        batch: list[tuple[_Request[K, R], int, str]] = []
        tokens = 0
        others: list[_Request[K, R]] = []
        while self._requests:
            request = self._requests.popleft()
            if not request.waiting or request.done.done():
                continue
            if batch and request.kind != batch[0][0].kind:
                others.append(request)
                continue
            place, text = request.waiting[0]
            tokens += tokens_about(text)
            if batch and tokens > self._batch_tokens:
                others.append(request)
                break
            request.waiting.popleft()
            batch.append((request, place, text))
            self._requests.append(request)
        self._requests.extendleft(reversed(others))
        return batch

    def _answers(self, texts: list[str], kind: K) -> list[R | BaseException]:
        """The answers, or what went wrong. A text that breaks its batch breaks nothing for the others in it."""
        try:
            return [*self._work(texts, kind)]
        except Exception as error:
            if not isinstance(error, PellucidError):
                logger.error("a batch of %d texts failed: %s", len(texts), type(error).__name__)
            if len(texts) == 1:
                return [error]
        return [answer for text in texts for answer in self._answers([text], kind)]
