"""Normalization within a sample, operators without effect outside training, and gradients."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Kernel,
    KernelError,
    KernelResult,
    Shape,
    Shapes,
    reuse_buffer,
)
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.normalization.batch_norm import GRADIENTS as BATCH_NORM_GRADIENTS
from graphshare.ops.normalization.batch_norm import KERNELS as BATCH_NORM_KERNELS
from graphshare.ops.unification import dims_of_rank, normalize_axis, same_dtypes, same_shapes, unify
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_count, format_shape


def _standardize(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """Return (x - mean) / deviation, mean and deviation sqrt(variance + eps), ``axes`` kept."""
    # The order of the sums, and so the last bits, follow the memory layout
    x = np.ascontiguousarray(x)
    mean = x.mean(axis=axes, keepdims=True)
    out = x - mean
    deviation = np.sqrt(np.square(out).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    out /= deviation
    return out, mean, deviation


def instance_norm(context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array) -> Array:
    """Normalize each channel of each sample (N, C, ...)."""
    out, _, _ = _standardize(x, tuple(range(2, x.ndim)), attrs["eps"])
    tail = (-1, *(1,) * (x.ndim - 2))
    out *= gamma.reshape(tail)
    out += beta.reshape(tail)
    return out.astype(x.dtype, copy=False)


def layer_norm(
    context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array
) -> tuple[Array, Array, Array]:
    """Normalize along one axis; return mean and deviation too, axis kept."""
    axis = normalize_axis(attrs["axis"], x.ndim)
    out, mean, deviation = _standardize(to_compute_dtype(x), (axis,), attrs["eps"])
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    out *= gamma.reshape(tail)
    out += beta.reshape(tail)
    return (
        out.astype(x.dtype, copy=False),
        mean.astype(x.dtype, copy=False),
        deviation.astype(x.dtype, copy=False),
    )


def group_norm(
    context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array
) -> tuple[Array, Array, Array]:
    """Normalize groups of channels (N, C, ...) of each sample, with gamma and beta per group."""
    groups = attrs["num_groups"]
    split = to_compute_dtype(x).reshape(len(x), groups, -1)
    out, mean, deviation = _standardize(split, (2,), attrs["eps"])
    out *= gamma.reshape(-1, 1)
    out += beta.reshape(-1, 1)
    mean, deviation = mean.reshape(len(x), groups), deviation.reshape(len(x), groups)
    return (
        out.reshape(x.shape).astype(x.dtype, copy=False),
        mean.astype(x.dtype),
        deviation.astype(x.dtype),
    )


def sum_nearby_channels(x: Array, size: int) -> Array:
    """Sum over ``size`` channels (axis 1) around each, one fewer for an even ``size``."""
    total: Array = x.copy()
    for shift in range(1, min((size - 1) // 2, x.shape[1] - 1) + 1):
        total[:, shift:] += x[:, :-shift]
        total[:, :-shift] += x[:, shift:]
    return total


def local_response_norm(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x / (knorm + alpha / nsize * sum of squares of nearby channels)^beta (axis 1)."""
    require(x.dtype.kind == "f", f"{x.dtype} is not supported, expected floats")
    total = sum_nearby_channels(np.square(to_compute_dtype(x)), attrs["nsize"])
    # As in MXNet, nsize 0 makes the result 0.
    total *= total.dtype.type(np.divide(attrs["alpha"], attrs["nsize"]))
    total += total.dtype.type(attrs["knorm"])
    np.power(total, total.dtype.type(-attrs["beta"]), out=total)
    result: Array = np.multiply(total, x, out=total)
    return result.astype(x.dtype, copy=False)


