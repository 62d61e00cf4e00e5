"""Eight-bit integers made with a given range, added, multiplied, normalized and looked up, with the ranges they stand for."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.batch_norm.kernel import batch_norm_shapes
from graphshare.ops.indexing.kernel import embedding, embedding_shapes
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, Shapes, Types
from graphshare.ops.limits import QUANTIZED, Limits, require, with_limits
from graphshare.ops.unification import axis_of, same_shapes, unify

_LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5), "int32": np.float32(1 << 31)}


_ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}


_ONE: Shape = (1,)


Ranged = tuple[Array, Array, Array]


def _reach(low: Array, high: Array) -> Any:
    """The distance from 0 of the end that is further away."""
    return np.float32(max(abs(float(low.ravel()[0])), abs(float(high.ravel()[0]))))


def _end(value: object) -> Array:
    return np.full(1, value, np.float32)


def _round_to(x: Array, kind: str) -> Array:
    result: Array = np.clip(np.rint(x.astype(np.float64)), *_ENDS[kind]).astype(kind)
    return result


def _calibration_range(attrs: Attrs) -> tuple[float, float] | None:
    low, high = attrs["min_calib_range"], attrs["max_calib_range"]
    return None if low is None or high is None else (low, high)


def quantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Floats as integers of a range that is given; its end furthest from 0 stands for 127 or 255."""
    kind, reach = attrs["out_type"], _reach(low, high)
    whole = _round_to(x * (np.float32(_ENDS[kind][1]) / reach), kind)
    return (whole, _end(-reach), _end(reach)) if kind == "int8" else (whole, low.copy(), high.copy())


