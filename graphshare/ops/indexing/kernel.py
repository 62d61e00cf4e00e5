"""Selection by index. Indices may have any dtype; fractions are truncated.

Indices have no gradient.
"""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.binary.kernel import fit_to
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Dims,
    Kernel,
    KernelError,
    Shape,
    Shapes,
    Types,
)
from graphshare.ops.limits import Limits, lie_within, refuse_invalid_call, require, with_limits
from graphshare.ops.unification import (
    dims_of_rank,
    dtype_from_attribute,
    dtype_rule,
    exceeds,
    first_dtype,
    normalize_axis,
    output_rule,
    same_dtypes,
    same_shapes,
    unify,
)
from graphshare.text.format import format_count, format_shape


def limit_indices(index: Array, size: int, mode: str = "clip") -> Array:
    """Return int64 indices in ``0 <= i < size``: clipped, wrapped, or checked."""
    places = convert(index, np.int64)
    if mode == "wrap":
        return np.mod(places, size)
    # The index itself, because -0.5 is below 0 but truncates to 0.
    if mode == "raise" and places.size and not (index.min() >= 0 and places.max() < size):
        raise KernelError(
            f"index {places.min() if places.min() < 0 else places.max()} is out of range for size {size}"
        )
    return np.clip(places, 0, size - 1)


def embedding(context: Context, attrs: Attrs, data: Array, weight: Array) -> Array:
    """Return a row of ``weight`` (input_dim, output_dim) per (clipped) index."""
    return np.take(weight, limit_indices(data, weight.shape[0]), 0)


def embedding_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer data and output from each other, the weight from attributes."""
    size: Shape = (attrs["input_dim"], attrs["output_dim"])
    try:
        weight = unify(inputs[1], size)
    except KernelError:
        raise KernelError(
            f"weight is {format_shape(inputs[1])}, but (input_dim, output_dim) is {format_shape(size)}"
        ) from None
    data = inputs[0]
    if data is None and outputs[0] is not None:
        data = outputs[0][:-1]
    return [data, weight], [
        None if data is None else unify((*data, attrs["output_dim"]), outputs[0])
    ]


def embedding_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the output's dtype from the weight, else from the attribute."""
    dtype = inputs[1] or outputs[0] or attrs["dtype"]
    return [inputs[0], dtype], [dtype]


def take(context: Context, attrs: Attrs, a: Array, indices: Array) -> Array:
    """Return slices of ``a``; the axes of the indices replace ``axis``."""
    axis = normalize_axis(attrs["axis"], a.ndim)
    return np.take(a, limit_indices(indices, a.shape[axis], attrs["mode"]), axis)


def _take_shape(attrs: Attrs, a: Dims, indices: Dims) -> Dims:
    axis = normalize_axis(attrs["axis"], len(a))
    return (*a[:axis], *indices, *a[axis + 1 :])


def batch_take(context: Context, attrs: Attrs, a: Array, indices: Array) -> Array:
    """Return an element per row."""
    rows = a.reshape(-1, a.shape[-1])
    places = limit_indices(indices, rows.shape[1]).reshape(-1, 1)
    return np.take_along_axis(rows, places, 1).reshape(indices.shape)


def _infer_batch_take_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    a, indices = dims_of_rank(inputs[0], 2), dims_of_rank(unify(inputs[1], outputs[0]), 1)
    rows = unify((a[0],), indices)
    return [(None if rows is None else rows[0], a[1]), rows], [rows]


def _infer_batch_take_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    require(inputs[1] in (None, "int32"), f"indices are {inputs[1]}, expected int32")
    dtype = inputs[0] or outputs[0]
    return [dtype, "int32"], [dtype]


def pick(context: Context, attrs: Attrs, data: Array, index: Array) -> Array:
    """Return one element along ``axis`` for each index of the other axes."""
    axis = normalize_axis(attrs["axis"], data.ndim)
    places = limit_indices(index, data.shape[axis], attrs["mode"])
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    chosen = np.take_along_axis(data, places.reshape(kept), axis)
    return chosen.reshape(_infer_pick_shapes(attrs, [data.shape, None], [None])[1][0])


