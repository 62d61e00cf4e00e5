"""Windows that slide over the spatial axes, and where those axes are: what convolution and pooling have in common."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Dim, KernelError, Shape


class Window(NamedTuple):
    """Size, step, spacing and border of a window, each by spatial axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    dilate: tuple[int, ...]
    pad: tuple[int, ...]

    @property
    def extent(self) -> tuple[int, ...]:
        """How many cells the window spans, gaps included."""
        return tuple((k - 1) * d + 1 for k, d in zip(self.kernel, self.dilate, strict=True))


def window_of(attrs: Attrs) -> Window:
    """The window that ``kernel``, ``stride``, ``dilate`` and ``pad`` describe.

    Raises:
        KernelError: they have different lengths, or there is nothing to step by.
    """
    kernel: tuple[int, ...] = attrs["kernel"]
    rank = len(kernel)
    values = [attrs.get(key) or (default,) * rank for key, default in (("stride", 1), ("dilate", 1), ("pad", 0))]
    for key, value in zip(("stride", "dilate", "pad"), values, strict=True):
        if len(value) != rank:
            raise KernelError(f"{key} {value} has {len(value)} numbers where kernel {kernel} has {rank}")
    if min((*kernel, *values[0], *values[1]), default=1) < 1:
        raise KernelError(f"kernel {kernel}, stride {values[0]} and dilate {values[1]} must be 1 or more everywhere")
    return Window(kernel, *values)


def is_channels_last(layout: str | None) -> bool:
    """Whether the channels are the last axis: NWC, NHWC, NDHWC."""
    return layout is not None and layout.endswith("C")


def to_channels_first(shape: tuple[Dim, ...], last: bool) -> tuple[Dim, ...]:
    """A shape in the order N, C, spatial axes, from one that has the channels last if ``last``."""
    return (shape[0], shape[-1], *shape[1:-1]) if last else shape


def to_layout(shape: tuple[Dim, ...], last: bool) -> tuple[Dim, ...]:
    """The inverse of :func:`to_channels_first`."""
    return (shape[0], *shape[2:], shape[1]) if last else shape


def output_size(size: Dim, extent: int, stride: int, pad: int) -> Dim:
    """How many positions a window has along an axis of ``size`` cells.

    Raises:
        KernelError: it has none.
    """
    if size is None:
        return None
    if size + 2 * pad < extent:
        raise KernelError(f"a window of {extent} cells does not fit into {size} with a border of {pad} on each side")
    return (size + 2 * pad - extent) // stride + 1


def input_size(count: Dim, extent: int, stride: int, pad: int) -> Dim:
    """The size of the axis along which a window has ``count`` positions; None unless only one size does."""
    return count + extent - 1 - 2 * pad if count is not None and stride == 1 else None


def at_rank(shape: Shape, rank: int, what: str) -> tuple[Dim, ...]:
    """``shape`` as one of ``rank`` axes.

    Raises:
        KernelError: it has another number of axes.
    """
    if shape is not None and len(shape) != rank:
        raise KernelError(f"{what} has {len(shape)} axes where {rank} are wanted")
    return (None,) * rank if shape is None else shape


def unify_dims(a: Dim, b: Dim, what: str) -> Dim:
    """What two accounts of one dimension say together.

    Raises:
        KernelError: they differ.
    """
    if a is not None and b is not None and a != b:
        raise KernelError(f"{what}: {a} where {b} would fit")
    return b if a is None else a


def to_compute_dtype(x: Array) -> Array:
    """``x`` in the type that sums of products are formed in: float32 for float16, else its own."""
    return x.astype(np.float32) if x.dtype == np.float16 else x


def tap_range(size: int, shift: int, stride: int, count: int) -> tuple[int, int, slice]:
    """Which windows have a cell in the image at ``shift`` from their beginning, and those cells."""
    first = max(0, -(shift // stride))
    last = max(first, min(count, (size - 1 - shift) // stride + 1))
    begin = first * stride + shift
    return first, last, slice(begin, begin + max(0, last - first - 1) * stride + 1, stride)


def tap_cells(size: int, window: Window, i: int, count: int, with_border: bool) -> Array:
    """How many cells each window has along an axis; with the border, but nothing beyond it, or without."""
    begin = np.arange(count) * window.stride[i] - window.pad[i]
    end = np.minimum(begin + window.kernel[i], size + window.pad[i])
    if not with_border:
        begin, end = np.maximum(begin, 0), np.minimum(end, size)
    return np.maximum(end - begin, 1)
