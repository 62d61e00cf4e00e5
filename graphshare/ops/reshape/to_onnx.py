"""Shapes and orders in ONNX. Every shape is known, so MXNet's ``Reshape`` codes leave no trace."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.indexing.to_onnx import emit_where
from graphshare.ops.reshape.kernel import Order, np_transpose_axes, swap_axes, transpose_axes
from graphshare.ops.reshape.numpy_kernel import clamp_offset, read_roll
from graphshare.ops.translation import FAR, Translate, Translation, Translator, Value, copy_input
from graphshare.ops.unification import normalize_axis


def _translate_transpose(order: Order) -> Translate:
    return lambda t: t.transpose(t.inputs[0], list(order(t.attrs, t.inputs[0].rank)))


def translate_depth_to_space(t: Translation) -> str:
    """Emit ``DepthToSpace``; integers, which onnxruntime lacks, are transposed."""
    x, b = t.inputs[0], t.attrs["block_size"]
    if x.dtype.startswith("float"):
        return t.emit("DepthToSpace", x, blocksize=b, mode="DCR")
    n, c, h, w = x.shape
    blocks = t.transpose(t.reshape(x, (n, b, b, c // (b * b), h, w)), (0, 3, 4, 1, 5, 2))
    return t.reshape(blocks, t.outputs[0].shape)


def translate_space_to_depth(t: Translation) -> str:
    """Emit ``SpaceToDepth``; integers, which onnxruntime lacks, are transposed."""
    x, b = t.inputs[0], t.attrs["block_size"]
    if x.dtype.startswith("float"):
        return t.emit("SpaceToDepth", x, blocksize=b)
    n, c, h, w = x.shape
    blocks = t.transpose(t.reshape(x, (n, c, h // b, b, w // b, b)), (0, 3, 5, 1, 2, 4))
    return t.reshape(blocks, t.outputs[0].shape)


def translate_reshapes(t: Translation) -> list[str]:
    """Emit ``Reshape`` of each input to its output's shape."""
    return [t.reshape(x, y.shape) for x, y in zip(t.inputs, t.outputs, strict=False)]


def translate_moveaxis(t: Translation) -> str:
    """Emit ``Transpose``."""
    x = t.inputs[0]
    source = [normalize_axis(axis, x.rank) for axis in t.attrs["source"]]
    target = [normalize_axis(axis, x.rank) for axis in t.attrs["destination"]]
    order = [axis for axis in range(x.rank) if axis not in source]
    # In order, so that no insertion moves an earlier one.
    for place, axis in sorted(zip(target, source, strict=True)):
        order.insert(place, axis)
    return t.transpose(x, order)


def _emit_flip(t: Translation, x: Value | str, axes: Sequence[int]) -> str:
    return t.slice(x, axes, [-1] * len(axes), [-FAR] * len(axes), [-1] * len(axes))


def translate_flip(t: Translation) -> str:
    """Emit ``Slice`` with the step -1."""
    x = t.inputs[0]
    return _emit_flip(t, x, [normalize_axis(axis, x.rank) for axis in t.attrs["axis"]])


def translate_rot90(t: Translation) -> str:
    """Emit reversals and an exchange of axes."""
    x, turns = t.inputs[0], t.attrs["k"] % 4
    one, other = (normalize_axis(axis, x.rank) for axis in t.attrs["axes"])
    swapped = list(range(x.rank))
    swapped[one], swapped[other] = other, one
    if turns == 1:
        return t.transpose(_emit_flip(t, x, [other]), swapped)
    if turns == 3:
        return _emit_flip(t, t.transpose(x, swapped), [other])
    return _emit_flip(t, x, [one, other]) if turns else t.emit("Identity", x)


def translate_roll(t: Translation) -> str:
    """Emit ``Concat`` of end and beginning, per axis or flattened."""
    x, (shift, axes) = t.inputs[0], read_roll(t.attrs, t.inputs[0].rank)
    if axes is None:
        flat = t.reshape(x, (prod(x.shape),))
        return t.reshape(_roll_along(t, flat, 0, shift[0], prod(x.shape)), x.shape)
    result = x.name
    for axis, places in zip(axes, shift * len(axes) if len(shift) == 1 else shift, strict=True):
        result = _roll_along(t, result, axis, places, x.shape[axis])
    return result


def _roll_along(t: Translation, x: str, axis: int, shift: int, size: int) -> str:
    places = shift % size if size else 0
    if not places:
        return x
    end, beginning = t.slice(x, [axis], [-places], [FAR]), t.slice(x, [axis], [0], [-places])
    return t.emit("Concat", end, beginning, axis=axis)


