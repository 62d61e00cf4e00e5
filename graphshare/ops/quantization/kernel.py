"""Layers of 8-bit integers with ranges, as oneDNN computes them. They have no gradients.

Every quantized array has the two ends of its range as further arrays. The largest absolute value of the range is represented
by 127.5 (int8) or 255.5 (uint8), but by 127 or 255 when 32-bit integers are narrowed; products are int32 sums whose range is
that of 32 bits. Rounding is half to even.

Sums of products are exact int32 sums, modulo 2**32, on every processor; in :mod:`graphshare.ops.onednn` they are exact until
they are rounded to float32. oneDNN's depend on the processor: only VNNI instructions add exactly; all others first add two
products in int16, which clips the pair to -32768 and 32767. ``tests/oracle/int8_sums.py`` derives the largest difference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.concat.kernel import concatenate_shapes
from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.kernel import convolution_cost, convolution_shapes
from graphshare.ops.gradient import no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Cost, Kernel, KernelError, ShapeRule, Shapes, TypeRule, Types
from graphshare.ops.limits import QUANTIZED, Limits, require, with_limits
from graphshare.ops.matmul.kernel import fully_connected_cost, fully_connected_shapes
from graphshare.ops.pooling.kernel import pooling, pooling_shapes
from graphshare.ops.quantization.elementwise import KERNELS as ELEMENTWISE_KERNELS
from graphshare.ops.quantization.ranges import (
    ENDS,
    WHOLE_RANGES,
    Ranged,
    calibration_range,
    product_range,
    range_end,
    reach_of,
    round_to,
    with_ranges,
)
from graphshare.ops.quantization.rnn import KERNELS as RNN_KERNELS
from graphshare.ops.unification import demand_dtypes, same_shapes, size_of, unify
from graphshare.ops.windows import is_channels_last, window_of

_LEVELS = {"int8": 127.5, "uint8": 255.5, "int32": 2147483648.0}

_EXACT_CELLS = 1 << 16
"""Number of bytes up to which float32 holds their sum exactly in any order."""


def _per_unit(reach: float, dtype: str) -> Any:
    return np.float32(_LEVELS[dtype] / reach) if reach else np.float32(0)


def _output_dtype(attrs: Attrs) -> str:
    """Return the dtype of the result: ``auto`` is uint8 where the calibrated range begins at 0 or above."""
    dtype: str = attrs["out_type"]
    if dtype != "auto":
        return dtype
    low = attrs["min_calib_range"]
    return "uint8" if low is not None and low >= 0 and attrs["max_calib_range"] is not None else "int8"


def quantize(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Return floats as integers; the range is the calibrated one, else that of the data. Bytes of integers are copied."""
    dtype = _output_dtype(attrs)
    if x.dtype.kind != "f":
        low, high = calibration_range(attrs) or WHOLE_RANGES[str(x.dtype)]
        return x.copy().view(dtype), range_end(low), range_end(high)
    low, high = calibration_range(attrs) or (float(x.min()), float(x.max()))
    reach = float(np.float32(max(abs(low), abs(high))))
    if dtype == "int8":
        low, high = -reach, reach
    with np.errstate(invalid="ignore"):  # in a range of 0 a number becomes infinite, and 0 NaN
        scaled = x * (_per_unit(reach, dtype) if reach else np.float32(np.inf))
    return round_to(scaled, dtype), range_end(low), range_end(high)


def dequantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Array:
    """Return the floats that integers represent."""
    return np.asarray(x * np.float32(reach_of(low, high) / _LEVELS[str(x.dtype)]))


def requantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return 32-bit sums as 8-bit integers; the range is the calibrated one, else that of the data."""
    dtype, unit = _output_dtype(attrs), np.float32(reach_of(low, high) / _LEVELS["int32"])
    ends = calibration_range(attrs) or (float(np.float32(x.min()) * unit), float(np.float32(x.max()) * unit))
    reach = max(abs(ends[0]), abs(ends[1]))
    with np.errstate(divide="ignore", invalid="ignore"):  # nothing represents a range of 0: infinities and NaN
        scaled = x.astype(np.float32) * (unit * (np.float32(ENDS[dtype][1]) / np.float32(reach)))
    return round_to(scaled, dtype), range_end(0 if dtype == "uint8" else -reach), range_end(reach)


def act_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return max(x, 0) as int8 for any input dtype, in the same range; values above 127 become 127."""
    if attrs["act_type"] != "relu":
        raise KernelError(f"act_type {attrs['act_type']} is not supported for integers, expected relu")
    return np.clip(x, 0, 127).astype(np.int8), low, high


def flatten_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Merge all axes but the first."""
    return x.reshape(len(x), -1), low, high


def pool_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return the maximum or the rounded mean of every window."""
    attrs = _full_windows(attrs)
    if attrs["pool_type"] == "max":
        return pooling(context, attrs, x), low, high
    if attrs["pool_type"] != "avg":
        raise KernelError(f"pool_type {attrs['pool_type']} is not supported for integers, expected max or avg")
    if attrs["global_pool"] and prod(x.shape[2:]) <= _EXACT_CELLS:
        cells = x.reshape(*x.shape[:2], -1).astype(np.float32)
        means = np.matmul(cells, np.ones(cells.shape[2], np.float32)).reshape(*x.shape[:2], *(1,) * (x.ndim - 2))
        for size in x.shape[2:]:
            means /= np.float32(size)
    elif attrs["global_pool"] or attrs["count_include_pad"] is False:
        means = pooling(context, attrs, x.astype(np.float32))
    else:  # all cells count, also those beyond the padding that the convention "full" adds
        means = pooling(context, {**attrs, "pool_type": "sum"}, x.astype(np.float32)) / np.float32(prod(attrs["kernel"]))
    return round_to(means, str(x.dtype)), low, high


def concat_int8(context: Context, attrs: Attrs, *arrays: Array) -> Ranged:
    """Concatenate along ``dim``, in the widest of the ranges, and of 0; the inputs are the arrays, then both ends of each."""
    count = attrs["num_args"]
    parts, lows, highs = arrays[:count], arrays[count::2], arrays[count + 1 :: 2]
    low, high = min(0.0, *(float(x[0]) for x in lows)), max(0.0, *(float(x[0]) for x in highs))
    require(all(str(x.dtype) in QUANTIZED for x in parts), f"expected {' or '.join(QUANTIZED)}")
    dtype = "uint8" if all(x.dtype == np.uint8 for x in parts) else "int8"
    wide = max(abs(low), abs(high)) / _LEVELS[dtype]
    scaled = []
    for x, begin, end in zip(parts, lows, highs, strict=True):
        factor = reach_of(begin, end) / _LEVELS[str(x.dtype)] / wide if wide else 1.0
        scaled.append(x if factor == 1 and str(x.dtype) == dtype else round_to(x * np.float32(factor), dtype))
    return np.concatenate(scaled, axis=attrs["dim"]), range_end(low), range_end(high)


def _int32(sums: Array) -> Array:
    """Return whole numbers in float64, which holds sums of products below 2**53 exactly, as int32 modulo 2**32."""
    return np.asarray(sums.astype(np.int64).astype(np.int32))


def convolve_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """Convolve integers. The integers of a bias are added without scaling; the range of uint8 data is read as one of int8."""
    require(min(attrs["pad"] or (0,)) >= 0, f"pad is {attrs['pad']}, expected at least 0")
    require(not is_channels_last(attrs["layout"]), f"layout {attrs['layout']} is not supported for integers, expected NCHW")
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0].astype(np.float64), rest[1:])
    epilogue = Epilogue(term=bias)
    wide = correlate(x.astype(np.float64), weight.astype(np.float64), epilogue, window_of(attrs), attrs["num_group"])
    return (_int32(wide), *product_range(reach_of(*ends[:2]), 127, reach_of(*ends[2:4]), 127))


