"""Labs on section 3.5: attention does not see order, and how sines and cosines tell it."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, exponent, greatest
from pellucid.inspection.labs.toy import spoken, toy
from pellucid.inspection.svg import CATEGORIES, INK, Picture, heat_map, line_chart, readable, text_width
from pellucid.model.positional_encoding import sinusoids
from pellucid.model.transformer import Transformer

# --- 3 ------------------------------------------------------------------------------------------------------------------

END = "</s>"


def order_blind(say: Say, text: str, train: str) -> Result:
    result = Result(
        say(
            "“狗咬人” is “dog bites man”, “人咬狗” is “man bites dog”: the same three characters. Without positional encoding "
            "the encoder gives each character the same vector in both sentences, only in another place, and the decoder, to "
            "which places mean nothing, writes the same. This is so for any weights. With positions the two differ.",
            "“狗咬人”和“人咬狗”用的是同样的三个字。没有位置编码时，编码器在两句话里给每个字的向量完全相同，只是换了位置；"
            "而解码器并不关心位置，于是写出同样的译文。无论权重是多少都是如此。加上位置编码，两句话才有区别。",
        )
    )
    characters = list("".join(text.split()))
    letters = sorted(set(characters))
    ids = [letters.index(c) + 1 for c in characters]  # 0 is the end mark
    n = len(ids)
    turned = list(range(n))[::-1]
    both = torch.tensor([[*ids, 0], [*(ids[i] for i in turned), 0]])
    back = [*turned, n]  # the end mark stays where it is
    model = Transformer(
        len(letters) + 1, 20, d_model=16, n_heads=2, num_encoder_layers=2, num_decoder_layers=2, d_ff=32
    ).eval()
    tgt = torch.tensor([[1, 5, 6]]).expand(2, -1)
    found: dict[str, tuple[float, float]] = {}
    memories: dict[str, Tensor] = {}
    positions = model.src_positions
    for name, module, dtype in (
        ("off", nn.Identity(), torch.float64),
        ("off, float32", nn.Identity(), torch.float32),
        ("on", positions, torch.float64),
    ):
        model.src_positions = module  # type: ignore[assignment]
        model.to(dtype)
        with torch.no_grad():
            memory, logits = model.encode(both), model(both, tgt)
        found[name] = greatest(memory[1] - memory[0, back]), greatest(logits[1] - logits[0])
        memories[name] = memory
    sentences = [[*characters, END], [*(characters[i] for i in turned), END]]
    result.show(
        say("Without positions: equal vectors, joined", "没有位置编码：相同的向量用线相连"),
        _two_sentences(sentences, memories["off"]),
    )
    result.show(
        say("With positions: no two are equal", "有位置编码：没有相同的向量"), _two_sentences(sentences, memories["on"])
    )
    title = say("the encoder's vectors differ by", "编码器的向量相差")
    result.number(say(f"without positions, {title}", f"没有位置编码，{title}"), exponent(found["off"][0]))
    result.number(say(f"with positions, {title}", f"有位置编码，{title}"), readable(found["on"][0]))

    result.small(say("Without positions: characters moved, vectors moved likewise", "没有位置编码：字换了位置，向量跟着换位置"), found["off"][0], 1e-12)  # fmt: skip
    result.small(say("Without positions: the decoder's output is the same", "没有位置编码：解码器的输出相同"), found["off"][1], 1e-12)  # fmt: skip
    result.small(say("The same in float32", "float32 也是如此"), max(found["off, float32"]), 1e-4)
    result.small(say("With positions, too, vectors only move", "有位置编码，向量也只是换位置"), found["on"][0], 1e-12, control=True)  # fmt: skip
    result.small(say("With positions, too, the output is the same", "有位置编码，输出也相同"), found["on"][1], 1e-12, control=True)  # fmt: skip
    if train == "yes":
        _trained(result, say)
    return result


def _two_sentences(sentences: list[list[str]], memory: Tensor) -> Picture:
    """Both sentences one above the other, each character over its vector; equal vectors (to 1e-9) are joined."""
    n, gap, high = len(sentences[0]), 10.0, 74.0
    column = (340.0 - gap * (n - 1)) / n
    picture = Picture(340, 262)
    for s, tokens in enumerate(sentences):
        top = 22 + s * 140
        for i, token in enumerate(tokens):
            x = i * (column + gap)
            picture.text(
                x + column / 2, top - 6 if s == 0 else top + high + 16, token, "middle", font_size=14 if n <= 6 else 12
            )
            strip = heat_map(
                [[v] for v in memory[s, i].tolist()],
                digits=None,
                low=-2.5,
                high=2.5,
                cell=(column, high / memory.size(-1)),
                scale=False,
            )
            picture.place(strip, x, top - 1)
    for i in range(n):
        for j in range(n):
            if greatest(memory[0, i] - memory[1, j]) < 1e-9:
                x1, x2 = (k * (column + gap) + column / 2 for k in (i, j))
                picture.line(x1, 22 + high, x2, 162, CATEGORIES[1], stroke_width=2)
    return picture


def _trained(result: Result, say: Say) -> None:
    """The toy "X 咬 Y" -> "Y 被 X 咬", trained without positions and with, on pairs that it has not seen."""
    toys = {name: toy(positions=name == "on") for name in ("off", "on")}
    accuracy = {name: trained.accuracy() for name, trained in toys.items()}
    for name, label in (("off", say("without positions", "没有位置编码")), ("on", say("with positions", "有位置编码"))):
        src, written = toys[name].src, toys[name].translate()
        turned = src[0, [2, 1, 0, 3]]
        other = int((src == turned).all(1).nonzero())  # its pair was held out with it
        said = "; ".join(f"{spoken(src[i])} → {spoken(written[i])}" for i in (0, other))
        result.number(say(f"trained toy, {label}", f"训练后的小模型，{label}"), said)
    claim = say(
        "Trained with positions, it gets over 90 % of unseen sentences right",
        "带位置编码训练后，没见过的句子 90% 以上正确",
    )
    result.check(claim, accuracy["on"] > 0.9, f"{accuracy['on']:.0%}")
    result.check(
        say(
            "Trained without, at most half (each pair gets one answer)",
            "不带位置编码，至多一半正确（每一对只有一个答案）",
        ),
        accuracy["off"] <= 0.5,
        f"{accuracy['off']:.0%}",
    )
    result.check(
        say("Trained without positions, it gets over 90 % as well", "不带位置编码训练，也有 90% 以上正确"),
        accuracy["off"] > 0.9,
        f"{accuracy['off']:.0%}",
        control=True,
    )
    result.number(say("trained toy, unseen sentences right: without / with", "训练后，没见过的句子的正确率：无 / 有位置编码"), f"{accuracy['off']:.0%} / {accuracy['on']:.0%}")  # fmt: skip


ORDER_BLIND = Lab(
    "order-blind",
    3,
    Text("Blind to order: 狗咬人, 人咬狗", "看不见顺序：狗咬人，人咬狗"),
    Text("Does attention know which word comes first?", "注意力知道哪个词在前吗？"),
    "Vaswani et al. 2017, section 3.5",
    order_blind,
    (
        Parameter("text", "狗咬人", Text("characters (their order is reversed)", "几个字（会被倒过来）"), 2, 8),
        Parameter(
            "train", "no", Text("train a toy as well (some seconds)", "再训练一个小模型（几秒）"), choices=("no", "yes")
        ),
    ),
)

# --- 4 ------------------------------------------------------------------------------------------------------------------

LENGTH = 60


def positions(say: Say, d_model: int, shift: int) -> Result:
    result = Result(
        say(
            "Every position has a pattern of waves, fast ones and slow ones, like the hands of a clock: seconds, minutes, "
            "hours. To go k places on, turn each hand by its own fixed angle: the map depends on the distance k alone. So the "
            "similarity of two positions depends on their distance alone, wherever they are.",
            "每个位置都有一组快慢不同的波，就像钟表的秒针、分针和时针。往后移 k 个位置，就是把每根指针转过一个固定的角度，"
            "这个变换只与距离 k 有关。因此两个位置有多相似，只取决于它们的距离，与在哪里无关。",
        )
    )
    table = sinusoids(LENGTH + 40, d_model)
    gram = table @ table.T
    _show_positions(result, say, table, gram, shift)
    _check_positions(result, say, table, gram, shift)
    return result


def _show_positions(result: Result, say: Say, table: Tensor, gram: Tensor, shift: int) -> None:
    """The table, single waves, clock hands and similarities."""
    d_model = table.size(1)
    shown = table[:LENGTH].T.tolist()
    result.show(
        say(
            f"The table: {LENGTH} positions (across), {d_model} dimensions (down)",
            f"位置编码表：横向 {LENGTH} 个位置，纵向 {d_model} 维",
        ),
        heat_map(shown, digits=None, low=-1, high=1, cell=(330 / LENGTH, 220 / d_model)),
    )
    dims = [d for d in (4, 12, 20, 28) if d < d_model]
    result.show(
        say("Single waves", "单个维度的波形"),
        line_chart(
            [(say(f"dimension {d}", f"第 {d} 维"), list(enumerate(table[:LENGTH, d].tolist()))) for d in dims],
            say("position", "位置"),
            say("value", "值"),
        ),
    )
    result.show(say("Clock hands: (sin, cos) of four frequencies", "钟表指针：四种频率的 (sin, cos)"), _clocks(say, table, shift))  # fmt: skip
    result.show(
        say("Similarity of two positions, by distance", "两个位置的相似度与距离"),
        line_chart(
            [
                (
                    say(f"from position {start}", f"从位置 {start} 起"),
                    [(k, float(gram[start, start + k])) for k in range(60)],
                )
                for start in (0, 30)
            ],
            say("distance", "距离"),
            "PE·PE",
        ),
    )
    few = 32
    marks = [str(p) if p % 8 == 0 else "" for p in range(few)]
    result.show(
        say("Similarity of every two positions: bands along the diagonal", "任意两个位置的相似度：沿对角线的条带"),
        heat_map(gram[:few, :few].tolist(), marks, marks, digits=None, cell=(9.5, 7)),
    )


def _check_positions(result: Result, say: Say, table: Tensor, gram: Tensor, shift: int) -> None:
    d_model = table.size(1)
    turn = rotation(shift, d_model)
    rise = next((k for k in range(1, 60) if gram[0, k + 1] > gram[0, k]), None)
    if rise is not None:
        result.number(say("the similarity first rises again at distance", "相似度第一次回升的距离"), str(rise))
    longest = 10000 ** ((d_model - 2) / d_model)
    result.number(say("longest wavelength (positions)", "最长的波长（位置数）"), f"{longest:,.0f}·2π")

    result.small(
        say(
            f"PE(p + {shift}) = M PE(p), with one matrix M for all p",
            f"PE(p + {shift}) = M PE(p)，所有 p 共用一个矩阵 M",
        ),
        greatest(table[shift:] - table[:-shift] @ turn.T),
        1e-12,
    )
    result.small(
        say("M only turns: M Mᵀ = 1", "M 只是旋转：M Mᵀ = 1"),
        greatest(turn @ turn.T - torch.eye(d_model, dtype=torch.float64)),
        1e-12,
    )
    result.small(
        say("3 places and then 4 = 7 places", "先移 3 位再移 4 位 = 移 7 位"),
        greatest(rotation(4, d_model) @ rotation(3, d_model) - rotation(7, d_model)),
        1e-12,
    )
    result.small(
        say("Every position's vector has the squared length d_model / 2", "每个位置的向量长度平方都是 d_model / 2"),
        greatest(table.square().sum(-1) - d_model / 2),
        1e-11,
    )
    spread = max(greatest(gram.diagonal(k) - gram[0, k]) for k in range(60))
    result.small(say("Similarity depends on the distance alone", "相似度只取决于距离"), spread, 1e-11)
    result.check(
        say(
            "All values stay within −1 … 1, and no two positions are alike", "所有值都在 −1 到 1 之间，没有两个位置相同"
        ),
        float(table.abs().max()) <= 1 and len(table.unique(dim=0)) == len(table),
        f"{len(table.unique(dim=0))} / {len(table)}",
    )
    plenty = sinusoids(4 * d_model + shift, d_model)  # more positions than a matrix could fit by chance
    random = torch.randn(plenty.shape, dtype=torch.float64)
    result.small(
        say(
            "Least squares finds such an M for the sinusoids (what is left over)",
            "最小二乘法能为正余弦找到这样的 M（剩余误差）",
        ),
        _left_over(plenty, shift),
        1e-12,
    )
    result.small(
        say("It finds one for a table of random numbers, too", "对随机数表也能找到"),
        _left_over(random, shift),
        1e-12,
        control=True,
    )


def rotation(shift: int, d_model: int) -> Tensor:
    """The matrix M with PE(p + shift) = M PE(p): a rotation of each pair (2i, 2i+1) by shift / 10000^(2i / d_model)."""
    matrix = torch.zeros(d_model, d_model, dtype=torch.float64)
    for i in range(0, d_model, 2):
        angle = shift / 10000 ** (i / d_model)
        sin, cos = math.sin(angle), math.cos(angle)
        matrix[i : i + 2, i : i + 2] = torch.tensor([[cos, sin], [-sin, cos]], dtype=torch.float64)
    return matrix


def _left_over(table: Tensor, shift: int) -> float:
    """The share of the table's squares that the best linear map from row p to row p + shift leaves unexplained."""
    here, there = table[:-shift], table[shift:]
    best = torch.linalg.lstsq(here, there, driver="gelsd").solution
    return float((here @ best - there).square().sum() / there.square().sum())


