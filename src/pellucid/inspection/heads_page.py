"""The table of heads as one page of HTML, in English or Chinese: no script, no other file, light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from pellucid.inspection.heads import HeadReport, HeadTable
from pellucid.inspection.labs.base import Say, Text
from pellucid.inspection.recorder import KINDS
from pellucid.inspection.roles import MAXIMA
from pellucid.inspection.svg import FONT

SHADES = 8
"""Steps of colour, from the lowest to the highest value of a measure within a kind of attention."""

STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1b1b1f; --paper: #fff; --faint: #5c5c5c; --accent: 33 102 172; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6e6ea; --paper: #17181c; --faint: #a9a9a9; --accent: 103 169 222; }}
}}
body {{ font: 16px/1.5 {FONT}; color: var(--ink); background: var(--paper); max-width: 76rem; margin: 2rem auto;
  padding: 0 1rem; }}
h1, h2 {{ line-height: 1.2; }} h2 {{ margin-top: 3rem; }}
p, dl {{ max-width: 46em; }} dt {{ font-weight: 600; }} dd {{ margin: 0 0 .5rem; }}
.maps {{ display: flex; flex-wrap: wrap; gap: 1.5rem; }}
.wide {{ max-width: 100%; overflow-x: auto; }}
table {{ border-collapse: collapse; font-size: .85rem; font-variant-numeric: tabular-nums; }}
caption {{ text-align: start; font-weight: 600; padding-bottom: .25rem; }}
caption small {{ font-weight: 400; color: var(--faint); }}
th {{ font-weight: 500; text-align: start; }} td, th {{ padding: .2rem .5rem; white-space: nowrap; }}
.maps td, .maps th[scope=col] {{ text-align: center; min-width: 2.6rem; }}
.list {{ width: 100%; margin-top: 1.5rem; }}
.list td, .list th {{ border-top: 1px solid rgb(128 128 128 / .3); vertical-align: top; }}
.list td:last-child {{ white-space: normal; min-width: 22rem; }}
""" + "".join(
    f".s{step} {{ background: rgb(var(--accent) / {0.06 + 0.5 * step / (SHADES - 1):.2f}); }}\n"
    for step in range(SHADES)
)

TITLES = {
    "encoder": Text("Encoder: the source looks at itself", "编码器：源句看自己"),
    "decoder": Text("Decoder: the translation looks at what is written", "解码器：译文看已经写出的部分"),
    "cross": Text("Cross-attention: the translation looks at the source", "交叉注意力：译文看源句"),
}

NAMES = {
    "confidence": Text("confidence", "置信度"),
    "entropy": Text("entropy", "熵"),
    "previous": Text("previous", "前一个"),
    "same": Text("same place", "同一位置"),
    "next": Text("next", "后一个"),
    "rare": Text("rare word", "罕见词"),
    "separator": Text("separators", "分隔符"),
    "same_word": Text("same word", "相同的词"),
    "importance": Text("importance", "重要性"),
    "gradient": Text("gradient", "梯度"),
    "delta_loss": Text("added loss without it", "去掉后增加的损失"),
    "alignment_error": Text("alignment error", "对齐错误率"),
    "delta_bleu": Text("change of BLEU without it", "去掉后 BLEU 的变化"),
    "bleu_p": Text("BLEU: p", "BLEU：p 值"),
    "delta_chrf": Text("change of chrF2++ without it", "去掉后 chrF2++ 的变化"),
    "chrf_p": Text("chrF2++: p", "chrF2++：p 值"),
    "same_translations": Text("translations kept", "译文不变的句数"),
}

MEANINGS = (
    ("confidence", Text("Mean of the largest weight of each row, marks of the model left out (Voita et al. 2019).",
                        "每一行最大权重的平均值，不计模型的标记（Voita 等，2019）。")),
    ("entropy", Text("Mean of −Σ A log A of each row, in nats: 0 is one place only, the darkest cell the sharpest head.",
                     "每一行 −Σ A log A 的平均值，单位为奈特：0 表示只看一处；颜色最深的头最集中。")),
    ("previous", Text("Share of the weight on the place before; likewise the same place and the next. Rows of the "
                      "cross-attention are the pieces that they predict, places are those of the source. “Largest "
                      "weights”: how often the largest weight of a row is there.",
                      "落在前一个位置上的权重份额；同一位置、后一个位置同理。交叉注意力的行是它所预测的片段，位置指源句中的位置。"
                      "“最大权重”表示一行中最大的权重有多常落在那里。")),
    ("rare", Text("Share on the rarest word of the source, in sentences that have a word beyond the 500 most frequent.",
                  "落在源句最罕见的词上的份额；只计含有前 500 个常用词以外的词的句子。")),
    ("separator", Text("Share on marks of the model and on punctuation.", "落在模型标记和标点上的份额。")),
    ("same_word", Text("Share on other places of the same piece, for rows whose piece stands elsewhere too.",
                       "落在同一片段的其他出现处的份额；只计在别处也出现的片段。")),
    ("importance", Text("Mean over sentences of the absolute slope of the loss by the head’s gate; the gradient, over the "
                        "length of its layer’s (Michel et al. 2019).",
                        "损失对该头的门的斜率，取绝对值后在句子上平均（即梯度），再除以本层梯度的长度（Michel 等，2019）。")),
    ("delta_loss", Text("How many nats a piece the model loses with that head alone switched off.",
                        "只关掉这一个头，模型每个片段多损失多少奈特。")),
)  # fmt: skip


