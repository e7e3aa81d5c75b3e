"""Translation memories: TMX 1.1 to 1.4, in any encoding, as they come out of translators' programs.

A unit has a variant a language. Two languages are chosen by their first subtags, `data.source_language` and
`data.target_language`; what is not named is the file's own: `srclang` of its header, and the other one. A variant
marked exactly as asked for (`pt-BR`) goes before others of its language. Where there are several of one language, each
makes a pair with each of the other.

Inline tags: the code of a program inside `bpt`, `ept`, `it`, `ph` and `ut` is left out; the text inside `hi` stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from xml.parsers import expat

from pellucid.config import DataConfig
from pellucid.data.formats.languages import normalized, primary
from pellucid.data.formats.pair import SentencePair
from pellucid.data.formats.registry import register
from pellucid.data.formats.xml_stream import (
    MOST_DEPTH,
    MOST_TEXT,
    feed,
    new_parser,
    too_deep,
    utf8_blocks,
)
from pellucid.errors import DataError

SOURCE, TARGET, OTHER = 0, 1, 2
CODE = frozenset({"bpt", "ept", "it", "ph", "ut", "sub"})
MOST_VARIANTS = 200
MOST_PAIRS = 50
"""Of one unit, at most."""


@register(".tmx")
def read_tmx(path: str, config: DataConfig) -> Iterator[SentencePair]:
    """The pairs of a memory, each with the line of its unit. A broken unit is a pair without text that says why.

    A unit without one of the two languages has "" there.

    Raises:
        DataError: what is not XML; more than two languages, and none chosen; entity declarations.
    """
    parser = new_parser(path)
    units = _Units(path, config, parser)
    try:
        for _ in feed(parser, path, utf8_blocks(path)):
            yield from units.pairs
            units.pairs.clear()
    except DataError:
        yield from units.pairs
        raise


class Sides:
    """Which of the two sides a language is on. One look-up a variant: a file has few languages and many variants."""

    def __init__(self, path: str, source: str | None, target: str | None) -> None:
        self.path, self.source, self.target = path, source, target
        self.chosen = source is not None and target is not None
        self.known: dict[str, int] = {}

    def of(self, language: str, line: int) -> int:
        """SOURCE, TARGET or OTHER. The first language is the source, and the second the target, if none was named.

        Raises:
            DataError: a third language where it is not said which two are meant.
        """
        side = self.known.get(language)
        if side is None:
            side = self.known[language] = self._find(language, line)
        return side

    def _find(self, language: str, line: int) -> int:
        if self.source is None and not self._is(language, self.target):
            self.source = language
        elif self.target is None and not self._is(language, self.source):
            self.target = language
        if self.source is not None and self.target is not None and primary(self.source) == primary(self.target):
            # Two kinds of one language (en-US and en-GB): only the whole tag tells them apart.
            exact = normalized(language)
            return SOURCE if exact == normalized(self.source) else TARGET if exact == normalized(self.target) else OTHER
        if self._is(language, self.source):
            return SOURCE
        if self._is(language, self.target):
            return TARGET
        if not self.chosen:
            raise DataError(
                f"must have two languages, or it must be said which two are meant; it has {self.source}, {self.target} "
                f"and {language}",
                file=self.path,
                line=line,
                hint=f"--source-lang {self.source} --target-lang {self.target}",
            )
        return OTHER

    @staticmethod
    def _is(language: str, wanted: str | None) -> bool:
        return wanted is not None and primary(language) == primary(wanted)

    def best(self, variants: list[tuple[str, str]], wanted: str | None) -> list[str]:
        """The different texts of (language, text): those marked exactly as wanted, or else all."""
        exact = [text for language, text in variants if wanted and normalized(language) == normalized(wanted)]
        return list(dict.fromkeys(exact or [text for _, text in variants]))


class _Units:
    """What the parser calls; `pairs` fills. Written for speed: a memory of a gigabyte has millions of units."""

    def __init__(self, path: str, config: DataConfig, parser: expat.XMLParserType) -> None:
        self.path = path
        self.parser = parser
        self.sides = Sides(path, config.source_language, config.target_language)
        self.pairs: list[SentencePair] = []
        self._set_handlers()

    def _set_handlers(self) -> None:
        """The handlers are closures, whose variables are found faster than attributes. Text is asked for only inside
        `seg`: a call for each stretch of blanks between tags would cost a third of the time."""
        path, parser, pairs = self.path, self.parser, self.pairs
        known, side_of, append = self.sides.known, self.sides.of, self.pairs.append
        depth = number = line = 0
        name_of_unit = ""
        in_unit = False
        language: str | None = None
        has_segment = False
        code = 0  # how many elements with code we are in
        problem: str | None = None
        pieces: list[str] = []
        size = 0
        sources: list[tuple[str, str]] = []
        targets: list[tuple[str, str]] = []
        variants = 0

        def text(data: str) -> None:
            nonlocal size
            size += len(data)
            if size <= MOST_TEXT:
                pieces.append(data)

        def code_text(data: str) -> None:
            pass

        def start(name: str, attributes: dict[str, str]) -> None:
            nonlocal depth, number, line, name_of_unit, in_unit, language, has_segment, code, problem, size, variants
            depth += 1
            if depth > MOST_DEPTH:
                raise too_deep(path, parser.CurrentLineNumber)
            if name == "seg":
                if language is None:
                    problem = problem or "a `seg` that stands in no `tuv`"
                pieces.clear()
                size = code = 0
                parser.CharacterDataHandler = text
            elif name == "tuv":
                variants += 1
                if variants > MOST_VARIANTS:
                    problem = problem or f"more than {MOST_VARIANTS} variants"
                language = attributes.get("xml:lang") or attributes.get("lang")
                if language is None:
                    problem = problem or "a `tuv` that says no language (xml:lang)"
                    language = ""
                has_segment = False
            elif name == "tu":
                number += 1
                if in_unit:
                    problem = problem or "a `tu` inside another"
                    return
                in_unit = True
                line = parser.CurrentLineNumber
                name_of_unit = attributes.get("tuid") or str(number)
                problem = None
                variants = 0
                sources.clear()
                targets.clear()
            elif name in CODE:
                code += 1
                if parser.CharacterDataHandler is not None:
                    parser.CharacterDataHandler = code_text
            elif name == "header":
                self._header(attributes)

        def end(name: str) -> None:
            nonlocal depth, in_unit, language, has_segment, code, problem
            depth -= 1
            if name == "seg":
                parser.CharacterDataHandler = None
                if language is None:
                    return
                if has_segment:
                    problem = problem or "a `tuv` with two `seg`"
                has_segment = True
                if size > MOST_TEXT:
                    problem = problem or f"a text of more than {MOST_TEXT:,} characters"
                side = known.get(language)
                if side is None:
                    side = side_of(language, line) if language else OTHER
                if problem is not None:
                    return
                if side == SOURCE:
                    sources.append((language, pieces[0] if len(pieces) == 1 else "".join(pieces)))
                elif side == TARGET:
                    targets.append((language, pieces[0] if len(pieces) == 1 else "".join(pieces)))
            elif name == "tuv":
                if not has_segment:
                    problem = problem or "a `tuv` without `seg`"
                language = None
            elif name == "tu":
                in_unit = False
                if problem is None and len(sources) == 1 and len(targets) == 1:
                    append(SentencePair(sources[0][1], targets[0][1], path, line, name_of_unit))
                else:
                    if not variants:
                        problem = problem or "no `tuv`"
                    pairs.extend(self._several(sources, targets, line, name_of_unit, problem))
                problem = None
            elif name in CODE:
                code -= 1
                if code == 0 and parser.CharacterDataHandler is not None:
                    parser.CharacterDataHandler = text

        def skipped(name: str, is_parameter: bool) -> None:
            nonlocal problem
            if not is_parameter:
                problem = problem or f"the entity &{name};, which is declared nowhere"

        parser.StartElementHandler = start
        parser.EndElementHandler = end
        parser.SkippedEntityHandler = skipped

    def _header(self, attributes: dict[str, str]) -> None:
        language = attributes.get("srclang", "")
        one = self.sides.source is None and language and language.lower() != "*all*"
        if one and (self.sides.target is None or primary(language) != primary(self.sides.target)):
            self.sides.source = language

    def _several(
        self,
        sources: list[tuple[str, str]],
        targets: list[tuple[str, str]],
        line: int,
        unit: str,
        problem: str | None,
    ) -> Iterator[SentencePair]:
        """The pairs of a unit that has not just one variant on each side, or that is broken."""
        if problem is None and len(sources) * len(targets) > MOST_PAIRS:
            problem = f"{len(sources)} and {len(targets)} variants, more than {MOST_PAIRS} pairs"
        if problem is not None:
            yield SentencePair(None, None, self.path, line, unit, problem)
            return
        for source in self.sides.best(sources, self.sides.source) or [""]:
            for target in self.sides.best(targets, self.sides.target) or [""]:
                yield SentencePair(source, target, self.path, line, unit)
