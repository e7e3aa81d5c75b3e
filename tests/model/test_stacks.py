"""Section 3.1, Figure 1: layers against formulas written out, finite differences, and counting."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from pellucid.model import attention, feed_forward, stacks, transformer
from pellucid.model.masks import causal_mask
from pellucid.model.stacks import AddAndNorm, Decoder, DecoderLayer, Encoder, EncoderLayer
from pellucid.model.transformer import Transformer


def layer_and_inputs(
    kind: type[nn.Module], norm: str, d_model: int = 4
) -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layer = kind(d_model, 2, 6, 0.0, norm=norm).double()
    for parameter in layer.parameters():  # norms too: weights of 1 and biases of 0 would hide a forgotten one
        nn.init.normal_(parameter, std=0.5)
    return layer, torch.randn(2, 3, d_model).double(), torch.randn(2, 2, d_model).double()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_an_encoder_layer_is_its_formula(norm):
    layer, x, _ = layer_and_inputs(EncoderLayer, norm)
    attend = lambda x: layer.self_attention(x, x, x)[0]  # noqa: E731
    network, norm_1, norm_2 = layer.feed_forward, layer.add_norm_1.norm, layer.add_norm_2.norm
    if norm == "post":
        h = norm_1(x + attend(x))
        expected = norm_2(h + network(h))
    else:
        h = x + attend(norm_1(x))
        expected = h + network(norm_2(h))
    torch.testing.assert_close(layer(x), expected)


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_decoder_layer_is_its_formula(norm):
    layer, x, memory = layer_and_inputs(DecoderLayer, norm)
    look_back = lambda x: layer.self_attention(x, x, x, causal_mask(3))[0]  # noqa: E731
    look_at_source = lambda x: layer.cross_attention(x, memory, memory)[0]  # noqa: E731
    network = layer.feed_forward
    norm_1, norm_2, norm_3 = layer.add_norm_1.norm, layer.add_norm_2.norm, layer.add_norm_3.norm
    if norm == "post":
        h = norm_1(x + look_back(x))
        h = norm_2(h + look_at_source(h))
        expected = norm_3(h + network(h))
    else:
        h = x + look_back(norm_1(x))
        h = h + look_at_source(norm_2(h))  # the memory itself is not normalised again
        expected = h + network(norm_3(h))
    torch.testing.assert_close(layer(x, memory, causal_mask(3)), expected)


@pytest.mark.parametrize("norm,last_norm", [("post", nn.Identity), ("pre", nn.LayerNorm)])
def test_layers_follow_each_other_and_only_pre_norm_has_one_more_norm_at_the_end(norm, last_norm):
    encoder, decoder = Encoder(3, 8, 2, 16, 0.0, norm=norm), Decoder(2, 8, 2, 16, 0.0, norm=norm)
    x, y = torch.randn(1, 4, 8), torch.randn(1, 3, 8)
    assert type(encoder.norm) is type(decoder.norm) is last_norm
    a, b, c = encoder.layers
    memory = encoder(x)
    torch.testing.assert_close(memory, encoder.norm(c(b(a(x)))))
    first, second = decoder.layers
    torch.testing.assert_close(decoder(y, memory), decoder.norm(second(first(y, memory), memory)))
    # Either way what leaves is normalised: mean 0 and variance 1 at every position (weights 1, biases 0 as yet).
    for stack in (memory, decoder(y, memory)):
        torch.testing.assert_close(stack.mean(-1), torch.zeros_like(stack[..., 0]), atol=1e-5, rtol=0)
        torch.testing.assert_close(stack.var(-1, correction=0), torch.ones_like(stack[..., 0]), atol=1e-3, rtol=0)


# --- gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_of_add_and_norm_are_numerically_right(norm):
    torch.manual_seed(0)
    wrapped = AddAndNorm(4, 0.0, norm).double()
    x, y = torch.randn(2, 2, 3, 4, dtype=torch.float64, requires_grad=True).unbind(0)
    assert torch.autograd.gradcheck(lambda x, y: wrapped(x, torch.tanh(wrapped.before(x)) * y), (x, y))


SOME_ROWS_SEE_NOTHING = torch.tensor([[[1, 0, 1], [0, 0, 0], [1, 1, 1]], [[0, 0, 0], [0, 0, 0], [0, 0, 0]]]).bool()


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("kind", [EncoderLayer, DecoderLayer])
def test_gradients_of_whole_layers_with_rows_that_see_nothing_inputs_and_every_weight(kind, norm):
    """C1: elsewhere one empty row is enough for NaN in every weight."""
    layer, x, memory = layer_and_inputs(kind, norm)
    names = [name for name, _ in layer.named_parameters()]
    weights = [weight.detach().requires_grad_() for _, weight in layer.named_parameters()]
    inputs = [x.requires_grad_(), memory.requires_grad_()][: 1 if kind is EncoderLayer else 2]
    masks = [SOME_ROWS_SEE_NOTHING] if kind is EncoderLayer else [SOME_ROWS_SEE_NOTHING, SOME_ROWS_SEE_NOTHING[..., :2]]

    def call(*values):
        given = dict(zip(names, values[len(inputs) :], strict=True))
        return torch.func.functional_call(layer, given, (*values[: len(inputs)], *masks))

    # Fast mode: one random projection of the Jacobian, of all inputs and some 200 to 300 weights at once.
    assert torch.autograd.gradcheck(call, (*inputs, *weights), fast_mode=True)


# --- dropout, section 5.4 -----------------------------------------------------------------------------------------------------


def count_dropouts(monkeypatch: pytest.MonkeyPatch, model: nn.Module, *inputs: torch.Tensor) -> dict[str, list[float]]:
    """What is dropped, by the file that asks for it."""
    seen: dict[str, list[float]] = {}
    for module, name in [(attention, "apply_dropout"), (feed_forward, "dropout"), (stacks, "dropout"), (transformer, "dropout")]:  # fmt: skip
        place = seen.setdefault(module.__name__.rpartition(".")[2], [])

        def watched(x, p, training, place=place):
            if training and p:
                place.append(p)
            return x

        monkeypatch.setattr(module, name, watched)

    def fused(q, k, v, attn_mask=None, dropout_p=0.0):
        if dropout_p:
            seen["attention"].append(dropout_p)
        return q

    monkeypatch.setattr(F, "scaled_dot_product_attention", fused)
    model(*inputs)
    return seen


@pytest.mark.parametrize(
    "options,inside_attention,inside_feed_forward",
    [
        ({}, [], []),  # the paper: none inside
        ({"attention_dropout": 0.2}, [0.2] * (2 + 2 * 3), []),
        ({"activation_dropout": 0.3}, [], [0.3] * (2 + 3)),
    ],
)
def test_where_dropout_stands_in_a_model_of_two_and_three_layers(
    monkeypatch, options, inside_attention, inside_feed_forward
):
    model = Transformer(9, 9, 8, 2, 2, 3, 16, 0.1, **options)
    ids = torch.tensor([[1, 2, 3]])
    assert count_dropouts(monkeypatch, model, ids, ids) == {
        "transformer": [0.1] * 2,  # the sums of embedding and position, on both sides
        "stacks": [0.1] * (2 * 2 + 3 * 3),  # every sub-layer's output before the sum
        "attention": inside_attention,
        "feed_forward": inside_feed_forward,
    }
    nothing = {"transformer": [], "stacks": [], "attention": [], "feed_forward": []}
    assert count_dropouts(monkeypatch, model.eval(), ids, ids) == nothing


def test_off_the_cpu_dropout_is_pytorchs_own(monkeypatch):
    seen = []
    monkeypatch.setattr(F, "dropout", lambda x, p: seen.append(p) or x)
    stacks.dropout(torch.empty(2, 3, device="meta"), 0.25, True)
    stacks.dropout(torch.empty(2, 3, device="meta"), 0.25, False)
    stacks.dropout(torch.empty(2, 3), 0.25, True)
    assert seen == [0.25]


def test_dropout_comes_before_the_sum_so_that_the_residual_always_passes():
    """With nearly everything dropped, pre-norm leaves x itself, and post-norm its normalisation."""
    torch.manual_seed(0)
    x, sublayer = torch.randn(4, 5, 16), torch.randn(4, 5, 16)
    nearly_all = 0.99999
    assert torch.equal(AddAndNorm(16, nearly_all, "pre")(x, sublayer), x)
    torch.testing.assert_close(AddAndNorm(16, nearly_all, "post")(x, sublayer), F.layer_norm(x, (16,)))
