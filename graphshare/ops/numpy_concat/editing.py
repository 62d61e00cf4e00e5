"""The numpy interface's deletions and insertions along an axis: at one position, or at those of a slice or an array."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Bodies, Context, Dim, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import refuse_invalid_call, require
from graphshare.ops.unification import axis_of, size_of, unify


def positions(attrs: Attrs) -> Any:
    """Return the position ``int_ind``, or the slice of ``start``, ``stop`` and ``step``."""
    if attrs["int_ind"] is not None:
        return attrs["int_ind"]
    return slice(attrs["start"], attrs["stop"], attrs["step"])


def delete(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the array without these positions along ``axis``, or the flattened array without them."""
    with refuse_invalid_call():
        return np.delete(x, positions(attrs), attrs["axis"])


def insert_scalar(context: Context, attrs: Attrs, x: Array, values: Array) -> Array:
    """Return the array with ``values`` before one position, the first unless ``int_ind`` names another."""
    return insert(context, {**attrs, "int_ind": attrs["int_ind"] or 0}, x, values)


def insert(context: Context, attrs: Attrs, x: Array, values: Array, *places: Array) -> Array:
    """Return the array with ``values`` before these positions, which an array may name."""
    require(not places or places[0].dtype == np.int64, "positions must be int64")
    at: Any = places[0] if places else positions(attrs)
    with refuse_invalid_call():
        return np.insert(x, at, values.astype(x.dtype), attrs["axis"])


def _insert_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape, values, axis = inputs[0], inputs[1] if len(inputs) > 1 else None, attrs["axis"]
    if shape is None or values is None or (len(inputs) > 2 and inputs[2] is None):
        return inputs, outputs
    at = 0 if axis is None else axis_of(axis, len(shape))
    size: Dim = size_of(shape) if axis is None else shape[at]
    rank = 1 if axis is None else len(shape)
    count: Dim = 1 if len(values) < rank else values[0]  # at one position, values extend along their first axis
    along = ((1,) * (len(shape) - len(values)) + values)[at] if axis is not None else count
    if len(inputs) > 2 and inputs[2]:
        count = along if inputs[2] == (1,) else inputs[2][0]
    elif attrs["int_ind"] is None and len(inputs) == 2 and size is not None:
        named = _count(attrs, size)
        count = along if named == 1 else named
    more = None if size is None or count is None else size + count
    return inputs, [unify((more,) if axis is None else (*shape[:at], more, *shape[at + 1 :]), outputs[0])]


def _insert_scalar_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return _insert_shapes({**attrs, "int_ind": attrs["int_ind"] or 0}, inputs, outputs)


def _refuses_insert(attrs: Attrs, bodies: Bodies) -> str | None:
    return None if attrs["val"] is None else "MXNet infers no shape for the insertion of a number"


def _count(attrs: Attrs, size: int) -> int:
    require(attrs["step"] != 0, "step must not be 0")
    places = positions(attrs)
    if isinstance(places, int):
        if not -size <= places <= size:
            raise KernelError(f"position {places} is outside an axis of size {size}")
        return 1
    return len(range(*places.indices(size)))


def _delete_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape, axis = inputs[0], attrs["axis"]
    if shape is None or len(inputs) > 1:
        return inputs, outputs
    at = 0 if axis is None else axis_of(axis, len(shape))
    size: Dim = size_of(shape) if axis is None else shape[at]
    left = None if size is None else size - _count(attrs, size)
    return inputs, [unify((left,) if axis is None else (*shape[:at], left, *shape[at + 1 :]), outputs[0])]


def _types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, [inputs[0]]


def _refuses_delete(attrs: Attrs, bodies: Bodies) -> str | None:
    if attrs["int_ind"] is None and attrs["step"] is None:
        return "the shape left by an array of positions depends on its values"
    return None


KERNELS = (
    Kernel("_npi_delete", delete, _delete_shapes, _types, refuses=_refuses_delete),
    Kernel("_npi_insert_scalar", insert_scalar, _insert_scalar_shapes, _types, refuses=_refuses_insert),
    Kernel("_npi_insert_slice", insert, _insert_shapes, _types, refuses=_refuses_insert),
    Kernel("_npi_insert_tensor", insert, _insert_shapes, _types, refuses=_refuses_insert),
)
