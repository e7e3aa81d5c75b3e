"""Lab on section 4: how far apart words are in a recurrent network, in attention, and what a training step costs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.inspection.labs.base import Lab, Parameter, Result, Say, Text, exponent
from pellucid.inspection.svg import line_chart
from pellucid.model.stacks import EncoderLayer

WIDTH = 32
BATCH = 8


def why_not_rnn(say: Say, longest: int) -> Result:
    result = Result(
        say(
            "A recurrent network hands on what it knows from word to word: the way from the first word to the last is as long as "
            "the sentence, and no step can begin before the one in front of it. Attention joins any two words directly. The "
            "longest chain of operations is counted in autograd's own graph. Times are those of this machine, now: what attention "
            "gains is that all places can be computed at once, and on few processor cores that may not show.",
            "循环网络把信息从一个词传给下一个词：从第一个词到最后一个词的路径和句子一样长，而且前一步没算完，后一步就不能开始。"
            "注意力让任意两个词直接相连。这里在自动求导的计算图中数出最长的运算链。时间是在这台机器上当场测得的：注意力的优势在于所有位置可以同时计算，"
            "处理器核心很少时，未必看得出来。",
        )
    )
    lengths = [longest // 8, longest // 4, longest // 2, longest]
    lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
    layer = EncoderLayer(WIDTH, 2, 2 * WIDTH, 0.0)  # d_ff = 2 d: 8 d^2 numbers in its matrices, as in the LSTM's
    cell = nn.LSTMCell(WIDTH, WIDTH)

    def recurrent(x: Tensor) -> Tensor:
        return recur(cell, x)

    chains = {n: (chain(recurrent, n), chain(layer, n)) for n in lengths}
    names = (say("LSTM", "LSTM"), say("attention layer", "注意力层"))
    result.show(
        say("Longest chain of operations, first word to last", "从第一个词到最后一个词，最长的运算链"),
        line_chart(
            [(name, [(n, chains[n][i]) for n in lengths]) for i, name in enumerate(names)],
            say("words", "词数"),
            say("operations", "运算次数"),
            marks=True,
        ),
    )
    cell.load_state_dict(dict(zip(cell.state_dict(), lstm.state_dict().values(), strict=True)))
    reach = [influence(model, longest) for model in (recurrent, layer)]
    result.show(
        say(
            "How much the last output depends on a word that many places back", "最后一个输出对前面各词的依赖（按距离）"
        ),
        line_chart(
            [(name, list(enumerate(values, 1))) for name, values in zip(names, reach, strict=True)],
            say("places back", "距离"),
            say("gradient (log)", "梯度（对数）"),
            log_y=True,
        ),
    )
    times = {n: (step_time(lambda x: lstm(x)[0], n), step_time(layer, n)) for n in lengths}
    result.show(
        say("One training step, measured here", "一个训练步的时间（实测）"),
        line_chart(
            [(name, [(n, 1000 * times[n][i]) for n in lengths]) for i, name in enumerate(names)],
            say("words", "词数"),
            say("milliseconds", "毫秒"),
            marks=True,
        ),
    )
    for i, (name, module) in enumerate(zip(names, (lstm, layer), strict=True)):
        result.number(
            say(f"numbers in the {name}", f"{name} 的参数量"),
            f"{sum(p.numel() for p in module.parameters()):,}",
        )
        result.number(
            say(
                f"training step of the {name} ({', '.join(map(str, lengths))} words)",
                f"{name} 的训练步（{'、'.join(map(str, lengths))} 词）",
            ),
            ", ".join(f"{1000 * times[n][i]:.1f}" for n in lengths) + " ms",
        )

    through = [chains[n][0] for n in lengths]
    attention = [chains[n][1] for n in lengths]
    added = {(chains[b][0] - chains[a][0]) / (b - a) for a, b in itertools.pairwise(lengths)}
    result.check(
        say("Attention: the chain is as long for any number of words", "注意力：运算链的长度与词数无关"),
        len(set(attention)) == 1,
        ", ".join(map(str, attention)),
    )
    result.check(
        say("LSTM: every further word makes the chain longer by as much", "LSTM：每多一个词，运算链就加长同样多"),
        len(added) == 1 and min(added) > 0,
        ", ".join(map(str, through)) + f" (+{min(added):g})",
    )
    result.check(
        say(
            "Attention: the farthest word counts at least a tenth of the nearest",
            "注意力：最远的词的影响不小于最近的十分之一",
        ),
        reach[1][-1] >= reach[1][0] / 10,
        exponent(reach[1][-1] / reach[1][0]),
    )
    result.check(
        say("LSTM: the chain, too, is as long for any number of words", "LSTM：运算链的长度也与词数无关"),
        len(set(through)) == 1,
        ", ".join(map(str, through)),
        control=True,
    )
    result.check(
        say(
            "LSTM (untrained): the farthest word, too, counts at least a tenth",
            "LSTM（未训练）：最远的词的影响也不小于十分之一",
        ),
        reach[0][-1] >= reach[0][0] / 10,
        exponent(reach[0][-1] / reach[0][0]),
        control=True,
    )
    return result


def recur(cell: nn.LSTMCell, x: Tensor) -> Tensor:
    """The LSTM written out, step by step: (B, T, D) -> (B, T, D)."""
    h = c = x.new_zeros(x.size(0), WIDTH)
    outputs = []
    for t in range(x.size(1)):
        h, c = cell(x[:, t], (h, c))
        outputs.append(h)
    return torch.stack(outputs, 1)


def chain(model: Callable[[Tensor], Tensor], length: int) -> int:
    """The most operations in a row between the first word and the last output, in autograd's graph."""
    first, others = torch.randn(1, 1, WIDTH, requires_grad=True), torch.randn(1, length - 1, WIDTH)
    output = model(torch.cat([first, others], 1))[0, -1].sum()
    longest: dict[Any, int] = {}
    stack = [output.grad_fn]
    while stack:  # depth first, children before parents
        node = stack[-1]
        children = [child for child, _ in node.next_functions if child is not None] if node is not None else []
        waiting = [child for child in children if child not in longest]
        if waiting:
            stack += waiting
            continue
        stack.pop()
        leads = [longest[child] + 1 for child in children if longest[child] >= 0]
        longest[node] = 0 if getattr(node, "variable", None) is first else max(leads, default=-1)
    return longest[output.grad_fn]


