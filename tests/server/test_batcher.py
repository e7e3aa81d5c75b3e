"""Batches: who is in which, and what becomes of those who leave."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

import pytest

from pellucid.server.batcher import Batcher, tokens_about
from pellucid.server.refusal import Refusal


class Work:
    """Answers in capitals; the first batch waits for `go`, so that others queue meanwhile."""

    def __init__(self) -> None:
        self.batches: list[str] = []
        self.go = threading.Event()

    def __call__(self, texts: list[str], kind: str) -> list[str]:
        self.batches.append(f"{kind}:{' '.join(texts)}")
        assert self.go.wait(10)
        if "bad" in texts:
            raise ValueError("bad")
        return [text.upper() for text in texts]


def with_batcher(
    test: Callable[[Batcher[str, str], Work], Awaitable[None]],
    batch_tokens: int = 100,
    waiting_tokens: int = 100,
    work: Work | None = None,
) -> None:
    async def main(work: Work) -> None:
        batcher: Batcher[str, str] = Batcher(work, "test", batch_tokens, waiting_tokens)
        running = asyncio.create_task(batcher.run())
        try:
            async with asyncio.timeout(10):
                await test(batcher, work)
        finally:
            work.go.set()
            running.cancel()
            batcher.close()

    asyncio.run(main(work or Work()))


async def queued(batcher: Batcher[str, str], *requests: str, kind: str = "k") -> list[asyncio.Task[list[str]]]:
    """Requests that wait behind a first batch, which has begun."""
    tasks = []
    for texts in requests:
        tasks.append(asyncio.create_task(batcher.translate(texts.split(), kind, 5)))
        await asyncio.sleep(0.02)
    return tasks


def test_a_batch_is_what_has_come_while_the_last_one_ran():
    async def test(batcher, work):
        tasks = await queued(batcher, "first", "a b", "c", "d")
        work.go.set()
        assert await asyncio.gather(*tasks) == [["FIRST"], ["A", "B"], ["C"], ["D"]]
        assert work.batches == ["k:first", "k:a c d b"]
        assert (batcher.batches, batcher.texts, batcher.waiting_tokens) == (2, 5, 0)

    with_batcher(test)


def test_a_long_request_does_not_hold_up_short_ones():
    async def test(batcher, work):
        tasks = await queued(batcher, "first", "a b c d e f", "x", "y")
        work.go.set()
        await asyncio.gather(*tasks)
        assert work.batches == ["k:first", "k:a x y b", "k:c d e f"]

    with_batcher(test, batch_tokens=4)


def test_texts_of_another_kind_have_a_batch_of_their_own_in_their_turn():
    async def test(batcher, work):
        (first,) = await queued(batcher, "first")
        (a,) = await queued(batcher, "a b", kind="html")
        (c,) = await queued(batcher, "c")
        (d,) = await queued(batcher, "d", kind="html")
        work.go.set()
        await asyncio.gather(first, a, c, d)
        assert work.batches == ["k:first", "html:a d b", "k:c"]

    with_batcher(test)


def test_a_text_longer_than_a_batch_is_translated_all_the_same():
    async def test(batcher, work):
        work.go.set()
        assert await batcher.translate(["a" * 1000, "b"], "k", 1) == ["A" * 1000, "B"]

    with_batcher(test, batch_tokens=4)


def test_who_leaves_takes_what_waits_along():
    async def test(batcher, work):
        first, gone, after = await queued(batcher, "first", "a b c", "x")
        gone.cancel()
        await asyncio.sleep(0.02)
        assert batcher.waiting_tokens == tokens_about("x")
        work.go.set()
        assert await first == ["FIRST"] and await after == ["X"]
        assert work.batches == ["k:first", "k:x"]

    with_batcher(test)


def test_a_text_that_breaks_its_batch_breaks_nothing_else():
    async def test(batcher, work):
        tasks = await queued(batcher, "first", "a", "b bad", "c")
        work.go.set()
        first, a, bad, c = await asyncio.gather(*tasks, return_exceptions=True)
        assert (first, a, c) == (["FIRST"], ["A"], ["C"])
        assert isinstance(bad, ValueError)
        assert batcher.waiting_tokens == 0
        assert await batcher.translate(["again"], "k", 1) == ["AGAIN"]

    with_batcher(test)


def test_where_there_is_no_room_one_waits_and_is_then_told():
    async def test(batcher, work):
        first, second = await queued(batcher, "first", "a b c")
        with pytest.raises(Refusal) as refused:
            await batcher.translate(["d", "e", "f"], "k", 0.05)
        assert (refused.value.status, refused.value.retry_after) == (429, 10)
        patient = asyncio.create_task(batcher.translate(["d", "e", "f"], "k", 5))
        await asyncio.sleep(0.02)
        assert not patient.done()
        work.go.set()
        assert await patient == ["D", "E", "F"]
        assert await first and await second

    with_batcher(test, waiting_tokens=5)


def test_a_request_larger_than_the_queue_is_let_in_when_nobody_waits():
    async def test(batcher, work):
        work.go.set()
        assert len(await batcher.translate(["a"] * 50, "k", 1)) == 50

    with_batcher(test, waiting_tokens=5)


def test_nothing_asked_is_nothing_answered():
    async def test(batcher, work):
        assert await batcher.translate([], "k", 1) == []
        assert work.batches == []

    with_batcher(test)


def test_answers_none_is_lost_under_many_at_once():
    async def test(batcher, work):
        work.go.set()
        tasks = [batcher.translate([f"{i}-{k}" for k in range(i % 5)], "k", 10) for i in range(300)]
        assert await asyncio.gather(*tasks) == [[f"{i}-{k}" for k in range(i % 5)] for i in range(300)]
        assert batcher.batches < batcher.texts

    with_batcher(test, batch_tokens=50, waiting_tokens=500)


class Slow(Work):
    """A batch takes a fifth of a second: whoever asks again may take a twentieth of that."""

    def __call__(self, texts: list[str], kind: str) -> list[str]:
        time.sleep(0.2)
        return super().__call__(texts, kind)


def test_who_asks_again_at_once_is_in_the_batch_of_those_who_waited():
    async def test(batcher, work):
        work.go.set()

        async def asks_twice():
            for text in ("a1", "a2"):
                await batcher.translate([text], "k", 5)

        again = asyncio.create_task(asks_twice())
        await asyncio.sleep(0.05)
        waited = asyncio.create_task(batcher.translate(["b"], "k", 5))
        await asyncio.gather(again, waited)
        assert work.batches == ["k:a1", "k:b a2"]

    with_batcher(test, work=Slow())


def test_nobody_waits_long_for_one_who_does_not_ask_again():
    async def test(batcher, work):
        work.go.set()
        first = asyncio.create_task(batcher.translate(["a"], "k", 5))
        await asyncio.sleep(0.05)
        assert await batcher.translate(["b"], "k", 5) == ["B"]
        assert first.done() and work.batches == ["k:a", "k:b"]

    with_batcher(test, work=Slow())
