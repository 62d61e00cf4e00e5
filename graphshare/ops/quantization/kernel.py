"""Eight-bit integers and the range they stand for, as the oneDNN build computes with them.

Every quantized array comes with the two ends of its range. The number furthest from 0 in it stands for 127.5 (int8) or 255.5
(uint8), but for 127 or 255 when 32-bit integers are narrowed; products are sums of integers (int32) whose range is that of
32 bits. Rounding is half to even.

Sums of products are exact int32 sums, modulo 2**32, on every processor; in :mod:`graphshare.ops.onednn` they are exact until
they are rounded to float32. oneDNN's depend on the processor: only VNNI instructions add exactly; all others first add two
products in int16, which cuts the pair off at -32768 and 32767. ``tests/oracle/int8_sums.py`` derives how far apart the two can
be.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.kernel import convolution_cost, convolution_shapes
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Cost,
    Dim,
    Kernel,
    KernelError,
    Shape,
    ShapeRule,
    Shapes,
    TypeRule,
    Types,
)
from graphshare.ops.limits import QUANTIZED, Limits, require, with_limits
from graphshare.ops.matmul.kernel import fully_connected_cost, fully_connected_shapes
from graphshare.ops.pooling.kernel import pooling, pooling_shapes
from graphshare.ops.quantization.elementwise import KERNELS as ELEMENTWISE_KERNELS
from graphshare.ops.quantization.rnn import KERNELS as RNN_KERNELS
from graphshare.ops.unification import axis_of, dims_of_rank, same_shapes, size_of, unify
from graphshare.ops.windows import window_of
from graphshare.text.format import format_shape

_LEVELS = {"int8": 127.5, "uint8": 255.5, "int32": 2147483648.0}


_ENDS = {"int8": (-128, 127), "uint8": (0, 255)}


Ranged = tuple[Array, Array, Array]


def _reach(low: Array, high: Array) -> float:
    """The distance from 0 of the end that is further away."""
    return max(abs(float(low.ravel()[0])), abs(float(high.ravel()[0])))


def _end(value: float) -> Array:
    return np.full(1, value, np.float32)


def _round_to(x: Array, kind: str) -> Array:
    result: Array = np.clip(np.rint(x), *_ENDS[kind]).astype(kind)
    return result


def _per_unit(reach: float, kind: str) -> Any:
    return np.float32(_LEVELS[kind] / reach) if reach else np.float32(0)


def _kind(attrs: Attrs) -> str:
    """The type of the result: ``auto`` is uint8 where the calibrated range begins at 0 or above."""
    kind: str = attrs["out_type"]
    if kind != "auto":
        return kind
    low = attrs["min_calib_range"]
    return "uint8" if low is not None and low >= 0 and attrs["max_calib_range"] is not None else "int8"


def _calibration_range(attrs: Attrs) -> tuple[float, float] | None:
    low, high = attrs["min_calib_range"], attrs["max_calib_range"]
    return None if low is None or high is None else (low, high)


def quantize(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Floats as integers; the range is the calibrated one, else that of the data."""
    kind = _kind(attrs)
    low, high = _calibration_range(attrs) or (float(x.min()), float(x.max()))
    reach = float(np.float32(max(abs(low), abs(high))))
    if kind == "int8":
        low, high = -reach, reach
    return _round_to(x * _per_unit(reach, kind), kind), _end(low), _end(high)


def dequantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Array:
    """The floats that integers stand for."""
    result: Array = x * np.float32(_reach(low, high) / _LEVELS[str(x.dtype)])
    return result


def requantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """32-bit sums as 8-bit integers; the range is the calibrated one, else that of the data."""
    kind, unit = _kind(attrs), _reach(low, high) / _LEVELS["int32"]
    ends = _calibration_range(attrs) or (float(x.min()) * unit, float(x.max()) * unit)
    reach = max(abs(ends[0]), abs(ends[1]))
    factor = unit * _ENDS[kind][1] / reach if reach else 0.0
    return _round_to(x * factor, kind), _end(0 if kind == "uint8" else -reach), _end(reach)


