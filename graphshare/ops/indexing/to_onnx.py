"""Selection by index in ONNX.

MXNet's indices have any dtype; ONNX's are int64, and negative ones count from the end.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.translation import FAR, NoTranslation, Translation, Translator, Value
from graphshare.ops.unification import normalize_axis


def translate_embedding(t: Translation) -> str:
    """Emit ``Gather`` of rows."""
    data, weight = t.inputs
    return t.emit("Gather", weight, emit_indices(t, data, weight.shape[0]), axis=0)


def translate_take(t: Translation) -> str:
    """Emit ``Gather`` along ``axis``."""
    a, indices = t.inputs
    axis = normalize_axis(t.attrs["axis"], a.rank)
    return t.emit("Gather", a, emit_indices(t, indices, a.shape[axis], t.attrs["mode"]), axis=axis)


def translate_batch_take(t: Translation) -> str:
    """Emit ``GatherElements`` of one element per row."""
    a, indices = t.inputs
    rows = t.reshape(a, (prod(a.shape[:-1]), a.shape[-1]))
    places = t.reshape(emit_indices(t, indices, a.shape[-1]), (prod(indices.shape), 1))
    return t.reshape(t.emit("GatherElements", rows, places, axis=1), indices.shape)


def translate_pick(t: Translation) -> str:
    """Emit ``GatherElements`` along ``axis``."""
    data, index = t.inputs
    axis = normalize_axis(t.attrs["axis"], data.rank)
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    places = emit_indices(t, index, data.shape[axis], t.attrs["mode"])
    chosen = t.emit(
        "GatherElements",
        data,
        places if index.shape == kept else t.reshape(places, kept),
        axis=axis,
    )
    return chosen if t.outputs[0].shape == kept else t.reshape(chosen, t.outputs[0].shape)


def _emit_coordinates(t: Translation, indices: Value) -> str:
    """MXNet has coordinates on the first axis, ONNX on the last."""
    return t.transpose(t.cast(indices, "int64"), (*range(1, indices.rank), 0))


def translate_gather_nd(t: Translation) -> str:
    """Emit ``GatherND``."""
    data, indices = t.inputs
    chosen = t.emit("GatherND", data, _emit_coordinates(t, indices))
    shape = (*indices.shape[1:], *data.shape[indices.shape[0] :])
    return chosen if shape == t.outputs[0].shape else t.reshape(chosen, t.outputs[0].shape)


def translate_scatter_nd(t: Translation) -> str:
    """Emit ``ScatterND`` onto zeros."""
    data, indices = t.inputs
    zeros = t.emit("Expand", t.number(0, data.dtype), t.integers(t.outputs[0].shape))
    return t.emit("ScatterND", zeros, _emit_coordinates(t, indices), data)


def translate_one_hot(t: Translation) -> str:
    """Compare with 0, 1, 2...; unlike MXNet, ``OneHot`` counts negative indices from the end."""
    indices, dtype = t.inputs[0], t.outputs[0].dtype
    if dtype == "bfloat16":
        t.refuse("it has the dtype bfloat16")
    places = t.reshape(t.cast(indices, "int64"), (*indices.shape, 1))
    hit = t.emit("Equal", places, t.integers(range(t.attrs["depth"])))
    on, off = (
        t.constant(convert(np.asarray(t.attrs[key]), dtype), dtype)
        for key in ("on_value", "off_value")
    )
    return emit_where(t, hit, on, off, dtype)


def translate_where(t: Translation) -> str:
    """Emit ``Where``; a single-axis condition selects rows."""
    condition, x, y = t.inputs
    chosen = t.cast(condition, "bool")
    # MXNet aligns a single-axis condition at the first axis, ONNX at the last.
    if condition.rank == 1 < x.rank:
        chosen = t.reshape(chosen, (condition.shape[0], *[1] * (x.rank - 1)))
    return emit_where(t, chosen, x, y, x.dtype)


def translate_ravel(t: Translation) -> str:
    """Emit the sum of coordinates times steps."""
    data, shape = t.inputs[0], t.attrs["shape"]
    steps = [[prod(shape[i + 1 :])] for i in range(len(shape))]
    places = t.emit("Mul", t.cast(data, "int64"), t.constant(steps, "int64"))
    return t.cast(t.reduce("ReduceSum", places, (0,)), data.dtype, "int64")


def translate_unravel(t: Translation) -> str:
    """Emit quotients and remainders; the first axis is unlimited."""
    data, shape = t.inputs[0], t.attrs["shape"]
    steps = [[max(1, prod(shape[i + 1 :]))] for i in range(len(shape))]
    sizes = [[FAR], *([max(1, size)] for size in shape[1:])]
    index = t.reshape(t.cast(data, "int64"), (1, *data.shape))
    places = t.emit(
        "Mod", t.emit("Div", index, t.constant(steps, "int64")), t.constant(sizes, "int64")
    )
    return t.cast(places, data.dtype, "int64")


def translate_index_array(t: Translation) -> str:
    """Emit 0, 1, 2... along each axis, expanded to the array's shape."""
    x = t.inputs[0]
    axes = (
        range(x.rank)
        if t.attrs["axes"] is None
        else [normalize_axis(axis, x.rank) for axis in t.attrs["axes"]]
    )
    parts = []
    for axis in axes:
        places = np.arange(x.shape[axis]).reshape(
            [-1 if i == axis else 1 for i in range(x.rank + 1)]
        )
        parts.append(t.emit("Expand", t.constant(places, "int64"), t.integers((*x.shape, 1))))
    return t.emit("Concat", *parts, axis=x.rank)


