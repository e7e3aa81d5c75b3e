"""Linear maps for decoding: float32; int8 by two back ends for a CPU; bfloat16 for a GPU.

int8: a row of a weight matrix is stored as whole numbers from -127 to 127 with one factor, and the input is rounded to
whole numbers from 0 to 255 likewise; what is summed are products of whole numbers, and the factors are multiplied back.
A quarter of the bytes are read, which for a few rows is all that counts.

The input's factor comes from one of two places:

    calibrated    a range for each map, seen while the model translated (`Ranges`). Whatever lies outside is cut to it
    by row        each row's own largest magnitude: no range is needed, but finding it costs more than the product

Either way a row's result does not depend on the other rows, and so not on what else is in the batch.

PyTorch has two kernels, one quicker for few rows ("fbgemm"), one for many ("onednn"). From the same whole numbers both
make the same sums. Both are operators that PyTorch keeps for its own compiler or calls deprecated, so
:func:`int8_back_ends` tries them with numbers before anybody relies on them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

TINY = 1e-30
"""Rows of zeros are divided by this and stay zeros."""
FEW_ROWS = 16
"""Up to so many rows fbgemm is quicker, with more onednn."""
SMALL = 100_000
"""Maps of fewer weights stay float32: they lie in a core's cache, and an int8 kernel takes longer to start."""


class Linear(Protocol):
    """A packed linear map."""

    def __call__(self, x: Tensor) -> Tensor:
        """(n, in) -> (n, out), float32 both unless the map is one of bfloat16; a new tensor."""
        ...


