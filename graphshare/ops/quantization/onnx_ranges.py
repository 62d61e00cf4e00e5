"""Integers with ranges in ONNX: rounding, steps and sums of products, in the dtypes in which the kernels compute them."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from graphshare.ops.convolution.to_onnx import translate_convolution
from graphshare.ops.kernel import Attrs
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.quantization.ranges import ENDS
from graphshare.ops.translation import Translation, Value

_EXACT = 1 << 24
"""Below it float32 holds every integer."""


def constant_end(t: Translation, value: float) -> str:
    """Return a constant end of a range."""
    return t.constant(np.full(1, value, np.float32), "float32")


def largest(low: Term, high: Term) -> Term:
    """Return the largest absolute value of a range."""
    return low.apply("Abs").apply("Max", high.apply("Abs"))


def reach_of(t: Translation, first: int) -> Term:
    """Return the largest absolute value of the range whose ends are inputs ``first`` and the one behind it."""
    return largest(term(t, first), term(t, first + 1))


def divide_or(dividend: float, divisor: Term, otherwise: float) -> Term:
    """Return ``dividend / divisor``, or another number where the divisor is 0."""
    return divisor.equals(0).choose(divisor.number(otherwise), divisor.number(dividend) / divisor)


def round_to(x: Term, dtype: str, *, may_be_nan: bool = False) -> Term:
    """Return floats rounded half to even, within the limits of an integer dtype; NaN becomes the upper one, or 0 in uint8."""
    if may_be_nan:  # QuantizeLinear leaves open what it makes of NaN
        x = x.is_nan().choose(0.0 if dtype == "uint8" else float(ENDS[dtype][1]), x)
    if x.dtype == "float32" and dtype != "int32":  # a step of 1
        one, zero = x.number(1), x.number(0, dtype)
        return Term(x.t, x.t.emit("QuantizeLinear", x.name, one.name, zero.name), dtype)
    low, high = ENDS[dtype]
    return x.cast("float64").apply("Round").apply("Clip", low, high).cast(dtype)


def product_range(data: Term, data_levels: float, weight: Term, weight_levels: float) -> list[str]:
    """Return the ends of the range of 32-bit sums of products."""
    reach = (data / data_levels) * (weight / weight_levels) * float(1 << 31)
    return [(-reach).name, reach.name]


def convolve(t: Translation, attrs: Attrs, x: Term, weight: Term, shapes: Mapping[str, tuple[int, ...]]) -> Term:
    """Return the convolution of integers in float32, which is exact for sums below 2**24, else nearly so.

    ``shapes`` are those of ``x``, ``weight`` and ``out``. ``ConvInteger`` would not do: onnxruntime adds pairs of products in
    16 bits on processors without VNNI, and clips them. ``Round`` behind it keeps onnxruntime from multiplying what follows
    into the weights, which would not be integers then.
    """
    inputs = [Value(v.cast("float32").name, shapes[key], "float32") for key, v in (("x", x), ("weight", weight))]
    out = Value("", shapes["out"], "float32")
    return Term(t, translate_convolution(t.derive({**attrs, "no_bias": True}, inputs, [out])), "float32").apply("Round")


def multiply_rows(t: Translation, x: Term, weight: Term, shape: tuple[int, ...], weight_shape: tuple[int, ...]) -> Term:
    """Return the exact products of integer rows (the last axis of ``shape``) and the rows of a weight (units, inputs).

    They are float64, or float32 where the sums fit.
    """
    exact = "float32" if weight_shape[1] * 255 * 128 < _EXACT else "float64"
    rows = x.cast(exact)
    if len(shape) > 2:
        rows = rows.reshape((prod(shape[:-1]), shape[-1]))
    return Term(t, t.emit("Gemm", rows.name, weight.cast(exact).name, transB=1), exact)
