"""Convolutions of 8-bit integers as sums of products in float32, exact up to 2**24.

The image is copied into its padding with channels last, as bytes, so that a window's row is
contiguous. One pass copies all windows to float32. With one filter per channel nothing is copied;
other groups are left to :mod:`graphshare.ops.convolution`.

Filters are quantized as in oneDNN: BatchNorm is folded in, then weights and bias are rounded to
integers, half to even.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from graphshare.ops.convolution.grid import Empty
from graphshare.ops.kernel import Array, Attrs, KernelError
from graphshare.ops.limits import require
from graphshare.ops.windows import Window, is_channels_last, read_window

LEVELS = {"int8": np.float32(127.5), "uint8": np.float32(255.5)}
_LARGEST = np.float32(2147483647)
_ROOM = np.float32(1 << 30)  # the largest bias that oneDNN adds

_MANY = 64
"""Channels from which sums over windows are fast with a filter for each."""

Inner = Sequence[tuple[str, Attrs]]


class Filters(NamedTuple):
    """The integer weights of a convolution, in float32, or in float64 if only that adds exactly.

    ``weights`` are (filters, taps, C), in ``parts`` (columns of (taps, C)) whose sums float32 holds
    exactly; or (taps, C) with a filter per channel; else they have the operator's input shape, and
    no parts.

    ``units`` are the steps per 1.0, ``reach`` the largest absolute weight before quantization.
    ``bias`` is in steps of the products. ``shift`` is the share of 128, added to all data, in each
    filter's sums; None where that is exact, without effect.
    """

    weights: Array
    parts: list[slice]
    window: Window
    units: Array
    bias: Array | None
    shift: Array | None
    reach: Any


def find_attributes(inner: Inner, operator: str) -> Attrs:
    """Return the attributes of the first ``operator``.

    Raises:
        KernelError: there is none.
    """
    for name, attrs in inner:
        if name == operator:
            return attrs
    raise KernelError(f"its subgraph has no {operator}")


def per_unit(dtype: str, low: Any, high: Any) -> Any:
    """Return the integer steps per 1.0 in a range."""
    require(dtype in LEVELS, f"{dtype} is not supported, expected {' or '.join(LEVELS)}")
    reach = np.float32(max(abs(low.item(0)), abs(high.item(0))))
    return LEVELS[dtype] / reach if reach else _LARGEST


def quantize_filters(
    attrs: Attrs,
    inner: Inner,
    weights: Sequence[Array],
    data_unit: Any,
    dtype: Any,
    *,
    by_filter: bool,
) -> Filters:
    """Return the integer filters for data of ``dtype``.

    ``weights`` are weight, bias (if any) and BatchNorm's statistics (if any).
    """
    conv = find_attributes(inner, "Convolution")
    weight, *rest = weights
    bias = None if conv["no_bias"] else rest.pop(0)
    if attrs["with_bn"]:
        weight, bias = fold_batch_norm(weight, bias, find_attributes(inner, "BatchNorm"), rest)
    units = weight_units(weight, bias, data_unit, by_filter=by_filter)
    whole = quantize_weight(weight, _units_by_group(units, conv["num_group"]))
    term = None if bias is None else quantize_bias(bias, units, data_unit).astype(np.float32)
    matrix = whole.reshape(*whole.shape[:2], -1)
    largest = float(np.abs(matrix).sum(axis=(1, 2), dtype=np.float64).max(initial=0))
    # Not `>`: NaN weights make the sum NaN, and comparisons false.
    is_shifted = dtype == np.int8 and not 255 * largest <= EXACT
    shift = 128 * matrix.sum(axis=(1, 2), dtype=np.float64) if is_shifted else None
    reach = np.float32(np.abs(weight).max())
    window = read_window(conv)
    matrix = np.ascontiguousarray(matrix.swapaxes(1, 2))
    parts = exact_parts(matrix.reshape(len(matrix), -1), dtype)
    exact = len(parts) == 1
    # The general convolution handles other layouts and negative padding.
    is_plain = not is_channels_last(conv["layout"]) and min(window.pad) >= 0
    is_depthwise = conv["num_group"] == len(whole) and whole.shape[1] == 1
    if is_depthwise and is_plain and exact and len(whole) >= _MANY:
        by_channel = np.ascontiguousarray(matrix[:, :, 0].T)
        return Filters(by_channel, [], window, units, term, shift, reach)
    if conv["num_group"] > 1 or not is_plain:
        if not exact:
            whole = whole.astype(np.float64)
        return Filters(whole, [], window, units, term, shift, reach)
    return Filters(matrix, parts, window, units, term, shift, reach)


def fold_batch_norm(
    weight: Array, bias: Array | None, attrs: Attrs, statistics: Sequence[Array]
) -> tuple[Array, Array]:
    """Fold a BatchNorm into weight and bias."""
    gamma, beta, mean, variance = statistics
    scale = np.ones_like(gamma) if attrs["fix_gamma"] else gamma
    alpha = (scale / np.sqrt(variance.astype(np.float64) + attrs["eps"])).astype(np.float32)
    shift = beta - alpha * mean if bias is None else beta + alpha * (bias - mean)
    scaled: Array = weight * alpha.reshape(-1, *(1,) * (weight.ndim - 1))
    return scaled, shift


def weight_units(weight: Array, bias: Array | None, data_unit: Any, *, by_filter: bool) -> Array:
    """Return each filter's steps per 1.0 (or one for all), fewer where its bias would overflow."""
    rows = weight.reshape(len(weight), -1)
    if not by_filter:
        return np.array([per_unit("int8", rows.min(), rows.max())], np.float32)
    reach = np.abs(rows).max(axis=1)
    units = np.divide(LEVELS["int8"], reach, out=np.full_like(reach, _LARGEST), where=reach > 0)
    if bias is not None:
        with np.errstate(divide="ignore"):
            units = np.where(bias != 0, np.minimum(units, _ROOM / np.abs(bias) / data_unit), units)
    return np.asarray(units.astype(np.float32))


