"""Everything around the translation of a text: HTML, lines and sentences, placeholders, terms, loops.

    document -> stretches -> sentences -> without placeholders -> translated -> placeholders put in -> joined

A model that has learnt from text with placeholders copies them itself, and knows best where they belong; so those whose
every character it knows stay in what it is given, and if they come out once each, all is well. Otherwise, and for tags and
addresses always, the sentence is translated without them, and each is put beside the word that looks most at its
neighbour in the source (:mod:`pellucid.text.placement`). At the end all are counted; what does not come out right is
named in `Translation.damaged`.

Stand-ins (a number, a made-up name) were tried instead: a model of captions copied 0 to 42 % of them, and lost the rest of
the sentence over them.
"""

from __future__ import annotations

import dataclasses
import html
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pellucid.calibration import Calibration
from pellucid.config import SearchConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import ConfigError
from pellucid.insisting import Draft, Searcher, insist
from pellucid.text import sentences
from pellucid.text.bare import OUTSIDE, Bare, take_out
from pellucid.text.html import attributes, escaped, quoted, replaced, stretches
from pellucid.text.options import TextOptions
from pellucid.text.placement import Term, place
from pellucid.text.spans import MOSES, Span, find_spans, occurrences, pair_tags
from pellucid.text.terms import Terms, missing
from pellucid.translation import Alternative, Translation

LEARNABLE = frozenset(("printf", "brace", "bracket"))
"""Kinds that a model may have learnt to copy."""
LONGEST = 4000
"""Characters of what is translated as one, at most: attention grows with the square. The model splits far shorter texts."""
MOST_SPANS = 100
"""Placeholders and tags in it, at most; they may be nested."""
RETRY_NGRAM = 3
SEED_STEP = 104_729
LEAST_BEAM = 4
"""Of a search for terms, even if the others are greedy: a place for those who have begun to say one, and for the others."""
FLAGS = ("empty", "split", "truncated", "unknown", "repeated", "low-confidence", "placed", "placeholders", "glossary")


class Core(Searcher, Protocol):
    """What translates plain sentences: the :class:`~pellucid.translator.Translator`."""

    source_tokenizer: Tokenizer

    @property
    def calibration(self) -> Calibration: ...

    @property
    def source_language(self) -> str | None: ...


@dataclass
class _Sentence:
    """What is translated as one."""

    raw: str
    spans: list[Span]
    partners: list[int | None]
    markup: bool
    seed: int
    prefix: str
    given: Bare | None = None
    """What the model is given; None: nothing, the sentence has no words."""
    left_in: list[str] = field(default_factory=list)
    """Placeholders in it that the model should copy."""
    done: Translation | None = None


@dataclass
class _Text:
    """A text as sentences and what is between them."""

    source: str
    parts: list[str | _Sentence]

    @property
    def sentences(self) -> list[_Sentence]:
        return [part for part in self.parts if isinstance(part, _Sentence)]


