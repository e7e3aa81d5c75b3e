"""Text to pieces and back (section 5.1), by SentencePiece, trained on the user's own pairs.

Ids: `</s>` 0, `<unk>` 1, pieces, `<pad>` last. Text never becomes a control id. Unless the user asks for a
normalisation, every text comes back as it was: odd spaces, line separators, emoji, a literal `<s>`. SentencePiece
itself writes a space as U+2581, so a U+2581 in the text is written in another way first (:func:`_escape`).
"""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import sentencepiece

from pellucid.config import DataConfig
from pellucid.data.corpus import Corpus, why_dropped
from pellucid.errors import TokenizerError

SPACE = "\u2581"
ESCAPE = "\ue0f0"
"""A private-use character: ESCAPE + "1" stands for U+2581 in text, ESCAPE + "0" for ESCAPE, ESCAPE + "2" for NUL."""
SAMPLE = 2_000_000
"""Training looks at no more lines than this, chosen evenly."""
LONGEST_LINE = 16_384


class Tokenizer:
    """Made by :meth:`train` or :meth:`load`."""

    def __init__(self, model: bytes, kind: str, normalization: str) -> None:
        self._model = model
        self._kind, self._normalization = kind, normalization
        self._sp = sentencepiece.SentencePieceProcessor(model_proto=model)
        self.eos_id: int = self._sp.eos_id()
        self.unk_id: int = self._sp.unk_id()
        self.pad_id: int = self._sp.get_piece_size()

    def __len__(self) -> int:
        """Pieces, with the control ids and the padding."""
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
        threads: int = 1,
    ) -> Tokenizer:
        """Learn pieces from `lines`.

        Args:
            vocab_size: pieces wanted, the control ids and the padding included; small data may give fewer.
            kind: unigram, bpe, char, or word (what single spaces separate; unknown words become `<unk>`).

        Raises:
            TokenizerError: nothing to learn from.
        """
        if byte_fallback and kind in ("unigram", "bpe"):
            vocab_size = max(vocab_size, 256 + 3 + 16)  # room for every byte
        else:
            byte_fallback = False
        seen = _Seen(lines, normalization)
        model = io.BytesIO()
        options: dict[str, Any] = {
            "model_writer": model,
            "model_type": kind,
            "vocab_size": vocab_size - 1,  # the padding is ours
            "eos_id": 0,
            "unk_id": 1,
            "bos_id": -1,
            "pad_id": -1,
            "normalization_rule_name": "identity",
            "remove_extra_whitespaces": False,
            "byte_fallback": byte_fallback,
            "character_coverage": 0.9995 if byte_fallback else 1.0,
            "hard_vocab_limit": False,
            "num_threads": max(1, threads),
            "max_sentence_length": LONGEST_LINE,
            "input_sentence_size": SAMPLE,
            "shuffle_input_sentence": True,
            "train_extremely_large_corpus": False,
            "split_by_whitespace": True,
            "minloglevel": 2,
        }
        try:
            sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(seen), **options)
        except RuntimeError as error:
            if not seen.count:
                raise TokenizerError("a tokenizer cannot be trained: there is no text") from error
            most = _most_pieces(str(error))
            if most is None:
                raise TokenizerError(f"a tokenizer cannot be trained: {error}") from error
            return cls._smaller(lines, most, kind, normalization, byte_fallback, threads, error)
        return cls(model.getvalue(), kind, normalization)

    @classmethod
    def _smaller(
        cls,
        lines: Iterable[str | None],
        most: int,
        kind: str,
        normalization: str,
        fallback: bool,
        threads: int,
        error: Exception,
    ) -> Tokenizer:
        if iter(lines) is lines:
            raise TokenizerError(f"a tokenizer cannot be trained: {error}") from error
        return cls.train(
            lines, vocab_size=most + 1, kind=kind, normalization=normalization, byte_fallback=fallback, threads=threads
        )

    @classmethod
    def load(cls, path: str | Path, config: dict[str, Any]) -> Tokenizer:
        """Read a `.model` file, with what :meth:`config` said of it.

        Raises:
            TokenizerError: missing, damaged, or not one of ours.
        """
        try:
            made = cls(Path(path).read_bytes(), str(config["kind"]), str(config["normalization"]))
        except (OSError, RuntimeError, KeyError) as error:
            raise TokenizerError(f"{path}: cannot be read as a tokenizer: {error}") from error
        if (made.eos_id, made.unk_id) != (0, 1):
            raise TokenizerError(
                f"{path}: `</s>` must be 0 and `<unk>` 1, but they are {made.eos_id} and {made.unk_id}"
            )
        return made

    def save(self, path: str | Path) -> None:
        """Write the `.model` file (SentencePiece's own format)."""
        Path(path).write_bytes(self._model)

    def config(self) -> dict[str, Any]:
        """What :meth:`load` needs besides the file."""
        return {"kind": self._kind, "normalization": self._normalization}

    @property
    def model_bytes(self) -> bytes:
        return self._model

    def encode(self, text: str) -> list[int]:
        """The ids of `text`, with no end mark."""
        return list(self._sp.encode(_written(text, self._normalization)))

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """:meth:`encode` for many texts, on several threads."""
        if not texts:
            return []
        return list(self._sp.encode([_written(t, self._normalization) for t in texts], num_threads=max(1, threads)))

    def decode(self, ids: Iterable[int]) -> str:
        """The text of `ids`; end marks and padding are passed over, `<unk>` becomes U+2047 between spaces."""
        return _unescape(self._sp.decode([i for i in map(int, ids) if i not in (self.eos_id, self.pad_id)]))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """The pieces as SentencePiece writes them, U+2581 for a space."""
        return ["<pad>" if i == self.pad_id else self._sp.id_to_piece(i) for i in map(int, ids)]

    def explain(self, text: str) -> list[tuple[str, int]]:
        """The pieces of `text` with their ids, for people to look at."""
        ids = self.encode(text)
        return list(zip(self.pieces(ids), ids, strict=True))


