"""Normalization in ONNX, and operators that are the identity at inference.

``BatchNormalization`` uses moving statistics on axis 1. Without a matching operator, normalization
within a sample is plain arithmetic: it exists in every opset and dtype and gives MXNet's
statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.normalization.batch_norm import plain_scaling
from graphshare.ops.translation import Translation, Translator, Value, keep_input, wide_dtype
from graphshare.ops.unification import normalize_axis


def translate_instance_norm(t: Translation) -> str:
    """Emit ``InstanceNormalization``, or arithmetic where onnxruntime lacks the dtype."""
    t.require_floats()
    if t.attrs["eps"] < 0:
        t.refuse(f"its eps is {t.attrs['eps']}, expected at least 0")
    x, gamma, beta = t.inputs
    if x.dtype == "float32":
        return t.emit("InstanceNormalization", x, gamma, beta, epsilon=float(t.attrs["eps"]))
    out, _, _ = _standardize(t, x, list(range(2, x.rank)))
    return _scale(t, out, x.rank - 2)


def translate_layer_norm(t: Translation) -> list[str]:
    """Emit ``LayerNormalization`` for the last axis, else arithmetic; statistics keep it as 1."""
    t.require_floats()
    x = t.inputs[0]
    if 0 in x.shape:
        t.refuse("its data has no elements")
    axis = normalize_axis(t.attrs["axis"], x.rank)
    # ONNX's other outputs are float32, and its third is the inverse of MXNet's deviation.
    if axis == x.rank - 1 and t.opset >= 17 and not t.used - {0}:
        return [t.emit("LayerNormalization", *t.inputs, axis=-1, epsilon=float(t.attrs["eps"]))]
    out, mean, deviation = _standardize(t, x, [axis])
    wide = wide_dtype(t.inputs[0].dtype)
    return [
        _scale(t, out, x.rank - 1 - axis),
        *(t.cast(y, x.dtype, dtype=wide) for y in (mean, deviation)),
    ]


def translate_group_norm(t: Translation) -> list[str]:
    """Normalize groups of channels as rows, with gamma and beta per group."""
    t.require_floats()
    x, groups = t.inputs[0], t.attrs["num_groups"]
    if 0 in x.shape[1:]:
        t.refuse("its data has no elements")
    shape = (x.shape[0], groups, prod(x.shape[1:]) // groups)
    split = Value(t.reshape(x, shape), shape, x.dtype)
    out, mean, deviation = _standardize(t, split, [2])
    wide = wide_dtype(t.inputs[0].dtype)
    results = [t.reshape(_scale(t, out, 1), x.shape)]
    for y in (mean, deviation):
        results.append(t.reshape(t.cast(y, x.dtype, dtype=wide), (x.shape[0], groups)))
    return results


def translate_local_response_norm(t: Translation) -> str:
    """Emit ``LRN`` over an odd number of channels (even ``nsize``: one fewer), or arithmetic."""
    x, size = t.inputs[0], max(1, t.attrs["nsize"] - (t.attrs["nsize"] + 1) % 2)
    if t.attrs["nsize"] == 0:
        t.refuse("its nsize is 0")
    # ONNX divides alpha by its odd size, MXNet by nsize.
    alpha, beta, bias = t.attrs["alpha"] / t.attrs["nsize"], t.attrs["beta"], t.attrs["knorm"]
    # onnxruntime's LRN takes no float64, and only a positive alpha and beta.
    if x.dtype != "float64" and alpha > 0 and beta > 0:  # what onnxruntime demands
        return t.emit(
            "LRN", x, size=size, alpha=float(alpha * size), beta=float(beta), bias=float(bias)
        )
    wide, reach = wide_dtype(t.inputs[0].dtype), size // 2
    data = t.cast(x, wide)
    padded = t.pad(t.emit("Mul", data, data), (0, reach, 0, 0), (0, reach, 0, 0), 0, wide)
    total = padded
    for shift in range(size):
        part = t.emit(
            "Slice", padded, t.integers([shift]), t.integers([shift + x.shape[1]]), t.integers([1])
        )
        total = part if shift == 0 else t.emit("Add", total, part)
    base = t.emit("Add", t.emit("Mul", total, t.number(alpha, wide)), t.number(bias, wide))
    return t.cast(
        t.emit("Mul", t.emit("Pow", base, t.number(-beta, wide)), data), x.dtype, dtype=wide
    )


def translate_l2_normalization(t: Translation) -> str:
    """Emit the kernel's formula."""
    t.require_floats()
    x, wide = t.inputs[0], wide_dtype(t.inputs[0].dtype)
    axes = {"instance": range(1, x.rank), "channel": (1,), "spatial": range(2, x.rank)}[
        t.attrs["mode"]
    ]
    data = t.cast(x, wide)
    total = t.reduce("ReduceSumSquare", data, list(axes), keepdims=True)
    length = t.emit("Sqrt", t.emit("Add", total, t.number(t.attrs["eps"], wide)))
    return t.cast(t.emit("Div", data, length), x.dtype, dtype=wide)


def translate_dropout(t: Translation) -> str:
    """Return the data; refuse the mode ``always``: it draws random numbers."""
    if t.attrs["mode"] == "always" and t.attrs["p"] != 0:
        t.refuse(
            "it has the mode always, which draws random numbers at inference; without this mode it is the identity"
        )
    return t.inputs[0].name


