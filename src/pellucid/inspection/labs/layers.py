"""Labs on sections 3.1 and 3.3: the feed-forward network, and what the residual sum and the norm are for."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, exponent, greatest
from pellucid.inspection.svg import CATEGORIES, INK, Picture, bars, heat_map, line_chart, readable
from pellucid.model.attention import SelfAttention
from pellucid.model.feed_forward import FeedForward
from pellucid.model.stacks import AddAndNorm, Encoder, EncoderLayer

# --- 8 ------------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def feed_forward(say: Say, d_ff: int) -> Result:
    d_model = 16
    result = Result(
        say(
            "After attention has mixed the words, each word is worked on alone: widened, everything negative set to 0 (ReLU), "
            "and narrowed again, by the same two matrices at every place. Which of the wide units fire depends on the word. "
            "Two thirds of an encoder layer's weights are here.",
            "注意力把词混合之后，每个词再单独加工：先变宽，把负数置零（ReLU），再变窄；每个位置用的是同样的两个矩阵。"
            "哪些单元被激活，取决于是什么词。编码器层约三分之二的参数都在这里。",
        )
    )
    network = FeedForward(d_model, d_ff).double()
    words = say("the old dog sleeps here", "老 狗 在 这里 睡觉").split()
    x = torch.randn(1, len(words), d_model, dtype=torch.float64)
    together = network(x)
    alone = torch.cat([network(x[:, i : i + 1]) for i in range(len(words))], 1)
    order = torch.tensor([3, 0, 4, 1, 2])
    fired = network.w_1(x)[0].relu()  # (T, F)

    shown = min(d_ff, 48)
    result.show(
        say(
            f"The first {shown} wide units, a row for each word: dark = silent",
            f"前 {shown} 个单元，每行一个词：深色 = 未激活",
        ),
        heat_map(fired[:, :shown].tolist(), words, digits=None, cell=(270 / shown, 24), low=0),
    )
    result.show(say("Wider and narrow again", "先变宽，再变窄"), _hourglass(say, d_model, d_ff))
    shares = (fired > 0).double().mean(-1)
    result.show(say("Share of the units that fire", "被激活的单元占比"), bars(words, [("", shares.tolist())]))
    layer = EncoderLayer(d_model, 2, 4 * d_model)
    own = 2 * d_model * d_ff + d_ff + d_model
    two_thirds = _weights(layer.feed_forward) / (_weights(layer.feed_forward) + _weights(layer.self_attention))
    result.number(say("weights", "参数量"), f"2·{d_model}·{d_ff} + {d_ff} + {d_model} = {own:,}")
    result.number(say("units that fire", "激活的单元"), f"{float(shares.mean()):.0%}")

    result.small(
        say("All words together = each word alone", "所有词一起算 = 每个词单独算"), greatest(together - alone), 1e-12
    )
    result.small(
        say("Words in another order: outputs in that order", "词换了顺序，输出只是跟着换顺序"),
        greatest(network(x[:, order]) - together[:, order]),
        1e-12,
    )
    result.check(
        say(
            "It has 2·d_model·d_ff weights and d_ff + d_model biases",
            "参数量为 2·d_model·d_ff，另有 d_ff + d_model 个偏置",
        ),
        sum(p.numel() for p in network.parameters()) == own,
        f"{sum(p.numel() for p in network.parameters()):,}",
    )
    result.check(
        say(
            "At d_ff = 4·d_model it has two thirds of the layer's matrices",
            "d_ff = 4·d_model 时，占这一层矩阵参数的三分之二",
        ),
        two_thirds == 2 / 3,
        f"{two_thirds:.4f}",
    )
    attention = SelfAttention(d_model).double()
    one_by_one = torch.cat([attention(x[:, i : i + 1])[0] for i in range(len(words))], 1)
    result.small(
        say("For attention, too, all together = each alone", "对注意力来说，一起算也等于单独算"),
        greatest(attention(x)[0] - one_by_one),
        1e-12,
        control=True,
    )
    return result


def _weights(module: nn.Module) -> int:
    """Numbers in its matrices, biases left out."""
    return sum(p.numel() for p in module.parameters() if p.dim() == 2)


def _hourglass(say: Say, d_model: int, d_ff: int) -> Picture:
    picture = Picture(340, 150)
    longest = 200.0
    narrow = max(4.0, longest * d_model / d_ff)
    stages = (
        (say("input", "输入"), narrow, d_model),
        ("ReLU(x W₁ + b₁)", longest, d_ff),
        (say("output", "输出"), narrow, d_model),
    )
    for i, (name, width, count) in enumerate(stages):
        y = 4 + i * 50
        picture.text(0, y + 15, name)
        picture.rect(112 + (longest - width) / 2, y, width, 22, CATEGORIES[i % 2])
        picture.text(112 + longest + 6, y + 15, str(count), font_size=11)
    for upper, lower, y in ((narrow, longest, 26), (longest, narrow, 76)):
        for side in (-1, 1):
            middle = 112 + longest / 2
            picture.line(middle + side * upper / 2, y, middle + side * lower / 2, y + 28, INK, stroke_opacity=0.4)
    return picture


FEED_FORWARD = Lab(
    "feed-forward",
    8,
    Text("The feed-forward network", "前馈网络"),
    Text("What happens to a word between two attentions?", "两次注意力之间，每个词经历了什么？"),
    "Vaswani et al. 2017, section 3.3, equation (2)",
    feed_forward,
    (Parameter("d_ff", 64, Text("width inside, d_ff", "中间层的宽度 d_ff"), 16, 512, 1),),
)

# --- 9 ------------------------------------------------------------------------------------------------------------------


class WithoutSum(AddAndNorm):
    """LayerNorm(Sublayer(x)): the residual sum left out."""

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return self.norm(sublayer)


class WithoutNorm(AddAndNorm):
    """x + Sublayer(x): the norm left out."""

    def forward(self, x: Tensor, sublayer: Tensor) -> Tensor:
        return x + sublayer


def add_and_norm(say: Say, layers: int) -> Result:
    result = Result(
        say(
            "Each sub-layer's output is added to its input, and the sum is normalised to mean 0 and variance 1. Without the "
            "sum, attention mixes the words layer by layer until all of them have the same vector, and little gradient comes "
            "back to the first layers. Without the norm, vectors grow from layer to layer.",
            "每个子层的输出都与输入相加，再把和归一化为均值 0、方差 1。没有残差，注意力会一层层地把词混合，直到所有词的向量完全相同，"
            "传回前几层的梯度也很小。没有归一化，向量会逐层变长。",
        )
    )
    d_model = 16
    x = 3 * torch.randn(1, 6, d_model, dtype=torch.float64) + 1
    wrap = AddAndNorm(d_model, 0.0, "post").double()
    sub = torch.randn(1, 6, d_model, dtype=torch.float64)
    normed = wrap(x, sub)
    total = x + sub
    variance = total.var(-1, correction=0)
    expected = variance / (variance + wrap.norm.eps)

    both, no_sum, no_norm = (_through(kind, layers) for kind in (AddAndNorm, WithoutSum, WithoutNorm))
    names = (say("Add & Norm", "残差 + 归一化"), say("no residual sum", "去掉残差"), say("no norm", "去掉归一化"))
    for key, title, unit in (
        ("difference", say("How much words differ after each layer", "每层之后，词与词的差别"), say("difference / length (log)", "差别 / 长度（对数）")),
        ("length", say("Length of a word's vector after each layer", "每层之后，词向量的长度"), say("length (log)", "长度（对数）")),
        ("gradient", say("Size of the gradient in each layer's weights", "每层权重的梯度大小"), say("gradient (log)", "梯度（对数）")),
    ):  # fmt: skip
        curves = [list(enumerate(kind[key], 1)) for kind in (both, no_sum, no_norm)]
        result.show(title, line_chart(list(zip(names, curves, strict=True)), say("layer", "层"), unit, log_y=True))
    for name, kind in zip(names, (both, no_sum, no_norm), strict=True):
        label = say(f"gradient of the first layer / of the last: {name}", f"第一层梯度 / 最后一层梯度：{name}")
        result.number(label, readable(kind["gradient"][0] / kind["gradient"][-1], 3))

    result.small(say("The mean of what leaves is 0", "输出的均值为 0"), greatest(normed.mean(-1)), 1e-12)
    result.small(
        say("Its variance is σ²/(σ² + ε), next to 1", "输出的方差是 σ²/(σ² + ε)，接近 1"),
        greatest(normed.var(-1, correction=0) - expected),
        1e-12,
    )
    result.small(
        say(
            "A vector times 5 plus 2: the same after the norm (up to ε)", "向量乘以 5 再加 2，归一化之后不变（只差 ε）"
        ),
        greatest(wrap.norm(5 * total + 2) - normed),
        1e-4,
    )
    root = 32**0.5
    result.small(
        say("With the norm every vector has length √d_model", "有归一化时，每个向量的长度都是 √d_model"),
        max(abs(length - root) for length in both["length"]),
        1e-3,
    )
    result.check(
        say("With the residual sum words still differ after the last layer", "有残差时，最后一层之后词与词仍然不同"),
        both["difference"][-1] > 0.01,
        exponent(both["difference"][-1]),
    )
    result.small(
        say("Without the norm, too, vectors have length √d_model", "没有归一化，向量的长度也是 √d_model"),
        max(abs(length - root) for length in no_norm["length"]),
        1e-3,
        control=True,
    )
    result.check(
        say("Without the residual sum, too, words still differ", "没有残差，词与词也仍然不同"),
        no_sum["difference"][-1] > 0.01,
        exponent(no_sum["difference"][-1]),
        control=True,
    )
    return result


def _through(kind: type[AddAndNorm], layers: int) -> dict[str, list[float]]:
    """What `layers` fresh encoder layers, wrapped in `kind`, do to random words; a number a layer.

    difference: of a word from the mean of its sentence, over its length; length: of a vector, on average; gradient: its
    norm over the layer's weights, for a random linear function of what leaves the last layer.
    """
    torch.manual_seed(1)  # the same weights, whatever they are wrapped in
    encoder = Encoder(layers, 32, 4, 64, 0.0).double()
    for layer in encoder.layers:
        for name in ("add_norm_1", "add_norm_2"):
            setattr(layer, name, kind(32, 0.0, "post").double())
    x = torch.randn(4, 8, 32, dtype=torch.float64)
    differences, lengths = [], []
    for layer in encoder.layers:
        x = layer(x)
        words = x.detach()
        differences.append(float(((words - words.mean(1, keepdim=True)).norm(dim=-1) / words.norm(dim=-1)).mean()))
        lengths.append(float(words.norm(dim=-1).mean()))
    (x * torch.randn_like(x)).sum().backward()
    gradients = []
    for layer in encoder.layers:
        squares = [p.grad.square().sum() for p in layer.parameters() if p.grad is not None]
        gradients.append(float(torch.stack(squares).sum().sqrt()))
    return {"difference": differences, "length": lengths, "gradient": gradients}


ADD_AND_NORM = Lab(
    "add-and-norm",
    9,
    Text("Add & Norm", "残差连接与层归一化"),
    Text("What are the residual sum and the normalisation for?", "残差连接和层归一化有什么用？"),
    "Vaswani et al. 2017, section 3.1; Ba et al. 2016, arXiv 1607.06450; Dong et al. 2021, arXiv 2103.03404 (words become alike)",
    add_and_norm,
    (Parameter("layers", 24, Text("layers", "层数"), 12, 48, 1),),
    seconds=0.5,
)
