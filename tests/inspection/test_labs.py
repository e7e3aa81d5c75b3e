"""Every lab: its claims hold, its controls fail, and a planted fault is found."""

from __future__ import annotations

import itertools
import json
import re
import xml.etree.ElementTree as ET
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest
import torch

from inspection.shared import TEXTS, random_translator
from pellucid.errors import ConfigError
from pellucid.inspection.labs import attention, beam, heads, layers, masks, order, recurrence
from pellucid.inspection.labs.base import LANGUAGES, Check, Lab, Parameter, Result
from pellucid.inspection.labs.catalogue import LABS, find
from pellucid.inspection.labs.page import page
from pellucid.inspection.labs.toy import LETTERS, Toy, toy
from pellucid.model import transformer

BY_NAME = {lab.name: lab for lab in LABS}
EXTREMES: dict[str, list[dict[str, Any]]] = {
    "head-by-hand": [{"example": "random"}],
    "why-sqrt": [{"d_k": 300}, {"d_k": 4, "n": 128}],
    "order-blind": [{"text": "一二三四五六七八"}, {"text": "ab"}],
    "positions": [{"d_model": 8, "shift": 1}, {"d_model": 128, "shift": 30}],
    "triangle": [{"t": 1}, {"t": 6}],
    "padding": [{"pads": 1}, {"pads": 6}],
    "many-heads": [{"n_heads": "16", "off": 16}, {"n_heads": "1", "off": 1}, {"n_heads": "8"}],
    "feed-forward": [{"d_ff": 16}, {"d_ff": 512}],
    "add-and-norm": [{"layers": 12}, {"layers": 48}],
    "cross-attention": [{"sharpness": 0}, {"sharpness": 20}],
    "head-roles": [{"text": "not looked at without a model"}],
    "switch-off": [{"head": "encoder.1.1"}, {"head": "cross.1.4"}],
    "weight-or-influence": [{"text": "not looked at without a model"}],
    "beam-search": [
        {"beam_size": 1}, {"beam_size": 8, "alpha": 2}, {"beam_size": 3, "alpha": 0}, {"beam_size": 2, "alpha": 2},
    ],
    "schedule-and-smoothing": [{"warmup": 10, "d_model": 4096, "smoothing": 0.5}, {"warmup": 20000, "smoothing": 0.01}],
    "why-not-rnn": [{"longest": 16}, {"longest": 128}],
}  # fmt: skip


def wrong(result: Result) -> list[Check]:
    return [check for check in result.checks if not check.as_it_should_be]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", BY_NAME)
def test_claims_hold_and_controls_fail(name, language):
    result = BY_NAME[name].run(language=language)
    assert wrong(result) == []
    assert any(not check.control for check in result.checks)
    assert any(check.control for check in result.checks)
    assert result.pictures
    for title, svg in result.pictures:
        assert title
        assert "style=" not in svg
        ET.fromstring(svg)


@pytest.mark.parametrize("name,given", [(name, given) for name, many in EXTREMES.items() for given in many])
def test_claims_hold_at_the_ends_of_the_parameters(name, given):
    assert wrong(BY_NAME[name].run(given)) == []


def test_claims_hold_for_the_trained_toys():
    result = BY_NAME["order-blind"].run({"train": "yes"})
    assert wrong(result) == []
    assert len(result.checks) == len(BY_NAME["order-blind"].run().checks) + 3
    told = dict(result.numbers)
    assert told["trained toy, with positions"] == "狗咬猫 → 猫被狗咬; 猫咬狗 → 狗被猫咬"
    first, second = (pair.split(" → ") for pair in told["trained toy, without positions"].split("; "))
    assert first[0] != second[0] and first[1] == second[1]


def test_no_lab_is_forgotten():
    assert [lab.number for lab in LABS] == list(range(1, 17))
    assert set(EXTREMES) == set(BY_NAME)


@pytest.mark.parametrize("name", [name for name in BY_NAME if name != "why-not-rnn"])  # that one measures times
def test_a_lab_is_a_function_of_its_parameters_and_leaves_no_trace(name):
    torch.manual_seed(7)
    before = torch.get_rng_state()
    first = BY_NAME[name].run()
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(8)
    assert BY_NAME[name].run() == first


def test_labs_that_run_at_once_do_not_disturb_each_other():
    """Two readers of one page: without a lock each would see the other's closed gates and random numbers."""
    names = ["switch-off", "weight-or-influence", "cross-attention", "switch-off"]
    alone = [BY_NAME[name].run() for name in names]
    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(lambda name: BY_NAME[name].run(), names)) == alone


# --- planted faults -----------------------------------------------------------------------------------------------------


