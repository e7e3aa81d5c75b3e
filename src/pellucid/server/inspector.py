"""What the page asks about one model: every answer as JSON, with no knowledge of HTTP.

One model in memory and one lock around it: heads are switched off in the model itself, so one translation at a time.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pellucid.config import SearchConfig
from pellucid.errors import ConfigError, DataError, ModelFolderError, PellucidError
from pellucid.inspection import encoding
from pellucid.inspection.flow import flow
from pellucid.inspection.heads import measure_heads
from pellucid.inspection.labs import catalogue
from pellucid.inspection.recorder import Head
from pellucid.inspection.trace import Trace, trace
from pellucid.quantization import validation_pairs
from pellucid.training.run_folder import is_training
from pellucid.translator import Translator

T = TypeVar("T")

KEPT = 32
"""Traces that can still be asked about. One of 80 tokens and 6 + 6 layers takes about 7 MB."""
MOST_CHARACTERS = 5_000
MOST_BEAM = 32
MOST_POSITIONS = 256
MOST_PAIRS = 2_000
MOST_RECORDS = 2_000
EXAMPLES = 6


class Inspector:
    """The model folder `directory`, which may still be in training and hold no model yet.

    Args:
        to, tags: see :meth:`~pellucid.translator.Translator.load`.
        beside: one of the same folder, whose model is used.

    Raises:
        ModelFolderError: neither a model nor a training run is there.
    """

    def __init__(
        self,
        directory: str | Path,
        *,
        engine: str = "auto",
        threads: int = 0,
        to: str | None = None,
        tags: Sequence[str] = (),
        beside: Inspector | None = None,
    ) -> None:
        self.directory = Path(directory)
        self._engine, self._threads = engine, threads
        self._to, self._tags, self._beside = to, tags, beside
        self.lock: threading.RLock = threading.RLock() if beside is None else beside.lock
        """Held while the model is used or changed."""
        self._translator: Translator | None = None
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._numbers = itertools.count(1)
        self._measuring = _Measuring()
        if not (self.directory / "config.json").exists() and not self._metrics.exists():
            Translator.load(self.directory, threads=threads)  # says what is wrong

    @property
    def _metrics(self) -> Path:
        return self.directory / "training" / "metrics.jsonl"

    @property
    def translator(self) -> Translator:
        """The model, loaded when it is first needed.

        Raises:
            NoModelYetError: training has not saved one yet.
        """
        with self.lock:
            if self._translator is None and self._beside is not None:
                self._translator = self._beside.translator.tagged(self._to, self._tags)
            if self._translator is None:
                if not (self.directory / "config.json").exists():
                    raise NoModelYetError(
                        f"{self.directory}: training has not saved a model yet", hint="look at its curves meanwhile"
                    )
                self._translator = Translator.load(
                    self.directory, engine=self._engine, threads=self._threads, to=self._to, tags=self._tags
                )
            return self._translator

    def into(self, language: str) -> Inspector:
        """Another one of the same model, into one of its target languages."""
        return Inspector(self.directory, to=language, tags=self._tags, beside=self)

    # --- one translation --------------------------------------------------------------------------------------------

    def model(self) -> dict[str, Any]:
        """What the model is, and some sentences to try."""
        with self.lock:
            pairs = self._pairs()
            sources = sorted((source for source, _ in pairs if 20 <= len(source) <= 90), key=lambda s: (len(s), s))
            step = max(1, len(sources) // EXAMPLES)
            return {
                **encoding.model_json(self.translator, self.directory.resolve().name),
                "examples": sources[step // 2 :: step][:EXAMPLES],
                "training": self._metrics.exists(),
                "pairs": len(pairs),
            }

    def translate(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """A trace. The fields of `request`: text; target, beam_size, length_penalty, n_best, prefix_ids, off.

        Raises:
            ConfigError, DataError: what is asked cannot be.
        """
        known = ("text", "target", "beam_size", "length_penalty", "n_best", "prefix_ids", "off")
        for name in request:
            if name not in known:
                raise ConfigError(f"there is no field {name!r}; there are {', '.join(known)}")
        text = _field(request, "text", str, None)
        if text is None:
            raise ConfigError("`text` is missing: what shall be translated")
        target = _field(request, "target", str, None)
        for name, value in (("text", text), ("target", target or "")):
            if len(value) > MOST_CHARACTERS:
                raise DataError(f"`{name}` must have at most {MOST_CHARACTERS} characters, but has {len(value)}")
        with self.lock:
            translator = self.translator
            config = self._search_config(translator, request)
            vocabulary = translator.model.config.tgt_vocab
            prefix = _list(request, "prefix_ids", int)
            if len(prefix) > MOST_CHARACTERS or not all(
                0 <= i < vocabulary and i not in (translator.vocabulary.eos_id, *translator.vocabulary.forbidden)
                for i in prefix
            ):
                raise ConfigError("`prefix_ids` must be ids of the target's pieces")
            off = [Head.parse(name, translator.model) for name in _list(request, "off", str)]
            started = time.perf_counter()
            found = trace(translator, text, target, config, off=sorted(set(off)), prefix_ids=prefix)
            seconds = time.perf_counter() - started
            name = f"t{next(self._numbers)}"
            self._traces[name] = found
            while len(self._traces) > KEPT:
                self._traces.popitem(last=False)
        return {"id": name, "seconds": round(seconds, 4), **encoding.trace_json(found)}

    def _search_config(self, translator: Translator, request: Mapping[str, Any]) -> SearchConfig:
        beam_size = _field(request, "beam_size", int, None)
        if beam_size is not None and not 1 <= beam_size <= MOST_BEAM:
            raise ConfigError(f"`beam_size` must be from 1 to {MOST_BEAM}, but is {beam_size}")
        alpha = _field(request, "length_penalty", float, None)
        if alpha is not None and not 0 <= alpha <= 10:
            raise ConfigError(f"`length_penalty` must be from 0 to 10, but is {alpha}")
        changes: dict[str, Any] = {"beam_size": beam_size, "length_penalty": alpha}
        changes["n_best"] = _field(request, "n_best", int, None)
        config = dataclasses.replace(
            translator.loaded.search, sample=False, **{k: v for k, v in changes.items() if v is not None}
        )
        return config

    def head(self, name: str, kind: str, layer: int, head: int) -> dict[str, Any]:
        """One head of a trace at full precision.

        Raises:
            ConfigError: there is no such head.
            NotThereError: the trace is forgotten.
        """
        found = self._trace(name)
        wanted = Head.parse(f"{kind}.{layer + 1}.{head + 1}", self.translator.model)
        return encoding.head_json(found.maps(wanted.kind), wanted.layer, wanted.head)

    def flow(self, name: str, kind: str, layer: int, head: int, position: int) -> dict[str, Any]:
        """The numbers of one position of a trace. Raises as :meth:`head`."""
        found = self._trace(name)
        wanted = Head.parse(f"{kind}.{layer + 1}.{head + 1}", self.translator.model)
        with self.lock:
            return encoding.flow_json(flow(self.translator, found, wanted, position))

    def _trace(self, name: str) -> Trace:
        with self.lock:
            if name not in self._traces:
                raise NotThereError(
                    f"there is no trace {name!r} any more; the last {KEPT} are kept", hint="translate again"
                )
            self._traces.move_to_end(name)
            return self._traces[name]

    def positions(self, length: int) -> dict[str, Any]:
        """The table of positions."""
        if not 1 <= length <= MOST_POSITIONS:
            raise ConfigError(f"`length` must be from 1 to {MOST_POSITIONS}, but is {length}")
        with self.lock:
            return encoding.positions_json(self.translator.model, length)

    def lab(self, name: str, given: Mapping[str, str], language: str, with_model: bool) -> dict[str, Any]:
        """What a lab finds.

        Args:
            given: its parameters by name.
            with_model: let it look at this model, if it can.

        Raises:
            ConfigError: no such lab, parameter or value.
        """
        lab = catalogue.find(name)
        if not (with_model and lab.takes_model):
            return lab.to_json(lab.run(given, language), language)
        with self.lock:
            return lab.to_json(lab.run(given, language, self.translator), language)

    # --- the heads over a corpus ------------------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[str, str]]:
        """The run's validation pairs; none if it left none."""
        try:
            return list(zip(*validation_pairs(self.translator), strict=True))
        except PellucidError:
            return []

    def heads(self) -> dict[str, Any]:
        """How far the measuring of heads is, and what was found."""
        return self._measuring.json()

    def measure_heads(self, limit: int) -> dict[str, Any]:
        """Start measuring, beside all else: with a copy of the model."""
        if not 1 <= limit <= MOST_PAIRS:
            raise ConfigError(f"`limit` must be from 1 to {MOST_PAIRS}, but is {limit}")
        with self.lock:
            pairs = self._pairs()[:limit]
            if not pairs:
                raise DataError(
                    "this model folder has no validation pairs to measure with",
                    hint=f"pellucid heads {self.directory} --src FILE --tgt FILE",
                )
            translator = self.translator
            loaded = dataclasses.replace(translator.loaded, model=copy.deepcopy(translator.model))
        self._measuring.start(
            len(pairs),
            lambda told: measure_heads(Translator(loaded, tags=translator.tags), pairs, progress=told).to_json(),
        )
        return self.heads()

    # --- training ---------------------------------------------------------------------------------------------------

    def training(self, since: int) -> dict[str, Any]:
        """The records of the run from line `since` (from 0) on; where there are many, evenly fewer of the updates."""
        records: list[dict[str, Any]] = []
        number = 0
        if self._metrics.exists():
            with self._metrics.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if not line.endswith("\n"):
                        break  # still being written
                    number += 1
                    if number > since:
                        try:
                            records.append(_finite(json.loads(line)))
                        except ValueError:
                            continue
        updates = [r for r in records if r.get("record") == "progress"]
        if len(records) > MOST_RECORDS:
            step = math.ceil(len(updates) / MOST_RECORDS)
            kept = {id(r) for r in updates[::step]} | {id(r) for r in updates[-1:]}
            records = [r for r in records if r.get("record") != "progress" or id(r) in kept]
        return {"records": records, "next": max(number, since), "running": is_training(self.directory)}


