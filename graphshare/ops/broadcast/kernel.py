"""Padding, repetition and broadcasting, and their gradients."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, sum_to_shape
from graphshare.ops.kernel import Array, Attrs, Context, Dims, Kernel, KernelError
from graphshare.ops.limits import Limits, require, with_limits
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import (
    count_elements,
    first_dtype,
    normalize_axis,
    output_rule,
    same_dtypes,
    with_dim,
)
from graphshare.text.format import format_count, format_shape


def read_padding(attrs: Attrs, rank: int) -> list[tuple[int, int]]:
    """Return the padding (before, after) of each axis.

    Raises:
        KernelError: ``pad_width`` does not fit the rank.
    """
    width = attrs["pad_width"] or ()
    if rank not in (4, 5) or len(width) != 2 * rank or any(width[:4]):
        raise KernelError(
            f"pad_width {width} for {format_count(rank, 'axis')}, expected 4 or 5 axes "
            "with two numbers each, 0 for the first two axes"
        )
    return list(zip(width[::2], width[1::2], strict=True))


def pad(context: Context, attrs: Attrs, x: Array) -> Array:
    """Pad by ``pad_width`` (before, after) with ``constant_value``, edge values or a mirror image."""
    padding, mode = read_padding(attrs, x.ndim), attrs["mode"]
    if mode == "constant":
        require(
            x.dtype.kind == "f" or isfinite(attrs["constant_value"]),
            f"constant_value must be finite for {x.dtype}",
        )
        return np.pad(x, padding, mode="constant", constant_values=attrs["constant_value"])
    if mode == "edge":
        return np.pad(x, padding, mode="edge")
    if any(max(pad) >= size for pad, size in zip(padding, x.shape, strict=True)):
        raise KernelError(
            f"reflected padding must be smaller than the array, which is {format_shape(x.shape)}"
        )
    return np.pad(x, padding, mode="reflect")


def _pad_shape(attrs: Attrs, x: Dims) -> Dims:
    pairs = zip(x, read_padding(attrs, len(x)), strict=True)
    return tuple(None if size is None else size + sum(padding) for size, padding in pairs)


def tile(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``x`` repeated ``reps`` times along each axis, aligned at the last."""
    return np.tile(x, attrs["reps"])


def align_repeats(attrs: Attrs, x: Dims) -> tuple[Dims, tuple[int, ...]]:
    """Prepend 1s to ``x`` or ``reps`` until both have equally many axes."""
    reps = tuple(attrs["reps"] or ())
    rank = max(len(x), len(reps))
    return (1,) * (rank - len(x)) + x, (1,) * (rank - len(reps)) + reps


def _tile_shape(attrs: Attrs, x: Dims) -> Dims:
    pairs = zip(*align_repeats(attrs, x), strict=True)
    return tuple(None if size is None else size * count for size, count in pairs)


def repeat(context: Context, attrs: Attrs, x: Array) -> Array:
    """Repeat elements ``repeats`` times along ``axis`` or flattened; 0 gives shape (0)."""
    # As in MXNet, for every rank.
    if not attrs["repeats"]:
        return np.empty((0,), x.dtype)
    result: Array = np.repeat(x, attrs["repeats"], axis=attrs["axis"])
    return result


def _repeat_shape(attrs: Attrs, x: Dims) -> Dims:
    if attrs["axis"] is None:
        x, axis = (count_elements(x),), 0
    else:
        axis = normalize_axis(attrs["axis"], len(x))
    if not attrs["repeats"]:
        return (0,)
    size = x[axis]
    return with_dim(x, axis, None if size is None else size * attrs["repeats"])


def _check_broadcast(x: Dims, target: Dims) -> Dims:
    """Return ``target``.

    Raises:
        KernelError: shape ``x`` cannot be broadcast to it.
    """
    if len(x) != len(target):
        raise KernelError(
            f"{format_shape(x)} cannot be broadcast to {format_shape(target)}: the numbers of axes differ"
        )
    for size, other in zip(x, target, strict=True):
        if size is not None and other is not None and size not in (1, other):
            raise KernelError(
                f"{format_shape(x)} cannot be broadcast to {format_shape(target)}: {size} is neither 1 nor {other}"
            )
    return target


def _to_shape(attrs: Attrs, x: Dims) -> Dims:
    shape = attrs["shape"] or ()
    # 0 in the attribute keeps the array's size.
    _check_broadcast(x, tuple(n or None for n in shape))
    return tuple(n or d for d, n in zip(x, shape, strict=True))


def _along_axes(attrs: Attrs, x: Dims) -> Dims:
    axes, sizes = attrs["axis"] or (), attrs["size"] or ()
    require(len(axes) == len(sizes), f"axis {axes} and size {sizes} differ in length")
    shape = list(x)
    for axis, size in zip(axes, sizes, strict=True):
        at = normalize_axis(axis, len(x))
        if shape[at] not in (1, None):
            raise KernelError(
                f"axis {axis} of {format_shape(x)} has size {shape[at]}, but only axes of size 1 can be broadcast"
            )
        shape[at] = size
    return tuple(shape)


def _like_other(attrs: Attrs, x: Dims, y: Dims) -> Dims:
    ours, theirs = attrs["lhs_axes"], attrs["rhs_axes"]
    if ours is None and theirs is None:
        return _check_broadcast(x, y)
    if ours is None or theirs is None or len(ours) != len(theirs):
        raise KernelError(
            f"lhs_axes {ours} and rhs_axes {theirs} must both be None or have the same length"
        )
    shape = list(x)
    for a, b in zip(ours, theirs, strict=True):
        axis = normalize_axis(a, len(x))
        if x[axis] not in (1, None):
            raise KernelError(
                f"axis {a} of {format_shape(x)} has size {x[axis]}, but only axes of size 1 can be broadcast"
            )
        shape[axis] = y[normalize_axis(b, len(y))]
    return _check_broadcast(x, tuple(shape))


def _broadcast_kernel(operator: str, shape_of: Any, types: Any) -> Kernel:
    """Broadcast axes of size 1; results are views."""

    def forward(context: Context, attrs: Attrs, x: Array, *like: Array) -> Array:
        return np.broadcast_to(x, shape_of(attrs, x.shape, *(y.shape for y in like)))

    return Kernel(operator, forward, output_rule(shape_of), types)


KERNELS = with_limits(
    Limits(elements=True, not_negative=("pad_width", "reps", "repeats")),
    Kernel("Pad", pad, output_rule(_pad_shape), same_dtypes),
    Kernel("tile", tile, output_rule(_tile_shape), same_dtypes),
    Kernel("repeat", repeat, output_rule(_repeat_shape), same_dtypes),
    _broadcast_kernel("broadcast_to", _to_shape, same_dtypes),
    _broadcast_kernel("broadcast_axis", _along_axes, same_dtypes),
    _broadcast_kernel("broadcast_like", _like_other, first_dtype),
)


def sum_broadcast(entry: TapeEntry, dy: Array) -> Array:
    """Sum over all copies of an element."""
    return sum_to_shape(dy, entry.inputs[0].shape)


GRADIENTS = (
    *(
        Gradient(name, sum_broadcast, reads_outputs=False)
        for name in ("broadcast_to", "broadcast_axis", "broadcast_like")
    ),
    *(Gradient(name, permutation_vjp(name), reads_outputs=False) for name in ("tile", "repeat")),
    # Elements are numbered from 1, so padding is not one of them.
    Gradient("Pad", permutation_vjp("Pad", attrs={"constant_value": -1.0}), reads_outputs=False),
)
