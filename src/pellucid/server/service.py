"""What all dialects ask: the languages that are there, and translations between them, within the limits.

It knows no HTTP: a dialect (LibreTranslate's, DeepL's, ...) reads a request, asks here, and writes the answer in its way.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from pellucid.config import SearchConfig
from pellucid.machine import available_cores
from pellucid.server import languages
from pellucid.server.batcher import TOKENS_A_CORE, Batcher
from pellucid.server.detection import Detected, detect
from pellucid.server.inspector import Inspector
from pellucid.server.limits import Limits
from pellucid.server.metrics import Metrics
from pellucid.server.refusal import Refusal
from pellucid.server.translating import Answer, Manner, translate
from pellucid.text.terms import Terms
from pellucid.translator import Translator

PROBE = ("en", "de", "test")
"""What Weblate asks a new engine, whatever its languages are; it saves none that cannot answer."""

logger = logging.getLogger(__name__)


class Served:
    """A model that translates from one language into another."""

    def __init__(
        self,
        name: str,
        inspector: Inspector,
        source: str,
        target: str,
        limits: Limits,
        search: Callable[[SearchConfig], SearchConfig] = lambda config: config,
        terms: Terms | None = None,
    ) -> None:
        """`source` and `target` in the form of :mod:`~pellucid.server.languages`; `search` changes the model's own."""
        self.name, self.inspector = name, inspector
        self.source, self.target = source, target
        self._search, self._terms = search, terms
        self._translator: Translator | None = None
        self.failed = False
        self.batcher: Batcher[Manner, Answer] = Batcher(
            self._translate, name, TOKENS_A_CORE * available_cores(), limits.waiting_tokens
        )

    @property
    def ready(self) -> bool:
        """Whether it is in memory."""
        return self._translator is not None

    def load(self) -> None:
        """Into memory, its engine too; takes seconds."""
        try:
            translator = self.inspector.translator
            translate(translator, ["."], Manner(), self._search(translator.loaded.search))
        except Exception as error:
            self.failed = True
            logger.error("%s cannot be loaded: %s", self.inspector.directory, error)
        else:
            self._translator = translator

    def _translate(self, texts: list[str], manner: Manner) -> list[Answer]:
        translator = self._translator
        assert translator is not None
        with self.inspector.lock:  # the page switches heads off in the same model
            return translate(translator, texts, manner, self._search(translator.loaded.search), self._terms)


@dataclass(frozen=True)
class Outcome:
    """What came of the texts of one request."""

    answers: list[Answer]
    source: str
    target: str
    detected: Detected | None = None
    """If the source was to be found out."""
    pivot: str | None = None
    """The language between, if no model goes there directly."""


