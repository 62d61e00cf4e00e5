"""Normalization within a sample, and what is identity outside training."""

from __future__ import annotations

import numpy as np

from graphshare.ops.buffers import reuse_buffer
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Result, Shapes
from graphshare.ops.limits import FLOATS, Limits, with_limits
from graphshare.ops.unification import axis_of, dims_of_rank, same_dtypes, same_shapes, unify
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_shape


def _standardize(x: Array, axes: tuple[int, ...], eps: float) -> tuple[Array, Array, Array]:
    """(x - mean) / deviation over ``axes``, the mean and the deviation, sqrt(variance + eps); their axes kept."""
    mean = x.mean(axis=axes, keepdims=True)
    out = x - mean
    deviation = np.sqrt(np.square(out).mean(axis=axes, keepdims=True) + x.dtype.type(eps))
    out /= deviation
    return out, mean, deviation


def instance_norm(context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array) -> Array:
    """Each channel of each sample (N, C, ...) on its own."""
    out, _, _ = _standardize(x, tuple(range(2, x.ndim)), attrs["eps"])
    tail = (-1, *(1,) * (x.ndim - 2))
    out *= gamma.reshape(tail)
    out += beta.reshape(tail)
    return out


def layer_norm(context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Along one axis; gamma and beta have its length. Outputs mean and deviation as well, that axis kept as 1."""
    axis = axis_of(attrs["axis"], x.ndim)
    out, mean, deviation = _standardize(to_compute_dtype(x), (axis,), attrs["eps"])
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    out *= gamma.reshape(tail)
    out += beta.reshape(tail)
    return out.astype(x.dtype, copy=False), mean.astype(x.dtype, copy=False), deviation.astype(x.dtype, copy=False)


def group_norm(context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array) -> tuple[Array, Array, Array]:
    """Groups of channels (N, C, ...) of each sample; gamma and beta have one number for each group."""
    groups = attrs["num_groups"]
    split = to_compute_dtype(x).reshape(len(x), groups, -1)
    out, mean, deviation = _standardize(split, (2,), attrs["eps"])
    out *= gamma.reshape(-1, 1)
    out += beta.reshape(-1, 1)
    mean, deviation = mean.reshape(len(x), groups), deviation.reshape(len(x), groups)
    return out.reshape(x.shape).astype(x.dtype, copy=False), mean.astype(x.dtype), deviation.astype(x.dtype)


def around(x: Array, size: int) -> Array:
    """The sum over ``size`` channels around each, on axis 1; of an even number over one fewer."""
    total: Array = x.copy()
    for shift in range(1, min((size - 1) // 2, x.shape[1] - 1) + 1):
        total[:, shift:] += x[:, :-shift]
        total[:, :-shift] += x[:, shift:]
    return total


def response_norm(context: Context, attrs: Attrs, x: Array) -> Array:
    """x / (knorm + alpha / nsize * sum of squares of the channels around)^beta, the channels on axis 1."""
    total = around(np.square(to_compute_dtype(x)), attrs["nsize"])
    total *= total.dtype.type(np.divide(attrs["alpha"], attrs["nsize"]))
    total += total.dtype.type(attrs["knorm"])
    np.power(total, total.dtype.type(-attrs["beta"]), out=total)
    result: Array = np.multiply(total, x, out=total)
    return result.astype(x.dtype, copy=False)


def unit_length(context: Context, attrs: Attrs, x: Array) -> Array:
    """x / sqrt(sum of squares + eps): of a sample, across its channels, or of each channel."""
    mode = attrs["mode"]
    axes = {"instance": tuple(range(1, x.ndim)), "channel": (1,), "spatial": tuple(range(2, x.ndim))}[mode]
    wide = to_compute_dtype(x)
    length = np.sqrt(np.square(wide).sum(axis=axes, keepdims=True) + wide.dtype.type(attrs["eps"]))
    result: Array = np.divide(wide, length)
    return result.astype(x.dtype, copy=False)


def dropout(context: Context, attrs: Attrs, x: Array) -> Array | Result:
    """Identity, or while training (always, in that mode) a share ``p`` set to 0 and the rest scaled to keep the mean."""
    keep = 1 - attrs["p"]
    if keep == 1 or not (context.training or attrs["mode"] == "always"):
        return x
    if context.rng is None:
        raise KernelError("Dropout needs random numbers here, and the run was given none")
    shape = tuple(1 if i in attrs["axes"] else n for i, n in enumerate(x.shape))
    drawn = context.rng.random(shape, dtype=np.float32) < keep
    mask = drawn.astype(x.dtype) / x.dtype.type(keep or 1)
    result: Array = np.multiply(x, mask, out=reuse_buffer(context, x))
    return Result((result, mask), {}, mask)


def sparse_regularized(context: Context, attrs: Attrs, x: Array, moving_avg: Array) -> Array | Result:
    """Identity; while training it gathers the mean activation of each unit, for the penalty in the backward pass."""
    if not context.training:
        return x
    momentum = x.dtype.type(attrs["momentum"])
    average = x.reshape(len(x), -1).mean(axis=0)
    if average.shape != moving_avg.shape:
        average = x.mean(axis=(0, *range(2, x.ndim)))
    return Result((x,), {1: moving_avg * momentum + average * (1 - momentum)})


def _vectors(inputs: Shapes, length: Dim, what: str) -> tuple[Dim, list[tuple[Dim, ...]]]:
    for shape in inputs:
        length = unify_dims(dims_of_rank(shape, 1)[0], length, what)
    return length, [(length,)] * len(inputs)


def instance_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and output are alike; gamma and beta have one number for each channel."""
    data = unify(inputs[0], outputs[0])
    if data is None:
        return [data, *_vectors(inputs[1:], None, "gamma and beta")[1]], outputs
    if len(data) < 3:
        raise KernelError(f"data is {format_shape(data)}; at least three axes are wanted: samples, channels, spatial ones")
    channels, vectors = _vectors(inputs[1:], data[1], "gamma and beta against the channels (axis 1 of data)")
    data = (data[0], channels, *data[2:])
    return [data, *vectors], [data]


def layer_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and output are alike; gamma and beta have the length of the axis."""
    data = unify(inputs[0], outputs[0])
    if data is None:
        return [data, *_vectors(inputs[1:], None, "gamma and beta")[1]], outputs
    axis = axis_of(attrs["axis"], len(data))
    length, vectors = _vectors(inputs[1:], data[axis], f"gamma and beta against axis {axis} of data")
    data = (*data[:axis], length, *data[axis + 1 :])
    kept = (*data[:axis], 1, *data[axis + 1 :])
    return [data, *vectors], [data, *(unify(shape, kept) for shape in outputs[1:])]


def group_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and output are alike; gamma and beta have ``num_groups`` numbers."""
    data, groups = unify(inputs[0], outputs[0]), attrs["num_groups"]
    _, vectors = _vectors(inputs[1:], groups, "gamma and beta against num_groups")
    if data is None:
        return [data, *vectors], outputs
    if len(data) < 3:
        raise KernelError(f"data is {format_shape(data)}; at least three axes are wanted: samples, channels, spatial ones")
    if data[1] is not None and (groups < 1 or data[1] % groups):
        raise KernelError(f"{data[1]} channels cannot be split into num_groups {groups}")
    return [data, *vectors], [data, *(unify(shape, (data[0], groups)) for shape in outputs[1:])]


def sparse_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and output are alike; the average has one number for each index of axis 1."""
    data = unify(inputs[0], outputs[0])
    if data is None or len(data) < 2:
        return [data, inputs[1]], [data]
    return [data, unify((data[1],), inputs[1])], [data]


KERNELS = with_limits(
    Limits(dtypes=FLOATS, rank=2, elements=True),
    Kernel("InstanceNorm", instance_norm, instance_shapes, same_dtypes),
    Kernel("LayerNorm", layer_norm, layer_shapes, same_dtypes),
    Kernel("GroupNorm", group_norm, group_shapes, same_dtypes),
    Kernel("LRN", response_norm, same_shapes, same_dtypes),
    Kernel("L2Normalization", unit_length, same_shapes, same_dtypes),
    Kernel("Dropout", dropout, same_shapes, same_dtypes),
    Kernel("IdentityAttachKLSparseReg", sparse_regularized, sparse_shapes, same_dtypes),
)
