"""The numpy interface's operators that stack, split by columns, pad, delete or insert.

Positions are a number, a slice, or an array along an axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphshare.ops.concat.kernel import (
    concatenate_shapes,
    split,
    split_shapes,
    stack,
    stack_shapes,
)
from graphshare.ops.gradient import Gradient, GradientError, TapeEntry, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Bodies,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shape,
    ShapeRule,
    Shapes,
    Types,
)
from graphshare.ops.limits import Limits, refuse_invalid_call, require, with_limits
from graphshare.ops.permutation import joint_permutation_vjp, permutation_vjp
from graphshare.ops.unification import (
    count_elements,
    is_known,
    normalize_axis,
    output_rule,
    same_dtypes,
    sum_if_known,
    unify,
    with_dim,
)
from graphshare.text.format import format_count

Lift = Callable[[Shape], Shape]


def _stack_with(function: Any) -> Callable[..., Array]:
    def forward(context: Context, attrs: Attrs, *arrays: Array) -> Array:
        return np.asarray(function(arrays))

    return forward


def to_rows(shape: Shape) -> Shape:
    """Extend a shape for vstack to at least two axes, new ones in front."""
    if shape is None or len(shape) > 1:
        return shape
    return (1, *shape) if shape else (1, 1)


def to_columns(shape: Shape) -> Shape:
    """Make a single axis a column for column_stack."""
    if shape is None or len(shape) > 1:
        return shape
    return (*shape, 1) if shape else (1, 1)


def at_least_1d(shape: Shape) -> Shape:
    """Extend a shape for hstack to at least one axis."""
    return shape if shape is None or shape else (1,)


def at_least_3d(shape: Shape) -> Shape:
    """Extend a shape for dstack to at least three axes."""
    if shape is None or len(shape) > 2:
        return shape
    if len(shape) == 2:
        return (*shape, 1)
    return (1, *shape, 1) if shape else (1, 1, 1)


STACKS: dict[str, tuple[Callable[..., Array], Lift, int | None]] = {
    "_npi_vstack": (np.vstack, to_rows, 0),
    "_npi_hstack": (np.hstack, at_least_1d, None),
    "_npi_dstack": (np.dstack, at_least_3d, 2),
    "_npi_column_stack": (np.column_stack, to_columns, 1),
}
"""numpy's stacking functions: how each lifts shapes, and the axis (None: 0 for one axis, else 1)."""


def _infer_stack_shapes(lift: Lift, axis: int | None) -> ShapeRule:
    def shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
        lifted = [lift(shape) for shape in inputs]
        known = [shape for shape in lifted if shape is not None and is_known(shape)]
        if not known:
            return inputs, outputs
        along = axis
        if along is None:
            along = 0 if len(known[0]) == 1 else 1
        if len(known) < len(lifted):  # only the size along the axis is open
            return inputs, [unify(with_dim(known[0], along, None), outputs[0])]
        return inputs, concatenate_shapes({"axis": along}, lifted, outputs)[1]

    return shapes


def with_split_axis(attrs: Attrs, rank: int) -> Attrs:
    """Return hsplit's attributes as _split_v2's."""
    require(rank, "an array without axes cannot be split")
    return {**attrs, "axis": 0 if rank == 1 else 1}


