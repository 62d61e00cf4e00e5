"""Elementwise operators on 8-bit integers with ranges: quantize, add, multiply, normalize, embed."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.indexing.kernel import embedding, embedding_shapes
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import QUANTIZED, Limits, require, with_limits
from graphshare.ops.normalization.batch_norm import batch_norm_shapes
from graphshare.ops.quantization.ranges import ENDS, Ranged, calibration_range, range_end, reach_of, round_to, with_ranges
from graphshare.ops.unification import axis_of, demand_dtypes, same_shapes

_LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5), "int32": np.float32(1 << 31)}


def _reach(low: Array, high: Array) -> Any:
    return np.float32(reach_of(low, high))


def quantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return floats as integers of the range of the inputs, whose largest absolute value becomes 127 or 255."""
    dtype, reach = attrs["out_type"], _reach(low, high)
    whole = round_to(x * (np.float32(ENDS[dtype][1]) / reach), dtype)
    return (whole, range_end(-reach), range_end(reach)) if dtype == "int8" else (whole, low.copy(), high.copy())


def quantize_asymmetric(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Return floats as uint8 over the calibrated range, else that of the data, with steps per 1.0 and the zero point."""
    if x.dtype == np.uint8:
        return x, range_end(1), range_end(0)
    if x.dtype != np.float32:
        raise KernelError(f"{x.dtype} is not supported, expected float32 or uint8")
    low, high = calibration_range(attrs) or (float(x.min()), float(x.max()))
    scale = np.float32(255) / (np.float32(high) - np.float32(low))
    shift = np.float32(255) - np.float32(high) * scale
    return round_to(x * scale + shift, "uint8"), range_end(scale), range_end(shift)


def _asymmetric_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["uint8", "float32", "float32"]


def add(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Ranged:
    """Return the sum in the calibrated range, else as 32-bit integers in the range of both together.

    Of arrays of two dtypes the unsigned one is first rounded to the scale and dtype of the other.
    """
    first, second, calibrated = _reach(*ends[:2]), _reach(*ends[2:4]), calibration_range(attrs)
    require(str(b.dtype) in QUANTIZED, f"{b.dtype} is not supported, expected {', '.join(QUANTIZED)}")
    dtype = _sum_dtype(attrs, str(a.dtype), str(b.dtype))
    if calibrated is None:
        low, high = -(first + second), first + second
        unit = _LEVELS[dtype] / high
    else:
        low, high = np.float32(calibrated[0]), np.float32(calibrated[1])
        unit = _LEVELS[dtype] / np.float32(max(abs(low), abs(high)))
    parts = []
    for x, reach in ((a, first), (b, second)):
        scaled = x.astype(np.float32) * (unit * reach / _LEVELS[str(x.dtype)])
        mixed = a.dtype != b.dtype and x.dtype == np.uint8
        parts.append(np.clip(np.rint(scaled), -128, 127).astype(np.float32) if mixed else scaled)
    return round_to(parts[0] + parts[1], dtype), range_end(low), range_end(high)


def _sum_dtype(attrs: Attrs, a: str, b: str) -> str:
    if calibration_range(attrs) is None:
        return "int32"
    return a if a == b else "int8"


def multiply(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Array | Ranged:
    """Return the product: as floats, in the calibrated range (fractions truncated), or as 32-bit integers."""
    products = a.astype(np.int32) * b.astype(np.int32)
    first, second = _LEVELS["int8"] / _reach(*ends[:2]), _LEVELS["int8"] / _reach(*ends[2:4])
    if attrs["enable_float_output"]:
        return np.asarray(products * (np.float32(1) / first / second), np.float32)
    calibrated = calibration_range(attrs)
    if calibrated is None:
        level = _reach(*ends[:2]) / np.float32(127) * (_reach(*ends[2:4]) / np.float32(127))
        return products, range_end(-level * _LEVELS["int32"]), range_end(level * _LEVELS["int32"])
    unit = _LEVELS["int8"] / np.float32(max(map(abs, calibrated)))
    truncated = np.trunc(products.astype(np.float32) * (unit / first / second)).astype(np.int64)
    return truncated.astype(np.int8), range_end(calibrated[0]), range_end(calibrated[1])


def normalize(context: Context, attrs: Attrs, x: Array, *rest: Array) -> Ranged:
    """Apply BatchNorm with running statistics to integers, into the calibrated range."""
    gamma, beta, mean, variance, *ends = rest
    calibrated = calibration_range(attrs)
    if calibrated is None:
        raise KernelError("min_calib_range and max_calib_range are required to normalize integers")
    if x.dtype == np.uint8:
        x = round_to(x * (_LEVELS["int8"] / _LEVELS["uint8"]), "int8")
    reach = np.float32(max(map(abs, calibrated)))
    inverse = (1.0 / np.sqrt(variance + attrs["eps"])).astype(np.float32)
    # oneDNN multiplies the variance in beforehand and passes 1 in its place, to which eps is added once more.
    scale = gamma * inverse * _reach(*ends) / reach / np.sqrt(np.float32(1) + np.float32(attrs["eps"]))
    shift = (beta - mean * gamma * inverse) * _LEVELS["int8"] / reach
    shape = [1] * x.ndim
    shape[axis_of(attrs["axis"], x.ndim)] = -1
    out = x.astype(np.float32) * scale.reshape(shape) + shift.reshape(shape)
    return round_to(out, "int8"), range_end(calibrated[0]), range_end(calibrated[1])


def look_up(context: Context, attrs: Attrs, x: Array, weight: Array, low: Array, high: Array) -> Ranged:
    """Return rows of an integer weight, in its range."""
    return embedding(context, attrs, x, weight), low.copy(), high.copy()


def _quantize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return with_ranges(same_shapes(attrs, inputs[:1], outputs[:1]), inputs, outputs)


def _pair_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return with_ranges(same_shapes(attrs, inputs[:2], outputs[:1]), inputs, outputs)


def _normalize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return with_ranges(batch_norm_shapes(attrs, inputs[:5], outputs[:1]), inputs, outputs)


def _look_up_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return with_ranges(embedding_shapes(attrs, inputs[:2], outputs[:1]), inputs, outputs)


def _quantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["float32"] * 3, [attrs["out_type"], "float32", "float32"]


def _add_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    a, b = inputs[:2]
    dtype = None if a is None or b is None else _sum_dtype(attrs, a, b)
    return [a, b, *["float32"] * 4], [dtype, "float32", "float32"]


def _multiply_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known: Types = ["int8", "int8", *["float32"] * 4]
    if attrs["enable_float_output"]:
        return known, ["float32"]
    return known, ["int32" if calibration_range(attrs) is None else "int8", "float32", "float32"]


def _normalize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], *["float32"] * 6], ["int8", "float32", "float32"]


def _look_up_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], "int8", "float32", "float32"], ["int8", "float32", "float32"]


KERNELS = with_limits(
    Limits(first=QUANTIZED, elements=True),
    Kernel("_contrib_quantize", quantize, _quantize_shapes, demand_dtypes(_quantize_types), limits=Limits(elements=True)),
    Kernel(
        "_contrib_quantize_asym",
        quantize_asymmetric,
        _quantize_shapes,
        demand_dtypes(_asymmetric_types),
        limits=Limits(elements=True),
    ),
    Kernel("_contrib_quantized_elemwise_add", add, _pair_shapes, demand_dtypes(_add_types)),
    Kernel("_contrib_quantized_elemwise_mul", multiply, _pair_shapes, demand_dtypes(_multiply_types)),
    Kernel("_contrib_quantized_batch_norm", normalize, _normalize_shapes, demand_dtypes(_normalize_types)),
    Kernel("_contrib_quantized_embedding", look_up, _look_up_shapes, demand_dtypes(_look_up_types)),
)
