"""Section 5.3."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from pellucid.config import TrainingConfig
from pellucid.errors import ConfigError
from pellucid.training.optimizer import inverse_sqrt_rate, learning_rate, make_adam, noam_rate, set_rate, update_average


def test_equation_3_by_hand():
    """d_model 512, warm-up 4000: 512^-0.5 = 0.0441942; at update 4000 both arms are 4000^-0.5 = 0.0158114."""
    assert noam_rate(4000, 512, 4000) == pytest.approx(0.0441942 * 0.0158114, rel=1e-5)
    assert noam_rate(1, 512, 4000) == pytest.approx(0.0441942 * 4000**-1.5, rel=1e-5)
    assert noam_rate(16000, 512, 4000) == pytest.approx(noam_rate(4000, 512, 4000) / 2)


def test_inverse_sqrt_rises_in_a_line_to_its_peak_and_falls():
    rates = [inverse_sqrt_rate(u, 0.005, 100) for u in (1, 50, 100, 400)]
    assert rates == pytest.approx([0.00005, 0.0025, 0.005, 0.0025])


def test_no_peak_given_means_equation_3():
    config = TrainingConfig(warmup_steps=400)
    assert learning_rate(100, config, 128) == noam_rate(100, 128, 400)


def test_cooldown_is_a_line_to_zero_over_the_last_updates():
    """Ten updates of 100: the 91st still has the whole rate, the 96th half of it, the 100th a tenth."""
    flat = {"schedule": "inverse_sqrt", "peak_rate": 0.005, "warmup_steps": 20, "max_updates": 100}
    plain, cooled = TrainingConfig(**flat), TrainingConfig(**flat, cooldown_steps=10)
    shares = [learning_rate(u, cooled, 128) / learning_rate(u, plain, 128) for u in (1, 20, 90, 91, 96, 100)]
    assert shares == pytest.approx([1, 1, 1, 1, 0.5, 0.1])
    assert learning_rate(101, cooled, 128) == 0.0


def test_cooldown_needs_an_end():
    with pytest.raises(ConfigError, match="`cooldown_steps` are the last of `max_updates`, but 10 is more than 0"):
        TrainingConfig(cooldown_steps=10)


def test_adam_is_torchs_adam_with_the_papers_constants():
    """Two steps of the textbook's formulas by hand, on one number whose gradient is 1, then 2."""
    weight = nn.Parameter(torch.tensor([1.0]))
    adam = make_adam([weight], TrainingConfig())
    m = v = 0.0
    x = 1.0
    for t, gradient in enumerate((1.0, 2.0), 1):
        weight.grad = torch.tensor([gradient])
        set_rate([adam], 0.1)
        adam.step()
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        x -= 0.1 * (m / (1 - 0.9**t)) / ((v / (1 - 0.98**t)) ** 0.5 + 1e-9)
        assert weight.item() == pytest.approx(x, rel=1e-6)


def test_moving_average():
    model = nn.Linear(1, 1, bias=False)
    average = {"weight": torch.tensor([[0.0]])}
    with torch.no_grad():
        model.weight.fill_(1.0)
    update_average(average, model, 0.9)
    update_average(average, model, 0.9)
    assert average["weight"].item() == pytest.approx(0.19)
