"""Deletions and insertions along an axis in ONNX: ``Gather`` of what stays, of old and new elements side by side."""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.numpy_concat.editing import positions
from graphshare.ops.translation import Translation, Value
from graphshare.ops.unification import axis_of


def _flatten_without_axis(t: Translation, x: Value) -> tuple[str, tuple[int, ...], int]:
    """Return the array to edit, its shape and the axis: the flattened array without an axis."""
    if t.attrs["axis"] is None:
        return t.reshape(x, (prod(x.shape),)), (prod(x.shape),), 0
    return x.name, x.shape, axis_of(t.attrs["axis"], x.rank)


def translate_delete(t: Translation) -> str:
    """Emit ``Gather`` of the places that stay."""
    if len(t.inputs) > 1:
        t.refuse("it has an array of positions, and the shape of its output depends on their values")
    data, shape, axis = _flatten_without_axis(t, t.inputs[0])
    places = np.delete(np.arange(shape[axis]), positions(t.attrs))
    return t.emit("Gather", data, t.integers(places.tolist()), axis=axis)


def translate_insert_scalar(t: Translation) -> str:
    """Emit an insertion at one place, the first unless ``int_ind`` names another."""
    return _emit_insertion(t, {**t.attrs, "int_ind": t.attrs["int_ind"] or 0})


def translate_insert(t: Translation) -> str:
    """Emit an insertion at the places of a slice or of an array."""
    return _emit_insertion(t, t.attrs)


def _emit_insertion(t: Translation, attrs: Attrs) -> str:
    """Emit ``Gather`` of old and new elements, concatenated."""
    data, shape, axis = _flatten_without_axis(t, t.inputs[0])
    size, count = shape[axis], t.outputs[0].shape[axis] - shape[axis]
    new = _emit_values(t, attrs, axis, (*shape[:axis], count, *shape[axis + 1 :]))
    both = t.emit("Concat", data, new, axis=axis)
    if len(t.inputs) > 2:
        return t.emit("Gather", both, _emit_order(t, t.inputs[2], size, count), axis=axis)
    at = positions(attrs)
    order = np.insert(np.arange(size), _places(at, size), np.arange(size, size + count))
    return t.emit("Gather", both, t.integers(order.tolist()), axis=axis)


def _places(at: int | slice, size: int) -> int | Array:
    """Return one position, or those of a slice; a slice of one position is as that position, as in numpy."""
    if isinstance(at, int):
        return at
    places = np.arange(size)[at]
    return int(places[0]) if len(places) == 1 else places


def _emit_values(t: Translation, attrs: Attrs, axis: int, shape: tuple[int, ...]) -> str:
    """Emit the new elements in their full ``shape``; at one position without axes, they extend along their first axis."""
    x, values = t.inputs[:2]
    cast = t.cast(values, x.dtype)
    lifted = (*[1] * (len(shape) - values.rank), *values.shape)
    named = t.inputs[2].rank == 0 if len(t.inputs) > 2 else isinstance(positions(attrs), int)
    if lifted != values.shape:
        cast = t.reshape(cast, lifted)
    if named and axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        cast, lifted = t.transpose(cast, order), tuple(lifted[i] for i in order)
    return cast if lifted == shape else t.emit("Expand", cast, t.integers(shape))


def _emit_order(t: Translation, places: Value, size: int, count: int) -> str:
    """Emit the order of old and new elements: element i counts as 2i + 1, a new one before position p as 2p."""
    old = t.constant(np.arange(size) * 2 + 1, "int64")
    flat = t.reshape(places, (prod(places.shape),))
    negative = t.emit("Less", flat, t.number(0, "int64"))
    inside = t.emit("Where", negative, t.emit("Add", flat, t.number(size, "int64")), flat)
    new = t.emit("Mul", inside, t.number(2, "int64"))
    if prod(places.shape) != count:
        new = t.emit("Expand", new, t.integers((count,)))
    keys = t.emit("Concat", old, new, axis=0)
    return t.emit_several("TopK", 2, keys, t.integers([size + count]), axis=0, largest=0, sorted=1)[1]
