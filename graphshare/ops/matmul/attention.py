"""Attention products on interleaved projections, (length, batch, heads * parts * depth), and their gradients."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shapes, Sizes
from graphshare.ops.limits import Limits, with_limits
from graphshare.ops.unification import dims_of_rank, same_floating_dtypes, unify
from graphshare.ops.windows import unify_dims


def split_interleaved(attrs: Attrs, x: Array, count: int) -> list[Array]:
    """Return the ``count`` parts of ``x``, each (batch * heads, length, depth)."""
    length, batch, _ = x.shape
    split = x.reshape(length, batch * attrs["heads"], count, -1)
    return [split[:, :, i].swapaxes(0, 1) for i in range(count)]


def _scores(context: Context, queries: Array, keys: Array) -> Array:
    scaled = queries / queries.dtype.type(sqrt(queries.shape[-1]))
    out = context.empty((*queries.shape[:2], keys.shape[1]), np.result_type(scaled, keys))
    result: Array = np.matmul(scaled, keys.swapaxes(1, 2), out=out)
    return result


def _apply_attention(context: Context, attrs: Attrs, attention: Array, values: Array) -> Array:
    """Return the weighted values (queries, batch, heads * depth)."""
    length, heads = attention.shape[1], len(values)
    out = context.empty((length, heads, values.shape[-1]), np.result_type(attention, values))
    np.matmul(attention, values, out=out.swapaxes(0, 1))
    return out.reshape(length, -1, attrs["heads"] * values.shape[-1])


def self_scores(context: Context, attrs: Attrs, projected: Array) -> Array:
    """Return the scaled products of queries and keys (batch * heads, length, length)."""
    queries, keys, _ = split_interleaved(attrs, projected, 3)
    return _scores(context, queries, keys)


def self_values(context: Context, attrs: Attrs, projected: Array, attention: Array) -> Array:
    """Return the attention applied to the values."""
    return _apply_attention(context, attrs, attention, split_interleaved(attrs, projected, 3)[2])


def cross_scores(context: Context, attrs: Attrs, queries: Array, projected: Array) -> Array:
    """Return the scaled products of queries and keys of another sequence (batch * heads, queries, keys)."""
    return _scores(context, split_interleaved(attrs, queries, 1)[0], split_interleaved(attrs, projected, 2)[0])


def cross_values(context: Context, attrs: Attrs, projected: Array, attention: Array) -> Array:
    """Return the attention applied to the values of another sequence."""
    return _apply_attention(context, attrs, attention, split_interleaved(attrs, projected, 2)[1])


def _multiply(size: Dim, factor: int) -> Dim:
    return None if size is None else size * factor


def _divide(size: Dim, parts: int, what: str) -> Dim:
    """Return ``size / parts``.

    Raises:
        KernelError: the division has a remainder.
    """
    if size is not None and size % parts:
        raise KernelError(f"{what} is {size}, which is not a multiple of {parts}")
    return None if size is None else size // parts


def self_scores_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the scores from the projections."""
    length, batch, width = dims_of_rank(inputs[0], 3)
    _divide(width, 3 * attrs["heads"], "the last axis of queries_keys_values")
    return inputs, [unify((_multiply(batch, attrs["heads"]), length, length), outputs[0])]


def self_values_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the attention and the output from the projections."""
    length, batch, width = dims_of_rank(inputs[0], 3)
    depth = _divide(width, 3 * attrs["heads"], "the last axis of queries_keys_values")
    attention = unify((_multiply(batch, attrs["heads"]), length, length), inputs[1])
    return [inputs[0], attention], [unify((length, batch, _multiply(depth, attrs["heads"])), outputs[0])]


def cross_scores_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the scores from both projections."""
    (queries, batch, width), (keys, other, doubled) = dims_of_rank(inputs[0], 3), dims_of_rank(inputs[1], 3)
    _divide(width, attrs["heads"], "the last axis of queries")
    _divide(doubled, 2 * attrs["heads"], "the last axis of keys_values")
    batch = unify_dims(batch, other, "samples of queries and keys")
    doubled = unify_dims(doubled, _multiply(width, 2), "the last axis of keys_values")
    return (
        [(queries, batch, width), (keys, batch, doubled)],
        [unify((_multiply(batch, attrs["heads"]), queries, keys), outputs[0])],
    )


