"""Labs on section 3.2.3: the triangle that hides the future, and the mask that hides padding."""

from __future__ import annotations

import torch

from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, exponent, greatest
from pellucid.inspection.recorder import attentions, recorded
from pellucid.inspection.svg import beside, heat_map, line_chart
from pellucid.model.attention import scaled_dot_product_attention
from pellucid.model.transformer import DecoderState, Transformer

LENGTH = 7
VOCABULARY = 30
PAD = VOCABULARY - 1


def small_model(dtype: torch.dtype = torch.float64) -> Transformer:
    """Two layers of two heads with random weights; what is claimed here is true of any weights."""
    model = Transformer(
        VOCABULARY, VOCABULARY, d_model=16, n_heads=2, num_encoder_layers=2, num_decoder_layers=2, d_ff=32,
        pad_id=PAD, start_id=PAD,
    )  # fmt: skip
    return model.eval().to(dtype)


# --- 5 ------------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def triangle(say: Say, t: int) -> Result:
    result = Result(
        say(
            "In training the decoder is given the whole right answer at once. What lies above the diagonal is hidden, so that "
            "no word can look at a later one: change the words from t on, and nothing before t moves, not by one bit. Take "
            "the mask away, and the future leaks into the past.",
            "训练时，解码器一次就拿到整句正确答案。对角线以上的部分被遮住，任何词都看不到后面的词："
            "把第 t 个词及以后的词全部换掉，前面的输出一个比特也不会变。去掉掩码，未来就会泄漏到过去。",
        )
    )
    model = small_model()
    src = torch.tensor([[3, 4, 5, 0]])
    tgt = torch.tensor([[PAD, 11, 12, 13, 14, 15, 16]])
    other = tgt.clone()
    other[:, t:] += 7  # other words from position t on
    memory = model.encode(src)
    open_mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    moved = (model.decode(tgt, memory) - model.decode(other, memory)).abs().amax(-1)[0]
    leaked = (model.decode(tgt, memory, open_mask) - model.decode(other, memory, open_mask)).abs().amax(-1)[0]

    _show_scores(result, say, model, tgt)
    result.show(
        say(
            f"How far outputs move when words {t + 1} to {LENGTH} change",
            f"换掉第 {t + 1} 到 {LENGTH} 个词，各位置的输出变化多少",
        ),
        line_chart(
            [
                (say("with the mask", "有掩码"), list(enumerate(moved.tolist(), 1))),
                (say("without", "无掩码"), list(enumerate(leaked.tolist(), 1))),
            ],
            say("position", "位置"),
            say("change", "变化"),
            marks=True,
        ),
    )

    for dtype, name in ((torch.float64, "float64"), (torch.float32, "float32")):
        model.to(dtype)
        memory = model.encode(src)
        before, after = model.decode(tgt, memory)[:, :t], model.decode(other, memory)[:, :t]
        result.check(
            say(
                f"Later words changed: what comes before is the same bit for bit ({name})",
                f"换掉后面的词，前面的输出逐位相同（{name}）",
            ),
            torch.equal(before, after),
            exponent(greatest(before - after)),
        )
        cut = model.decode(tgt[:, :t], memory)
        tolerance = 1e-12 if dtype == torch.float64 else 1e-5
        result.small(
            say(
                f"Later words cut off: the same but for rounding ({name})",
                f"删去后面的词，结果相同（只差舍入误差，{name}）",
            ),
            greatest(cut - before),
            tolerance,
        )
    model.double()
    memory = model.encode(src)
    whole = model.project(model.decode(tgt, memory))
    result.check(
        say("Every weight above the diagonal is exactly 0", "对角线以上的权重恰好为 0"),
        _above_diagonal(model, tgt) == 0,
        exponent(_above_diagonal(model, tgt)),
    )
    state = DecoderState(model, src)
    steps = torch.stack([state.step(tgt[:, i]) for i in range(LENGTH)], 1)
    result.small(
        say(
            "All positions at once = one after the other, as in translating", "一次算完所有位置 = 像翻译时那样逐个计算"
        ),
        greatest(whole - steps),
        1e-12,
    )
    result.check(
        say("Without the mask, too, what comes before stays the same", "没有掩码，前面的输出也不变"),
        bool(leaked[:t].max() == 0),
        exponent(float(leaked[:t].max())),
        control=True,
    )
    return result


