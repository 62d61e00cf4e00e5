"""BatchNorm by the batch's statistics while training, otherwise by the moving ones.

While training, gradients pass through the statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np

from graphshare.ops.arrays import Array, Attrs, Dim, KernelError, Shape, Shapes, Types
from graphshare.ops.folding import ChannelScaling
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    RELU,
    Context,
    Kernel,
    KernelResult,
    Normalize,
    Operation,
    result_buffer,
)
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.unification import (
    contradict,
    dims_of_rank,
    normalize_axis,
    same_dtypes,
    unify,
    with_dim,
)
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_shape

_CHUNK = 1 << 17
"""Elements scaled and shifted at a time, to stay in the cache."""

_LARGEST_SHIFT = 16
"""The largest mean * scale at which x * scale + shift replaces (x - mean) * scale + beta."""


def channel_terms(
    attrs: Attrs, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> tuple[Array, Array]:
    """Return factor and term per channel with moving statistics, in float64."""
    factor = 1 / np.sqrt(moving_var.astype(np.float64) + attrs["eps"])
    if not attrs["fix_gamma"]:
        factor = factor * gamma
    return factor, beta - moving_mean * factor


def plain_scaling(
    attrs: Attrs, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> tuple[Array, Array] | tuple[None, None]:
    """Return :func:`channel_terms` in the dtype of beta; None if they would lose precision."""
    factor, term = channel_terms(attrs, gamma, beta, moving_mean, moving_var)
    if not np.all(np.abs(moving_mean * factor) <= _LARGEST_SHIFT):
        return None, None
    return factor.astype(beta.dtype), term.astype(beta.dtype)


def batch_norm(
    context: Context, attrs: Attrs, *inputs: Array, inverse: bool = True, relu: bool = False
) -> KernelResult | Array:
    """Return (x - mean) / sqrt(variance + eps) * gamma + beta, mean and variance.

    ``relu`` makes the first at least 0, ``inverse`` the last 1 / sqrt(variance + eps).
    """
    x, gamma, beta, moving_mean, moving_var = inputs
    axis = normalize_axis(attrs.get("axis", 1), x.ndim)
    fixed = not context.training or attrs["use_global_stats"]
    if fixed:
        mean, variance = moving_mean, moving_var
    else:
        mean, variance = _statistics(x, axis, moving_mean.dtype)
    factor = 1 / np.sqrt(variance.astype(np.float64) + attrs["eps"])
    scale = factor if attrs["fix_gamma"] else factor * gamma
    out = _scale_and_shift(context, x, axis, mean, scale, beta, relu=relu)
    # Unread statistics are not copied.
    if fixed and context.num_outputs == 1:
        return out
    second = factor.astype(variance.dtype) if inverse else variance
    # An output must not be a view of a parameter.
    outputs = (out, mean.copy() if fixed else mean, second.copy() if fixed else second)
    updates: dict[int, Array] = {}
    if not fixed:
        momentum = moving_mean.dtype.type(attrs["momentum"])
        updates = {
            3: moving_mean * momentum + mean * (1 - momentum),
            4: moving_var * momentum + variance * (1 - momentum),
        }
    return KernelResult(outputs, updates, (mean, factor.astype(mean.dtype)))


def _statistics(x: Array, axis: int, dtype: Any) -> tuple[Array, Array]:
    """Return mean and biased variance, NaN without elements."""
    if not x.size:
        nothing = np.full(x.shape[axis], np.nan, dtype)
        return nothing, nothing
    others = tuple(i for i in range(x.ndim) if i != axis)
    wide = to_compute_dtype(x)
    mean: Array = wide.mean(axis=others)
    shape = [1] * x.ndim
    shape[axis] = -1
    # In two passes: mean(x**2) - mean**2 would cancel.
    deviation = wide - mean.reshape(shape)
    np.square(deviation, out=deviation)
    return mean.astype(dtype, copy=False), deviation.mean(axis=others).astype(dtype, copy=False)


def _scale_and_shift(
    context: Context,
    x: Array,
    axis: int,
    mean: Array,
    scale: Array,
    beta: Array,
    *,
    relu: bool = False,
) -> Array:
    """Return (x - mean) * scale + beta, with ``relu`` at least 0, in a reusable ``x``.

    Compute x * scale + shift unless the terms would cancel so far that their rounding matters.
    """
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    out = result_buffer(context, x)
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    plain = bool(np.all(np.abs(mean * scale) <= _LARGEST_SHIFT))
    # Rounded once, from float64.
    shift = (beta - mean * scale if plain else beta).astype(wide).reshape(tail)
    factor, middle = scale.astype(wide).reshape(tail), mean.astype(wide).reshape(tail)
    for index, channels in _split_channels(x.shape, axis):
        cells = x[index]
        # float16 is scaled in float32, part by part to save memory.
        target = out[index] if x.dtype == wide else np.empty(cells.shape, wide)
        if plain:
            np.multiply(cells, factor[channels], out=target)
        else:
            np.subtract(cells, middle[channels], out=target)
            target *= factor[channels]
        target += shift[channels]
        if relu:
            # Faster than maximum
            np.clip(target, target.dtype.type(0), target.dtype.type(np.inf), out=target)
        if target.dtype != out.dtype:
            out[index] = target
    return out


def _split_channels(shape: tuple[int, ...], axis: int) -> list[tuple[tuple[Any, ...], slice]]:
    inner = int(np.prod(shape[axis + 1 :]))
    # Many calls for short rows would cost more than the cache saves.
    if axis > 1 or inner < 64 or inner * shape[axis] <= _CHUNK:
        return [((...,), slice(None))]
    step = max(1, _CHUNK // inner)
    parts = [slice(first, first + step) for first in range(0, shape[axis], step)]
    return [((*lead, part), part) for lead in np.ndindex(shape[:axis]) for part in parts]


def batch_norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output, and one number per channel for all others."""
    data = unify(inputs[0], outputs[0])
    channels: Dim = None
    for shape in (*inputs[1:], *outputs[1:]):
        channels = unify_dims(dims_of_rank(shape, 1)[0], channels, "numbers by channel")
    if data is not None:
        axis = attrs.get("axis", 1)
        require(
            -len(data) <= axis < len(data),
            f"the channel axis is {axis}, but data is {format_shape(data)}",
        )
        axis %= len(data)
        channels = unify_dims(
            channels,
            data[axis],
            f"length of gamma, beta and statistics, compared with axis {axis} of data",
        )
        data = with_dim(data, axis, channels)
    vector: Shape = (channels,)
    return [data, *[vector] * (len(inputs) - 1)], [data, *[vector] * (len(outputs) - 1)]


