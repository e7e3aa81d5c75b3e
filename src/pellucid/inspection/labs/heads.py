"""Labs on what single heads do: what they look at, what is lost without them, and whether a weight is an influence.

Without a model they work with heads that are made for the purpose and with the toy (:mod:`.toy`).
"""

from __future__ import annotations

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from pellucid.inspection.gates import gated, gates_without, without
from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, exponent, greatest
from pellucid.inspection.labs.toy import LETTERS, Toy, spoken, toy
from pellucid.inspection.labs.trained import TEXT, sample
from pellucid.inspection.measures import (
    Array,
    at_columns,
    at_offset,
    confidence,
    entropy,
    even,
    rarest_column,
    same_word,
    share_of_weight,
    spearman,
)
from pellucid.inspection.recorder import KINDS, Head, Kind, attentions, recorded
from pellucid.inspection.svg import bars, beside, heat_map
from pellucid.inspection.trace import trace
from pellucid.model.attention import scaled_dot_product_attention
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

# --- 11 -----------------------------------------------------------------------------------------------------------------

RANKS = {"the": 0, "old": 300, "dog": 400, "saw": 350, "axolotl": 9000, "</s>": -1}
"""How rare the words of the example are: 0 for the most frequent of all."""
ENGLISH = ["the", "old", "dog", "saw", "the", "old", "axolotl", "</s>"]
CHINESE = ["这", "老", "狗", "看见", "这", "老", "蝾螈", "</s>"]


def head_roles(say: Say, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "What a head has learnt is read from where its weight goes: to the word before, to the next, to the rarest word, to "
            "the end mark. To know that a measure measures that, give it heads that are made to do exactly one thing: each must "
            "score 1 on its own measure. And chance must be printed beside it: a head without any pattern scores more than 0.",
            "一个头学到了什么，要看它的权重放在哪里：前一个词、后一个词、最罕见的词，还是句末符号。要确认一个指标真的在测量这件事，"
            "就给它一些专门造出来、只做一件事的头：每个头在自己的指标上必须得 1。旁边还要写出随机水平：毫无规律的头也不会得 0。",
        )
    )
    words = ENGLISH if say.language == "en" else CHINESE
    n = len(words)
    ranks = np.array([RANKS[word] for word in ENGLISH])
    end = np.array([word == "</s>" for word in words])
    roles = {
        "previous": (say("previous word", "前一个词"), at_offset(n, n, -1)),
        "next": (say("next word", "后一个词"), at_offset(n, n, 1)),
        "same": (say("itself", "自己"), at_offset(n, n, 0)),
        "same_word": (say("same word elsewhere", "别处的同一个词"), same_word(words, words)),
        "rare": (say("rarest word", "最罕见的词"), at_columns(n, rarest_column(ranks))),
        "separator": (say("end mark", "句末符号"), at_columns(n, end)),
    }
    heads = {name: planted(role, end) for name, (_, role) in roles.items()}
    heads["even"] = even(n, n)
    heads["random"] = torch.randn(n, n, dtype=torch.float64).softmax(-1).numpy()
    names = {name: title for name, (title, _) in roles.items()}
    names |= {"even": say("everywhere evenly", "平均看所有词"), "random": say("random", "随机")}
    shown = [
        heat_map(heads[name].tolist(), caption=names[name], digits=None, low=0, high=1, cell=(12, 12), scale=False)
        for name in ("previous", "next", "same_word", "rare", "even", "random")
    ]
    for picture in shown:
        picture.width = 150.0
    result.show(
        say("Heads made for the purpose (rows look at columns)", "专门造出来的头（行看列）"), beside(shown, 345)
    )
    scores = {
        head: [float(np.nanmean(share_of_weight(weights, role))) for _, role in roles.values()]
        for head, weights in heads.items()
    }
    result.show(
        say("Heads (rows) by measure (columns)", "头（行）在各指标（列）上的得分"),
        heat_map(
            list(scores.values()),
            list(names.values()),
            [title for title, _ in roles.values()],
            low=0,
            high=1,
            cell=(31, 24),
        ),
    )
    spread = entropy(heads["even"]).mean() / math.log(n)
    result.number(say("entropy / log n: even, random, previous", "熵 / log n：平均、随机、前一个词"), ", ".join(f"{entropy(heads[k]).mean() / math.log(n):.2f}" for k in ("even", "random", "previous")))  # fmt: skip

    def scores_one(en: str, zh: str, score: float, *, control: bool = False) -> None:
        result.check(say(en, zh), abs(score - 1) <= 1e-12, f"{score:.2f}", control=control)

    for k, name in enumerate(roles):
        scores_one(f"A head made for it scores 1: {names[name]}", f"专门造的头得 1：{names[name]}", scores[name][k])
    result.small(say("A head that looks everywhere has entropy log n", "平均看所有词的头，熵为 log n"), abs(float(spread) - 1), 1e-12)  # fmt: skip
    chance = float(np.nanmean(share_of_weight(even(n, n), roles["previous"][1])))
    many = torch.randn(2000, n, n, dtype=torch.float64).softmax(-1).numpy()
    found = float(np.nanmean(share_of_weight(many, roles["previous"][1])))
    result.check(
        say("2,000 random heads score what an even one does: chance", "2000 个随机头的平均得分等于随机水平"),
        abs(found - chance) < 0.01,
        f"{found:.3f} ≈ {chance:.3f}",
    )
    previous = {name: row[0] for name, row in scores.items()}
    scores_one(
        "A random head scores 1 on “previous word”, too",
        "随机的头在“前一个词”上也得 1",
        previous["random"],
        control=True,
    )
    scores_one("The “next word” head, too", "“后一个词”的头也是", previous["next"], control=True)
    if model is not None:
        _roles_of(result, say, model, sample(model, text))
    return result


