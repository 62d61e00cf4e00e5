"""The numpy interface's stacks: arrays side by side by rows, by columns or in depth; split by columns; with borders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.concat.kernel import concatenate_shapes, split, split_shapes, stack, stack_shapes
from graphshare.ops.kernel import Array, Attrs, Context, Kernel, KernelError, Shape, ShapeRule, Shapes
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.numpy_concat.editing import KERNELS as EDITING_KERNELS
from graphshare.ops.unification import is_known, same_dtypes, unify

Lift = Callable[[Shape], Shape]


def _stack_with(function: Any) -> Callable[..., Array]:
    def forward(context: Context, attrs: Attrs, *arrays: Array) -> Array:
        return np.asarray(function(arrays))

    return forward


def _row(shape: Shape) -> Shape:
    """As vstack sees an array: two axes at least, new ones in front."""
    return shape if shape is None or len(shape) > 1 else (1, *shape) if shape else (1, 1)


def _column(shape: Shape) -> Shape:
    """As column_stack sees it: one axis becomes a column."""
    return shape if shape is None or len(shape) > 1 else (*shape, 1) if shape else (1, 1)


def _flat(shape: Shape) -> Shape:
    """As hstack sees it: one axis at least."""
    return shape if shape is None or shape else (1,)


def _deep(shape: Shape) -> Shape:
    """As dstack sees it: three axes."""
    if shape is None or len(shape) > 2:
        return shape
    return (1, *(shape or (1,)), 1) if len(shape) < 2 else (*shape, 1)


def _rule(lift: Lift, axis: int | None) -> ShapeRule:
    """Arrays as the operator sees them, one behind the other along ``axis``; None: the last of one axis, else the second."""

    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        seen = [lift(shape) for shape in inputs]
        if not all(is_known(shape) for shape in seen):
            return inputs, outputs
        along = axis if axis is not None else 0 if len(seen[0] or ()) == 1 else 1
        return inputs, concatenate_shapes({"axis": along}, seen, outputs)[1]

    return shapes


def _along(attrs: Attrs, rank: int) -> Attrs:
    if not rank:
        raise KernelError("a number cannot be split")
    return {**attrs, "axis": 0 if rank == 1 else 1}


def hsplit(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """In parts by columns; a single axis along that."""
    return split(context, _along(attrs, x.ndim), x)


def _hsplit_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    return split_shapes(_along(attrs, len(inputs[0])), inputs, outputs)


def pad_widths(attrs: Attrs, rank: int) -> tuple[tuple[int, int], ...]:
    """Before and after each axis; for a single axis MXNet reads the first number of two tuples.

    Raises:
        KernelError: these are not widths for so many axes.
    """
    widths = attrs["pad_width"]
    if len(widths) != max(rank, 2 if rank == 1 else 0) or any(len(pair) < (1 if rank == 1 else 2) for pair in widths):
        wanted = "a tuple before and one after the only axis" if rank == 1 else f"a pair for each of {rank} axes"
        raise KernelError(f"pad_width {widths} is not {wanted}")
    return ((widths[0][0], widths[1][0]),) if rank == 1 else tuple((pair[0], pair[1]) for pair in widths)


def pad(context: Context, attrs: Attrs, x: Array) -> Array:
    """A border around all axes: of one number, of the nearest, of the largest or smallest along the axis, or mirrored."""
    mode = attrs["mode"]
    more: dict[str, Any] = {"constant_values": attrs["constant_value"]} if mode == "constant" else {}
    if mode in ("reflect", "symmetric"):
        more["reflect_type"] = attrs["reflect_type"]
    return np.pad(x, pad_widths(attrs, x.ndim), mode, **more)


def _pad_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    widths = pad_widths(attrs, len(shape))
    found = tuple(None if d is None else d + a + b for d, (a, b) in zip(shape, widths, strict=True))
    return inputs, [unify(found, outputs[0])]


KERNELS = with_limits(
    Limits(elements=True),
    Kernel("_npi_vstack", _stack_with(np.vstack), _rule(_row, 0), same_dtypes),
    Kernel("_npi_hstack", _stack_with(np.hstack), _rule(_flat, None), same_dtypes),
    Kernel("_npi_dstack", _stack_with(np.dstack), _rule(_deep, 2), same_dtypes),
    Kernel("_npi_column_stack", _stack_with(np.column_stack), _rule(_column, 1), same_dtypes),
    Kernel("_npi_stack", stack, stack_shapes, same_dtypes),
    Kernel("_npi_hsplit", hsplit, _hsplit_shapes, same_dtypes),
    Kernel("_npi_pad", pad, _pad_shapes, same_dtypes),
    *EDITING_KERNELS,
)
