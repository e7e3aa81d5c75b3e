"""Text to pieces and back (section 5.1), by SentencePiece, trained on the user's own pairs.

Ids: `</s>` 0, `<unk>` 1, pieces, tags, `<pad>` last. Text never becomes a control id: a literal `</s>` is four characters.
Tags (:mod:`pellucid.tags`) are ids that SentencePiece does not have, so that no text can become one: the text `<2de>`
stays five characters.
Unless the user asks for a normalisation, and with byte fallback, every text comes back as it was: odd spaces, line
separators, emoji, a literal `<s>`. SentencePiece itself writes a space as U+2581 and keeps U+2585 for itself, so these
two are written in another way first (:func:`escape`).
"""

from __future__ import annotations

import hashlib
import io
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import sentencepiece

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, why_dropped
from pellucid.errors import TokenizerError

SPACE = "\u2581"
ESCAPE = "\ue0f0"
_CODES = {ESCAPE: ESCAPE + "0", SPACE: ESCAPE + "1", "\u2585": ESCAPE + "2", "\0": ESCAPE + "3"}
"""A private-use character and a digit stand for what SentencePiece cannot take as it is, and for that character."""
_CHARACTERS = {code: character for character, code in _CODES.items()}
_ESCAPED = re.compile("|".join(_CODES))
_CODE = re.compile("|".join(_CHARACTERS))
_SURROGATE = re.compile("[\ud800-\udfff]")

BYTES = 256
TRAINING_CHARACTERS = 20_000_000
"""Learning looks at about so many characters, chosen evenly; more costs minutes and gigabytes and changes little."""
LONGEST_LINE = 8_000
"""Learning cuts longer lines; SentencePiece would leave them out."""
LONGEST_WORD = 100
"""Longer words are not learned as such; SentencePiece refuses pieces of many thousand bytes."""
TRAINING_THREADS = 4
"""Always so many: a sum of floats depends on how it is shared out, and the pieces must not depend on the machine."""
SMALL_ALPHABET = 256
RARE = 3
LARGEST_CHOSEN = 32_000

Kind = Literal["piece", "byte", "unknown", "tag"]


class Piece(NamedTuple):
    """A piece of :meth:`Tokenizer.explain`."""

    text: str
    """As SentencePiece writes it: U+2581 for a space, <0xE2> for a byte."""
    id: int
    kind: Kind