def planted(role: Array, end: Array) -> Array:
    """The map of a head that does nothing but `role` (T, S); rows that have no such place look at the `end` mark (S,)."""
    targets = np.where(role.any(-1, keepdims=True), role, end)
    return np.asarray(targets / targets.sum(-1, keepdims=True))


def _roles_of(result: Result, say: Say, model: Translator, text: str) -> None:
    """The encoder's heads of a model in one sentence."""
    maps = trace(model, text).encoder
    layers, heads, n, _ = maps.weights.shape
    real = np.array([not token.is_mark for token in maps.columns.tokens])
    weights = maps.weights.double().numpy()
    columns = {
        say("previous", "前一个"): share_of_weight(weights, at_offset(n, n, -1)),
        say("itself", "自己"): share_of_weight(weights, at_offset(n, n, 0)),
        say("next", "后一个"): share_of_weight(weights, at_offset(n, n, 1)),
        say("end mark", "句末"): share_of_weight(weights, at_columns(n, ~real)),
        say("confidence", "置信度"): confidence(weights, real),
    }
    rows = [[float(np.nanmean(v[layer, h])) for v in columns.values()] for layer in range(layers) for h in range(heads)]
    names = [str(Head("encoder", layer, h)) for layer in range(layers) for h in range(heads)]
    title = say(
        f"Your model's encoder in one sentence ({text}); `pellucid heads` measures hundreds",
        f"你的模型的编码器，只看一句话（{text}）；`pellucid heads` 会统计几百句",
    )
    result.show(title, heat_map(rows, names, list(columns), low=0, high=1, cell=(40, 20)))


HEAD_ROLES = Lab(
    "head-roles",
    11,
    Text("What did this head learn?", "这个头学到了什么？"),
    Text("How does one know what a head looks at?", "怎样知道一个头在看什么？"),
    "Voita et al. 2019 (P19-1580); Clark et al. 2019, arXiv 1906.04341",
    head_roles,
    (TEXT,),
    takes_model=True,
)

# --- 12 -----------------------------------------------------------------------------------------------------------------


