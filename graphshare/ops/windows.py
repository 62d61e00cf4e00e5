"""Sliding windows over spatial axes, and channel layouts, for convolution and pooling."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Dim, Dims, KernelError
from graphshare.text.format import format_count


@lru_cache(256)
def _extent(kernel: tuple[int, ...], dilate: tuple[int, ...]) -> tuple[int, ...]:
    return tuple((k - 1) * d + 1 for k, d in zip(kernel, dilate, strict=True))


class Window(NamedTuple):
    """Kernel size, stride, dilation and padding per spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """Return the cells that the window spans, dilation included, per axis."""
        return _extent(self.kernel, self.dilate)


def read_window(attrs: Attrs) -> Window:
    """Read ``kernel``, ``stride``, ``dilate`` and ``pad``.

    Raises:
        KernelError: lengths differ, or a size, stride or dilation is less than 1.
    """
    kernel: tuple[int, ...] | None = attrs["kernel"]
    if kernel is None:
        raise KernelError("kernel is None, expected sizes")
    rank = len(kernel)
    # An empty tuple is MXNet's default.
    values = [
        attrs.get(key) or (default,) * rank
        for key, default in (("stride", 1), ("dilate", 1), ("pad", 0))
    ]
    for key, value in zip(("stride", "dilate", "pad"), values, strict=True):
        if len(value) != rank:
            raise KernelError(
                f"{key} {value} has {format_count(len(value), 'number')} where kernel {kernel} has {rank}"
            )
    if min((*kernel, *values[0], *values[1]), default=1) < 1:
        raise KernelError(
            f"kernel {kernel}, stride {values[0]} and dilate {values[1]} must be 1 or more everywhere"
        )
    return Window(kernel, *values)


def check_layout(layout: str | None, rank: int) -> None:
    """Raise :class:`KernelError` if layout and data differ in rank."""
    if layout is not None and len(layout) != rank:
        raise KernelError(f"layout {layout} does not fit data with {format_count(rank, 'axis')}")


def is_channels_last(layout: str | None) -> bool:
    """Whether the channel axis is last: NWC, NHWC, NDHWC."""
    return layout is not None and layout.endswith("C")


def channel_axes(attrs: Attrs) -> tuple[int, int]:
    """Return the channel axis of a convolution's data and output, from either end."""
    last = len(attrs["kernel"]) + 1
    return (last, -1) if is_channels_last(attrs["layout"]) else (1, -last)


def to_channels_first(shape: Dims, last: bool) -> Dims:
    """Reorder to (N, C, spatial); ``last``: the channel axis is last."""
    return (shape[0], shape[-1], *shape[1:-1]) if last else shape


def to_layout(shape: Dims, last: bool) -> Dims:
    """Invert :func:`to_channels_first`."""
    return (shape[0], *shape[2:], shape[1]) if last else shape


def output_size(size: Dim, extent: int, stride: int, pad: int) -> Dim:
    """Return the number of window positions along an axis of ``size`` cells.

    Raises:
        KernelError: the window does not fit.
    """
    if size is None:
        return None
    if size + 2 * pad < extent:
        raise KernelError(
            f"a window of {format_count(extent, 'cell')} does not fit into {size} with a padding of {pad} on each side"
        )
    return (size + 2 * pad - extent) // stride + 1


def input_size(count: Dim, extent: int, stride: int, pad: int) -> Dim:
    """Return the axis size for ``count`` positions; None unless unique."""
    return count + extent - 1 - 2 * pad if count is not None and stride == 1 else None


def unify_dims(a: Dim, b: Dim, what: str) -> Dim:
    """Unify two partial dimensions; ``what`` names them in the error.

    Raises:
        KernelError: they contradict each other.
    """
    if a is not None and b is not None and a != b:
        raise KernelError(f"{what}: {a} where {b} would fit")
    return b if a is None else a


def to_compute_dtype(x: Array) -> Array:
    """Convert to the dtype of sums of products: float32 for float16, else its own."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def tap_range(size: int, shift: int, stride: int, count: int) -> tuple[int, int, slice]:
    """Return the first and last window with a cell in the image at ``shift``, and those cells."""
    # -shift / stride, rounded up.
    first = max(0, -(shift // stride))
    last = max(first, min(count, (size - 1 - shift) // stride + 1))
    begin = first * stride + shift
    return first, last, slice(begin, begin + max(0, last - first - 1) * stride + 1, stride)


def tap_cells(size: int, window: Window, i: int, count: int, include_padding: bool) -> Array:
    """Return the cells of each window along axis ``i``, with or without padding."""
    begin = np.arange(count) * window.stride[i] - window.pad[i]
    end = np.minimum(begin + window.kernel[i], size + window.pad[i])
    if not include_padding:
        begin, end = np.maximum(begin, 0), np.minimum(end, size)
    # A window of only padding has no cells and the sum 0; avoid division by 0.
    return np.maximum(end - begin, 1)