def _units_by_group(units: Array, groups: int) -> Array:
    """In oneDNN group g uses the steps of filter g."""
    if groups == 1 or len(units) == 1:
        return units
    return np.asarray(np.repeat(units[:groups], len(units) // groups))


def quantize_weight(weight: Array, units: Array) -> Array:
    """Return integers in the weights' dtype."""
    whole: Array = weight * units.reshape(-1, *(1,) * (weight.ndim - 1))
    np.rint(whole, out=whole)
    return np.asarray(np.clip(whole, -128, 127, out=whole))


def quantize_bias(bias: Array, units: Array, data_unit: Any) -> Array:
    """Return the bias in the products' steps."""
    return np.asarray(np.rint(bias * (units * data_unit)))


EXACT = 1 << 24
"""The largest number up to which float32 holds all integers."""

_COLUMNS = 64
"""Columns that always share a part: their sums are below 64 * 255 * 128."""

_BLOCK = 1 << 22
"""Elements of copied windows at a time."""


def exact_parts(matrix: Array, dtype: Any) -> list[slice]:
    """Split the columns of (filters, columns) into parts with exact sums, for data of ``dtype``.

    A sum is largest with data at one end for positive weights, at the other for negative ones.
    """
    columns = matrix.shape[1]
    starts = range(0, columns, _COLUMNS)
    ends = np.iinfo(dtype)
    positive, negative = (
        np.add.reduceat(np.maximum(signed, 0), starts, axis=1, dtype=np.float64)
        for signed in (matrix, -matrix)
    )
    sums = np.concatenate(
        [ends.max * positive - ends.min * negative, ends.max * negative - ends.min * positive]
    )
    if sums.sum(axis=1).max(initial=0) <= EXACT:
        return [slice(0, columns)]
    # The next columns could make this part inexact.
    cuts, total = [0], np.zeros(len(sums))
    for start, some in zip(starts, sums.T, strict=True):
        total += some
        if total.max() > EXACT:
            cuts.append(start)
            total = some.copy()
    return [slice(first, last) for first, last in pairwise([*cuts, columns])]


class _Layout(NamedTuple):
    """``counts``, ``kernel`` and padded size ``room`` are per axis; ``taps`` belong to ``kernel``.
    The image's cells ``source`` become the cells ``goal`` of the padded image.
    """

    counts: tuple[int, ...]
    kernel: tuple[int, ...]
    room: tuple[int, ...]
    taps: slice
    source: tuple[slice, ...]
    goal: tuple[slice, ...]


@lru_cache(256)
def _plan_layout(size: tuple[int, ...], window: Window) -> _Layout:
    """Taps that are always in the padding are left out, if the others remain one run."""
    axes, taps, narrow = [], range(prod(window.kernel)), True
    for n, kernel, stride, dilate, pad, extent in zip(size, *window, window.extent, strict=True):
        count = (n + 2 * pad - extent) // stride + 1
        inside = [
            t
            for t in range(kernel)
            if any(0 <= i * stride + t * dilate - pad < n for i in range(count))
        ]
        chosen = range(inside[0], inside[-1] + 1) if narrow and inside else range(kernel)
        if narrow:
            taps = taps[chosen.start * len(taps) // kernel : chosen.stop * len(taps) // kernel]
        # The last axis runs fastest: after several taps, those chosen on later axes are not one
        # run.
        narrow = narrow and len(chosen) == 1
        # The cell of the image at the first cell of the padded image
        begin = chosen.start * dilate - pad
        room = (count - 1) * stride + (len(chosen) - 1) * dilate + 1
        first = min(n, max(0, begin))
        last = max(first, min(n, begin + room))
        axes.append(
            (count, len(chosen), room, slice(first, last), slice(first - begin, last - begin))
        )
    counts, kernels, rooms, source, goal = zip(*axes, strict=True)
    return _Layout(counts, kernels, rooms, slice(taps.start, taps.stop), source, goal)


def sum_products(
    x: Array, weights: Array, parts: Sequence[slice], window: Window, empty: Empty
) -> Array:
    """Convolve integers (N, C, spatial) with (filters, taps, C) to (filters, N, spatial).

    Several ``parts`` are summed in float64.
    """
    count, channels = x.shape[:2]
    dtype = weights.dtype if len(parts) == 1 else np.dtype(np.float64)
    # One-cell windows are the cells themselves.
    if max(window.extent) == 1 and not any(window.pad):
        if max(window.stride) > 1:
            steps = (slice(None), slice(None), *(slice(None, None, step) for step in window.stride))
            x = x[steps]
        columns = empty((channels, count, *x.shape[2:]), weights.dtype)
        columns[...] = x.swapaxes(0, 1)
        sums = empty((len(weights), prod(columns.shape[1:])), dtype)
        _multiply(weights[:, 0], columns.reshape(channels, -1), parts, 0, sums)
        return sums.reshape(-1, *columns.shape[1:])
    layout = _plan_layout(x.shape[2:], window)
    padded = _pad(x, layout, x.dtype, empty)
    first_column = layout.taps.start * channels
    matrix = weights[:, layout.taps].reshape(len(weights), -1)
    height, line = layout.counts[0], prod(layout.counts[1:])
    # Several images at a time, or some rows of one.
    images = max(1, _BLOCK // max(1, height * line * matrix.shape[1]))
    rows = height if images > 1 else max(1, min(height, _BLOCK // (line * matrix.shape[1])))
    sums = empty((len(weights), count * height * line), dtype)
    for first, row in product(range(0, count, images), range(0, height, rows)):
        windows = _windows(
            padded, layout, window, slice(first, first + images), slice(row, row + rows)
        )
        columns = empty((windows.size // matrix.shape[1], matrix.shape[1]), matrix.dtype)
        # One pass gathers windows and converts bytes to float32.
        columns.reshape(windows.shape)[...] = windows
        begin = (first * height + row) * line
        _multiply(matrix, columns.T, parts, first_column, sums[:, begin : begin + len(columns)])
    return sums.reshape(-1, count, *layout.counts)


def sum_by_channel(x: Array, weights: Array, window: Window, empty: Empty) -> Array:
    """Convolve integers (N, C, spatial) with a filter per channel (taps, C) to (C, N, spatial)."""
    layout = _plan_layout(x.shape[2:], window)
    windows = _windows(
        _pad(x, layout, weights.dtype, empty),
        layout,
        window,
        slice(0, len(x)),
        slice(0, layout.counts[0]),
    )
    rank = len(layout.kernel)
    axes, taps = range(2 * rank + 2), weights[layout.taps].reshape(*layout.kernel, -1)
    # einsum adds over the view, without a copy.
    sums = np.einsum(windows, [*axes], taps, [*axes[rank + 1 :]], [*axes[: rank + 1], axes[-1]])
    return np.moveaxis(sums, -1, 0)


def _pad(x: Array, layout: _Layout, dtype: Any, empty: Empty) -> Array:
    """Return (N, room, C), channels last."""
    padded = empty((len(x), *layout.room, x.shape[1]), dtype)
    padded.fill(0)
    goal, source = (slice(None), *layout.goal), (slice(None), slice(None), *layout.source)
    padded[goal] = np.moveaxis(x[source], 1, -1)
    return padded


def _windows(padded: Array, layout: _Layout, window: Window, images: slice, rows: slice) -> Array:
    """View some images and rows: (N, positions, taps, C)."""
    item, strides = padded.strides[0], padded.strides[1:]
    steps = [size * step for size, step in zip(strides, window.stride, strict=False)]
    reach = [size * step for size, step in zip(strides, window.dilate, strict=False)]
    counts = (
        len(range(len(padded))[images]),
        len(range(layout.counts[0])[rows]),
        *layout.counts[1:],
    )
    start = images.start * item + rows.start * steps[0]
    shape = (*counts, *layout.kernel, padded.shape[-1])
    windows: Array = np.ndarray(
        shape, padded.dtype, padded, start, (item, *steps, *reach, strides[-1])
    )
    return windows


def _multiply(
    matrix: Array, columns: Array, parts: Sequence[slice], first: int, out: Array
) -> None:
    """Begin at column ``first``; several parts are added in float64."""
    if len(parts) == 1:
        np.matmul(matrix, columns, out=out)
        return
    out.fill(0)
    for part in parts:
        span = slice(max(0, part.start - first), max(0, part.stop - first))
        out += np.matmul(matrix[:, span], columns[span])