def switch_off(say: Say, head: str, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "A gate stands behind every head: 1 lets its output through, 0 takes it away, and the bias of W^O stays. What the "
            "model loses says how much it needs the head as long as all others stay. The gradient by the gate estimates this "
            "for all heads in one backward pass; it is an estimate, and the two orders need not agree.",
            "每个头后面都有一个门：1 让输出通过，0 把它去掉，W^O 的偏置保留不变。模型损失了多少，说明在其他头都在的情况下它多需要这个头。"
            "对门求梯度，只要一次反向传播就能估计所有的头；但这只是估计，两种排序不一定一致。",
        )
    )
    small = toy()
    wanted = Head.parse(head, small.model if model is None else model.model) if head.strip() else None
    lost = _show_losses(result, say, small)
    worst = max(lost, key=lost.__getitem__)
    off = wanted if wanted is not None and model is None else worst
    with without(small.model, [off]):
        right, part = small.accuracy(), spoken(small.translate()[0])
    whole = spoken(small.translate()[0])
    result.number(say("all heads: unseen sentences right", "全部的头：没见过的句子正确率"), f"{small.accuracy():.0%}")
    result.number(say(f"without {off}", f"关掉 {off}"), f"{right:.0%}")
    result.number(spoken(small.src[0]), say(f"{whole}; without {off}: {part}", f"{whole}；关掉 {off}：{part}"))
    _check_gates(result, say, small, off, worst)
    if model is not None:
        _off_in(result, say, model, sample(model, text), wanted)
    return result


def _show_losses(result: Result, say: Say, small: Toy) -> dict[Head, float]:
    """What the toy loses without each head, and what the gradients say; the former comes back."""
    heads, whole, means = all_heads(small.model), loss(small.model, small), mean_outputs(small)
    lost, gently = {}, {}
    for head in heads:
        with without(small.model, [head]):
            lost[head] = loss(small.model, small) - whole
        with gated(small.model, gates_without(small.model, [head]), means):
            gently[head] = loss(small.model, small) - whole
    importance = gate_gradients(small)
    names = [str(head) for head in heads]
    series = [
        (say("its output 0", "输出设为 0"), list(lost.values())),
        (say("its mean output", "输出设为平均值"), list(gently.values())),
    ]
    result.show(
        say("A trained toy: loss gained with one head off (nats)", "训练好的小模型：关掉一个头后损失的增加（nat）"),
        bars(names, series, digits=3),
    )
    result.show(
        say("Importance by the gate's gradient", "用门的梯度估计的重要性"),
        bars(names, [("", list(importance.values()))], digits=5),
    )
    result.number(
        say("rank correlation of estimate and loss (Spearman)", "估计与实测的秩相关（Spearman）"),
        f"{spearman(list(importance.values()), list(lost.values())):.2f}",
    )
    return lost


@torch.no_grad()
def _check_gates(result: Result, say: Say, small: Toy, off: Head, worst: Head) -> None:
    exact, tgt = copy.deepcopy(small.model).double(), small.tgt[:, :-1]
    before = small.model(small.src, tgt)
    with gated(small.model, gates_without(small.model, [])):
        opened = small.model(small.src, tgt)
    with without(exact, [off]):
        closed = exact(small.src, tgt)
    with without(small.model, [worst]):
        moved = greatest(small.model(small.src, tgt) - before)
    zeroed = copy.deepcopy(exact)
    weight = attentions(zeroed)[off.kind][off.layer].w_o.weight  # (D, H K)
    weight.unflatten(1, (exact.config.n_heads, -1))[:, off.head] = 0
    slope, difference = _slopes(exact, small, off)
    result.check(
        say("All gates at 1: unchanged bit for bit", "所有的门为 1：逐位不变"),
        torch.equal(before, opened),
        exponent(greatest(before - opened)),
    )
    result.small(
        say("Gate 0 = that head's rows of W^O set to 0", "门为 0 = 把 W^O 中这个头的行设为 0"),
        greatest(closed - zeroed(small.src, tgt)),
        1e-12,
    )
    result.small(
        say("The gate's gradient = what a small turn of the gate does", "门的梯度 = 轻轻转动这扇门时损失的变化率"),
        abs(slope - difference),
        1e-7,
    )
    result.small(
        say("Without the most needed head, too, nothing changes", "关掉最需要的头，也什么都不变"),
        moved,
        1e-12,
        control=True,
    )


