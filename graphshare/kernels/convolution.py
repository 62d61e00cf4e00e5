"""Convolutions: cross-correlation of images (N, C, spatial axes) with filters, as matrix products.

Windows are laid side by side tap by tap ("im2col"). An image is first written into rows that carry a border on one side only:
what follows a row's end is the border of the next row, so the cells under a tap, over all positions, are one contiguous run.
The product then has a few columns too many in each row, which are left out when the result is copied. A stride is undone
beforehand by splitting the image into its phases. Everything is brought to three spatial axes (D, H, W).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from graphshare.kernels.finish import Finish
from graphshare.kernels.inference import same_types
from graphshare.kernels.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes
from graphshare.kernels.windows import (
    Window,
    agreed,
    channels_back,
    channels_second,
    computed_in,
    covered,
    is_channels_last,
    reached,
    refined,
    window_of,
)

Empty = Callable[[Sequence[int], Any], Array]
_BLOCK = 1 << 22
"""How many numbers of laid out windows are held at a time."""


def convolution(context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Cross-correlation of ``x`` (N, C, spatial) with ``weight`` (num_filter, C / num_group, kernel)."""
    last = is_channels_last(attrs["layout"])
    x, weight, given = computed_in(x), computed_in(weight), x.dtype
    if last:
        x, weight = np.moveaxis(x, -1, 1), np.moveaxis(weight, -1, 1)
    finish = Finish(term=None if bias is None else bias.astype(x.dtype, copy=False))
    out = correlate(x, weight, finish, window_of(attrs), attrs["num_group"], context.empty)
    if last:
        out = np.moveaxis(out, 1, -1)
    return np.ascontiguousarray(out, dtype=given)


def correlate(x: Array, weight: Array, finish: Finish, window: Window, groups: int, empty: Empty = np.empty) -> Array:
    """The convolution itself, channels second, in the type of ``x``; what ``finish`` says is done to its result."""
    if max(window.extent) == 1 and not any(window.pad):
        return _pointwise(x, weight, finish, window.stride, groups, empty)
    lift = 3 - len(window.kernel)
    window = Window(
        (1,) * lift + window.kernel, (1,) * lift + window.stride, (1,) * lift + window.dilate, (0,) * lift + window.pad
    )
    lifted = x.reshape(x.shape[:2] + (1,) * lift + x.shape[2:])
    grid = _grid(lifted.shape[2:], window)
    filters = weight.shape[0]
    result = empty((len(x), filters, *grid.out), x.dtype)
    depthwise = weight.shape[1] == 1 and filters == groups
    matrix = np.ascontiguousarray(weight).reshape(filters, -1) if depthwise else _by_group(weight, groups)
    for number, image in enumerate(lifted):
        if depthwise:
            _depthwise(image, matrix, grid, result[number])
            finish.apply(number, result[number])
        else:
            _by_taps(image, matrix, grid, result[number], finish, number, empty)
    return result.reshape(len(x), filters, *grid.out[lift:])