def l2_normalization(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x / sqrt(sum of squares + eps): by sample, across its channels, or by channel."""
    wide = to_compute_dtype(x)
    result: Array = np.divide(wide, length_along_axes(attrs, wide)[1])
    return result.astype(x.dtype, copy=False)


def length_along_axes(attrs: Attrs, x: Array) -> tuple[tuple[int, ...], Array]:
    """Return the axes of ``mode`` and sqrt(sum of squares + eps) over them, axes kept."""
    axes = {
        "instance": tuple(range(1, x.ndim)),
        "channel": (1,),
        "spatial": tuple(range(2, x.ndim)),
    }[attrs["mode"]]
    return axes, np.sqrt(np.square(x).sum(axis=axes, keepdims=True) + x.dtype.type(attrs["eps"]))


def dropout(context: Context, attrs: Attrs, x: Array) -> Array | KernelResult:
    """In training (mode ``always``: at any time) set a share ``p`` to 0 and scale the rest up."""
    keep = 1 - attrs["p"]
    if keep == 1 or not (context.training or attrs["mode"] == "always"):
        return x
    if context.rng is None:
        raise KernelError("Dropout needs random numbers, and this run has no generator")
    shape = tuple(1 if i in attrs["axes"] else n for i, n in enumerate(x.shape))
    is_kept = context.rng.random(shape, dtype=np.float32) < keep
    # With p = 1 the mask is 0 / 1.
    mask = is_kept.astype(x.dtype) / x.dtype.type(keep or 1)
    result: Array = np.multiply(x, mask, out=reuse_buffer(context, x))
    return KernelResult((result, mask), {}, mask)


def sparse_regularization(
    context: Context, attrs: Attrs, x: Array, moving_avg: Array
) -> Array | KernelResult:
    """Return ``x``; in training update each unit's running mean, for the later penalty."""
    return KernelResult((x,), {1: update_average(attrs, x, moving_avg)}) if context.training else x


def update_average(attrs: Attrs, x: Array, moving_avg: Array) -> Array:
    """Return the running mean after this batch, per unit or per channel, as ``moving_avg``."""
    momentum = x.dtype.type(attrs["momentum"])
    average = x.reshape(len(x), -1).mean(axis=0)
    if average.shape != moving_avg.shape:
        average = x.mean(axis=(0, *range(2, x.ndim)))
    return np.asarray(moving_avg * momentum + average * (1 - momentum))


def _vectors(inputs: Shapes, length: Dim, what: str) -> tuple[Dim, list[tuple[Dim, ...]]]:
    for shape in inputs:
        length = unify_dims(dims_of_rank(shape, 1)[0], length, what)
    return length, [(length,)] * len(inputs)


def infer_instance_norm_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """Infer the output; gamma and beta have one number per channel."""
    _require_channels(unify(inputs[0], outputs[0]))
    return infer_layer_norm_shapes({"axis": 1}, inputs, outputs)


def _require_channels(data: Shape) -> None:
    if data is not None and len(data) < 3:
        raise KernelError(
            f"data is {format_shape(data)}, expected at least three axes: samples, channels, spatial axes"
        )


def infer_layer_norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output; gamma and beta have the axis' length."""
    data = unify(inputs[0], outputs[0])
    if data is None:
        return [data, *_vectors(inputs[1:], None, "gamma and beta")[1]], outputs
    axis = normalize_axis(attrs["axis"], len(data))
    length, vectors = _vectors(
        inputs[1:], data[axis], f"gamma and beta against axis {axis} of data"
    )
    data = (*data[:axis], length, *data[axis + 1 :])
    kept = (*data[:axis], 1, *data[axis + 1 :])
    return [data, *vectors], [data, *(unify(shape, kept) for shape in outputs[1:])]


def infer_l2_normalization_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """Infer output and norms; ``channel`` and ``spatial`` need three axes."""
    if attrs["mode"] != "instance":
        _require_channels(unify(inputs[0], outputs[0]))
    return same_shapes(attrs, inputs, outputs)


def infer_group_norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output; gamma and beta have ``num_groups`` numbers."""
    data, groups = unify(inputs[0], outputs[0]), attrs["num_groups"]
    _, vectors = _vectors(inputs[1:], groups, "gamma and beta against num_groups")
    if data is None:
        return [data, *vectors], outputs
    _require_channels(data)
    if data[1] is not None and (groups < 1 or data[1] % groups):
        raise KernelError(
            f"{format_count(data[1], 'channel')} cannot be split into num_groups {groups}"
        )
    return [data, *vectors], [data, *(unify(shape, (data[0], groups)) for shape in outputs[1:])]


def infer_response_norm_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    """Infer the output ``(N, C, H, W)``."""
    data = unify(inputs[0], outputs[0])
    if data is not None and len(data) != 4:
        raise KernelError(
            f"data is {format_shape(data)}, expected four axes: samples, channels, height, width"
        )
    return [data], [data, *outputs[1:]]


def infer_sparse_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output; the running mean has the size of axis 1."""
    data = unify(inputs[0], outputs[0])
    if data is None:
        return [data, inputs[1]], [data]
    require(
        len(data) >= 2,
        f"data is {format_shape(data)}, expected at least two axes: samples and units",
    )
    return [data, unify((data[1],), inputs[1])], [data]


KERNELS = (
    *BATCH_NORM_KERNELS,
    *with_limits(
        Limits(dtypes=FLOATS, rank=2, elements=True),
        Kernel("InstanceNorm", instance_norm, infer_instance_norm_shapes, same_dtypes),
        Kernel("LayerNorm", layer_norm, infer_layer_norm_shapes, same_dtypes),
        Kernel("GroupNorm", group_norm, infer_group_norm_shapes, same_dtypes),
        Kernel("LRN", local_response_norm, infer_response_norm_shapes, same_dtypes),
        Kernel("L2Normalization", l2_normalization, infer_l2_normalization_shapes, same_dtypes),
        Kernel("Dropout", dropout, same_shapes, same_dtypes),
        Kernel(
            "IdentityAttachKLSparseReg", sparse_regularization, infer_sparse_shapes, same_dtypes
        ),
    ),
)


def standardize_gradient(
    x: Array, dy: Array, axes: tuple[int, ...], eps: float
) -> tuple[Array, Array]:
    """Return the gradient through (x - mean) / deviation, and the standardized values."""
    centred = x - x.mean(axis=axes, keepdims=True)
    inverse = 1 / np.sqrt(np.square(centred).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    standard = centred * inverse
    dx = dy - dy.mean(axis=axes, keepdims=True)
    dx -= standard * (dy * standard).mean(axis=axes, keepdims=True)
    dx *= inverse
    return dx, standard


def instance_norm_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of data, gamma and beta."""
    x, gamma, _ = entry.inputs
    scaled = dy * gamma.reshape(-1, *(1,) * (x.ndim - 2))
    dx, standard = standardize_gradient(x, scaled, tuple(range(2, x.ndim)), entry.attrs["eps"])
    others = (0, *range(2, x.ndim))
    return [dx, (dy * standard).sum(axis=others), dy.sum(axis=others)]


def layer_norm_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return gradients of data, gamma and beta."""
    x, gamma, _beta = entry.inputs
    axis = normalize_axis(entry.attrs["axis"], x.ndim)
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    scaled = gradient * gamma.reshape(-1, *(1,) * (x.ndim - 1 - axis))
    dx, standard = standardize_gradient(wide, scaled, (axis,), entry.attrs["eps"])
    others = tuple(i for i in range(x.ndim) if i != axis)
    gradients = (dx, (gradient * standard).sum(axis=others), gradient.sum(axis=others))
    return [g.astype(x.dtype, copy=False) for g in gradients]


def group_norm_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return gradients of data, gamma and beta (these per group)."""
    x, gamma, _beta = entry.inputs
    groups = entry.attrs["num_groups"]
    split, gradient = (to_compute_dtype(a).reshape(len(x), groups, -1) for a in (x, dy))
    dx, standard = standardize_gradient(
        split, gradient * gamma.reshape(-1, 1), (2,), entry.attrs["eps"]
    )
    gradients = (
        dx.reshape(x.shape),
        (gradient * standard).sum(axis=(0, 2)),
        gradient.sum(axis=(0, 2)),
    )
    return [g.astype(x.dtype, copy=False) for g in gradients]


def local_response_norm_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy * s^-beta - 2 alpha beta / nsize * x * nearby sum(dy * x * s^(-beta - 1))``."""
    (x,), attrs = entry.inputs, entry.attrs
    wide, gradient, size = to_compute_dtype(x), to_compute_dtype(dy), attrs["nsize"]
    number = wide.dtype.type
    scale = sum_nearby_channels(np.square(wide), size) * number(
        np.divide(attrs["alpha"], size)
    ) + number(attrs["knorm"])
    power = np.power(scale, number(-attrs["beta"]))
    sums = sum_nearby_channels(gradient * wide * power / scale, size)
    result: Array = (
        gradient * power - number(np.divide(2 * attrs["alpha"] * attrs["beta"], size)) * wide * sums
    )
    return result.astype(x.dtype, copy=False)


def l2_normalization_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``(dy - y * sum(dy * y)) / length``."""
    x = entry.inputs[0]
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    axes, length = length_along_axes(entry.attrs, wide)
    y = wide / length
    result: Array = (gradient - y * (gradient * y).sum(axis=axes, keepdims=True)) / length
    return result.astype(x.dtype, copy=False)


def dropout_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Multiply ``dy`` by the forward pass's mask."""
    # No mask: nothing was dropped.
    return np.asarray(dy * entry.outputs[1] if len(entry.outputs) > 1 else dy)


def sparse_regularization_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy + penalty * (-t / m + (1 - t) / (1 - m))``; ``m`` is a unit's running mean."""
    x, moving_avg = entry.inputs
    attrs = entry.attrs
    if not entry.training:
        return dy
    mean = update_average(attrs, x, moving_avg)
    target = x.dtype.type(attrs["sparseness_target"])
    slope = x.dtype.type(attrs["penalty"]) * (-target / mean + (1 - target) / (1 - mean))
    shape = (1, -1, *(1,) * (x.ndim - 2))
    return np.asarray(
        dy + (slope.reshape(shape) if slope.size == x.shape[1] else slope.reshape(1, *x.shape[1:]))
    )


GRADIENTS = (
    *BATCH_NORM_GRADIENTS,
    Gradient("InstanceNorm", instance_norm_gradient, reads_outputs=False),
    Gradient("LayerNorm", layer_norm_gradient, reads_outputs=False),
    Gradient("GroupNorm", group_norm_gradient, reads_outputs=False),
    Gradient("LRN", local_response_norm_gradient, reads_outputs=False),
    Gradient("L2Normalization", l2_normalization_gradient, reads_outputs=False),
    Gradient("Dropout", dropout_gradient, reads_inputs=False),
    Gradient(
        "IdentityAttachKLSparseReg",
        sparse_regularization_gradient,
        reads_outputs=False,
        adds_penalty=True,
    ),
)