def all_heads(model: Transformer) -> list[Head]:
    """Every head of the three attentions."""
    return [
        Head(kind, layer, h)
        for kind, layers in attentions(model).items()
        for layer in range(len(layers))
        for h in range(model.config.n_heads)
    ]


def mean_outputs(pairs: Toy) -> dict[Kind, Tensor]:
    """What each head puts out on average, (L, H, K): for a gate that does not leave a hole."""
    with recorded(pairs.model) as recording:
        pairs.model(pairs.src, pairs.tgt[:, :-1])
    return {kind: torch.stack([layer.heads.mean((0, 2)) for layer in recording.of(kind)]) for kind in KINDS}


def loss(model: Transformer, pairs: Toy) -> float:
    """In nats per token of the unseen targets."""
    with torch.no_grad():
        return float(_loss(model, pairs.src, pairs.tgt))


def _loss(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    return F.cross_entropy(model(src, tgt[:, :-1]).flatten(0, 1), tgt[:, 1:].flatten())


def gate_gradients(pairs: Toy) -> dict[Head, float]:
    """Mean over sentences of abs(d loss / d gate), for every head (Michel et al. 2019, equation 2)."""
    model, rows = pairs.model, len(pairs.src)
    gates = {
        kind: ones[:, None].repeat(1, rows, 1).requires_grad_() for kind, ones in gates_without(model, []).items()
    }  # (L, B, H): each sentence has its own
    with gated(model, gates):
        (rows * _loss(model, pairs.src, pairs.tgt)).backward()  # the sum over sentences
    return {
        head: float(_gradient(gates[head.kind])[head.layer, :, head.head].abs().mean()) for head in all_heads(model)
    }


def _gradient(gate: Tensor) -> Tensor:
    assert gate.grad is not None
    return gate.grad


def _slopes(model: Transformer, pairs: Toy, head: Head) -> tuple[float, float]:
    """The derivative of the loss by a head's gate: by autograd, and by turning the gate a little."""

    def turned(amount: float) -> tuple[float, dict[Kind, Tensor]]:
        gates = gates_without(model, [])
        gates[head.kind][head.layer, head.head] = 1 + amount
        with torch.enable_grad(), gated(model, {kind: gate.requires_grad_() for kind, gate in gates.items()}):
            value = _loss(model, pairs.src, pairs.tgt)
            value.backward()
        return float(value.detach()), gates

    gradient = _gradient(turned(0.0)[1][head.kind])[head.layer, head.head]
    return float(gradient), (turned(1e-5)[0] - turned(-1e-5)[0]) / 2e-5


def _off_in(result: Result, say: Say, model: Translator, text: str, wanted: Head | None) -> None:
    """A sentence of the reader's own model: what each head is worth, and the translation without one."""
    found = trace(model, text)
    lost = {
        head: found.log_prob - trace(model, found.text, found.translation, off=[head]).log_prob
        for head in all_heads(model.model)
    }
    dearest = sorted(lost, key=lambda head: -lost[head])[:12]
    result.show(
        say(f"Your model, “{found.text}”: log-probability lost with one head off (12 dearest)", f"你的模型，“{found.text}”：关掉一个头后损失的对数概率（前 12 个）"),
        bars([str(head) for head in dearest], [("", [lost[head] for head in dearest])]),
    )  # fmt: skip
    off = wanted or dearest[0]
    result.number(say("your model translates", "你的模型的译文"), found.translation)
    result.number(say(f"without {off}", f"关掉 {off}"), trace(model, text, off=[off]).translation)


SWITCH_OFF = Lab(
    "switch-off",
    12,
    Text("Switch a head off", "关掉一个头"),
    Text("Does the model need this head?", "模型需要这个头吗？"),
    "Michel et al. 2019, arXiv 1905.10650, section 2.3 and equation (2)",
    switch_off,
    (
        Parameter(
            "head",
            "",
            Text("head, like cross.1.2 (empty: the most needed)", "哪个头，如 cross.1.2（留空：最需要的那个）"),
        ),
        TEXT,
    ),
    seconds=1.0,
    takes_model=True,
)

# --- 13 -----------------------------------------------------------------------------------------------------------------


@torch.no_grad()
def weight_or_influence(say: Say, text: str, model: Translator | None) -> Result:
    result = Result(
        say(
            "What attention brings from a word is the weight times the word's value vector, moved by W^O. A large weight on a "
            "short vector brings next to nothing; models often park weight there. So three things are told apart: the weight, "
            "the length of what is brought, and what the model loses when the word is hidden from it.",
            "注意力从一个词带来的，是权重乘以这个词的 Value 向量，再经过 W^O。向量很短，权重再大也几乎什么都没带来；"
            "模型常把用不着的权重放在这种地方。所以要区分三件事：权重、带来的向量有多长，以及把这个词藏起来后模型损失多少。",
        )
    )
    _planted_weights(result, say)
    small = toy()
    with recorded(small.model) as recording:
        small.model(small.src, small.tgt[:, :-1])
    layer = recording.of("cross")[0]
    maps = layer.weights.mean(1), layer.norms().mean(1), hidden_losses(small.model, small.src, small.tgt)  # (B, T, S)
    rows = [LETTERS[i] for i in small.tgt[0, 1:].tolist()]
    columns = [LETTERS[i] for i in small.src[0].tolist()]
    titles = (
        say("weight", "权重"),
        say("length brought", "带来的长度"),
        say("log p lost when hidden", "藏起来损失的 log p"),
    )
    result.show(
        say("A trained toy; weight and length: mean over the heads", "训练好的小模型；权重和长度为各头平均"),
        beside(
            [
                heat_map(m[0].tolist(), rows, columns, caption=title, cell=(32, 22))
                for title, m in zip(titles, maps, strict=True)
            ],
            345,
        ),
    )
    for k, title in ((0, titles[0]), (1, titles[1])):
        agreement = [spearman(*rows) for rows in zip(maps[k].flatten(0, 1).tolist(), maps[2].flatten(0, 1).tolist(), strict=True)]  # fmt: skip
        result.number(
            say(f"toy: rank correlation with what is lost: {title}", f"小模型：与损失的秩相关：{title}"),
            f"{float(np.nanmean(agreement)):.2f}",
        )
    share = (maps[0] / maps[0].sum(-1, keepdim=True))[..., -1].mean(), (maps[1] / maps[1].sum(-1, keepdim=True))[..., -1].mean()  # fmt: skip
    result.number(say("toy: share of the end mark, by weight / by length", "小模型：句末符号所占份额，按权重 / 按长度"), f"{float(share[0]):.0%} / {float(share[1]):.0%}")  # fmt: skip
    if model is not None:
        _influence_in(result, say, model, sample(model, text))
    return result


def _planted_weights(result: Result, say: Say) -> None:
    """Four words with planted weights and lengths: the largest weight lies on the shortest vector."""
    words = [*say("old dogs sleep", "老 狗 睡觉").split(), "</s>"]
    wanted = torch.tensor([0.15, 0.20, 0.05, 0.60], dtype=torch.float64)
    lengths = torch.tensor([2.0, 1.0, 4.0, 0.05], dtype=torch.float64)
    directions = F.normalize(torch.randn(4, 8, dtype=torch.float64), dim=-1)
    values = lengths[:, None] * directions  # what each word says, already through W^O
    # Keys 1, 0, 0, 0; 0, 1, 0, 0; ...: the scores are the query's own numbers, here the logarithms of the weights.
    query = wanted.log()[None] * 2  # times sqrt(4)
    output, weights = scaled_dot_product_attention(query, torch.eye(4, dtype=torch.float64), values)
    brought = weights[0] * values.norm(dim=-1)
    moves = torch.stack([(output[0] - (output[0] - weights[0, j] * values[j])).norm() for j in range(4)])
    result.show(
        say("Planted: the largest weight lies on the shortest vector", "特意构造：最大的权重落在最短的向量上"),
        bars(
            words,
            [(say("weight", "权重"), weights[0].tolist()), (say("length brought", "带来的长度"), brought.tolist())],
        ),
    )
    result.small(
        say("The weights are those that were planted", "权重就是构造时给定的"), greatest(weights[0] - wanted), 1e-12
    )
    result.small(
        say(
            "Taking a word's share away moves the output by the length brought",
            "去掉一个词的那一份，输出移动的距离等于带来的长度",
        ),
        greatest(moves - brought),
        1e-12,
    )
    result.check(
        say("The word with the largest weight also moves the output most", "权重最大的词，对输出的影响也最大"),
        int(weights[0].argmax()) == int(moves.argmax()),
        f"{words[int(weights[0].argmax())]} ≠ {words[int(moves.argmax())]}",
        control=True,
    )


def hidden_losses(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """How much log p of each target token (B, T) falls when source place j is hidden from every attention: (B, T, S)."""

    def log_p(mask: Tensor | None) -> Tensor:
        logits = model(src, tgt[:, :-1], mask)
        return logits.log_softmax(-1).gather(-1, tgt[:, 1:, None])[..., 0]

    whole = log_p(None)
    lost = []
    for j in range(src.size(1)):
        mask = torch.ones(1, 1, 1, src.size(1), dtype=torch.bool, device=src.device)
        mask[..., j] = False
        lost.append(whole - log_p(mask))
    return torch.stack(lost, -1)


def _influence_in(result: Result, say: Say, model: Translator, text: str) -> None:
    found = trace(model, text)
    device = model.model.output.weight.device
    src = torch.tensor([found.source_ids], device=device)
    tgt = torch.tensor([[*found.decoder_ids, found.target.tokens[-1].id]], device=device)
    weights, norms = found.cross.weights.mean((0, 1)).sum(0), found.cross.norms.mean((0, 1)).sum(0)  # (S,)
    lost = hidden_losses(model.model, src, tgt)[0].sum(0).cpu().clamp(min=0)
    shares = [(x / x.sum()).tolist() for x in (weights, norms, lost)]
    names = (
        say("weight", "权重"),
        say("length brought", "带来的长度"),
        say("log p lost when hidden", "藏起来损失的 log p"),
    )
    result.show(
        say(
            f"Your model: {found.text}; shares of all rows, all heads and layers",
            f"你的模型：{found.text}；所有行、所有头和层的份额",
        ),
        bars(found.source.texts, list(zip(names, shares, strict=True))),
    )
    result.number(say("your model translates", "你的模型的译文"), found.translation)
    for name, values in zip(names[:2], shares[:2], strict=True):
        label = say(f"your model: rank correlation with what is lost: {name}", f"你的模型：与损失的秩相关：{name}")
        result.number(label, f"{spearman(values, shares[2]):.2f}")
    last = [f"{values[-1]:.0%}" for values in shares]
    result.number(
        say(
            "your model: share of the end mark: weight / length / lost", "你的模型：句末符号的份额：权重 / 长度 / 损失"
        ),
        " / ".join(last),
    )


WEIGHT_OR_INFLUENCE = Lab(
    "weight-or-influence",
    13,
    Text("A weight is not an influence", "权重不等于影响"),
    Text("Does the word with the largest weight matter most?", "权重最大的词，影响就最大吗？"),
    "Kobayashi et al. 2020, arXiv 2004.10102; Abnar and Zuidema 2020, arXiv 2005.00928 (blank-out)",
    weight_or_influence,
    (TEXT,),
    seconds=1.0,
    takes_model=True,
)