def _infer_pick_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data, index = inputs
    if attrs["axis"] is None:
        raise KernelError("axis is None, expected a number")
    if data is None:
        return inputs, outputs
    axis = normalize_axis(attrs["axis"], len(data))
    without = (*data[:axis], *data[axis + 1 :])
    kept: Shape = (*data[:axis], 1, *data[axis + 1 :])
    expected = kept if index is not None and len(index) == len(data) else (without or (1,))
    try:
        index = unify(index, expected)
    except KernelError:
        raise KernelError(
            f"index is {format_shape(index)}, expected {format_shape(without)} or {format_shape(kept)}"
        ) from None
    return [data, index], [unify(kept if attrs["keepdims"] else (without or (1,)), outputs[0])]


def gather_nd(context: Context, attrs: Attrs, data: Array, indices: Array) -> Array:
    """Return the elements at the coordinates in the columns of ``indices`` (M, ...)."""
    places = convert(indices, np.int64)
    for row, size in zip(places, data.shape, strict=False):
        # As in MXNet, negative coordinates count from the end.
        if not lie_within(row, -size, size - 1):
            raise KernelError(
                f"index {row.max() if row.max() >= size else row.min()} is out of range for size {size}"
            )
    return np.asarray(data[tuple(places)])


def _infer_gather_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    data, indices = inputs
    if data is None or indices is None or indices[0] is None:
        return inputs, outputs
    require(
        len(indices) >= 2,
        f"indices {format_shape(indices)} need at least two axes: coordinates, then elements",
    )
    require(indices[0] > 0, "there are no coordinates, expected at least one")
    require(
        indices[0] <= len(data),
        f"{indices[0]} coordinates for an array with {format_count(len(data), 'axis')}",
    )
    return inputs, [unify((*indices[1:], *data[indices[0] :]) or (1,), outputs[0])]


def scatter_nd(context: Context, attrs: Attrs, data: Array, indices: Array) -> Array:
    """Write ``data`` into zeros at the coordinates in the columns of ``indices``."""
    result = np.zeros(attrs["shape"], data.dtype)
    with refuse_invalid_call():
        result[tuple(convert(indices, np.int64))] = data
    return result


def _infer_scatter_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    indices, result = inputs[1], unify(attrs["shape"], outputs[0])
    if indices is not None and len(indices) < 2:
        raise KernelError("expected indices of at least 2 axes: coordinates along the first")
    if indices is None or indices[0] is None or result is None:
        return inputs, [result]
    require(
        indices[0] <= len(result),
        f"{indices[0]} coordinates for an array with {format_count(len(result), 'axis')}",
    )
    return [unify(inputs[0], (*indices[1:], *result[indices[0] :])), indices], [result]


def one_hot(context: Context, attrs: Attrs, indices: Array) -> Array:
    """Return ``on_value`` at the index on a new last axis, else ``off_value``.

    Indices may be out of range.
    """
    on, off = (convert(np.asarray(attrs[key]), attrs["dtype"]) for key in ("on_value", "off_value"))
    return np.where(convert(indices, np.int64)[..., None] == np.arange(attrs["depth"]), on, off)


def _infer_one_hot_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    indices, result = inputs[0], outputs[0]
    if indices is None and result is not None:
        indices = result[:-1]
    return [indices], [None if indices is None else unify((*indices, attrs["depth"]), result)]


def where(context: Context, attrs: Attrs, condition: Array, x: Array, y: Array) -> Array:
    """Return ``x`` where the condition is not 0, else ``y``; a single-axis one selects rows."""
    chosen = condition != 0
    if chosen.ndim == 1:
        chosen = chosen.reshape((-1,) + (1,) * (x.ndim - 1))
    return np.where(chosen, x, y)


def _infer_where_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    condition, data = inputs[0], unify(unify(inputs[1], inputs[2]), outputs[0])
    if data is not None and condition is not None:
        if len(condition) == len(data):
            data = condition = unify(condition, data)
        elif len(condition) == 1:
            rows = unify(condition, data[:1])
            data, condition = (*(rows or ()), *data[1:]), rows
        else:
            raise KernelError(
                f"condition is {format_shape(condition)}, expected the shape of x, "
                f"{format_shape(data)}, or one value per row"
            )
    return [condition, data, data], [data]


def _infer_where_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    data, results = same_dtypes(attrs, inputs[1:], outputs)
    return [inputs[0], *data], results


def _infer_mask_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(attrs["axis"] == 0, f"axis is {attrs['axis']}, but MXNet supports only axis 0")
    data, index = inputs
    if data is None:
        return inputs, outputs
    return [data, unify(index, data[:1])], [unify((None, *data[1:]), outputs[0])]