def hsplit(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Split by columns, or along the only axis."""
    return split(context, with_split_axis(attrs, x.ndim), x)


def _hsplit_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    return split_shapes(with_split_axis(attrs, len(inputs[0])), inputs, outputs)


def pad_widths(attrs: Attrs, rank: int) -> tuple[tuple[int, int], ...]:
    """Return (before, after) per axis; for a single axis MXNet reads two tuples.

    Raises:
        KernelError: the widths do not fit the rank.
    """
    widths = attrs["pad_width"]
    if rank == 1:
        count, length, expected = 2, 1, "a tuple before and one after the only axis"
    else:
        count, length, expected = rank, 2, f"a pair for each of {format_count(rank, 'axis')}"
    if len(widths) != count or any(len(numbers) < length for numbers in widths):
        raise KernelError(f"pad_width {widths}, expected {expected}")
    if rank == 1:
        return ((widths[0][0], widths[1][0]),)
    return tuple((pair[0], pair[1]) for pair in widths)


def find_kept_part(widths: Sequence[tuple[int, int]], shape: Sequence[int]) -> tuple[slice, ...]:
    """Return the slices that negative widths leave."""
    return tuple(
        slice(max(0, -a), size + min(0, b)) for (a, b), size in zip(widths, shape, strict=True)
    )


def pad(context: Context, attrs: Attrs, x: Array) -> Array:
    """Pad all axes by ``mode``; negative widths first take elements away."""
    mode = attrs["mode"]
    options: dict[str, Any] = {}
    if mode == "constant":
        options["constant_values"] = attrs["constant_value"]
    elif mode in ("reflect", "symmetric"):
        options["reflect_type"] = attrs["reflect_type"]
    widths = pad_widths(attrs, x.ndim)
    whole = mode in ("constant", "edge") or min(map(min, widths), default=0) >= 0
    require(
        whole,
        f"pad_width {widths} is negative: with mode {mode} MXNet reads memory that was never written",
    )
    kept = x[find_kept_part(widths, x.shape)]
    with refuse_invalid_call():
        if mode in _EXTREMES:
            return _pad_with_extreme(kept, widths, _EXTREMES[mode])
        return np.pad(kept, [(max(0, a), max(0, b)) for a, b in widths], mode, **options)


_EXTREMES = {"maximum": np.fmax, "minimum": np.fmin}


def _pad_with_extreme(x: Array, widths: Sequence[tuple[int, int]], extreme: np.ufunc) -> Array:
    """As in MXNet, NaN is the extreme if it comes first, and is otherwise skipped."""
    for axis, counts in enumerate(widths):
        if any(counts):
            first = x[(slice(None),) * axis + (slice(1),)]
            value = np.where(np.isnan(first), first, extreme.reduce(x, axis=axis, keepdims=True))
            before, after = (np.repeat(value, count, axis) for count in counts)
            x = np.concatenate([before, x, after], axis)
    return x


def _pad_shape(attrs: Attrs, x: Dims) -> Shape:
    widths = pad_widths(attrs, len(x))
    for size, (a, b) in zip(x, widths, strict=True):
        require(
            size is None or size + min(0, a) + min(0, b) >= 0,
            f"pad_width {widths} takes more than there is",
        )
    return tuple(None if d is None else d + a + b for d, (a, b) in zip(x, widths, strict=True))


def positions(attrs: Attrs) -> Any:
    """Return ``int_ind``, or the slice of ``start``, ``stop`` and ``step``."""
    if attrs["int_ind"] is not None:
        return attrs["int_ind"]
    return slice(attrs["start"], attrs["stop"], attrs["step"])


def delete(context: Context, attrs: Attrs, x: Array) -> Array:
    """Delete these positions along ``axis``, or from the flattened array."""
    with refuse_invalid_call():
        return np.delete(x, positions(attrs), attrs["axis"])


def insert_scalar(context: Context, attrs: Attrs, x: Array, values: Array) -> Array:
    """Insert ``values`` before one position, by default the first."""
    return insert(context, {**attrs, "int_ind": attrs["int_ind"] or 0}, x, values)


def insert(context: Context, attrs: Attrs, x: Array, values: Array, *places: Array) -> Array:
    """Insert ``values`` before the attributes' positions, or those in an array."""
    require(not places or places[0].dtype == np.int64, "positions must be int64")
    at: Any = places[0] if places else positions(attrs)
    with refuse_invalid_call():
        # As in MXNet, the result keeps the array's dtype.
        return np.insert(x, at, values.astype(x.dtype), attrs["axis"])


def _insert_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape, axis = inputs[0], attrs["axis"]
    # A number in place of the values (val) leaves a single input.
    values = inputs[1] if len(inputs) > 1 else None
    places = inputs[2] if len(inputs) > 2 else ()
    if shape is None or places is None:
        return inputs, outputs
    if axis is None:  # into the flat array
        shape, axis = (count_elements(shape),), 0
    at = normalize_axis(axis, len(shape))
    size = shape[at]
    if attrs["int_ind"] is None and len(inputs) == 2 and size is not None:
        selected = _count(attrs, size)
        if selected != 1:
            return inputs, [unify(with_dim(shape, at, size + selected), outputs[0])]
        places = (1,)
    if values is None:
        return inputs, outputs
    count = _count_inserted(values, places, len(shape), at)
    return inputs, [unify(with_dim(shape, at, sum_if_known([size, count])), outputs[0])]


def _count_inserted(values: Dims, places: Dims, rank: int, axis: int) -> Dim:
    """Return the number of entries inserted: at one place all ``values``, at several one each.

    ``places`` is the shape of the positions, ``()`` for a number. At a number, numpy moves the
    first axis of the values to ``axis``.
    """
    if places and places != (1,):
        return places[0]
    sizes = (1,) * (rank - len(values)) + values
    return sizes[axis] if places else sizes[0]


def _insert_scalar_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _insert_shapes({**attrs, "int_ind": attrs["int_ind"] or 0}, inputs, outputs)


def _refuses_insert(attrs: Attrs, bodies: Bodies) -> str | None:
    return None if attrs["val"] is None else "MXNet infers no shape for the insertion of a number"


def _count(attrs: Attrs, size: int) -> int:
    require(attrs["step"] != 0, "step must not be 0")
    places = positions(attrs)
    if isinstance(places, int):
        require(-size <= places <= size, f"position {places} is outside an axis of size {size}")
        return 1
    return len(range(*places.indices(size)))


def _delete_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape, axis = inputs[0], attrs["axis"]
    if shape is None or len(inputs) > 1:
        return inputs, outputs
    if axis is None:  # from the flat array
        shape, axis = (count_elements(shape),), 0
    at = normalize_axis(axis, len(shape))
    size = shape[at]
    left = None if size is None else size - _count(attrs, size)
    return inputs, [unify(with_dim(shape, at, left), outputs[0])]


def _infer_editing_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[0]]


