"""Lines and sentences, with what stands between them kept: joined again they are the text.

Our own splitter rather than a library: those that are good are of the GPL family or bring a model and a download. Rules
suffice here, because a wrong cut costs little: one that is missing gives the model two sentences, one too many half of
one, and nothing is lost either way.

A sentence ends

- at . ! ? or ... and their kin in other scripts with the quotes and brackets that close behind them, if a space follows
  and the next word is not in lower case (unless the whole text is);
- not after an abbreviation, an initial ("J. Smith") and, in languages that write ordinals so, a number ("3. Oktober");
- at the full stops of Chinese and Japanese, where no space follows.

Thai marks no end at all: a space stands between sentences and between clauses. Thai stays whole, and what is too long is
cut at spaces by the translator.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

LINE_END = re.compile("(\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029])")
TAG = "\u2060"
"""Stands for each character of a tag in what is split, another sign for those of a placeholder."""
PLACEHOLDER = "\ufffc"
CLOSERS = TAG + "\"'”’»›)\\]}"
WIDE_CLOSERS = TAG + "”’」』）】》〉"
# A run of signs is taken from its beginning and whole: else a run that ends no sentence would be tried from each of them.
END = re.compile(
    rf"(?<![.!?…؟۔।॥։።፧။។༎])[.!?…؟۔।॥։።፧။។༎]++[{CLOSERS}]*+(?=(\s+)\S)|(?<![。！？｡])[。！？｡]++[{WIDE_CLOSERS}{CLOSERS}]*+(?=(\s*)\S)"
)
WIDE_END = re.compile(rf"[。！？｡][{WIDE_CLOSERS}{CLOSERS}]*$")
SPACED_END = re.compile(rf"[.!?…][{CLOSERS}]*$")
SPACED_START = re.compile(
    "[\"'“‘«(¿¡]|(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3041-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003134f])\\w"
)
"""A letter, but not of a script that is written without spaces (Thai, Lao, Burmese, Khmer, kana, Chinese characters); or
what opens a quotation."""
ABBREVIATIONS = {
    "": "dr prof st vs etc vol al ca cf fig ed eds op p pp no nr",
    "en": "mr mrs ms jr sr inc ltd co corp dept est approx gen col lt sgt capt rev hon gov sen rep mt ave jan feb mar apr "
    "jun jul aug sep sept oct nov dec e.g i.e a.m p.m u.s u.k",
    "de": "z.b d.h u.a bzw usw ggf evtl inkl zzgl str bspw sog vgl abb bd jh jan feb mär apr jun jul aug sep okt nov dez "
    "hr hrn fr o.ä u.ä s.o s.u i.d.r z.t",
    "fr": "m mm mme mlle me p.ex av bd env janv févr avr juil sept oct nov déc",
    "es": "sr sra srta ud uds p.ej av pág núm tel dpto",
    "it": "sig sigg sig.ra dott dott.ssa ecc pag art tel",
    "pt": "sr sra srs dra exmo av pág tel",
    "nl": "dhr mevr mw bijv enz o.a d.w.z m.b.t t.a.v",
    "pl": "np tzn itd itp m.in tj ul pan godz",
    "cs": "např tzv atd apod tj mj ul",
    "ru": "т.е т.д т.п г гг ул стр им см руб тыс млн",
    "sv": "t.ex bl.a d.v.s m.m osv kl",
}
"""By language, and "" for all: what a full stop follows within a sentence, in lower case, without the last stop."""
ORDINALS = frozenset(
    ["de", "da", "no", "nb", "nn", "is", "fi", "et", "lv", "cs", "sk", "sl", "hr", "sr", "bs", "hu", "pl", "tr"]
)
LAST_WORD = re.compile(r"(?<![\w.])[\w.]+$")
LONGEST_WORD = 100
"""Characters: no abbreviation is longer."""
NEXT = re.compile(rf"{TAG}*(.)", re.DOTALL)


def split_lines(text: str) -> list[tuple[str, str]]:
    """The lines of `text`, each with the end of line behind it ("" behind the last)."""
    parts = LINE_END.split(text)
    return list(zip(parts[::2], [*parts[1::2], ""], strict=True))


def split_sentences(text: str, language: str | None = None) -> list[tuple[str, str]]:
    """The sentences of one line, each with the space behind it.

    Args:
        language: of the text, as in `pt-BR`; its abbreviations are known besides those of all.
    """
    primary = re.split("[-_]", (language or "").lower())[0]
    known = {*ABBREVIATIONS[""].split(), *ABBREVIATIONS.get(primary, "").split()}
    has_capitals = text != text.lower()
    parts, start, looked = [], 0, 0
    has_word = False  # whether one stands between `start` and `looked`
    for match in END.finditer(text):
        space = match[1] if match[1] is not None else match[2]
        has_word = has_word or any(map(str.isalnum, text[looked : match.start()]))
        looked = match.end()
        if match[1] is not None:
            after = NEXT.match(text, match.end() + len(space))
            if after is not None and after[1].islower() and has_capitals:
                continue
            if match[0].rstrip(TAG) == "." and _is_within(text, start, match.start(), known, primary in ORDINALS):
                continue
        if not has_word:
            continue  # "..." and "1." alone are no sentence, nor is "?!" that comes after a space
        parts.append((text[start : match.end()], space))
        start = match.end() + len(space)
        has_word = False
    parts.append((text[start:], ""))
    return parts


def join(parts: Iterable[tuple[str, str, str]]) -> str:
    """Translated sentences in one text.

    Chinese and Japanese sentences follow one another without a space; their translations into a language with spaces
    need one.

    >>> join([("你好。", "Hello.", ""), ("再见。", "Goodbye.", "")])
    'Hello. Goodbye.'

    Args:
        parts: (sentence, its translation, what stood behind the sentence).
    """
    text, needs_space = "", False
    for source, translation, between in parts:
        if needs_space and SPACED_END.search(text) and SPACED_START.match(translation):
            text += " "
        text += translation + between
        needs_space = not between and WIDE_END.search(source) is not None
    return text


def _is_within(text: str, start: int, stop: int, abbreviations: set[str], ordinals: bool) -> bool:
    """Whether the full stop at `stop` belongs to the last word of the sentence that begins at `start`."""
    found = LAST_WORD.search(text[max(start, stop - LONGEST_WORD) : stop])
    if found is None:
        return False
    word = found[0].lstrip(".")
    if word.lower() in abbreviations:
        return True
    if len(word) == 1 and word.isupper():
        return True  # an initial; "I." too, which is rarely an end
    if word.isdigit():
        is_all = stop - start <= LONGEST_WORD and word == text[start:stop].strip()
        return len(word) <= 2 and (ordinals or is_all)  # "3. Oktober"; "1. First of all"
    return False
