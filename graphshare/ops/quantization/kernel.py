"""Layers of 8-bit integers with ranges, as oneDNN computes them. They have no gradients.

Each quantized array comes with the two ends of its range. 127.5 (int8) or 255.5 (uint8) represent
the largest absolute value, but 127 or 255 when 32-bit integers are narrowed; products are int32
sums with the range of 32 bits. Rounding is half to even.

Sums of products are exact int32 sums, modulo 2**32, on every processor (in
:mod:`graphshare.ops.onednn` exact until rounded to float32). In oneDNN only VNNI instructions add
exactly; other processors first add two products in int16 and clip the pair to -32768 and 32767.
``tests/oracle/int8_sums.py`` derives the largest difference.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.concat.kernel import infer_concat_shapes
from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.grid import Epilogue
from graphshare.ops.convolution.kernel import convolution_cost, convolution_shapes
from graphshare.ops.gradient import no_gradient
from graphshare.ops.indexing.kernel import embedding, embedding_shapes
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Kernel,
    KernelError,
    ShapeRule,
    Shapes,
    TypeRule,
    Types,
)
from graphshare.ops.limits import QUANTIZED, Limits, require, with_limits
from graphshare.ops.matmul.kernel import fully_connected_cost, fully_connected_shapes
from graphshare.ops.normalization.batch_norm import batch_norm_shapes
from graphshare.ops.pooling.kernel import pooling, pooling_shapes
from graphshare.ops.quantization.rnn import KERNELS as RNN_KERNELS
from graphshare.ops.unification import (
    count_elements,
    demand_dtypes,
    normalize_axis,
    output_rule,
    same_shapes,
    unify,
)
from graphshare.ops.windows import is_channels_last, read_window

ENDS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-(1 << 31), (1 << 31) - 1)}
LEVELS = {"int8": 127.5, "uint8": 255.5, "int32": 2147483648.0}
_STEPS = {dtype: np.float32(level) for dtype, level in LEVELS.items()}
WHOLE_RANGES = {"int8": (-127.5, 127.5), "uint8": (0.0, 255.5)}
"""The uncalibrated range of data that is already quantized."""


Ranged = tuple[Array, Array, Array]
"""Integers and the two ends of their range."""


def range_end(value: object) -> Array:
    """Return float32 ``(1,)``."""
    return np.full(1, value, np.float32)


def find_magnitude(low: Array, high: Array) -> float:
    """Return the largest absolute value of a range."""
    return max(abs(float(low.ravel()[0])), abs(float(high.ravel()[0])))


def product_range(
    data: float, data_levels: float, weight: float, weight_levels: float
) -> tuple[Array, Array]:
    """Return the range of 32-bit sums; levels are integers that represent the largest numbers."""
    reach = (
        np.float32(data / data_levels) * np.float32(weight / weight_levels) * np.float32(1 << 31)
    )
    return range_end(-reach), range_end(reach)


def round_to(x: Array, dtype: str) -> Array:
    """Round half to even and clip to the dtype; NaN becomes the upper limit, or 0 in uint8."""
    # float32 cannot hold the limits of int32
    wide = x.astype(np.float64) if dtype == "int32" else x
    low, high = ENDS[dtype]
    if dtype == "uint8":
        return np.asarray(np.minimum(np.fmax(np.rint(wide), low), high).astype(dtype))
    return np.asarray(np.maximum(np.fmin(np.rint(wide), high), low).astype(dtype))


def calibration_range(attrs: Attrs) -> tuple[float, float] | None:
    """Return the calibrated range, None unless both ends are known."""
    low, high = attrs["min_calib_range"], attrs["max_calib_range"]
    return None if low is None or high is None else (low, high)


def _reach(low: Array, high: Array) -> Any:
    return np.float32(find_magnitude(low, high))


def quantize_in_range(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Quantize in the range of the inputs, whose largest absolute value becomes 127 or 255."""
    dtype, reach = attrs["out_type"], _reach(low, high)
    # Here 127 or 255 steps, in _contrib_quantize_v2 half a step more.
    whole = round_to(x * (np.float32(ENDS[dtype][1]) / reach), dtype)
    if dtype == "int8":
        return whole, range_end(-reach), range_end(reach)
    return whole, low.copy(), high.copy()


