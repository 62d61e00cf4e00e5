"""Pooling over windows: one spatial axis after the other, one tap of the window at a time.

The cells of a tap are a slice of the image; taps in the padding are cropped, so nothing is padded.
A gradient goes tap by tap to the cells of each window; a maximum belongs to the first cell, in the
order of the axes, that has its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import prod
from typing import Any

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.ops.limits import FLOATS, Limits, require, with_limits
from graphshare.ops.unification import same_dtypes
from graphshare.ops.windows import (
    Window,
    check_layout,
    is_channels_last,
    read_window,
    tap_cells,
    tap_range,
    to_channels_first,
    to_compute_dtype,
    to_layout,
    unify_dims,
)
from graphshare.text.format import format_count

_OR_NAN = "max or NaN"
"""The pool_type of a Pooling_v1 of type max."""


_PART = 1 << 18
"""Elements reduced at a time."""


def axes_and_window(attrs: Attrs, shape: tuple[int, ...]) -> tuple[range, Window]:
    """Return spatial axes and window; with ``global_pool`` it spans them."""
    first, rank = 1 if is_channels_last(attrs.get("layout")) else 2, len(shape) - 2
    axes = range(first, first + rank)
    if attrs["global_pool"]:
        return axes, Window(tuple(shape[a] for a in axes), (1,) * rank, (1,) * rank, (0,) * rank)
    return axes, read_window(attrs)


def pooling(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return each window's maximum, mean, sum or root of the sum of powers."""
    axes, window = axes_and_window(attrs, x.shape)
    first = axes.start
    convention = "valid" if attrs["global_pool"] else attrs["pooling_convention"]
    counts = tuple(_positions(x.shape[a], window, i, convention) for i, a in enumerate(axes))
    result = context.empty((*x.shape[:first], *counts, *x.shape[first + len(axes) :]), x.dtype)
    for part in _parts(x.shape, first):
        result[part] = pool(
            x[part],
            attrs["pool_type"],
            axes,
            window,
            counts,
            attrs.get("count_include_pad") is not False,
            attrs.get("p_value"),
        )
    return result


def _parts(shape: tuple[int, ...], first: int) -> list[tuple[slice, ...]]:
    """Return slices of a sample's channels (all if last), to keep partial results in the cache."""
    inner = prod(shape[2:])
    if first == 1 or inner * shape[1] <= _PART:
        return [(slice(None),)]
    step = max(1, _PART // max(1, inner))
    return [
        (slice(n, n + 1), slice(c, c + step))
        for n in range(shape[0])
        for c in range(0, shape[1], step)
    ]


def pooling_v1(context: Context, attrs: Attrs, x: Array) -> Array:
    """Pool as MXNet 0.x: padding counts as zeros, in maxima and means. NaN is the maximum."""
    require(x.dtype.kind == "f", f"{x.dtype} is not supported, expected floats")
    if attrs["pool_type"] == "max":
        attrs = {**attrs, "pool_type": _OR_NAN}
    if attrs["global_pool"] or attrs["pool_type"] == "sum":
        return pooling(context, attrs, x)
    window = read_window(attrs)
    if attrs["pool_type"] == _OR_NAN:
        if any(window.pad):
            # The zeros count also for the maximum.
            x = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in window.pad)])
        return pooling(context, {**attrs, "pad": ()}, x)
    total = pooling(context, {**attrs, "pool_type": "sum"}, x)
    total *= total.dtype.type(1 / prod(window.kernel))
    return total


def pool(
    x: Array,
    kind: str,
    axes: range,
    window: Window,
    counts: tuple[int, ...],
    include_padding: bool = True,
    power: int | None = None,
) -> Array:
    """Reduce by ``kind`` (max, avg, sum, lp); ``counts`` are the windows along each of ``axes``."""
    if kind == "max":
        return _maximum(x, axes, window, counts)
    if kind == _OR_NAN:
        return _reduce_window(x, np.maximum, -np.inf, axes, window, counts)
    dtype = x.dtype
    x = to_compute_dtype(x)
    if kind == "lp":
        require(power in (1, 2, 3), f"p_value is {power}; pool_type lp takes 1, 2 or 3")
        powers = _reduce_window(x if power == 1 else x**power, np.add, 0, axes, window, counts)
        if power == 2:
            powers = np.sqrt(powers)
        elif power == 3:
            powers = np.cbrt(powers)
        return powers.astype(dtype, copy=False)
    total = _reduce_window(x, np.add, 0, axes, window, counts)
    if kind == "avg":
        for i, axis in enumerate(axes):
            cells = tap_cells(x.shape[axis], window, i, counts[i], include_padding)
            cells = cells.astype(total.dtype)
            total /= cells.reshape(-1, *(1,) * (total.ndim - 1 - axis))
    return total.astype(dtype, copy=False)