def heads_page(table: HeadTable, model: str, language: str = "en") -> str:
    """A page for people, with every measure, and for every head what it leans to and where it looks hardest.

    Args:
        model: the model's name.
        language: en or zh.
    """
    return "".join(_page(table, model, Say(language)))


def _page(table: HeadTable, model: str, say: Say) -> Iterator[str]:
    title = say(f"Attention heads of {escape(model)}", f"{escape(model)} 的注意力头")
    yield f'<!DOCTYPE html>\n<html lang="{say("en", "zh-Hans")}">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<style>{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n<p>"
    yield say(
        f"{table.pairs:,} pairs with teacher forcing; the whole model’s loss is {table.loss:.3f} nats a piece. Shares stand "
        "beside chance: the share of a head that looks everywhere evenly. Weights are not explanations: whether a head "
        "matters, importance and loss say.",
        f"{table.pairs:,} 个句对，使用 teacher forcing；完整模型的损失为每个片段 {table.loss:.3f} 奈特。份额旁边是随机水平，"
        "即一个处处平均看的头所占的份额。权重并不是解释：一个头重不重要，要看重要性和损失。",
    )
    yield "</p>\n"
    for kind in KINDS:
        reports = table.of(kind)
        yield f'<h2>{TITLES[kind].of(say.language)}</h2>\n<div class="maps">\n'
        for measure in table.measures:
            if any(report.values[measure] is not None for report in reports):
                yield from _map(reports, measure, table, say)
        yield f'</div>\n<div class="wide">\n<table class="list">\n<caption>{say("Each head", "每个头")}</caption>\n'
        yield "<thead><tr>" + "".join(
            f'<th scope="col">{say(*name)}</th>'
            for name in (
                ("head", "头"), ("leans to", "倾向"), ("share (95 % interval)", "份额（95% 区间）"),
                ("largest weights", "最大权重"), ("chance", "随机水平"), ("most alike", "最相近的头"),
                ("looks hardest", "看得最集中之处"),
            )
        ) + "</tr></thead>\n<tbody>\n"  # fmt: skip
        for report in reports:
            yield from _row(report, say)
        yield "</tbody>\n</table>\n</div>\n"
    yield f"<h2>{say('What the numbers are', '各项数字的含义')}</h2>\n<dl>\n"
    for measure, meaning in MEANINGS:
        yield f"<dt>{name_of(measure, say)}</dt><dd>{meaning.of(say.language)}</dd>\n"
    yield "</dl>\n</main>\n</body>\n</html>\n"


def name_of(measure: str, say: Say) -> str:
    """A measure as a person should read it."""
    name = NAMES[measure.removesuffix(MAXIMA)].of(say.language)
    return name + say(": largest weights", "：最大权重") if measure.endswith(MAXIMA) else name


def _map(reports: list[HeadReport], measure: str, table: HeadTable, say: Say) -> Iterator[str]:
    """One measure: a row a layer, a column a head. The darkest is what stands out, be it the highest or the lowest."""
    known = [value for report in reports if (value := report.values[measure]) is not None]
    low, high = sorted((min(known), max(known)), reverse=table.measures[measure] < 0)
    chance = table.baselines[reports[0].head.kind].get(measure)
    beside = "" if chance is None else f" <small>{say('chance', '随机')} {chance:.2f}</small>"
    digits = 2 if max(map(abs, known)) >= 0.1 else 3
    yield f'<div class="wide"><table>\n<caption>{name_of(measure, say)}{beside}</caption>\n'
    heads = [report.head.head for report in reports if report.head.layer == 0]
    yield "<tr><th></th>" + "".join(f'<th scope="col">{head + 1}</th>' for head in heads) + "</tr>\n"
    for layer in range(reports[-1].head.layer + 1):
        yield f'<tr><th scope="row">{say(f"layer {layer + 1}", f"第 {layer + 1} 层")}</th>'
        for report in reports:
            if report.head.layer == layer:
                value = report.values[measure]
                if value is None:
                    yield "<td>–</td>"
                else:
                    yield f'<td class="s{_shade(value, low, high)}">{value:.{digits}f}</td>'
        yield "</tr>\n"
    yield "</table></div>\n"


def _shade(value: float, low: float, high: float) -> int:
    """Which of :data:`SHADES`, `high` being the darkest; it may be the lower number."""
    return 0 if low == high else round((value - low) / (high - low) * (SHADES - 1))


def _row(report: HeadReport, say: Say) -> Iterator[str]:
    lean = report.leans
    yield f'<tr><th scope="row">{report.head}</th>'
    if lean is None:
        yield f"<td>–</td><td>{say('nothing above chance', '不高于随机水平')}</td><td></td><td></td>"
    else:
        maxima = report.values[lean.to + MAXIMA]
        interval = f"({lean.low:.2f} – {lean.high:.2f})"
        yield f"<td>{name_of(lean.to, say)}</td><td>{lean.share:.2f} {interval}</td>"
        yield f"<td>{'–' if maxima is None else f'{maxima:.2f}'}</td><td>{lean.baseline:.2f}</td>"
    yield f"<td>{'<br>'.join(f'{head} ({distance:.2f})' for head, distance in report.similar)}</td><td>"
    yield "<br>".join(
        f"<b>{escape(e.row)} → {escape(e.column)}</b> {e.weight:.2f} · {escape(e.text)}" for e in report.examples
    )
    yield "</td></tr>\n"
