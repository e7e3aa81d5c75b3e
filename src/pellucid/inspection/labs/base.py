"""What a lab is: a function of its parameters that computes claims of the paper and says what it found.

Every lab has at least one **control**: the same claim with its cause taken away. A control must *not* hold; where it
does, the lab proves nothing. Whatever a person reads is in English and in Simplified Chinese.
"""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from pellucid.errors import ConfigError
from pellucid.inspection.svg import Picture, readable
from pellucid.translator import Translator

LANGUAGES = ("en", "zh")
ALONE = threading.Lock()
"""One experiment at a time: they share torch's random numbers and the trained toy, on which gates are closed."""
Value = int | float | str


class Text(NamedTuple):
    """The same in both languages."""

    en: str
    zh: str

    def of(self, language: str) -> str:
        return self.zh if language == "zh" else self.en


class Say(NamedTuple):
    """What a lab speaks with: `say("a row", "一行")` is the one of the reader's language."""

    language: str

    def __call__(self, en: str, zh: str) -> str:
        return Text(en, zh).of(self.language)


@dataclass(frozen=True)
class Parameter:
    """Something that the reader can set."""

    name: str
    default: Value
    label: Text
    least: float | None = None
    most: float | None = None
    step: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if self.choices:
            return "choice"
        return {int: "int", float: "float", str: "text"}[type(self.default)]

    def read(self, given: object, lab: str) -> Value:
        """`given`, a value or its text, as a value of this parameter.

        Raises:
            ConfigError: it is none.
        """
        kind = self.kind
        try:
            value: Value = str(given) if kind in ("choice", "text") else int(str(given)) if kind == "int" else float(str(given))  # fmt: skip
            good = self._allows(value)
        except ValueError:
            good = False
        if not good:
            raise ConfigError(
                f"`{self.name}` of the lab {lab} must be {self._rule()}, but is {given!r}",
                hint=f"{self.name}={self.default}",
            )
        return value

    def _allows(self, value: Value) -> bool:
        if isinstance(value, str):
            return (
                value in self.choices if self.choices else (self.least or 0) <= len(value.strip()) <= (self.most or 200)
            )
        if self.kind == "int" and self.step and (value - (self.least or 0)) % self.step:
            return False
        return (self.least is None or value >= self.least) and (self.most is None or value <= self.most)

    def _rule(self) -> str:
        if self.choices:
            return "one of " + ", ".join(self.choices)
        if self.kind == "text":
            return f"a text of {self.least or 0:g} to {self.most or 200:g} characters"
        limits = f" from {self.least:g} to {self.most:g}" if self.least is not None and self.most is not None else ""
        steps = f" in steps of {self.step:g}" if self.kind == "int" and self.step and self.step > 1 else ""
        return ("a whole number" if self.kind == "int" else "a number") + limits + steps

    def to_json(self, language: str) -> dict[str, Any]:
        limits = {"min": self.least, "max": self.most, "step": self.step, "choices": list(self.choices) or None}
        return {
            "name": self.name,
            "kind": self.kind,
            "default": self.default,
            "label": self.label.of(language),
            **{name: value for name, value in limits.items() if value is not None},
        }


@dataclass(frozen=True)
class Check:
    """A claim, what was found, and whether it holds. A control is a claim that must not hold."""

    claim: str
    found: str
    holds: bool
    control: bool = False

    @property
    def as_it_should_be(self) -> bool:
        return self.holds != self.control


