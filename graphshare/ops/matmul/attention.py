"""Attention on interleaved projections, (length, batch, heads * parts * depth), and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod, sqrt

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Context,
    Cost,
    Dim,
    Forward,
    Kernel,
    KernelError,
    ShapeRule,
    Shapes,
    Sizes,
)
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.unification import dims_of_rank, same_floating_dtypes, unify
from graphshare.ops.windows import unify_dims


def split_interleaved(attrs: Attrs, x: Array, count: int) -> list[Array]:
    """Return ``count`` parts, each (batch * heads, length, depth)."""
    length, batch, _ = x.shape
    # A head's parts lie side by side, so heads are split off first.
    split = x.reshape(length, batch * attrs["heads"], count, -1)
    return [split[:, :, i].swapaxes(0, 1) for i in range(count)]


def _split_projections(attrs: Attrs, projections: Sequence[Array]) -> list[Array]:
    """Return queries, keys and values of one array, or of one for queries and one for the rest."""
    counts = (3,) if len(projections) == 1 else (1, 2)
    return [
        part
        for x, count in zip(projections, counts, strict=True)
        for part in split_interleaved(attrs, x, count)
    ]


def scores(context: Context, attrs: Attrs, *projections: Array) -> Array:
    """Return scaled products of queries and keys (batch * heads, queries, keys)."""
    queries, keys, _ = _split_projections(attrs, projections)
    scaled = queries / queries.dtype.type(sqrt(queries.shape[-1]))
    out = context.empty((*queries.shape[:2], keys.shape[1]), np.result_type(scaled, keys))
    result: Array = np.matmul(scaled, keys.swapaxes(1, 2), out=out)
    return result


def weigh_values(
    context: Context, attrs: Attrs, projected: Array, attention: Array, *, parts: int
) -> Array:
    """Return weighted values (queries, batch, heads * depth); values are the last of ``parts``."""
    values = split_interleaved(attrs, projected, parts)[-1]
    length, heads = attention.shape[1], len(values)
    out = context.empty((length, heads, values.shape[-1]), np.result_type(attention, values))
    # A view in the order of the result spares a transposing copy.
    np.matmul(attention, values, out=out.swapaxes(0, 1))
    return out.reshape(length, -1, attrs["heads"] * values.shape[-1])


def _multiply(size: Dim, factor: int) -> Dim:
    return None if size is None else size * factor


def _divide(size: Dim, parts: int, what: str) -> Dim:
    """A remainder raises :class:`KernelError`."""
    if size is not None and size % parts:
        raise KernelError(f"{what} is {size}, which is not a multiple of {parts}")
    return None if size is None else size // parts


def self_scores_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the scores from the projections."""
    length, batch, width = dims_of_rank(inputs[0], 3)
    # Checked only: scores have no depth axis.
    _divide(width, 3 * attrs["heads"], "the last axis of queries_keys_values")
    return inputs, [unify((_multiply(batch, attrs["heads"]), length, length), outputs[0])]


def self_values_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer attention and output."""
    length, batch, width = dims_of_rank(inputs[0], 3)
    depth = _divide(width, 3 * attrs["heads"], "the last axis of queries_keys_values")
    attention = unify((_multiply(batch, attrs["heads"]), length, length), inputs[1])
    return [inputs[0], attention], [
        unify((length, batch, _multiply(depth, attrs["heads"])), outputs[0])
    ]


def cross_scores_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the scores."""
    (queries, batch, width), (keys, other, doubled) = (
        dims_of_rank(inputs[0], 3),
        dims_of_rank(inputs[1], 3),
    )
    _divide(width, attrs["heads"], "the last axis of queries")
    _divide(doubled, 2 * attrs["heads"], "the last axis of keys_values")
    batch = unify_dims(batch, other, "samples of queries and keys")
    doubled = unify_dims(doubled, _multiply(width, 2), "the last axis of keys_values")
    return (
        [(queries, batch, width), (keys, batch, doubled)],
        [unify((_multiply(batch, attrs["heads"]), queries, keys), outputs[0])],
    )


