"""BatchNorm with moving statistics in ONNX: ``BatchNormalization``, which normalizes axis 1."""

from __future__ import annotations

import numpy as np

from graphshare.ops.batch_norm.kernel import plain_scaling
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import axis_of


def translate_batch_norm(t: Translation) -> list[str]:
    """Emit ``BatchNormalization``; a fixed gamma is a constant of ones. Mean and deviation are given where they are read.

    Data with one axis, a negative eps or one that float32 cannot hold beside float64 data, and means far from 0 need plain
    arithmetic.
    """
    t.require_floats()
    x, mean = t.inputs[0], t.inputs[3]
    axis, eps = axis_of(t.attrs.get("axis", 1), x.rank), t.attrs["eps"]
    inexact = x.dtype == "float64" and float(np.float32(eps)) != eps
    emit = _scale if x.rank == 1 or eps < 0 or inexact or _cancels(t) else _normalize
    results = [emit(t, axis)]
    if t.used - {0}:
        results.append(t.emit("Identity", mean))
    if 2 in t.used:
        results.append(_spread(t))
    return results


def _cancels(t: Translation) -> bool:
    """Return whether known statistics are so far from 0 that x * factor + term, as runtimes compute it, loses digits."""
    arrays = [x.read() for x in t.inputs[1:] if x.read is not None]
    return len(arrays) == 4 and plain_scaling(t.attrs, *arrays)[0] is None


def _normalize(t: Translation, axis: int) -> str:
    x, gamma, beta, mean, variance = t.inputs
    scale = t.constant(np.ones(gamma.shape), gamma.dtype) if t.attrs["fix_gamma"] else gamma
    swapped = _swap(x.rank, axis)
    wide = mean.dtype  # float32 for float16
    data = t.transpose(t.cast(x, wide), swapped)
    out = t.emit("BatchNormalization", data, scale, beta, mean, variance, epsilon=float(t.attrs["eps"]))
    return t.cast(t.transpose(_rectify(t, out), swapped), x.dtype, of=wide)


def _scale(t: Translation, axis: int) -> str:
    """Return (x - mean) * (gamma / sqrt(variance + eps)) + beta."""
    x, gamma, beta, mean, _variance = t.inputs
    wide, tail = mean.dtype, (-1, *(1,) * (x.rank - 1 - axis))
    factor = _inverse_deviation(t)
    if not t.attrs["fix_gamma"]:
        factor = t.emit("Mul", factor, gamma)
    shape = (mean.shape[0], *tail[1:])
    out = t.emit("Mul", t.emit("Sub", t.cast(x, wide), t.reshape(mean, shape)), t.reshape(factor, shape))
    return t.cast(_rectify(t, t.emit("Add", out, t.reshape(beta, shape))), x.dtype, of=wide)


def _rectify(t: Translation, out: str) -> str:
    return t.emit("Relu", out) if t.op == "_contrib_BatchNormWithReLU" else out


def _spread(t: Translation) -> str:
    """Return 1 / sqrt(variance + eps) of BatchNorm; others give the variance."""
    if t.op not in ("BatchNorm", "_contrib_BatchNormWithReLU"):
        return t.emit("Identity", t.inputs[4])
    return _inverse_deviation(t)


def _inverse_deviation(t: Translation) -> str:
    variance = t.inputs[4]
    total = t.emit("Add", variance, t.number(t.attrs["eps"], variance.dtype))
    return t.emit("Reciprocal", t.emit("Sqrt", total))


def _swap(rank: int, axis: int) -> list[int]:
    """Return the axes with axis 1 and ``axis`` exchanged."""
    axes = list(range(rank))
    axes[1], axes[axis] = axis, 1
    return axes


TRANSLATIONS = tuple(
    Translator(name, translate_batch_norm, "its data is floating point")
    for name in ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
)
