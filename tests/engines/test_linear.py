"""Linear maps in whole numbers."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from pellucid.engines import linear
from pellucid.engines.linear import (
    CalibratedInt8Linear,
    Float32Linear,
    Observer,
    RowInt8Linear,
    input_factor,
    int8_back_ends,
    int8_pack,
    is_right,
    quantize_rows,
)

WORKING = int8_back_ends()


def calibrated(weight: Tensor, bias: Tensor | None, x: Tensor, back_end: str, relu: bool = False):
    if back_end not in WORKING:
        pytest.skip(f"{back_end} does not work on this machine")
    return CalibratedInt8Linear(weight, bias, relu, (float(x.min()), float(x.max())), (back_end,))


def exact(weight: Tensor, bias: Tensor | None, x: Tensor, relu: bool = False) -> Tensor:
    return Float32Linear("", weight, bias, relu)(x)


def test_rows_are_quantized_by_hand():
    """The largest magnitude of a row becomes 127; 63.5 rounds to the even 64; a row of zeros stays one."""
    whole, scale = quantize_rows(torch.tensor([[1.0, -2.0, 0.0], [0.0, 0.0, 0.0], [-254.0, 2.0, 127.0]]))
    assert whole.tolist() == [[64, -127, 0], [0, 0, 0], [-127, 1, 64]]
    assert scale[0] == pytest.approx(2 / 127) and scale[2] == 2.0


@pytest.mark.parametrize(
    ("span", "scale", "zero"),
    [((-1.0, 1.0), 2 / 255, 128), ((0.0, 5.1), 0.02, 0), ((1.0, 5.1), 0.02, 0), ((-5.1, -1.0), 0.02, 255)],
)
def test_the_input_factor_covers_the_range_and_zero(span, scale, zero):
    """What comes out of max(0, .) has no negative numbers and gets all 255 steps for the positive ones."""
    assert input_factor(*span) == (pytest.approx(scale), zero)


@pytest.mark.parametrize("back_end", ["fbgemm", "onednn"])
@pytest.mark.parametrize("rows", [1, 2, 7, 33])
@pytest.mark.parametrize(("bias", "relu"), [(True, False), (True, True), (False, False)])
def test_error_is_what_rounding_allows(back_end, rows, bias, relu):
    torch.manual_seed(0)
    weight, x = torch.randn(24, 512), torch.randn(rows, 512)
    b = torch.randn(24) if bias else None
    found, right = calibrated(weight, b, x, back_end, relu)(x), exact(weight, b, x, relu)
    assert (found - right).abs().mean() < 0.02 * right.abs().mean()
    assert (found - right).abs().max() < 0.04 * right.abs().max()
    assert not relu or found.min() == 0.0


def test_both_back_ends_make_the_same_sums():
    """Which one runs depends on the number of rows; the result must not."""
    if len(WORKING) < 2:
        pytest.skip("needs both back ends")
    torch.manual_seed(0)
    weight, bias, x = torch.randn(24, 64), torch.randn(24), torch.randn(40, 64)
    one, other = (calibrated(weight, bias, x, name)(x) for name in ("fbgemm", "onednn"))
    torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
    both = CalibratedInt8Linear(weight, bias, False, (float(x.min()), float(x.max())))
    torch.testing.assert_close(torch.cat([both(x[:1]), both(x[1:])]), other, rtol=1e-5, atol=1e-5)


def test_what_lies_outside_of_the_range_is_cut_to_it():
    linear_ = CalibratedInt8Linear(torch.ones(1, 1), None, False, (-1.0, 1.0), WORKING)
    for rows in (1, 40):
        assert linear_(torch.full((rows, 1), 1000.0))[0, 0] == pytest.approx(1.0, abs=0.01)
        assert linear_(torch.full((rows, 1), -1000.0))[0, 0] == pytest.approx(-1.0, abs=0.01)


def test_by_row_a_row_does_not_depend_on_its_neighbours():
    """One row a million times as large would swallow the others if all shared one factor."""
    if "onednn" not in WORKING:
        pytest.skip("onednn does not work on this machine")
    torch.manual_seed(0)
    weight, bias, x = torch.randn(24, 32), torch.randn(24), torch.randn(5, 32)
    rowwise = RowInt8Linear(weight, bias, False)
    alone = rowwise(x)
    assert (alone - exact(weight, bias, x)).abs().max() < 0.03 * alone.abs().max()
    torch.testing.assert_close(rowwise(torch.cat([x, 1e6 * torch.randn(3, 32)]))[:5], alone, rtol=1e-5, atol=1e-6)
    assert rowwise(torch.zeros(1, 32)).tolist() == [bias.tolist()]


@pytest.mark.parametrize("back_end", ["fbgemm", "onednn"])
def test_the_weights_that_were_packed_are_not_changed(back_end):
    weight, x = torch.randn(8, 16), torch.randn(2, 16)
    before = weight.clone()
    calibrated(weight, None, x, back_end)(x)
    assert torch.equal(weight, before)


@pytest.mark.parametrize(
    "broken",
    [
        lambda weight, bias, span: lambda x: x @ weight.t(),  # forgets the bias
        lambda weight, bias, span: lambda x: (x @ weight.t() + bias).clamp(-30, 30),  # saturates
        lambda weight, bias, span: lambda x: x @ weight.t() + bias + 0.1 * len(x),  # depends on the batch
        lambda weight, bias, span: lambda x: torch.full((len(x), 40), float("nan")),
        lambda weight, bias, span: 1 // 0 if weight is None else weight.missing,  # is not there
    ],
)
def test_a_back_end_that_gets_numbers_wrong_is_not_used(broken):
    assert not is_right(broken)
    assert is_right(lambda weight, bias, span: Float32Linear("", weight, bias))


def test_what_packs_depends_on_ranges_and_on_what_works(monkeypatch):
    weight = torch.randn(4, 4)
    if WORKING:  # so small that int8 would be slower
        assert isinstance(int8_pack({"a": (-1.0, 1.0)})("a", weight, None), Float32Linear)
    monkeypatch.setattr(linear, "SMALL", 16)
    monkeypatch.setattr(linear, "int8_back_ends", lambda: ("fbgemm", "onednn"))
    pack = int8_pack({"a": (-1.0, 1.0)})
    assert pack is not None
    if WORKING == ("fbgemm", "onednn"):
        assert isinstance(pack("a", weight, None), CalibratedInt8Linear)
        assert isinstance(pack("b", weight, None), RowInt8Linear)
    monkeypatch.setattr(linear, "int8_back_ends", lambda: ("fbgemm",))
    assert isinstance(int8_pack(None)("b", weight, None), Float32Linear)
    monkeypatch.setattr(linear, "int8_back_ends", tuple)
    assert int8_pack({}) is None


def test_an_observer_notes_the_range_of_every_map():
    observer = Observer()
    first, second = observer("a", torch.eye(2), None), observer("b", torch.eye(2), None, relu=True)
    first(torch.tensor([[1.0, -3.0]]))
    first(torch.tensor([[2.0, 0.0]]))
    assert second(torch.tensor([[0.5, -1.0]])).tolist() == [[0.5, 0.0]]
    first(torch.empty(0, 2))
    assert observer.ranges == {"a": (-3.0, 2.0), "b": (-1.0, 0.5)}