class Handler:
    """Translates texts as `options` say."""

    def __init__(self, core: Core, options: TextOptions, config: SearchConfig, scores: bool) -> None:
        self._core, self._options, self._config, self._scores = core, options, config, scores
        self._terms = options.terms or Terms({})
        self._knows_ampersand = self._knows("&;")

    def translate(self, texts: Sequence[str], prefixes: Sequence[str], seeds: Sequence[int]) -> list[Translation]:
        """The translations of `texts`, one each; `seeds`: where the random numbers of each start."""
        if self._options.format == "text":
            cut = [self._cut_text(*each) for each in zip(texts, prefixes, seeds, strict=True)]
            self._translate([sentence for text in cut for sentence in text.sentences])
            return [self._joined(text) for text in cut]
        values = [attributes(text) for text in texts]
        flat = [self._cut_text(a.text, "", seed) for found, seed in zip(values, seeds, strict=True) for a in found]
        self._translate([sentence for text in flat for sentence in text.sentences])
        translated = iter([self._joined(text) for text in flat])
        cut, inside = [], []
        for text, found, prefix, seed in zip(texts, values, prefixes, seeds, strict=True):
            own = [next(translated) for _ in found]
            inside.append(own)
            document = replaced(text, [(a.start, a.end, quoted(t.text)) for a, t in zip(found, own, strict=True)])
            cut.append(self._cut_html(text, document, prefix, seed))
        self._translate([sentence for text in cut for sentence in text.sentences])
        return [self._joined(text, own) for text, own in zip(cut, inside, strict=True)]

    # --- cutting ----------------------------------------------------------------------------------------------------

    def _cut_text(self, text: str, prefix: str, seed: int) -> _Text:
        spans = find_spans(text, entities=self._is_protected_entity) if self._options.protect else []
        if self._options.split_sentences:
            return _Text(text, self._cut(text, spans, False, prefix, seed))
        stripped = text.strip()
        left = len(text) - len(text.lstrip())
        spans = [span.moved(-left) for span in spans]
        return _Text(text, [_Sentence(stripped, spans, pair_tags(spans), False, seed, prefix)])

    def _cut_html(self, source: str, document: str, prefix: str, seed: int) -> _Text:
        parts: list[str | _Sentence] = []
        at = 0
        for number, stretch in enumerate(stretches(document)):
            spans = [s for s in stretch.spans if self._options.protect or s.kind in ("tag", "entity")]
            parts.append(document[at : stretch.start])
            parts += self._cut(stretch.text, spans, True, "" if number else prefix, seed + SEED_STEP * number)
            at = stretch.end
        return _Text(source, [*parts, document[at:]])

    def _cut(self, text: str, spans: list[Span], markup: bool, prefix: str, seed: int) -> list[str | _Sentence]:
        """Sentences and what is between them; placeholders are in none's middle."""
        masked = list(text)
        for span in spans:
            sign = sentences.TAG if span.kind == "tag" else sentences.PLACEHOLDER
            masked[span.start : span.end] = sign * (span.end - span.start)
        partners = pair_tags(spans)
        parts: list[str | _Sentence] = []
        at = first = 0
        for sentence, between in _cut_long(self._sentences("".join(masked)), spans):
            stripped = sentence.strip()
            start = at + len(sentence) - len(sentence.lstrip())
            end = start + len(stripped)
            last = first
            while last < len(spans) and spans[last].end <= end:
                last += 1
            if stripped:
                own = [span.moved(-start) for span in spans[first:last]]
                local = [p if p is None else p - first if first <= p < last else OUTSIDE for p in partners[first:last]]
                made = _Sentence(text[start:end], own, local, markup, seed + SEED_STEP * len(parts), prefix)
                parts += [text[at:start], made]
                prefix = ""
            else:
                end = at
            at += len(sentence) + len(between)
            parts.append(text[end:at])
            first = last
        return parts

    def _sentences(self, text: str) -> list[tuple[str, str]]:
        if not self._options.split_sentences:
            return [(text, "")]
        lines = sentences.split_lines(text)
        if not self._core.calibration.single_sentences:
            return lines
        found = []
        for line, end in lines:
            inside = sentences.split_sentences(line, self._core.source_language)
            found += [*inside[:-1], (inside[-1][0], end)]
        return found

    def _is_protected_entity(self, entity: str) -> bool:
        return entity not in MOSES or not self._knows_ampersand

    def _knows(self, text: str) -> bool:
        """Whether the model has seen all its characters: none is spelt in bytes or unknown."""
        tokenizer = self._core.source_tokenizer
        return all(tokenizer.kind_of(i) == "piece" for i in tokenizer.encode(text))

    # --- translating ------------------------------------------------------------------------------------------------

    def _translate(self, work: list[_Sentence]) -> None:
        second: list[_Sentence] = []
        for sentence in work:
            self._prepare(sentence, leave_in=not sentence.markup)
        first = [s for s in work if s.done is None]
        self._search(first)
        for sentence in first:
            if sentence.left_in and not self._all_copied(sentence):
                self._prepare(sentence, leave_in=False)
                second.append(sentence)
        self._search([s for s in second if s.done is None])
        given = [s for s in work if s.given is not None]
        self._insist(given)
        self._place(given)
        for sentence in work:
            self._check(sentence)

    def _prepare(self, sentence: _Sentence, leave_in: bool) -> None:
        def plain(text: str) -> str:
            return self._core.source_tokenizer.normalized(html.unescape(text) if sentence.markup else text)

        sentence.done, sentence.left_in = None, []
        bare = take_out(sentence.raw, sentence.spans, sentence.partners, plain)
        if sentence.spans and not any(map(str.isalpha, bare.text)):
            sentence.given = None
            one = Alternative(sentence.raw, 0.0, 0.0, (), True)
            sentence.done = Translation(sentence.raw, sentence.raw, 0.0, 0.0, (one,), (), ())
            return
        if leave_in:
            stay = [span.kind in LEARNABLE and self._knows(span.text) for span in sentence.spans]
            if any(stay):
                numbers = [i for i, stays in enumerate(stay) if not stays]
                partners = [sentence.partners[i] for i in numbers]
                renumbered = [p if p is None or p == OUTSIDE else numbers.index(p) for p in partners]
                bare = take_out(sentence.raw, [sentence.spans[i] for i in numbers], renumbered, plain)
                sentence.left_in = [s.text for s, stays in zip(sentence.spans, stay, strict=True) if stays]
        sentence.given = bare

    def _search(self, work: Sequence[_Sentence]) -> None:
        if not work:
            return
        texts = [s.given.text if s.given is not None else "" for s in work]
        prefixes, seeds = [s.prefix for s in work], [s.seed for s in work]
        found = self._core.translate_plain(texts, self._config, prefixes, seeds, self._scores)
        again = [i for i, t in enumerate(found) if "repeated" in t.flags]
        if again and self._options.retry_loops and not self._config.no_repeat_ngram:
            config = dataclasses.replace(self._config, no_repeat_ngram=RETRY_NGRAM)
            try:
                anew = self._core.translate_plain(
                    [texts[i] for i in again], config, [prefixes[i] for i in again], [seeds[i] for i in again],
                    self._scores,
                )  # fmt: skip
            except ConfigError:  # an engine that cannot: the loop stays, flagged
                anew = []
            for i, t in zip(again, anew, strict=False):
                found[i] = dataclasses.replace(t, flags=(*(f for f in t.flags if f != "repeated"), "repeated"))
        for sentence, translation in zip(work, found, strict=True):
            sentence.done = translation

    def _all_copied(self, sentence: _Sentence) -> bool:
        assert sentence.done is not None
        wanted = {text: sentence.left_in.count(text) for text in sentence.left_in}
        return all(occurrences(wanted, a.text)[0] == wanted for a in sentence.done.alternatives)

    def _insist(self, work: Sequence[_Sentence]) -> None:
        """The best translations that lack terms are searched anew; those for which it does not work stay as they are."""
        if self._config.sample or not self._terms:
            return
        drafts: list[tuple[_Sentence, Translation, Draft]] = []
        for s in work:
            assert s.given is not None and s.done is not None
            terms = self._terms_in(s)
            if missing(terms, s.done.text) and "split" not in s.done.flags:
                drafts.append((s, s.done, Draft(s.given, terms, s.done, s.prefix, s.seed, s.left_in)))
        config = dataclasses.replace(self._config, n_best=1, beam_size=max(self._config.beam_size, LEAST_BEAM))
        insist(self._core, [draft for _, _, draft in drafts], config, self._scores)
        for sentence, plain, draft in drafts:
            if draft.result is not None:
                alternatives = (*draft.result.alternatives, *plain.alternatives[1:])
                sentence.done = dataclasses.replace(draft.result, alternatives=alternatives)
                if not self._all_copied(sentence):
                    sentence.done = plain

    # --- putting in -------------------------------------------------------------------------------------------------

    def _place(self, work: Sequence[_Sentence]) -> None:
        """Marks and missing terms, in all alternatives of all sentences; one forward pass a batch for all of them."""
        jobs: list[tuple[_Sentence, int, list[Span]]] = []
        for sentence in work:
            assert sentence.given is not None and sentence.done is not None
            terms = self._terms_in(sentence)
            for number, alternative in enumerate(sentence.done.alternatives):
                lacking = missing(terms, alternative.text)
                if sentence.given.marks or lacking:
                    jobs.append((sentence, number, lacking))
        pairs = [(s.given.text, s.done.alternatives[n].text) for s, n, _ in jobs if s.given and s.done]
        texts = {}
        for (sentence, number, lacking), pair, attention in zip(jobs, pairs, self._core.attention(pairs), strict=True):
            assert sentence.given is not None
            escape: Callable[[str], str] = escaped if sentence.markup else str
            wanted = [Term(t.start, t.end, escape(t.text)) for t in lacking]
            texts[id(sentence), number] = place(
                sentence.given, pair[1], attention, terms=wanted, whole=sentence.left_in, escape=escape
            )
        for sentence in work:
            assert sentence.done is not None
            done = sentence.done
            placed = tuple(
                dataclasses.replace(
                    a, text=texts.get((id(sentence), n), escaped(a.text) if sentence.markup else a.text)
                )
                for n, a in enumerate(done.alternatives)
            )
            if placed:
                flags = (*done.flags, *(["placed"] if (id(sentence), 0) in texts else []))
                sentence.done = dataclasses.replace(done, text=placed[0].text, alternatives=placed, flags=flags)

    def _terms_in(self, sentence: _Sentence) -> list[Span]:
        """The terms in what the model is given, but for those within a placeholder."""
        assert sentence.given is not None
        text = sentence.given.text
        for placeholder in sorted(sentence.left_in, key=len, reverse=True):
            text = text.replace(placeholder, sentences.PLACEHOLDER * len(placeholder))
        return self._terms.find(text)

    def _check(self, sentence: _Sentence) -> None:
        """Counts what must have come out, whatever the way was."""
        assert sentence.done is not None
        damaged: dict[str, None] = {}
        flags = []
        if self._options.protect or sentence.markup:
            expected = [span.text for span in sentence.spans]
            found, rest = occurrences(set(expected), sentence.done.text)
            damaged |= dict.fromkeys(text for text in expected if found[text] != expected.count(text))
            entities = (lambda _: False) if sentence.markup else self._is_protected_entity
            damaged |= dict.fromkeys(span.text for span in find_spans(rest, entities=entities))
            if damaged:
                flags.append("placeholders")
        if self._terms and sentence.given is not None:
            lost = missing(self._terms_in(sentence), sentence.done.text)
            if lost:
                flags.append("glossary")
                damaged |= dict.fromkeys(term.text for term in lost)
        if flags:
            done = sentence.done
            sentence.done = dataclasses.replace(done, flags=(*done.flags, *flags), damaged=tuple(damaged))

    # --- joining ----------------------------------------------------------------------------------------------------

    def _joined(self, text: _Text, inside: Sequence[Translation] = ()) -> Translation:
        """The text again; `inside`: the attributes of an HTML document."""
        parts = [part if isinstance(part, str) else part.done for part in text.parts]
        found = [part for part in parts if isinstance(part, Translation)]
        if len(parts) == 1 and found and not inside:
            return dataclasses.replace(found[0], source=text.source, flags=_sorted(found[0].flags))
        if len(found) == 1 and found[0].alternatives and not inside:
            # One sentence, and around it what is no sentence: all its alternatives stay.
            (one,) = found
            around = ["".join(part if isinstance(part, str) else a.text for part in parts) for a in one.alternatives]
            each = tuple(dataclasses.replace(a, text=t) for a, t in zip(one.alternatives, around, strict=True))
            return dataclasses.replace(
                one, source=text.source, text=each[0].text, alternatives=each, flags=_sorted(one.flags)
            )
        every = [*found, *inside]
        if not every:
            kept = "" if self._options.format == "text" else text.source
            return Translation(text.source, kept, 0.0, 0.0, (), ("empty",), ())
        together = _together(text)
        score, log_prob = sum(t.score for t in every) / len(every), sum(t.log_prob for t in every)
        firsts = [t.alternatives[0] for t in every if t.alternatives]
        best = Alternative(
            together,
            score,
            log_prob,
            tuple(token for a in firsts for token in a.tokens),
            all(a.finished for a in firsts),
        )
        return Translation(
            text.source, together, score, log_prob, (best,), _sorted([flag for t in every for flag in t.flags]),
            tuple(token for t in every for token in t.source_tokens),
            tuple(dict.fromkeys(name for t in every for name in t.damaged)),
        )  # fmt: skip


