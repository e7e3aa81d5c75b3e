"""The trace shows the translation that was really produced, and no map can carry the wrong side's tokens."""

from __future__ import annotations

import dataclasses
import importlib.util

import pytest
import torch

from inspection.shared import TEXTS, random_translator
from pellucid.config import SearchConfig
from pellucid.errors import DataError
from pellucid.inspection.recorder import KINDS, Head
from pellucid.inspection.trace import AttentionMaps, Trace, trace
from pellucid.translator import Translator

GREEDY = SearchConfig(beam_size=1, max_length=12)
BEAM = SearchConfig(beam_size=4, max_length=12, n_best=3)


@pytest.fixture(scope="module")
def translator() -> Translator:
    torch.set_num_threads(1)
    return random_translator()


def ids(found: Trace) -> list[int]:
    return [token.id for token in found.target.tokens]


@pytest.mark.parametrize("engine", ["reference", "torch", "torch-int8", "ctranslate2"])
@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_it_is_the_translation_that_the_engine_produces(engine, config):
    if engine == "ctranslate2" and importlib.util.find_spec("ctranslate2") is None:
        pytest.skip("CTranslate2 is not installed")
    translator = random_translator(engine)
    for text in TEXTS:
        found = trace(translator, text, config=config)
        (expected,) = translator.translate([text], config)
        assert found.translation == expected.text
        assert found.beam is not None
        if engine != "torch-int8":  # whose scores are those of whole numbers; the trace's are the readable model's
            assert found.score == pytest.approx(expected.score, abs=1e-4)
            assert [a.text for a, _ in found.alternatives] == [a.text for a in expected.alternatives]


def test_rows_sum_to_one_and_every_map_carries_its_own_tokens(translator):
    found = trace(translator, TEXTS[2], config=GREEDY)
    assert [token.text for token in found.source.tokens][-1] == "</s>"
    assert "".join(found.source.texts).startswith("</script>")
    s, t = len(found.source), len(found.target)
    assert s != t, "the test is worth something only where both sides differ in length"
    for kind, shape in (("encoder", (2, 4, s, s)), ("decoder", (2, 4, t, t)), ("cross", (2, 4, t, s))):
        maps = found.maps(kind)
        assert maps.weights.shape == maps.norms.shape == shape
        assert maps.contributions.shape == shape[:3]
        assert torch.allclose(maps.weights.sum(-1), torch.ones(()), atol=1e-5)
    assert found.cross.columns is found.source
    assert found.cross.rows_by("predicts") is found.target
    assert found.decoder.columns.tokens == (found.start, *found.target.tokens[:-1])
    assert found.cross.rows_by("input").tokens == (found.start, *found.target.tokens[:-1])
    with pytest.raises(ValueError, match="rows and"):
        dataclasses.replace(found.cross, rows=found.source)
    with pytest.raises(ValueError, match="rows and"):
        dataclasses.replace(found.cross, columns=found.target)
    with pytest.raises(ValueError, match="row_inputs"):
        dataclasses.replace(found.cross, row_inputs=found.source)
    assert isinstance(found.encoder, AttentionMaps)


def test_log_probabilities_are_those_of_the_scorer(translator):
    for text in TEXTS:
        found = trace(translator, text, config=BEAM)
        if found.translation and "truncated" not in found.flags:
            again = trace(translator, text, target=found.translation, config=BEAM)
            (score,) = translator.score([(text, found.translation)], BEAM)
            assert again.log_probs == pytest.approx(score.token_log_probs, abs=1e-5)
            assert again.score == pytest.approx(score.score, abs=1e-5)
            assert again.forced and again.beam is None and again.alternatives == ()


