"""Products of bfloat16 on a CPU. They work on every CPU; only some are faster with them."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from pellucid.config import TransformerConfig
from pellucid.model.transformer import Transformer
from pellucid.training import bfloat16
from pellucid.training.bfloat16 import MixedPrecisionLinear, has_matrix_units, multiply_in_bfloat16
from pellucid.training.records import Prepared, Progress
from pellucid.training.run import train
from pellucid.translator import Translator
from training.conftest import tiny


def pair_of_maps(inputs: int, outputs: int, bias: bool = True) -> tuple[nn.Linear, nn.Linear]:
    plain = nn.Linear(inputs, outputs, bias=bias)
    mixed = nn.Sequential(copy.deepcopy(plain))
    multiply_in_bfloat16(mixed)
    return plain, mixed[0]


def outputs_and_gradients(module: nn.Linear, x: torch.Tensor, upstream: torch.Tensor) -> list[torch.Tensor]:
    x = x.clone().requires_grad_()
    y = module(x)
    return [y.detach(), *torch.autograd.grad(y, [x, *module.parameters()], upstream)]


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 33), (65,), (2, 0)])
@pytest.mark.parametrize("bias", [True, False])
def test_where_nothing_needs_rounding_all_is_as_in_float32(shape, bias):
    """Whole numbers up to 256 are exact in bfloat16 (8 bits), and so are products and sums of few small ones."""
    plain, mixed = pair_of_maps(3, 4, bias)
    with torch.no_grad():
        for parameter in (*plain.parameters(), *mixed.parameters()):
            torch.manual_seed(parameter.dim())
            parameter.copy_(torch.randint(-2, 3, parameter.shape))
    x = torch.randint(-3, 4, (*shape, 3)).float()
    upstream = torch.randint(-1, 2, (*shape, 4)).float()
    for found, right in zip(*(outputs_and_gradients(m, x, upstream) for m in (mixed, plain)), strict=True):
        assert found.dtype == torch.float32 and torch.equal(found, right)


def test_what_is_finer_than_bfloat16_is_rounded_while_training_only():
    plain, mixed = pair_of_maps(1, 1, bias=False)
    with torch.no_grad():
        plain.weight.fill_(1.0)
        mixed.weight.fill_(1.0)
    x = torch.tensor([[1.001]])  # between 1 and 1 + 2^-7, the next number of bfloat16
    assert mixed(x).item() == 1.0
    assert torch.equal(mixed.eval()(x), plain(x)) and plain(x).item() != 1.0


def test_gradients_of_a_whole_model_point_where_those_of_float32_do():
    torch.manual_seed(0)
    config = TransformerConfig(
        20, 20, d_model=32, n_heads=4, num_encoder_layers=2, num_decoder_layers=2, d_ff=64, dropout=0.0
    )
    plain = Transformer.from_config(config)
    mixed = copy.deepcopy(plain)
    multiply_in_bfloat16(mixed)
    src, tgt = torch.randint(0, 20, (6, 9)), torch.randint(0, 20, (6, 7))
    flat = []
    for model in (plain, mixed):
        model.train()
        model.decode(tgt, model.encode(src)).square().sum().backward()
        flat.append(torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None]))
    assert not torch.equal(*flat)
    assert torch.cosine_similarity(*flat, 0) > 0.999


def test_few_different_numbers_of_rows_reach_the_library():
    """Each is a program compiled anew; about a thousand are kept, for all shapes of weights and three products each."""
    numbers = {len(bfloat16._rounded(torch.zeros(n, 1))) for n in range(1, 8193)}
    assert len(numbers) < 120
    assert all(len(bfloat16._rounded(torch.zeros(n, 1))) - n <= max(63, n // 8) for n in range(1, 8193))


def test_a_map_of_another_class_is_left_alone():
    class Own(nn.Linear):
        pass

    model = nn.Sequential(nn.Linear(2, 2), Own(2, 2))
    multiply_in_bfloat16(model)
    assert [type(m) for m in model] == [MixedPrecisionLinear, Own]


def test_a_run_says_which_precision_it_has_and_learns_the_same(tmp_path, reversals, monkeypatch):
    """`auto` takes bfloat16 where the CPU has units for it and the model is wide enough, and only there."""
    monkeypatch.setattr("pellucid.training.run.has_matrix_units", lambda: True)
    last = {}
    for name, precision, units, narrowest in (
        ("float32", "float32", True, 16),
        ("asked", "bfloat16", True, 256),
        ("auto", "auto", True, 16),
        ("narrow", "auto", True, 32),
        ("without", "auto", False, 16),
    ):
        monkeypatch.setattr("pellucid.training.trainer.has_matrix_units", lambda units=units: units)
        monkeypatch.setattr("pellucid.training.trainer.NARROWEST", narrowest)
        records: list = []
        config = tiny(precision=precision, max_updates=120, validate_bleu=False, device="cpu")
        train([str(reversals)], out=tmp_path / name, config=config, on_record=records.append)
        prepared = next(r for r in records if isinstance(r, Prepared))
        assert prepared.precision == ("bfloat16" if name in ("asked", "auto") else "float32"), name
        last[name] = [r.loss for r in records if isinstance(r, Progress)]
    assert last["auto"] == last["asked"] != last["float32"] == last["narrow"] == last["without"]
    assert last["auto"][-1] < 0.8 * last["auto"][0]
    assert sum(last["auto"][-20:]) == pytest.approx(sum(last["float32"][-20:]), rel=0.02)
    assert Translator.load(tmp_path / "auto").translate(["1 2"])[0].text  # a folder like any other


def test_this_processor_is_asked_and_not_guessed(monkeypatch):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"amx_bf16": True}, raising=False)
    assert has_matrix_units()
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: {"avx512_bf16": True}, raising=False)
    assert not has_matrix_units()  # instructions for pairs of numbers are no faster than float32's (measured)
    monkeypatch.delattr(torch.cpu, "get_capabilities")
    assert not has_matrix_units()  # a PyTorch that cannot say so
