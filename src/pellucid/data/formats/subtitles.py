"""Subtitles: SubRip (.srt) and WebVTT (.vtt). Times, numbers, settings and notes stay byte for byte.

A sentence often runs over several cues, and half a sentence cannot be translated. So the cues of a sentence are
joined, its sentences are translated, and each translation is cut up again among the cues that its sentence stood in,
in proportion and between words. A cue keeps its number of lines; a line of more than :data:`LINE` characters that
stood alone becomes two.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from html import unescape

from pellucid.config import DataConfig
from pellucid.data.formats.document import Block, Filling, Pieces, register_document
from pellucid.data.formats.inline import WIDE, WORD, Code, Marked, project, with_single_blanks, word_edges
from pellucid.data.formats.text import document_lines
from pellucid.errors import DataError

TIME = r"(?:(\d+):)?(\d{1,2}):(\d{2})[.,](\d{1,3})"
TIMES = re.compile(rf"\s*{TIME}\s*-->\s*{TIME}")
MARKUP = re.compile(r"<(?P<close>/?)(?P<name>[^<>]*)>|\{\\[^{}]*\}")
SENTENCE = re.compile(r"(?<=[.!?…。！？])[\"'”’»)\]」』]*(?:\s+|(?<=[。！？」』])(?=.))")
SENTENCE_ENDS = re.compile(r"[.!?…:。！？♪][\"'”’»)\]」』]*\s*$")
DASH = re.compile(r"\s*[-–—]\s*")
DIALOGUE = re.compile(rf"{DASH.pattern}\S")
LINE = 42
MOST_CUES = 8
"""Cues that are joined, at most: in text without full stops a sentence would never end."""
MOST_LINES = 10_000
"""Lines without a time or a blank one, at most."""
LONGEST_GAP = 3.0
"""Seconds between two cues of one sentence, at most."""


@dataclass
class Cue:
    """A cue: what stands before its text, its lines of text, and what follows until the next one."""

    line: int
    head: bytes
    start: float
    end: float
    lines: list[str] = field(default_factory=list)
    line_ends: list[bytes] = field(default_factory=list)
    tail: bytes = b""

    @property
    def raw(self) -> bytes:
        text = b"".join(line.encode() + end for line, end in zip(self.lines, self.line_ends, strict=True))
        return self.head + text + self.tail

    @property
    def is_dialogue(self) -> bool:
        """Two speakers, a line each."""
        return len(self.lines) > 1 and sum(bool(DIALOGUE.match(plain(line).text)) for line in self.lines) > 1


@register_document(".srt")
def srt_document(path: str, config: DataConfig) -> Pieces:
    """The cues of a SubRip file, those of one sentence in one block.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    return _pieces(path, is_vtt=False)


@register_document(".vtt")
def vtt_document(path: str, config: DataConfig) -> Pieces:
    """The cues of a WebVTT file, those of one sentence in one block. Its `NOTE` and `STYLE` are left alone.

    Raises:
        EncodingError: bytes that are not UTF-8.
    """
    return _pieces(path, is_vtt=True)


def _pieces(path: str, is_vtt: bool) -> Pieces:
    group: list[Cue] = []
    for piece in _cues(path):
        if group and (isinstance(piece, bytes) or not _goes_on(group, piece, is_vtt)):
            yield _block(group, is_vtt)
            group = []
        if isinstance(piece, bytes):
            yield piece
        elif WORD.search(plain("\n".join(piece.lines), is_vtt).text):
            group.append(piece)
        else:
            yield piece.raw
    if group:
        yield _block(group, is_vtt)


def _cues(path: str) -> Iterator[Cue | bytes]:
    """Cues, and the parts of the file that are none (paragraphs without times)."""
    paragraph: list[tuple[int, str, bytes, bytes]] = []
    blank = False
    for line in document_lines(path):
        is_blank = not line[1].strip()
        if blank and not is_blank:
            yield _cue(paragraph)
            paragraph = []
        elif TIMES.match(line[1]) and any(TIMES.match(text) for _, text, _, _ in paragraph):
            # No blank line before this cue: its number, where it has one, stands on the line above.
            first = -1 if paragraph[-1][1].strip().isdigit() else len(paragraph)
            yield _cue(paragraph[:first])
            paragraph = paragraph[first:]
        if len(paragraph) > MOST_LINES and is_blank:
            yield _cue(paragraph)
            paragraph, blank = [], False
        elif len(paragraph) > MOST_LINES:
            raise DataError(f"must be subtitles, but has {MOST_LINES:,} lines without a time", file=path, line=line[0])
        blank = is_blank and bool(paragraph)
        paragraph.append(line)
    if paragraph:
        yield _cue(paragraph)


def _cue(paragraph: list[tuple[int, str, bytes, bytes]]) -> Cue | bytes:
    for i, (number, text, _, _) in enumerate(paragraph):
        times = TIMES.match(text)
        if times:
            head = b"".join(raw for *_, raw in paragraph[: i + 1])
            cue = Cue(number, head, _seconds(times.groups()[:4]), _seconds(times.groups()[4:]))
            for _, text, end, raw in paragraph[i + 1 :]:
                if text.strip():
                    cue.lines.append(text)
                    cue.line_ends.append(end)
                else:
                    cue.tail += raw
            return cue
    return b"".join(raw for *_, raw in paragraph)


def _seconds(time: Sequence[str | None]) -> float:
    hours, minutes, seconds, thousandths = (int(part or 0) for part in time)
    return 3600 * hours + 60 * minutes + seconds + thousandths / 1000


