"""What the terminal shows of a trace is what the trace holds."""

from __future__ import annotations

from inspection.shared import TEXTS, random_translator
from pellucid.cli.drawing import attention_lines
from pellucid.config import SearchConfig
from pellucid.inspection.recorder import Head
from pellucid.inspection.trace import trace
from pellucid.inspection.words import merge

GREEDY = SearchConfig(beam_size=1, max_length=9)


def test_the_sharpest_layer_is_drawn_in_words_without_the_end_mark():
    found = trace(random_translator(), TEXTS[0], target="we see the river", config=GREEDY)
    title, _, header, _, *rows = attention_lines(found)
    means = found.cross.weights.mean(1)
    layer = max(range(2), key=lambda i: float(means[i].amax(-1).mean()))
    assert title == f"  (cross-attention of decoder layer {layer + 1}, mean of its 4 heads)"
    assert header.split("│")[1].split() == [*TEXTS[0].split(), "(end)"]
    drawn = rows[:-2]
    assert [row.split("│")[0].strip() for row in drawn] == ["we", "see", "the", "river"]
    words = merge(means[layer], found.target.words, found.source.words)
    for row, weights in zip(drawn, words.tolist(), strict=False):
        name, share = row.split("│")[2].split()
        best = max(range(len(weights)), key=lambda i: weights[i])
        assert name == [*TEXTS[0].split(), "(end)"][best]
        assert share == f"{weights[best]:.0%}"


def test_one_head_in_pieces():
    found = trace(random_translator(), TEXTS[1], config=GREEDY)
    title, _, header, *_ = attention_lines(found, Head("decoder", 1, 2), pieces=True)
    assert title == "  (decoder self-attention, layer 2, head 3)"
    assert header.split("│")[1].split()[0] == "(start)"
    title, *_ = attention_lines(found, Head("encoder", 0, 0))
    assert "encoder self-attention, layer 1, head 1" in title