@pytest.mark.parametrize("config", [GREEDY, BEAM], ids=["greedy", "beam"])
def test_the_tree_is_whole(translator, config):
    for text in TEXTS:
        found = trace(translator, text, config=config)
        beam = found.beam
        assert beam is not None and beam.size == config.beam_size
        for t, nodes in enumerate(beam.steps):
            assert len([n for n in nodes if n.state == "kept"]) <= config.beam_size
            assert [n.total for n in nodes] == sorted((n.total for n in nodes), reverse=True)
            for node in nodes:
                if t == 0:
                    assert node.parent == -1 and node.total == pytest.approx(node.log_prob)
                else:
                    parent = beam.steps[t - 1][node.parent]
                    assert parent.state == "kept"
                    assert node.total == pytest.approx(parent.total + node.log_prob, abs=1e-5)
                lp = ((5 + t + 1) / 6) ** config.length_penalty
                assert node.score == pytest.approx(node.total / lp)
        # The way of the translation: its tokens, from the root to a finished node, with the scorer's numbers.
        path = [beam.steps[t][i] for t, i in enumerate(beam.best)]
        assert [n.token.id for n in path] == ids(found)
        assert [n.log_prob for n in path] == pytest.approx(found.log_probs, abs=1e-4)
        assert path[-1].state == ("kept" if "truncated" in found.flags else "finished")
        assert all(child.parent == place for child, place in zip(path[1:], beam.best[:-1], strict=True))


def test_a_beam_of_one_has_one_kept_node_a_step_and_is_greedy(translator):
    for text in TEXTS:
        found = trace(translator, text, config=GREEDY)
        assert found.beam is not None
        assert all(sum(n.state != "pruned" for n in nodes) == 1 for nodes in found.beam.steps)
        assert all(nodes[0].state != "pruned" for nodes in found.beam.steps)  # the likeliest is taken


def test_a_beginning_can_be_forced_and_the_search_goes_on(translator):
    free = trace(translator, TEXTS[0], config=BEAM)
    other = next(n.token.id for n in free.beam.steps[0] if n.token.id != ids(free)[0] and n.state == "kept")
    forced = trace(translator, TEXTS[0], config=BEAM, prefix_ids=[other])
    assert ids(forced)[0] == other
    same = trace(translator, TEXTS[0], config=BEAM, prefix_ids=ids(free)[:2])
    assert ids(same) == ids(free)


def test_switching_no_head_off_changes_no_bit_and_switching_one_off_does(translator):
    reference = random_translator("reference")
    plain = trace(reference, TEXTS[0], config=BEAM)
    none = trace(reference, TEXTS[0], config=BEAM, off=())
    assert plain.translation == none.translation and plain.log_probs == none.log_probs
    for kind in KINDS:
        assert torch.equal(plain.maps(kind).weights, none.maps(kind).weights)
    off = trace(translator, TEXTS[0], config=BEAM, off=[Head("cross", 1, 2), Head("encoder", 0, 0)])
    assert off.off == (Head("cross", 1, 2), Head("encoder", 0, 0))
    assert off.cross.contributions[1, 2].abs().max() == 0
    assert off.encoder.contributions[0, 0].abs().max() == 0
    assert off.cross.contributions[1, 1].abs().min() > 0
    assert off.log_probs != plain.log_probs
    assert trace(translator, TEXTS[0], config=BEAM).translation == plain.translation  # all heads are on again


def test_a_text_too_long_is_traced_up_to_where_it_is_split(translator):
    found = trace(translator, " ".join(["two dogs run over the grass."] * 8), config=GREEDY)
    assert "split" in found.flags
    assert len(found.source) <= translator.longest_source + 1
    assert found.text.startswith("two dogs")


def test_drawing_is_not_watched(translator):
    drawn = SearchConfig(beam_size=2, max_length=12, sample=True)
    assert trace(translator, TEXTS[0], config=drawn).beam.size == 2


@pytest.mark.parametrize("text", ["", "  \n"])
def test_nothing_to_translate_is_said(translator, text):
    with pytest.raises(DataError, match="some text"):
        trace(translator, text)


def test_two_vocabularies_are_not_mixed_up():
    translator = random_translator(share_embeddings="none")
    found = trace(translator, "dogs run", config=GREEDY)
    assert found.source.tokens[-1].kind == "control" and found.start.text == "<s>"
