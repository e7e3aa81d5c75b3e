"""Labs on section 3.2: one head worked out by hand, the reason for sqrt(d_k), and several heads."""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Sequence

import torch

from pellucid.errors import ConfigError
from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, greatest
from pellucid.inspection.labs.trained import TEXT, changed, sample
from pellucid.inspection.measures import entropy
from pellucid.inspection.recorder import KINDS, attentions
from pellucid.inspection.svg import bars, beside, heat_map, histogram, line_chart, readable
from pellucid.inspection.trace import trace
from pellucid.model.attention import MultiHeadAttention, scaled_dot_product_attention
from pellucid.translator import Translator

Matrix = list[list[float]]

# --- 1 ------------------------------------------------------------------------------------------------------------------

CATS_QUERIES: Matrix = [[2, -2, 0, 0], [1, 1, 1, 1], [1, -1, 0, 0]]
"""The nouns ask for the verb; the verb asks for both nouns."""
CATS_KEYS: Matrix = [[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, 1, 1]]


def attention_by_hand(queries: Matrix, keys: Matrix, values: Matrix) -> tuple[Matrix, Matrix, Matrix]:
    """Equation (1) in plain Python, number by number: scores before scaling, weights, output."""
    scores = [[sum(q * k for q, k in zip(query, key, strict=True)) for key in keys] for query in queries]
    weights = []
    for row in scores:
        powers = [math.exp(score / math.sqrt(len(keys[0]))) for score in row]
        weights.append([power / sum(powers) for power in powers])
    output = [
        [sum(w * value[i] for w, value in zip(row, values, strict=True)) for i in range(len(values[0]))]
        for row in weights
    ]
    return scores, weights, output


def head_by_hand(say: Say, example: str) -> Result:
    result = Result(
        say(
            "Each word asks a question (query) and offers an answer (key, value). The score of a pair is the sum of the "
            "products of query and key; divided by √d_k = 2 and put through softmax the scores become shares, and the "
            "output is the values mixed in these shares. “chase” asks who does it and to whom: both nouns answer.",
            "每个词都提出一个问题（Query），也给出自己的答案（Key 和 Value）。Query 与 Key 逐项相乘再相加，就是这一对词的分数；"
            "除以 √d_k = 2，再经过 softmax，分数变成比例，输出就是按这些比例混合的 Value。“追”在问：谁追？追谁？两个名词都回应了它。",
        )
    )
    if example == "cats":
        words = ["cats", "chase", "mice"] if say.language == "en" else ["猫", "追", "老鼠"]
        queries, keys, values = CATS_QUERIES, CATS_KEYS, CATS_KEYS  # here a word says what it offers
    else:
        words = [say(f"word {i}", f"词 {i}") for i in (1, 2, 3)]
        queries, keys, values = torch.randn(3, 3, 4, dtype=torch.float64).tolist()
    scores, weights, output = attention_by_hand(queries, keys, values)
    q, k, v = (torch.tensor(x, dtype=torch.float64) for x in (queries, keys, values))
    real_output, real_weights = scaled_dot_product_attention(q, k, v)

    digits = 0 if example == "cats" else 1
    narrow, wide = (28.0, 24.0), (34.0, 24.0)
    inputs = [
        heat_map(queries, words, caption="Q", digits=digits, low=-2, high=2, cell=narrow),
        heat_map(keys, words, caption="K = V" if values is keys else "K", digits=digits, low=-2, high=2, cell=narrow),
    ]
    if values is not keys:
        inputs.append(heat_map(values, words, caption="V", digits=digits, low=-2, high=2, cell=narrow))
    scaled = [[score / 2 for score in row] for row in scores]
    steps = [
        heat_map(scores, words, words, caption="S = QKᵀ", digits=digits, cell=wide),
        heat_map(scaled, words, words, caption="S / √4", digits=1, cell=wide),
        heat_map(weights, words, words, caption="A = softmax", low=0, high=1, cell=wide),
        heat_map(output, words, caption="A V", low=-2, high=2, cell=wide),
    ]
    result.show(say("What goes in", "输入"), beside(inputs, 345))
    result.show(
        say("Step by step: rows ask, columns answer", "逐步计算：行是提问者，列是回答者"), beside(steps, 356, 14)
    )
    for word, key, score, weight in zip(words, keys, scores[1], weights[1], strict=True):
        products = " + ".join(f"{readable(a, digits)}×{readable(b, digits)}" for a, b in zip(queries[1], key, strict=True))  # fmt: skip
        found = f"{products} = {readable(score, digits)};  /2 = {readable(score / 2, max(1, digits))};  {weight:.2f}"
        result.number(f"{words[1]} → {word}", found)

    sums = real_weights.sum(-1)
    result.small(
        say("Worked out by hand = the model's own attention", "手工计算 = 模型自己的注意力"),
        max(
            greatest(real_output - torch.tensor(output, dtype=torch.float64)),
            greatest(real_weights - torch.tensor(weights, dtype=torch.float64)),
        ),
        1e-12,
    )
    result.small(say("Every row of weights sums to 1", "每一行权重之和为 1"), greatest(sums - 1), 1e-12)
    result.check(
        say("No output goes beyond the values that it mixes", "输出不会超出被混合的 Value 的范围"),
        _between(real_output, v),
        _extent(real_output, v),
    )
    raw = torch.tensor(scores, dtype=torch.float64)
    result.small(
        say("Without softmax the rows sum to 1 as well", "不做 softmax，每行之和也是 1"),
        greatest(raw.sum(-1) - 1),
        1e-12,
        control=True,
    )
    result.check(
        say("Without softmax no output goes beyond the values either", "不做 softmax，输出也不会超出 Value 的范围"),
        _between(raw @ v, v),
        _extent(raw @ v, v),
        control=True,
    )
    return result


