"""Text in, text out: split what is too long, cut into pieces, batch, search, put together again.

As many translations come out as texts went in, in their order, whatever the texts are. What else is in a batch
changes nothing.
"""

from __future__ import annotations

import copy
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import torch

from pellucid.alignment import aligned, cross_attention
from pellucid.calibration import Calibration, Reading
from pellucid.checkpoint import LoadedModel, load_model
from pellucid.config import SearchConfig
from pellucid.constrained_search import Phrase
from pellucid.engines.engine import make_engine
from pellucid.engines.search_engine import Engine, Request, padded
from pellucid.errors import ConfigError, DataError
from pellucid.handling import Handler
from pellucid.machine import available_cores
from pellucid.model.transformer import Transformer
from pellucid.phrases import Phrasebook
from pellucid.search import Hypothesis, Vocabulary, length_penalty, log_probabilities
from pellucid.shortlist import Shortlist
from pellucid.tags import chosen, target_languages
from pellucid.text.loops import is_loop
from pellucid.text.options import TextOptions
from pellucid.text.placement import Attention
from pellucid.text.sentences import join
from pellucid.translation import Alternative as Alternative
from pellucid.translation import Demand
from pellucid.translation import Translation as Translation

LARGEST_WINDOW = 1024
"""Lines that `stream` holds at once, at most. It starts with one, so that the first translation comes at once."""
EXTRA_LENGTH = 50  # section 6.1: at most so many pieces more than the source
EXTRA_TO_RATIO = 20
"""Pieces that a translation may have besides `length_ratio` times those of its source: short sources need more."""
LARGEST_LOGITS = 1 << 24
"""Numbers in the logits of one step, at most: 64 MB, of which a search holds several copies. Short lines would
otherwise make batches of a thousand rows, and with a large vocabulary gigabytes."""

SENTENCE_END = re.compile(r"(?<=[.!?…])[\"'”’»)\]]*(\s+)|(?<=[。！？])(?![。！？])[”’」』）]*(\s*)")
CLAUSE_END = re.compile(r"(?<=[,;:])(\s+)|(?<=[，、；：])(\s*)")
SPACE = re.compile(r"(\s+)")


@dataclass(frozen=True)
class Score:
    """How probable a given translation is."""

    log_prob: float
    score: float
    tokens: tuple[str, ...]
    token_log_probs: tuple[float, ...]
    """One a token, and the end mark's last."""


@dataclass(frozen=True)
class Segment:
    """A stretch of a text that is translated as one, and what follows it before the next; `ids` are its pieces."""

    text: str
    separator: str
    ids: list[int]
    phrases: tuple[Phrase, ...] = ()
    """What its translation must say."""


