"""The whole model computed two independent ways: by nn.Transformer, by the plain attention, in another number format,
with other padding. The same answer is expected on every path.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pellucid.model.attention import MultiHeadAttention
from pellucid.model.masks import causal_mask, generate_mask, padding_mask
from pellucid.model.positional_encoding import sinusoids
from pellucid.model.transformer import Transformer

PAD, START = 19, 18
SRC = torch.tensor([[3, 4, 5, 6, 0], [7, 8, 0, PAD, PAD], [9, 0, PAD, PAD, PAD]])
TGT = torch.tensor([[START, 11, 12, 13], [START, 14, 15, PAD], [START, 16, PAD, PAD]])
REAL = TGT != PAD
EMPTY = torch.tensor([[3, 4, 0], [PAD, PAD, PAD]])  # the second sentence has no token at all


def small(norm: str = "post", **options: object) -> Transformer:
    """Two layers each, in float64, and weights large enough for the attention to be anything but even."""
    torch.manual_seed(0)
    model = Transformer(20, 20, 16, 4, 2, 2, 32, 0.0, norm=norm, pad_id=PAD, start_id=START, **options).double().eval()
    for name, parameter in model.named_parameters():
        if "norm" not in name and "embedding" not in name:
            nn.init.normal_(parameter, std=0.4)
    return model


def same(found: Tensor, expected: Tensor, tolerance: float = 1e-10) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


@contextmanager
def plain_attention_everywhere() -> Iterator[list[Tensor]]:
    """Every attention builds its weights; they are listed in the order in which they are made."""
    forward, made = MultiHeadAttention.forward, []

    def with_weights(self, query, key, value, mask=None, need_weights=True, cache=None):
        output, weights = forward(self, query, key, value, mask, True, cache)
        made.append(weights)
        return output, weights

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(MultiHeadAttention, "forward", with_weights)
        yield made


# --- against nn.Transformer -------------------------------------------------------------------------------------------


def torchs_transformer(model: Transformer) -> nn.Transformer:
    """nn.Transformer with the weights of `model`. (After post-norm it puts one more norm, which the paper has not.)"""
    config = model.config
    theirs = nn.Transformer(
        config.d_model, config.n_heads, config.num_encoder_layers, config.num_decoder_layers, config.d_ff, 0.0,
        batch_first=True, norm_first=config.norm == "pre", dtype=torch.float64,
    )  # fmt: skip
    renamed = {
        "self_attention": "self_attn", "cross_attention": "multihead_attn", "w_o": "out_proj",
        "feed_forward.w_1": "linear1", "feed_forward.w_2": "linear2",
        "add_norm_1.norm": "norm1", "add_norm_2.norm": "norm2", "add_norm_3.norm": "norm3",
    }  # fmt: skip
    state: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if not name.startswith(("encoder", "decoder")) or ".w_k." in name or ".w_v." in name:
            continue
        if ".w_q." in name:  # torch keeps the three as one
            value = torch.cat([model.state_dict()[name.replace("w_q", w)] for w in ("w_q", "w_k", "w_v")])
            name = name.replace("w_q.", "in_proj_")
        for ours, torchs in renamed.items():
            name = name.replace(ours, torchs)
        state[name] = value
    if config.norm == "post":
        theirs.encoder.norm = theirs.decoder.norm = None
    theirs.load_state_dict(state)  # strict: every weight has its counterpart
    return theirs


@pytest.mark.filterwarnings("ignore:enable_nested_tensor")
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_from_ids_to_logits_and_every_gradient_equal_torchs_transformer(norm):
    ours = small(norm)
    theirs = torchs_transformer(ours)

    def embedded(tokens: Tensor, weight: Tensor) -> Tensor:
        return weight[tokens] * math.sqrt(16) + sinusoids(tokens.size(1), 16).float()

    memory_ignores, target_ignores = SRC == PAD, TGT == PAD  # torch: True = ignore
    expected = F.linear(
        theirs(
            embedded(SRC, ours.src_embedding.weight),
            embedded(TGT, ours.tgt_embedding.weight),
            tgt_mask=~causal_mask(4),
            src_key_padding_mask=memory_ignores,
            tgt_key_padding_mask=target_ignores,
            memory_key_padding_mask=memory_ignores,
        ),
        ours.output.weight,
    )
    same(ours(SRC, TGT, tgt_mask=causal_mask(4) & padding_mask(TGT, PAD)), expected)
    found = ours(SRC, TGT)  # the masks made by the model: nothing real is read through them differently
    same(found[REAL], expected[REAL])

    goal = torch.randn_like(expected)
    inputs = [ours.src_embedding.weight, ours.tgt_embedding.weight]
    probes = [
        (ours.encoder.layers[0].self_attention.w_o.weight, theirs.encoder.layers[0].self_attn.out_proj.weight),
        (ours.encoder.layers[1].feed_forward.w_1.bias, theirs.encoder.layers[1].linear1.bias),
        (ours.decoder.layers[0].cross_attention.w_o.bias, theirs.decoder.layers[0].multihead_attn.out_proj.bias),
        (ours.decoder.layers[0].add_norm_2.norm.weight, theirs.decoder.layers[0].norm2.weight),
        (ours.decoder.layers[1].feed_forward.w_2.weight, theirs.decoder.layers[1].linear2.weight),
    ]
    one = torch.autograd.grad((found * goal)[REAL].sum(), inputs + [a for a, _ in probes])
    two = torch.autograd.grad((expected * goal)[REAL].sum(), inputs + [b for _, b in probes])
    real_words = torch.arange(20) != PAD  # by hand above, padding's row was read like any other
    for a, b in zip(one[:2], two[:2], strict=True):
        same(a[real_words], b[real_words])
    for a, b in zip(one[2:], two[2:], strict=True):
        same(a, b)


# --- plain = fused, train = eval, masks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize("src,tgt", [(SRC, TGT), (EMPTY, TGT[:2])])
def test_fast_path_and_slow_path_give_one_answer_in_training_and_evaluation(norm, src, tgt):
    """C4, C6: elsewhere NaN on one path and zeros on the other, or a constant output in evaluation alone."""
    model = small(norm)
    fused = model.train()(src, tgt)
    assert torch.isfinite(fused).all()
    with plain_attention_everywhere():
        plain = model(src, tgt)
    same(plain, fused)
    model.eval()
    same(model(src, tgt), fused)
    with torch.no_grad():
        same(model(src, tgt), fused)
    with torch.inference_mode():
        same(model(src, tgt).clone(), fused)


def drawn(weights: Tensor) -> list[str]:
    """Where attention goes, a row a query: 1 is some weight, a dot is none at all."""
    return ["".join("1" if weight > 0 else "." for weight in row) for row in weights.tolist()]


def test_no_weight_on_padding_nor_on_the_future_and_rows_sum_to_one():
    """C9: elsewhere the mask's polarity is inverted, and attention goes to nothing but padding."""
    with plain_attention_everywhere() as weights:
        small()(SRC, TGT)
    encoder, decoder_self, decoder_cross = weights[:2], weights[2::2], weights[3::2]
    for attention in weights:
        same(attention.sum(-1), torch.ones_like(attention[..., 0]))
    for attention in encoder:
        for head in range(4):
            assert drawn(attention[0, head]) == ["11111"] * 5
            assert drawn(attention[1, head]) == ["111.."] * 5
            assert drawn(attention[2, head]) == ["11..."] * 5
    for attention in decoder_self:
        assert drawn(attention[0, 0]) == ["1...", "11..", "111.", "1111"]
    for attention in decoder_cross:
        assert drawn(attention[1, 0]) == ["111.."] * 4
        assert drawn(attention[2, 3]) == ["11..."] * 4


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.float64, torch.int64])
def test_a_mask_of_zeros_and_ones_masks_whatever_its_type(dtype):
    """C10: elsewhere a float mask of 0 and 1 is added to the scores, and nothing is masked."""
    model = small()
    made_by_the_model = model(SRC, TGT)
    src_mask = padding_mask(SRC, PAD).to(dtype)
    given = model(SRC, TGT, src_mask, generate_mask(4).to(dtype), src_mask)
    assert torch.equal(given, made_by_the_model)


