"""Gradients of normalization by channel: while training they pass through the statistics of the batch, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.unification import axis_of
from graphshare.ops.windows import to_compute_dtype


def batch_norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return the gradients of data, gamma (0 if fixed) and beta. Gradients of the output statistics are ignored."""
    x, gamma, _beta, moving_mean, moving_var = entry.inputs
    attrs = entry.attrs
    if not x.size:  # the statistics of nothing are NaN, the sum over nothing is 0
        return [dy, np.full_like(gamma, 0 if attrs["fix_gamma"] else np.nan), np.zeros_like(gamma)]
    axis = axis_of(attrs.get("axis", 1), x.ndim)
    others = tuple(i for i in range(x.ndim) if i != axis)
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    fixed = not entry.training or attrs["use_global_stats"]
    mean = (moving_mean if fixed else wide.mean(axis=others)).astype(wide.dtype, copy=False)
    standard = wide - mean.reshape(tail)
    variance = moving_var.astype(np.float64) if fixed else np.square(standard).mean(axis=others, dtype=np.float64)
    inverse = 1 / np.sqrt(variance + attrs["eps"])
    standard *= inverse.astype(wide.dtype).reshape(tail)
    dbeta = gradient.sum(axis=others)
    dgamma = (gradient * standard).sum(axis=others)
    dx = None
    if entry.requested[0]:
        scale = inverse if attrs["fix_gamma"] else inverse * gamma
        if fixed:
            dx = gradient * scale.astype(wide.dtype).reshape(tail)
        else:
            count = wide.dtype.type(x.size // max(1, len(dbeta)))
            standard *= (dgamma / -count).reshape(tail)
            standard += gradient
            standard -= (dbeta / count).reshape(tail)
            standard *= scale.astype(wide.dtype).reshape(tail)
            dx = standard
        dx = dx.astype(x.dtype, copy=False)
    if attrs["fix_gamma"]:
        dgamma = np.zeros_like(dgamma)
    return [dx, dgamma.astype(gamma.dtype, copy=False), dbeta.astype(gamma.dtype, copy=False)]


def batch_norm_relu(entry: TapeEntry, dy: Array, *rest: Array | None) -> Gradients:
    """Return the gradients of :func:`batch_norm` for ``dy`` where the output is not 0."""
    return batch_norm(entry, dy * (entry.outputs[0] != 0), *rest)


def overwrite_gamma(attrs: Attrs, inputs: Sequence[Array]) -> Mapping[int, Array]:
    """Return 1 for a fixed gamma."""
    return {1: np.ones_like(inputs[1])} if attrs["fix_gamma"] else {}


GRADIENTS = (
    *(
        Gradient(name, batch_norm, reads_outputs=False, overwrites=overwrite_gamma)
        for name in ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
    ),
    Gradient("_contrib_BatchNormWithReLU", batch_norm_relu, overwrites=overwrite_gamma),
)
