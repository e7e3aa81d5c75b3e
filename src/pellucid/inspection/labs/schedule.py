"""Lab on sections 5.3 and 5.4: the learning rate, and label smoothing."""

from __future__ import annotations

import math

import torch

from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, greatest
from pellucid.inspection.svg import bars, line_chart, readable
from pellucid.training.loss import label_smoothed_cross_entropy
from pellucid.training.optimizer import noam_rate


def schedule_and_smoothing(say: Say, d_model: int, warmup: int, smoothing: float) -> Result:
    result = Result(
        say(
            "The learning rate rises evenly for the first updates, when gradients are still wild, and then falls with the root "
            "of the number of updates. Label smoothing gives a little of the target to all words, so that the model never "
            "gains by being wholly certain: the least possible loss is not 0 but the entropy of the smoothed target.",
            "训练开始时梯度还很不稳定，学习率先匀速上升（预热），之后按更新次数的平方根下降。标签平滑把目标的一小部分分给所有的词，"
            "模型就不会因为绝对自信而得到好处：损失的最小值不是 0，而是平滑后目标的熵。",
        )
    )
    _schedule(result, say, d_model, warmup)
    _smoothing(result, say, smoothing)
    return result


def _schedule(result: Result, say: Say, d_model: int, warmup: int) -> None:
    last = 5 * warmup
    updates = sorted({1, warmup, *(max(1, last * i // 120) for i in range(121))})
    curves = {w: [(u, noam_rate(u, d_model, w)) for u in updates] for w in (warmup, 2 * warmup)}
    result.show(
        say("The learning rate", "学习率"),
        line_chart(
            [(say(f"warm-up {w}", f"预热 {w} 步"), curve) for w, curve in curves.items()],
            say("update", "更新次数"),
            say("rate", "学习率"),
        ),
    )
    rates = [noam_rate(u, d_model, warmup) for u in range(1, 3 * warmup)]
    result.number(say("highest rate", "最大学习率"), readable(max(rates), 5))
    written = [d_model**-0.5 * min(u**-0.5, u * warmup**-1.5) for u in range(1, 3 * warmup)]
    result.small(
        say("The rate is equation (3)", "学习率就是公式 (3)"),
        max(abs(a - b) for a, b in zip(rates, written, strict=True)),
        1e-12,
    )
    result.check(
        say("It is highest at the last update of the warm-up", "预热的最后一步学习率最大"),
        rates.index(max(rates)) + 1 == warmup,
        str(rates.index(max(rates)) + 1),
    )
    result.check(
        say("Without warm-up the first update's rate is as small, too", "没有预热，第一步的学习率也一样小"),
        noam_rate(1, d_model, 1) <= 1.01 * rates[0],
        f"{readable(noam_rate(1, d_model, 1), 4)} > {readable(rates[0], 4)}",
        control=True,
    )


def _smoothing(result: Result, say: Say, smoothing: float) -> None:
    vocabulary = 8
    target = torch.full((vocabulary,), smoothing / vocabulary, dtype=torch.float64)
    target[2] += 1 - smoothing
    names = [
        say(f"word {i + 1}", f"词 {i + 1}") + (say(" (right)", "（正确）") if i == 2 else "") for i in range(vocabulary)
    ]
    result.show(
        say(f"The smoothed target, ε = {smoothing:g}", f"平滑后的目标，ε = {smoothing:g}"),
        bars(names, [("", target.tolist())], digits=3),
    )
    shares = [i / 200 for i in range(100, 200)] + [0.999, 0.9999]
    result.show(
        say("Loss by the probability of the right word", "正确词的概率与损失"),
        line_chart(
            [
                (say("smoothed", "平滑"), [(p, _loss_at(p, vocabulary, smoothing)) for p in shares]),
                (say("not smoothed", "不平滑"), [(p, _loss_at(p, vocabulary, 0.0)) for p in shares]),
            ],
            say("probability of the right word", "正确词的概率"),
            say("loss (nats)", "损失（nat）"),
        ),
    )
    entropy = float(-(target * target.clamp(min=1e-300).log()).sum())
    result.number(say("least loss", "最小损失"), f"{entropy:.4f}")
    result.small(say("The smoothed target sums to 1", "平滑后的目标之和为 1"), abs(float(target.sum()) - 1), 1e-12)
    label = torch.tensor(2)
    at_target = float(label_smoothed_cross_entropy(target.clamp(min=1e-30).log(), label, smoothing, None))
    result.small(
        say("The loss of the smoothed target itself is its entropy", "以平滑后的目标作预测，损失就是它的熵"),
        abs(at_target - entropy),
        1e-5,
    )
    others = [
        float(
            label_smoothed_cross_entropy(torch.randn(vocabulary, dtype=torch.float64) * scale, label, smoothing, None)
        )
        for scale in (0.5, 2.0, 8.0)
        for _ in range(200)
    ]
    result.check(
        say("No other prediction has a smaller loss (600 tried)", "没有别的预测损失更小（试了 600 个）"),
        min(others) >= entropy,
        f"{min(others):.4f} ≥ {entropy:.4f}",
    )
    logits = torch.randn(vocabulary, requires_grad=True)
    label_smoothed_cross_entropy(logits, label, smoothing, None).backward()
    assert logits.grad is not None
    result.small(
        say("Its gradient by the logits is p − q", "损失对 logits 的梯度是 p − q"),
        greatest(logits.grad - (logits.softmax(-1) - target.float())),
        1e-6,
    )
    certain = label_smoothed_cross_entropy(torch.tensor([0.0, 0, 40, 0, 0, 0, 0, 0]), label, smoothing, None)
    result.check(
        say("Whoever is wholly certain and right has no loss", "绝对自信并且正确，就没有损失"),
        float(certain) < 0.01,
        f"{float(certain):.2f}",
        control=True,
    )


def _loss_at(p: float, vocabulary: int, smoothing: float) -> float:
    """The loss if the right word has probability `p` and all others share the rest."""
    logits = torch.full((vocabulary,), math.log((1 - p) / (vocabulary - 1)), dtype=torch.float64)
    logits[2] = math.log(p)
    return float(label_smoothed_cross_entropy(logits, torch.tensor(2), smoothing, None))


SCHEDULE_AND_SMOOTHING = Lab(
    "schedule-and-smoothing",
    15,
    Text("Learning rate and label smoothing", "学习率与标签平滑"),
    Text("Why start slowly, and why not aim at 100 %?", "为什么要慢慢起步？为什么不以 100% 为目标？"),
    "Vaswani et al. 2017, section 5.3, equation (3), and section 5.4; Szegedy et al. 2015",
    schedule_and_smoothing,
    (
        Parameter("d_model", 512, Text("model width", "模型宽度"), 16, 4096, 1),
        Parameter("warmup", 4000, Text("warm-up updates", "预热步数"), 10, 20000, 1),
        Parameter("smoothing", 0.1, Text("smoothing ε", "平滑 ε"), 0.01, 0.5, 0.01),
    ),
    seconds=0.2,
)
