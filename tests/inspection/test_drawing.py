"""What the terminal shows of a trace is what the trace holds."""

from __future__ import annotations

import numpy as np
import torch

from inspection.shared import TEXTS, random_translator
from pellucid.cli.drawing import attention_lines, rollout_lines
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


def test_rollout_goes_through_all_layers():
    found = trace(random_translator(), TEXTS[0], target="we see the river", config=GREEDY)
    title, _, _, _, *rows = rollout_lines(found)
    # By hand for two layers each: half of every step is the residual connection.
    eye = np.eye(len(found.source))
    first, second = ((a + eye) / 2 for a in found.encoder.weights.mean(1).double().numpy())
    memory = second @ first
    own = [(a + np.eye(len(found.target))) / 2 for a in found.decoder.weights.mean(1).double().numpy()]
    looked = found.cross.weights.mean(1).double().numpy()
    source = (own[1] @ (looked[0] @ memory / 2) + looked[1] @ memory) / 2
    assert f"{source.sum(-1).mean():.0%} comes from the source" in title
    words = merge(torch.from_numpy(source / source.sum(-1, keepdims=True)), found.target.words, found.source.words)
    for row, weights in zip(rows[:-2], words.tolist(), strict=False):
        assert row.split("│")[2].split()[-1] == f"{max(weights):.0%}"