def _maximum(x: Array, axes: range, window: Window, counts: tuple[int, ...]) -> Array:
    """Return maxima, ignoring NaN, at least the smallest finite number."""
    if x.dtype.kind != "f":
        return _reduce_window(x, np.maximum, np.iinfo(x.dtype).min, axes, window, counts)
    low = -np.finfo(x.dtype).max
    result = _reduce_window(x, np.maximum, low, axes, window, counts)
    # Only NaN or a window without a number needs fmax: it ignores NaN. min is NaN if a result is.
    if result.size and not result.min() > low:
        result = np.fmax(_reduce_window(x, np.fmax, low, axes, window, counts), low)
    return result


def _reduce_window(
    x: Array, combine: Any, start: Any, axes: range, window: Window, counts: tuple[int, ...]
) -> Array:
    for i, axis in enumerate(axes):
        size, count = x.shape[axis], counts[i]
        kernel, stride, pad = window.kernel[i], window.stride[i], window.pad[i]
        # A window over the whole axis is a single call.
        if count == 1 and pad == 0 and kernel >= size:
            x = combine.reduce(x, axis=axis, keepdims=True)
            continue
        spans = [
            tap_range(size, tap - pad, stride, count)
            for tap in _taps(size, kernel, stride, pad, count)
        ]
        # A tap inside the image at all windows is the first result: nothing to fill.
        whole = next((span for span in spans if span[:2] == (0, count)), None)
        if whole is None:
            out = np.full((*x.shape[:axis], count, *x.shape[axis + 1 :]), start, x.dtype)
        else:
            out = np.array(x[_on_axis(axis, whole[2])], order="C")
        for span in spans:
            first, last, cells = span
            if span is not whole and first < last:
                part = out[_on_axis(axis, slice(first, last))]
                combine(part, x[_on_axis(axis, cells)], out=part)
        x = out
    return x


def _taps(size: int, kernel: int, stride: int, pad: int, count: int) -> Iterable[int]:
    """Return the taps inside the image at any of ``count`` positions, in order.

    In a window far larger than the image most taps are in the padding.
    """
    if kernel <= count * size:
        return range(kernel)
    inside = (
        range(max(0, pad - i * stride), min(kernel, pad - i * stride + size)) for i in range(count)
    )
    return sorted(set().union(*inside))


def _on_axis(axis: int, cells: slice) -> tuple[slice, ...]:
    return (*(slice(None),) * axis, cells)


