"""The faults of a sentence pair, by name; and the tests that need to see nothing but the pair.

A test looks at a chunk of pairs at once. What is cheap for an array (has the text a brace at all?) comes first; what
needs a regular expression is asked of the few texts that are left.
"""

from __future__ import annotations

import operator
import re

import numpy as np

from pellucid.data.characters import (
    ADDRESS_SIGN,
    BIDI,
    CONTROL,
    INVISIBLE,
    MOJIBAKE_LEAD,
    MOJIBAKE_NEXT,
    PLACEHOLDER_SIGN,
    REPLACEMENT,
    WORD,
    Texts,
)

RULES = {
    "bad-bytes": "a side is not UTF-8",
    "empty": "a side is empty or white space alone",
    "duplicate": "the same pair as an earlier one",
    "duplicate-normalised": "the same but for case, punctuation and white space",
    "near-duplicate": "shares about four words of five with an earlier pair",
    "overlap": "the source stands in the validation or test set",
    "overlap-normalised": "it does, but for case, punctuation and white space",
    "overlap-near": "the source shares about four words of five with one of those sets",
    "same-sides": "source and target are the same text of two words or more",
    "length-ratio": "one side is far longer than usual for the other",
    "too-long": "a side has more characters than --max-characters",
    "script": "a side is in another script than most of that side",
    "mixed-script": "Latin and Cyrillic letters in one word",
    "language": "a side is in another language than most of that side",
    "mojibake": "UTF-8 that was read as something else, or a replacement character",
    "control": "control characters, or code points that are no characters",
    "invisible": "characters that nobody sees: soft hyphens, spaces without width, byte order marks",
    "bidi": "characters that turn the direction of the text",
    "numbers": "the digits of the two sides differ",
    "addresses": "addresses of the web or of mail differ",
    "placeholders": "placeholders or tags differ",
    "shifted": "the translation seems to stand some lines away",
    "one-to-many": "an earlier pair has the same source and another target",
}
"""All faults, in the order of reports. Of equal pairs the first one is never at fault."""
BIT = {name: 1 << number for number, name in enumerate(RULES)}
"""The bit of each fault in the numbers that say which faults a pair has."""

UNWRITABLE = "bad-bytes"
"""The fault that drops a pair whatever the rules are: it cannot be written back."""
DROPPED = (
    "bad-bytes", "empty", "duplicate", "overlap", "overlap-normalised", "too-long", "length-ratio", "mojibake", "control",
)  # fmt: skip
"""What `pellucid clean` drops where no rules are named: what is of no use to anybody. All else may be wanted."""

LOST_DIGITS = 3
"""So many digits on one side alone are a number that is missing; fewer may be written as words."""

PLACEHOLDER = re.compile(
    r"%(?:\d+\$)?[-+#0]*\d*(?:\.\d+)?(?:hh?|ll?|[jztL])?[diouxXeEfgGscp@](?![A-Za-z])"  # %s, %1$d, %.2f
    r"|%\(\w+\)[diouxXeEfgGscrp]"  # %(name)s
    r"|\$?\{\{?[\w.:$\- ]*\}?\}"  # {0}, {name}, {{ name }}, ${name}
    r"|</?[A-Za-z][\w:-]*"  # tags, by name: what stands in their attributes may be translated
    r"|\[/?X\d+X\]"  # marks of translation tools
)
ADDRESS = re.compile(
    r"(?:(?:https?|ftp)://|www\.)[^\s<>\"'\u0080-\U0010ffff]+|[A-Za-z0-9.+_-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+"
)
"""Without letters beyond ASCII, which are of the sentence: there may be no space between."""
_QUESTION_MARKS = np.array([ord(c) for c in "?？؟"])
_END_OF_SENTENCE = ".,;:!?)]}…"

