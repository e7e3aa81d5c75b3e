"""Section 3.3, equation (2)."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pellucid.model import feed_forward
from pellucid.model.feed_forward import FeedForward


def test_two_linear_maps_with_relu_between_as_torch_writes_it():
    torch.manual_seed(0)
    ours = FeedForward(6, 11).double()
    theirs = nn.Sequential(nn.Linear(6, 11), nn.ReLU(), nn.Linear(11, 6)).double()
    theirs[0].load_state_dict(ours.w_1.state_dict())
    theirs[2].load_state_dict(ours.w_2.state_dict())
    x = 3 * torch.randn(2, 5, 6).double()
    torch.testing.assert_close(ours(x), theirs(x), rtol=1e-12, atol=1e-12)


def test_gradients_of_input_and_weights_are_numerically_right():
    torch.manual_seed(0)
    network = FeedForward(3, 5).double()
    names, weights = zip(*network.named_parameters(), strict=True)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)

    def call(x, *weights):
        return torch.func.functional_call(network, dict(zip(names, weights, strict=True)), (x,))

    assert torch.autograd.gradcheck(call, (x, *weights))


def test_dropout_acts_between_the_two_maps_and_only_in_training(monkeypatch):
    seen = []
    monkeypatch.setattr(feed_forward, "dropout", lambda x, p, training: seen.append((x.shape[-1], p, training)) or x)
    network = FeedForward(4, 16, dropout=0.25)
    network(torch.zeros(1, 4))
    network.eval()(torch.zeros(1, 4))
    assert seen == [(16, 0.25, True), (16, 0.25, False)]


@pytest.mark.parametrize("shape", [(4,), (1, 4), (2, 3, 4), (2, 3, 5, 4)])
def test_any_number_of_dimensions_in_front(shape):
    assert FeedForward(4, 8)(torch.zeros(shape)).shape == shape