class Translator:
    """Translates with one model, into one language.

    >>> Translator.load("model").translate(["..."])                                                # doctest: +SKIP

    Args:
        tags: what stands before each source, see :func:`~pellucid.tags.chosen`.

    Raises:
        ConfigError: tags that the model does not know, or several target languages and none chosen.
    """

    def __init__(
        self, loaded: LoadedModel, engine: str = "auto", shortlist: Shortlist | None = None, tags: Iterable[str] = ()
    ) -> None:
        self.loaded = loaded
        self.tags = chosen(loaded.source_tokenizer.tags, None, tags)
        """What stands before each source."""
        self._first: Translator | None = None
        self._engine_name, self._shortlist = engine, shortlist
        self.model: Transformer = loaded.model
        self.source_tokenizer, self.target_tokenizer = loaded.source_tokenizer, loaded.target_tokenizer
        config = self.model.config
        start = self.target_tokenizer.pad_id if config.start_id is None else config.start_id
        target = self.target_tokenizer
        never = config.pad_id, config.start_id, target.pad_id, *target.tag_ids(target.tags)
        forbidden = tuple({i for i in never if i is not None})
        self.vocabulary = Vocabulary(config.eos_id, start, forbidden, config.unk_id)

    @classmethod
    def load(
        cls,
        directory: str | Path,
        *,
        device: str = "auto",
        threads: int = 0,
        engine: str = "auto",
        shortlist: bool = False,
        to: str | None = None,
        tags: Iterable[str] = (),
    ) -> Translator:
        """The translator in a model folder.

        Args:
            to: the target language, if the model has several.
            tags: others that stand before each source, such as a domain.
            device: cpu, cuda, or auto: a GPU where there is one.
            threads: CPU threads; 0 takes the cores that this process may use.
            engine: what searches, one of :data:`~pellucid.engines.engine.ENGINES`.
            shortlist: look only at target pieces that the sources may have: see :mod:`pellucid.shortlist`.

        Raises:
            ConfigError: a device or an engine that is not there, or a language or tag that the model does not have.
            ModelFolderError: see :func:`~pellucid.checkpoint.load_model`.
        """
        torch.set_num_threads(threads or available_cores())
        if device == "auto":
            device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError) as error:
            raise ConfigError(f"`device` {device!r} cannot be used: {error}", hint="--device cpu") from error
        loaded = load_model(directory, device)
        config = loaded.model.config
        found = Shortlist.load(Path(directory), config.src_vocab, config.tgt_vocab) if shortlist else None
        return cls(loaded, engine, found, chosen(loaded.source_tokenizer.tags, to, tags))

    def tagged(self, to: str | None = None, tags: Iterable[str] = ()) -> Translator:
        """The same model and engine with other tags before each source; see :meth:`load`.

        Raises:
            ConfigError: a language or tag that the model does not have.
        """
        other = copy.copy(self)
        other.tags = chosen(self.source_tokenizer.tags, to, tags)
        other._first = self._first or self
        return other

    @cached_property
    def engine(self) -> Engine:
        """Made when it is first needed: it has its own copy of the weights."""
        if self._first is not None:
            return self._first.engine
        return make_engine(
            self._engine_name, self.model, self.source_tokenizer.pad_id, self.vocabulary, self.loaded.ranges,
            self._shortlist,
        )  # fmt: skip

    @cached_property
    def calibration(self) -> Calibration:
        """What was measured of the model, if it was."""
        return Calibration.load(self.loaded.directory)

    @cached_property
    def _phrasebook(self) -> Phrasebook:
        return Phrasebook(self.target_tokenizer)

    @property
    def source_language(self) -> str | None:
        return self.loaded.source_language

    @property
    def target_language(self) -> str | None:
        """That of the tags, else the model's."""
        return [*target_languages(self.tags), self.loaded.target_language][0]

    @property
    def tag_ids(self) -> list[int]:
        """What every source begins with."""
        return self.source_tokenizer.tag_ids(self.tags)

    def source_ids(self, pieces: Sequence[int]) -> list[int]:
        """What the encoder is given for a text of these pieces: tags, pieces, end mark."""
        return [*self.tag_ids, *pieces, self.source_tokenizer.eos_id]

    @property
    def longest_source(self) -> int:
        """Pieces of the longest source that the model has learnt from; longer texts are split."""
        limit = self.loaded.longest_source
        config = self.model.config
        longest = min(limit, config.max_len) if config.positions == "learned" else limit
        return max(1, longest - len(self.source_ids(())))

    # --- translating ------------------------------------------------------------------------------------------------

    def translate(
        self,
        texts: Iterable[str],
        config: SearchConfig | None = None,
        prefixes: Sequence[str] | None = None,
        *,
        first: int = 0,
        scores: bool = True,
        text: TextOptions | None = None,
    ) -> list[Translation]:
        """The translations of `texts`, one each, in order. `config` None takes the model's own.

        Args:
            prefixes: for each text, how its translation must begin ("" leaves it free).
            first: the number of the first text among others that are translated elsewhere; drawing depends on it.
            scores: False: greedy search is some per cent faster, and scores are NaN.
            text: what is done besides, see :mod:`pellucid.handling`; None: nothing.

        Raises:
            DataError: one text instead of several, or another number of prefixes than of texts.
        """
        _refuse_one_text(texts, prefixes)
        return self._window(list(texts), config or self.loaded.search, prefixes, first, scores, text)

    def stream(
        self,
        texts: Iterable[str],
        config: SearchConfig | None = None,
        *,
        prefixes: Iterable[str] | None = None,
        window: int = LARGEST_WINDOW,
        more: Callable[[], bool] | None = None,
        scores: bool = True,
        text: TextOptions | None = None,
    ) -> Iterator[Translation]:
        """As :meth:`translate` for any number of texts: the first translations come before the last text is read.

        Args:
            window: texts that are taken together, at most.
            more: whether another text is there already. Where it says no, those that are there are translated at once:
                whoever waits for an answer before sending the next text does not wait for ever.
        """
        _refuse_one_text(texts, prefixes)
        config = config or self.loaded.search
        waiting, starts = iter(texts), None if prefixes is None else iter(prefixes)
        size, first = 1, 0
        while some := _taken(waiting, size, more):
            begins = None if starts is None else list(islice(starts, len(some)))
            yield from self._window(some, config, begins, first, scores, text)
            first += len(some)
            size = min(window, 2 * size)

    def _window(
        self,
        texts: list[str],
        config: SearchConfig,
        prefixes: Sequence[str] | None,
        first: int,
        scores: bool,
        options: TextOptions | None,
    ) -> list[Translation]:
        if prefixes is not None and len(prefixes) != len(texts):
            raise DataError(f"there must be one prefix a text, but there are {len(prefixes)} for {len(texts)} texts")
        prefixes, seeds = prefixes or [""] * len(texts), [first + i for i in range(len(texts))]
        if options is None:
            return self.translate_plain(texts, config, prefixes, seeds, scores)
        return Handler(self, options, config, scores).translate(texts, prefixes, seeds)

    def translate_plain(
        self,
        texts: Sequence[str],
        config: SearchConfig,
        prefixes: Sequence[str],
        seeds: Sequence[int],
        scores: bool,
        demands: Sequence[Demand | None] = (),
    ) -> list[Translation]:
        """The translations of `texts` as they are; only what is too long is split.

        Args:
            prefixes: how each must begin ("" leaves it free).
            seeds: where the random numbers of each start.
            demands: for each text, what its translation must have; none given: nothing. One that lacks it all the same is
                unfinished, or of a text that was split, or its pieces do not spell the term.

        Raises:
            ConfigError: something that the engine cannot do.
        """
        segments: list[Segment] = []
        owners: list[int] = []
        begins: list[list[int]] = []
        own_seeds: list[int] = []
        for i, text in enumerate(texts):
            own = self.segments(text)
            demand = demands[i] if demands and len(own) == 1 else None
            phrase = None if demand is None else self._phrasebook.phrase(demand.term, demand.before)
            for k, segment in enumerate(own):
                segments.append(segment if phrase is None else dataclasses.replace(segment, phrases=(phrase,)))
                owners.append(i)
                wanted = prefixes[i] if k == 0 else ""
                begins.append(self.target_tokenizer.encode(wanted) if wanted else [])
                # From the place of the text, whatever came of those before it and in whatever windows they came.
                own_seeds.append(seeds[i] + 7_919 * k)
        found = self._search(segments, begins, own_seeds, config, scores)
        together: list[list[tuple[Segment, list[Hypothesis]]]] = [[] for _ in texts]
        for owner, segment, hypotheses in zip(owners, segments, found, strict=True):
            together[owner].append((segment, hypotheses))
        return [self._join(text, parts) for text, parts in zip(texts, together, strict=True)]

    @torch.inference_mode()
    def _search(
        self,
        segments: Sequence[Segment],
        begins: Sequence[list[int]],
        seeds: Sequence[int],
        config: SearchConfig,
        scores: bool,
    ) -> list[list[Hypothesis]]:
        """Batches of similar length, the longest first: memory that suffices at the start suffices to the end."""
        found: list[list[Hypothesis]] = [[] for _ in segments]
        rows_each = config.n_best if config.sample else config.beam_size
        most_rows = LARGEST_LOGITS // (rows_each * self.model.config.tgt_vocab)
        lengths = [len(self.source_ids(s.ids)) for s in segments]
        for batch in batches_by_length(lengths, config.batch_tokens, most_rows):
            ids = [self.source_ids(segments[i].ids) for i in batch]
            longest = [self.max_length(len(segments[i].ids), len(begins[i]), config) for i in batch]
            starts, own_seeds = [begins[i] for i in batch], [seeds[i] for i in batch]
            phrases = [segments[i].phrases for i in batch]
            results = self.engine.search(Request(ids, longest, config, starts, own_seeds, scores, phrases))
            for i, hypotheses in zip(batch, results, strict=True):
                found[i] = hypotheses
        return found

    def max_length(self, source: int, prefix: int, config: SearchConfig) -> int:
        """The most pieces of a translation (without the end mark) of so many pieces, of which so many are prescribed."""
        longest = config.max_length or source + EXTRA_LENGTH
        if config.length_ratio:
            longest = min(longest, int(config.length_ratio * source) + EXTRA_TO_RATIO)
        longest = max(longest, config.min_length, prefix + 1)
        model = self.model.config
        return min(longest, model.max_len - 1) if model.positions == "learned" else longest

    @property
    def _device(self) -> torch.device:
        return self.model.output.weight.device

    def _join(self, text: str, parts: list[tuple[Segment, list[Hypothesis]]]) -> Translation:
        if not parts:
            return Translation(text, "", 0.0, 0.0, (), ("empty",), ())
        flags = []
        if len(parts) > 1:
            flags.append("split")
        if any(not hypotheses[0].finished for _, hypotheses in parts):
            flags.append("truncated")
        if any(self.source_tokenizer.unk_id in segment.ids for segment, _ in parts):
            flags.append("unknown")
        alternatives = [
            [
                Alternative(
                    self.target_tokenizer.decode(h.tokens),
                    h.score,
                    h.log_prob,
                    tuple(self.target_tokenizer.pieces(h.tokens)),
                    h.finished,
                )
                for h in hypotheses
            ]
            for _, hypotheses in parts
        ]
        sources = [self.source_tokenizer.pieces(segment.ids) for segment, _ in parts]
        if any(is_loop(source, a[0].tokens) for source, a in zip(sources, alternatives, strict=True)):
            flags.append("repeated")
        if any(self.calibration.is_unsure(a[0].log_prob, len(a[0].tokens)) for a in alternatives):
            flags.append("low-confidence")
        if len(parts) == 1:
            best = tuple(alternatives[0])
        else:
            firsts = [a[0] for a in alternatives]
            joined = join(
                (segment.text, a.text.strip(), segment.separator) for a, (segment, _) in zip(firsts, parts, strict=True)
            )
            best = (
                Alternative(
                    joined,
                    sum(a.score for a in firsts) / len(firsts),
                    sum(a.log_prob for a in firsts),
                    tuple(token for a in firsts for token in a.tokens),
                    all(a.finished for a in firsts),
                ),
            )
        pieces = tuple(piece for source in sources for piece in source)
        return Translation(text, best[0].text, best[0].score, best[0].log_prob, best, tuple(flags), pieces)

    # --- splitting --------------------------------------------------------------------------------------------------

    def segments(self, text: str) -> list[Segment]:
        """`text` whole if the model has learnt from sources as long, else its sentences, clauses, words."""
        text = text.strip()
        if not text:
            return []
        ids = self.source_tokenizer.encode(text)
        if len(ids) <= self.longest_source:
            return [Segment(text, "", ids)]
        return self._split(text, "", (SENTENCE_END, CLAUSE_END, SPACE))

    def _split(self, text: str, separator: str, rules: Sequence[re.Pattern[str]]) -> list[Segment]:
        ids = self.source_tokenizer.encode(text)
        if len(ids) <= self.longest_source:
            return [Segment(text, separator, ids)] if text else []
        if not rules:
            # One "word" longer than anything seen: halves, until they fit.
            middle = len(text) // 2
            if middle == 0:
                return [Segment(text, separator, ids[: self.longest_source])]
            return self._split(text[:middle], "", ()) + self._split(text[middle:], separator, ())
        parts = split_keeping_separators(text, rules[0])
        if rules[0] is not SENTENCE_END:
            parts = self._packed(parts)  # words and clauses are too little each: as many as fit together
        segments = []
        for i, (part, between) in enumerate(parts):
            last = i == len(parts) - 1
            segments += self._split(part, separator if last else between, rules[1:])
        return segments

    def _packed(self, parts: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        packed: list[tuple[str, str]] = []
        size = 0
        for part, between in parts:
            length = len(self.source_tokenizer.encode(part)) + 1
            if packed and size + length <= self.longest_source:
                packed[-1] = (packed[-1][0] + packed[-1][1] + part, between)
                size += length
            else:
                packed.append((part, between))
                size = length
        return packed

    # --- aligning ---------------------------------------------------------------------------------------------------

    def attention(self, pairs: Sequence[tuple[str, str]]) -> list[Attention]:
        """How much each target token looks at each source token, of normalised texts; end marks have no say."""
        return self.attentions(pairs, [self.calibration.alignment])[0]

    @torch.inference_mode()
    def attentions(self, pairs: Sequence[tuple[str, str]], readings: Sequence[Reading]) -> list[list[Attention]]:
        """:meth:`attention` in other readings: for each of them all pairs."""
        found: list[dict[int, Attention]] = [{} for _ in readings]
        source, target = self.source_tokenizer, self.target_tokenizer
        texts = [(s.strip(), t.strip()) for s, t in pairs]
        items = [(source.encode(s), target.encode(t)) for s, t in texts]
        sizes = [max(len(self.source_ids(s)), len(t) + 1) for s, t in items]
        for batch in batches_by_length(sizes, self.loaded.search.batch_tokens):
            src = padded([self.source_ids(items[i][0]) for i in batch], source.pad_id, self._device)
            starts = [[self.vocabulary.start_id, *items[i][1]] for i in batch]
            layers = cross_attention(self.model, src, padded(starts, target.pad_id, self._device))
            for own, reading in zip(found, readings, strict=True):
                for i, weights in zip(batch, aligned(layers, reading).float().cpu().numpy(), strict=True):
                    s, t = items[i]
                    places = (
                        _moved(tokenizer.offsets(text), len(whole) - len(whole.lstrip()))
                        for tokenizer, text, whole in zip((source, target), texts[i], pairs[i], strict=True)
                    )
                    columns = slice(len(self.tag_ids), len(self.tag_ids) + len(s))
                    own[i] = Attention(weights[: len(t), columns], *places)
        return [[own[i] for i in range(len(items))] for own in found]

    # --- scoring ----------------------------------------------------------------------------------------------------

    @torch.inference_mode()
    def score(self, pairs: Iterable[tuple[str, str]], config: SearchConfig | None = None) -> list[Score]:
        """How probable the model finds given translations: the scores that a search would report for them.

        A search may have put the same text together from other pieces than the tokenizer does; then the scores differ.
        """
        config = config or self.loaded.search
        items = [
            (self.source_tokenizer.encode(source.strip()), self.target_tokenizer.encode(target.strip()))
            for source, target in pairs
        ]
        scores: dict[int, Score] = {}
        sizes = [max(len(self.source_ids(s)), len(t) + 1) for s, t in items]
        for batch in batches_by_length(sizes, config.batch_tokens):
            src = padded([self.source_ids(items[i][0]) for i in batch], self.source_tokenizer.pad_id, self._device)
            pad, eos = self.target_tokenizer.pad_id, self.vocabulary.eos_id
            tgt_in = padded([[self.vocabulary.start_id, *items[i][1]] for i in batch], pad, self._device)
            tgt_out = padded([[*items[i][1], eos] for i in batch], eos, self._device)
            mask = self.model.padding_mask(src)
            x = self.model.decode(tgt_in, self.model.encode(src, mask), memory_mask=mask)  # (B, T, D)
            gained = self._gained(x.flatten(0, 1), tgt_out.flatten()).view_as(tgt_out).tolist()
            for i, row in zip(batch, gained, strict=True):
                ids = items[i][1]
                each = row[: len(ids) + 1]
                score = sum(each) / float(length_penalty(len(each), config.length_penalty))
                scores[i] = Score(sum(each), score, tuple(self.target_tokenizer.pieces(ids)), tuple(each))
        return [scores[i] for i in range(len(items))]

    def _gained(self, x: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        """The log-probability of each of `tokens` (N,) after the decoder's `x` (N, D), a part at a time: (N,)."""
        rows = max(1, LARGEST_LOGITS // self.model.config.tgt_vocab)
        return torch.cat(
            [
                log_probabilities(self.model.project(some), self.vocabulary.forbidden).gather(-1, ids[:, None])[:, 0]
                for some, ids in zip(x.split(rows), tokens.split(rows), strict=True)
            ]
        )

    def with_search(self, **changes: object) -> SearchConfig:
        """The model's own search settings with `changes`.

        Raises:
            ConfigError: settings that cannot be.
        """
        return dataclasses.replace(self.loaded.search, **changes)  # type: ignore[arg-type]


def _refuse_one_text(texts: Iterable[str], prefixes: Iterable[str] | None) -> None:
    """A text is an iterable of texts too, its letters; nobody means that."""
    for name, given in (("texts", texts), ("prefixes", prefixes)):
        if isinstance(given, str):
            raise DataError(f"`{name}` must be several texts, but is one: {given[:40]!r}", hint="put it in a list")


def _moved(ranges: Sequence[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    return [(start + by, end + by) for start, end in ranges]


def _taken(texts: Iterator[str], size: int, more: Callable[[], bool] | None) -> list[str]:
    """The next `size` texts, or fewer if no more are there for now."""
    taken = []
    for text in texts:
        taken.append(text)
        if len(taken) >= size or (more is not None and not more()):
            break
    return taken


def split_keeping_separators(text: str, rule: re.Pattern[str]) -> list[tuple[str, str]]:
    """`text` as parts, each with what stands between it and the next: joined in order they are `text` again."""
    parts, start = [], 0
    for match in rule.finditer(text):
        between = next((g for g in match.groups() if g is not None), "")
        end = match.end() - len(between)
        if start < end < len(text) and match.end() < len(text):
            parts.append((text[start:end], between))
            start = match.end()
    parts.append((text[start:], ""))
    return parts


def batches_by_length(lengths: Sequence[int], batch_tokens: int, most_rows: int | None = None) -> list[list[int]]:
    """Numbers of the items, the longest first, cut so that rows x longest stays within `batch_tokens`.

    No batch has more than `most_rows` either; each has one at least.
    """
    batches: list[list[int]] = []
    for i in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        full = not batches or (most_rows is not None and len(batches[-1]) >= most_rows)
        if not full and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(i)
        else:
            batches.append([i])
    return batches
