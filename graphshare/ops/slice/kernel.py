"""Parts of arrays, arrays with a part replaced, and gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Dims, Kernel, KernelError, Shapes
from graphshare.ops.limits import require
from graphshare.ops.unification import (
    dims_of_rank,
    exceeds,
    first_dtype,
    normalize_axis,
    output_rule,
    same_dtypes,
    unify,
    with_dim,
)
from graphshare.text.format import format_shape


def _member(values: Sequence[int | None], axis: int) -> int | None:
    return values[axis] if axis < len(values) else None


def slices(attrs: Attrs, rank: int) -> tuple[slice, ...]:
    """Return the slices of begin, end and step.

    Raises:
        KernelError: there are more of them than axes, or a step is 0.
    """
    begin, end, step = (attrs[key] or () for key in ("begin", "end", "step"))
    has_one_length = len(begin) == len(end) and len(step) in (0, len(begin))
    if len(begin) > rank or not has_one_length:
        raise KernelError(
            f"begin {begin}, end {end} and step {step} must have the same length, at most {rank}"
        )
    require(0 not in step, f"step {step} contains 0")
    return tuple(slice(_member(begin, i), _member(end, i), _member(step, i)) for i in range(rank))


def _cut_dim(size: Dim, part: slice) -> Dim:
    if size is None:
        return None
    return len(range(*part.indices(size)))


def slice_shape(attrs: Attrs, shape: Dims) -> Dims:
    """Return the part's shape."""
    return tuple(map(_cut_dim, shape, slices(attrs, len(shape))))


def slice_assign(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Replace the part by ``y``."""
    out = x if context.reusable[:1] == (True,) and x.flags.writeable else x.copy()
    out[slices(attrs, x.ndim)] = y
    return out


def slice_assign_scalar(context: Context, attrs: Attrs, x: Array) -> Array:
    """Replace the part's elements by ``scalar``."""
    return slice_assign(context, attrs, x, np.asarray(attrs["scalar"]).astype(x.dtype))


def _slice_assign_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = unify(inputs[0], outputs[0])
    if len(inputs) == 1 or x is None:
        return [x, *inputs[1:]], [x]
    return [x, unify(inputs[1], slice_shape(attrs, x))], [x]


def axis_span(attrs: Attrs, size: int) -> tuple[int, int]:
    """Return begin and end of slice_axis."""
    begin, end = attrs["begin"], size if attrs["end"] is None else attrs["end"]
    first, last = begin + size * (begin < 0), end + size * (end < 0)
    require(
        0 <= first < last <= size,
        f"begin {begin} and end {attrs['end']} select nothing on an axis of size {size}",
    )
    return first, last


def _axis_slices(attrs: Attrs, shape: tuple[int, ...]) -> tuple[slice, ...]:
    axis = normalize_axis(attrs["axis"], len(shape))
    return (slice(None),) * axis + (slice(*axis_span(attrs, shape[axis])),)


def _slice_axis_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    axis = normalize_axis(attrs["axis"], len(x))
    size = x[axis]
    if size is not None:
        first, last = axis_span(attrs, size)
        size = last - first
    y = dims_of_rank(unify(with_dim(x, axis, size), outputs[0]), len(x))
    return [with_dim(y, axis, x[axis])], [y]


def _cut_like(attrs: Attrs, x: Dims, y: Dims) -> Dims:
    """Cut along ``axes``, or all."""
    if not attrs["axes"] and len(x) != len(y):
        raise KernelError(
            f"{format_shape(x)} and {format_shape(y)} have different numbers of axes; name the axes to cut"
        )
    result = list(x)
    for axis in attrs["axes"] or range(len(x)):
        here = normalize_axis(axis, len(x))  # counted from the front in both
        size, length = x[here], y[normalize_axis(here, len(y))]
        require(not exceeds(length, size), f"axis {axis} of size {size} cannot be cut to {length}")
        result[here] = length
    return tuple(result)


def slice_like(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
    """Return the beginning of ``x``, as long as ``y`` along ``axes``."""
    return np.asarray(x[tuple(slice(0, size) for size in _cut_like(attrs, x.shape, y.shape))])


KERNELS = (
    Kernel(
        "slice",
        lambda context, attrs, x: np.asarray(x[slices(attrs, x.ndim)]),
        output_rule(slice_shape),
        same_dtypes,
    ),
    Kernel(
        "slice_axis",
        lambda context, attrs, x: x[_axis_slices(attrs, x.shape)],
        _slice_axis_shapes,
        same_dtypes,
    ),
    Kernel("slice_like", slice_like, output_rule(_cut_like), first_dtype),
    Kernel("_slice_assign", slice_assign, _slice_assign_shapes, same_dtypes),
    Kernel("_slice_assign_scalar", slice_assign_scalar, _slice_assign_shapes, same_dtypes),
)


def _part_vjp(part_of: Callable[[TapeEntry, Array], tuple[slice, ...]]) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        dx: Array = np.zeros_like(entry.inputs[0])
        dx[part_of(entry, dy)] = dy
        return dx

    return vjp


def slice_assign_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of the array outside the part, and of the replacing value."""
    part = slices(entry.attrs, dy.ndim)
    dx = dy.copy()
    dx[part] = 0
    return [dx, dy[part]] if len(entry.requested) > 1 else [dx]


GRADIENTS = (
    Gradient(
        "slice",
        _part_vjp(lambda entry, _: slices(entry.attrs, entry.inputs[0].ndim)),
        reads_outputs=False,
    ),
    Gradient(
        "slice_axis",
        _part_vjp(lambda entry, _: _axis_slices(entry.attrs, entry.inputs[0].shape)),
        reads_outputs=False,
    ),
    Gradient(
        "slice_like", _part_vjp(lambda _, dy: tuple(map(slice, dy.shape))), reads_outputs=False
    ),
    Gradient("_slice_assign", slice_assign_gradient, reads_inputs=False, reads_outputs=False),
    Gradient(
        "_slice_assign_scalar", slice_assign_gradient, reads_inputs=False, reads_outputs=False
    ),
)
