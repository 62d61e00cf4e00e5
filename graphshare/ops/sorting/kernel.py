"""Sorting and searching. Equal values keep their order.

In MXNet they do up to 16 values; beyond, its C++ library decides.
"""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes, Types
from graphshare.ops.limits import Limits
from graphshare.ops.unification import (
    count_elements,
    dtype_from_attribute,
    dtype_rule,
    normalize_axis,
    output_rule,
    same_dtypes,
    unify,
    with_dim,
)


def _order(x: Array, axis: int, ascending: bool) -> Array:
    if ascending:
        return np.asarray(np.argsort(x, axis=axis, kind="stable"))
    # Flipped twice, so that equal values keep their order.
    backwards = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return np.asarray(x.shape[axis] - 1 - np.flip(backwards, axis))


def _with_axis(attrs: Attrs, x: Array) -> tuple[Array, int]:
    return (
        (x.reshape(-1), 0) if attrs["axis"] is None else (x, normalize_axis(attrs["axis"], x.ndim))
    )


def sort(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the values in order."""
    data, axis = _with_axis(attrs, x)
    return np.take_along_axis(data, _order(data, axis, attrs["is_ascend"]), axis)


def argsort(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the indices of the values in order."""
    data, axis = _with_axis(attrs, x)
    return _order(data, axis, attrs["is_ascend"]).astype(attrs["dtype"])


def topk(context: Context, attrs: Attrs, x: Array) -> Array | tuple[Array, Array]:
    """Return the ``k`` largest or smallest values, their indices, both, or a mask."""
    data, axis = _with_axis(attrs, x)
    count = _count(attrs, data.shape[axis])
    places = np.take(_order(data, axis, attrs["is_ascend"]), range(count or 0), axis)
    if attrs["ret_typ"] == "mask":
        mask = np.zeros_like(data)
        np.put_along_axis(mask, places, 1, axis)
        return mask.reshape(x.shape)
    indices = places.astype(attrs["dtype"])
    return (
        indices
        if attrs["ret_typ"] == "indices"
        else (np.take_along_axis(data, places, axis), indices)
    )


def _count(attrs: Attrs, size: Dim) -> Dim:
    k: int = attrs["k"]
    if size is not None and k > size:
        raise KernelError(f"k is {k}, expected at most {size}, or 0 for all")
    return k if k > 0 else size


def _sort_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    if attrs["axis"] is None:
        return inputs, [(count_elements(shape),)]
    normalize_axis(attrs["axis"], len(shape))
    return inputs, [unify(shape, outputs[0])]


def _topk_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None or attrs["ret_typ"] == "mask":
        return inputs, [shape] * len(outputs)
    if attrs["axis"] is None:
        return inputs, [(_count(attrs, count_elements(shape)),)] * len(outputs)
    axis = normalize_axis(attrs["axis"], len(shape))
    result = (*shape[:axis], _count(attrs, shape[axis]), *shape[axis + 1 :])
    return inputs, [unify(result, known) for known in outputs]


def _topk_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    index = attrs["dtype"]
    results = {"indices": [index], "mask": [inputs[0]]}.get(attrs["ret_typ"], [inputs[0], index])
    return inputs, results[: len(outputs)]


def unique(context: Context, attrs: Attrs, x: Array) -> tuple[Array, ...]:
    """Return sorted unique values and, if requested, first indices, inverse indices and counts."""
    flags = {key: attrs[key] for key in ("return_index", "return_inverse", "return_counts")}
    axis = None if attrs["axis"] is None else normalize_axis(attrs["axis"], x.ndim)
    result = np.unique(x, axis=axis, **flags)
    values, *more = result if isinstance(result, tuple) else (result,)
    # Since numpy 2.0, inverse indices have the array's shape.
    return (values, *(np.ravel(part).astype(np.int64) for part in more))


def nonzero(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the indices ``(n, axes)`` of numbers other than 0."""
    return np.argwhere(x).astype(np.int64)


def _infer_unique_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    x = inputs[0]
    if x is None:
        return inputs, outputs
    axis = attrs["axis"]
    values = (None,) if axis is None else with_dim(x, axis % len(x), None)
    return inputs, [unify(values, outputs[0]), *(unify((None,), y) for y in outputs[1:])]


KERNELS = (
    Kernel("sort", sort, _sort_shapes, same_dtypes),
    Kernel("argsort", argsort, _sort_shapes, dtype_from_attribute),
    Kernel("topk", topk, _topk_shapes, _topk_types),
    Kernel(
        "_npi_unique",
        unique,
        _infer_unique_shapes,
        lambda attrs, inputs, outputs: (inputs, [inputs[0], *["int64"] * (len(outputs) - 1)]),
        limits=Limits(ranks=(1,)),
    ),
    Kernel(
        "_npx_nonzero",
        nonzero,
        output_rule(lambda attrs, x: (None, len(x))),
        dtype_rule("int64"),
        limits=Limits(ranks=(1,)),
    ),
)


def topk_gradient(entry: TapeEntry, dy: Array, *_: Array | None) -> Array | None:
    """Return ``dy`` at the values' original positions; indices and masks have no gradient."""
    if entry.attrs["ret_typ"] not in ("value", "both"):
        return None
    x = entry.inputs[0]
    attrs = {**entry.attrs, "ret_typ": "indices", "dtype": "int64"}
    places = np.asarray(topk(Context(), attrs, x))
    dx: Array = np.zeros_like(x)
    if entry.attrs["axis"] is None:
        dx.reshape(-1)[places] = dy
    else:
        np.put_along_axis(dx, places, dy, entry.attrs["axis"])
    return dx


def sort_gradient(entry: TapeEntry, dy: Array) -> Array | None:
    """Return ``dy`` at the values' original positions."""
    attrs = {**entry.attrs, "ret_typ": "value", "k": 0, "dtype": "int64"}
    return topk_gradient(TapeEntry(attrs, entry.inputs, ()), dy)


GRADIENTS = (
    Gradient("topk", topk_gradient, reads_outputs=False),
    Gradient("sort", sort_gradient, reads_outputs=False),
    *no_gradient("an index has no derivative", "argsort"),
    *no_gradient(
        "its result is a count, a comparison or a constant", "_npi_unique", "_npx_nonzero"
    ),
)