def translate_index_copy(t: Translation) -> str:
    """Emit ``ScatterND`` of whole rows."""
    old, index, new = t.inputs
    places = emit_indices(t, index, old.shape[0], "raise")
    return t.emit("ScatterND", old, t.reshape(places, (*index.shape, 1)), new)


_WHERE = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")
"""The dtypes among which onnxruntime's Where chooses; it casts float16 itself."""


def emit_indices(t: Translation, index: Value, size: int, mode: str = "clip") -> str:
    """Emit int64 indices ``0 <= i < size``; fractions are truncated.

    With ``raise``, others become ``size``; ONNX refuses that at run time.
    """
    places = t.cast(index, "int64")
    count = t.number(size, "int64")
    if mode == "wrap":
        return t.emit("Mod", places, count)
    if mode == "raise":
        return t.emit("Where", t.emit("Less", places, t.number(0, "int64")), count, places)
    # onnx2torch's Clip turns integers into floats
    places = t.emit("Max", places, t.number(0, "int64"))
    return t.emit("Min", places, t.number(size - 1, "int64"))


def emit_where(t: Translation, condition: str, x: Value | str, y: Value | str, dtype: str) -> str:
    """Emit ``Where`` for ``dtype``; bool as uint8."""
    if dtype in _WHERE:
        return t.emit("Where", condition, x, y)
    chosen = t.emit("Where", condition, t.cast(x, "uint8", dtype), t.cast(y, "uint8", dtype))
    return t.cast(chosen, dtype, "uint8")


TRANSLATIONS = (
    Translator("Embedding", translate_embedding),
    Translator("_contrib_SparseEmbedding", translate_embedding),
    Translator("take", translate_take),
    Translator("batch_take", translate_batch_take),
    Translator("pick", translate_pick),
    Translator("gather_nd", translate_gather_nd),
    Translator("scatter_nd", translate_scatter_nd),
    Translator("one_hot", translate_one_hot, condition="the dtype bfloat16 is refused"),
    Translator("where", translate_where),
    Translator("_ravel_multi_index", translate_ravel),
    Translator("_unravel_index", translate_unravel),
    Translator("_contrib_index_array", translate_index_array),
    Translator("_contrib_index_copy", translate_index_copy),
    NoTranslation("_contrib_boolean_mask", "the shape of its output depends on values"),
)
