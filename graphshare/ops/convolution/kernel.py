"""The operator Convolution: its rules for shapes and dtypes, its cost, and its kernels."""

from __future__ import annotations

from math import prod

from graphshare.ops.convolution.columns import KERNELS as COLUMNS_KERNELS
from graphshare.ops.convolution.correlation import convolution
from graphshare.ops.convolution.fused import begin_chain
from graphshare.ops.folding import LinearLayer, scale_filters
from graphshare.ops.kernel import Attrs, Dim, Kernel, KernelError, Shapes, Sizes
from graphshare.ops.limits import Limits, check_filters, with_limits
from graphshare.ops.unification import dims_of_rank, same_dtypes
from graphshare.ops.windows import (
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


KERNELS = with_limits(
    Limits(elements=True, positive=("num_group", "kernel", "stride", "dilate")),
    Kernel(
        "Convolution", convolution, convolution_shapes, same_dtypes, cost=convolution_cost, linear=_LINEAR, begin=begin_chain
    ),
    Kernel("Convolution_v1", convolution, _first_channels_shapes, same_dtypes, cost=convolution_cost, linear=_LINEAR),
    *COLUMNS_KERNELS,
)