def _between(output: torch.Tensor, values: torch.Tensor) -> bool:
    """Whether each number of `output` lies between the least and the greatest of its column of `values`."""
    slack = 1e-12
    return bool(((output >= values.amin(0) - slack) & (output <= values.amax(0) + slack)).all())


def _extent(output: torch.Tensor, values: torch.Tensor) -> str:
    lowest, highest, low, high = (
        readable(float(x), 2) for x in (output.min(), output.max(), values.min(), values.max())
    )
    return f"{lowest} … {highest} (V: {low} … {high})"


HEAD_BY_HAND = Lab(
    "head-by-hand",
    1,
    Text("One head by hand", "手算一个注意力头"),
    Text("How do scores become a mixture of words?", "分数是怎样变成词的混合的？"),
    "Vaswani et al. 2017, section 3.2.1, equation (1)",
    head_by_hand,
    (Parameter("example", "cats", Text("example", "例子"), choices=("cats", "random")),),
)

# --- 2 ------------------------------------------------------------------------------------------------------------------

WIDTHS = (4, 16, 64, 256, 512)


def why_sqrt(say: Say, d_k: int, n: int, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "A dot product of d_k pairs of random numbers has variance d_k: the wider the head, the larger the scores. "
            "Softmax of large scores puts nearly everything on one word, and there it hardly has a gradient. Divided by "
            "√d_k the scores have variance 1 whatever the width.",
            "d_k 对随机数的点积，方差就是 d_k：头越宽，分数越大。分数太大时，softmax 几乎把全部权重给了一个词，梯度也几乎消失。"
            "除以 √d_k 之后，无论头有多宽，分数的方差都是 1。",
        )
    )
    widths = sorted({*WIDTHS, d_k})
    measured = {width: _measure(width, n) for width in widths}
    chosen = measured[d_k]
    few = slice(None, 5000)
    result.show(
        say(f"Scores of random words, d_k = {d_k}", f"随机词之间的分数，d_k = {d_k}"),
        histogram(
            [
                ("q·k", chosen["scores"].flatten()[few].tolist()),
                ("q·k / √d_k", (chosen["scores"].flatten()[few] / math.sqrt(d_k)).tolist()),
            ],
            say("score", "分数"),
            say("share", "占比"),
        ),
    )
    names = [f"d_k {width}" for width in widths]
    plain, scaled = say("q·k", "q·k（不缩放）"), say("q·k / √d_k", "q·k / √d_k（缩放）")
    result.show(
        say(f"Largest weight among {n} words, on average", f"{n} 个词中最大的权重（平均）"),
        bars(
            names,
            [
                (plain, [float(m["plain"].amax(-1).mean()) for m in measured.values()]),
                (scaled, [float(m["scaled"].amax(-1).mean()) for m in measured.values()]),
            ],
        ),
    )
    result.show(
        say("How much gradient softmax lets through (1 − Σp²)", "softmax 能传过多少梯度（1 − Σp²）"),
        line_chart(
            [
                (name, [(width, float((1 - m[key].square().sum(-1)).mean())) for width, m in measured.items()])
                for name, key in ((plain, "plain"), (scaled, "scaled"))
            ],
            "d_k",
            say("trace of the Jacobian", "雅可比矩阵的迹"),
            log_x=True,
            marks=True,
        ),
    )
    ratios = [float(m["scores"].var()) / width for width, m in measured.items()]
    result.number("var(q·k) / d_k", ",  ".join(f"{width}: {ratio:.3f}" for width, ratio in zip(widths, ratios, strict=True)))  # fmt: skip
    result.number(say("all words alike would be", "若平均分配，每个词应得"), f"1/{n} = {1 / n:.3f}")

    result.small(
        say("The variance of q·k is d_k (to a twentieth)", "q·k 的方差等于 d_k（误差不超过二十分之一）"),
        max(abs(ratio - 1) for ratio in ratios),
        0.05,
    )
    result.small(
        say("Scaled, the largest weight is the same at every width", "缩放之后，最大权重与头的宽度无关"),
        _spread([float(m["scaled"].amax(-1).mean()) for m in measured.values()]),
        0.03,
    )
    p = chosen["plain"][0, 0]
    scores = chosen["scores"][0, 0]
    jacobian = torch.autograd.functional.jacobian(lambda s: s.softmax(-1), scores)
    result.small(
        say(
            "1 − Σp² is the trace of softmax's Jacobian, as autograd finds it",
            "1 − Σp² 就是自动求导得到的雅可比矩阵的迹",
        ),
        abs(float(jacobian.trace() - (1 - p.square().sum()))),
        1e-12,
    )
    result.small(
        say("Not scaled, the largest weight is the same at every width", "不缩放，最大权重也与头的宽度无关"),
        _spread([float(m["plain"].amax(-1).mean()) for m in measured.values()]),
        0.03,
        control=True,
    )
    if model is not None:
        _unscaled(result, say, model, sample(model, text))
    return result