def everyone_sees_everything(size: int, device: Any = None) -> torch.Tensor:
    return torch.ones(size, size, dtype=torch.bool, device=device)


def test_the_triangle_lab_finds_a_missing_mask(monkeypatch):
    monkeypatch.setattr(transformer, "causal_mask", everyone_sees_everything)
    failed = [check.claim for check in wrong(masks.TRIANGLE.run())]
    assert "Every weight above the diagonal is exactly 0" in failed
    assert any("bit for bit" in claim for claim in failed)


def test_the_padding_lab_finds_a_missing_mask(monkeypatch):
    monkeypatch.setattr(
        transformer, "padding_mask", lambda tokens, pad_id: torch.ones_like(tokens, dtype=torch.bool)[:, None, None]
    )
    assert len(wrong(masks.PADDING.run())) == 2


def unscaled(query: Any, key: Any, value: Any, mask: Any = None, dropout: float = 0.0) -> Any:
    weights = (query @ key.transpose(-2, -1)).softmax(-1)
    return weights @ value, weights


def test_the_first_labs_find_attention_that_does_not_scale(monkeypatch):
    monkeypatch.setattr(attention, "scaled_dot_product_attention", unscaled)
    assert [c.claim for c in wrong(attention.HEAD_BY_HAND.run())] == ["Worked out by hand = the model's own attention"]
    assert [c.claim for c in wrong(attention.WHY_SQRT.run())] == [
        "Scaled, the largest weight is the same at every width"
    ]


def test_the_positions_lab_finds_a_wrong_frequency(monkeypatch):
    def wrong_frequencies(length: int, d_model: int) -> torch.Tensor:
        table = torch.arange(length, dtype=torch.float64)[:, None] / 100 ** (torch.arange(d_model) / d_model)
        return torch.where(torch.arange(d_model) % 2 == 0, table.sin(), table.cos())

    monkeypatch.setattr(order, "sinusoids", wrong_frequencies)
    assert len(wrong(order.POSITIONS.run())) >= 3


def test_the_residual_lab_finds_a_missing_sum(monkeypatch):
    monkeypatch.setattr(layers, "AddAndNorm", layers.WithoutSum)
    assert "With the residual sum words still differ after the last layer" in [c.claim for c in wrong(layers.ADD_AND_NORM.run())]  # fmt: skip


def test_the_heads_lab_finds_a_head_that_is_counted_twice(monkeypatch):
    honest = attention.head_contributions
    monkeypatch.setattr(attention, "head_contributions", lambda *given: honest(*given)[[0, 0, 2, 3]])
    assert wrong(attention.MANY_HEADS.run())


def test_the_head_labs_find_measures_and_gates_that_are_wrong(monkeypatch):
    honest = heads.share_of_weight
    monkeypatch.setattr(
        heads, "share_of_weight", lambda weights, role: honest(weights, role.T)
    )  # rows and columns mixed up
    assert len(wrong(heads.HEAD_ROLES.run())) >= 3
    monkeypatch.setattr(heads, "without", lambda model, off: nullcontext())  # a gate that closes nothing
    failed = [check.claim for check in wrong(heads.SWITCH_OFF.run())]
    assert failed == ["Gate 0 = that head's rows of W^O set to 0", "Without the most needed head, too, nothing changes"]


# --- what a lab computes, by hand ---------------------------------------------------------------------------------------


def test_the_example_of_three_words():
    """docs/articles.md, section 3: scores 2, 0, 2; weights 0.42, 0.16, 0.42."""
    scores, weights, _ = attention.attention_by_hand([[1.0, 1, 1, 1]], attention.CATS_KEYS, attention.CATS_KEYS)
    assert scores == [[2, 0, 2]]
    assert [round(w, 2) for w in weights[0]] == [0.42, 0.16, 0.42]
    numbers = dict(attention.HEAD_BY_HAND.run().numbers)
    assert numbers["chase → cats"] == "1×1 + 1×1 + 1×0 + 1×0 = 2;  /2 = 1.0;  0.42"
    assert set(dict(attention.HEAD_BY_HAND.run(language="zh").numbers)) == {"追 → 猫", "追 → 追", "追 → 老鼠"}


def test_the_sentences_of_the_beam_lab():
    assert beam.log_prob((2, 3, 0)) == pytest.approx(torch.tensor([0.4, 0.8, 0.9]).log().sum().item(), abs=1e-6)
    assert len(beam.everything(0.6)) == 40
    # All sentences of up to 3 words and all beginnings of 4 together have probability 1.
    finished = sum(torch.tensor(beam.log_prob((*words, 0))).exp() for _, words in beam.everything(0.6))
    going_on = sum(torch.tensor(beam.log_prob(words)).exp() for words in itertools.product((1, 2, 3), repeat=4))
    assert float(finished + going_on) == pytest.approx(1)