def ravel(context: Context, attrs: Attrs, data: Array) -> Array:
    """Return flat indices for coordinates (M, N)."""
    steps = [prod(attrs["shape"][i + 1 :]) for i in range(len(attrs["shape"]))]
    return convert(
        np.tensordot(np.asarray(steps, np.int64), convert(data, np.int64), 1), data.dtype
    )


def unravel(context: Context, attrs: Attrs, data: Array) -> Array:
    """Return coordinates (M, N) for flat indices."""
    index = convert(data, np.int64)
    shape = tuple(attrs["shape"])
    if shape and shape[0] < 1:  # an unknown first axis fits the largest index
        row = max(1, prod(shape[1:]))
        shape = (int(index.max(initial=0)) // row + 1, *shape[1:])
    with refuse_invalid_call():
        return np.stack(np.unravel_index(index, shape)).astype(data.dtype)


def _infer_ravel_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(attrs["shape"] is not None, "shape is missing")
    _, count = dims_of_rank(inputs[0], 2)
    return [(len(attrs["shape"]), count)], [(count,)]


def _infer_unravel_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    require(attrs["shape"] is not None, "shape is missing")
    (count,) = dims_of_rank(inputs[0], 1)
    return [(count,)], [(len(attrs["shape"]), count)]


def index_array(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return each element's index along ``axes`` (default: all) on a new last axis."""
    axes = list(range(x.ndim))
    if attrs["axes"] is not None:
        axes = [normalize_axis(axis, x.ndim) for axis in attrs["axes"]]
    require(axes, "axes is empty")
    grid = np.indices(x.shape, dtype=np.int64, sparse=True)
    return np.stack([np.broadcast_to(grid[axis], x.shape) for axis in axes], axis=-1)


def _index_array_shape(attrs: Attrs, x: Dims) -> Dims:
    return (*x, len(x if attrs["axes"] is None else attrs["axes"]))


def index_copy(context: Context, attrs: Attrs, old: Array, index: Array, new: Array) -> Array:
    """Replace the rows of ``old`` at ``index`` by ``new``."""
    places = index.astype(np.intp)
    if not lie_within(places, 0, len(old) - 1):
        raise KernelError(
            f"indices are from {places.min()} to {places.max()}, expected 0 to {len(old) - 1}"
        )
    out: Array = old.copy()
    out[places] = new
    return out


def _infer_index_copy_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    (old,), _ = same_shapes(attrs, inputs[:1], outputs)
    (count,) = dims_of_rank(inputs[1], 1)
    new = inputs[2] if old is None else unify(inputs[2], (count, *old[1:]))
    rows, room = new[0] if new else count, old[0] if old else None
    if new and exceeds(rows, room):
        raise KernelError(f"{rows} new rows are more than the {room} that there are")
    return [old, (rows,), new], [old]


def _infer_index_copy_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    (old, new), (out,) = same_dtypes(attrs, [inputs[0], inputs[2]], outputs)
    return [old, inputs[1], new], [out]


KERNELS = with_limits(
    Limits(rank=1, elements=True, not_negative=("shape",)),
    Kernel("Embedding", embedding, embedding_shapes, embedding_types),
    Kernel("take", take, output_rule(_take_shape), first_dtype),
    Kernel("batch_take", batch_take, _infer_batch_take_shapes, _infer_batch_take_dtypes),
    Kernel("pick", pick, _infer_pick_shapes, first_dtype),
    Kernel("gather_nd", gather_nd, _infer_gather_shapes, first_dtype),
    Kernel("scatter_nd", scatter_nd, _infer_scatter_shapes, first_dtype),
    Kernel("one_hot", one_hot, _infer_one_hot_shapes, dtype_from_attribute),
    Kernel("where", where, _infer_where_shapes, _infer_where_dtypes),
    Kernel(
        "_contrib_boolean_mask",
        lambda context, attrs, data, index: data[index != 0],
        _infer_mask_shapes,
        first_dtype,
    ),
    Kernel("_ravel_multi_index", ravel, _infer_ravel_shapes, same_dtypes),
    Kernel("_unravel_index", unravel, _infer_unravel_shapes, same_dtypes),
    Kernel(
        "_contrib_index_array", index_array, output_rule(_index_array_shape), dtype_rule("int64")
    ),
    Kernel("_contrib_index_copy", index_copy, _infer_index_copy_shapes, _infer_index_copy_dtypes),
    Kernel("_contrib_SparseEmbedding", embedding, embedding_shapes, embedding_types),
)


def where_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both sides' gradients, 0 where the other was chosen."""
    condition, x, y = entry.inputs
    chosen = condition != 0
    if chosen.ndim == 1:
        chosen = chosen.reshape((-1,) + (1,) * (x.ndim - 1))
    return [None, fit_to(np.where(chosen, dy, 0), x), fit_to(np.where(chosen, 0, dy), y)]


def sum_rows(shape: tuple[int, ...], index: Array, rows: Array) -> Array:
    """Add each of ``rows`` to the row of zeros that ``index`` names."""
    total: Array = np.zeros(shape, rows.dtype)
    if not index.size:
        return total
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    # Sums of runs of equal indices take half the time of np.add.at.
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    total[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return total


def embedding_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the weight's gradient."""
    data, weight = entry.inputs
    index = limit_indices(data, weight.shape[0]).reshape(-1)
    return [None, sum_rows(weight.shape, index, dy.reshape(index.size, -1))]


def take_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Sum ``dy`` at the selected slices."""
    a, indices = entry.inputs
    axis = normalize_axis(entry.attrs["axis"], a.ndim)
    index = limit_indices(indices, a.shape[axis], entry.attrs["mode"]).reshape(-1)
    front = dy.reshape(*a.shape[:axis], index.size, *a.shape[axis + 1 :])
    rows = np.moveaxis(front, axis, 0).reshape(index.size, -1)
    total = sum_rows((a.shape[axis], rows.shape[1]), index, rows)
    return np.moveaxis(total.reshape(a.shape[axis], *a.shape[:axis], *a.shape[axis + 1 :]), 0, axis)


def pick_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at the picked elements."""
    data, index = entry.inputs
    axis = normalize_axis(entry.attrs["axis"], data.ndim)
    chosen = limit_indices(index, data.shape[axis], entry.attrs["mode"])
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    dx: Array = np.zeros_like(data)
    np.put_along_axis(dx, chosen.reshape(kept), dy.reshape(kept), axis)
    return dx


def batch_take_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at each row's selected element."""
    a, indices = entry.inputs
    dx: Array = np.zeros_like(a)
    rows = dx.reshape(-1, a.shape[-1])
    np.put_along_axis(
        rows, limit_indices(indices, rows.shape[1]).reshape(-1, 1), dy.reshape(-1, 1), 1
    )
    return np.asarray(rows.reshape(a.shape))


def gather_nd_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Sum ``dy`` at the indexed elements."""
    data, indices = entry.inputs
    dx: Array = np.zeros_like(data)
    where = tuple(convert(indices, np.int64))
    np.add.at(dx, where, dy.reshape(dx[where].shape))
    return dx


def index_copy_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of kept and new rows (all new ones if an index repeats)."""
    places = entry.inputs[1].astype(np.intp)
    dold = dy.copy()
    dold[places] = 0
    return [dold, None, dy[places]]


def boolean_mask_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at selected rows."""
    data, index = entry.inputs
    dx: Array = np.zeros_like(data)
    dx[index != 0] = dy
    return dx


GRADIENTS = (
    Gradient("Embedding", embedding_gradient, reads_outputs=False),
    Gradient("_contrib_SparseEmbedding", embedding_gradient, reads_outputs=False),
    Gradient("take", take_gradient, reads_outputs=False),
    Gradient("pick", pick_gradient, reads_outputs=False),
    Gradient("batch_take", batch_take_gradient, reads_outputs=False),
    Gradient("gather_nd", gather_nd_gradient, reads_outputs=False),
    Gradient(
        "scatter_nd",
        lambda entry, dy: np.asarray(dy[tuple(convert(entry.inputs[1], np.int64))]),
        reads_outputs=False,
    ),
    Gradient("_contrib_index_copy", index_copy_gradient, reads_outputs=False),
    Gradient("_contrib_boolean_mask", boolean_mask_gradient, reads_outputs=False),
    *no_gradient("indices have none", "one_hot", "_ravel_multi_index", "_unravel_index"),
    Gradient("where", where_gradient, reads_outputs=False),
    *no_gradient("the result is counted, compared or constant", "_contrib_index_array"),
)