def translate_tril(t: Translation) -> str:
    """Emit ``Trilu``, below opset 14 ``Where``; onnxruntime lacks 8-bit integers: use int32."""
    x = t.inputs[0]
    if t.opset < 14:
        rows, columns = t.outputs[0].shape[-2:]
        below = t.constant(np.tri(rows, columns, t.attrs["k"]), "bool")
        return emit_where(t, below, x, t.number(0, x.dtype), x.dtype)
    dtype = "int32" if x.dtype in ("int8", "uint8") else x.dtype
    matrix = t.cast(x, dtype)
    if x.rank == 1:  # every row of a matrix
        matrix = t.emit("Expand", matrix, t.integers(t.outputs[0].shape))
    return t.cast(t.emit("Trilu", matrix, t.number(t.attrs["k"], "int64"), upper=0), x.dtype, dtype)


def emit_diagonal(
    t: Translation, x: Value, offset: int, first: int, second: int
) -> tuple[str, int]:
    """Emit ``Gather`` of diagonal ``offset`` as the last axis; return it and its rank."""
    rows, columns = x.shape[first], x.shape[second]
    rest = [axis for axis in range(x.rank) if axis not in (first, second)]
    flat = t.transpose(x, (*rest, first, second))
    shape = (*(x.shape[axis] for axis in rest), rows * columns)
    steps = np.diagonal(np.arange(rows * columns).reshape(rows, columns), offset)
    chosen = t.emit("Gather", t.reshape(flat, shape), t.integers(steps.tolist()), axis=len(rest))
    return chosen, len(rest) + 1


def _emit_matrix(t: Translation, x: Value) -> str:
    count, k = prod(x.shape), t.attrs["k"]
    side = count + abs(k)
    zeros = t.emit("Expand", t.number(0, x.dtype), t.integers((side, side)))
    places = np.arange(count)[:, None] + [[max(-k, 0), max(k, 0)]]
    return t.emit("ScatterND", zeros, t.constant(places, "int64"), t.reshape(x, (count,)))


def translate_diag(t: Translation) -> str:
    """Emit ``Gather`` of a diagonal, or ``ScatterND`` of a row onto one."""
    x = t.inputs[0]
    if x.rank == 1:
        return _emit_matrix(t, x)
    axes = (normalize_axis(t.attrs.get(key, i), x.rank) for i, key in enumerate(("axis1", "axis2")))
    return emit_diagonal(t, x, t.attrs["k"], *axes)[0]


def translate_diagonal(t: Translation) -> str:
    """Emit ``Gather`` of a diagonal."""
    x = t.inputs[0]
    axes = (normalize_axis(t.attrs[key], x.rank) for key in ("axis1", "axis2"))
    return emit_diagonal(t, x, t.attrs["offset"], *axes)[0]


def translate_trace(t: Translation) -> str:
    """Emit a diagonal's sum; small integers are added as int32, with the same low bits."""
    x = t.inputs[0]
    first, second = (normalize_axis(t.attrs[key], x.rank) for key in ("axis1", "axis2"))
    diagonal, rank = emit_diagonal(t, x, clamp_offset(t.attrs, x.shape), first, second)
    dtype = "int32" if x.dtype in ("int8", "uint8", "bool") else x.dtype
    return t.cast(
        t.reduce("ReduceSum", t.cast(diagonal, dtype, x.dtype), (rank - 1,)), x.dtype, dtype
    )


_RESHAPES = (
    "Flatten Reshape expand_dims reshape_like squeeze _np_atleast_1d _np_atleast_2d "
    "_np_atleast_3d _np_reshape _np_squeeze "
    "_npx_reshape"
).split()

TRANSLATIONS = (
    Translator("transpose", _translate_transpose(transpose_axes)),
    Translator("_np_transpose", _translate_transpose(np_transpose_axes)),
    Translator("SwapAxis", _translate_transpose(swap_axes)),
    Translator("reverse", translate_flip),
    Translator("depth_to_space", translate_depth_to_space),
    Translator("space_to_depth", translate_space_to_depth),
    *(Translator(name, translate_reshapes) for name in _RESHAPES),
    Translator("_np_copy", copy_input),
    Translator(
        "_npi_broadcast_to", lambda t: t.emit("Expand", t.inputs[0], t.integers(t.outputs[0].shape))
    ),
    Translator("_np_moveaxis", translate_moveaxis),
    Translator("_npi_flip", translate_flip),
    Translator("_npi_rot90", translate_rot90),
    Translator("_np_roll", translate_roll),
    Translator("_npi_tril", translate_tril),
    Translator("diag", translate_diag),
    Translator("_np_diag", translate_diag),
    Translator("_np_diagflat", lambda t: _emit_matrix(t, t.inputs[0])),
    Translator("_np_diagonal", translate_diagonal),
    Translator("_np_trace", translate_trace),
)
