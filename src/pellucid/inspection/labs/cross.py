"""Lab on section 3.2.3, the decoder's attention to the encoder: a dictionary that is looked up softly."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from pellucid.inspection.gates import without
from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, greatest
from pellucid.inspection.labs.toy import LETTERS, toy
from pellucid.inspection.labs.trained import TEXT, sample
from pellucid.inspection.measures import alignment_error_rate, hard_links
from pellucid.inspection.recorder import Head, recorded
from pellucid.inspection.svg import CATEGORIES, WIDTH, Picture, beside, heat_map, line_chart, text_width
from pellucid.inspection.trace import trace
from pellucid.inspection.words import merge
from pellucid.model.attention import scaled_dot_product_attention
from pellucid.translator import Translator


@torch.no_grad()
def cross_attention(say: Say, sharpness: float, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "The encoder's output is like a dictionary: each source word has a key (what it can be found by) and a value (what "
            "it says). The decoder's query is compared with all keys, and it gets all values, each to the degree that its key "
            "fits. A clear question gets one value, a vague one a mixture. It is the only way from the source to the target: "
            "close it, and every source is translated alike.",
            "编码器的输出好比一本词典：每个源语言词都有键（凭什么被查到）和值（查到什么）。解码器的 Query 与所有的 Key 比较，"
            "再按匹配程度取所有的 Value。问得清楚，就得到一个值；问得含糊，得到的是混合。"
            "这是从原文通往译文的唯一通道：一旦关上，无论原文是什么，译文都一样。",
        )
    )
    _dictionary(result, say, sharpness)
    _gates(result, say)
    if model is not None:
        _sentence(result, say, model, sample(model, text))
    return result


def _dictionary(result: Result, say: Say, sharpness: float) -> None:
    words = say("cats chase mice today", "猫 今天 追 老鼠").split()
    n = len(words)
    keys = torch.eye(n, dtype=torch.float64)
    values = torch.tensor([[10.0], [20.0], [30.0], [40.0]], dtype=torch.float64)

    def look_up(sharp: float) -> tuple[Tensor, Tensor]:
        query = sharp * math.sqrt(n) * keys[2:3]  # the scores after scaling: `sharp` for the third, 0 for the others
        return scaled_dot_product_attention(query, keys, values)

    answer, weights = look_up(sharpness)
    result.show(
        say(f"Asked for “{words[2]}”, sharpness {sharpness:g}", f"查询“{words[2]}”，清晰度 {sharpness:g}"),
        beside(
            [
                heat_map(weights.tolist(), [], words, caption=say("weights", "权重"), low=0, high=1, cell=(50, 26)),
                heat_map(values.T.tolist(), [], words, caption=say("values", "值"), digits=0, cell=(50, 26)),
            ]
        ),
    )
    grid = [s / 4 for s in range(41)]
    result.show(
        say("The clearer the question, the nearer to the one value", "问得越清楚，结果越接近那一个值"),
        line_chart(
            [
                (
                    say(f"weight of “{words[2]}”", f"“{words[2]}”的权重"),
                    [(s, float(look_up(s)[1][0, 2])) for s in grid],
                ),
                (say("each other word", "其他每个词"), [(s, float(look_up(s)[1][0, 0])) for s in grid]),
            ],
            say("sharpness", "清晰度"),
            say("weight", "权重"),
        ),
    )
    result.number(say("answer", "查询结果"), f"{float(answer):.2f}")
    share = math.exp(sharpness) / (math.exp(sharpness) + n - 1)
    result.small(
        say("Weight of the match = eˢ / (eˢ + n − 1)", "匹配词的权重 = eˢ / (eˢ + n − 1)"),
        abs(float(weights[0, 2]) - share),
        1e-12,
    )
    result.small(
        say("A very clear question gives the one value", "问得非常清楚，得到的就是那一个值"),
        abs(float(look_up(60)[0]) - 30),
        1e-12,
    )
    result.small(
        say("A question about nothing gives the mean", "什么都不问，得到平均值"), abs(float(look_up(0)[0]) - 25), 1e-12
    )


def _gates(result: Result, say: Say) -> None:
    small = toy()
    src, tgt = small.src[:2], small.tgt[:1].expand(2, -1)  # two sources, the same target for both
    heads = [Head("cross", 0, h) for h in range(small.model.config.n_heads)]
    with recorded(small.model) as recording:
        small.model(small.src[:1], small.tgt[:1, :-1])
    rows = [LETTERS[i] for i in small.tgt[0, 1:].tolist()]
    columns = [LETTERS[i] for i in small.src[0].tolist()]
    maps = [
        heat_map(
            head.tolist(), rows, columns, caption=say(f"head {h + 1}", f"第 {h + 1} 头"), low=0, high=1, cell=(31, 22)
        )
        for h, head in enumerate(recording.weights("cross")[0, 0])
    ]
    result.show(
        say(
            "A trained toy: X bites Y → Y is bitten by X. Rows: what is written next",
            "训练好的小模型：X 咬 Y → Y 被 X 咬。行：接下来要写的字",
        ),
        beside(maps, 345),
    )

    # Who bites and who is bitten, and the two characters for the biting: here it is known what belongs together.
    sure, possible = frozenset({(2, 0), (0, 2)}), frozenset({(1, 1), (1, 3)})
    errors = [
        alignment_error_rate([hard_links(head[:4].numpy())], [sure], [possible])
        for head in recording.weights("cross")[0, 0]
    ]
    result.number(
        say("alignment error rate of each head (names and 咬)", "各头的对齐错误率（名字和“咬”）"),
        ", ".join(f"{error:.0%}" for error in errors),
    )

    def difference(off: list[Head]) -> float:
        with without(small.model, off):
            first, second = small.model(src, tgt)
        return greatest(first - second)

    result.check(
        say(
            "All cross-attention off: two sources give the same output, bit for bit",
            "关掉全部交叉注意力：两个不同的原文，输出逐位相同",
        ),
        difference(heads) == 0,
        f"{difference(heads):g}",
    )
    result.check(
        say("One head left on: the same output, too", "只留下一个头：输出也相同"),
        difference(heads[1:]) == 0,
        f"{difference(heads[1:]):.2f}",
        control=True,
    )


def _sentence(result: Result, say: Say, model: Translator, text: str) -> None:
    found = trace(model, text)
    layers = found.cross.weights.size(0)
    layer = max(0, layers - 2)
    side = found.cross.rows_by("input")
    weights = merge(found.cross.weights[layer].mean(0), side.words, found.cross.columns.words)
    title = say(
        f"Your model, layer {layer + 1}, mean of its heads; a target word's row is where it is the input",
        f"你的模型，第 {layer + 1} 层，各头平均；译文的词按“作为输入”的那一行",
    )
    result.show(title, _links(side.word_texts[1:], found.cross.columns.word_texts, weights[1:].tolist()))
    result.number(say("the model translates", "模型的译文"), f"{found.text} → {found.translation}")


def _links(rows: list[str], columns: list[str], weights: list[list[float]]) -> Picture:
    """Target words on the right, source words on the left, joined by lines as thick as the weight."""
    step, left, right = 24.0, 6 + max(map(text_width, columns)), 6 + max(map(text_width, rows))
    picture = Picture(max(WIDTH, left + right + 80), step * max(len(rows), len(columns)) + 6)
    for j, word in enumerate(columns):
        picture.text(left - 6, (j + 0.7) * step, word, "end")
    for i, word in enumerate(rows):
        picture.text(picture.width - right + 6, (i + 0.7) * step, word)
        for j, weight in enumerate(weights[i]):
            if weight >= 0.05:
                picture.line(
                    left, (j + 0.55) * step, picture.width - right, (i + 0.55) * step, CATEGORIES[0],
                    stroke_width=6 * weight, stroke_opacity=0.75,
                )  # fmt: skip
    return picture


CROSS_ATTENTION = Lab(
    "cross-attention",
    10,
    Text("Cross-attention, a soft dictionary", "交叉注意力：一本软词典"),
    Text("How does the decoder look things up in the source?", "解码器怎样从原文里查东西？"),
    "Vaswani et al. 2017, section 3.2.3; Garg et al. 2019, arXiv 1909.02074 (the next-to-last layer)",
    cross_attention,
    (Parameter("sharpness", 2.0, Text("how clear the question is", "问题的清晰度"), 0, 20, 0.5), TEXT),
    seconds=1.0,
    takes_model=True,
)