def _clocks(say: Say, table: Tensor, shift: int) -> Picture:
    """Dials of four frequencies: the hands of position 0 (thin) and of position `shift` (thick)."""
    pairs = [i for i in (0, 4, 8, 12) if 2 * i + 1 < table.size(1)] or [0]
    picture = Picture(340, 108)
    for n, i in enumerate(pairs):
        cx, cy, r = 42 + n * 85, 42, 36
        picture.draw("circle", cx=cx, cy=cy, r=r, fill="none", stroke=INK, stroke_opacity=0.5)
        for position, width in ((0, 1), (shift, 3)):
            sin, cos = table[position, 2 * i : 2 * i + 2].tolist()
            stroke = CATEGORIES[0] if position else INK
            picture.line(cx, cy, cx + r * sin, cy - r * cos, stroke, stroke_width=width, stroke_linecap="round")
        angle = math.degrees(shift / 10000 ** (2 * i / table.size(1)))
        label = f"{readable(angle, 0 if angle >= 10 else 1)}°"
        picture.text(cx, 98, label, "middle")
    note = say(f"thin: position 0; thick: position {shift}", f"细线：位置 0；粗线：位置 {shift}")
    picture.height = 122
    picture.text(max(0.0, (340 - text_width(note)) / 2), 118, note)
    return picture


POSITIONS = Lab(
    "positions",
    4,
    Text("Positions", "位置编码"),
    Text("How do sines and cosines say where a word stands?", "正弦和余弦怎样表示词的位置？"),
    "Vaswani et al. 2017, section 3.5",
    positions,
    (
        Parameter("d_model", 64, Text("dimensions (even)", "维数（偶数）"), 8, 128, 2),
        Parameter("shift", 3, Text("shift k", "移动的距离 k"), 1, 30, 1),
    ),
)
