"""What kind of character each code point is, as tables: many texts are looked at together, without a loop in Python.

Texts of a chunk become one array of code points (:class:`Texts`); a look-up in a table of 1,114,112 entries says of all
characters at once what they are, and a reduction over each text's part says what the text has. The tables are made from
Python's `unicodedata` at first use (a quarter of a second), so they are of that Unicode version.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

CODE_POINTS = 0x110000

WORD = 1
"""Letters, marks and digits: what words are made of."""
CONTROL = 2
"""Control characters other than tab and line ends, and code points that are no characters."""
BIDI = 4
"""Characters that turn the direction of what follows: embeddings, overrides, isolates."""
HAN_LIKE = 8
"""Characters that are about a word each: Han, kana."""
UNSPACED = 16
"""Letters of scripts that put no space between words and are no words alone: Thai, Lao, Khmer, Burmese, Tibetan."""
PLACEHOLDER_SIGN = 32
"""Characters that a placeholder or a tag begins with."""
ADDRESS_SIGN = 64
"""A colon or an at sign: without one there is no address of the web or of mail."""
MOJIBAKE_LEAD = 128
"""What the first byte of a UTF-8 sequence looks like when it is read as Windows-1252."""
MOJIBAKE_NEXT = 512
"""What its further bytes look like."""
REPLACEMENT = 1024
"""U+FFFD, what stands for bytes that could not be read."""
INVISIBLE = 256
"""What nobody sees: soft hyphens, spaces without width, byte order marks, separators of lines and paragraphs."""

NO_SCRIPT = 0
"""The script of what is no letter."""
_FAT_SCRIPTS = ("HAN", "HIRAGANA", "KATAKANA", "HANGUL")
"""A character of these says about as much as three letters."""
_UNSPACED_SCRIPTS = ("THAI", "LAO", "KHMER", "MYANMAR", "TIBETAN")
_INVISIBLE = frozenset(
    [0x00AD, 0x200B, 0x2028, 0x2029, 0x2060, 0xFEFF, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080)]
)
_SPACES = frozenset(map(ord, "\t\n\r"))
_DIRECTIONS = frozenset([*range(0x202A, 0x202F), *range(0x2066, 0x206A)])
_WINDOWS_1252 = bytes(b for b in range(0x80, 0xA0) if b not in (0x81, 0x8D, 0x8F, 0x90, 0x9D)).decode("cp1252")
LONG_WORD = 64
"""Letters: longer words are rare, and looked at one by one."""
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)


class Tables:
    """Use :func:`tables`. All are indexed by code point."""

    def __init__(self) -> None:
        self.flags = np.zeros(CODE_POINTS, np.uint16)
        """Bits: WORD and the others above."""
        self.scripts = np.zeros(CODE_POINTS, np.uint8)
        """Which of `script_names` a letter is of."""
        self.digits = np.full(CODE_POINTS, 10, np.uint8)
        """The value of a decimal digit of any script; 10 for what is none."""
        self.folded = np.arange(CODE_POINTS, dtype=np.uint32)
        """The same letter in small, in its common form (full-width and the like undone)."""
        self.values = np.zeros(CODE_POINTS, np.uint64)
        """A random number for each folded letter or digit; 0 for what stands in no word."""
        self.script_names = [""]
        numbers = {"": NO_SCRIPT}
        for code in [*range(0x20000), *range(0x2F800, 0x2FA20)]:
            character = chr(code)
            category = unicodedata.category(character)
            if category[0] in "LMN":
                self.flags[code] |= WORD
                self._letter(code, character, category, numbers)
            elif category in ("Cc", "Cn") and code not in _SPACES and _is_no_text(code):
                self.flags[code] |= CONTROL
        han = numbers["HAN"]
        for first, last in ((0x20000, 0x2F800), (0x2FA20, 0x32400)):
            self.flags[first:last] |= WORD | HAN_LIKE
            self.scripts[first:last] = han
        self.flags[[*_INVISIBLE]] |= INVISIBLE
        self.flags[[*_DIRECTIONS]] |= BIDI
        self.flags[[ord(c) for c in "%{$<["]] |= PLACEHOLDER_SIGN
        self.flags[[ord(c) for c in ":@"]] |= ADDRESS_SIGN
        self.flags[[*range(0xC2, 0xF5)]] |= MOJIBAKE_LEAD
        self.flags[[*range(0x80, 0xC0), *map(ord, _WINDOWS_1252)]] |= MOJIBAKE_NEXT
        self.flags[0xFFFD] |= REPLACEMENT
        word = np.flatnonzero(self.flags & WORD)
        self.values[word] = mixed(self.folded[word])
        self.properties = self.flags | self.scripts.astype(np.uint32) << 16 | self.digits.astype(np.uint32) << 24
        """`flags`, `scripts` and `digits` in one number, for one look-up instead of three."""
        self.weights = np.array([3 if name in _FAT_SCRIPTS else 1 for name in self.script_names])
        """How many letters a character of each script counts for."""

    def _letter(self, code: int, character: str, category: str, numbers: dict[str, int]) -> None:
        digit = unicodedata.digit(character, None) if category == "Nd" else None
        if digit is not None:
            self.digits[code] = digit
            self.folded[code] = ord("0") + digit
        elif not 0x3400 <= code < 0xD7A4:  # Han and Hangul have no case
            folded = unicodedata.normalize("NFKC", character).casefold()
            self.folded[code] = ord(folded if len(folded) == 1 else character)
        if category[0] != "L":
            return
        name = _script(character)
        if name not in numbers:
            numbers[name] = len(numbers)
            self.script_names.append(name)
        self.scripts[code] = numbers[name]
        if name in ("HAN", "HIRAGANA", "KATAKANA"):
            self.flags[code] |= HAN_LIKE
        elif name in _UNSPACED_SCRIPTS:
            self.flags[code] |= UNSPACED

    def script_number(self, name: str) -> int:
        """Of a name such as LATIN or HAN: the first word of Unicode's names of its letters, but for Han."""
        return self.script_names.index(name)


