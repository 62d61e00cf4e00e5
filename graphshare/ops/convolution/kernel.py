"""The operators Convolution, ``im2col`` and ``col2im``: rules for shapes and dtypes, cost, and kernels.

The columns of ``im2col`` are the windows of an image; ``col2im`` adds columns at their windows, for one to three spatial axes.
"""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np

from graphshare.ops.convolution.correlation import convolution
from graphshare.ops.convolution.deconvolution import GRADIENTS as DECONVOLUTION_GRADIENTS
from graphshare.ops.convolution.deconvolution import KERNELS as DECONVOLUTION_KERNELS
from graphshare.ops.convolution.fused import begin_chain
from graphshare.ops.folding import LinearLayer, scale_filters
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes, Sizes
from graphshare.ops.limits import Limits, check_filters, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.ops.windows import (
    Window,
    channel_axes,
    check_layout,
    input_size,
    is_channels_last,
    output_size,
    to_channels_first,
    to_layout,
    unify_dims,
    window_of,
)
from graphshare.text.format import format_count


def convolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer data, weight, bias and output from each other; sizes of the data from the output only for stride 1."""
    window, last, groups, filters = window_of(attrs), is_channels_last(attrs["layout"]), attrs["num_group"], attrs["num_filter"]
    rank = len(window.kernel) + 2
    check_layout(attrs["layout"], rank)
    data = to_channels_first(dims_of_rank(inputs[0], rank, "data"), last)
    weight = to_channels_first(dims_of_rank(inputs[1], rank, "weight"), last)
    out = to_channels_first(dims_of_rank(outputs[0], rank, "the output"), last)
    check_filters(filters, groups)
    batch = unify_dims(data[0], out[0], "samples of data and output")
    channels, share = unify_group_channels(data[1], weight[1], groups)
    if channels == 0:
        raise KernelError("data has no channels")
    taps = tuple(unify_dims(w, k, "kernel axes of weight") for w, k in zip(weight[2:], window.kernel, strict=True))
    first = unify_dims(weight[0], filters, "axis 0 of weight against num_filter")
    size: list[Dim] = []
    positions: list[Dim] = []
    for n, o, e, s, p in zip(data[2:], out[2:], window.extent, window.stride, window.pad, strict=True):
        n = input_size(o, e, s, p) if n is None else n
        size.append(n)
        positions.append(unify_dims(o, output_size(n, e, s, p), "spatial axis of the output"))
    shapes: list[tuple[Dim, ...]] = [
        to_layout((batch, channels, *size), last),
        to_layout((first, share, *taps), last),
    ]
    if len(inputs) > 2:
        shapes.append((unify_dims(dims_of_rank(inputs[2], 1, "bias")[0], filters, "length of bias against num_filter"),))
    output = (batch, unify_dims(out[1], filters, "channels of the output against num_filter"), *positions)
    return shapes, [to_layout(output, last)]


def _first_channels_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the shapes of Convolution with channels first, the only layouts that Convolution_v1 has."""
    if is_channels_last(attrs["layout"]):
        raise KernelError(f"layout {attrs['layout']} is not supported, expected channels first")
    return convolution_shapes(attrs, inputs, outputs)


def unify_group_channels(channels: Dim, share: Dim, groups: int) -> tuple[Dim, Dim]:
    """Return the channels of the data and of one group, inferred from each other."""
    if channels is None:
        return (None if share is None else share * groups), share
    if channels % groups:
        raise KernelError(f"{format_count(channels, 'channel')} cannot be split into num_group {groups}")
    return channels, unify_dims(share, channels // groups, "channels of weight")


def convolution_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count the taps of one filter for each output: the weight without the filter axis, which is first in every layout."""
    return prod(outputs[0]) * prod(inputs[1][1:])


_LINEAR = LinearLayer(channel_axes, scale_filters)


def _tap_slices(window: Window, positions: tuple[int, ...]) -> list[tuple[slice, ...]]:
    """Return for each tap its cells of the padded image, one for each position."""
    return [
        (
            slice(None),
            slice(None),
            *(
                slice(t * d, t * d + (n - 1) * s + 1, s)
                for t, d, s, n in zip(tap, window.dilate, window.stride, positions, strict=True)
            ),
        )
        for tap in product(*map(range, window.kernel))
    ]


def _positions(window: Window, size: tuple[Dim, ...]) -> list[Dim]:
    return [output_size(n, e, s, p) for n, e, s, p in zip(size, window.extent, window.stride, window.pad, strict=True)]


def im2col(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the cells of all windows (N, C * taps, positions)."""
    window = window_of(attrs)
    positions = tuple(n or 0 for n in _positions(window, x.shape[2:]))
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in window.pad)))
    cells = np.stack([padded[part] for part in _tap_slices(window, positions)], axis=2)
    return cells.reshape(x.shape[0], -1, prod(positions))