def dense_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """Compute a dense layer of integers; the bias is rescaled to the steps of the products and truncated."""
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0], rest[1:])
    rows = x.reshape(len(x), -1) if attrs["flatten"] else x
    wide = np.matmul(rows.astype(np.float64), weight.T.astype(np.float64))
    data, other = reach_of(*ends[:2]), reach_of(*ends[2:4])
    if bias is not None:
        per_unit = _per_unit(data, str(x.dtype)) * _per_unit(other, "int8")
        scale = per_unit * np.float32(reach_of(*ends[4:6])) / np.float32(_LEVELS["int8"])  # in MXNet's order
        wide += np.trunc(bias * scale)
    return (_int32(wide), *product_range(data, 127 if x.dtype == np.int8 else 255, other, 127))


def _flatten_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data = inputs[0]
    if not data:
        return inputs, outputs
    return inputs, [unify((data[0], size_of(data[1:])), outputs[0])]


def _concat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return concatenate_shapes({"axis": attrs["dim"]}, inputs, outputs)


def _pool_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the shapes of Pooling over two or three axes, with channels first; the convention ``same`` is read as ``full``."""
    if len(attrs["kernel"]) not in (2, 3) or len(attrs["pad"] or attrs["kernel"]) != len(attrs["kernel"]):
        raise KernelError(f"kernel is {attrs['kernel']}, expected two or three sizes, also for global_pool")
    require(attrs["layout"] in (None, "NCHW", "NCDHW"), f"layout {attrs['layout']} is not supported, expected NCHW or NCDHW")
    return pooling_shapes(_full_windows(attrs), inputs, outputs)


def _full_windows(attrs: Attrs) -> Attrs:
    return {**attrs, "pooling_convention": "full"} if attrs["pooling_convention"] == "same" else attrs


def _one(attrs: Attrs) -> int:
    return 1


def _layer(attrs: Attrs) -> int:
    return 2 if attrs["no_bias"] else 3


def _quantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0] if inputs[0] in QUANTIZED else "float32"], [_output_dtype(attrs), "float32", "float32"]


def _requantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return ["int32", "float32", "float32"], [_output_dtype(attrs), "float32", "float32"]


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
    dtype = "int8" if "int8" in parts else None if None in parts else "uint8"
    return [*parts, *["float32"] * (len(inputs) - len(parts))], [dtype, "float32", "float32"]


def _kernel(
    operator: str, forward: Any, shapes: ShapeRule, layers: Callable[[Attrs], int], types: TypeRule, cost: Cost | None = None
) -> Kernel:
    def rule(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        return with_ranges(shapes(attrs, inputs[: layers(attrs)], outputs[:1]), inputs, outputs)

    return Kernel(operator, forward, rule, demand_dtypes(types), cost=cost)


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
    _kernel("_contrib_quantized_pooling", pool_int8, _pool_shapes, _one, _pass_dtypes),
    _kernel("_contrib_quantized_concat", concat_int8, _concat_shapes, lambda attrs: int(attrs["num_args"]), _concat_types),
    _kernel("_contrib_quantized_conv", convolve_int8, convolution_shapes, _layer, _layer_types, convolution_cost),
    _kernel(
        "_contrib_quantized_fully_connected", dense_int8, fully_connected_shapes, _layer, _layer_types, fully_connected_cost
    ),
    *ELEMENTWISE_KERNELS,
    *RNN_KERNELS,
)

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        "_contrib_quantize_v2",
        "_contrib_dequantize",
        "_contrib_requantize",
        "_contrib_quantized_act",
        "_contrib_quantized_flatten",
        "_contrib_quantized_pooling",
        "_contrib_quantized_concat",
        "_contrib_quantized_conv",
        "_contrib_quantized_fully_connected",
        "_contrib_quantize",
        "_contrib_quantize_asym",
        "_contrib_quantized_batch_norm",
        "_contrib_quantized_elemwise_add",
        "_contrib_quantized_elemwise_mul",
        "_contrib_quantized_embedding",
    ),
    *no_gradient("MXNet registers none and refuses to go back through it", "_contrib_quantized_rnn", is_zero=False),
)
