"""What is recorded is what happened, hooks are gone afterwards, and gates do what zeros in W^O do."""

from __future__ import annotations

import pytest
import torch

from pellucid.errors import ConfigError
from pellucid.inspection.gates import gated, gates_without, without
from pellucid.inspection.recorder import KINDS, Head, attentions, recorded
from pellucid.model.transformer import Transformer

SRC = torch.tensor([[5, 6, 7, 2, 0], [8, 9, 3, 4, 0]])
TGT = torch.tensor([[1, 5, 6], [1, 7, 8]])


@pytest.fixture
def model() -> Transformer:
    torch.manual_seed(1)
    return (
        Transformer(11, 12, d_model=16, n_heads=4, num_encoder_layers=2, num_decoder_layers=3, d_ff=32).double().eval()
    )


def hooks(model: Transformer) -> int:
    return sum(len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules())


def test_all_three_attentions_of_every_layer_and_head_are_recorded_and_rows_sum_to_one(model):
    with recorded(model) as record:
        model(SRC, TGT)
    assert record.weights("encoder").shape == (2, 2, 4, 5, 5)
    assert record.weights("decoder").shape == (3, 2, 4, 3, 3)
    assert record.weights("cross").shape == (3, 2, 4, 3, 5)
    for kind in KINDS:
        assert torch.allclose(record.weights(kind).sum(-1), torch.ones((), dtype=torch.float64), atol=1e-12)
    assert record.weights("decoder").triu(1).abs().max() == 0  # nobody looks ahead


def test_the_output_is_the_same_and_no_hook_stays_even_after_an_error(model):
    before, count = model(SRC, TGT), hooks(model)
    with recorded(model):
        inside = model(SRC, TGT)
    assert torch.allclose(before, inside, atol=1e-12)
    with pytest.raises(RuntimeError), recorded(model), without(model, [Head("cross", 0, 0)]):
        raise RuntimeError
    assert hooks(model) == count
    assert torch.equal(before, model(SRC, TGT))


def test_what_the_heads_contribute_adds_up_to_the_output_of_the_attention(model):
    found = {}
    attention = attentions(model)["cross"][1]
    attention.register_forward_hook(lambda m, a, output: found.update(output=output[0]))
    with recorded(model) as record:
        model(SRC, TGT)
    layer = record.cross[1]
    assert torch.allclose(layer.contributions().sum(1) + attention.w_o.bias, found["output"], atol=1e-12)
    # The norm of one contribution, computed from its definition.
    value = layer.values[1, 2, 4] @ attention.w_o.weight[:, 2 * 4 : 3 * 4].T
    assert torch.allclose(layer.norms()[1, 2, 0, 4], layer.weights[1, 2, 0, 4] * value.norm(), atol=1e-12)


def test_a_second_pass_replaces_the_first(model):
    with recorded(model) as record:
        model(SRC, TGT)
        model(SRC[:1], TGT[:1])
    assert record.weights("cross").shape[1] == 1


def test_all_gates_open_change_no_bit(model):
    for dtype in (torch.float64, torch.float32):
        model.to(dtype)
        expected = model(SRC, TGT)
        with gated(model, gates_without(model, [])):
            assert torch.equal(model(SRC, TGT), expected)


@pytest.mark.parametrize("head", [Head("encoder", 1, 3), Head("decoder", 0, 0), Head("cross", 2, 1)])
def test_a_closed_gate_equals_zeroed_rows_of_w_o(model, head):
    open_ = model(SRC, TGT)
    with without(model, [head]):
        closed = model(SRC, TGT)
    assert not torch.allclose(open_, closed)
    with torch.no_grad():
        attentions(model)[head.kind][head.layer].w_o.weight[:, head.head * 4 : (head.head + 1) * 4] = 0
    assert torch.allclose(model(SRC, TGT), closed, atol=1e-12)


def test_a_mean_takes_the_place_of_a_closed_head(model):
    with recorded(model) as record:
        expected = model(SRC[:1], TGT[:1])
    layer = record.encoder[0]
    # Where every position's output is its own mean, nothing changes: one position only.
    means = {"encoder": torch.zeros(2, 4, 4, dtype=torch.float64)}
    means["encoder"][0] = layer.heads[0].mean(1)
    with gated(model, gates_without(model, [Head("encoder", 0, 2)]), means), recorded(model) as changed:
        assert not torch.allclose(model(SRC[:1], TGT[:1]), expected)
    assert torch.allclose(changed.encoder[0].heads[0, 2], means["encoder"][0, 2].expand(5, 4))
    assert torch.equal(changed.encoder[0].heads[0, 1], layer.heads[0, 1])


def test_gates_have_gradients(model):
    gates = {kind: gate.requires_grad_() for kind, gate in gates_without(model, []).items()}
    with gated(model, gates):
        model(SRC, TGT).square().mean().backward()
    assert all(gate.grad is not None and gate.grad.abs().min() > 0 for gate in gates.values())


def test_each_sentence_can_have_gates_of_its_own(model):
    gates = gates_without(model, [])["cross"].unsqueeze(1).repeat(1, 2, 1)  # (L, B, H)
    gates[2, 1, 3] = 0
    expected = model(SRC, TGT)
    with gated(model, {"cross": gates}):
        found = model(SRC, TGT)
    with without(model, [Head("cross", 2, 3)]):
        off = model(SRC, TGT)
    assert torch.equal(found[0], expected[0])
    assert torch.equal(found[1], off[1])
    assert not torch.allclose(found[1], expected[1])


def test_heads_have_names_that_people_count_from_one(model):
    assert Head.parse("cross.3.4", model) == Head("cross", 2, 3)
    assert str(Head("cross", 2, 3)) == "cross.3.4"
    for wrong in ("cross.4.1", "encoder.3.1", "decoder.1.5", "decoder.0.1"):
        with pytest.raises(ConfigError, match="no head"):
            Head.parse(wrong, model)
    for wrong in ("cross", "self.1.1", "cross.1.x", "cross.1.²", ""):
        with pytest.raises(ConfigError, match=r"like cross\.3\.6"):
            Head.parse(wrong, model)
