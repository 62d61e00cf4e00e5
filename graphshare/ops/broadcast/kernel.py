"""Arrays that hold another one with a border, several times, or stretched."""

from __future__ import annotations

from math import isfinite
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import Limits, require, with_limits
from graphshare.ops.unification import axis_of, first_dtype, same_dtypes, size_of, unify
from graphshare.text.format import format_shape

Dims = tuple[Dim, ...]


def _forwards(inputs: Shapes, outputs: Shapes, shape: Shape) -> tuple[Shapes, Shapes]:
    return inputs, [unify(shape, outputs[0])]


def _borders(attrs: Attrs, rank: int) -> list[tuple[int, int]]:
    width = attrs["pad_width"] or ()
    if rank not in (4, 5) or len(width) != 2 * rank or any(width[:4]):
        raise KernelError(
            f"pad_width {width} must give two widths an axis for 4 or 5 axes, those of the first two 0, not {rank}"
        )
    return list(zip(width[::2], width[1::2], strict=True))


def pad(context: Context, attrs: Attrs, x: Array) -> Array:
    """A border of ``constant_value``, of the edge's values, or of the mirrored array, ``pad_width`` (before, after) wide."""
    borders, mode = _borders(attrs, x.ndim), attrs["mode"]
    if mode == "constant":
        require(x.dtype.kind == "f" or isfinite(attrs["constant_value"]), f"constant_value must be finite for {x.dtype}")
        return np.pad(x, borders, mode="constant", constant_values=attrs["constant_value"])
    if mode == "edge":
        return np.pad(x, borders, mode="edge")
    if any(max(border) >= size for border, size in zip(borders, x.shape, strict=True)):
        raise KernelError(f"a mirrored border must be narrower than the array; {format_shape(x.shape)} is too small")
    return np.pad(x, borders, mode="reflect")


def _pad_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    borders = _borders(attrs, len(x))
    grown = tuple(None if d is None else d + sum(border) for d, border in zip(x, borders, strict=True))
    return _forwards(inputs, outputs, grown)


def tile(context: Context, attrs: Attrs, x: Array) -> Array:
    """The array ``reps`` times along each axis, aligned at the last one."""
    return np.tile(x, attrs["reps"])


def _tile_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x, reps = inputs[0], tuple(attrs["reps"] or ())
    if x is None:
        return inputs, outputs
    rank = max(len(x), len(reps))
    padded: Dims = (1,) * (rank - len(x)) + x
    reps = (1,) * (rank - len(reps)) + reps
    return _forwards(inputs, outputs, tuple(None if d is None else d * n for d, n in zip(padded, reps, strict=True)))


def repeat(context: Context, attrs: Attrs, x: Array) -> Array:
    """Each element ``repeats`` times along ``axis``; without one, of the flat array."""
    result: Array = np.repeat(x, attrs["repeats"], axis=attrs["axis"])
    return result


def _repeat_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    if attrs["axis"] is None:
        x, axis = (size_of(x),), 0
    else:
        axis = axis_of(attrs["axis"], len(x))
    size = x[axis]
    return _forwards(inputs, outputs, (*x[:axis], None if size is None else size * attrs["repeats"], *x[axis + 1 :]))


def _broadcast_shape(x: Dims, wanted: Dims) -> Dims:
    """``wanted`` where it is known, if every axis of ``x`` fits it or has size 1; else what ``x`` says.

    Raises:
        KernelError: another size stands where the wanted one, or 1, is needed.
    """
    if len(x) != len(wanted):
        raise KernelError(f"{format_shape(x)} cannot be stretched to {format_shape(wanted)}: both need the same number of axes")
    for size, target in zip(x, wanted, strict=True):
        if size is not None and target is not None and size not in (1, target):
            raise KernelError(
                f"{format_shape(x)} cannot be stretched to {format_shape(wanted)}: {size} is neither 1 nor {target}"
            )
    return wanted


def _to(attrs: Attrs, x: Dims) -> Dims:
    shape = attrs["shape"] or ()
    if len(shape) != len(x):
        raise KernelError(f"{format_shape(x)} cannot be stretched to {format_shape(shape)}: both need the same number of axes")
    return _broadcast_shape(x, tuple(d if n == 0 else n for d, n in zip(x, shape, strict=True)))


def _along(attrs: Attrs, x: Dims) -> Dims:
    axes, sizes = attrs["axis"] or (), attrs["size"] or ()
    if len(axes) != len(sizes):
        raise KernelError(f"axis {axes} and size {sizes} must be equally long")
    found = list(x)
    for axis, size in zip(axes, sizes, strict=True):
        at = axis_of(axis, len(x))
        if x[at] not in (1, None):
            raise KernelError(f"axis {axis} of {format_shape(x)} has size {x[at]}; only axes of size 1 can be stretched")
        found[at] = size
    return tuple(found)


def _as(attrs: Attrs, x: Dims, y: Dims) -> Dims:
    ours, theirs = attrs["lhs_axes"], attrs["rhs_axes"]
    if (ours is None) != (theirs is None) or (ours is not None and len(ours) != len(theirs)):
        raise KernelError("lhs_axes and rhs_axes must be given together, equally many")
    if ours is None:
        return _broadcast_shape(x, y)
    found = list(x)
    for a, b in zip(ours, theirs, strict=True):
        found[axis_of(a, len(x))] = y[axis_of(b, len(y))]
    return _broadcast_shape(x, tuple(found))


def _stretching(operator: str, rule: Any, types: Any) -> Kernel:
    """A kernel that stretches axes of size 1; its result is a view without memory of its own."""

    def forward(context: Context, attrs: Attrs, x: Array, *like: Array) -> Array:
        return np.broadcast_to(x, rule(attrs, x.shape, *(y.shape for y in like)))

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        if None in inputs:
            return inputs, outputs
        return _forwards(inputs, outputs, rule(attrs, *inputs))

    return Kernel(operator, forward, shapes, types)


KERNELS = with_limits(
    Limits(elements=True, not_negative=("pad_width", "reps", "repeats")),
    Kernel("Pad", pad, _pad_shapes, same_dtypes),
    Kernel("tile", tile, _tile_shapes, same_dtypes),
    Kernel("repeat", repeat, _repeat_shapes, same_dtypes),
    _stretching("broadcast_to", _to, same_dtypes),
    _stretching("broadcast_axis", _along, same_dtypes),
    _stretching("broadcast_like", _as, first_dtype),
)