class Tokenizer:
    """Made by :meth:`train` or :meth:`load`. Safe to use from several threads."""

    def __init__(self, model: bytes, kind: str, normalization: str, tags: Sequence[str] = ()) -> None:
        self._model = model
        self._kind, self._normalization = kind, normalization
        self._sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.eos_id: int = self._sp.eos_id()
        self.unk_id: int = self._sp.unk_id()
        self.tags = tuple(tags)
        """The names of the tags, in the order of their ids."""
        pieces: int = self._sp.get_piece_size()
        self._tag_ids = {name: pieces + i for i, name in enumerate(self.tags)}
        self._tag_names = {i: name for name, i in self._tag_ids.items()}
        self.pad_id = pieces + len(self.tags)

    @property
    def kind(self) -> str:
        """unigram, bpe, char or word."""
        return self._kind

    def __len__(self) -> int:
        """Pieces, with the control ids, the tags and the padding."""
        return self.pad_id + 1

    @classmethod
    def train(
        cls,
        lines: Iterable[str | None],
        *,
        vocab_size: int,
        kind: str = "unigram",
        normalization: str = "identity",
        byte_fallback: bool = True,
        tags: Sequence[str] = (),
        threads: int = 0,
    ) -> Tokenizer:
        """Learn pieces from `lines`, which are read once. The same lines give the same pieces.

        Args:
            vocab_size: pieces wanted, the control ids and the padding included. Text too small for so many gives as
                many as it has: look at `len()`.
            kind: unigram, bpe, char, or word (what single spaces separate; other words become `<unk>`).
            normalization: identity, nfc or nfkc, of these lines and of all text from now on.
            tags: ids besides, for :meth:`tag_ids`; they do not count as pieces.
            byte_fallback: characters that get no piece are written as bytes, for which 256 pieces are set aside
                (not with `word`). Without it they become `<unk>`.
            threads: kept for callers that count threads; learning always uses the same few.

        Raises:
            TokenizerError: nothing to learn from, or more characters than `vocab_size` has room for.
        """
        byte_fallback = byte_fallback and kind != "word"
        fixed = 3 + BYTES * byte_fallback
        if vocab_size <= fixed:
            raise TokenizerError(
                f"`vocab_size` must be above {fixed}{' with byte fallback' * byte_fallback}, but is {vocab_size}",
                hint="leave data.vocab_size at 0 to have it chosen, or set data.byte_fallback to false",
            )
        sample = _sample(_prepared(lines, kind, normalization))
        if not sample:
            raise TokenizerError("a tokenizer needs text to learn from, but there is none (or only empty lines)")
        room = vocab_size - fixed
        alphabet = Counter[str]()
        if kind in ("unigram", "bpe"):
            for text in sample:
                alphabet.update(text)
            if not byte_fallback and len(alphabet) > room:
                raise TokenizerError(
                    f"`vocab_size` must be at least {fixed + len(alphabet)} here, since the text has {len(alphabet)} "
                    f"different characters and no byte fallback, but is {vocab_size}",
                    hint=f"set data.vocab_size to {fixed + 2 * len(alphabet)}, or data.byte_fallback to true",
                )
        options: dict[str, Any] = {
            "model_type": kind,
            "vocab_size": vocab_size - 1,  # the padding is ours
            "hard_vocab_limit": False,
            "eos_id": 0,
            "unk_id": 1,
            "bos_id": -1,
            "pad_id": -1,
            "unk_surface": " \u2047" if kind == "word" else "\u2047",
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "byte_fallback": byte_fallback,
            "character_coverage": 1.0,  # which characters get no piece is decided here, not there
            "max_sentence_length": 8 * LONGEST_LINE,
            "num_threads": TRAINING_THREADS,
            "minloglevel": 2,
        }
        left_to_bytes = _rare(alphabet, room // 2) if byte_fallback else {}
        if left_to_bytes:
            sample = [text.translate(left_to_bytes) for text in sample]
        model = io.BytesIO()
        try:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(sample), model_writer=model, **options)
            return cls(model.getvalue(), kind, normalization, tags)
        except RuntimeError as error:
            raise TokenizerError(f"SentencePiece cannot learn from this text: {error}") from error

    @classmethod
    def load(cls, path: str | Path, config: dict[str, Any] | None = None) -> Tokenizer:
        """Read a `.model` file, with what :meth:`config` said of it (nothing: unigram, identity).

        Raises:
            TokenizerError: missing, damaged, or with other control ids than ours.
        """
        config = config or {"kind": "unigram", "normalization": "identity"}
        try:
            tags = [str(tag) for tag in config.get("tags", ())]
            made = cls(Path(path).read_bytes(), str(config["kind"]), str(config["normalization"]), tags)
        except (OSError, RuntimeError, KeyError, TypeError) as error:
            raise TokenizerError(f"{path}: cannot be read as a tokenizer: {error}") from error
        if made.eos_id != 0 or made.unk_id != 1:
            raise TokenizerError(
                f"{path}: `</s>` must be 0 and `<unk>` 1, but they are {made.eos_id} and {made.unk_id}",
                hint="a tokenizer of pellucid's own making has them so",
            )
        return made

    def save(self, path: str | Path) -> None:
        """Write the `.model` file (SentencePiece's own format); keep :meth:`config` beside it."""
        Path(path).write_bytes(self._model)

    def config(self) -> dict[str, Any]:
        """What :meth:`load` needs besides the file."""
        tags = {"tags": list(self.tags)} if self.tags else {}
        return {"kind": self._kind, "normalization": self._normalization, **tags}

    @property
    def model_bytes(self) -> bytes:
        return self._model

    def fingerprint(self) -> str:
        """SHA-256 of all that decides how text is cut."""
        return hashlib.sha256(self._model + repr(sorted(self.config().items())).encode()).hexdigest()

    def tag_ids(self, tags: Iterable[str]) -> list[int]:
        """The ids of tags. Raises KeyError: one that is not among :attr:`tags`."""
        return [self._tag_ids[tag] for tag in tags]

    def tags_of(self, ids: Iterable[int]) -> tuple[str, ...]:
        """The tags among `ids`."""
        return tuple(self._tag_names[i] for i in map(int, ids) if i in self._tag_names)

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with no end mark and never a tag."""
        return self.encode_batch([text])[0]

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """:meth:`encode` for many texts, on several threads."""
        if not texts:
            return []
        written = [escape(normalize(text, self._normalization)) for text in texts]
        try:
            return list(self._sp.encode(written, num_threads=max(1, threads)))
        except (RuntimeError, TypeError, UnicodeEncodeError):
            # Half a surrogate pair is no character and has no UTF-8; it can only come through Python or JSON.
            whole = [_SURROGATE.sub("\ufffd", text) for text in written]
            return list(self._sp.encode(whole, num_threads=max(1, threads)))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; end marks, tags and padding are passed over, `<unk>` becomes U+2047."""
        kept = [i for i in map(int, ids) if i != self.eos_id and i != self.pad_id and i not in self._tag_names]
        text = str(self._sp.decode(kept))
        if self._kind == "word" and kept and kept[0] == self.unk_id:
            text = text[1:]  # the space that stands before every word but the first
        return unescape(text)

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece writes them, U+2581 for a space; a tag in angle brackets."""
        return [self._piece(i) for i in map(int, ids)]

    def _piece(self, i: int) -> str:
        if i in self._tag_names:
            return f"<{self._tag_names[i]}>"
        return "<pad>" if i == self.pad_id else str(self._sp.id_to_piece(i))

    def normalized(self, text: str) -> str:
        """`text` in the Unicode normal form that is read."""
        return normalize(text, self._normalization)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where each piece of :meth:`encode` stands in `text` (as it is normalised): from, up to.

        The space before a word is not counted in; the bytes of a character all stand where it does.
        """
        ids = self.encode(text)
        surfaces = self._sp.encode(escape(self.normalized(text)), out_type=str)
        raw, ends, spelt = "", [0], b""
        for i, surface in zip(ids, surfaces, strict=True):
            if self._sp.is_byte(i):
                spelt += bytes([int(surface[3:5], 16)])
                surface = spelt.decode("utf-8", errors="ignore")
                spelt = b"" if surface else spelt
            raw += surface.replace(SPACE, " ")
            ends.append(len(raw))
        ranges: list[tuple[int, int]] = []
        for k in reversed(range(len(ids))):
            start, end = ends[k], ends[k + 1]
            if start == end and ranges:  # a byte that does not end its character
                ranges.append(ranges[-1])
                continue
            start = end - len(raw[start:end].lstrip(" "))
            # Without the space that SentencePiece puts before every text.
            ranges.append((len(unescape(raw[1 : max(1, start)])), len(unescape(raw[1 : max(1, end)]))))
        return ranges[::-1]

    def explain(self, text: str) -> list[Piece]:
        """The pieces of `text` with ids and kinds, for people to look at."""
        ids = self.encode(text)
        return [Piece(piece, i, self.kind_of(i)) for piece, i in zip(self.pieces(ids), ids, strict=True)]

    def scored_pieces(self) -> dict[str, tuple[int, float]]:
        """Id and score of each piece that stands for text, bytes left out: of unigram the logarithm of its probability;
        of bpe the higher, the earlier its merge was learnt."""
        sp = self._sp
        ordinary = (
            i for i in range(sp.get_piece_size()) if not (sp.is_control(i) or sp.is_unknown(i) or sp.is_byte(i))
        )
        return {sp.id_to_piece(i): (i, sp.get_score(i)) for i in ordinary if not sp.is_unused(i)}

    def kind_of(self, i: int) -> Kind:
        """What the id stands for; of the end mark and the padding: piece."""
        if i in self._tag_names:
            return "tag"
        return "unknown" if i == self.unk_id else "byte" if self._sp.is_byte(i) else "piece"