def languages_of(directory: Path) -> tuple[str | None, list[str]]:
    """The language that a model translates from, and those that it translates to, as far as its folder says it."""
    try:
        told = json.loads((directory / "config.json").read_text(encoding="utf-8"))["languages"]
        source, targets = told["source"], told.get("targets", [told["target"]])
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None, []
    return source if isinstance(source, str) else None, [code for code in targets if isinstance(code, str)]


class NotThereError(PellucidError):
    """Something was asked for by a name that nothing has (any more)."""


class NoModelYetError(ModelFolderError):
    """Training has begun in the folder, and has saved no model so far."""


class _Measuring:
    """Work in the background: none, running, done or error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._state, self._done, self._of = "none", 0, 0
        self._error: str | None = None
        self._table: dict[str, Any] | None = None

    def json(self) -> dict[str, Any]:
        with self._lock:
            return {
                "state": self._state, "done": self._done, "of": self._of, "error": self._error, "table": self._table,
            }  # fmt: skip

    def start(self, of: int, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        """Begin, unless it is running already."""
        with self._lock:
            if self._state == "running":
                return
            self._state, self._done, self._of, self._error = "running", 0, of, None
        threading.Thread(target=self._run, args=(work,), name="pellucid-heads", daemon=True).start()

    def _run(self, work: Callable[[Callable[[int, int], None]], dict[str, Any]]) -> None:
        try:
            table = work(self._progress)
        except Exception as error:  # whatever it is, the page must be told
            with self._lock:
                self._state, self._error = "error", str(error) or type(error).__name__
        else:
            with self._lock:
                self._state, self._table = "done", table

    def _progress(self, done: int, of: int) -> None:
        with self._lock:
            self._done, self._of = done, of


def _field(request: Mapping[str, Any], name: str, kind: type[T], default: T | None) -> T | None:
    """A field of the right type; a whole number is a number too, but true and false are not."""
    value = request.get(name)
    if value is None:
        return default
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, kind) or isinstance(value, bool):
        names = {str: "a text", int: "a whole number", float: "a number"}
        raise ConfigError(f"`{name}` must be {names[kind]}, but is {json.dumps(value)[:40]}")
    return value


def _list(request: Mapping[str, Any], name: str, kind: type[T]) -> Sequence[T]:
    value = request.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(x, kind) and not isinstance(x, bool) for x in value):
        raise ConfigError(f"`{name}` must be a list of {'whole numbers' if kind is int else 'texts'}")
    return value


def _finite(value: Any) -> Any:
    """JSON as everybody reads it: None in the place of NaN and infinity."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