def _unscaled(result: Result, say: Say, model: Translator, text: str) -> None:
    """A trained model whose scores are multiplied by sqrt(d_k), as if nobody had divided them."""
    without = copy.deepcopy(model.model)
    d_k = without.config.d_model // without.config.n_heads
    with torch.no_grad():
        for layer in itertools.chain(*attentions(without).values()):
            for parameter in layer.w_q.parameters():
                parameter.mul_(math.sqrt(d_k))
    found = trace(model, text)
    other = changed(model, without)
    forced = trace(other, found.text, found.translation)
    kinds = [say("encoder", "编码器"), say("decoder", "解码器"), say("cross", "交叉")]
    entropies = [
        (title, [float(entropy(seen.maps(kind).weights.double().numpy()).mean()) for kind in KINDS])
        for title, seen in ((say("as trained", "原样"), found), (say("not divided", "不除以 √d_k"), forced))
    ]
    result.show(
        say("Your model: entropy of its attention (nats)", "你的模型：注意力的熵（nat）"),
        bars(kinds, entropies),
    )
    result.number(say("your model translates", "你的模型的译文"), found.translation)
    result.number(say("without the division", "不除以 √d_k"), trace(other, text).translation)
    result.number(
        say("log-probability of its own translation", "原译文的对数概率"),
        f"{readable(found.log_prob)} → {readable(forced.log_prob)}",
    )


def _measure(d_k: int, n: int) -> dict[str, torch.Tensor]:
    """Scores of 200 x 20 random queries with `n` keys (200, 20, n), and their weights without scaling and with."""
    q, k = torch.randn(200, 20, d_k, dtype=torch.float64), torch.randn(200, n, d_k, dtype=torch.float64)
    scores = q @ k.transpose(-2, -1)
    return {"scores": scores, "plain": scores.softmax(-1), "scaled": scaled_dot_product_attention(q, k, k)[1]}


def _spread(values: Sequence[float]) -> float:
    return max(values) - min(values)


WHY_SQRT = Lab(
    "why-sqrt",
    2,
    Text("Why divide by √d_k", "为什么要除以 √d_k"),
    Text("What would go wrong without the division?", "如果不除，会出什么问题？"),
    "Vaswani et al. 2017, section 3.2.1 with footnote 4",
    why_sqrt,
    (
        Parameter("d_k", 64, Text("width of a head, d_k", "每个头的维度 d_k"), 1, 512, 1),
        Parameter("n", 32, Text("words to choose from", "可选的词数"), 2, 128, 1),
        TEXT,
    ),
    seconds=0.5,
    takes_model=True,
)

# --- 7 ------------------------------------------------------------------------------------------------------------------

MANY_WIDTH = 32
PAPER_BLEU = {1: 24.9, 4: 25.5, 8: 25.8, 16: 25.8, 32: 25.4}
"""Table 3, rows (A) and base: heads against BLEU, at equal cost."""