def act_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """max(x, 0) as int8 whatever comes in; the range stays. What is above 127 is 127 to the operators that read it."""
    if attrs["act_type"] != "relu":
        raise KernelError(f"act_type {attrs['act_type']} is not there for integers; relu is")
    return np.clip(x, 0, 127).astype(np.int8), low, high


def flatten_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """All axes but the first as one."""
    return x.reshape(len(x), -1), low, high


def pool_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """The largest or the rounded mean of every window."""
    if attrs["pool_type"] == "max":
        return pooling(context, attrs, x), low, high
    if attrs["pool_type"] != "avg":
        raise KernelError(f"pool_type {attrs['pool_type']} is not there for integers; max and avg are")
    if attrs["global_pool"] or attrs["count_include_pad"] is False:
        means = pooling(context, attrs, x.astype(np.float32))
    else:  # all cells count, also those that the convention "full" reaches beyond the border
        means = pooling(context, {**attrs, "pool_type": "sum"}, x.astype(np.float32)) / np.float32(prod(attrs["kernel"]))
    return _round_to(means, str(x.dtype)), low, high


def concat_int8(context: Context, attrs: Attrs, *arrays: Array) -> Ranged:
    """Side by side along ``dim``, in the widest of the ranges: arrays first, then both ends of each."""
    count = attrs["num_args"]
    parts, lows, highs = arrays[:count], arrays[count::2], arrays[count + 1 :: 2]
    low, high = min(float(x[0]) for x in lows), max(float(x[0]) for x in highs)
    require(all(str(x.dtype) in QUANTIZED for x in parts), f"expected {' or '.join(QUANTIZED)}")
    kind = "uint8" if all(x.dtype == np.uint8 for x in parts) else "int8"
    wide = max(abs(low), abs(high)) / _LEVELS[kind]
    scaled = []
    for x, begin, end in zip(parts, lows, highs, strict=True):
        factor = _reach(begin, end) / _LEVELS[str(x.dtype)] / wide if wide else 0.0
        scaled.append(x if factor == 1 and str(x.dtype) == kind else _round_to(x * np.float32(factor), kind))
    return np.concatenate(scaled, axis=attrs["dim"]), _end(low), _end(high)


def _product_range(data_levels: float, data: float, weight: float) -> tuple[Array, Array]:
    """The range of 32-bit sums of products."""
    reach = np.float32(data / data_levels) * np.float32(weight / 127) * np.float32(_LEVELS["int32"])
    return _end(-reach), _end(reach)


def _int32(sums: Array) -> Array:
    """Return whole numbers in float64, which holds sums of products below 2**53 exactly, as int32 modulo 2**32."""
    result: Array = sums.astype(np.int64).astype(np.int32)
    return result


def convolve_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """Convolution of integers. A bias is added as the integers it has; uint8 data counts as if 127 were its end."""
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0].astype(np.float64), rest[1:])
    finish = Epilogue(term=bias)
    wide = correlate(x.astype(np.float64), weight.astype(np.float64), finish, window_of(attrs), attrs["num_group"])
    return (_int32(wide), *_product_range(127, _reach(*ends[:2]), _reach(*ends[2:4])))


def dense_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """A dense layer of integers; the bias is brought to the scale of the products, cut to integers."""
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0], rest[1:])
    rows = x.reshape(len(x), -1) if attrs["flatten"] else x
    wide = np.matmul(rows.astype(np.float64), weight.T.astype(np.float64))
    data, other = _reach(*ends[:2]), _reach(*ends[2:4])
    if bias is not None:
        per_unit = _per_unit(data, str(x.dtype)) * _per_unit(other, "int8")
        scale = _reach(*ends[4:6]) / _LEVELS["int8"] * per_unit
        wide += np.trunc(bias * np.float32(scale))
    return (_int32(wide), *_product_range(127 if x.dtype == np.int8 else 255, data, other))


_END: Shape = (1,)


