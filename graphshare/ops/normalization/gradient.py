"""Gradients of normalization within a sample, and of what is identity outside training."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.normalization.kernel import around
from graphshare.ops.unification import axis_of
from graphshare.ops.windows import to_compute_dtype


def of_standardized(x: Array, dy: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """The gradient of ``x`` for that of (x - mean) / deviation over ``axes``, and the standardized values themselves."""
    centred = x - x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    standard = centred * inverse
    dx = dy - dy.mean(axis=axes, keepdims=True)
    dx -= standard * (dy * standard).mean(axis=axes, keepdims=True)
    dx *= inverse
    return dx, standard


def instance_norm(entry: TapeEntry, dy: Array) -> Gradients:
    """Of data, gamma and beta."""
    x, gamma, _ = entry.inputs
    scaled = dy * gamma.reshape(-1, *(1,) * (x.ndim - 2))
    dx, standard = of_standardized(x, scaled, tuple(range(2, x.ndim)), entry.attrs["eps"])
    others = (0, *range(2, x.ndim))
    return [dx, (dy * standard).sum(axis=others), dy.sum(axis=others)]


def layer_norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Of data, gamma and beta."""
    x, gamma, _beta = entry.inputs
    axis = axis_of(entry.attrs["axis"], x.ndim)
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    scaled = gradient * gamma.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    dx, standard = of_standardized(wide, scaled, (axis,), entry.attrs["eps"])
    others = tuple(i for i in range(x.ndim) if i != axis)
    found = (dx, (gradient * standard).sum(axis=others), gradient.sum(axis=others))
    return [g.astype(x.dtype, copy=False) for g in found]


def group_norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Of data, gamma and beta, which have one number for each group."""
    x, gamma, _beta = entry.inputs
    groups = entry.attrs["num_groups"]
    split, gradient = (to_compute_dtype(a).reshape(len(x), groups, -1) for a in (x, dy))
    dx, standard = of_standardized(split, gradient * gamma.reshape(-1, 1), (2,), entry.attrs["eps"])
    found = (dx.reshape(x.shape), (gradient * standard).sum(axis=(0, 2)), gradient.sum(axis=(0, 2)))
    return [g.astype(x.dtype, copy=False) for g in found]


def response_norm(entry: TapeEntry, dy: Array) -> Array:
    """dy * s^-beta - 2 alpha beta / nsize * x * (the sum around of dy * x * s^(-beta - 1))."""
    (x,), attrs = entry.inputs, entry.attrs
    wide, gradient, size = to_compute_dtype(x), to_compute_dtype(dy), attrs["nsize"]
    kind = wide.dtype.type
    scale = around(np.square(wide), size) * kind(np.divide(attrs["alpha"], size)) + kind(attrs["knorm"])
    power = np.power(scale, kind(-attrs["beta"]))
    sums = around(gradient * wide * power / scale, size)
    result: Array = gradient * power - kind(np.divide(2 * attrs["alpha"] * attrs["beta"], size)) * wide * sums
    return result.astype(x.dtype, copy=False)


def unit_length(entry: TapeEntry, dy: Array) -> Array:
    """(dy - y * sum(dy * y)) / length."""
    x = entry.inputs[0]
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    mode = entry.attrs["mode"]
    axes = {"instance": tuple(range(1, x.ndim)), "channel": (1,), "spatial": tuple(range(2, x.ndim))}[mode]
    length = np.sqrt(np.square(wide).sum(axis=axes, keepdims=True) + wide.dtype.type(entry.attrs["eps"]))
    y = wide / length
    result: Array = (gradient - y * (gradient * y).sum(axis=axes, keepdims=True)) / length
    return result.astype(x.dtype, copy=False)


def dropout(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Through where the mask let values through, scaled as they were."""
    result: Array = dy * entry.outputs[1] if len(entry.outputs) > 1 else dy
    return result


def sparse_regularized(entry: TapeEntry, dy: Array) -> Array:
    """The output's gradient and the penalty's: ``penalty * (-t / m + (1 - t) / (1 - m))`` for each unit's gathered mean."""
    x, moving = entry.inputs
    attrs = entry.attrs
    if not entry.training:
        return dy
    momentum = x.dtype.type(attrs["momentum"])
    average = x.reshape(len(x), -1).mean(axis=0)
    if average.shape != moving.shape:
        average = x.mean(axis=(0, *range(2, x.ndim)))
    mean = moving * momentum + average * (1 - momentum)
    wished = x.dtype.type(attrs["sparseness_target"])
    slope = x.dtype.type(attrs["penalty"]) * (-wished / mean + (1 - wished) / (1 - mean))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    result: Array = dy + (slope.reshape(shape) if slope.size == x.shape[1] else slope.reshape(1, *x.shape[1:]))
    return result


GRADIENTS = (
    Gradient("InstanceNorm", instance_norm, reads_outputs=False),
    Gradient("LayerNorm", layer_norm, reads_outputs=False),
    Gradient("GroupNorm", group_norm, reads_outputs=False),
    Gradient("LRN", response_norm, reads_outputs=False),
    Gradient("L2Normalization", unit_length, reads_outputs=False),
    Gradient("Dropout", dropout, reads_inputs=False),
    Gradient("IdentityAttachKLSparseReg", sparse_regularized, reads_outputs=False),
)