def escape(text: str) -> str:
    """`text` without the characters that SentencePiece keeps for itself; :func:`unescape` undoes it exactly."""
    return _ESCAPED.sub(lambda found: _CODES[found[0]], text) if _ESCAPED.search(text) else text


def unescape(text: str) -> str:
    """The text that :func:`escape` was given. An escape character without its digit stays."""
    return _CODE.sub(lambda found: _CHARACTERS[found[0]], text) if ESCAPE in text else text


def normalize(text: str, normalization: str) -> str:
    """`text` in the Unicode normal form nfc or nfkc, or (identity) as it is."""
    if normalization == "identity" or text.isascii():
        return text
    return unicodedata.normalize("NFC" if normalization == "nfc" else "NFKC", text)


def _prepared(lines: Iterable[str | None], kind: str, normalization: str) -> Iterator[str]:
    """Lines as learning takes them: stripped as the store strips them, none empty, none over-long."""
    for line in lines:
        text = escape(normalize(line.strip(), normalization)) if line else ""
        if kind == "word" and len(text) > LONGEST_WORD:
            text = " ".join(word for word in text.split(" ") if len(word) <= LONGEST_WORD)
        while len(text) > LONGEST_LINE:
            cut = text.rfind(" ", 1, LONGEST_LINE)
            cut = cut if cut > 0 else LONGEST_LINE
            yield text[:cut]
            text = text[cut:].lstrip(" ")
        if text:
            yield text


