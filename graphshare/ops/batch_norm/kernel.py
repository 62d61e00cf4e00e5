"""Normalization by channel: with statistics of the batch while training, else with those that were gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.buffers import result_buffer
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Result, Shape, Shapes, Types
from graphshare.ops.limits import FLOATS, Limits, with_limits
from graphshare.ops.unification import axis_of, dims_of_rank, same_dtypes, unify
from graphshare.ops.windows import to_compute_dtype, unify_dims
from graphshare.text.format import format_shape

_CHUNK = 1 << 17
"""Numbers that are scaled and shifted in one go, so that they stay in the cache in between."""


_PLAIN = 16
"""How large mean * scale may be for x * scale + shift instead of (x - mean) * scale + beta."""


def batch_norm(
    context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> Result | Array:
    """(x - mean) / sqrt(variance + eps) * gamma + beta; outputs mean and 1 / sqrt(variance + eps) as well."""
    return _normalize(context, attrs, (x, gamma, beta, moving_mean, moving_var), inverse=True)


def plain_scaling(
    attrs: Attrs, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> tuple[Array, Array] | tuple[None, None]:
    """The factor and the term by channel of BatchNorm with gathered statistics; None where their rounding would show."""
    scale = 1 / np.sqrt(moving_var.astype(np.float64) + attrs["eps"])
    if not attrs["fix_gamma"]:
        scale = scale * gamma
    middle = moving_mean * scale
    if not np.all(np.abs(middle) <= _PLAIN):
        return None, None
    return scale.astype(beta.dtype), (beta - middle).astype(beta.dtype)


def batch_norm_raw(
    context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> Result | Array:
    """As BatchNorm, but what is output beside the mean is the variance as it is."""
    return _normalize(context, attrs, (x, gamma, beta, moving_mean, moving_var), inverse=False)


def batch_norm_relu(
    context: Context, attrs: Attrs, x: Array, gamma: Array, beta: Array, moving_mean: Array, moving_var: Array
) -> Result | Array:
    """max(BatchNorm, 0)."""
    return _normalize(context, attrs, (x, gamma, beta, moving_mean, moving_var), inverse=True, relu=True)


def _normalize(
    context: Context, attrs: Attrs, inputs: tuple[Array, ...], *, inverse: bool, relu: bool = False
) -> Result | Array:
    x, gamma, beta, moving_mean, moving_var = inputs
    axis = axis_of(attrs.get("axis", 1), x.ndim)
    gathered = not context.training or attrs["use_global_stats"]
    if gathered:
        mean, variance = moving_mean, moving_var
    else:
        mean, variance = _statistics(x, axis, moving_mean.dtype)
    factor = 1 / np.sqrt(variance.astype(np.float64) + attrs["eps"])
    scale = factor if attrs["fix_gamma"] else factor * gamma
    out = _scale_and_shift(context, x, axis, mean, scale, beta, relu=relu)
    if gathered and context.num_outputs == 1:
        return out
    spread = factor.astype(variance.dtype) if inverse else variance
    outputs = (out, mean.copy() if gathered else mean, spread.copy() if gathered else spread)
    updates: dict[int, Array] = {}
    if not gathered:
        momentum = moving_mean.dtype.type(attrs["momentum"])
        updates = {3: moving_mean * momentum + mean * (1 - momentum), 4: moving_var * momentum + variance * (1 - momentum)}
    return Result(outputs, updates, (mean, factor.astype(mean.dtype)))


def _statistics(x: Array, axis: int, dtype: Any) -> tuple[Array, Array]:
    """Mean and biased variance by channel."""
    others = tuple(i for i in range(x.ndim) if i != axis)
    wide = to_compute_dtype(x)
    mean: Array = wide.mean(axis=others)
    shape = [1] * x.ndim
    shape[axis] = -1
    deviation = wide - mean.reshape(shape)
    np.square(deviation, out=deviation)
    return mean.astype(dtype, copy=False), deviation.mean(axis=others).astype(dtype, copy=False)


def _scale_and_shift(
    context: Context, x: Array, axis: int, mean: Array, scale: Array, beta: Array, *, relu: bool = False
) -> Array:
    """(x - mean) * scale + beta, with ``relu`` no less than 0, into the buffer of ``x`` where that is dead.

    It is x * scale + shift unless so little would be left of the two terms that their rounding showed.
    """
    wide = np.float32 if x.dtype == np.float16 else x.dtype
    out = result_buffer(context, x)
    tail = (-1, *(1,) * (x.ndim - 1 - axis))
    plain = bool(np.all(np.abs(mean * scale) <= _PLAIN))
    shift = (beta - mean * scale if plain else beta).astype(wide).reshape(tail)
    factor, middle = scale.astype(wide).reshape(tail), mean.astype(wide).reshape(tail)
    for part in _parts(x.shape, axis):
        cells = x[part.index]
        goal = out[part.index] if x.dtype == wide else np.empty(cells.shape, wide)
        if plain:
            np.multiply(cells, part.of(factor), out=goal)
        else:
            np.subtract(cells, part.of(middle), out=goal)
            goal *= part.of(factor)
        goal += part.of(shift)
        if relu:
            np.clip(goal, goal.dtype.type(0), goal.dtype.type(np.inf), out=goal)  # faster than maximum
        if goal.dtype != out.dtype:
            out[part.index] = goal
    return out


class _Part:
    """Some channels of one index of the axes before them, or everything."""

    def __init__(self, index: tuple[Any, ...], channels: slice) -> None:
        self.index, self.channels = index, channels

    def of(self, by_channel: Array) -> Array:
        """The values of these channels."""
        return by_channel[self.channels]


def _parts(shape: tuple[int, ...], axis: int) -> list[_Part]:
    inner = int(np.prod(shape[axis + 1 :]))
    if axis > 1 or inner < 64 or inner * shape[axis] <= _CHUNK:
        return [_Part((...,), slice(None))]
    step = max(1, _CHUNK // inner)
    parts = [slice(first, first + step) for first in range(0, shape[axis], step)]
    return [_Part((*lead, part), part) for lead in np.ndindex(shape[:axis]) for part in parts]


def batch_norm_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data and output are alike; the others have one number for each channel, which tells the channels too."""
    data = unify(inputs[0], outputs[0])
    channels: Dim = None
    for shape in (*inputs[1:], *outputs[1:]):
        channels = unify_dims(dims_of_rank(shape, 1)[0], channels, "numbers by channel")
    if data is not None:
        axis = attrs.get("axis", 1)
        if not -len(data) <= axis < len(data):
            raise KernelError(f"the channels are to be on axis {axis}, but data is {format_shape(data)}")
        axis %= len(data)
        channels = unify_dims(channels, data[axis], f"gamma, beta and statistics against the channels (axis {axis} of data)")
        data = (*data[:axis], channels, *data[axis + 1 :])
    vector: Shape = (channels,)
    return [data, *[vector] * (len(inputs) - 1)], [data, *[vector] * (len(outputs) - 1)]