def many_heads(say: Say, n_heads: str, off: int) -> Result:
    heads = int(n_heads)
    if off > heads:
        raise ConfigError(
            f"`off` of the lab many-heads must be a head, 1 to {heads}, or 0 for none, but is {off}", hint="off=0"
        )
    result = Result(
        say(
            "Every head looks in its own way and adds its own contribution; the output is simply the sum of all of them and "
            "a bias. More heads do not cost more weights: each becomes narrower. So a head can be switched off by taking "
            "away its contribution, and nothing else changes.",
            "每个头各看各的，各自贡献一份，输出就是所有贡献之和再加上偏置。头的数目增加，参数并不增加，因为每个头变窄了。"
            "所以，去掉某个头的贡献就等于关掉这个头，其余部分不受影响。",
        )
    )
    attention = MultiHeadAttention(MANY_WIDTH, heads).double()
    torch.nn.init.normal_(attention.w_o.bias)  # a bias of 0 would hide that it belongs to no head
    words = say("the old dog sleeps here", "老 狗 在 这里 睡觉").split()
    x = torch.randn(1, len(words), MANY_WIDTH, dtype=torch.float64)
    with torch.no_grad():
        output, contributions = attention(x, x, x)[0], head_contributions(attention, x)
        bias = attention.w_o.bias
        without = contributions.sum(0) - contributions[off - 1 if off else 0] + bias
        attention.w_o.weight.view(MANY_WIDTH, heads, -1)[:, off - 1 if off else 0] = (
            0  # that head's rows of the paper's W^O
        )
        silenced = attention(x, x, x)[0]

    sizes = contributions.norm(dim=-1)[:, 0].tolist()  # (H, T)
    if off:
        sizes[off - 1] = [None] * len(words)
    labels = [say(f"head {h + 1}", f"第 {h + 1} 头") for h in range(heads)]
    result.show(
        say("Length of each head's contribution", "每个头的贡献的长度"),
        heat_map(sizes, labels, words, digits=1, cell=(44, 18 if heads > 8 else 24), missing=say("off", "关")),
    )
    counts = {h: sum(p.numel() for p in MultiHeadAttention(MANY_WIDTH, h).parameters()) for h in (1, 2, 4, 8, 16)}
    result.show(
        say("The paper's translators: BLEU by number of heads", "论文中的翻译模型：头数与 BLEU"),
        line_chart(
            [("BLEU", list(PAPER_BLEU.items()))],
            say("heads", "头数"),
            "BLEU (en-de, newstest2013)",
            log_x=True,
            marks=True,
        ),
    )
    result.number(
        say("weights, whatever the number of heads", "参数量（与头数无关）"), f"{counts[heads]:,} = 4·32² + 4·32"
    )
    result.number(say("width of a head", "每个头的维度"), f"32 / {heads} = {MANY_WIDTH // heads}")
    if off:
        change = (silenced - output).norm(dim=-1).mean() / output.norm(dim=-1).mean()
        result.number(
            say(f"without head {off} the output moves by", f"关掉第 {off} 头，输出变化"), f"{float(change):.0%}"
        )

    result.small(
        say("Sum of the heads' contributions + bias = the layer's output", "各头贡献之和 + 偏置 = 这一层的输出"),
        greatest(contributions.sum(0) + bias - output),
        1e-12,
    )
    result.check(
        say("1, 2, 4, 8 or 16 heads: the same number of weights", "1、2、4、8、16 个头，参数量都一样"),
        len(set(counts.values())) == 1 and counts[1] == 4 * MANY_WIDTH**2 + 4 * MANY_WIDTH,
        ", ".join(f"{h}: {count}" for h, count in counts.items()),
    )
    result.small(
        say("Contribution taken away = the head's rows of W^O set to 0", "去掉贡献 = 把 W^O 中这个头的行设为 0"),
        greatest(without - silenced),
        1e-12,
    )
    result.small(
        say("Without one of the heads the sum is still the output", "少了一个头，贡献之和仍等于输出"),
        greatest(without - output),
        1e-12,
        control=True,
    )
    return result


def head_contributions(attention: MultiHeadAttention, x: torch.Tensor) -> torch.Tensor:
    """A_h V_h W^O_h of every head: (H, B, T, D). With W^O's bias their sum is the output for `x` (B, T, D)."""
    _, weights = attention(x, x, x)  # (B, H, T, T)
    values = attention.w_v(x).unflatten(-1, (attention.n_heads, -1)).transpose(1, 2)  # (B, H, T, K)
    w_o = attention.w_o.weight.unflatten(-1, (attention.n_heads, -1))  # (D, H, K)
    return torch.einsum("bhts,bhsk,dhk->hbtd", weights, values, w_o)


MANY_HEADS = Lab(
    "many-heads",
    7,
    Text("Many heads", "多头注意力"),
    Text("What do several heads add, and what do they cost?", "多个头带来什么？代价是什么？"),
    "Vaswani et al. 2017, section 3.2.2 and Table 3 (A)",
    many_heads,
    (
        Parameter("n_heads", "4", Text("heads", "头数"), choices=("1", "2", "4", "8", "16")),
        Parameter("off", 0, Text("head to switch off (0: none)", "要关掉的头（0 表示不关）"), 0, 16, 1),
    ),
)