def test_the_longest_chain_is_counted():
    """x, then 3 operations: multiply, add, multiply; and the slice, the sum, and cat before them."""

    def three(x: torch.Tensor) -> torch.Tensor:
        return (x * 2 + 1) * 3

    assert recurrence.chain(three, 4) - recurrence.chain(lambda x: x * 2, 4) == 2
    assert recurrence.chain(lambda x: x * 2 + x, 4) - recurrence.chain(lambda x: x * 2, 4) == 1  # the longer way counts


def test_the_written_out_lstm_is_the_library_s():
    torch.manual_seed(0)
    lstm, cell = torch.nn.LSTM(recurrence.WIDTH, recurrence.WIDTH, batch_first=True), torch.nn.LSTMCell(recurrence.WIDTH, recurrence.WIDTH)  # fmt: skip
    cell.load_state_dict(dict(zip(cell.state_dict(), lstm.state_dict().values(), strict=True)))
    x = torch.randn(2, 5, recurrence.WIDTH)
    torch.testing.assert_close(recurrence.recur(cell, x), lstm(x)[0])


def test_the_gradient_of_all_gates_is_that_of_each_sentence_alone():
    """One backward pass with gates for each sentence, against a pass a sentence."""
    small = toy()
    few = Toy(small.model, small.src[:3], small.tgt[:3])
    together = heads.gate_gradients(few)
    alone = [heads.gate_gradients(Toy(small.model, few.src[i : i + 1], few.tgt[i : i + 1])) for i in range(3)]
    for head, value in together.items():
        assert value == pytest.approx(sum(one[head] for one in alone) / 3, rel=1e-3, abs=1e-9)


def test_the_mean_of_a_head_s_outputs_is_its_mean():
    """The mean of a layer's outputs = the heads' mean outputs through W^O, and the bias."""
    small = toy()
    means = heads.mean_outputs(small)["cross"][0]  # (H, K)
    attention = small.model.decoder.layers[0].cross_attention
    outputs = []
    with attention.register_forward_hook(lambda module, given, output: outputs.append(output[0])):
        small.model(small.src, small.tgt[:, :-1])
    torch.testing.assert_close(attention.w_o(means.flatten()), outputs[0].mean((0, 1)))


def test_what_is_hidden_is_as_if_it_were_not_there():
    """Hiding the last place of a source without positions = a source that is a place shorter."""
    model = toy(positions=False).model
    src, tgt = toy().src[:2], toy().tgt[:2]
    lost = heads.hidden_losses(model, src, tgt)  # (2, 5, 4)

    def log_p(src: torch.Tensor) -> torch.Tensor:
        return model(src, tgt[:, :-1]).log_softmax(-1).gather(-1, tgt[:, 1:, None])[..., 0]

    torch.testing.assert_close(lost[..., 3], log_p(src) - log_p(src[:, :3]))
    torch.testing.assert_close(lost[..., 0], log_p(src) - log_p(src[:, 1:]))


def test_the_toy_says_who_bites_whom():
    small = toy()
    assert "".join(LETTERS[i] for i in small.src[0].tolist()) == "狗咬猫</s>"
    assert "".join(LETTERS[i] for i in small.tgt[0].tolist()) == "<s>猫被狗咬</s>"
    assert small.accuracy() > 0.9
    assert toy(positions=False).accuracy() <= 0.5
    held = {tuple(row[:3]) for row in small.src.tolist()}
    assert {(z, y, x) for x, y, z in held} == held  # with every pair its reverse


# --- a model of the reader's own ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [lab.name for lab in LABS if lab.takes_model])
def test_a_lab_looks_at_a_given_model_and_leaves_it_as_it_was(name):
    translator = random_translator()
    before = {key: value.clone() for key, value in translator.model.state_dict().items()}
    plain = BY_NAME[name].run()
    for language in LANGUAGES:
        result = BY_NAME[name].run({"text": TEXTS[2]}, language, translator)
        assert wrong(result) == []
        assert len(result.pictures) == len(plain.pictures) + 1
        for _, svg in result.pictures:
            ET.fromstring(svg)
            assert "</script> is" not in svg
    for key, value in translator.model.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert BY_NAME[name].run(model=translator).pictures  # a sentence of the lab's own


def test_a_head_of_the_given_model_is_switched_off():
    translator = random_translator()
    result = BY_NAME["switch-off"].run({"head": "cross.2.3", "text": TEXTS[0]}, model=translator)
    assert "without cross.2.3" in dict(result.numbers)
    with pytest.raises(ConfigError, match=r"no head 'cross.3.1'"):
        BY_NAME["switch-off"].run({"head": "cross.3.1", "text": TEXTS[0]}, model=translator)
    with pytest.raises(ConfigError, match=r"no head 'cross.2.3'"):
        BY_NAME["switch-off"].run({"head": "cross.2.3"})  # the toy has one layer


