"""Transposed convolution and its gradients, which are those of a convolution with data and output exchanged.

Each cell of the image is multiplied by all taps of the filters in one matrix product; the results of a tap are then added to
the output at distances of ``stride``: what gives a convolution the gradient of its data.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.convolution.correlation import correlate
from graphshare.ops.convolution.epilogue import Epilogue
from graphshare.ops.convolution.gradient import transpose_convolve, weight_gradient
from graphshare.ops.folding import LinearLayer, misfit
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes, Sizes
from graphshare.ops.limits import Limits, check_filters, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes
from graphshare.ops.windows import (
    Window,
    channel_axes,
    check_layout,
    is_channels_last,
    to_channels_first,
    to_compute_dtype,
    to_layout,
    unify_dims,
    window_of,
)
from graphshare.text.format import format_count


def deconvolution(context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None) -> Array:
    """Return the transposed convolution of ``x`` (N, C, spatial) with ``weight`` (C, num_filter / num_group, kernel)."""
    last = is_channels_last(attrs["layout"])
    data, weight = to_compute_dtype(x), to_compute_dtype(weight)
    if last:
        data, weight = np.moveaxis(data, -1, 1), np.moveaxis(weight, -1, 1)
    window, extra = fit_window(attrs, data.shape[2:])
    out = transpose_convolve(data, weight, window, extra, attrs["num_group"])
    if bias is not None:
        out += bias.reshape(-1, *(1,) * len(window.kernel))
    if last:
        out = np.moveaxis(out, 1, -1)
    return np.ascontiguousarray(out, dtype=x.dtype)


def fit_window(attrs: Attrs, size: tuple[Dim, ...]) -> tuple[Window, tuple[int, ...]]:
    """Return the window and the cells to add at the end; ``target_shape`` determines both padding and added cells."""
    window, rank = window_of(attrs), len(attrs["kernel"])
    extra: tuple[int, ...] = attrs.get("adj") or (0,) * rank
    target: tuple[int, ...] = attrs.get("target_shape") or (0,) * rank
    if len(target) != rank:
        raise KernelError(
            f"target_shape {target} has {format_count(len(target), 'number')}, but kernel {window.kernel} has {rank}"
        )
    if not any(target):
        if any(e >= s for e, s in zip(extra, window.stride, strict=True)):
            raise KernelError(f"adj {extra} must be smaller than stride {window.stride} on every axis")
        return window, extra
    if None in size:
        return window, extra
    sizes = [n for n in size if n is not None]
    largest = tuple(s * (n - 1) + e for s, n, e in zip(window.stride, sizes, window.extent, strict=True))
    surplus = [n - t for n, t in zip(largest, target, strict=True)]
    if min(surplus) < 0:
        raise KernelError(f"target_shape {target} is too large for kernel and stride, expected at most {largest}")
    return window._replace(pad=tuple(-(-s // 2) for s in surplus)), tuple(s % 2 for s in surplus)


def deconvolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer weight, bias and output from the data, and batch, channels and size of the data from them."""
    last, groups, filters = is_channels_last(attrs["layout"]), attrs["num_group"], attrs["num_filter"]
    rank = len(attrs["kernel"]) + 2
    check_layout(attrs["layout"], rank)
    data = to_channels_first(dims_of_rank(inputs[0], rank, "data"), last)
    weight = to_channels_first(dims_of_rank(inputs[1], rank, "weight"), last)
    out = to_channels_first(dims_of_rank(outputs[0], rank, "the output"), last)
    check_filters(filters, groups)
    window, extra = fit_window(attrs, data[2:])
    has_target = any(attrs.get("target_shape") or ())
    channels = unify_dims(data[1], weight[0], "channels of data against axis 0 of weight")
    if channels is not None and channels % groups:
        raise KernelError(f"{format_count(channels, 'channel')} cannot be split into num_group {groups}")
    share = unify_dims(weight[1], filters // groups, "axis 1 of weight against num_filter / num_group")
    taps = tuple(unify_dims(w, k, "kernel axes of weight") for w, k in zip(weight[2:], window.kernel, strict=True))
    size: list[Dim] = []
    positions: list[Dim] = []
    for i, (n, o) in enumerate(zip(data[2:], out[2:], strict=True)):
        surplus = window.extent[i] + extra[i] - 2 * window.pad[i]
        if n is None and o is not None and not has_target and (o - surplus) % window.stride[i] == 0:
            n = (o - surplus) // window.stride[i] + 1
        size.append(n)
        expected = attrs["target_shape"][i] if has_target else None if n is None else (n - 1) * window.stride[i] + surplus
        positions.append(unify_dims(o, expected, "spatial axis of the output"))
    batch = unify_dims(data[0], out[0], "samples of data and output")
    shapes: list[Shape] = [to_layout((batch, channels, *size), last), to_layout((channels, share, *taps), last)]
    if len(inputs) > 2:
        shapes.append((unify_dims(dims_of_rank(inputs[2], 1)[0], filters, "length of bias against num_filter"),))
    output = (batch, unify_dims(out[1], filters, "channels of the output against num_filter"), *positions)
    return shapes, [to_layout(output, last)]


def scale_shares(attrs: Attrs, weight: Array, factor: Array) -> Array:
    """Return ``weight`` (C, num_filter / num_group, kernel) times one number of ``factor`` for each filter.

    The rows of the weight are in groups; those of group g compute its share of the filters.
    """
    groups, last = attrs["num_group"], is_channels_last(attrs["layout"])
    channels_first = np.moveaxis(weight, -1, 1) if last else weight
    if weight.ndim < 2 or groups < 1 or weight.shape[0] % groups or channels_first.shape[1] * groups != len(factor):
        raise KernelError(misfit(weight, factor))
    parts = channels_first.reshape(groups, -1, *channels_first.shape[1:])
    tail = (1,) * (weight.ndim - 2)
    scaled: Array = (parts * factor.reshape(groups, 1, -1, *tail)).reshape(channels_first.shape)
    return np.moveaxis(scaled, 1, -1) if last else scaled


def deconvolution_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count all taps of a filter for each input element."""
    return prod(inputs[0]) * prod(inputs[1][1:])


KERNELS = with_limits(
    Limits(elements=True, positive=("num_group", "num_filter", "kernel", "stride", "dilate"), not_negative=("pad", "adj")),
    Kernel(
        "Deconvolution",
        deconvolution,
        deconvolution_shapes,
        same_dtypes,
        cost=deconvolution_cost,
        linear=LinearLayer(channel_axes, scale_shares),
    ),
)


def deconvolution_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of data, weight and bias."""
    return deconvolution_gradients(entry.attrs, entry, dy)


def deconvolution_gradients(attrs: Attrs, entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of a transposed convolution with attributes that may differ from those of the node."""
    x, weight, dy = to_compute_dtype(entry.inputs[0]), to_compute_dtype(entry.inputs[1]), to_compute_dtype(dy)
    dtype, last, groups = entry.inputs[0].dtype, is_channels_last(attrs["layout"]), attrs["num_group"]
    if last:
        x, weight, dy = (np.moveaxis(a, -1, 1) for a in (x, weight, dy))
    window, _ = fit_window(attrs, x.shape[2:])
    whole = tuple(slice(0, n) for n in x.shape)
    dx = dw = None
    if entry.requested[0]:
        dx = correlate(np.ascontiguousarray(dy), weight, Epilogue(), window, groups)[whole]
    if entry.requested[1]:
        dw = weight_gradient(dy, x, weight.shape, window, groups)
    if last:
        dx, dw = (None if a is None else np.moveaxis(a, 1, -1) for a in (dx, dw))
    gradients = [None if a is None else np.ascontiguousarray(a, dtype=dtype) for a in (dx, dw)]
    if len(entry.inputs) > 2:
        gradients.append(dy.sum(axis=(0, *range(2, dy.ndim))).astype(dtype, copy=False))
    return gradients


GRADIENTS = (Gradient("Deconvolution", deconvolution_gradient, reads_outputs=False),)