def _by_group(weight: Array, groups: int) -> Array:
    """The filters (groups, filters of a group, C of a group * taps)."""
    return np.ascontiguousarray(weight).reshape(groups, len(weight) // groups, -1)


def _pointwise(x: Array, weight: Array, finish: Finish, stride: tuple[int, ...], groups: int, empty: Empty) -> Array:
    """Windows of one cell: a product over the channels."""
    if max(stride) > 1:
        steps = (slice(None), slice(None), *(slice(None, None, s) for s in stride))
        picked = empty(x[steps].shape, x.dtype)
        picked[...] = x[steps]
        x = picked
    count, channels, *spatial = x.shape
    filters = weight.shape[0]
    size = int(np.prod(spatial))
    flat = np.ascontiguousarray(x).reshape(count, groups, channels // groups, size)
    matrix = _by_group(weight, groups)
    out = empty((count, filters, size), x.dtype)
    if groups == 1:
        np.matmul(matrix[0], flat[:, 0], out=out)
    elif channels == filters == groups:
        np.multiply(matrix.reshape(filters, 1), flat.reshape(count, channels, size), out=out)
    else:
        np.matmul(matrix, flat, out=out.reshape(count, groups, filters // groups, size))
    for number, image in enumerate(out):
        finish.apply(number, image)
    shaped: Array = out.reshape(count, filters, *spatial)
    return shaped


class _Grid(NamedTuple):
    """Where the cells under every tap begin.

    ``phases`` gives for each phase of the stride (by depth, height and width) the slices of the padded image; ``pitch`` is
    the length of a row and ``rows`` the number of rows, ``taps`` the phase, the plane and the first cell of each tap.
    """

    out: tuple[int, ...]
    window: Window
    pitch: int
    rows: int
    planes: int
    taps: tuple[tuple[tuple[int, int, int], int, int], ...]


@lru_cache(256)
def _grid(size: tuple[int, ...], window: Window) -> _Grid:
    kernel, stride, dilate, pad = window
    out = tuple((n + 2 * p - e) // s + 1 for n, p, e, s in zip(size, pad, window.extent, stride, strict=True))
    reach = tuple((e - 1) // s for e, s in zip(window.extent, stride, strict=True))
    cells = tuple(-(-(n + p) // s) for n, p, s in zip(size, pad, stride, strict=True))
    pitch = max(cells[2], out[2])
    if stride[2] > 1:
        pitch = max(pitch, out[2] + reach[2])
    taps = []
    for tap in product(*map(range, kernel)):
        start = tuple(t * d for t, d in zip(tap, dilate, strict=True))
        plane, row, column = (a // s for a, s in zip(start, stride, strict=True))
        phase = (start[0] % stride[0], start[1] % stride[1], start[2] % stride[2])
        taps.append((phase, plane, row * pitch + column))
    return _Grid(out, window, pitch, out[1] + reach[1], out[0] + reach[0], tuple(taps))


def _phases(image: Array, grid: _Grid, empty: Empty = np.empty) -> dict[tuple[int, int, int], Array]:
    """The padded image (C, planes, rows * pitch and what the last taps read beyond), split by the phases of the stride."""
    _, stride, _, pad = grid.window
    channels, *size = image.shape
    span = grid.rows * grid.pitch
    margin = grid.window.extent[2]
    if not any(pad) and max(stride) == 1 and max(grid.window.extent[2], 1) == 1 and image.flags.c_contiguous:
        return {(0, 0, 0): image.reshape(channels, size[0], -1)}
    found = {}
    for phase in {phase for phase, _, _ in grid.taps}:
        flat = empty((channels, grid.planes, span + margin), image.dtype)
        flat.fill(0)
        rows = flat[:, :, :span].reshape(channels, grid.planes, grid.rows, grid.pitch)
        source, goal = [slice(None)], [slice(None)]
        for f, s, p, n, room in zip(phase, stride, pad, size, rows.shape[1:], strict=True):
            first = -(-(p - f) // s) if p > f else 0  # the first cell of this phase that lies in the image
            begin = first * s + f - p
            count = max(0, min(room - first, -(-(n - begin) // s)))
            source.append(slice(begin, begin + (count - 1) * s + 1 if count else begin, s))
            goal.append(slice(first, first + count))
        rows[tuple(goal)] = image[tuple(source)]
        found[phase] = flat
    return found


def _by_taps(image: Array, matrix: Array, grid: _Grid, result: Array, finish: Finish, number: int, empty: Empty) -> None:
    """Image ``number`` (C, D, H, W) and ``matrix`` (groups, filters of a group, C of a group * taps) into ``result``."""
    phases = _phases(image, grid, empty)
    channels, groups = len(image), len(matrix)
    depth, height, width = grid.out
    per_row = channels * len(grid.taps) * grid.pitch
    step = max(1, min(height, _BLOCK // per_row))
    whole = step >= height and depth == 1
    for plane, first in product(range(depth), range(0, height, step)):
        count = min(step, height - first)
        columns = empty((channels, len(grid.taps), count * grid.pitch), image.dtype)
        for t, (phase, deeper, offset) in enumerate(grid.taps):
            start = first * grid.pitch + offset
            columns[:, t] = phases[phase][:, plane + deeper, start : start + count * grid.pitch]
        laid = columns.reshape(groups, -1, count * grid.pitch)
        goal = result[:, plane, first : first + count]
        if whole and grid.pitch == width:
            np.matmul(matrix, laid, out=goal.reshape(groups, -1, count * width))
        else:
            wide = np.matmul(matrix, laid, out=empty((groups, matrix.shape[1], count * grid.pitch), image.dtype))
            rows = wide.reshape(-1, count, grid.pitch)[:, :, :width]
            if whole:
                finish.apply(number, goal, rows)
                return
            goal[...] = rows
    finish.apply(number, result)


def _depthwise(image: Array, weight: Array, grid: _Grid, result: Array) -> None:
    """Each channel (D, H, W) with a filter of its own, ``weight`` (C, taps): sums of scaled copies, few channels at a time."""
    depth, height, width = grid.out
    span = height * grid.pitch
    step = max(1, (1 << 15) // span)
    for first in range(0, len(image), step):
        part = slice(first, first + step)
        phases = _phases(image[part], grid)
        factors = weight[part, :, None]
        total = np.empty((len(factors), span), image.dtype)
        term = np.empty_like(total)
        for plane in range(depth):
            for t, (phase, deeper, offset) in enumerate(grid.taps):
                cells = phases[phase][:, plane + deeper, offset : offset + span]
                np.multiply(cells, factors[:, t], out=term if t else total)
                if t:
                    total += term
            result[part, plane] = total.reshape(-1, height, grid.pitch)[:, :, :width]


def convolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Data, weight, bias and output from each other; back from the output along axes of stride 1."""
    window, last, groups, filters = window_of(attrs), is_channels_last(attrs["layout"]), attrs["num_group"], attrs["num_filter"]
    rank = len(window.kernel) + 2
    data = channels_second(refined(inputs[0], rank, "data"), last)
    weight = channels_second(refined(inputs[1], rank, "weight"), last)
    out = channels_second(refined(outputs[0], rank, "the output"), last)
    if filters % groups:
        raise KernelError(f"num_filter {filters} is not a multiple of num_group {groups}")
    batch = agreed(data[0], out[0], "samples of data and output")
    channels, share = shared_channels(data[1], weight[1], groups)
    taps = tuple(agreed(w, k, "kernel axes of weight") for w, k in zip(weight[2:], window.kernel, strict=True))
    first = agreed(weight[0], filters, "axis 0 of weight against num_filter")
    size: list[Dim] = []
    positions: list[Dim] = []
    for n, o, e, s, p in zip(data[2:], out[2:], window.extent, window.stride, window.pad, strict=True):
        n = covered(o, e, s, p) if n is None else n
        size.append(n)
        positions.append(agreed(o, reached(n, e, s, p), "spatial axis of the output"))
    shapes: list[tuple[Dim, ...]] = [
        channels_back((batch, channels, *size), last),
        channels_back((first, share, *taps), last),
    ]
    if len(inputs) > 2:
        shapes.append((agreed(refined(inputs[2], 1, "bias")[0], filters, "length of bias against num_filter"),))
    output = (batch, agreed(out[1], filters, "channels of the output against num_filter"), *positions)
    return shapes, [channels_back(output, last)]


def shared_channels(channels: Dim, share: Dim, groups: int) -> tuple[Dim, Dim]:
    """The channels of the data and of one group, from each other."""
    if channels is None:
        return (None if share is None else share * groups), share
    if channels % groups:
        raise KernelError(f"{channels} channels cannot be split into num_group {groups}")
    return channels, agreed(share, channels // groups, "channels of weight")


KERNELS = (
    Kernel("Convolution", convolution, convolution_shapes, same_types),
    Kernel("Convolution_v1", convolution, convolution_shapes, same_types),
)
