"""Lab on section 6.1: beam search, with all that it looks at on the way."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from pellucid.config import SearchConfig
from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text
from pellucid.inspection.labs.trained import TEXT, sample
from pellucid.inspection.svg import CATEGORIES, INK, Picture, fixed, readable, text_width
from pellucid.inspection.trace import trace
from pellucid.search import Candidate, Hypothesis, Vocabulary, beam_search, greedy_search, length_penalty
from pellucid.translator import Translator

LONGEST = 3
"""Words before the end mark."""
END, START = 0, 4
FOLLOWS = {  # after this word: the probabilities of </s>, well, dogs, sleep
    START: (0.00, 0.50, 0.40, 0.10),
    1: (0.25, 0.15, 0.32, 0.28),
    2: (0.10, 0.05, 0.05, 0.80),
    3: (0.90, 0.05, 0.03, 0.02),
}
VOCABULARY = Vocabulary(END, START, forbidden=(START,))


class Table:
    """A language model that is a table: the next word depends on the last one alone."""

    def step(self, tokens: Tensor) -> Tensor:
        rows = [[*map(_log, FOLLOWS.get(t, FOLLOWS[START])), -math.inf] for t in tokens.tolist()]
        return torch.tensor(rows)

    def reorder(self, rows: Tensor, sources: Tensor | None = None) -> None:
        """Nothing is remembered but the last word, which comes with each step."""


def _log(p: float) -> float:
    return math.log(p) if p else -math.inf


def log_prob(tokens: Sequence[int]) -> float:
    """Of all `tokens`, from the table."""
    return sum(_log(FOLLOWS[before][token]) for before, token in itertools.pairwise((START, *tokens)))


def everything(alpha: float) -> list[tuple[float, tuple[int, ...]]]:
    """Every sentence of at most three words with its score, the best first: brute force."""
    found = []
    for n in range(LONGEST + 1):
        for words in itertools.product((1, 2, 3), repeat=n):
            found.append((log_prob((*words, END)) / float(length_penalty(n + 1, alpha)), words))
    return sorted(found, reverse=True)


@dataclass(frozen=True)
class Box:
    """A candidate in the picture."""

    parent: int
    """Its parent's place in the column before."""
    text: str
    total: float
    state: str
    best: bool
    """On the way of the chosen sentence."""


def beam(say: Say, beam_size: int, alpha: float, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "Greedy search takes the likeliest word each time and never looks back. Beam search keeps the best few beginnings: "
            "one that starts worse may end better. Here “well” is the likeliest first word, but “dogs sleep” is the likelier "
            "sentence. As every further word makes a sentence less probable, scores are divided by a length penalty.",
            "贪心搜索每次只取概率最大的词，从不回头。束搜索保留最好的几个开头：开头差一点的，结尾可能更好。"
            "这里“嗯”是概率最大的第一个词，但“狗睡觉”整句的概率更大。每多一个词，句子的概率就更小，所以分数要除以长度惩罚。",
        )
    )
    words = ["</s>", *say("well dogs sleep", "嗯 狗 睡觉").split()]
    config = SearchConfig(beam_size=beam_size, length_penalty=alpha)
    best, steps = search(config)
    brute = everything(alpha)
    greedy = greedy_search(Table(), [LONGEST], VOCABULARY, SearchConfig(beam_size=1, length_penalty=alpha))[0][0]
    result.show(
        say(f"Beam of {beam_size}: steps from left to right", f"束宽 {beam_size}：从左到右一步一步"),
        lattice(columns(steps, best, words), say),
    )

    def spoken(tokens: Sequence[int]) -> str:
        return " ".join(words[t] for t in tokens) or say("(nothing)", "（空）")

    for name, tokens, score in (
        (say("greedy", "贪心"), greedy.tokens, greedy.score),
        (say(f"beam {beam_size}", f"束宽 {beam_size}"), best.tokens, best.score),
        (say("best of all 40 sentences", "全部 40 句中最好的"), brute[0][1], brute[0][0]),
    ):
        result.number(name, f"{spoken(tokens)}  ({readable(score, 3)})")

    one, _ = search(SearchConfig(beam_size=1, length_penalty=alpha))
    result.check(
        say("A beam of 1 is greedy search", "束宽为 1 就是贪心搜索"),
        one.tokens == greedy.tokens,
        f"{spoken(one.tokens)} = {spoken(greedy.tokens)}",
    )
    whole, _ = search(SearchConfig(beam_size=27, length_penalty=alpha))
    result.small(
        say("A beam with room for all (27) finds the best of all", "束宽足够大（27）时，找到的就是全局最优"),
        abs(whole.score - brute[0][0]),
        1e-5,
    )
    mistakes = []
    for t, candidates in enumerate(steps):
        mistakes += [abs(candidate.total - log_prob(way_back(steps, t, candidate))) for candidate in candidates]
    result.small(
        say("Every candidate leads back to the start, and its sum is right", "每个候选都能追溯到起点，累计值也正确"),
        max(mistakes),
        1e-5,
    )
    end = [END] if best.finished else []
    again = log_prob([*best.tokens, *end]) / float(length_penalty(len(best.tokens) + len(end), alpha))
    result.small(
        say("The score shown = scored again as a whole", "显示的分数 = 整句重新打分"), abs(best.score - again), 1e-5
    )
    result.check(
        say("Greedy search finds the best of all, too", "贪心搜索也能找到全局最优"),
        greedy.tokens == brute[0][1],
        f"{spoken(greedy.tokens)} ≠ {spoken(brute[0][1])}",
        control=True,
    )
    if model is not None:
        _sentence(result, say, model, sample(model, text), beam_size, alpha)
    return result


