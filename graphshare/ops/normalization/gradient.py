"""Gradients of normalization within a sample, and of operators that are the identity outside training."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array
from graphshare.ops.normalization.kernel import length_along_axes, sum_nearby_channels, update_average
from graphshare.ops.unification import axis_of
from graphshare.ops.windows import to_compute_dtype


def standardize_gradient(x: Array, dy: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array]:
    """Return the gradient of ``x`` from that of (x - mean) / deviation over ``axes``, and the standardized values."""
    centred = x - x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    standard = centred * inverse
    dx = dy - dy.mean(axis=axes, keepdims=True)
    dx -= standard * (dy * standard).mean(axis=axes, keepdims=True)
    dx *= inverse
    return dx, standard


def instance_norm(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data, gamma and beta."""
    x, gamma, _ = entry.inputs
    scaled = dy * gamma.reshape(-1, *(1,) * (x.ndim - 2))
    dx, standard = standardize_gradient(x, scaled, tuple(range(2, x.ndim)), entry.attrs["eps"])
    others = (0, *range(2, x.ndim))
    return [dx, (dy * standard).sum(axis=others), dy.sum(axis=others)]


def layer_norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return the gradients of data, gamma and beta."""
    x, gamma, _beta = entry.inputs
    axis = axis_of(entry.attrs["axis"], x.ndim)
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    scaled = gradient * gamma.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    dx, standard = standardize_gradient(wide, scaled, (axis,), entry.attrs["eps"])
    others = tuple(i for i in range(x.ndim) if i != axis)
    gradients = (dx, (gradient * standard).sum(axis=others), gradient.sum(axis=others))
    return [g.astype(x.dtype, copy=False) for g in gradients]


def group_norm(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return the gradients of data, gamma and beta, which have one number for each group."""
    x, gamma, _beta = entry.inputs
    groups = entry.attrs["num_groups"]
    split, gradient = (to_compute_dtype(a).reshape(len(x), groups, -1) for a in (x, dy))
    dx, standard = standardize_gradient(split, gradient * gamma.reshape(-1, 1), (2,), entry.attrs["eps"])
    gradients = (dx.reshape(x.shape), (gradient * standard).sum(axis=(0, 2)), gradient.sum(axis=(0, 2)))
    return [g.astype(x.dtype, copy=False) for g in gradients]


def local_response_norm(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy * s^-beta - 2 alpha beta / nsize * x * sum of (dy * x * s^(-beta - 1)) over the nearby channels``."""
    (x,), attrs = entry.inputs, entry.attrs
    wide, gradient, size = to_compute_dtype(x), to_compute_dtype(dy), attrs["nsize"]
    number = wide.dtype.type
    scale = sum_nearby_channels(np.square(wide), size) * number(np.divide(attrs["alpha"], size)) + number(attrs["knorm"])
    power = np.power(scale, number(-attrs["beta"]))
    sums = sum_nearby_channels(gradient * wide * power / scale, size)
    result: Array = gradient * power - number(np.divide(2 * attrs["alpha"] * attrs["beta"], size)) * wide * sums
    return result.astype(x.dtype, copy=False)


def l2_normalization(entry: TapeEntry, dy: Array) -> Array:
    """Return ``(dy - y * sum(dy * y)) / length``."""
    x = entry.inputs[0]
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    axes, length = length_along_axes(entry.attrs, wide)
    y = wide / length
    result: Array = (gradient - y * (gradient * y).sum(axis=axes, keepdims=True)) / length
    return result.astype(x.dtype, copy=False)


def dropout(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` times the mask of the forward pass, which is 0 for dropped elements."""
    return np.asarray(dy * entry.outputs[1] if len(entry.outputs) > 1 else dy)


def sparse_regularization(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` plus the penalty's ``penalty * (-t / m + (1 - t) / (1 - m))`` by the running mean of each unit."""
    x, moving_avg = entry.inputs
    attrs = entry.attrs
    if not entry.training:
        return dy
    mean = update_average(attrs, x, moving_avg)
    target = x.dtype.type(attrs["sparseness_target"])
    slope = x.dtype.type(attrs["penalty"]) * (-target / mean + (1 - target) / (1 - mean))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return np.asarray(dy + (slope.reshape(shape) if slope.size == x.shape[1] else slope.reshape(1, *x.shape[1:])))


GRADIENTS = (
    Gradient("InstanceNorm", instance_norm, reads_outputs=False),
    Gradient("LayerNorm", layer_norm, reads_outputs=False),
    Gradient("GroupNorm", group_norm, reads_outputs=False),
    Gradient("LRN", local_response_norm, reads_outputs=False),
    Gradient("L2Normalization", l2_normalization, reads_outputs=False),
    Gradient("Dropout", dropout, reads_inputs=False),
    Gradient("IdentityAttachKLSparseReg", sparse_regularization, reads_outputs=False, adds_penalty=True),
)