def _standardize(t: Translation, x: Value, axes: Sequence[int]) -> tuple[str, str, str]:
    wide = wide_dtype(t.inputs[0].dtype)
    data = t.cast(x, wide)
    mean = t.reduce("ReduceMean", data, axes, keepdims=True)
    distance = t.emit("Sub", data, mean)
    variance = t.reduce("ReduceMean", t.emit("Mul", distance, distance), axes, keepdims=True)
    deviation = t.emit("Sqrt", t.emit("Add", variance, t.number(t.attrs["eps"], wide)))
    return t.emit("Div", distance, deviation), mean, deviation


def _scale(t: Translation, x: str, axes: int) -> str:
    """Return x * gamma + beta in the data's dtype; both get ``axes`` trailing axes."""
    wide = wide_dtype(t.inputs[0].dtype)
    for op_type, vector in zip(("Mul", "Add"), t.inputs[1:3], strict=True):
        term = t.reshape(
            Value(t.cast(vector, wide), vector.shape, wide), (*vector.shape, *(1,) * axes)
        )
        x = t.emit(op_type, x, term)
    return t.cast(x, t.inputs[0].dtype, dtype=wide)


def translate_batch_norm(t: Translation) -> list[str]:
    """Emit ``BatchNormalization``; a fixed gamma is ones. Mean and deviation follow if read.

    Plain arithmetic serves data with one axis, a negative eps or one that float32 cannot hold
    beside float64 data, and means far from 0.
    """
    t.require_floats()
    x, mean = t.inputs[0], t.inputs[3]
    axis, eps = normalize_axis(t.attrs.get("axis", 1), x.rank), t.attrs["eps"]
    inexact = x.dtype == "float64" and float(np.float32(eps)) != eps
    emit = (
        _scale_channels if x.rank == 1 or eps < 0 or inexact or _cancels(t) else _normalize_channels
    )
    results = [emit(t, axis)]
    if t.used - {0}:
        results.append(t.emit("Identity", mean))
    if 2 in t.used:
        results.append(_spread(t))
    return results


def _cancels(t: Translation) -> bool:
    """Whether x * factor + term loses digits with known statistics."""
    arrays = [x.read() for x in t.inputs[1:] if x.read is not None]
    return len(arrays) == 4 and plain_scaling(t.attrs, *arrays)[0] is None


def _normalize_channels(t: Translation, axis: int) -> str:
    x, gamma, beta, mean, variance = t.inputs
    scale = t.constant(np.ones(gamma.shape), gamma.dtype) if t.attrs["fix_gamma"] else gamma
    swapped = _swap(x.rank, axis)
    wide = mean.dtype  # float32 for float16
    data = t.transpose(t.cast(x, wide), swapped)
    out = t.emit(
        "BatchNormalization", data, scale, beta, mean, variance, epsilon=float(t.attrs["eps"])
    )
    return t.cast(t.transpose(_rectify(t, out), swapped), x.dtype, dtype=wide)


def _scale_channels(t: Translation, axis: int) -> str:
    x, gamma, beta, mean, _variance = t.inputs
    wide, tail = mean.dtype, (-1, *(1,) * (x.rank - 1 - axis))
    factor = _inverse_deviation(t)
    if not t.attrs["fix_gamma"]:
        factor = t.emit("Mul", factor, gamma)
    shape = (mean.shape[0], *tail[1:])
    out = t.emit(
        "Mul", t.emit("Sub", t.cast(x, wide), t.reshape(mean, shape)), t.reshape(factor, shape)
    )
    return t.cast(_rectify(t, t.emit("Add", out, t.reshape(beta, shape))), x.dtype, dtype=wide)


def _rectify(t: Translation, out: str) -> str:
    return t.emit("Relu", out) if t.op == "_contrib_BatchNormWithReLU" else out


def _spread(t: Translation) -> str:
    """Return 1 / sqrt(variance + eps) for BatchNorm (with ReLU), else the variance."""
    if t.op not in ("BatchNorm", "_contrib_BatchNormWithReLU"):
        return t.emit("Identity", t.inputs[4])
    return _inverse_deviation(t)


def _inverse_deviation(t: Translation) -> str:
    variance = t.inputs[4]
    total = t.emit("Add", variance, t.number(t.attrs["eps"], variance.dtype))
    return t.emit("Reciprocal", t.emit("Sqrt", total))


def _swap(rank: int, axis: int) -> list[int]:
    axes = list(range(rank))
    axes[1], axes[axis] = axis, 1
    return axes


TRANSLATIONS = (
    Translator(
        "InstanceNorm", translate_instance_norm, "its data is floating point, its eps not negative"
    ),
    Translator("LayerNorm", translate_layer_norm, "its data is floating point and has elements"),
    Translator("GroupNorm", translate_group_norm, "its data is floating point and has elements"),
    Translator("LRN", translate_local_response_norm, "its nsize is not 0"),
    Translator("L2Normalization", translate_l2_normalization, "its data is floating point"),
    Translator("Dropout", translate_dropout, "its mode is not always"),
    Translator("IdentityAttachKLSparseReg", keep_input),
    *tuple(
        Translator(name, translate_batch_norm, "its data is floating point")
        for name in (
            "BatchNorm",
            "BatchNorm_v1",
            "_contrib_SyncBatchNorm",
            "_contrib_BatchNormWithReLU",
        )
    ),
)
