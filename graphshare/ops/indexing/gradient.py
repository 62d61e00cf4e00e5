"""Gradients of selection by index: summed at the selected elements. Indices have none."""

from __future__ import annotations

import numpy as np

from graphshare.ops.binary.gradient import fit_to
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, no_gradient
from graphshare.ops.indexing.kernel import bound_indices
from graphshare.ops.kernel import Array
from graphshare.ops.unification import axis_of


def where(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides, each 0 where the other was chosen."""
    condition, x, y = entry.inputs
    chosen = condition != 0
    if chosen.ndim == 1 and x.ndim > 1 and chosen.shape[0] == x.shape[0] and entry.attrs.get("rows", True):
        chosen = chosen.reshape((-1,) + (1,) * (x.ndim - 1))
    return [None, fit_to(np.where(chosen, dy, 0), x), fit_to(np.where(chosen, 0, dy), y)]


def sum_rows(shape: tuple[int, ...], index: Array, rows: Array) -> Array:
    """Return zeros of ``shape`` with each of ``rows`` added to the row that ``index`` names."""
    total: Array = np.zeros(shape, rows.dtype)
    if not index.size:
        return total
    order = np.argsort(index, kind="stable")
    ordered = index[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    total[ordered[starts]] = np.add.reduceat(rows[order], starts, axis=0)
    return total


def embedding(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradient of the weight."""
    data, weight = entry.inputs
    index = bound_indices(data, weight.shape[0]).reshape(-1)
    return [None, sum_rows(weight.shape, index, dy.reshape(index.size, -1))]


def take(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient summed at the selected slices."""
    a, indices = entry.inputs
    axis = axis_of(entry.attrs["axis"], a.ndim)
    index = bound_indices(indices, a.shape[axis], entry.attrs["mode"]).reshape(-1)
    front = dy.reshape(*a.shape[:axis], index.size, *a.shape[axis + 1 :])
    rows = np.moveaxis(front, axis, 0).reshape(index.size, -1)
    total = sum_rows((a.shape[axis], rows.shape[1]), index, rows)
    return np.moveaxis(total.reshape(a.shape[axis], *a.shape[:axis], *a.shape[axis + 1 :]), 0, axis)


def pick(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient at the picked elements."""
    data, index = entry.inputs
    axis = axis_of(entry.attrs["axis"], data.ndim)
    chosen = bound_indices(index, data.shape[axis], entry.attrs["mode"])
    kept = (*data.shape[:axis], 1, *data.shape[axis + 1 :])
    dx: Array = np.zeros_like(data)
    np.put_along_axis(dx, chosen.reshape(kept), dy.reshape(kept), axis)
    return dx


def batch_take(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient at the selected element of each row."""
    a, indices = entry.inputs
    dx: Array = np.zeros_like(a)
    rows = dx.reshape(-1, a.shape[-1])
    np.put_along_axis(rows, bound_indices(indices, rows.shape[1]).reshape(-1, 1), dy.reshape(-1, 1), 1)
    return np.asarray(rows.reshape(a.shape))


def gather_nd(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient summed at the indexed elements."""
    data, indices = entry.inputs
    dx: Array = np.zeros_like(data)
    where = tuple(convert(indices, np.int64))
    np.add.at(dx, where, dy.reshape(dx[where].shape))
    return dx


def scatter_nd(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient at the indexed elements."""
    return np.asarray(dy[tuple(convert(entry.inputs[1], np.int64))])


def index_copy(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the kept rows and of the new rows; of all new rows if an index occurs twice."""
    places = entry.inputs[1].astype(np.intp)
    dold = dy.copy()
    dold[places] = 0
    return [dold, None, dy[places]]


def boolean_mask(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient at the selected rows."""
    data, index = entry.inputs
    dx: Array = np.zeros_like(data)
    dx[index != 0] = dy
    return dx


GRADIENTS = (
    Gradient("Embedding", embedding, reads_outputs=False),
    Gradient("_contrib_SparseEmbedding", embedding, reads_outputs=False),
    Gradient("take", take, reads_outputs=False),
    Gradient("pick", pick, reads_outputs=False),
    Gradient("batch_take", batch_take, reads_outputs=False),
    Gradient("gather_nd", gather_nd, reads_outputs=False),
    Gradient("scatter_nd", scatter_nd, reads_outputs=False),
    Gradient("_contrib_index_copy", index_copy, reads_outputs=False),
    Gradient("_contrib_boolean_mask", boolean_mask, reads_outputs=False),
    *no_gradient("indices have none", "one_hot", "_ravel_multi_index", "_unravel_index"),
    Gradient("where", where, reads_outputs=False),
    *no_gradient("the result is counted, compared or constant", "_contrib_index_array"),
)
