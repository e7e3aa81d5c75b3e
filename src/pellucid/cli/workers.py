"""A translator in several processes: for a large file that is faster than several threads in one."""

from __future__ import annotations

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import TYPE_CHECKING, Any

from pellucid.errors import SearchError

if TYPE_CHECKING:
    from pellucid.config import SearchConfig
    from pellucid.text.options import TextOptions
    from pellucid.translation import Translation
    from pellucid.translator import Translator

TEXTS = 512
"""That a worker is given at a time: enough for batches of similar lengths."""
AHEAD = 2
"""Such pieces a worker, at most, read and not yet printed: so memory stays flat however long the input is."""

_translator: Translator


def translate_with_workers(
    workers: int,
    options: dict[str, Any],
    texts: Iterable[str],
    config: SearchConfig,
    prefixes: Iterable[str] | None,
    scores: bool,
    handling: TextOptions | None = None,
) -> Iterator[Translation]:
    """The translations of `texts` in their order.

    Args:
        options: what :meth:`Translator.load` is given in each worker, the model folder as `directory`.
        handling: see :meth:`Translator.translate`.

    Raises:
        SearchError: a worker was killed.
    """
    waiting: deque[Future[list[Translation]]] = deque()
    rest, starts, first = iter(texts), None if prefixes is None else iter(prefixes), 0
    # Not forked: threads of torch would be missing in the copy.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _start, (options,)) as pool:
        try:
            while True:
                while len(waiting) < AHEAD * workers and (some := list(islice(rest, TEXTS))):
                    begins = None if starts is None else list(islice(starts, len(some)))
                    waiting.append(pool.submit(_translate, some, config, begins, first, scores, handling))
                    first += len(some)
                if not waiting:
                    return
                yield from waiting.popleft().result()
        except BrokenProcessPool as error:
            raise SearchError(
                "a worker came to its end before its work: killed, perhaps because memory ran out",
                hint="fewer --workers, or a smaller --batch-tokens",
            ) from error
        except BaseException:
            for process in multiprocessing.active_children():
                process.terminate()
            raise


def _start(options: dict[str, Any]) -> None:
    from pellucid.translator import Translator

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process ends the others
    global _translator
    _translator = Translator.load(**options)


def _translate(
    texts: list[str],
    config: SearchConfig,
    prefixes: list[str] | None,
    first: int,
    scores: bool,
    handling: TextOptions | None,
) -> list[Translation]:
    return _translator.translate(texts, config, prefixes, first=first, scores=scores, text=handling)