def influence(model: Callable[[Tensor], Tensor], length: int) -> list[float]:
    """The size of the last output's gradient by the word 1, 2, ..., length - 1 places back, a mean over sentences."""
    x = torch.randn(16, length, WIDTH, requires_grad=True)
    output = model(x)[:, -1]
    (gradient,) = torch.autograd.grad((output * torch.randn_like(output)).sum(), x)
    sizes: list[float] = gradient.norm(dim=-1).mean(0).flip(0)[1:].tolist()
    return sizes


def step_time(model: Callable[[Tensor], Tensor], length: int) -> float:
    """Seconds of a forward and a backward pass over a batch, the median of five after three to warm up."""
    x = torch.randn(BATCH, length, WIDTH)
    times = []
    for _ in range(8):
        start = time.perf_counter()
        model(x).square().sum().backward()
        times.append(time.perf_counter() - start)
    return median(times[3:])


WHY_NOT_RNN = Lab(
    "why-not-rnn",
    16,
    Text("Why not a recurrent network", "为什么不用循环神经网络"),
    Text("How far is the first word from the last?", "第一个词离最后一个词有多远？"),
    "Vaswani et al. 2017, section 4 and Table 1; Hochreiter and Schmidhuber 1997 (LSTM)",
    why_not_rnn,
    (Parameter("longest", 64, Text("words of the longest sentence", "最长句子的词数"), 16, 256, 8),),
    seconds=0.5,
)
