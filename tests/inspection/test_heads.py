"""Heads over a corpus: what is measured is what was planted, and what a head is worth agrees two ways."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re

import numpy as np
import pytest
import torch

from pellucid.checkpoint import LoadedModel
from pellucid.config import SearchConfig
from pellucid.data.tokenizer import Tokenizer
from pellucid.errors import DataError
from pellucid.inspection.ablation import (
    head_gradients,
    loss_without,
    mean_outputs,
    normalized_by_layer,
    scores_without,
)
from pellucid.inspection.forcing import ForcedPair, forced_maps
from pellucid.inspection.gates import gated, gates_without
from pellucid.inspection.heads import MEASURES, measure_heads, source_ranks
from pellucid.inspection.heads_page import heads_page
from pellucid.inspection.measures import at_offset, even
from pellucid.inspection.recorder import KINDS, Head, attentions, recorded
from pellucid.inspection.roles import MapMeasures, Sentence, roles, separators
from pellucid.inspection.words import Side, Token
from pellucid.model.transformer import Transformer
from pellucid.translator import Translator

PAIRS = [("a b c d", "w x"), ("b a", "x y z"), ("d d c .", "z z w y"), ("c", "w"), ("a c a b", "y x w")]


@pytest.fixture
def translator() -> Translator:
    """Random weights, two layers of two heads each way, float64."""
    source = Tokenizer.train(["a b c d ."], vocab_size=50, kind="word")
    target = Tokenizer.train(["w x y z"], vocab_size=50, kind="word")
    torch.manual_seed(4)
    model = Transformer(
        len(source), len(target), 16, 2, 2, 2, 24, share_embeddings="decoder", pad_id=target.pad_id,
        src_pad_id=source.pad_id, start_id=target.pad_id,
    )  # fmt: skip
    with torch.no_grad():
        for layer in itertools.chain(*attentions(model).values()):
            for matrix in (layer.w_q, layer.w_k):
                matrix.weight *= 4  # an untrained head looks everywhere nearly evenly
    loaded = LoadedModel(model.double().eval(), source, target, SearchConfig(max_length=6), None, None)
    return Translator(loaded, "reference")


def forced(translator: Translator) -> list[ForcedPair]:
    return [ForcedPair.of(translator, *pair) for pair in PAIRS]


def side(text: str, *, end: bool = False, start: bool = False) -> Side:
    tokens = [Token("▁" + word, 10 + sum(map(ord, word)), "piece") for word in text.split()]
    before, after = [Token("<s>", 99, "control")] * start, [Token("</s>", 0, "control")] * end
    return Side.of([*before, *tokens, *after])


# --- teacher forcing --------------------------------------------------------------------------------------------------


def test_maps_have_no_padding_and_do_not_depend_on_the_batch(translator):
    pairs = forced(translator)
    alone = {i: maps for n, pair in enumerate(pairs) for i, maps in ((n, next(forced_maps(translator, [pair]))[1]),)}
    together = dict(forced_maps(translator, pairs))
    assert sorted(together) == list(range(len(PAIRS)))
    for i, (source, target) in enumerate(PAIRS):
        s, t = len(source.split()) + 1, len(target.split()) + 1
        shapes = {"encoder": (2, 2, s, s), "decoder": (2, 2, t, t), "cross": (2, 2, t, s)}
        for kind in KINDS:
            assert together[i][kind].shape == shapes[kind]
            assert torch.allclose(together[i][kind].sum(-1), torch.ones((), dtype=torch.float64), atol=1e-12)
            assert torch.allclose(together[i][kind], alone[i][kind], atol=1e-12)


def test_rows_have_the_names_of_what_they_predict_and_of_their_input(translator):
    pair = ForcedPair.of(translator, " a b ", "w x")
    assert pair.source_side(translator).texts == ["a", "b", "</s>"]
    assert pair.predicted_side(translator).texts == ["w", "x", "</s>"]
    assert pair.input_side(translator).texts == ["<s>", "w", "x"]


def test_learned_positions_have_an_end(translator):
    config = dataclasses.replace(translator.model.config, positions="learned", max_len=4)
    translator.model.config = config
    assert len(ForcedPair.of(translator, "a b c", "w").source) == 4
    with pytest.raises(DataError, match="at most 4 pieces"):
        ForcedPair.of(translator, "a b c d", "w")


# --- roles ------------------------------------------------------------------------------------------------------------


def test_the_roles_of_a_decoder_see_nothing_later_and_marks_are_no_words():
    inputs = side("w x w", start=True)
    found = roles("decoder", Sentence("", inputs, inputs), even(4, 4, causal=True) > 0)
    assert "next" not in found and "rare" not in found
    assert found["previous"].astype(int).tolist() == [[0, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0]]
    assert np.argwhere(found["same_word"]).tolist() == [[3, 1]]  # and not the other way round
    assert found["same"].astype(int).tolist() == [[0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_punctuation_and_marks_are_separators():
    assert separators(side("a , b’s ... .", end=True)).tolist() == [False, True, False, True, True, True]


def planted(kind: str, offset: int, noise: float = 0.0) -> MapMeasures:
    """Two heads over twenty sentences: one looks at an offset (a row that has none: at itself), one everywhere."""
    measures, draw = MapMeasures(kind), np.random.default_rng(0)
    for n in range(20):
        rows = side(" ".join("abcdefghij"[: n % 5 + 4]), end=True)
        size = len(rows)
        role = at_offset(size, size, offset)
        sharp = np.where(role.any(-1, keepdims=True), role, np.eye(size))
        sharp = (1 - noise) * sharp + noise * draw.dirichlet(np.ones(size), size)
        measures.add(np.stack([sharp, even(size, size)])[None], Sentence(f"sentence {n}", rows, rows))
    return measures


@pytest.mark.parametrize("offset, role", [(-1, "previous"), (0, "same"), (1, "next")])
def test_a_planted_head_leans_to_its_role_and_an_even_one_to_none(offset, role):
    measures = planted("encoder", offset)
    values, leans = measures.values(), measures.leans()
    assert values[role][0] == 1.0 and values[role + "_maxima"][0] == 1.0
    assert values[role][1] == pytest.approx(values[role][2])  # the even head and chance
    assert leans[0].to == role and leans[0].share == 1.0 and leans[0].baseline == pytest.approx(values[role][2])
    assert leans[1] is None


def test_the_interval_holds_the_share_and_is_narrow_for_a_steady_head():
    lean = planted("encoder", -1, noise=0.5).leans()[0]
    assert lean.to == "previous"
    assert 0.5 < lean.low < lean.share < lean.high < 0.8


def test_examples_are_the_hardest_looks_one_a_sentence():
    measures = MapMeasures("encoder")
    for n, most in enumerate((0.4, 0.9, 0.6, 0.7)):
        rows = side("a b", end=True)
        # The end mark looks hardest, and is looked at hardest; it is no word.
        weights = np.array([[0.1, most, 0.9 - most], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
        measures.add(weights[None, None], Sentence(f"sentence {n}", rows, rows))
    (examples,) = measures.examples()
    assert [(e.text, e.row, e.column, e.weight) for e in examples] == [
        ("sentence 1", "a", "b", 0.9), ("sentence 3", "a", "b", 0.7), ("sentence 2", "a", "b", 0.6)
    ]  # fmt: skip
    assert measures.similar() == [[]]  # there is no other head


# --- worth ------------------------------------------------------------------------------------------------------------


def sentence_losses(translator: Translator, gates: dict) -> torch.Tensor:
    """-log p of each pair, summed over its pieces: (pairs,). By the plain formula, one pair at a time."""
    losses = []
    for pair in forced(translator):
        start = translator.vocabulary.start_id
        with torch.no_grad(), gated(translator.model, gates):
            logits = translator.model(torch.tensor([pair.source]), torch.tensor([[start, *pair.target[:-1]]]))
        losses.append(-logits[0].log_softmax(-1)[range(len(pair.target)), list(pair.target)].sum())
    return torch.stack(losses)


def test_importance_is_the_mean_absolute_slope_of_the_gate(translator):
    """Against finite differences: half of the change of each sentence's loss from gate 1 - h to 1 + h, over h."""
    found, h, cancelled = head_gradients(translator, forced(translator)), 1e-5, []
    for kind, layer, head in itertools.product(KINDS, range(2), range(2)):
        losses = []
        for value in (1 + h, 1 - h):
            gates = gates_without(translator.model, [])
            gates[kind][layer, head] = value
            losses.append(sentence_losses(translator, gates))
        slopes = (losses[0] - losses[1]) / (2 * h)
        assert float(found[kind][layer, head]) == pytest.approx(float(slopes.abs().mean()), rel=1e-6)
        cancelled.append(float(slopes.mean().abs()) < 0.9 * float(slopes.abs().mean()))
    assert any(cancelled)  # with the absolute value outside the mean it would be another number