def cross_values_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer the output from projections and attention."""
    (keys, batch, doubled), (_, queries, _) = dims_of_rank(inputs[0], 3), dims_of_rank(inputs[1], 3)
    depth = _divide(doubled, 2 * attrs["heads"], "the last axis of keys_values")
    attention = unify((_multiply(batch, attrs["heads"]), queries, keys), inputs[1])
    return [inputs[0], attention], [unify((queries, batch, _multiply(depth, attrs["heads"])), outputs[0])]


def self_scores_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count for each score a product over the width of a head; queries, keys and values share the last axis of the data."""
    return prod(outputs[0]) * (inputs[0][2] // 3 // int(attrs["heads"]))


def _cross_scores_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    return prod(outputs[0]) * (inputs[0][2] // int(attrs["heads"]))


def values_cost(attrs: Attrs, inputs: Sizes, outputs: Sizes) -> int:
    """Count for each output one product per weighted value, the last axis of the attention."""
    return prod(outputs[0]) * inputs[1][-1]


KERNELS = with_limits(
    Limits(elements=True, positive=("heads",)),
    Kernel(
        "_contrib_interleaved_matmul_selfatt_qk", self_scores, self_scores_shapes, same_floating_dtypes, cost=self_scores_cost
    ),
    Kernel(
        "_contrib_interleaved_matmul_selfatt_valatt", self_values, self_values_shapes, same_floating_dtypes, cost=values_cost
    ),
    Kernel(
        "_contrib_interleaved_matmul_encdec_qk",
        cross_scores,
        cross_scores_shapes,
        same_floating_dtypes,
        cost=_cross_scores_cost,
    ),
    Kernel(
        "_contrib_interleaved_matmul_encdec_valatt", cross_values, cross_values_shapes, same_floating_dtypes, cost=values_cost
    ),
)


def _interleave(like: Array, heads: int, parts: list[Array | None]) -> Array:
    """Return gradients (batch * heads, length, depth), None for zeros, interleaved as in the projections ``like``."""
    length, batch, _ = like.shape
    result: Array = np.zeros((length, batch * heads, len(parts), like.shape[2] // (heads * len(parts))), like.dtype)
    for i, part in enumerate(parts):
        if part is not None:
            result[:, :, i] = part.swapaxes(0, 1)
    return result.reshape(like.shape)


def _score_gradients(queries: Array, keys: Array, dy: Array) -> tuple[Array, Array]:
    scaled = dy * dy.dtype.type(1 / sqrt(queries.shape[-1]))
    return np.matmul(scaled, keys), np.matmul(scaled.swapaxes(1, 2), queries)


def _value_gradients(attention: Array, values: Array, heads: int, dy: Array) -> tuple[Array, Array]:
    gradient = dy.reshape(dy.shape[0], -1, values.shape[-1]).swapaxes(0, 1)
    return np.matmul(gradient, values.swapaxes(1, 2)), np.matmul(attention.swapaxes(1, 2), gradient)


def self_scores_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the projections, which is that of their queries and keys."""
    (projected,), heads = entry.inputs, entry.attrs["heads"]
    queries, keys, _ = split_interleaved(entry.attrs, projected, 3)
    return _interleave(projected, heads, [*_score_gradients(queries, keys, dy), None])


def self_values_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the projections (of their values) and of the attention."""
    (projected, attention), heads = entry.inputs, entry.attrs["heads"]
    dattention, dvalues = _value_gradients(attention, split_interleaved(entry.attrs, projected, 3)[2], heads, dy)
    return [_interleave(projected, heads, [None, None, dvalues]), dattention]


def cross_scores_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the queries and of the projections of the other sequence."""
    (queries, projected), heads = entry.inputs, entry.attrs["heads"]
    dqueries, dkeys = _score_gradients(
        split_interleaved(entry.attrs, queries, 1)[0], split_interleaved(entry.attrs, projected, 2)[0], dy
    )
    return [_interleave(queries, heads, [dqueries]), _interleave(projected, heads, [dkeys, None])]


def cross_values_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the projections of the other sequence and of the attention."""
    (projected, attention), heads = entry.inputs, entry.attrs["heads"]
    dattention, dvalues = _value_gradients(attention, split_interleaved(entry.attrs, projected, 2)[1], heads, dy)
    return [_interleave(projected, heads, [None, dvalues]), dattention]


GRADIENTS = (
    Gradient("_contrib_interleaved_matmul_selfatt_qk", self_scores_gradient, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_selfatt_valatt", self_values_gradient, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_encdec_qk", cross_scores_gradient, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_encdec_valatt", cross_values_gradient, reads_outputs=False),
)