class Service:
    """The models, by pair of languages.

    Args:
        weblate: answer Weblate's probe from English to German even if no model can.
    """

    def __init__(self, models: Sequence[Served], limits: Limits | None = None, *, weblate: bool = False) -> None:
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.models: dict[tuple[str, str], Served] = {}
        for model in models:
            self.models.setdefault((model.source, model.target), model)
        self._codes = sorted({code for pair in self.models for code in pair})
        self._probe = weblate and PROBE[:2] not in self.models

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """While it is open, models load and then translate."""
        loop = asyncio.get_running_loop()
        tasks = [loop.create_task(self._run(model)) for model in self.models.values()]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            for model in self.models.values():
                model.batcher.close()

    async def _run(self, model: Served) -> None:
        # Not in the thread that translates: in one that has set the number of threads itself, MKL cuts up even the
        # smallest products among them, which gains nothing and costs processor time.
        await asyncio.to_thread(model.load)
        await model.batcher.run()

    @property
    def ready(self) -> bool:
        """Whether every model is in memory."""
        return all(model.ready for model in self.models.values())

    # --- languages --------------------------------------------------------------------------------------------------

    def sources(self) -> list[str]:
        """Languages that can be translated from."""
        return sorted({*(source for source, _ in self.models), *([PROBE[0]] if self._probe else [])})

    def targets(self, source: str) -> list[str]:
        """Where `source` can be translated to, itself included: directly, or by way of one other language."""
        direct = {target for start, target in self.models if start == source}
        further = {target for start, target in self.models if start in direct}
        probe = {PROBE[1]} if self._probe and source == PROBE[0] else set()
        return sorted({source, *direct, *further, *probe})

    def all_languages(self) -> list[str]:
        """Every language that is a source or a target."""
        return sorted({*self._codes, *(PROBE[:2] if self._probe else ())})

    def language(self, code: str) -> str:
        """The served language that a client means.

        Raises:
            Refusal: there is none.
        """
        found = languages.find(code, self.all_languages())
        if found is None:
            raise Refusal(f"{code[:40]} is not supported")
        return found

    def way(self, source: str, target: str) -> list[Served]:
        """The models to go through from `source` to `target`: none if they are the same, else one or two.

        Raises:
            Refusal: no way is known.
        """
        if source == target:
            return []
        if (source, target) in self.models:
            return [self.models[source, target]]
        for middle in self._codes:
            if (source, middle) in self.models and (middle, target) in self.models:
                return [self.models[source, middle], self.models[middle, target]]
        raise Refusal(
            f"{languages.name(target)} ({target}) is not available as a target language from "
            f"{languages.name(source)} ({source})"
        )

    async def detect(self, text: str) -> list[Detected]:
        """The languages that `text` may be in, best first."""
        return await asyncio.to_thread(detect, text, self._codes)

    # --- translating ------------------------------------------------------------------------------------------------

    def check(self, texts: Sequence[str], manner: Manner) -> None:
        """Nothing, if the limits allow it.

        Raises:
            Refusal: more than they allow, or what is no text.
        """
        limits = self.limits
        if len(texts) > limits.texts:
            raise Refusal(f"Invalid request: request ({len(texts)}) exceeds text limit ({limits.texts})")
        longest = max(map(len, texts), default=0)
        if longest > limits.characters:
            raise Refusal(f"Invalid request: request ({longest}) exceeds text limit ({limits.characters})")
        if manner.alternatives > limits.alternatives:
            raise Refusal(f"Invalid request: alternatives parameter must be <= {limits.alternatives}")
        try:
            "".join(texts).encode()
        except UnicodeEncodeError:
            raise Refusal("Invalid request: a text is not valid Unicode") from None

    async def translate(
        self, texts: Sequence[str], source: str | None, target: str, manner: Manner, deadline: float | None = None
    ) -> Outcome:
        """The answers to `texts`.

        Args:
            source: a code as the client wrote it, or None: to be found out from the texts together.
            target: a code as the client wrote it.
            deadline: seconds, if not those of the limits.

        Raises:
            Refusal: languages that are not there, more than the limits allow, no room or no time.
        """
        self.check(texts, manner)
        goal = self.language(target)
        detected = None
        if source is None:
            detected = await self._source("\n".join(texts), goal)
            start = detected.language
        else:
            start = self.language(source)
        if self._probe and (start, goal) == PROBE[:2] and set(texts) == {PROBE[2]}:
            return Outcome([Answer(text) for text in texts], start, goal)
        way = self.way(start, goal)
        seconds = deadline or self.limits.deadline
        try:
            async with asyncio.timeout(seconds):
                answers = await self._along(way, texts, manner)
        except TimeoutError:
            raise Refusal(f"The translation took more than {seconds:g} seconds", 504) from None
        self.metrics.translated(start, goal, texts)
        return Outcome(answers, start, goal, detected, way[0].target if len(way) > 1 else None)

    async def _along(self, way: Sequence[Served], texts: Sequence[str], manner: Manner) -> list[Answer]:
        """`texts` through the models; those with nothing to translate in them are their own answers."""
        answers = [Answer(text) for text in texts]
        for k, model in enumerate(way):
            await self._ready(model)
            # Alternatives are those of the last step.
            step = manner if k == len(way) - 1 else Manner(html=manner.html)
            places = [i for i, answer in enumerate(answers) if any(map(str.isalnum, answer.text))]
            some = [answers[i].text for i in places]
            found = await model.batcher.translate(some, step, self.limits.queue_seconds)
            for i, answer in zip(places, found, strict=True):
                flags = tuple(dict.fromkeys([*answers[i].flags, *answer.flags]))
                answers[i] = Answer(answer.text, answer.alternatives, flags)
        return answers

    async def _ready(self, model: Served) -> None:
        """Wait for a model that is still being loaded, for a while."""
        waited = 0.0
        while not model.ready:
            if model.failed:
                raise Refusal("The model could not be loaded; the server's log says why", 503)
            if waited >= self.limits.queue_seconds:
                raise Refusal("The model is still being loaded; try again later", 503, retry_after=10)
            await asyncio.sleep(0.05)
            waited += 0.05

    async def _source(self, text: str, goal: str) -> Detected:
        """What `text` is written in; where it does not say, the first language that leads to `goal`."""
        found = await self.detect(text)
        if found:
            return found[0]
        start = next((source for source, target in self.models if target == goal), goal)
        return Detected(start, 0.0)

    def gauges(self) -> list[tuple[str, str, str, float]]:
        """What the models count, for :meth:`~pellucid.server.metrics.Metrics.text`."""
        return [
            gauge
            for model in self.models.values()
            for gauge in (
                ("pellucid_ready", "gauge", model.name, float(model.ready)),
                ("pellucid_waiting_tokens", "gauge", model.name, float(model.batcher.waiting_tokens)),
                ("pellucid_batches_total", "counter", model.name, float(model.batcher.batches)),
                ("pellucid_batched_texts_total", "counter", model.name, float(model.batcher.texts)),
            )
        ]


def names_of(directories: Sequence[str]) -> list[str]:
    """Names for model folders of these names, each once (`model`, `model-2`, ...), without signs that need quoting."""
    names: list[str] = []
    for directory in directories:
        plain = re.sub(r"[^\w.-]", "_", directory) or "model"
        name, number = plain, 1
        while name in names:
            number += 1
            name = f"{plain}-{number}"
        names.append(name)
    return names