def col2im(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the image (N, C, spatial) of size ``output_size``: each cell is the sum over the windows that contain it."""
    window, size = _read_window(attrs)
    positions = tuple(n or 0 for n in _positions(window, size))
    taps = prod(window.kernel)
    columns = x.reshape(x.shape[0], x.shape[1] // taps, taps, *positions)
    padded = np.zeros((*columns.shape[:2], *(n + 2 * p for n, p in zip(size, window.pad, strict=True))), x.dtype)
    for tap, part in enumerate(_tap_slices(window, positions)):
        padded[part] += columns[:, :, tap]
    inner = (slice(None), slice(None), *(slice(p, p + n) for n, p in zip(size, window.pad, strict=True)))
    return np.ascontiguousarray(padded[inner])


def _read_window(attrs: Attrs) -> tuple[Window, tuple[int, ...]]:
    window, size = window_of(attrs), tuple(attrs["output_size"])
    if len(size) != len(window.kernel):
        raise KernelError(
            f"output_size {size} has {format_count(len(size), 'number')}, but kernel {window.kernel} has {len(window.kernel)}"
        )
    return window, size


def _infer_im2col_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    window = window_of(attrs)
    batch, channels, *size = dims_of_rank(inputs[0], len(window.kernel) + 2, "data")
    positions = _positions(window, tuple(size))
    count = None if None in positions else prod(n for n in positions if n is not None)
    rows = None if channels is None else channels * prod(window.kernel)
    return inputs, [unify((batch, rows, count), outputs[0])]


def _infer_col2im_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    window, size = _read_window(attrs)
    positions = _positions(window, size)
    batch, rows, _ = dims_of_rank(inputs[0], 3, "data")
    if rows is not None and rows % prod(window.kernel):
        raise KernelError(f"the number of rows, {rows}, is not a multiple of the {format_count(prod(window.kernel), 'tap')}")
    channels = None if rows is None else rows // prod(window.kernel)
    count = prod(n for n in positions if n is not None)
    return [unify(inputs[0], (batch, rows, count))], [unify((batch, channels, *size), outputs[0])]


KERNELS = (
    *DECONVOLUTION_KERNELS,
    *with_limits(
        Limits(elements=True, positive=("num_group", "kernel", "stride", "dilate")),
        Kernel(
            "Convolution",
            convolution,
            convolution_shapes,
            same_dtypes,
            cost=convolution_cost,
            linear=_LINEAR,
            begin=begin_chain,
        ),
        Kernel("Convolution_v1", convolution, _first_channels_shapes, same_dtypes, cost=convolution_cost, linear=_LINEAR),
        *with_limits(
            Limits(elements=True, not_negative=("pad",)),
            Kernel("im2col", im2col, _infer_im2col_shapes, same_dtypes),
            Kernel("col2im", col2im, _infer_col2im_shapes, same_dtypes),
        ),
    ),
)


def col2im_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the columns of the gradient."""
    return im2col(Context(), entry.attrs, dy)


GRADIENTS = (
    *DECONVOLUTION_GRADIENTS,
    Gradient("col2im", col2im_gradient, reads_inputs=False, reads_outputs=False),
    Gradient("im2col", permutation_vjp("im2col"), reads_outputs=False),
)