class Pack(Protocol):
    """What makes a linear map."""

    def __call__(self, name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
        """`weight` (out, in), `bias` (out); `relu`: max(0, .) at the end. `name` says which map of the model it is."""
        ...


class Float32Linear:
    """x W^T + b, with W^T stored as such: PyTorch's own layout is half as fast at a few rows."""

    def __init__(self, name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> None:
        self._weight = weight.detach().t().contiguous()  # (in, out)
        self._bias = None if bias is None else bias.detach()
        self._relu = relu

    def __call__(self, x: Tensor) -> Tensor:
        y = x @ self._weight if self._bias is None else torch.addmm(self._bias, x, self._weight)
        return y.relu_() if self._relu else y


# --- bfloat16 -----------------------------------------------------------------------------------------------------------


def bfloat16_pack(name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
    """Maps of bfloat16, the last of which gives float32."""
    return Bfloat16Logits(weight) if name == "output" else Bfloat16Linear(weight, bias, relu)


def multiplies_bfloat16(device: torch.device) -> bool:
    """Whether it is a GPU that multiplies bfloat16 itself. Older ones (before NVIDIA's Ampere) imitate it, slowly."""
    if device.type != "cuda":
        return False
    with torch.cuda.device(device):
        return torch.cuda.is_bf16_supported(including_emulation=False)


class Bfloat16Linear:
    """(n, in) of any precision -> (n, out) in bfloat16: a GPU's matrix units are quickest with that, and sum up in float32."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool) -> None:
        self._weight = weight.detach().to(torch.bfloat16)
        self._bias = None if bias is None else bias.detach().to(torch.bfloat16)
        self._relu = relu

    def __call__(self, x: Tensor) -> Tensor:
        y = F.linear(x.to(torch.bfloat16), self._weight, self._bias)
        return y.relu_() if self._relu else y


class Bfloat16Logits:
    """The same, but the sums stay float32: rounded to bfloat16, logits that are near each other would be ties."""

    def __init__(self, weight: Tensor) -> None:
        self._weight = weight.detach().to(torch.bfloat16).t()  # (in, out)

    def __call__(self, x: Tensor) -> Tensor:
        x = x.to(torch.bfloat16)
        if x.device.type == "cuda":
            return torch.mm(x, self._weight, out_dtype=torch.float32)
        return x.float() @ self._weight.float()  # the same numbers; a CPU's product has no such option


# --- int8 ---------------------------------------------------------------------------------------------------------------

Ranges = Mapping[str, tuple[float, float]]
"""For each map, the lowest and highest number that its input had."""


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:
    """`weight` (out, in) as int8 and one factor a row (out): weight = int8 x factor, within half a factor."""
    scale = weight.detach().abs().amax(1).clamp_min(TINY) / 127.0
    return (weight.detach() / scale[:, None]).round_().to(torch.int8), scale


def input_factor(lowest: float, highest: float) -> tuple[float, int]:
    """The factor, and the whole number that stands for 0, so that 0 to 255 cover `lowest` to `highest` and zero."""
    lowest, highest = min(lowest, 0.0), max(highest, 0.0)
    scale = max(highest - lowest, TINY) / 255.0
    return scale, min(255, max(0, round(-lowest / scale)))


class CalibratedInt8Linear:
    """int8 with one factor for all inputs."""

    def __init__(
        self,
        weight: Tensor,
        bias: Tensor | None,
        relu: bool,
        span: tuple[float, float],
        back_ends: tuple[str, ...] = ("fbgemm", "onednn"),
    ) -> None:
        self._scale, self._zero = input_factor(*span)
        self._relu = relu
        whole, scale = quantize_rows(weight)
        self._fbgemm = _fbgemm_packed(whole, scale, bias) if "fbgemm" in back_ends else None
        self._onednn = _Onednn(whole, scale, bias, relu) if "onednn" in back_ends else None
        quantized = torch.ops.quantized
        self._few = (
            quantized.linear_with_input_q_dq_qweight_dq_relu_output_fp32
            if relu
            else quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        )

    def __call__(self, x: Tensor) -> Tensor:
        if self._onednn is None or (self._fbgemm is not None and x.size(0) <= FEW_ROWS):
            return self._few(x, self._scale, self._zero, self._fbgemm)
        rounded = torch.quantize_per_tensor(x, self._scale, self._zero, torch.quint8)
        # The same bytes, called whole numbers: PyTorch's own way, `int_repr`, copies them, at five times the cost.
        whole = torch.empty(0, dtype=torch.uint8).set_(rounded.untyped_storage(), 0, x.shape, rounded.stride())
        return self._onednn(whole, self._scale, self._zero)


class RowInt8Linear:
    """int8 with a factor for each row of the input."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool) -> None:
        self._onednn = _Onednn(*quantize_rows(weight), None, False)
        self._bias = None if bias is None else bias.detach()
        self._relu = relu

    def __call__(self, x: Tensor) -> Tensor:
        largest = x.abs().amax(1, keepdim=True).clamp_min_(TINY)  # (n, 1)
        whole = (x * (127.0 / largest)).round_().add_(128.0).to(torch.uint8)
        y = self._onednn(whole, 1.0 / 127.0, 128)
        y = y.mul_(largest) if self._bias is None else torch.addcmul(self._bias, y, largest)
        return y.relu_() if self._relu else y


class _Onednn:
    """Whole numbers in, float32 out."""

    def __init__(self, whole: Tensor, scale: Tensor, bias: Tensor | None, relu: bool) -> None:
        self._packed = torch.ops.onednn.qlinear_prepack(whole, None)
        self._scale, self._zeros = scale, torch.zeros(len(whole), dtype=torch.int32)
        self._bias = None if bias is None else bias.detach()
        self._after = "relu" if relu else "none"

    def __call__(self, whole: Tensor, scale: float, zero: int) -> Tensor:
        y: Tensor = torch.ops.onednn.qlinear_pointwise(
            whole, scale, zero, self._packed, self._scale, self._zeros, self._bias, 1.0, 0, torch.float32, self._after,
            [], "",
        )  # fmt: skip
        return y


def _fbgemm_packed(whole: Tensor, scale: Tensor, bias: Tensor | None) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that its number types are deprecated: hence the trial before use
        weight = torch._make_per_channel_quantized_tensor(
            whole, scale.double(), torch.zeros(len(whole), dtype=torch.long), 0
        )
        return torch.ops.quantized.linear_prepack(weight, None if bias is None else bias.detach())


def int8_pack(ranges: Ranges | None) -> Pack | None:
    """What makes int8 maps on this machine, calibrated where `ranges` has their name; None where int8 does not work."""
    working = int8_back_ends()
    if not working:
        return None

    def pack(name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
        if weight.numel() < SMALL:
            return Float32Linear(name, weight, bias, relu)
        if ranges is not None and name in ranges:
            return CalibratedInt8Linear(weight, bias, relu, ranges[name], working)
        if "onednn" in working:
            return RowInt8Linear(weight, bias, relu)
        return Float32Linear(name, weight, bias, relu)

    return pack


def int8_back_ends() -> tuple[str, ...]:
    """Those of fbgemm and onednn that work on this machine, each tried with numbers that a faulty one gets wrong."""

    def made_with(name: str) -> Callable[[Tensor, Tensor, tuple[float, float]], Linear]:
        return lambda weight, bias, span: CalibratedInt8Linear(weight, bias, False, span, (name,))

    return tuple(name for name in ("fbgemm", "onednn") if is_right(made_with(name)))


def is_right(make: Callable[[Tensor, Tensor, tuple[float, float]], Linear]) -> bool:
    """Whether the map that `make` makes of a weight, a bias and a range is right to within int8's rounding."""
    generator = torch.Generator().manual_seed(0)
    weight, bias = torch.randn(40, 64, generator=generator), torch.randn(40, generator=generator)
    x = torch.randn(33, 64, generator=generator)
    x[4], weight[7] = 0.0, 0.0
    # All products at their largest: where sums of two of them are kept in 16 bits, they overflow here.
    x[5], weight[8] = x.max(), 1.0
    span = (float(x.min()), float(x.max()))
    try:
        linear = make(weight, bias, span)
        y, alone = linear(x), linear(x[2:3])
    except (RuntimeError, AttributeError, NotImplementedError):
        return False
    # Half a step on either side, for each of 64 products, is the most that rounding can do; a third of it is rare.
    step, magnitude = (span[1] - span[0]) / 255, weight.abs()
    possible = 64 * (step / 2 * magnitude.mean(1) + magnitude.amax(1) / 254 * x.abs().mean(1, keepdim=True))
    close = ((y - (x @ weight.t() + bias)).abs() <= 0.5 * possible + 1e-4).all()
    # By itself a row gives the same: not by the bit, because the last multiplication may be rounded differently.
    return bool(close) and torch.allclose(y[2:3], alone, rtol=1e-5, atol=1e-5)


class Observer:
    """Packs float32 maps that note the range of what they are given: see `ranges` after some translating."""

    def __init__(self) -> None:
        self.ranges: dict[str, tuple[float, float]] = {}

    def __call__(self, name: str, weight: Tensor, bias: Tensor | None, relu: bool = False) -> Linear:
        linear = Float32Linear(name, weight, bias, relu)

        def observed(x: Tensor) -> Tensor:
            if x.numel():
                lowest, highest = self.ranges.get(name, (0.0, 0.0))
                self.ranges[name] = (min(lowest, float(x.min())), max(highest, float(x.max())))
            return linear(x)

        return observed