@dataclass
class Result:
    """What a lab found, in one language."""

    idea: str
    """What to see, in two to four sentences."""
    pictures: list[tuple[str, str]] = field(default_factory=list)
    """(title, SVG)."""
    numbers: list[tuple[str, str]] = field(default_factory=list)
    """(label, value)."""
    checks: list[Check] = field(default_factory=list)

    def show(self, title: str, picture: Picture) -> None:
        self.pictures.append((title, picture.svg(title)))

    def number(self, label: str, value: str) -> None:
        self.numbers.append((label, value))

    def check(self, claim: str, holds: bool, found: str, *, control: bool = False) -> None:
        self.checks.append(Check(claim, found, bool(holds), control))

    def small(self, claim: str, error: float, tolerance: float, *, control: bool = False) -> None:
        """The claim that `error` is at most `tolerance`."""
        self.check(claim, error <= tolerance, f"{exponent(error)} (≤ {exponent(tolerance)})", control=control)


@dataclass(frozen=True)
class Lab:
    """One experiment, and what it is called."""

    name: str
    number: int
    title: Text
    question: Text
    source: str
    """Section, equation or paper."""
    experiment: Callable[..., Result]
    """Called with a :class:`Say`, every parameter by its name, and `model` if it takes one."""
    parameters: tuple[Parameter, ...] = ()
    seconds: float = 0.1
    """Roughly, on two cores."""
    takes_model: bool = False
    """It can look at a trained translator too."""

    def run(
        self, given: Mapping[str, object] | None = None, language: str = "en", model: Translator | None = None
    ) -> Result:
        """The lab's result. The same parameters give the same numbers (times apart); torch's own random numbers go on
        afterwards as if nothing had happened.

        Args:
            given: values, or their texts, by the names of parameters; the others have their defaults.
            language: en or zh.
            model: a translator for the labs that can look at one; the others pass it over.

        Raises:
            ConfigError: an unknown parameter or language, or a value that cannot be.
        """
        if language not in LANGUAGES:
            raise ConfigError(f"`lang` must be one of {', '.join(LANGUAGES)}, but is {language!r}")
        values: dict[str, Any] = self.read(given or {})
        if self.takes_model:
            values["model"] = model
        with ALONE, torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return self.experiment(Say(language), **values)

    def read(self, given: Mapping[str, object]) -> dict[str, Value]:
        """All parameters with their values. Raises as :meth:`run`."""
        known = {parameter.name: parameter for parameter in self.parameters}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                raise ConfigError(
                    f"the lab {self.name} has no parameter {name!r}",
                    hint=f"did you mean {near[0]!r}?" if near else f"it has: {', '.join(known) or 'none'}",
                )
        return {name: p.read(given.get(name, p.default), self.name) for name, p in known.items()}

    def describe(self, language: str) -> dict[str, Any]:
        """The entry of this lab in the list of labs, as JSON."""
        return {
            "name": self.name,
            "number": self.number,
            "title": self.title.of(language),
            "question": self.question.of(language),
            "parameters": [parameter.to_json(language) for parameter in self.parameters],
            "seconds": self.seconds,
            "needs": None,
            "takesModel": self.takes_model,
        }

    def to_json(self, result: Result, language: str) -> dict[str, Any]:
        """`result` of this lab as JSON."""
        return {
            "name": self.name,
            "number": self.number,
            "title": self.title.of(language),
            "question": self.question.of(language),
            "idea": result.idea,
            "pictures": [{"title": title, "svg": svg} for title, svg in result.pictures],
            "numbers": [{"label": label, "value": value} for label, value in result.numbers],
            "checks": [
                {"claim": c.claim, "found": c.found, "holds": c.holds, "control": c.control} for c in result.checks
            ],
            "source": self.source,
        }


def exponent(number: float) -> str:
    """A measured error: with a power of ten where it is small."""
    return readable(number, 2) if number and abs(number) >= 0.005 else scientific(number)


def scientific(number: float) -> str:
    """Two digits and the power of ten; 0 as such."""
    mantissa, _, power = f"{number:.1e}".partition("e")
    return f"{mantissa.removesuffix('.0')}e{int(power)}".replace("-", "−") if number else "0"


def greatest(difference: torch.Tensor) -> float:
    """The greatest absolute value."""
    return float(difference.detach().abs().max())
