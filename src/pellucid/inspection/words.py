"""Pieces and words: what a person reads in the place of what the model reads.

Attention from words to words (Clark et al. 2019, section 4.1): the sum over the pieces of the word that is attended
to, the mean over the pieces of the word that attends. Rows still sum to 1.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, pairwise
from typing import Literal

import torch
from torch import Tensor

from pellucid.data.tokenizer import SPACE, Tokenizer, unescape

Range = tuple[int, int]
"""Pieces from the first up to the second, which is left out."""

HAN = re.compile("[\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f]+")
UNSPACED = re.compile(
    "[\u0e00-\u0e30\u0e32\u0e33\u0e3f-\u0e46\u0e80-\u0eb0\u1000-\u102a\u1780-\u17b3\u3041-\u30ff]|" + HAN.pattern
)
"""Letters of scripts that are written without spaces: Thai, Lao, Burmese, Khmer, kana, Chinese characters."""
APOSTROPHES = "'’"


@dataclass(frozen=True)
class Token:
    """One position of a sequence."""

    text: str
    """As SentencePiece writes it: U+2581 for a space, <0xE2> for a byte."""
    id: int
    kind: Literal["piece", "byte", "unknown", "tag", "control"]
    """control: a mark of the model's own (start, end, padding)."""

    @property
    def is_mark(self) -> bool:
        """Whether it stands for nothing in the text: a tag, or a mark of the model's own."""
        return self.kind in ("tag", "control")


@dataclass(frozen=True)
class Side:
    """One side of a map of attention: its tokens, and which of them make a word."""

    tokens: tuple[Token, ...]
    words: tuple[Range, ...]

    @classmethod
    def of(cls, tokens: Sequence[Token]) -> Side:
        return cls(tuple(tokens), tuple(words_of(tokens)))

    @property
    def texts(self) -> list[str]:
        """The tokens as a person should read them."""
        return [readable([token]) for token in self.tokens]

    @property
    def word_texts(self) -> list[str]:
        """The words as a person should read them."""
        return [readable(self.tokens[first:end]) for first, end in self.words]

    def __len__(self) -> int:
        return len(self.tokens)


def tokens_of(tokenizer: Tokenizer, ids: Sequence[int], start_id: int | None = None) -> list[Token]:
    """Ids with what they stand for. `start_id` is the mark that a decoder starts from."""
    found = []
    for i, piece in zip(ids, tokenizer.pieces(ids), strict=True):
        if i == start_id:
            found.append(Token("<s>", i, "control"))
        elif i in (tokenizer.eos_id, tokenizer.pad_id):
            found.append(Token("</s>" if i == tokenizer.eos_id else "<pad>", i, "control"))
        elif i == tokenizer.unk_id:
            found.append(Token("<unk>", i, "unknown"))
        else:
            found.append(Token(piece, i, tokenizer.kind_of(i)))
    return found


def readable(tokens: Sequence[Token]) -> str:
    """Some tokens of one word as a person should read them: no mark for a space, bytes put together to characters."""
    if all(token.kind == "byte" for token in tokens):
        whole = bytes(int(token.text[3:5], 16) for token in tokens).decode("utf-8", errors="replace")
        return whole if "\ufffd" not in whole else " ".join(token.text[1:-1] for token in tokens)
    return unescape("".join(token.text.replace(SPACE, "") for token in tokens)) or "␣"


def words_of(tokens: Sequence[Token]) -> list[Range]:
    """Which tokens make a word: ranges that cover all of them, in order.

    A word begins where a space stood, where letters and other signs meet, and, in scripts that have no spaces, with
    every piece; with jieba installed, Chinese pieces that it finds to be one word are put together. A piece is never
    cut, so two words within one piece stay together. Marks of the model (tags, start, end, unknown) are words of their own;
    the bytes of a character belong together.
    """
    bounds = [i for i in range(1, len(tokens)) if _begins(tokens[i - 1], tokens[i])]
    ranges = list(pairwise([0, *bounds, len(tokens)])) if tokens else []
    return ranges if importlib.util.find_spec("jieba") is None else _with_jieba(tokens, ranges)


def _begins(before: Token, token: Token) -> bool:
    """Whether a word begins between two neighbours."""
    if {"tag", "control", "unknown"} & {before.kind, token.kind}:
        return True
    if token.kind == "byte":
        return before.kind != "byte" or int(token.text[3:5], 16) & 0xC0 != 0x80  # 0b10xxxxxx goes on with a character
    if before.kind == "byte" or token.text.startswith(SPACE):
        return True
    last, first = before.text[-1:], token.text[:1]
    if last == SPACE:  # a space that is a piece of its own stands before this one
        return False
    if UNSPACED.match(first):
        return True
    return UNSPACED.match(last) is not None or not (_is_letter(last) and _is_letter(first))


def _is_letter(character: str) -> bool:
    """Letters, digits, what is written above or below a letter, and apostrophes: "don't" is one word."""
    return character.isalnum() or unicodedata.category(character)[0] == "M" or character in APOSTROPHES


def _with_jieba(tokens: Sequence[Token], ranges: Sequence[Range]) -> list[Range]:
    """`ranges`, with those neighbours put together that jieba takes for one word."""
    import jieba

    jieba.setLogLevel("ERROR")
    texts = [readable(tokens[first:end]) for first, end in ranges]
    words: list[Range] = []
    for is_chinese, group in groupby(range(len(ranges)), key=lambda i: HAN.fullmatch(texts[i]) is not None):
        run = list(group)
        ends = set(accumulate(map(len, jieba.cut("".join(texts[i] for i in run), HMM=False)))) if is_chinese else set()
        first, at = run[0], 0
        for i in run:
            at += len(texts[i])
            if not is_chinese or at in ends:
                words.append((ranges[first][0], ranges[i][1]))
                first = i + 1
    return words


def merge(weights: Tensor, query_words: Sequence[Range], key_words: Sequence[Range]) -> Tensor:
    """Attention of pieces (..., T, S) as attention of words: see above."""
    columns = torch.stack([weights[..., first:end].sum(-1) for first, end in key_words], -1)
    return torch.stack([columns[..., first:end, :].mean(-2) for first, end in query_words], -2)