@pytest.mark.parametrize("hides", [float("-inf"), -1e9, -10000.0])
def test_a_mask_made_to_be_added_is_refused_where_it_would_be_read_upside_down(hides):
    """C10: 0 would mean "may not attend" here and "may attend" there."""
    additive = torch.zeros(4, 4).masked_fill(~causal_mask(4), hides)
    with pytest.raises(ValueError, match="True = may attend"):
        small()(SRC, TGT, tgt_mask=additive)


def test_masks_that_blank_padding_as_queries_too_do_no_harm():
    """C2: elsewhere the square mask of an introduction gives NaN, which the next layer spreads to every position."""
    model = small()
    real = SRC != PAD
    square = real[:, :, None] & real[:, None, :]
    assert drawn(square[1]) == ["111..", "111..", "111..", ".....", "....."]
    memory = model.encode(SRC, square)
    assert torch.isfinite(memory).all()
    same(memory[real], model.encode(SRC)[real])


def test_the_three_masks_go_where_their_names_say():
    """Each hides one thing, and the model's own mask gives way to it."""
    model = small()
    all_but_first = torch.tensor([False, True, True, True, True])
    nothing_hidden = torch.ones(1, 1, dtype=torch.bool)
    with plain_attention_everywhere() as weights:
        model(SRC, TGT, all_but_first.expand(5, 5), nothing_hidden, nothing_hidden)
    assert drawn(weights[0][1, 0]) == [".1111"] * 5
    assert drawn(weights[2][1, 0]) == ["1111"] * 4
    assert drawn(weights[3][1, 0]) == ["11111"] * 4
    with plain_attention_everywhere() as weights:
        model(SRC, TGT, memory_mask=all_but_first.expand(4, 5))
    assert drawn(weights[0][1, 0]) == ["111.."] * 5
    assert drawn(weights[2][1, 0]) == ["1...", "11..", "111.", "1111"]
    assert drawn(weights[3][1, 0]) == [".1111"] * 4