def test_importance_of_a_layer_has_length_one(translator):
    normalized = normalized_by_layer(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    assert torch.allclose(normalized, torch.tensor([[0.6, 0.8], [0.0, 0.0]]))


def test_importance_leaves_nothing_in_the_model(translator):
    head_gradients(translator, forced(translator))
    assert all(parameter.grad is None for parameter in translator.model.parameters())


def test_the_loss_without_a_head_is_that_of_a_model_without_it(translator):
    pairs, heads = forced(translator), [Head("encoder", 0, 1), Head("decoder", 1, 0), Head("cross", 1, 1)]
    pieces = sum(len(pair.target) for pair in pairs)
    whole, losses = loss_without(translator, pairs, heads)
    assert whole == pytest.approx(float(sentence_losses(translator, {}).sum()) / pieces, abs=1e-12)
    for head, loss in zip(heads, losses, strict=True):
        weight = attentions(translator.model)[head.kind][head.layer].w_o.weight
        kept = weight.detach().clone()
        with torch.no_grad():
            weight[:, 8 * head.head : 8 * head.head + 8] = 0
        assert loss == pytest.approx(float(sentence_losses(translator, {}).sum()) / pieces, abs=1e-12)
        assert abs(loss - whole) > 1e-4
        # What has no say any more costs nothing.
        assert loss_without(translator, pairs, [head])[1] == [loss]
        with torch.no_grad():
            weight.copy_(kept)


def test_a_mean_in_the_place_of_a_head_is_the_mean_over_real_rows(translator):
    """One pair after another, rows counted by hand; and it costs nothing where all rows are their own mean."""
    pairs, sums, rows = forced(translator), torch.zeros(2, 2, 8, dtype=torch.float64), 0
    for pair in pairs:
        start = translator.vocabulary.start_id
        with torch.no_grad(), recorded(translator.model) as record:
            translator.model(torch.tensor([pair.source]), torch.tensor([[start, *pair.target[:-1]]]))
        sums += torch.stack([layer.heads[0].sum(1) for layer in record.cross])
        rows += len(pair.target)
    means = mean_outputs(translator, pairs)
    assert torch.allclose(means["cross"], sums / rows, atol=1e-12)
    head = Head("cross", 1, 0)
    whole, (zeros,) = loss_without(translator, pairs, [head])
    _, (gentler,) = loss_without(translator, pairs, [head], means)
    assert len({whole, zeros, gentler}) == 3
    with torch.no_grad():
        attention = attentions(translator.model)["cross"][1]
        attention.w_v.weight.zero_()  # every value is the bias, and so is every output
        attention.w_v.bias.fill_(0.7)
    whole, (zeros,) = loss_without(translator, pairs, [head])
    _, (gentler,) = loss_without(translator, pairs, [head], mean_outputs(translator, pairs))
    assert gentler == pytest.approx(whole, abs=1e-12) and abs(zeros - whole) > 1e-3


def test_translations_without_a_head(translator):
    sources, targets = zip(*PAIRS, strict=True)
    heads = [Head("cross", 0, 0), Head("cross", 1, 1)]
    with torch.no_grad():
        attentions(translator.model)["cross"][1].w_o.weight[:, 8:] = 0
        attentions(translator.model)["cross"][0].w_o.weight[:, :8] *= 30
    before = [t.text for t in translator.translate(sources)]
    seen = []
    found = scores_without(translator, sources, targets, heads, samples=20, progress=lambda *step: seen.append(step))
    nothing = found[Head("cross", 1, 1)]
    assert (nothing.delta_bleu, nothing.delta_chrf, nothing.bleu_p, nothing.same_translations) == (
        0.0,
        0.0,
        1.0,
        len(PAIRS),
    )
    assert found[Head("cross", 0, 0)].same_translations < len(PAIRS)
    assert [t.text for t in translator.translate(sources)] == before  # all heads are back
    assert seen == [(1, 3), (2, 3)]


# --- all of it --------------------------------------------------------------------------------------------------------


def test_the_table_has_every_measure_of_every_head(translator):
    seen = []
    table = measure_heads(translator, PAIRS, progress=lambda *step: seen.append(step))
    assert [report.head for report in table.heads] == [Head(k, n, h) for k in KINDS for n in (0, 1) for h in (0, 1)]
    for report in table.heads:
        assert set(report.values) == set(MEASURES)
        missing = {name for name, value in report.values.items() if value is None}
        absent = {
            "encoder": {"rare"},  # no word is beyond the 500 most frequent ones
            "decoder": {"rare", "next"},
            "cross": {"rare", "same_word"},
        }[report.head.kind]
        assert missing == {name for role in absent for name in (role, f"{role}_maxima")}
        assert len(report.examples) == 3 and len(report.similar) == 3
        assert report.head not in dict(report.similar)
    assert seen[-1] == (5 * 14, 5 * 14) and [done for done, _ in seen] == sorted(done for done, _ in seen)
    _, without = loss_without(translator, forced(translator), [report.head for report in table.heads])
    assert [report.values["delta_loss"] for report in table.heads] == [loss - table.loss for loss in without]
    losses = sentence_losses(translator, {})
    assert table.loss == pytest.approx(float(losses.sum()) / sum(len(pair.target) for pair in forced(translator)))


def test_the_table_as_json_is_plain(translator):
    table = measure_heads(translator, PAIRS).with_measure("delta_bleu", 1, {Head("cross", 1, 0): -0.5})
    found = json.loads(json.dumps(table.to_json(), allow_nan=False))
    assert found["pairs"] == 5
    assert found["measures"][0] == {"name": "confidence", "direction": 1}
    assert {"name": "delta_bleu", "direction": 1} in found["measures"]
    first, last = found["heads"][0], found["heads"][-2]
    assert (first["kind"], first["layer"], first["head"]) == ("encoder", 0, 0)
    assert (last["kind"], last["layer"], last["head"]) == ("cross", 1, 0)
    assert last["values"]["delta_bleu"] == -0.5 and first["values"]["delta_bleu"] is None
    assert set(first["examples"][0]) == {"text", "row", "column", "weight"}
    assert found["baselines"]["encoder"]["previous"] == pytest.approx(
        # A row of n pieces and the end mark has 1 / (n + 1); the first piece of a sentence has none before it.
        (3 / 5 + 1 / 3 + 3 / 5 + 0 + 3 / 5) / (3 + 1 + 3 + 0 + 3)
    )
    assert "next" not in found["baselines"]["decoder"]


def test_whoever_is_told_can_end_it(translator):
    def enough(done: int, of: int) -> None:
        raise KeyboardInterrupt

    hooks = [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in translator.model.modules()]
    with pytest.raises(KeyboardInterrupt):
        measure_heads(translator, PAIRS, progress=enough)
    assert [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in translator.model.modules()] == hooks


def test_no_pairs_are_no_table(translator):
    for pairs in ([], [("a", " "), ("", "w")]):
        with pytest.raises(DataError, match="a pair at least"):
            measure_heads(translator, pairs)
    assert measure_heads(translator, [*PAIRS[:2], ("", "w")]).pairs == 2


def test_ranks_are_counted_in_the_pairs_where_there_is_no_training_data(translator):
    ranks = source_ranks(translator, forced(translator))
    by_rank = [translator.source_tokenizer.pieces([i])[0] for i in np.argsort(ranks)]
    # Five end marks, four each of a and c, three each of b and d, one full stop; the others never.
    assert by_rank[0] == "</s>" and set(by_rank[1:3]) == {"▁a", "▁c"}
    assert set(by_rank[3:5]) == {"▁b", "▁d"} and by_rank[5] == "▁."
    assert sorted(ranks) == list(range(len(ranks)))


def test_the_page_shows_text_as_text(translator):
    table = measure_heads(translator, PAIRS)
    report = table.heads[0]
    odd = dataclasses.replace(report.examples[0], text="</td><script>alert(1)</script>", column="<b>")
    table = dataclasses.replace(table, heads=(dataclasses.replace(report, examples=(odd,)), *table.heads[1:]))
    page = heads_page(table, "a & b")
    assert "&lt;script&gt;" in page and "<script" not in page and "a &amp; b" in page
    assert "http" not in page  # nothing is fetched
    for name in ("confidence", "importance", "added loss without it", "encoder.1.1", "cross.2.2"):
        assert name in page


def test_the_page_speaks_chinese_too(translator):
    table = measure_heads(translator, PAIRS)
    for name in ("alignment_error", "delta_bleu", "bleu_p", "delta_chrf", "chrf_p", "same_translations"):
        table = table.with_measure(name, -1, {Head("cross", 0, 0): 0.5})
    page = heads_page(table, "模型", "zh")
    assert '<html lang="zh-Hans">' in page and "模型 的注意力头" in page and "置信度" in page
    left = re.sub(r"<style>.*?</style>|<[^>]+>|\b(encoder|decoder|cross)\.\d\.\d\b", " ", page, flags=re.DOTALL)
    english = set(re.findall(r"[A-Za-z]{3,}", left)) - {"BLEU", "chrF", "teacher", "forcing", "log", "Voita", "Michel"}
    assert not english