def quantize_asymmetric(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Quantize to uint8 over the calibrated or data's range; return steps and zero point too."""
    if x.dtype == np.uint8:
        return x, range_end(1), range_end(0)
    require(x.dtype == np.float32, f"{x.dtype} is not supported, expected float32 or uint8")
    low, high = calibration_range(attrs) or (float(x.min()), float(x.max()))
    scale = np.float32(255) / (np.float32(high) - np.float32(low))
    shift = np.float32(255) - np.float32(high) * scale
    return round_to(x * scale + shift, "uint8"), range_end(scale), range_end(shift)


def add(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Ranged:
    """Add in the calibrated range, else as 32-bit integers in the range of both together.

    Of two dtypes the unsigned one is first rounded to the scale and dtype of the other.
    """
    first, second, calibrated = _reach(*ends[:2]), _reach(*ends[2:4]), calibration_range(attrs)
    require(
        str(b.dtype) in QUANTIZED, f"{b.dtype} is not supported, expected {', '.join(QUANTIZED)}"
    )
    dtype = _sum_dtype(attrs, str(a.dtype), str(b.dtype))
    if calibrated is None:
        low, high = -(first + second), first + second
        unit = _STEPS[dtype] / high
    else:
        low, high = np.float32(calibrated[0]), np.float32(calibrated[1])
        unit = _STEPS[dtype] / np.float32(max(abs(low), abs(high)))
    parts = []
    for x, reach in ((a, first), (b, second)):
        scaled = x.astype(np.float32) * (unit * reach / _STEPS[str(x.dtype)])
        mixed = a.dtype != b.dtype and x.dtype == np.uint8
        parts.append(np.clip(np.rint(scaled), -128, 127).astype(np.float32) if mixed else scaled)
    return round_to(parts[0] + parts[1], dtype), range_end(low), range_end(high)


def _sum_dtype(attrs: Attrs, a: str, b: str) -> str:
    if calibration_range(attrs) is None:
        return "int32"
    return a if a == b else "int8"


def multiply(context: Context, attrs: Attrs, a: Array, b: Array, *ends: Array) -> Array | Ranged:
    """Multiply: to floats, to the calibrated range (fractions truncated), or to 32-bit integers."""
    products = a.astype(np.int32) * b.astype(np.int32)
    first, second = _STEPS["int8"] / _reach(*ends[:2]), _STEPS["int8"] / _reach(*ends[2:4])
    if attrs["enable_float_output"]:
        return np.asarray(products * (np.float32(1) / first / second), np.float32)
    calibrated = calibration_range(attrs)
    if calibrated is None:
        # As in product_range, 32-bit products have 127 steps; the factors above have 127.5.
        level = _reach(*ends[:2]) / np.float32(127) * (_reach(*ends[2:4]) / np.float32(127))
        return products, range_end(-level * _STEPS["int32"]), range_end(level * _STEPS["int32"])
    unit = _STEPS["int8"] / np.float32(max(map(abs, calibrated)))
    # MXNet neither rounds nor clips: beyond int8 the low bits remain.
    truncated = np.trunc(products.astype(np.float32) * (unit / first / second)).astype(np.int64)
    return truncated.astype(np.int8), range_end(calibrated[0]), range_end(calibrated[1])


def normalize(context: Context, attrs: Attrs, x: Array, *rest: Array) -> Ranged:
    """Apply BatchNorm with running statistics, into the calibrated range."""
    gamma, beta, mean, variance, *ends = rest
    calibrated = calibration_range(attrs)
    if calibrated is None:
        raise KernelError("min_calib_range and max_calib_range are required to normalize integers")
    if x.dtype == np.uint8:
        x = round_to(x * (_STEPS["int8"] / _STEPS["uint8"]), "int8")
    reach = np.float32(max(map(abs, calibrated)))
    inverse = (1.0 / np.sqrt(variance + attrs["eps"])).astype(np.float32)
    # oneDNN multiplies the variance in beforehand and passes 1, to which eps is added again.
    scale = (
        gamma * inverse * _reach(*ends) / reach / np.sqrt(np.float32(1) + np.float32(attrs["eps"]))
    )
    shift = (beta - mean * gamma * inverse) * _STEPS["int8"] / reach
    shape = [1] * x.ndim
    shape[normalize_axis(attrs["axis"], x.ndim)] = -1
    out = x.astype(np.float32) * scale.reshape(shape) + shift.reshape(shape)
    return round_to(out, "int8"), range_end(calibrated[0]), range_end(calibrated[1])


def look_up(
    context: Context, attrs: Attrs, x: Array, weight: Array, low: Array, high: Array
) -> Ranged:
    """Return rows of an integer weight, in its range."""
    return embedding(context, attrs, x, weight), low.copy(), high.copy()


_EXACT_CELLS = 1 << 16
"""Bytes whose sum float32 holds exactly in any order."""


def _per_unit(reach: float, dtype: str) -> Any:
    return np.float32(LEVELS[dtype] / reach) if reach else np.float32(0)


def _output_dtype(attrs: Attrs) -> str:
    """With ``auto``, the dtype is uint8 if the calibrated range begins at 0 or above."""
    dtype: str = attrs["out_type"]
    if dtype != "auto":
        return dtype
    low = attrs["min_calib_range"]
    return (
        "uint8" if low is not None and low >= 0 and attrs["max_calib_range"] is not None else "int8"
    )


def quantize(context: Context, attrs: Attrs, x: Array) -> Ranged:
    """Quantize in the calibrated range, else the data's. Bytes of integers are copied."""
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
    """Return the represented floats."""
    require(
        str(x.dtype) in QUANTIZED, f"{x.dtype} is not supported, expected {', '.join(QUANTIZED)}"
    )
    return np.asarray(x * np.float32(find_magnitude(low, high) / LEVELS[str(x.dtype)]))


def requantize(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Narrow 32-bit sums to 8 bits in the calibrated range, else the data's."""
    dtype, unit = _output_dtype(attrs), np.float32(find_magnitude(low, high) / LEVELS["int32"])
    ends = calibration_range(attrs) or (
        float(np.float32(x.min()) * unit),
        float(np.float32(x.max()) * unit),
    )
    reach = max(abs(ends[0]), abs(ends[1]))
    # Nothing represents a range of 0: infinities and NaN
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = x.astype(np.float32) * (unit * (np.float32(ENDS[dtype][1]) / np.float32(reach)))
    return round_to(scaled, dtype), range_end(0 if dtype == "uint8" else -reach), range_end(reach)


def act_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return max(x, 0) as int8 for any dtype, in the same range; above 127 it is 127."""
    require(
        attrs["act_type"] == "relu",
        f"act_type {attrs['act_type']} is not supported for integers, expected relu",
    )
    return np.clip(x, 0, 127).astype(np.int8), low, high


def pool_int8(context: Context, attrs: Attrs, x: Array, low: Array, high: Array) -> Ranged:
    """Return each window's maximum or rounded mean."""
    attrs = _full_windows(attrs)
    if attrs["pool_type"] == "max":
        return pooling(context, attrs, x), low, high
    require(
        attrs["pool_type"] == "avg",
        f"pool_type {attrs['pool_type']} is not supported for integers, expected max or avg",
    )
    if attrs["global_pool"] and prod(x.shape[2:]) <= _EXACT_CELLS:
        # BLAS is faster than a mean, and exact.
        cells = x.reshape(*x.shape[:2], -1).astype(np.float32)
        means = np.matmul(cells, np.ones(cells.shape[2], np.float32)).reshape(
            *x.shape[:2], *(1,) * (x.ndim - 2)
        )
        # By axis, to round as `pooling` does.
        for size in x.shape[2:]:
            means /= np.float32(size)
    elif attrs["global_pool"] or attrs["count_include_pad"] is False:
        means = pooling(context, attrs, x.astype(np.float32))
    else:  # all cells count, also those beyond the padding that the convention "full" adds
        means = pooling(context, {**attrs, "pool_type": "sum"}, x.astype(np.float32)) / np.float32(
            prod(attrs["kernel"])
        )
    return round_to(means, str(x.dtype)), low, high


def concat_int8(context: Context, attrs: Attrs, *arrays: Array) -> Ranged:
    """Concatenate along ``dim`` in the widest range (with 0); both ends of each array follow."""
    count = attrs["num_args"]
    parts, lows, highs = arrays[:count], arrays[count::2], arrays[count + 1 :: 2]
    low, high = min(0.0, *(float(x[0]) for x in lows)), max(0.0, *(float(x[0]) for x in highs))
    require(
        all(str(x.dtype) in QUANTIZED for x in parts), f"arrays must be {' or '.join(QUANTIZED)}"
    )
    dtype = "uint8" if all(x.dtype == np.uint8 for x in parts) else "int8"
    wide = max(abs(low), abs(high)) / LEVELS[dtype]
    scaled = []
    for x, begin, end in zip(parts, lows, highs, strict=True):
        factor = find_magnitude(begin, end) / LEVELS[str(x.dtype)] / wide if wide else 1.0
        scaled.append(
            x if factor == 1 and str(x.dtype) == dtype else round_to(x * np.float32(factor), dtype)
        )
    return np.concatenate(scaled, axis=attrs["dim"]), range_end(low), range_end(high)


def _int32(sums: Array) -> Array:
    """Convert whole float64 numbers to int32 modulo 2**32; sums below 2**53 are exact."""
    return np.asarray(sums.astype(np.int64).astype(np.int32))


def convolve_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """Convolve integers.

    A bias is added without scaling; the range of uint8 data is read as one of int8.
    """
    require(min(attrs["pad"] or (0,)) >= 0, f"pad is {attrs['pad']}, expected at least 0")
    require(
        not is_channels_last(attrs["layout"]),
        f"layout {attrs['layout']} is not supported for integers, expected NCHW",
    )
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0].astype(np.float64), rest[1:])
    epilogue = Epilogue(term=bias)
    wide = correlate(
        x.astype(np.float64),
        weight.astype(np.float64),
        epilogue,
        read_window(attrs),
        attrs["num_group"],
    )
    return (
        _int32(wide),
        *product_range(find_magnitude(*ends[:2]), 127, find_magnitude(*ends[2:4]), 127),
    )


def dense_int8(context: Context, attrs: Attrs, x: Array, weight: Array, *rest: Array) -> Ranged:
    """Compute an integer dense layer; the bias is truncated to the products' steps."""
    bias, ends = (None, rest) if attrs["no_bias"] else (rest[0], rest[1:])
    rows = x.reshape(len(x), -1) if attrs["flatten"] else x
    wide = np.matmul(rows.astype(np.float64), weight.T.astype(np.float64))
    data, other = find_magnitude(*ends[:2]), find_magnitude(*ends[2:4])
    if bias is not None:
        per_unit = _per_unit(data, str(x.dtype)) * _per_unit(other, "int8")
        # In MXNet's order
        scale = per_unit * np.float32(find_magnitude(*ends[4:6])) / np.float32(LEVELS["int8"])
        wide += np.trunc(bias * scale)
    return (_int32(wide), *product_range(data, 127 if x.dtype == np.int8 else 255, other, 127))


def _pool_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """There are two or three axes, channels first; ``same`` is read as ``full``."""
    if len(attrs["kernel"]) not in (2, 3) or len(attrs["pad"] or attrs["kernel"]) != len(
        attrs["kernel"]
    ):
        raise KernelError(
            f"kernel is {attrs['kernel']}, expected two or three sizes, also for global_pool"
        )
    require(
        attrs["layout"] in (None, "NCHW", "NCDHW"),
        f"layout {attrs['layout']} is not supported, expected NCHW or NCDHW",
    )
    return pooling_shapes(_full_windows(attrs), inputs, outputs)


def _full_windows(attrs: Attrs) -> Attrs:
    return (
        {**attrs, "pooling_convention": "full"} if attrs["pooling_convention"] == "same" else attrs
    )


_ENDS = ("float32", "float32")


def _kernel(operator: str, forward: Any, shapes: ShapeRule, types: TypeRule, **more: Any) -> Kernel:
    """The ends of ranges, float32 (1), follow arrays and results."""

    def infer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        # The dtype rule decides how many inputs are arrays.
        arrays, _ = types(attrs, [None] * len(inputs), [None])
        return with_ranges(shapes(attrs, inputs[: len(arrays)], outputs[:1]), inputs, outputs)

    def infer_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
        arrays, results = types(attrs, inputs, outputs)
        return [*arrays, *["float32"] * (len(inputs) - len(arrays))], results

    return Kernel(operator, forward, infer_shapes, demand_dtypes(infer_types), **more)


def with_ranges(
    layer: tuple[Shapes, Shapes], inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """Append ``(1,)`` for the ranges after a layer's inputs and outputs."""
    ins, outs = layer
    return [*ins, *(unify((1,), x) for x in inputs[len(ins) :])], [
        *outs,
        *(unify((1,), x) for x in outputs[len(outs) :]),
    ]


def _quantize_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0] if inputs[0] in QUANTIZED else "float32"], [_output_dtype(attrs), *_ENDS]


