"""Muon: orthogonal steps for the matrices of the layers."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch import Tensor, nn

from pellucid.config import RunConfig, TrainingConfig
from pellucid.errors import ConfigError
from pellucid.model.transformer import Transformer
from pellucid.training.muon import Muon, orthogonalized
from pellucid.training.optimizer import make_optimizers, set_rate
from pellucid.training.records import Progress
from pellucid.training.run import train
from training.conftest import tiny, write_reversals

SHAPES = [(8, 8), (8, 32), (32, 8), (24, 24), (24, 24)]


def random_matrices(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def test_the_singular_vectors_stay_and_the_values_come_near_one():
    before = random_matrices(0, 3, 16, 40)
    after = orthogonalized(before)
    assert after.shape == before.shape
    values = torch.linalg.svdvals(after)
    assert values.min() > 0.65
    assert values.max() < 1.25
    u, _, v = torch.linalg.svd(before, full_matrices=False)
    inside = u.mT @ after @ v.mT  # diagonal, if the singular vectors are those of `before`
    assert (inside - torch.diag_embed(inside.diagonal(dim1=-2, dim2=-1))).abs().max() < 1e-4


def test_it_is_the_polynomial_on_every_singular_value():
    """By an independent way: five times 3.4445 s - 4.775 s^3 + 2.0315 s^5, s being a share of the Frobenius norm."""
    before = random_matrices(1, 1, 6, 9).double()
    u, s, v = torch.linalg.svd(before, full_matrices=False)
    s = s / s.square().sum().sqrt()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    torch.testing.assert_close(orthogonalized(before), u * s.unsqueeze(-2) @ v, rtol=1e-5, atol=1e-6)


def test_the_size_of_a_gradient_does_not_matter_and_nothing_stays_nothing():
    before = random_matrices(2, 1, 8, 8)
    torch.testing.assert_close(orthogonalized(1000 * before), orthogonalized(before), rtol=1e-4, atol=1e-5)
    assert torch.equal(orthogonalized(torch.zeros(1, 4, 8)), torch.zeros(1, 4, 8))


@pytest.mark.parametrize(("bfloat16", "near"), [(True, 0.03), (False, 0.05)])
def test_it_is_the_muon_of_torch(bfloat16, near):
    """Five steps beside torch.optim.Muon, which multiplies in bfloat16: hence the difference of the other."""
    ours = [nn.Parameter(random_matrices(k, *shape)) for k, shape in enumerate(SHAPES)]
    theirs = [nn.Parameter(weight.detach().clone()) for weight in ours]
    start = [weight.detach().clone() for weight in ours]
    muon = Muon(ours, weight_decay=0.1, bfloat16=bfloat16)
    reference = torch.optim.Muon(theirs, lr=0.01, weight_decay=0.1, adjust_lr_fn="match_rms_adamw")
    set_rate([muon], 0.01)
    for step in range(5):
        for k, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            one.grad = random_matrices(100 * step + k, *one.shape)
            other.grad = one.grad.clone()
        muon.step()
        reference.step()
    for one, other, before in zip(ours, theirs, start, strict=True):
        assert (one - other).norm() < near * (other - before).norm()


def test_the_first_step_by_hand():
    """A gradient of rank one, 2 x (1, 0)^T (0, 1): one singular value; after the norm it is 1, and then as above."""
    weight = nn.Parameter(torch.zeros(2, 2))
    weight.grad = torch.tensor([[0.0, 2.0], [0.0, 0.0]])
    muon = Muon([weight])
    set_rate([muon], 0.1)
    muon.step()
    s = 1.0
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    expected = torch.tensor([[0.0, -0.1 * 0.2 * 2**0.5 * s], [0.0, 0.0]])
    torch.testing.assert_close(weight.detach(), expected, rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(muon.state[weight]["momentum"], 0.05 * weight.grad)


def test_a_weight_without_a_gradient_is_let_be():
    still, moving = (nn.Parameter(random_matrices(k, 4, 4)) for k in range(2))
    before = still.detach().clone()
    moving.grad = random_matrices(3, 4, 4)
    muon = Muon([still, moving], weight_decay=0.5)
    set_rate([muon], 0.1)
    muon.step()
    assert torch.equal(still, before)
    assert still not in muon.state


def test_rehearsing_changes_nothing():
    weight = nn.Parameter(random_matrices(0, 4, 4))
    before = weight.detach().clone()
    muon = Muon([weight])
    muon.rehearse()
    assert torch.equal(weight, before)
    assert not muon.state


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_muon_has_the_matrices_of_the_layers_and_adam_the_rest(norm):
    model = Transformer(20, 20, 16, 2, 2, 3, 32, positions="learned", norm=norm)
    muon, adam = make_optimizers(model, TrainingConfig(optimizer="muon", weight_decay=0.1), bfloat16=False)
    names = {weight: name for name, weight in model.named_parameters()}
    first, second = ([names[w] for group in o.param_groups for w in group["params"]] for o in (muon, adam))
    assert len(first) == 2 * (4 + 2) + 3 * (8 + 2)  # four projections an attention, two matrices a feed-forward
    assert all(".layers." in name and name.endswith("weight") for name in first)
    assert sorted(first + second) == sorted(set(names.values()))
    assert {"src_embedding.weight", "output.weight"} & set(second)
    assert (muon.param_groups[0]["weight_decay"], adam.param_groups[0]["weight_decay"]) == (0.1, 0.0)
    assert len(make_optimizers(model, TrainingConfig(), bfloat16=False)) == 1


def test_another_name_is_refused():
    with pytest.raises(ConfigError, match="`optimizer` must be 'adam' or 'muon'"):
        TrainingConfig(optimizer="sgd")  # type: ignore[arg-type]


def run_of(tmp_path, optimizer: str, **more) -> list:
    records: list = []
    config = tiny(optimizer=optimizer, **more)
    pairs = write_reversals(tmp_path / "pairs.tsv", 300)
    train([str(pairs)], out=tmp_path / optimizer, config=config, on_record=records.append)
    return records


def losses(records: list) -> list[float]:
    return [record.loss for record in records if isinstance(record, Progress)]


def test_it_learns_and_no_worse_than_adam(tmp_path):
    """Reversing digits with a width of 16, far from what Muon is for. Found: 1.37 with Muon, 1.47 with Adam."""
    adam, muon = (losses(run_of(tmp_path, name, max_updates=200, peak_rate=0.02)) for name in ("adam", "muon"))
    assert adam[0] == muon[0]
    assert sum(muon[-10:]) < sum(adam[-10:])


def test_resuming_with_the_other_one_is_refused(tmp_path):
    run_of(tmp_path, "muon", max_updates=3)
    config = RunConfig.from_toml(tmp_path / "muon" / "training" / "config.toml")
    other = dataclasses.replace(config, training=dataclasses.replace(config.training, optimizer="adam"))
    with pytest.raises(ConfigError, match=r"cannot change training\.optimizer"):
        train(out=tmp_path / "muon", config=other, resume=True)