def _matrix_or_image_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Require data ``(N, C)`` or ``(N, C, H, W)``."""
    data = unify(inputs[0], outputs[0])
    if data is not None and len(data) not in (2, 4):
        raise KernelError(f"data is {format_shape(data)}, expected two or four axes")
    return batch_norm_shapes(attrs, inputs, outputs)


def batch_norm_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the data's dtype for all; beside float16 data the others are float32."""
    (data,), _ = same_dtypes(attrs, inputs[:1], outputs[:1])
    rest = [*inputs[1:], *outputs[1:]]
    statistics = "float32" if data == "float16" else data
    for dtype in rest:
        if contradict(dtype, statistics):
            raise KernelError(
                f"gamma, beta and statistics are {dtype}, expected {statistics} for data of {data}"
            )
    if statistics is None:
        statistics = next((dtype for dtype in rest if dtype is not None), None)
        # float32 statistics occur with float32 and float16 data.
        data = statistics if statistics == "float64" else None
    return [data, *[statistics] * (len(inputs) - 1)], [data, *[statistics] * (len(outputs) - 1)]


_SCALING = ChannelScaling(lambda attrs: attrs.get("axis", 1), channel_terms)


def _by_channel(
    operator: str,
    forward: Callable[..., KernelResult | Array],
    scaling: ChannelScaling | None = _SCALING,
) -> Kernel:
    return Kernel(operator, forward, batch_norm_shapes, batch_norm_types, scaling=scaling)


# With the ReLU it is no longer a scaling that can be folded.
BATCH_NORM_RELU = _by_channel(
    "_contrib_BatchNormWithReLU", partial(batch_norm, relu=True), scaling=None
)


def rectify(attrs: Attrs, operation: Operation, place: int) -> tuple[Kernel, Attrs] | None:
    """Fuse a following ReLU; None for another operation."""
    return (BATCH_NORM_RELU, attrs) if operation == RELU else None


KERNELS = with_limits(
    Limits(dtypes=FLOATS),
    msgspec.structs.replace(
        _by_channel("BatchNorm", batch_norm), epilogue=Normalize, extend=rectify
    ),
    msgspec.structs.replace(
        _by_channel("BatchNorm_v1", partial(batch_norm, inverse=False)),
        shapes=_matrix_or_image_shapes,
    ),
    _by_channel("_contrib_SyncBatchNorm", partial(batch_norm, inverse=False)),
    BATCH_NORM_RELU,
)


def batch_norm_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Gradients:
    """Return gradients of data, gamma (0 if fixed) and beta; output statistics have none."""
    x, gamma, _beta, moving_mean, moving_var = entry.inputs
    attrs = entry.attrs
    if not x.size:  # the statistics of nothing are NaN, the sum over nothing is 0
        return [dy, np.full_like(gamma, 0 if attrs["fix_gamma"] else np.nan), np.zeros_like(gamma)]
    axis = normalize_axis(attrs.get("axis", 1), x.ndim)
    others = tuple(i for i in range(x.ndim) if i != axis)
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    wide, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    fixed = not entry.training or attrs["use_global_stats"]
    mean = (moving_mean if fixed else wide.mean(axis=others)).astype(wide.dtype, copy=False)
    standard = wide - mean.reshape(tail)
    variance = (
        moving_var.astype(np.float64)
        if fixed
        else np.square(standard).mean(axis=others, dtype=np.float64)
    )
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
            # In place: dx = (dy - mean(dy) - standard * mean(dy * standard)) * scale.
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


def batch_norm_relu_gradient(entry: TapeEntry, dy: Array, *rest: Array | None) -> Gradients:
    """Return :func:`batch_norm_gradient` for ``dy`` where the output is not 0."""
    return batch_norm_gradient(entry, dy * (entry.outputs[0] != 0), *rest)


def overwrite_gamma(attrs: Attrs, inputs: Sequence[Array]) -> Mapping[int, Array]:
    """Return 1 for a fixed gamma: MXNet's forward pass writes it into the parameter."""
    return {1: np.ones_like(inputs[1])} if attrs["fix_gamma"] else {}


GRADIENTS = (
    *(
        Gradient(name, batch_norm_gradient, reads_outputs=False, overwrites=overwrite_gamma)
        for name in ("BatchNorm", "BatchNorm_v1", "_contrib_SyncBatchNorm")
    ),
    Gradient("_contrib_BatchNormWithReLU", batch_norm_relu_gradient, overwrites=overwrite_gamma),
)