class _Seen:
    """Lines as the trainer is given them; counts them."""

    def __init__(self, lines: Iterable[str | None], normalization: str) -> None:
        self.lines, self.normalization, self.count = lines, normalization, 0

    def __iter__(self) -> Iterator[str]:
        for line in self.lines:
            if line and line.strip():
                self.count += 1
                yield _written(line, self.normalization)


def _written(text: str, normalization: str) -> str:
    if normalization == "nfc":
        text = unicodedata.normalize("NFC", text)
    elif normalization == "nfkc":
        text = unicodedata.normalize("NFKC", text)
    return _escape(text)


def _escape(text: str) -> str:
    return text.replace(ESCAPE, ESCAPE + "0").replace(SPACE, ESCAPE + "1").replace("\0", ESCAPE + "2")


def _unescape(text: str) -> str:
    if ESCAPE not in text:
        return text
    return text.replace(ESCAPE + "2", "\0").replace(ESCAPE + "1", SPACE).replace(ESCAPE + "0", ESCAPE)


def _most_pieces(message: str) -> int | None:
    """The largest vocabulary that SentencePiece says this text can give, from its error message."""
    for marker in ("<= ", "smaller than "):
        _, found, rest = message.rpartition(marker)
        digits = "".join(c for c in rest.split(".")[0] if c.isdigit())
        if found and digits:
            return int(digits)
    return None


def choose_vocab_size(corpus: Corpus, config: DataConfig) -> int:
    """A vocabulary for the size of the data: about one piece for every 70 running words of the two sides together.

    At 29,000 captions this gives 10,000, at 8,000 short sentences 2,000, at a million sentences 32,000 (the paper's
    37,000 were for 4.5 million).
    """
    characters = pairs = 0
    for pair in corpus:
        if why_dropped(pair) is None:
            pairs += 1
            characters += len(pair.source or "") + len(pair.target or "")
    words = characters / 5.5
    wanted = words / 70 if config.joint else words / 100
    return int(min(32_000, max(1_000, round(wanted, -3))))