def _with_ends(rule: ShapeRule, layers: Callable[[Attrs], int]) -> ShapeRule:
    """``rule`` for the first ``layers(attrs)`` inputs and the first output; all others have one number."""

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        count = layers(attrs)
        ins, outs = rule(attrs, inputs[:count], outputs[:1])
        return [*ins, *(unify(_END, x) for x in inputs[count:])], [*outs, *(unify(_END, x) for x in outputs[1:])]

    return shapes


def _flatten_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = inputs[0]
    if not data:
        return inputs, outputs
    return inputs, [unify((data[0], size_of(data[1:])), outputs[0])]


def _concat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    known = next((x for x in inputs if x is not None), None)
    if known is None:
        return inputs, outputs
    axis = axis_of(attrs["dim"], len(known))
    frame: Shape = (None,) * len(known)
    for shape in (*inputs, *outputs):
        if shape is not None and len(shape) != len(known):
            raise KernelError(f"{format_shape(shape)} has not the {len(known)} axes of {format_shape(known)}")
        frame = unify(frame, None if shape is None else (*shape[:axis], None, *shape[axis + 1 :]))
    full = dims_of_rank(frame, len(known))
    sizes: list[Dim] = [None if x is None else x[axis] for x in inputs]
    total = None if None in sizes else sum(size for size in sizes if size is not None)
    return (
        [(*full[:axis], size, *full[axis + 1 :]) for size in sizes],
        [unify((*full[:axis], total, *full[axis + 1 :]), outputs[0])],
    )


def _one(attrs: Attrs) -> int:
    return 1


def _layer(attrs: Attrs) -> int:
    return 2 if attrs["no_bias"] else 3


def _quantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["float32"] * len(inputs), [_kind(attrs), "float32", "float32"]


def _requantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["int32", "float32", "float32"], [_kind(attrs), "float32", "float32"]


def _dequantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], "float32", "float32"], ["float32"]


def _pass_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    dtype = inputs[0] or outputs[0]
    return [dtype, "float32", "float32"], [dtype, "float32", "float32"]


def _act_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], "float32", "float32"], ["int8", "float32", "float32"]


def _layer_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    count = _layer(attrs)
    ends = ["float32"] * (len(inputs) - count)
    return [inputs[0], *["int8"] * (count - 1), *ends], ["int32", "float32", "float32"]


def _concat_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    parts = inputs[: attrs["num_args"]]
    kind = "int8" if "int8" in parts else None if None in parts else "uint8"
    return [*parts, *["float32"] * (len(inputs) - len(parts))], [kind, "float32", "float32"]


def _kernel(
    operator: str, forward: Any, shapes: ShapeRule, layers: Callable[[Attrs], int], types: TypeRule, cost: Cost | None = None
) -> Kernel:
    return Kernel(operator, forward, _with_ends(shapes, layers), types, cost=cost)


_FROM_NUMBERS = with_limits(
    Limits(elements=True),
    _kernel("_contrib_quantize_v2", quantize, same_shapes, _one, _quantize_types),
    _kernel("_contrib_requantize", requantize, same_shapes, _one, _requantize_types),
)
KERNELS = with_limits(
    Limits(first=QUANTIZED, positive=("num_group",), rank=1, elements=True),
    *_FROM_NUMBERS,
    _kernel("_contrib_dequantize", dequantize, same_shapes, _one, _dequantize_types),
    _kernel("_contrib_quantized_act", act_int8, same_shapes, _one, _act_types),
    _kernel("_contrib_quantized_flatten", flatten_int8, _flatten_shapes, _one, _pass_dtypes),
    _kernel("_contrib_quantized_pooling", pool_int8, pooling_shapes, _one, _pass_dtypes),
    _kernel("_contrib_quantized_concat", concat_int8, _concat_shapes, lambda attrs: int(attrs["num_args"]), _concat_types),
    _kernel("_contrib_quantized_conv", convolve_int8, convolution_shapes, _layer, _layer_types, convolution_cost),
    _kernel(
        "_contrib_quantized_fully_connected",
        dense_int8,
        fully_connected_shapes,
        _layer,
        _layer_types,
        fully_connected_cost,
    ),
    *ELEMENTWISE_KERNELS,
    *RNN_KERNELS,
)