def _positions(size: int, window: Window, i: int, convention: str) -> int:
    kernel, stride, pad = window.kernel[i], window.stride[i], window.pad[i]
    if convention == "same":
        return -(-size // stride)  # it takes no pad
    room = size + 2 * pad - kernel
    if room < 0:
        raise KernelError(
            f"a window of {format_count(kernel, 'cell')} does not fit into {size} with a padding of {pad} on each side"
        )
    steps = -(-room // stride) if convention == "full" else room // stride
    return steps + 1


def pooling_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output, samples and channels."""
    known = outputs[0] if inputs[0] is None else inputs[0]
    if known is None:
        return inputs, outputs
    last, unknown = is_channels_last(attrs.get("layout")), (None,) * len(known)
    _check_pooled_rank(attrs, len(known))
    data = to_channels_first(unknown if inputs[0] is None else inputs[0], last)
    out = to_channels_first(unknown if outputs[0] is None else outputs[0], last)
    require(
        len(data) == len(out),
        f"data has {format_count(len(data), 'axis')}, but the output has {len(out)}",
    )
    window = None if attrs["global_pool"] else read_window(attrs)
    spatial: list[Dim] = []
    for i, (size, count) in enumerate(zip(data[2:], out[2:], strict=True)):
        expected: Dim = None
        if window is None:
            expected = 1
        elif size is not None:
            expected = _positions(size, window, i, attrs["pooling_convention"])
        spatial.append(unify_dims(count, expected, "spatial axis of the output"))
    what = "samples or channels of data and output"
    front = (unify_dims(data[0], out[0], what), unify_dims(data[1], out[1], what))
    return [to_layout((*front, *data[2:]), last)], [to_layout((*front, *spatial), last)]


def _check_pooled_rank(attrs: Attrs, rank: int) -> None:
    if not 3 <= rank <= 5:
        raise KernelError(
            f"data has {format_count(rank, 'axis')}; pooling takes 3 to 5: samples, channels, 1 to 3 spatial axes"
        )
    check_layout(attrs.get("layout"), rank)
    fits_same = rank == 3 and not any(attrs["pad"] or ())
    if attrs["pooling_convention"] == "same" and not fits_same:
        raise KernelError("pooling_convention same takes data with one spatial axis, and no pad")
    if not attrs["global_pool"] and len(attrs["kernel"]) != rank - 2:
        raise KernelError(
            f"kernel {attrs['kernel']} does not fit data with {format_count(rank - 2, 'spatial axis')}"
        )


def _pooling_v1_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """With global pooling ``kernel`` may be missing."""
    allowed = {4, 5}
    if attrs["kernel"] or not attrs["global_pool"]:
        allowed.intersection_update((len(attrs["kernel"]) + 2,))
    ranks = {len(shape) for shape in (*inputs, *outputs) if shape is not None}
    require(
        allowed and ranks <= allowed,
        f"kernel {attrs['kernel']} needs two or three sizes, one for each spatial axis",
    )
    return pooling_shapes(attrs, inputs, outputs)


KERNELS = with_limits(
    Limits(dtypes=FLOATS, elements=True, not_negative=("pad",)),
    Kernel("Pooling", pooling, pooling_shapes, same_dtypes),
    Kernel("Pooling_v1", pooling_v1, _pooling_v1_shapes, same_dtypes),
)


def pooling_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` at each window's maximum, shared among its cells, or weighted by powers."""
    return _data_gradient(entry.attrs, entry.inputs[0], entry.outputs[0], dy)


def _data_gradient(attrs: Attrs, x: Array, y: Array, dy: Array, *, to_all: bool = False) -> Array:
    """Return the data's gradient; with ``to_all`` every maximum gets all of ``dy``."""
    axes, window = axes_and_window(attrs, x.shape)
    kind = attrs["pool_type"]
    data, gradient = to_compute_dtype(x), to_compute_dtype(dy)
    if kind == "avg":
        gradient = _divide_by_cells(
            gradient, x.shape, axes, window, attrs.get("count_include_pad") is not False
        )
    if kind in ("avg", "sum") and attrs["global_pool"]:
        return np.broadcast_to(gradient, x.shape).astype(x.dtype, copy=False)
    dx = np.zeros(x.shape, data.dtype)
    free = np.ones(y.shape, bool) if kind == "max" and not to_all else None
    for cells, windows in _tap_slices(x.shape, y.shape, axes, window):
        part = gradient[windows]
        if kind == "max":
            hit = data[cells] == y[windows]
            if free is not None:
                hit &= free[windows]
                free[windows] &= ~hit
            part = part * hit
        elif kind == "lp":
            part = part * _power_slope(data[cells], y[windows], attrs["p_value"])
        dx[cells] += part
    return dx.astype(x.dtype, copy=False)


def _power_slope(x: Array, y: Array, power: int) -> Array:
    """Return ``(x / y)^(p - 1)``; 0 for the sum 0, unless p is 1."""
    if power == 1:
        return np.ones_like(x)
    with np.errstate(all="ignore"):
        slope = (x / y) ** (power - 1)
    return np.where(y == 0, x.dtype.type(0), slope)


def _tap_slices(
    shape: tuple[int, ...], counts: tuple[int, ...], axes: range, window: Window
) -> list[tuple[tuple[slice, ...], tuple[slice, ...]]]:
    """Return for each tap the image's cells, and the windows with a cell there."""
    pairs = []
    for tap in product(*map(range, window.kernel)):
        cells, windows = [slice(None)] * len(shape), [slice(None)] * len(shape)
        for i, axis in enumerate(axes):
            first, last, under = tap_range(
                shape[axis], tap[i] - window.pad[i], window.stride[i], counts[axis]
            )
            cells[axis] = windows[axis] = slice(0, 0)
            if first < last:
                cells[axis], windows[axis] = under, slice(first, last)
        pairs.append((tuple(cells), tuple(windows)))
    return pairs


def _divide_by_cells(
    dy: Array, shape: tuple[int, ...], axes: range, window: Window, include_padding: bool
) -> Array:
    for i, axis in enumerate(axes):
        count = tap_cells(shape[axis], window, i, dy.shape[axis], include_padding).astype(dy.dtype)
        dy = dy / count.reshape(-1, *(1,) * (dy.ndim - 1 - axis))
    return dy


def pooling_v1_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return :func:`pooling_gradient` with means over all cells and maxima in the padding.

    Each of several maxima gets all of ``dy``.
    """
    attrs, x, y = entry.attrs, entry.inputs[0], entry.outputs[0]
    if attrs["global_pool"] or attrs["pool_type"] == "sum":
        return _data_gradient(attrs, x, y, dy, to_all=True)
    window = read_window(attrs)
    if attrs["pool_type"] == "avg":
        return _data_gradient(
            {**attrs, "pool_type": "sum"}, x, y, dy / dy.dtype.type(prod(window.kernel))
        )
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in window.pad)])
    dx = _data_gradient({**attrs, "pad": ()}, padded, y, dy, to_all=True)
    inner = tuple(slice(p, n - p) for p, n in zip((0, 0, *window.pad), dx.shape, strict=True))
    return dx[inner]


GRADIENTS = (
    Gradient("Pooling", pooling_gradient),
    Gradient("Pooling_v1", pooling_v1_gradient),
)
