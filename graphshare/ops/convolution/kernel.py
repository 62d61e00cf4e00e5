"""Convolution, Deconvolution, ``im2col`` and ``col2im``: shape rules, costs and kernels.

Images have one to three spatial axes.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.convolution.correlation import convolution, correlate
from graphshare.ops.convolution.fused import begin_chain
from graphshare.ops.convolution.gradient import (
    layer_gradients,
    tap_slices,
    transpose_convolve,
    weight_gradient,
)
from graphshare.ops.convolution.grid import Epilogue
from graphshare.ops.folding import LinearLayer, misfit, scale_filters
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shapes,
    Sizes,
)
from graphshare.ops.limits import Limits, check_filters, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import dims_of_rank, same_dtypes, unify
from graphshare.ops.windows import (
    Window,
    channel_axes,
    check_layout,
    input_size,
    is_channels_last,
    output_size,
    read_window,
    to_channels_first,
    to_compute_dtype,
    to_layout,
    unify_dims,
)
from graphshare.text.format import format_count


def deconvolution(
    context: Context, attrs: Attrs, x: Array, weight: Array, bias: Array | None = None
) -> Array:
    """Return the transposed convolution of ``x`` (N, C, spatial) with ``weight``
    (C, num_filter / num_group, kernel).
    """
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


def fit_window(attrs: Attrs, size: Dims) -> tuple[Window, tuple[int, ...]]:
    """Return the window and the cells added at the end; ``target_shape`` sets both."""
    window, rank = read_window(attrs), len(attrs["kernel"])
    extra: tuple[int, ...] = attrs.get("adj") or (0,) * rank
    target: tuple[int, ...] = attrs.get("target_shape") or (0,) * rank
    if len(target) != rank:
        raise KernelError(
            f"target_shape {target} has {format_count(len(target), 'number')}, but kernel {window.kernel} has {rank}"
        )
    if not any(target):
        if any(e >= s for e, s in zip(extra, window.stride, strict=True)):
            raise KernelError(
                f"adj {extra} must be smaller than stride {window.stride} on every axis"
            )
        return window, extra
    if None in size:
        return window, extra
    sizes = [n for n in size if n is not None]
    largest = tuple(
        s * (n - 1) + e for s, n, e in zip(window.stride, sizes, window.extent, strict=True)
    )
    surplus = [n - t for n, t in zip(largest, target, strict=True)]
    if min(surplus) < 0:
        raise KernelError(
            f"target_shape {target} is too large for kernel and stride, expected at most {largest}"
        )
    # As in MXNet, padding is half of the surplus, rounded up; an odd cell is added at the end.
    return window._replace(pad=tuple(-(-s // 2) for s in surplus)), tuple(s % 2 for s in surplus)


def _with_channels_first(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> list[Dims]:
    """Return data, weight and output, with the kernel's rank."""
    last, rank = is_channels_last(attrs["layout"]), len(attrs["kernel"]) + 2
    check_layout(attrs["layout"], rank)
    named = ((inputs[0], "data"), (inputs[1], "weight"), (outputs[0], "the output"))
    shapes = [to_channels_first(dims_of_rank(shape, rank, what), last) for shape, what in named]
    check_filters(attrs["num_filter"], attrs["num_group"])
    return shapes


def _in_layout(
    attrs: Attrs, data: Dims, weight: Dims, biases: Shapes, out: Dims, what: str = ""
) -> tuple[Shapes, Shapes]:
    """A bias has one number per filter."""
    last, filters = is_channels_last(attrs["layout"]), attrs["num_filter"]
    lengths: list[Dims] = []
    for bias in biases[:1]:
        (length,) = dims_of_rank(bias, 1, what)
        lengths.append((unify_dims(length, filters, "length of bias against num_filter"),))
    output = (
        out[0],
        unify_dims(out[1], filters, "channels of the output against num_filter"),
        *out[2:],
    )
    return [to_layout(data, last), to_layout(weight, last), *lengths], [to_layout(output, last)]


def deconvolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer weight, bias and output from data, and the reverse."""
    groups, filters = attrs["num_group"], attrs["num_filter"]
    data, weight, out = _with_channels_first(attrs, inputs, outputs)
    window, extra = fit_window(attrs, data[2:])
    has_target = any(attrs.get("target_shape") or ())
    channels = unify_dims(data[1], weight[0], "channels of data against axis 0 of weight")
    if channels is not None and channels % groups:
        raise KernelError(
            f"{format_count(channels, 'channel')} cannot be split into num_group {groups}"
        )
    share = unify_dims(
        weight[1], filters // groups, "axis 1 of weight against num_filter / num_group"
    )
    taps = tuple(
        unify_dims(w, k, "kernel axes of weight")
        for w, k in zip(weight[2:], window.kernel, strict=True)
    )
    size: list[Dim] = []
    positions: list[Dim] = []
    for i, (n, o) in enumerate(zip(data[2:], out[2:], strict=True)):
        surplus = window.extent[i] + extra[i] - 2 * window.pad[i]
        stride = window.stride[i]
        expected: Dim = None
        if has_target:  # it fits several sizes of the data
            expected = attrs["target_shape"][i]
        elif n is not None:
            expected = (n - 1) * stride + surplus
        elif o is not None and (o - surplus) % stride == 0:
            n, expected = (o - surplus) // stride + 1, o
        size.append(n)
        positions.append(unify_dims(o, expected, "spatial axis of the output"))
    batch = unify_dims(data[0], out[0], "samples of data and output")
    result = (batch, out[1], *positions)
    return _in_layout(attrs, (batch, channels, *size), (channels, share, *taps), inputs[2:], result)


def scale_shares(attrs: Attrs, weight: Array, factor: Array) -> Array:
    """Scale ``weight`` (C, num_filter / num_group, kernel) by one ``factor`` per filter.

    Rows of group g compute g's share of the filters.
    """
    groups, last = attrs["num_group"], is_channels_last(attrs["layout"])
    channels_first = np.moveaxis(weight, -1, 1) if last else weight
    if weight.ndim < 2 or groups < 1:
        raise KernelError(misfit(weight, factor))
    if weight.shape[0] % groups or channels_first.shape[1] * groups != len(factor):
        raise KernelError(misfit(weight, factor))
    parts = channels_first.reshape(groups, -1, *channels_first.shape[1:])
    tail = (1,) * (weight.ndim - 2)
    scaled: Array = (parts * factor.reshape(groups, 1, -1, *tail)).reshape(channels_first.shape)
    return np.moveaxis(scaled, 1, -1) if last else scaled


def deconvolution_gradients(attrs: Attrs, entry: TapeEntry, dy: Array) -> Gradients:
    """Return Deconvolution's gradients; ``attrs`` may differ from the node's."""
    groups = attrs["num_group"]

    def of_data(x: Array, weight: Array, dy: Array) -> Array:
        window, _ = fit_window(attrs, x.shape[2:])
        # With target_shape and stride 1, one more window may fit than the data has cells.
        whole = tuple(slice(0, n) for n in x.shape)
        return correlate(np.ascontiguousarray(dy), weight, Epilogue(), window, groups)[whole]

    def of_weight(x: Array, weight: Array, dy: Array) -> Array:
        # In a transposed convolution data and ``dy`` swap roles.
        return weight_gradient(dy, x, weight.shape, fit_window(attrs, x.shape[2:])[0], groups)

    return layer_gradients(attrs, entry, dy, of_data, of_weight)


def convolution_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer all shapes; the output determines data sizes only for stride 1."""
    window, groups, filters = read_window(attrs), attrs["num_group"], attrs["num_filter"]
    data, weight, out = _with_channels_first(attrs, inputs, outputs)
    batch = unify_dims(data[0], out[0], "samples of data and output")
    channels, share = unify_group_channels(data[1], weight[1], groups)
    require(channels != 0, "data has no channels")
    taps = tuple(
        unify_dims(w, k, "kernel axes of weight")
        for w, k in zip(weight[2:], window.kernel, strict=True)
    )
    first = unify_dims(weight[0], filters, "axis 0 of weight against num_filter")
    size: list[Dim] = []
    positions: list[Dim] = []
    rows = zip(data[2:], out[2:], window.extent, window.stride, window.pad, strict=True)
    for n, o, e, s, p in rows:
        if n is None:
            n = input_size(o, e, s, p)
        size.append(n)
        positions.append(unify_dims(o, output_size(n, e, s, p), "spatial axis of the output"))
    result = (batch, out[1], *positions)
    return _in_layout(
        attrs, (batch, channels, *size), (first, share, *taps), inputs[2:], result, "bias"
    )


