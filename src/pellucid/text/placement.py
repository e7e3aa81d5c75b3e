"""Puts what was taken out of a source back into its translation, by attention.

A translation says where its words come from: the decoder looks at the source word that it translates. So

- a tag with its partner goes around the stretch of target words whose attention is inside the source's stretch. With
  p_t the share of word t's attention that falls inside, it is the stretch [a, b) that maximises sum over t in [a, b) of
  (p_t - 1/2): a word joins if more than half of it belongs there. Stretches nest as the tags do;
- what stands alone goes to the gap beside the target word that looks most at its neighbour in the source;
- what stands at an edge of the sentence stays at that edge.

Whatever the attention is, each span comes out once, and tags are balanced if they were in the source.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from pellucid.text.bare import OUTSIDE, PUNCTUATION, Bare, Side, words
from pellucid.text.spans import WORD

FINAL = ".!?…。！？؟।"
"""Signs at the end of a sentence: what stood last before them stays before them."""
HALF = 0.5 + 1e-6
"""A little more: a word of which exactly half belongs there does not join."""
Gap = tuple[int, bool]
"""Before the word of that number: right at that word (True), or right behind the one before it."""


@dataclass(frozen=True)
class Attention:
    """How much each target token takes of each source token, and where the tokens are in their texts."""

    weights: np.ndarray
    """(T, S)."""
    source: Sequence[tuple[int, int]]
    target: Sequence[tuple[int, int]]

    def of_words(self, source: Sequence[tuple[int, int]], target: Sequence[tuple[int, int]]) -> np.ndarray:
        """(target words, source words): the sum over a source word's tokens, the mean over a target word's."""
        into_columns = _overlap(self.source, source)  # (S, source words)
        into_rows = _overlap(self.target, target)  # (T, target words)
        into_rows /= np.maximum(into_rows.sum(0, keepdims=True), 1e-9)
        return np.asarray(into_rows.T @ self.weights @ into_columns)


def _overlap(tokens: Sequence[tuple[int, int]], ranges: Sequence[tuple[int, int]]) -> np.ndarray:
    """(tokens, ranges): which part of each token is in each range."""
    t = np.array(tokens, dtype=float).reshape(-1, 2)
    r = np.array(ranges, dtype=float).reshape(-1, 2)
    common = np.minimum(t[:, 1:], r[:, 1]) - np.maximum(t[:, :1], r[:, 0])
    return np.asarray(common.clip(min=0) / np.maximum(t[:, 1:] - t[:, :1], 1))


@dataclass(frozen=True)
class Term:
    """A stretch of the bare source, and the text that must stand in the place of its translation."""

    start: int
    end: int
    text: str


@dataclass
class _Node:
    """A stretch of the bare source that stays together: a pair of tags, a term, or what stands alone (no words)."""

    start: int
    end: int
    opening: str = ""
    closing: str = ""
    children: list[_Node] = field(default_factory=list)
    """Of a term and of what stands alone, `opening` is all there is."""
    left: Side = "glued"
    right: Side = "glued"
    alone: bool = False
    term: bool = False
    is_space: bool = False
    from_start: bool = False
    """It begins in a sentence before."""
    to_end: bool = False
    """It goes on into the sentence after."""


def place(
    source: Bare,
    target: str,
    attention: Attention,
    *,
    terms: Sequence[Term] = (),
    whole: Sequence[str] = (),
    escape: Callable[[str], str] = str,
) -> str:
    """The translation `target` of `source.text`, with the marks of `source` put in.

    Args:
        terms: stretches of the source's text whose translations are replaced.
        whole: what is one word wherever it stands: placeholders that the model translated itself.
        escape: how text that is not a span must be written.
    """
    return _Placer(source, target, attention, whole, escape).placed(_tree(source, terms))


def place_of(
    start: int, end: int, source: Bare, target: str, attention: Attention, whole: Sequence[str] = ()
) -> tuple[list[tuple[int, int]], int, int]:
    """The words of `target`, and which of them, from and up to, say the stretch of `source.text` from `start` to `end`.

    They are those that :func:`place` would replace by a term.
    """
    placer = _Placer(source, target, attention, whole, str)
    count = len(placer.words)
    return placer.words, *placer.window(_Node(start, end, term=True), [(0, count)], 0, count)


# --- the tree of tags -------------------------------------------------------------------------------------------------


def _tree(source: Bare, terms: Sequence[Term]) -> _Node:
    root = _Node(0, len(source.text))
    stack = [root]
    for mark in source.marks:
        span = mark.span
        if mark.partner is None:
            alone = _Node(
                mark.at, mark.at, span.text, left=mark.left, right=mark.right, alone=True, is_space=mark.instead == " "
            )
            _append(stack[-1], alone, mark.before)
        elif not span.closes:
            node = _Node(mark.at, len(source.text), span.text, left=mark.left, right=mark.right, to_end=True)
            stack[-1].children.append(node)
            stack.append(node)
        elif mark.partner == OUTSIDE:  # all so far is inside
            root.children = [_Node(0, mark.at, "", span.text, root.children, from_start=True)]
        else:
            node = stack.pop()
            node.end, node.to_end, node.closing = mark.at, False, span.text
            if not source.text[node.start : node.end].strip():
                inside = "".join(child.opening for child in node.children)
                merged = _Node(node.start, node.start, node.opening + inside + node.closing, left=node.left,
                               right=mark.right, alone=True)  # fmt: skip
                stack[-1].children.pop()
                _append(stack[-1], merged, mark.before)
    for term in terms:
        _insert(root, _Node(term.start, term.end, term.text, term=True))
    return root


def _append(parent: _Node, node: _Node, space: str) -> None:
    """What follows with nothing but a space between stays together with it."""
    last = parent.children[-1] if parent.children else None
    if last is not None and last.alone and last.start == node.start:
        last.opening += (space or (" " if "space" == last.right == node.left else "")) + node.opening
        last.right = node.right
    else:
        parent.children.append(node)


def _insert(parent: _Node, term: _Node) -> None:
    for i, child in enumerate(parent.children):
        if not child.alone and not child.term and child.start <= term.start and term.end <= child.end:
            return _insert(child, term)
        if child.start >= term.end:
            return parent.children.insert(i, term)
    return parent.children.append(term)


# --- where it goes ----------------------------------------------------------------------------------------------------


class _Placer:
    """Writes the target from left to right, and what is put in as it comes to its place."""

    def __init__(
        self, source: Bare, target: str, attention: Attention, whole: Sequence[str], escape: Callable[[str], str]
    ) -> None:
        self._source, self._target, self._escape = source.text, target, escape
        self._source_words, self.words = words(source.text, whole), words(target, whole)
        self._weights = attention.of_words(self._source_words, self.words)  # (T, S)
        self._out: list[str] = []
        self._at = 0

    def placed(self, root: _Node) -> str:
        self._write(root, 0, len(self.words), 0, len(self._target))
        return "".join(self._out)

    def _write(self, node: _Node, first: int, end: int, start_at: int, end_at: int) -> None:
        """`node`'s children among the target words from `first` up to `end`, and the text up to `end_at`."""
        for child, (a, b), gap in self._layout(node, first, end):
            if child.alone:
                word, before_it = gap
                if before_it:
                    self._copy(self.words[word][0] if word < end else end_at)
                else:
                    self._copy(self.words[word - 1][1] if word > first else start_at)
                self._write_alone(child)
                continue
            at = start_at if a == first and self._is_all(child, node) else self.words[a][0] if a < b else self._at
            until = end_at if b == end and self._is_all(child, node) else self.words[b - 1][1] if a < b else at
            if child.from_start:
                at = start_at
            if child.to_end and a == b:  # all of it is in the sentence after
                at = end_at
            if child.to_end:
                until = end_at
            self._copy(at)
            self._out.append(child.opening)
            if child.term:
                self._at = max(self._at, until)
            else:
                self._write(child, a, b, at, until)
                self._out.append(child.closing)
        self._copy(end_at)

    def _copy(self, until: int) -> None:
        if until > self._at:
            self._out.append(self._escape(self._target[self._at : until]))
            self._at = until

    def _write_alone(self, node: _Node) -> None:
        """Here, with a space at the sides where it had one in the source and there is none."""
        if node.is_space:  # the space beside it is this one
            if self._target[self._at : self._at + 1] == " ":
                self._at += 1
            elif self._out and self._out[-1].endswith(" "):
                self._out[-1] = self._out[-1][:-1]
        left, right = self._target[self._at - 1 : self._at] if self._at else "", self._target[self._at : self._at + 1]
        last = self._out[-1][-1:] if self._out else left
        spaced = last.isspace() or (node.left == "wide" and not WORD.match(last))
        if last and node.left != "glued" and not spaced:
            self._out.append(" ")
        self._out.append(node.opening)
        spaced = (
            right.isspace() or PUNCTUATION.match(right) is not None or (node.right == "wide" and not WORD.match(right))
        )
        if right and node.right != "glued" and not spaced:
            self._out.append(" ")

    def _layout(self, node: _Node, first: int, end: int) -> list[tuple[_Node, tuple[int, int], Gap]]:
        """The children in the order of the target: their words, and of what stands alone the gap."""
        free = [(first, end)]
        windows: dict[int, tuple[int, int]] = {}
        for i, child in enumerate(node.children):
            if not child.alone:
                a, b = (first, end) if self._is_all(child, node) else self.window(child, free, first, end)
                windows[i] = (a, b)
                halves = [half for low, high in free for half in ((low, min(high, a)), (max(low, b), high))]
                free = [(low, high) for low, high in halves if low < high]
        items = []
        for i, child in enumerate(node.children):
            if child.alone:
                word, before_it = self._gap(child, node, first, end)
                for a, b in windows.values():
                    if a < word < b:  # inside a tag or a term that it did not stand in
                        word, before_it = (a, True) if word - a < b - word else (b, False)
                # Behind the word before: before all that begins at this gap.
                items.append(((word, 1 if before_it else 0, i), child, (word, word), (word, before_it)))
            else:
                a, b = windows[i]
                key = (a, 2, i) if a < b else (a, 1, i)
                items.append((key, child, (a, b), (a, True)))
        return [(child, window, gap) for _, child, window, gap in sorted(items, key=lambda item: item[0])]

    def _columns(self, node: _Node) -> list[int]:
        return [s for s, (a, b) in enumerate(self._source_words) if a >= node.start and b <= node.end]

    def _is_all(self, child: _Node, parent: _Node) -> bool:
        """Whether its parent has no other words."""
        return not child.term and self._columns(child) == self._columns(parent)

    def window(self, node: _Node, free: list[tuple[int, int]], first: int, end: int) -> tuple[int, int]:
        """The target words that belong to `node`; none (at the end) if no word is free, or it has none in this sentence."""
        if node.to_end and not self._columns(node):
            return end, end
        share = self._weights[:, self._columns(node)].sum(1) / np.maximum(self._weights.sum(1), 1e-9)  # (T,)
        best, score = (end, end), -np.inf
        for low, high in free:
            for a in range(low, high) if not node.from_start else range(low, low + (low == first)):
                gains = np.cumsum(share[a:high] - HALF)
                if node.to_end:
                    gains[:-1] = -np.inf
                    if high != end:
                        continue
                b = int(gains.argmax())
                if gains[b] > score:
                    best, score = (a, a + b + 1), float(gains[b])
        if node.from_start and score == -np.inf:
            return first, first
        a, b = best
        columns = self._columns(node)
        if columns and self._is_word(columns[-1]) and not node.to_end:
            # A full stop often looks at the last word; it is no part of it.
            while b - a > 1 and self._is_sign(b - 1):
                b -= 1
        return a, b

    def _gap(self, node: _Node, parent: _Node, first: int, end: int) -> Gap:
        """Where something that stands alone goes, by its neighbours in the source."""
        inside = self._columns(parent)
        before = [s for s in inside if self._source_words[s][1] <= node.start]
        after = [s for s in inside if self._source_words[s][0] >= node.start]
        if not before or first == end:
            return first, node.right != "space" or first == end
        if not any(map(self._is_word, after)):
            last = end
            if after or self._is_word(before[-1]):
                while last > first and self._target[slice(*self.words[last - 1])] in FINAL:
                    last -= 1
            return last if last > first else end, False
        left, right = before[-1], after[0]
        to_left, to_right = (first + int(self._weights[first:end, s].argmax()) for s in (left, right))
        behind, at = (to_left + 1, False), (to_right, True)
        if node.left == "glued" and node.right != "glued":
            return behind
        if node.right == "glued" or to_right == to_left + 1:
            return at
        # They are not neighbours any more. The surer link decides, and that of a word rather than that of a sign.
        sure_left = self._weights[to_left, left] / (1 if self._is_word(left) else 2)
        sure_right = self._weights[to_right, right] / (1 if self._is_word(right) else 2)
        return behind if sure_left > sure_right else at

    def _is_sign(self, t: int) -> bool:
        return not any(map(str.isalnum, self._target[slice(*self.words[t])]))

    def _is_word(self, s: int) -> bool:
        return any(map(str.isalnum, self._source[slice(*self._source_words[s])]))