def _pass_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    dtype = inputs[0] or outputs[0]
    return [dtype], [dtype, *_ENDS]


def _layer_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return [inputs[0], *["int8"] * (1 if attrs["no_bias"] else 2)], ["int32", *_ENDS]


def _concat_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    parts = inputs[: attrs["num_args"]]
    dtype: str | None = "int8"
    if "int8" not in parts:
        dtype = None if None in parts else "uint8"
    return parts, [dtype, *_ENDS]


def _add_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    a, b = inputs[:2]
    return [a, b], [None if a is None or b is None else _sum_dtype(attrs, a, b), *_ENDS]


def _multiply_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    integers = ["int32" if calibration_range(attrs) is None else "int8", *_ENDS]
    return ["int8", "int8"], ["float32"] if attrs["enable_float_output"] else integers


def _to_int8(arrays: Callable[[Types], Types]) -> TypeRule:
    return lambda attrs, inputs, outputs: (arrays(inputs), ["int8", *_ENDS])


KERNELS = with_limits(
    Limits(first=QUANTIZED, positive=("num_group",), rank=1, elements=True),
    *with_limits(
        Limits(elements=True),
        _kernel("_contrib_quantize_v2", quantize, same_shapes, _quantize_types),
        _kernel(
            "_contrib_quantize",
            quantize_in_range,
            same_shapes,
            lambda attrs, *_: (["float32"], [attrs["out_type"], *_ENDS]),
        ),
        _kernel(
            "_contrib_quantize_asym",
            quantize_asymmetric,
            same_shapes,
            lambda attrs, inputs, _: (inputs[:1], ["uint8", *_ENDS]),
        ),
        _kernel(
            "_contrib_requantize",
            requantize,
            same_shapes,
            lambda attrs, *_: (["int32"], [_output_dtype(attrs), *_ENDS]),
        ),
    ),
    _kernel(
        "_contrib_dequantize",
        dequantize,
        same_shapes,
        lambda attrs, inputs, _: (inputs[:1], ["float32"]),
    ),
    _kernel("_contrib_quantized_act", act_int8, same_shapes, _to_int8(lambda inputs: inputs[:1])),
    _kernel(
        "_contrib_quantized_flatten",
        lambda context, attrs, x, low, high: (x.reshape(len(x), -1), low, high),
        output_rule(lambda attrs, x: (x[0], count_elements(x[1:])) if x else None),
        _pass_dtypes,
    ),
    _kernel("_contrib_quantized_pooling", pool_int8, _pool_shapes, _pass_dtypes),
    _kernel("_contrib_quantized_concat", concat_int8, infer_concat_shapes, _concat_types),
    _kernel(
        "_contrib_quantized_conv",
        convolve_int8,
        convolution_shapes,
        _layer_types,
        cost=convolution_cost,
    ),
    _kernel(
        "_contrib_quantized_fully_connected",
        dense_int8,
        fully_connected_shapes,
        _layer_types,
        cost=fully_connected_cost,
    ),
    *with_limits(
        Limits(first=QUANTIZED, elements=True),
        _kernel("_contrib_quantized_elemwise_add", add, same_shapes, _add_types),
        _kernel("_contrib_quantized_elemwise_mul", multiply, same_shapes, _multiply_types),
        _kernel(
            "_contrib_quantized_batch_norm",
            normalize,
            batch_norm_shapes,
            _to_int8(lambda inputs: [inputs[0], *["float32"] * 4]),
        ),
        _kernel(
            "_contrib_quantized_embedding",
            look_up,
            embedding_shapes,
            _to_int8(lambda inputs: [inputs[0], "int8"]),
        ),
    ),
    *RNN_KERNELS,
)

GRADIENTS = (
    *no_gradient(
        "quantized layers are for inference",
        *(kernel.operator for kernel in KERNELS if kernel not in RNN_KERNELS),
    ),
    *no_gradient(
        "MXNet registers no gradient of it and refuses its backward pass",
        "_contrib_quantized_rnn",
        is_zero=False,
    ),
)