def search(config: SearchConfig) -> tuple[Hypothesis, list[list[Candidate]]]:
    """The best sentence of the table, and the possible candidates of every step."""
    steps: list[list[Candidate]] = []

    def watch(_: int, candidates: Sequence[Candidate]) -> None:
        steps.append([c for c in candidates if c.total > -math.inf])

    return beam_search(Table(), [LONGEST], VOCABULARY, config, watch=watch)[0][0], steps


def way_back(steps: Sequence[Sequence[Candidate]], t: int, candidate: Candidate) -> list[int]:
    """All tokens of a candidate of step `t`, by way of its parents."""
    tokens = [candidate.token]
    for step in reversed(steps[:t]):
        candidate = [c for c in step if c.state == "kept"][candidate.parent]
        tokens.insert(0, candidate.token)
    return tokens


def columns(steps: Sequence[Sequence[Candidate]], best: Hypothesis, words: Sequence[str]) -> list[list[Box]]:
    """The candidates as boxes, a column a step."""
    chosen = [*best.tokens, END]
    found: list[list[Box]] = []
    for t, candidates in enumerate(steps):
        kept = [] if t == 0 else [i for i, c in enumerate(steps[t - 1]) if c.state == "kept"]
        boxes = []
        for c in candidates:
            on_the_way = c.state != "pruned" and way_back(steps, t, c) == chosen[: t + 1]
            boxes.append(Box(kept[c.parent] if kept else -1, words[c.token], c.total, c.state, on_the_way))
        found.append(boxes)
    return found


def lattice(found: Sequence[Sequence[Box]], say: Say) -> Picture:
    """A column a step, a box a candidate, the likeliest on top; a line leads back to where each goes on from."""
    tall, gap = 34.0, 34.0
    widths = [max(64.0, *(text_width(box.text) + 12 for box in boxes)) for boxes in found]
    lefts = [sum(widths[:t]) + t * gap for t in range(len(found))]
    deepest = max(len(boxes) for boxes in found)
    picture = Picture(max(lefts[-1] + widths[-1] + 2, 300), deepest * (tall + 6) + 22)
    for t, boxes in enumerate(found):
        for i, box in enumerate(boxes):
            y = 2 + i * (tall + 6)
            faint = 0.45 if box.state == "pruned" else 1.0
            stroke = CATEGORIES[1] if box.best else INK
            if box.parent >= 0:
                start = lefts[t - 1] + widths[t - 1], 2 + box.parent * (tall + 6) + tall / 2
                opacity = 1.0 if box.best else 0.5 * faint
                picture.line(*start, lefts[t], y + tall / 2, stroke, stroke_width=2.5 if box.best else 1, stroke_opacity=opacity)  # fmt: skip
            picture.rect(
                lefts[t], y, widths[t], tall, "none", rx=4, stroke=stroke, stroke_width=2.5 if box.best else 1,
                stroke_dasharray="3 3" if box.state == "pruned" else None, stroke_opacity=faint,
            )  # fmt: skip
            if box.state == "finished":
                picture.rect(
                    lefts[t] + 3, y + 3, widths[t] - 6, tall - 6, "none", rx=2, stroke=stroke, stroke_width=0.8
                )
            pale = 0.7 if box.state == "pruned" else None
            picture.text(lefts[t] + widths[t] / 2, y + 15, box.text, "middle", fill_opacity=pale)
            total = fixed(box.total, 2)
            picture.text(lefts[t] + widths[t] / 2, y + 28, total, "middle", font_size=10, fill_opacity=pale)
    note = say("dashed: dropped · double: finished · orange: chosen", "虚线：淘汰 · 双框：已结束 · 橙色：选中")
    picture.text(0, picture.height - 4, note, font_size=11)
    picture.width = max(picture.width, text_width(note, 11))
    return picture


def _sentence(result: Result, say: Say, model: Translator, text: str, beam_size: int, alpha: float) -> None:
    found = trace(model, text, config=model.with_search(beam_size=beam_size, length_penalty=alpha, n_best=1))
    tree = found.beam
    assert tree is not None
    boxes = [
        [Box(n.parent, n.token.text, n.total, n.state, tree.best[t : t + 1] == (i,)) for i, n in enumerate(nodes)]
        for t, nodes in enumerate(tree.steps)
    ]
    result.show(say(f"Your model: {found.text}", f"你的模型：{found.text}"), lattice(boxes, say))
    result.number(say("the model translates", "模型的译文"), found.translation)
    if tree.best:
        end = tree.steps[len(tree.best) - 1][tree.best[-1]]
        result.small(
            say(
                "Your model: the search's sum = the sentence scored as a whole", "你的模型：搜索的累计值 = 整句重新打分"
            ),
            abs(end.total - found.log_prob),
            1e-3,
        )


BEAM_SEARCH = Lab(
    "beam-search",
    14,
    Text("Beam search, step by step", "一步一步看束搜索"),
    Text("Why keep several beginnings?", "为什么要同时保留几个开头？"),
    "Vaswani et al. 2017, section 6.1; Wu et al. 2016, equation (14)",
    beam,
    (
        Parameter("beam_size", 2, Text("beam", "束宽"), 1, 8, 1),
        Parameter("alpha", 0.6, Text("length penalty α", "长度惩罚 α"), 0, 2, 0.1),
        TEXT,
    ),
    takes_model=True,
)