def _goes_on(group: list[Cue], cue: Cue, is_vtt: bool) -> bool:
    """Whether a cue belongs to the sentence of those before it."""
    last = group[-1]
    if cue.is_dialogue or last.is_dialogue or len(group) >= MOST_CUES or cue.start - last.end > LONGEST_GAP:
        return False
    texts = [plain("\n".join(each.lines), is_vtt).text for each in (last, cue)]
    return not SENTENCE_ENDS.search(texts[0]) and bool(WORD.search(texts[1]))


def plain(text: str, is_vtt: bool = False) -> Marked:
    """A cue's text without its tags; in WebVTT `&amp;` is `&`."""
    shown: list[str] = []
    codes: list[Code] = []
    place = length = 0
    for token in [*MARKUP.finditer(text), None]:
        piece = text[place : token.start() if token else len(text)]
        shown.append(unescape(piece) if is_vtt else piece)
        length += len(shown[-1])
        if token:
            is_open = token["name"] and token["name"][0].isalpha()
            codes.append(Code(length, token[0], "close" if token["close"] else "open" if is_open else "alone"))
            place = token.end()
    return Marked("".join(shown), tuple(codes))


def _block(group: list[Cue], is_vtt: bool) -> Block:
    raw = b"".join(cue.raw for cue in group)
    if group[0].is_dialogue:
        speeches = _speeches(group[0], is_vtt)
        texts = [speech.text[_dash(speech) :] for speech in speeches]
        return Block(tuple(texts), group[0].line, raw, partial(_write_dialogue, group[0], speeches, is_vtt))
    marks = [with_single_blanks(plain("\n".join(cue.lines), is_vtt)) for cue in group]
    sentences, shares = _sentences([mark.text.strip() for mark in marks])
    return Block(tuple(sentences), group[0].line, raw, partial(_write, group, marks, shares, is_vtt))


def _sentences(texts: list[str]) -> tuple[list[str], list[Counter[int]]]:
    """The sentences of the texts of cues, and for each of them how many characters of it stand in which cue."""
    joined = texts[0]
    owners = [0] * len(joined)
    for number, text in enumerate(texts[1:], 1):
        between = _between(joined, text)
        joined += between + text
        owners += [number] * (len(between) + len(text))
    starts = [0, *(found.end() for found in SENTENCE.finditer(joined))]
    starts = [start for start in starts if start == 0 or WORD.search(joined[start:])]
    spans = list(zip(starts, [*starts[1:], len(joined)], strict=True))
    return [joined[a:b].strip() for a, b in spans], [Counter(owners[a:b]) for a, b in spans]


def _write(
    group: list[Cue], marks: list[Marked], shares: list[Counter[int]], is_vtt: bool, fillings: Sequence[Filling]
) -> bytes:
    texts = [""] * len(group)
    for filling, share in zip(fillings, shares, strict=True):
        numbers = sorted(share)
        for n, part in zip(numbers, split_by_shares(filling.text, [share[n] for n in numbers]), strict=True):
            texts[n] += _between(texts[n], part) + part
    written = []
    for cue, mark, text in zip(group, marks, texts, strict=True):
        count = max(len(cue.lines), 1 if len(text) <= LINE else 2)
        lines = [line for line in split_by_shares(text, [1] * count) if line]
        shown = project(mark, "\n".join(lines), partial(_written, is_vtt=is_vtt)) if lines else ""
        written.append(_with_lines(cue, shown))
    return b"".join(written)


def _speeches(cue: Cue, is_vtt: bool) -> list[Marked]:
    """What each speaker says, with the dash before it."""
    speeches: list[list[str]] = []
    for line in cue.lines:
        if DIALOGUE.match(plain(line).text) or not speeches:
            speeches.append([])
        speeches[-1].append(line)
    return [with_single_blanks(plain(" ".join(lines), is_vtt)) for lines in speeches]


def _dash(speech: Marked) -> int:
    found = DASH.match(speech.text)
    return found.end() if found else 0


def _write_dialogue(cue: Cue, speeches: list[Marked], is_vtt: bool, fillings: Sequence[Filling]) -> bytes:
    said = (
        project(speech, speech.text[: _dash(speech)] + filling.text, partial(_written, is_vtt=is_vtt))
        for speech, filling in zip(speeches, fillings, strict=True)
    )
    return _with_lines(cue, "\n".join(said))


def _with_lines(cue: Cue, text: str) -> bytes:
    """The cue with other text, its line ends kept."""
    lines = text.split("\n") if text else []
    end = cue.line_ends[0] or b"\n"
    body = end.join(line.encode() for line in lines) + (cue.line_ends[-1] if lines else b"")
    return cue.head + body + cue.tail


def _written(text: str, is_vtt: bool) -> str:
    if is_vtt:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("-->", "->")  # would make a time of it


def _between(before: str, after: str) -> str:
    """What joins two parts of a text: a blank, but in Chinese and Japanese nothing."""
    if not before or not after or (WIDE.match(before[-1]) and WIDE.match(after[0])):
        return ""
    return " "


def split_by_shares(text: str, shares: Sequence[int]) -> list[str]:
    """`text` in as many parts as there are shares, of about these proportions, cut between words.

    With fewer words than shares the last parts are empty.
    """
    starts, _ = word_edges(text)
    cuts = starts[1:]
    total, done = sum(shares), 0
    places = [0]
    for left, share in zip(range(len(shares) - 2, -1, -1), shares, strict=False):
        done += share
        possible = [cut for cut in cuts if cut > places[-1]]
        possible = (
            possible[: max(0, len(possible) - left)] or possible[:1]
        )  # a word at least for each of those that follow
        places.append(min(possible, key=lambda cut: abs(cut - done / total * len(text)), default=len(text)))
    return [text[a:b].strip() for a, b in zip(places, [*places[1:], len(text)], strict=True)]