# --- padding --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["none", "all"])
def test_what_stands_in_the_padding_never_reaches_a_real_position(share):
    """C12: the vector of the padding token is replaced by garbage; not a bit of a real output moves."""
    model = small(share_embeddings=share)
    with torch.no_grad():
        before = model(SRC, TGT)
        head = model.output.weight.clone()
        for embedding in (model.src_embedding, model.tgt_embedding):
            embedding.weight[PAD] = torch.linspace(-1e3, 1e3, 16)
        model.output = nn.Linear(16, 20, bias=False, dtype=torch.float64)
        model.output.weight.copy_(head)  # where the matrix is shared, the output layer keeps what it had
        after = model(SRC, TGT)
    assert torch.equal(after[REAL], before[REAL])
    assert not torch.equal(after[~REAL], before[~REAL])


def test_the_amount_of_padding_changes_no_gradient():
    model = small()

    def gradients(extra: int) -> list[Tensor]:
        src, tgt = F.pad(SRC, (0, extra), value=PAD), F.pad(TGT, (0, extra), value=PAD)
        loss = F.cross_entropy(model(src, tgt)[:, :-1].transpose(1, 2), tgt[:, 1:], ignore_index=PAD, reduction="sum")
        return list(torch.autograd.grad(loss, list(model.parameters())))

    for one, two in zip(gradients(0), gradients(13), strict=True):
        same(one, two)


def test_source_and_target_may_have_different_padding():
    """With vocabularies of their own, the two sides' padding ids differ: each side is masked by its own."""
    torch.manual_seed(0)
    model = Transformer(30, 20, 16, 4, 1, 1, 32, pad_id=19, src_pad_id=29, start_id=19).double().eval()
    assert model.src_embedding.weight[29].abs().max() == 0 and model.src_embedding.weight[19].abs().max() > 0
    assert model.tgt_embedding.weight[19].abs().max() == 0
    alone = model(torch.tensor([[19, 4]]), TGT[:1])  # 19 is a word of the source
    same(model(torch.tensor([[19, 4, 29, 29]]), TGT[:1]), alone)
    assert not torch.allclose(model(torch.tensor([[19, 4, 19, 19]]), TGT[:1]), alone)


# --- number formats ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["plain", "fused"])
@pytest.mark.parametrize(
    "dtype,autocast,tolerance",
    [
        (torch.float64, False, 1e-12),
        (torch.float32, False, 1e-4),
        (torch.bfloat16, False, 0.3),
        (torch.float16, False, 0.05),
        (torch.float32, torch.bfloat16, 0.3),
        (torch.float32, torch.float16, 0.05),
    ],
)
def test_an_empty_sentence_is_finite_in_every_number_format_forwards_and_backwards(path, dtype, autocast, tolerance):
    """C1, C77: elsewhere "value cannot be converted to type at::Half without overflow", or NaN in every weight."""
    torch.manual_seed(0)
    model = Transformer(20, 20, 16, 4, 2, 2, 32, 0.0, pad_id=PAD, start_id=START).double()
    expected = model(EMPTY, TGT[:2])
    model.to(dtype)

    def logits() -> Tensor:
        if not autocast:
            return model(EMPTY, TGT[:2])
        with torch.autocast("cpu", autocast):
            return model(EMPTY, TGT[:2])

    if path == "plain":
        with plain_attention_everywhere():
            found = logits()
    else:
        found = logits()
    assert found.dtype == (autocast or dtype)
    torch.testing.assert_close(found.double(), expected, rtol=0, atol=tolerance)
    found.float().logsumexp(-1).sum().backward()
    for name, parameter in model.named_parameters():
        assert torch.isfinite(parameter.grad).all(), name