def _sample(lines: Iterable[str], most: int = TRAINING_CHARACTERS) -> list[str]:
    """Lines of `most` characters at most, evenly chosen, in one reading and flat memory.

    Each line has a pseudo-random rank that depends on its number alone. Whenever the kept lines grow past `most`, the
    half with the higher ranks goes, and so does every later line of such a rank.
    """
    kept: list[tuple[int, str]] = []
    limit, characters = 1 << 64, 0
    for number, text in enumerate(lines):
        rank = _mixed(number)
        if rank < limit:
            kept.append((rank, text))
            characters += len(text)
            while characters > most and len(kept) > 1:
                limit //= 2
                kept = [(r, t) for r, t in kept if r < limit]
                characters = sum(len(t) for _, t in kept)
    return [text for _, text in kept]


def _mixed(number: int) -> int:
    """splitmix64 (Steele, Lea and Flood 2014): 64 bits that look random, from a counter."""
    mask = (1 << 64) - 1
    z = (number + 1) * 0x9E3779B97F4A7C15 & mask
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & mask
    z = (z ^ z >> 27) * 0x94D049BB133111EB & mask
    return z ^ z >> 31


def _rare(alphabet: Counter[str], most: int) -> dict[int, str]:
    """The characters that are left to bytes, each with the space that stands for it while the others are learned.

    None of a small alphabet; of a large one (Chinese) those that are rare; and in any case so many that at most `most`
    stay, because longer pieces need room too.
    """
    known = [c for c, n in alphabet.most_common() if n >= RARE or len(alphabet) <= SMALL_ALPHABET]
    stay = {*known[: max(1, most)], " "}
    return {ord(character): " " for character in alphabet if character not in stay}


def choose_vocab_size(corpus: Corpus, config: DataConfig) -> int:
    """A vocabulary for the size of the data: 64 times the cube root of its characters, plus its alphabet.

    With a joint vocabulary this gives about 4,500 pieces for 8,000 short sentences, 10,000 for Multi30k's 29,000
    captions, 20,000 for 160,000 subtitles and at most 32,000 (the paper's 37,000 were for 4.5 million sentences).
    `char` and `word` take every character or word there is, up to the same 32,000. Only as much is read as decides.
    """
    characters = 0
    items: set[str] = set()
    for pair in corpus:
        if why_dropped(pair) is None:
            for text in (pair.source or "", pair.target or ""):
                characters += len(text)
                items.update(text.split(" ") if config.tokenizer == "word" else text)
        if characters > (LARGEST_CHOSEN / 64) ** 3 * (1 if config.joint else 2) or len(items) >= LARGEST_CHOSEN:
            return LARGEST_CHOSEN
    fixed = 3 + BYTES * (config.byte_fallback and config.tokenizer != "word")
    if config.tokenizer in ("char", "word"):
        # One more than there are items: SentencePiece has the bare space as a piece too.
        return min(LARGEST_CHOSEN, fixed + len(items) + 1)
    wanted = 64 * (characters if config.joint else characters / 2) ** (1 / 3) + len(items)
    wanted = max(wanted, fixed + 2 * min(len(items), 4 * SMALL_ALPHABET) + SMALL_ALPHABET)
    return min(LARGEST_CHOSEN, 8 * round(wanted / 8))