def _refuses_delete(attrs: Attrs, bodies: Bodies) -> str | None:
    if attrs["int_ind"] is None and attrs["step"] is None:
        return "the shape left by an array of positions depends on its values"
    return None


KERNELS = with_limits(
    Limits(elements=True),
    *(
        Kernel(name, _stack_with(function), _infer_stack_shapes(lift, axis), same_dtypes)
        for name, (function, lift, axis) in STACKS.items()
    ),
    Kernel("_npi_stack", stack, stack_shapes, same_dtypes),
    Kernel("_npi_hsplit", hsplit, _hsplit_shapes, same_dtypes),
    Kernel("_npi_pad", pad, output_rule(_pad_shape), same_dtypes),
    Kernel("_npi_delete", delete, _delete_shapes, _infer_editing_dtypes, refuses=_refuses_delete),
    Kernel(
        "_npi_insert_scalar",
        insert_scalar,
        _insert_scalar_shapes,
        _infer_editing_dtypes,
        refuses=_refuses_insert,
    ),
    Kernel(
        "_npi_insert_slice", insert, _insert_shapes, _infer_editing_dtypes, refuses=_refuses_insert
    ),
    Kernel(
        "_npi_insert_tensor", insert, _insert_shapes, _infer_editing_dtypes, refuses=_refuses_insert
    ),
)


def pad_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` inside the (constant) padding; 0 for removed elements."""
    if entry.attrs["mode"] != "constant":
        raise GradientError(f"MXNet has no gradient for padding of mode {entry.attrs['mode']}")
    (x,) = entry.inputs
    widths = pad_widths(entry.attrs, x.ndim)
    dx: Array = np.zeros_like(x)
    inside = dx[find_kept_part(widths, x.shape)]
    inside[...] = dy[
        tuple(
            slice(max(0, a), max(0, a) + size)
            for (a, _), size in zip(widths, inside.shape, strict=True)
        )
    ]
    return dx


GRADIENTS = (
    *(
        Gradient(name, joint_permutation_vjp(name), reads_outputs=False)
        for name in ("_npi_stack", *STACKS)
    ),
    Gradient("_npi_hsplit", permutation_vjp("_npi_hsplit"), reads_outputs=False),
    Gradient("_npi_pad", pad_gradient, reads_outputs=False),
    *no_gradient(
        "MXNet has no gradient of it",
        *"_npi_delete _npi_insert_scalar _npi_insert_slice _npi_insert_tensor".split(),
        is_zero=False,
    ),
)