def quantize_asymmetric(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Floats as integers from 0 to 255 over the calibrated range, else that of the data; steps per 1, and what stands for 0."""
    if x.dtype == np.uint8:
        return x, _end(1), _end(0)
    if x.dtype != np.float32:
        raise KernelError(f"{x.dtype} where float32 or uint8 is wanted")
    low, high = _calibration_range(attrs) or (float(x.min()), float(x.max()))
    scale = np.float32(255) / (np.float32(high) - np.float32(low))
    shift = np.float32(255) - np.float32(high) * scale
    return _round_to(x * scale + shift, "uint8"), _end(scale), _end(shift)


def _asymmetric_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["uint8", "float32", "float32"]


def add(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Ranged:
    """The sum in the calibrated range, else as 32-bit integers in the range of both together.

    Of arrays of two types the unsigned one is first rounded to the scale and type of the other.
    """
    first, second, found = _reach(*ends[:2]), _reach(*ends[2:4]), _calibration_range(attrs)
    require(str(b.dtype) in QUANTIZED, f"{b.dtype} is not supported, expected {', '.join(QUANTIZED)}")
    kind = _sum_kind(attrs, str(a.dtype), str(b.dtype))
    if found is None:
        low, high = -(first + second), first + second
        unit = _LEVELS[kind] / high
    else:
        low, high = np.float32(found[0]), np.float32(found[1])
        unit = _LEVELS[kind] / np.float32(max(abs(low), abs(high)))
    parts = []
    for x, reach in ((a, first), (b, second)):
        scaled = x.astype(np.float32) * (unit * reach / _LEVELS[str(x.dtype)])
        mixed = a.dtype != b.dtype and x.dtype == np.uint8
        parts.append(np.clip(np.rint(scaled), -128, 127).astype(np.float32) if mixed else scaled)
    return _round_to(parts[0] + parts[1], kind), _end(low), _end(high)


def _sum_kind(attrs: Attrs, a: str, b: str) -> str:
    if _calibration_range(attrs) is None:
        return "int32"
    return a if a == b else "int8"


def multiply(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Array | Ranged:
    """The product: as floats, in the calibrated range, or as 32-bit integers. Fractions are cut off."""
    products = a.astype(np.int32) * b.astype(np.int32)
    first, second = _LEVELS["int8"] / _reach(*ends[:2]), _LEVELS["int8"] / _reach(*ends[2:4])
    if attrs["enable_float_output"]:
        return np.asarray(products * (np.float32(1) / first / second), np.float32)
    found = _calibration_range(attrs)
    if found is None:
        level = _reach(*ends[:2]) / np.float32(127) * (_reach(*ends[2:4]) / np.float32(127))
        return products, _end(-level * _LEVELS["int32"]), _end(level * _LEVELS["int32"])
    unit = _LEVELS["int8"] / np.float32(max(map(abs, found)))
    cut = np.trunc(products * (unit / first / second)).astype(np.int64)
    return cut.astype(np.int8), _end(found[0]), _end(found[1])


def normalize(context: Context, attrs: Attrs, x: Array, *rest: Array) -> Ranged:
    """BatchNorm of integers with gathered statistics, into the calibrated range."""
    gamma, beta, mean, variance, *ends = rest
    found = _calibration_range(attrs)
    if found is None:
        raise KernelError("integers are normalized with min_calib_range and max_calib_range only")
    if x.dtype == np.uint8:
        x = _round_to(x * (_LEVELS["int8"] / _LEVELS["uint8"]), "int8")
    reach = np.float32(max(map(abs, found)))
    inverse = (1.0 / np.sqrt(variance + attrs["eps"])).astype(np.float32)
    # The variance is multiplied in beforehand; what is left, 1, still meets eps on its way.
    scale = gamma * inverse * _reach(*ends) / reach / np.sqrt(np.float32(1) + np.float32(attrs["eps"]))
    shift = (beta - mean * gamma * inverse) * _LEVELS["int8"] / reach
    shape = [1] * x.ndim
    shape[axis_of(attrs["axis"], x.ndim)] = -1
    out = x.astype(np.float32) * scale.reshape(shape) + shift.reshape(shape)
    return _round_to(out, "int8"), _end(found[0]), _end(found[1])


def look_up(context: Context, attrs: Attrs, x: Array, weight: Array, low: Array, high: Array) -> Ranged:
    """Rows of an integer weight, in its range."""
    return embedding(context, attrs, x, weight), low.copy(), high.copy()


def _add_ranges(layer: tuple[Shapes, Shapes], inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    ins, outs = layer
    return (
        [*ins, *(unify(_ONE, x) for x in inputs[len(ins) :])],
        [*outs, *(unify(_ONE, x) for x in outputs[len(outs) :])],
    )


def _quantize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _add_ranges(same_shapes(attrs, inputs[:1], outputs[:1]), inputs, outputs)


def _pair_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _add_ranges(same_shapes(attrs, inputs[:2], outputs[:1]), inputs, outputs)


def _normalize_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _add_ranges(batch_norm_shapes(attrs, inputs[:5], outputs[:1]), inputs, outputs)


def _look_up_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _add_ranges(embedding_shapes(attrs, inputs[:2], outputs[:1]), inputs, outputs)


def _quantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["float32"] * 3, [attrs["out_type"], "float32", "float32"]


def _add_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    a, b = inputs[:2]
    kind = None if a is None or b is None else _sum_kind(attrs, a, b)
    return [a, b, *["float32"] * 4], [kind, "float32", "float32"]


def _multiply_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known: Types = ["int8", "int8", *["float32"] * 4]
    if attrs["enable_float_output"]:
        return known, ["float32"]
    return known, ["int32" if _calibration_range(attrs) is None else "int8", "float32", "float32"]


def _normalize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], *["float32"] * 6], ["int8", "float32", "float32"]


def _look_up_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], "int8", "float32", "float32"], ["int8", "float32", "float32"]


KERNELS = with_limits(
    Limits(first=QUANTIZED, elements=True),
    Kernel("_contrib_quantize", quantize, _quantize_shapes, _quantize_types, limits=Limits(elements=True)),
    Kernel("_contrib_quantize_asym", quantize_asymmetric, _quantize_shapes, _asymmetric_types, limits=Limits(elements=True)),
    Kernel("_contrib_quantized_elemwise_add", add, _pair_shapes, _add_types),
    Kernel("_contrib_quantized_elemwise_mul", multiply, _pair_shapes, _multiply_types),
    Kernel("_contrib_quantized_batch_norm", normalize, _normalize_shapes, _normalize_types),
    Kernel("_contrib_quantized_embedding", look_up, _look_up_shapes, _look_up_types),
)