# --- parameters, JSON, page ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name,given,message",
    [
        ("why-sqrt", {"d_k": "abc"}, "`d_k` of the lab why-sqrt must be a whole number from 1 to 512 but is 'abc'"),
        ("why-sqrt", {"d_k": 1.5}, "whole number"),
        ("why-sqrt", {"d_k": 0}, "from 1 to 512"),
        ("positions", {"d_model": 9}, "in steps of 2"),
        ("many-heads", {"n_heads": 3}, "one of 1, 2, 4, 8, 16"),
        ("many-heads", {"off": 5}, "1 to 4, or 0"),
        ("order-blind", {"text": "一"}, "a text of 2 to 8 characters"),
        ("beam-search", {"alpha": "nan"}, "a number from 0 to 2"),
        ("cross-attention", {"sharpness": "inf"}, "a number from 0 to 20"),
        ("why-sqrt", {"dk": 4}, "no parameter 'dk'"),
    ],
)
def test_values_that_cannot_be_are_refused(name, given, message):
    with pytest.raises(ConfigError) as caught:
        BY_NAME[name].run(given)
    assert message.replace(" but is", ", but is") in str(caught.value)


def test_hints_say_what_was_meant():
    with pytest.raises(ConfigError) as caught:
        BY_NAME["why-sqrt"].run({"dk": 4})
    assert caught.value.hint == "did you mean 'd_k'?"
    with pytest.raises(ConfigError, match="no lab 'why-sqr'") as caught:
        find("why-sqr")
    assert caught.value.hint == "did you mean 'why-sqrt'?"
    with pytest.raises(ConfigError, match="`lang` must be one of en, zh"):
        LABS[0].run(language="fr")


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
@pytest.mark.parametrize("language", LANGUAGES)
def test_json_is_as_the_page_expects_it(lab: Lab, language):
    described = lab.describe(language)
    assert {"name", "number", "title", "question", "parameters", "seconds", "needs", "takesModel"} == set(described)
    for parameter in described["parameters"]:
        assert {"name", "kind", "default", "label"} <= set(parameter)
        assert parameter["kind"] in ("int", "float", "choice", "text")
    json.dumps(described)


def test_a_result_as_json():
    lab = BY_NAME["triangle"]
    found = json.loads(json.dumps(lab.to_json(lab.run({"t": 2}, "zh"), "zh")))
    assert set(found) == {"name", "number", "title", "question", "idea", "pictures", "numbers", "checks", "source"}
    assert found["title"] == "上三角掩码"
    assert set(found["checks"][0]) == {"claim", "found", "holds", "control"}
    assert [c["holds"] for c in found["checks"]] == [not c["control"] for c in found["checks"]]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_both_languages_say_as_much(lab: Lab):
    english, chinese = lab.run(), lab.run(language="zh")
    assert len(english.pictures) == len(chinese.pictures)
    assert len(english.numbers) == len(chinese.numbers)
    assert [(c.holds, c.control) for c in english.checks] == [(c.holds, c.control) for c in chinese.checks]
    for text in (lab.title.zh, lab.question.zh, chinese.idea, *(c.claim for c in chinese.checks)):
        assert any("\u4e00" <= c <= "\u9fff" or c in "=∝" for c in text), text
    for text in (lab.question.en, english.idea.replace("狗咬人", "").replace("人咬狗", "")):
        assert not any("\u4e00" <= c <= "\u9fff" for c in text), text


def test_the_page_needs_nothing_else():
    lab = BY_NAME["beam-search"]
    html = page([(lab, lab.run())], "en")
    assert "<script" not in html and "http-equiv" not in html
    assert not [url for url in ("src=", "href=", "url(", "@import") if url in html]
    several = page([(lab, lab.run()), (LABS[0], LABS[0].run())], "en")
    links = re.findall('href="([^"]*)"', several)
    assert links == ["#beam-search", "#head-by-hand"]
    assert all(f'id="{link[1:]}"' in several for link in links)
    assert "prefers-color-scheme: dark" in html
    assert html.count("<figure>") == len(lab.run().pictures)


def test_what_is_read_becomes_a_value():
    whole, share = Parameter("n", 3, LABS[0].title, 1, 9), Parameter("p", 0.5, LABS[0].title, 0, 1)
    assert whole.read("7", "lab") == 7
    assert share.read("0.25", "lab") == 0.25
    assert whole.kind == "int" and share.kind == "float"
