"""BatchNorm with moving statistics in ONNX: ``BatchNormalization``, which normalizes axis 1."""

from __future__ import annotations

import numpy as np

from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import axis_of


def translate_batch_norm(t: Translation) -> list[str]:
    """Emit ``BatchNormalization``; a fixed gamma is a constant of ones. Mean and deviation are given where they are read."""
    x, gamma, beta, mean, variance = t.inputs
    axis = axis_of(t.attrs.get("axis", 1), x.rank)
    if x.rank == 1:
        t.refuse("it has data without a channel axis beside the batch")
    scale = t.constant(np.ones(gamma.shape), gamma.dtype) if t.attrs["fix_gamma"] else gamma
    swapped = _swap(x.rank, axis)
    out = t.emit("BatchNormalization", t.transpose(x, swapped), scale, beta, mean, variance, epsilon=float(t.attrs["eps"]))
    if t.op == "_contrib_BatchNormWithReLU":
        out = t.emit("Relu", out)
    results = [t.transpose(out, swapped)]
    if t.used - {0}:
        results.append(t.emit("Identity", mean))
    if 2 in t.used:
        results.append(_spread(t))
    return results


def _spread(t: Translation) -> str:
    """Return 1 / sqrt(variance + eps) of BatchNorm; others give the variance."""
    variance = t.inputs[4]
    if t.op not in ("BatchNorm", "BatchNorm_v1", "_contrib_BatchNormWithReLU"):
        return t.emit("Identity", variance)
    total = t.emit("Add", variance, t.number(t.attrs["eps"], variance.dtype))
    return t.emit("Reciprocal", t.emit("Sqrt", total))


def _swap(rank: int, axis: int) -> list[int]:
    """Return the axes with axis 1 and ``axis`` exchanged."""
    axes = list(range(rank))
    axes[1], axes[axis] = axis, 1
    return axes


TRANSLATIONS = tuple(
    Translator(name, translate_batch_norm)
    for name in ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm", "_contrib_BatchNormWithReLU")
)
