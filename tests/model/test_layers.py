"""Sections 3.1, 3.3, 3.4 and 5.4: feed-forward, embeddings, dropout, Add & Norm."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pellucid.model import dropout as dropout_module
from pellucid.model import feed_forward, stacks
from pellucid.model.dropout import dropout
from pellucid.model.embeddings import TokenEmbedding
from pellucid.model.feed_forward import FeedForward
from pellucid.model.stacks import AddAndNorm, DecoderLayer, EncoderLayer


def test_equation_2_by_hand():
    """max(0, x W1 + b1) W2 + b2 with x = 2, W1 = (1, -1), b1 = (0, 1), W2 = (3, 5), b2 = 7: 2*3 + 0*5 + 7."""
    network = FeedForward(1, 2)
    with torch.no_grad():
        network.w_1.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        network.w_1.bias.copy_(torch.tensor([0.0, 1.0]))
        network.w_2.weight.copy_(torch.tensor([[3.0, 5.0]]))
        network.w_2.bias.fill_(7.0)
    assert network(torch.tensor([[2.0]])).item() == 13.0


def test_feed_forward_treats_every_position_alike():
    network = FeedForward(4, 8)
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(network(x)[1, 2], network(x[1, 2]))


def test_embeddings_are_multiplied_by_the_root_of_the_width():
    embedding = TokenEmbedding(10, 16, pad_id=9)
    torch.testing.assert_close(embedding(torch.tensor([[3]]))[0, 0], embedding.weight[3] * 4)
    assert embedding(torch.tensor([[9]])).abs().max() == 0


def test_the_padding_row_gets_no_gradient_from_the_embedding():
    embedding = TokenEmbedding(10, 4, pad_id=9)
    embedding(torch.tensor([[1, 9, 9]])).sum().backward()
    assert embedding.weight.grad[9].abs().max() == 0 and embedding.weight.grad[1].abs().max() > 0


@pytest.mark.parametrize("p", [0.1, 0.3, 0.5])
def test_dropout_drops_its_share_and_keeps_the_mean(p):
    torch.manual_seed(0)
    x = torch.ones(1000, 999)
    y = dropout(x, p, True)
    kept = y != 0
    assert kept.float().mean().item() == pytest.approx(1 - p, abs=3 * math.sqrt(p * (1 - p) / x.numel()))
    assert y[kept].unique().numel() == 1
    assert y[kept][0].item() * (1 - round(p * 65536) / 65536) == pytest.approx(1.0, rel=1e-6)
    # Neighbours are independent: four masks are cut from each 64-bit number.
    for step in (1, 2, 3):
        together = (kept[:, step:] & kept[:, :-step]).float().mean().item()
        assert together == pytest.approx((1 - p) ** 2, abs=0.003)


def test_dropout_is_drawn_from_torchs_generator_and_is_off_in_evaluation():
    x = torch.randn(5, 7)
    torch.manual_seed(1)
    one = dropout(x, 0.4, True)
    torch.manual_seed(1)
    assert torch.equal(one, dropout(x, 0.4, True))
    assert dropout(x, 0.4, False) is x and dropout(x, 0.0, True) is x


def test_dropouts_gradient_is_its_mask():
    x = torch.randn(50, dtype=torch.float64, requires_grad=True)
    y = dropout(x, 0.5, True)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_add_and_norm_post_and_pre():
    x, sublayer = torch.randn(2, 3, 8), torch.randn(2, 3, 8)
    post, pre = AddAndNorm(8, 0.0, "post"), AddAndNorm(8, 0.0, "pre")
    normed = nn.functional.layer_norm(x + sublayer, (8,))
    assert post.before(x) is x
    torch.testing.assert_close(post(x, sublayer), normed)
    torch.testing.assert_close(pre.before(x), nn.functional.layer_norm(x, (8,)))
    torch.testing.assert_close(pre(x, sublayer), x + sublayer)


def test_dropout_stands_where_the_paper_has_it(monkeypatch):
    """On every sub-layer's output before the sum: two in an encoder layer, three in a decoder layer, none inside."""
    seen: list[float] = []

    def watched(x, p, training):
        if p:
            seen.append(p)
        return dropout_module.dropout(x, p, training)

    monkeypatch.setattr(stacks, "dropout", watched)
    monkeypatch.setattr(feed_forward, "dropout", watched)
    x = torch.randn(1, 3, 8)
    EncoderLayer(8, 2, 16, 0.25)(x)
    assert seen == [0.25] * 2
    DecoderLayer(8, 2, 16, 0.25)(x, x)
    assert seen == [0.25] * 5
    EncoderLayer(8, 2, 16, 0.25, activation_dropout=0.5)(x)
    assert seen[5:] == [0.25, 0.5, 0.25]


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_gradients_of_whole_layers_are_numerically_right(norm):
    torch.manual_seed(0)
    encoder, decoder = (kind(4, 2, 6, 0.0, norm=norm).double() for kind in (EncoderLayer, DecoderLayer))
    x = torch.randn(1, 3, 4, dtype=torch.float64, requires_grad=True)
    memory = torch.randn(1, 2, 4, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[[True, False, True]]])
    assert torch.autograd.gradcheck(lambda x: encoder(x, mask), (x,))
    causal = torch.ones(3, 3, dtype=torch.bool).tril()
    assert torch.autograd.gradcheck(lambda x, m: decoder(x, m, causal), (x, memory))