@lru_cache(maxsize=1)
def tables() -> Tables:
    """The tables, made once."""
    return Tables()


def _is_no_text(code: int) -> bool:
    """Of unassigned code points only those that never will be characters: a newer Unicode may know the others."""
    return code < 0xA0 or code & 0xFFFE == 0xFFFE or 0xFDD0 <= code < 0xFDF0


def _script(character: str) -> str:
    """The first word of the character's name says its script ("HANGUL", "LATIN"), but for Han and some wide forms."""
    words = unicodedata.name(character, "").split()
    while words and words[0] in ("FULLWIDTH", "HALFWIDTH", "MODIFIER", "LETTER", "CAPITAL", "SMALL"):
        words.pop(0)
    first = words[0] if words else ""
    return "HAN" if first.startswith(("CJK", "IDEOGRAPHIC", "KANGXI")) else "" if first in _NO_SCRIPTS else first


_NO_SCRIPTS = frozenset(
    ["MICRO", "FEMININE", "MASCULINE", "MATHEMATICAL", "DOUBLE-STRUCK", "SCRIPT", "BLACK-LETTER", "OHM"]
)


class Texts:
    """Many texts as one array of code points. N texts, C characters; a line end closes each text."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        """(N,): the characters of each text."""
        ends = np.cumsum(self.lengths + 1)
        self.starts = ends - self.lengths - 1
        """(N,): where each text begins in `codes`."""
        self.joined = "\n".join([*texts, ""])
        self.codes = np.frombuffer(self.joined.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
        """(C,)"""

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def _properties(self) -> np.ndarray:
        return tables().properties.take(self.codes)

    @cached_property
    def flags(self) -> np.ndarray:
        """(C,) uint16: the bits of each character."""
        return self._properties.astype(np.uint16)

    @cached_property
    def has(self) -> np.ndarray:
        """(N,) uint16: the bits of all characters of each text together."""
        return np.bitwise_or.reduceat(self.flags, self.starts) if len(self) else np.zeros(0, np.uint16)

    @cached_property
    def owner(self) -> np.ndarray:
        """(C,) int32: which text a character is of."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths + 1)

    @cached_property
    def digits(self) -> np.ndarray:
        """(N, 10): how often each decimal digit stands in each text, whatever the script it is written in."""
        where = np.flatnonzero(self._properties < 10 << 24)
        values = (self._properties[where] >> 24).astype(np.int32)
        counts = np.bincount(self.owner[where] * 10 + values, minlength=10 * len(self))
        return counts.reshape(-1, 10)

    @cached_property
    def scripts(self) -> np.ndarray:
        """(C,) uint8: the script of each character, 0 for none."""
        return (self._properties >> 16).astype(np.uint8)

    @cached_property
    def _known_scripts(self) -> np.ndarray:
        """The numbers of all scripts that occur."""
        found = np.zeros(256, bool)
        found[self.scripts] = True
        return np.flatnonzero(found[1:]) + 1

    @cached_property
    def main_scripts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """What each text is written in: (N,) uint8 the script that most letters are of, 0 where there are none; (N,) how
        many letters those are, a Han character, a kana or a Hangul syllable counting as three; (N,) how many in all.
        """
        known = self._known_scripts
        if not len(known) or not len(self):
            return np.zeros(len(self), np.uint8), np.zeros(len(self), np.int64), np.zeros(len(self), np.int64)
        counts = np.stack([
            np.add.reduceat(self.scripts == script, self.starts, dtype=np.int32) * tables().weights[script]
            for script in known
        ])  # fmt: skip
        letters = counts.max(axis=0)
        return (
            np.where(letters > 0, known[counts.argmax(axis=0)], NO_SCRIPT).astype(np.uint8),
            letters,
            counts.sum(axis=0),
        )

    @cached_property
    def _words(self) -> tuple[np.ndarray, np.ndarray]:
        """(W,) uint64 hashes of the words, and (W,) where each begins."""
        word = (self.flags & WORD).astype(bool)
        begin = word.copy()
        if self._has_unspaced_or_han:
            alone = (self.flags & (HAN_LIKE | UNSPACED)).astype(bool)
            begin[1:] &= ~word[:-1] | alone[1:] | alone[:-1]
        else:
            begin[1:] &= ~word[:-1]
        begins = np.flatnonzero(begin)
        ends = np.flatnonzero(word[:-1] & (begin[1:] | ~word[1:])) + 1  # the last character is a line end
        return mixed(self._sums_of_letters(begins, ends - begins)), begins

    def _sums_of_letters(self, begins: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """(W,) uint64: for each word the sum of its letters' values, each times a number of its place."""
        values, powers = tables().values, _powers()
        # All first letters together, then all second ones, ...: with the longest words first, those that have one more
        # letter are the first so many.
        order = np.argsort(np.minimum(lengths, LONG_WORD + 1).astype(np.uint8), kind="stable")[::-1]
        places = begins[order]
        longer = len(order) - np.cumsum(np.bincount(np.minimum(lengths, LONG_WORD), minlength=LONG_WORD + 1))
        sums = np.zeros(len(order), np.uint64)
        for place, count in enumerate(longer[:-1].tolist()):
            if not count:
                break
            sums[:count] += values.take(self.codes.take(places[:count] + place)) * powers[place]
        found = np.empty_like(sums)
        found[order] = sums
        for i in np.flatnonzero(lengths > LONG_WORD).tolist():
            rest = self.codes[begins[i] + LONG_WORD : begins[i] + lengths[i]]
            found[i : i + 1] += (values.take(rest) * powers[np.arange(LONG_WORD, lengths[i]) & (len(powers) - 1)]).sum()
        return found

    @property
    def _has_unspaced_or_han(self) -> bool:
        return bool(np.bitwise_or.reduce(self.has) & (HAN_LIKE | UNSPACED)) if len(self) else False

    @cached_property
    def word_bounds(self) -> np.ndarray:
        """(N + 1,): where the words of each text begin among all, and where the last ones end."""
        return np.searchsorted(self._words[1], np.append(self.starts, len(self.codes)))

    def normalised_hashes(self) -> np.ndarray:
        """(N,) uint64: equal for texts that differ only in case, punctuation, white space and forms of one letter.

        Texts of no letter and digit hash as they stand. The same on every machine and in every run.
        """
        hashes, bounds = self._words[0], self.word_bounds
        sums = _sums(hashes * _powers()[_places(bounds) & (len(_powers()) - 1)], bounds)
        for i in np.flatnonzero((self.has & WORD) == 0).tolist():
            text = [*map(ord, self.texts[i].strip()), 0]
            sums[i] = (mixed(np.array(text)) * _powers()[np.arange(len(text)) & (len(_powers()) - 1)]).sum()
        return mixed(sums)

    def words(self) -> np.ndarray:
        """(W,) uint64 hashes of the words of all texts in order (see `word_bounds`).

        A word is a run of letters and digits, in small; in Han and kana each character; where a script has no spaces
        (Thai) each three letters in a row.
        """
        hashes, begins = self._words
        unspaced = np.flatnonzero((self.flags[begins] & UNSPACED) > 0) if self._has_unspaced_or_han else begins[:0]
        if len(unspaced):
            single, hashes = hashes, hashes.copy()
            for back in (1, 2):
                before = (unspaced - back).clip(0)
                near = (unspaced >= back) & (begins[before] + back == begins[unspaced])
                hashes[unspaced] += np.where(near, single[before] * _powers()[back], np.uint64(0))
        return hashes

    def mixes(self, one: str, other: str) -> np.ndarray:
        """(N,) bool: somewhere a letter of script `one` stands right beside one of script `other`."""
        a, b = (tables().script_number(name) for name in (one, other))
        found = np.zeros(len(self), bool)
        if {a, b} <= set(self._known_scripts.tolist()):
            left, right = self.scripts[:-1], self.scripts[1:]
            found[self.owner[:-1][((left == a) & (right == b)) | ((left == b) & (right == a))]] = True
        return found


def _places(bounds: np.ndarray) -> np.ndarray:
    """For runs between `bounds`: the place of each member in its run, from 0."""
    return np.arange(bounds[-1]) - np.repeat(bounds[:-1], np.diff(bounds))


def _sums(values: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The sums of runs between `bounds` (modulo 2^64); those of empty runs are 0."""
    total = np.zeros(len(values) + 1, np.uint64)
    np.cumsum(values, out=total[1:])
    return total[bounds[1:]] - total[bounds[:-1]]


def mixed(values: np.ndarray) -> np.ndarray:
    """uint64 numbers spread over all 64 bits, each to its own (the finaliser of SplitMix64, with one round less)."""
    spread = values.astype(np.uint64) + np.uint64(1)
    spread *= _MULTIPLIER
    spread ^= spread >> np.uint64(32)
    spread *= _MULTIPLIER
    spread ^= spread >> np.uint64(29)
    return spread


@lru_cache(maxsize=1)
def _powers() -> np.ndarray:
    """(4096,) odd numbers, one a place: what is multiplied so that order counts."""
    return mixed(np.arange(4096)) | np.uint64(1)