_CONTINUATION = "\u0080-\u00bf€‚ƒ„…†‡ˆ‰Š‹ŒŽ‘’“”•–—˜™š›œžŸ"
GARBLED = re.compile(
    rf"â[€\u0080]|ï»¿|ð[Ÿ\u009f]|[ÂÃ][{_CONTINUATION}]"
    rf"|(?:[à-ï][{_CONTINUATION}]{{2}}.{{0,8}}?){{2}}"  # one alone may be «café…»
    rf"|(?:[Ä-ß][{_CONTINUATION}].{{0,8}}?){{3}}"
)
"""UTF-8 read as Windows-1252 or Latin-1: a lead byte's letter with the signs of continuation bytes behind it."""


def is_empty(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool. The texts are stripped."""
    return (source.lengths == 0) | (target.lengths == 0)


def has_same_sides(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool: a single word may be a name, and numbers alone are the same in many languages."""
    same = np.fromiter(map(operator.eq, source.texts, target.texts), bool, len(source))
    if not same.any():
        return same
    _, letters, _ = source.main_scripts
    return same & (np.diff(source.word_bounds) >= 2) & (letters >= 2)


def has_control(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    return ((source.has | target.has) & CONTROL) > 0


def has_invisible(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    return ((source.has | target.has) & INVISIBLE) > 0


def has_bidi(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    return ((source.has | target.has) & BIDI) > 0


def is_mojibake(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    found = ((source.has | target.has) & REPLACEMENT) > 0
    for side in (source, target):
        begins = np.flatnonzero((side.flags[:-1] & MOJIBAKE_LEAD > 0) & (side.flags[1:] & MOJIBAKE_NEXT > 0))
        for i in np.unique(side.owner[begins]).tolist():
            found[i] |= GARBLED.search(side.texts[i]) is not None
    return found


def mixes_scripts(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    return source.mixes("LATIN", "CYRILLIC") | target.mixes("LATIN", "CYRILLIC")


def has_other_numbers(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool: digits are compared whatever their order and script, so that 1,000 is 1.000 and 12/31 is 31.12.

    Where they differ in zeros alone, a word may say the rest: 10,000 is 10 thousand.
    """
    difference = source.digits - target.digits
    gone, new = difference.clip(0).sum(axis=1), (-difference).clip(0).sum(axis=1)
    changed = ((gone > 0) & (new > 0)) | (gone >= LOST_DIGITS) | (new >= LOST_DIGITS)
    return changed & difference[:, 1:].any(axis=1)


def has_other_placeholders(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    found = np.zeros(len(source), bool)
    for i in np.flatnonzero(((source.has | target.has) & PLACEHOLDER_SIGN) > 0).tolist():
        found[i] = placeholders(source.texts[i]) != placeholders(target.texts[i])
    return found


def has_other_addresses(source: Texts, target: Texts) -> np.ndarray:
    """(N,) bool"""
    asked = ((source.has | target.has) & ADDRESS_SIGN) > 0
    if "www." in source.joined or "www." in target.joined:
        asked |= True
    found = np.zeros(len(source), bool)
    for i in np.flatnonzero(asked).tolist():
        both = source.texts[i] + "\n" + target.texts[i]
        if "://" in both or "@" in both or "www." in both:
            found[i] = addresses(source.texts[i]) != addresses(target.texts[i])
    return found


def placeholders(text: str) -> list[str]:
    """All placeholders and tags of a text, sorted."""
    return sorted(match.replace(" ", "") for match in PLACEHOLDER.findall(text))


def addresses(text: str) -> list[str]:
    """All addresses of a text, sorted, without the marks of the sentence around them."""
    return sorted(match.rstrip(_END_OF_SENTENCE) for match in ADDRESS.findall(text))


def marks(texts: Texts) -> np.ndarray:
    """(N,) uint8: a number for the digits of a text and whether it asks; 0 for neither (see `shift.py`)."""
    digits = texts.digits @ (np.arange(10) * 2 + 3)
    asks = np.isin(texts.codes[texts.starts + texts.lengths - (texts.lengths > 0)], _QUESTION_MARKS)
    return np.where(digits > 0, digits % 127 + 1, 0).astype(np.uint8) + asks * np.uint8(128)


def has_words(texts: Texts) -> np.ndarray:
    """(N,) bool"""
    return (texts.has & WORD) > 0