def _show_scores(result: Result, say: Say, model: Transformer, tgt: torch.Tensor) -> None:
    """The first head of the first layer: scores, what is left of them, weights."""
    names = [str(i + 1) for i in range(LENGTH)]
    layer = attentions(model)["decoder"][0]
    x = model.tgt_positions(model.tgt_embedding(tgt))
    q, k, v = (w(x)[0, :, :8] for w in (layer.w_q, layer.w_k, layer.w_v))  # the first head
    scores = q @ k.T / 8**0.5
    lower = torch.ones(LENGTH, LENGTH).tril().bool()
    hidden = [[score if j <= i else None for j, score in enumerate(row)] for i, row in enumerate(scores.tolist())]
    weights = scaled_dot_product_attention(q, k, v, lower)[1]
    cell = (40.0, 22.0)
    result.show(say("1. Scores q·k/√d_k", "1. 分数 q·k/√d_k"), heat_map(scores.tolist(), names, names, cell=cell))
    result.show(
        say("2. The upper triangle hidden", "2. 遮住上三角"), heat_map(hidden, names, names, cell=cell, missing="−∞")
    )
    result.show(
        say("3. After softmax: nothing from later words", "3. softmax 之后：后面的词权重为 0"),
        heat_map(weights.tolist(), names, names, cell=cell, low=0, high=1),
    )
    blind = greatest(scaled_dot_product_attention(q, k, v, torch.zeros_like(lower))[0])
    result.number(say("a row with all hidden gives", "一行全部被遮住时，输出"), f"{blind:g}")


def _above_diagonal(model: Transformer, tgt: torch.Tensor) -> float:
    """The greatest weight that any head of the decoder gives to a later position, under the model's own mask."""
    with recorded(model) as recording:
        model(torch.tensor([[3, 0]]), tgt)
    return float(recording.weights("decoder").triu(1).max())


TRIANGLE = Lab(
    "triangle",
    5,
    Text("The triangle", "上三角掩码"),
    Text("How is the decoder kept from looking ahead?", "怎样防止解码器偷看后面的词？"),
    "Vaswani et al. 2017, section 3.2.3",
    triangle,
    (Parameter("t", 4, Text("words that stay; later ones change", "保留前几个词，后面的都换掉"), 1, LENGTH - 1, 1),),
)

# --- 6 ------------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def padding(say: Say, pads: int) -> Result:
    result = Result(
        say(
            "Sentences of a batch must be equally long, so the short ones are filled up. A mask hides the filling: a sentence "
            "gives the same whether it stands alone or beside a longer one. Without the mask words look at the filling too, "
            "and the same sentence gets another meaning in another batch.",
            "一个批次里的句子必须一样长，短句要用填充补齐。掩码把填充遮住：一句话单独计算，或与更长的句子放在一起，结果都相同。"
            "没有掩码，词也会去看填充，同一句话换一个批次就变了意思。",
        )
    )
    sentence = [3, 4, 5, 0]
    alone = torch.tensor([sentence])
    filled = torch.tensor([sentence + [PAD] * pads])
    tgt = torch.tensor([[PAD, 11, 12]])
    everything = torch.ones(1, 1, 1, filled.size(1), dtype=torch.bool)
    model = small_model()
    differences = {}
    for dtype in (torch.float64, torch.float32):
        model.to(dtype)
        expected = model(alone, tgt)
        differences[dtype] = (greatest(model(filled, tgt) - expected), greatest(model(filled, tgt, everything) - expected))  # fmt: skip
    model.double()
    memory_moves = {}
    for name, mask in (("with", None), ("without", everything)):
        memory_moves[name] = (model.encode(filled, mask)[:, :4] - model.encode(alone)).abs().amax(-1)[0].tolist()

    x = model.src_positions(model.src_embedding(filled))
    attention = attentions(model)["encoder"][0]
    words = [*say("old dogs sleep", "老 狗 睡觉").split(), "</s>"]
    columns = words + [f"<pad>{i + 1}" if pads > 1 else "<pad>" for i in range(pads)]
    maps = []
    for caption, mask in (
        (say("with the mask", "有掩码"), model.padding_mask(filled)),
        (say("without", "无掩码"), everything),
    ):
        weights = torch.as_tensor(attention(x, x, x, mask)[1])[0, 0, :4].tolist()
        maps.append(heat_map(weights, words, columns, caption=caption, low=0, high=1, cell=(34, 24)))
    result.show(say("Weights of one head", "一个头的注意力权重"), beside(maps))
    result.show(
        say("How far padding moves each word's vector", "填充使每个词的向量变化多少"),
        line_chart(
            [
                (say("with the mask", "有掩码"), list(enumerate(memory_moves["with"], 1))),
                (say("without", "无掩码"), list(enumerate(memory_moves["without"], 1))),
            ],
            say("word", "词"),
            say("change", "变化"),
            marks=True,
        ),
    )
    result.small(
        say("Alone or filled up: the same output (float64)", "单独计算与补齐后计算，输出相同（float64）"),
        differences[torch.float64][0],
        1e-12,
    )
    result.small(say("The same in float32", "float32 也相同"), differences[torch.float32][0], 1e-5)
    result.small(
        say("Without the mask the output is the same too", "没有掩码，输出也相同"),
        differences[torch.float32][1],
        1e-5,
        control=True,
    )
    return result


PADDING = Lab(
    "padding",
    6,
    Text("The padding mask", "填充掩码"),
    Text(
        "Does a sentence change when it is filled up to the length of another?",
        "句子被补齐到另一句的长度，结果会变吗？",
    ),
    "Vaswani et al. 2017, section 3.2.3",
    padding,
    (Parameter("pads", 3, Text("padding tokens", "填充的个数"), 1, 6, 1),),
)