def batch_norm_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """The output as the data; the others as the data too, float32 for float16."""
    (data, *_), (out, *_) = same_dtypes(attrs, [inputs[0]], [outputs[0]])[0], [outputs[0]]
    data = data or out
    rest = [*inputs[1:], *outputs[1:]]
    wanted = {"float16": "float32", None: None}.get(data, data)
    for dtype in rest:
        if dtype is not None and wanted is not None and dtype != wanted:
            raise KernelError(f"gamma, beta and statistics are {dtype} where {wanted} fits data of {data}")
    if wanted is None:
        wanted = next((dtype for dtype in rest if dtype is not None), None)
        data = wanted if wanted == "float64" else None
    return [data, *[wanted] * (len(inputs) - 1)], [data, *[wanted] * (len(outputs) - 1)]


def _by_channel(operator: str, forward: Callable[..., Result | Array]) -> Kernel:
    return Kernel(operator, forward, batch_norm_shapes, batch_norm_types)


BATCH_NORM_RELU = _by_channel("_contrib_BatchNormWithReLU", batch_norm_relu)


KERNELS = with_limits(
    Limits(dtypes=FLOATS),
    _by_channel("BatchNorm", batch_norm),
    _by_channel("BatchNorm_v1", batch_norm_raw),
    _by_channel("_contrib_SyncBatchNorm", batch_norm_raw),
    BATCH_NORM_RELU,
)