def cross_values_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output."""
    (keys, batch, doubled), (_, queries, _) = dims_of_rank(inputs[0], 3), dims_of_rank(inputs[1], 3)
    depth = _divide(doubled, 2 * attrs["heads"], "the last axis of keys_values")
    attention = unify((_multiply(batch, attrs["heads"]), queries, keys), inputs[1])
    return [inputs[0], attention], [
        unify((queries, batch, _multiply(depth, attrs["heads"])), outputs[0])
    ]


def self_scores_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count a product over a head's width per score; queries, keys and values share an axis."""
    return prod(outputs[0]) * (inputs[0][2] // 3 // int(attrs["heads"]))


def _cross_scores_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    return prod(outputs[0]) * (inputs[0][2] // int(attrs["heads"]))


def values_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count a product per weighted value for each output."""
    return prod(outputs[0]) * inputs[1][-1]


def _kernel(name: str, forward: Forward, shapes: ShapeRule, cost: Cost) -> Kernel:
    return Kernel(
        f"_contrib_interleaved_matmul_{name}", forward, shapes, same_floating_dtypes, cost=cost
    )


KERNELS = with_limits(
    Limits(elements=True, positive=("heads",)),
    _kernel("selfatt_qk", scores, self_scores_shapes, self_scores_cost),
    _kernel("selfatt_valatt", partial(weigh_values, parts=3), self_values_shapes, values_cost),
    _kernel("encdec_qk", scores, cross_scores_shapes, _cross_scores_cost),
    _kernel("encdec_valatt", partial(weigh_values, parts=2), cross_values_shapes, values_cost),
)


def _interleave(like: Array, heads: int, parts: list[Array | None]) -> Array:
    """Interleave gradients (batch * heads, length, depth), None for zeros."""
    length, batch, _ = like.shape
    result: Array = np.zeros(
        (length, batch * heads, len(parts), like.shape[2] // (heads * len(parts))), like.dtype
    )
    for i, part in enumerate(parts):
        if part is not None:
            result[:, :, i] = part.swapaxes(0, 1)
    return result.reshape(like.shape)


def scores_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of the projections: one array, or queries and keys with values."""
    projections, heads = entry.inputs, entry.attrs["heads"]
    queries, keys, _ = _split_projections(entry.attrs, projections)
    scaled = dy * dy.dtype.type(1 / sqrt(queries.shape[-1]))
    dqueries, dkeys = np.matmul(scaled, keys), np.matmul(scaled.swapaxes(1, 2), queries)
    if len(projections) == 1:
        return [_interleave(projections[0], heads, [dqueries, dkeys, None])]
    return [
        _interleave(projections[0], heads, [dqueries]),
        _interleave(projections[1], heads, [dkeys, None]),
    ]


def values_gradient(entry: TapeEntry, dy: Array, *, parts: int) -> Gradients:
    """Return gradients of the projections (values come last of ``parts``) and of the attention."""
    (projected, attention), heads = entry.inputs, entry.attrs["heads"]
    values = split_interleaved(entry.attrs, projected, parts)[-1]
    gradient = dy.reshape(dy.shape[0], -1, values.shape[-1]).swapaxes(0, 1)
    dattention, dvalues = (
        np.matmul(gradient, values.swapaxes(1, 2)),
        np.matmul(attention.swapaxes(1, 2), gradient),
    )
    return [_interleave(projected, heads, [*[None] * (parts - 1), dvalues]), dattention]


GRADIENTS = (
    Gradient("_contrib_interleaved_matmul_selfatt_qk", scores_gradient, reads_outputs=False),
    Gradient(
        "_contrib_interleaved_matmul_selfatt_valatt",
        partial(values_gradient, parts=3),
        reads_outputs=False,
    ),
    Gradient("_contrib_interleaved_matmul_encdec_qk", scores_gradient, reads_outputs=False),
    Gradient(
        "_contrib_interleaved_matmul_encdec_valatt",
        partial(values_gradient, parts=2),
        reads_outputs=False,
    ),
)