def _first_channels_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Convolution_v1 has no other layout."""
    if is_channels_last(attrs["layout"]):
        raise KernelError(f"layout {attrs['layout']} is not supported, expected channels first")
    return convolution_shapes(attrs, inputs, outputs)


def unify_group_channels(channels: Dim, share: Dim, groups: int) -> tuple[Dim, Dim]:
    """Infer the channels of data and group from each other."""
    if channels is None:
        return (None if share is None else share * groups), share
    if channels % groups:
        raise KernelError(
            f"{format_count(channels, 'channel')} cannot be split into num_group {groups}"
        )
    return channels, unify_dims(share, channels // groups, "channels of weight")


def convolution_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count one filter's taps per output."""
    return prod(outputs[0]) * prod(inputs[1][1:])


_LINEAR = LinearLayer(channel_axes, scale_filters)


def _positions(window: Window, size: Dims) -> list[Dim]:
    return [
        output_size(n, e, s, p)
        for n, e, s, p in zip(size, window.extent, window.stride, window.pad, strict=True)
    ]


def im2col(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the cells of all windows: (N, C * taps, positions)."""
    window = read_window(attrs)
    positions = tuple(n or 0 for n in _positions(window, x.shape[2:]))
    padded = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in window.pad)))
    cells = np.stack([padded[part] for part in tap_slices(window, positions)], axis=2)
    return cells.reshape(x.shape[0], -1, prod(positions))


def col2im(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the image (N, C, spatial): sums over each cell's windows."""
    window, size = _read_window(attrs)
    positions = tuple(n or 0 for n in _positions(window, size))
    taps = prod(window.kernel)
    columns = x.reshape(x.shape[0], x.shape[1] // taps, taps, *positions)
    padded = np.zeros(
        (*columns.shape[:2], *(n + 2 * p for n, p in zip(size, window.pad, strict=True))), x.dtype
    )
    for tap, part in enumerate(tap_slices(window, positions)):
        padded[part] += columns[:, :, tap]
    inner = (
        slice(None),
        slice(None),
        *(slice(p, p + n) for n, p in zip(size, window.pad, strict=True)),
    )
    return np.ascontiguousarray(padded[inner])


def _read_window(attrs: Attrs) -> tuple[Window, tuple[int, ...]]:
    window, size = read_window(attrs), tuple(attrs["output_size"])
    if len(size) != len(window.kernel):
        raise KernelError(
            f"output_size {size} has {format_count(len(size), 'number')}, but kernel "
            f"{window.kernel} has {len(window.kernel)}"
        )
    return window, size


def _infer_im2col_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    window = read_window(attrs)
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
        raise KernelError(
            f"the number of rows, {rows}, is not a multiple of the {format_count(prod(window.kernel), 'tap')}"
        )
    channels = None if rows is None else rows // prod(window.kernel)
    count = prod(n for n in positions if n is not None)
    return [unify(inputs[0], (batch, rows, count))], [unify((batch, channels, *size), outputs[0])]


KERNELS = (
    *with_limits(
        Limits(
            elements=True,
            positive=("num_group", "num_filter", "kernel", "stride", "dilate"),
            not_negative=("pad", "adj"),
        ),
        Kernel(
            "Deconvolution",
            deconvolution,
            deconvolution_shapes,
            same_dtypes,
            cost=lambda attrs, inputs, outputs: prod(inputs[0]) * prod(inputs[1][1:]),
            linear=LinearLayer(channel_axes, scale_shares),
        ),
    ),
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
        Kernel(
            "Convolution_v1",
            convolution,
            _first_channels_shapes,
            same_dtypes,
            cost=convolution_cost,
            linear=_LINEAR,
        ),
        *with_limits(
            Limits(elements=True, not_negative=("pad",)),
            Kernel("im2col", im2col, _infer_im2col_shapes, same_dtypes),
            Kernel("col2im", col2im, _infer_col2im_shapes, same_dtypes),
        ),
    ),
)


GRADIENTS = (
    Gradient(
        "Deconvolution",
        lambda entry, dy: deconvolution_gradients(entry.attrs, entry, dy),
        reads_outputs=False,
    ),
    Gradient(
        "col2im",
        lambda entry, dy: im2col(Context(), entry.attrs, dy),
        reads_inputs=False,
        reads_outputs=False,
    ),
    Gradient("im2col", permutation_vjp("im2col"), reads_outputs=False),
)
