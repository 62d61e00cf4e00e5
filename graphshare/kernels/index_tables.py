"""Operators on indices themselves: places of every element, rows put in place."""

from __future__ import annotations

import numpy as np

from graphshare.kernels.indexing import embedding, embedding_shapes, embedding_types
from graphshare.kernels.inference import axis_of, dims, same_shapes, same_types, unify
from graphshare.kernels.kernel import Array, Attrs, Context, Kernel, KernelError, Shapes, Types


def index_array(context: Context, attrs: Attrs, x: Array) -> Array:
    """The place of every element along ``axes``, or all axes: one more axis, last."""
    axes = range(x.ndim) if attrs["axes"] is None else [axis_of(axis, x.ndim) for axis in attrs["axes"]]
    grid = np.indices(x.shape, dtype=np.int64, sparse=True)
    return np.stack([np.broadcast_to(grid[axis], x.shape) for axis in axes], axis=-1)


def _index_array_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    return inputs, [unify((*shape, len(shape if attrs["axes"] is None else attrs["axes"])), outputs[0])]


def _int64(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["int64"]


def index_copy(context: Context, attrs: Attrs, old: Array, index: Array, new: Array) -> Array:
    """``old`` with the rows of ``new`` in the places that ``index`` names."""
    places = index.astype(np.intp)
    if places.size and not (places.min() >= 0 and places.max() < len(old)):
        raise KernelError(f"indices go from {places.min()} to {places.max()}; there are {len(old)} rows")
    out: Array = old.copy()
    out[places] = new
    return out


def _index_copy_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (old,), _ = same_shapes(attrs, inputs[:1], outputs)
    (count,) = dims(inputs[1], 1)
    new = inputs[2] if old is None else unify(inputs[2], (count, *old[1:]))
    return [old, (new[0],) if new else (count,), new], [old]


def _index_copy_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    (old, new), (out,) = same_types(attrs, [inputs[0], inputs[2]], outputs)
    return [old, inputs[1], new], [out]


KERNELS = (
    Kernel("_contrib_index_array", index_array, _index_array_shapes, _int64),
    Kernel("_contrib_index_copy", index_copy, _index_copy_shapes, _index_copy_types),
    Kernel("_contrib_SparseEmbedding", embedding, embedding_shapes, embedding_types),
)