def _cut_long(sentences: Sequence[tuple[str, str]], spans: Sequence[Span]) -> Iterator[tuple[str, str]]:
    """Sentences, with what stands behind each; what is too long in parts, at a space if there is one, never in a span."""
    starts = [span.start for span in spans]
    at = 0
    for sentence, between in sentences:
        rest = sentence
        while True:
            first = bisect_left(starts, at)
            stop = min(
                at + LONGEST, spans[first + MOST_SPANS].start if first + MOST_SPANS < len(spans) else at + LONGEST
            )
            across = bisect_left(starts, stop) - 1
            if across >= first and spans[across].end > stop:
                stop = starts[across] if starts[across] > at else spans[across].end
            if stop - at >= len(rest):
                break
            space = rest.rfind(" ", (stop - at) // 2, stop - at) + 1
            length = space or stop - at
            yield rest[:length], ""
            at, rest = at + length, rest[length:]
        yield rest, between
        at += len(rest) + len(between)


def _together(text: _Text) -> str:
    """What the sentences have become, with what stands between them."""
    parts: list[tuple[str, str, str]] = [("", "", "")]
    for part in text.parts:
        if isinstance(part, str):
            source, translation, between = parts[-1]
            parts[-1] = source, translation, between + part
        else:
            parts.append((part.raw, part.done.text if part.done else "", ""))
    return sentences.join(parts)


def _sorted(flags: Sequence[str]) -> tuple[str, ...]:
    return tuple(flag for flag in FLAGS if flag in flags)
