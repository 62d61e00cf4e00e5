"""Gradients of attention products on interleaved projections."""

from __future__ import annotations

from math import sqrt

import numpy as np

from graphshare.ops.attention.kernel import split_interleaved
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry
from graphshare.ops.kernel import Array


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


def self_scores(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the projections, which is that of their queries and keys."""
    (projected,), heads = entry.inputs, entry.attrs["heads"]
    queries, keys, _ = split_interleaved(entry.attrs, projected, 3)
    return _interleave(projected, heads, [*_score_gradients(queries, keys, dy), None])


def self_values(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the projections (of their values) and of the attention."""
    (projected, attention), heads = entry.inputs, entry.attrs["heads"]
    dattention, dvalues = _value_gradients(attention, split_interleaved(entry.attrs, projected, 3)[2], heads, dy)
    return [_interleave(projected, heads, [None, None, dvalues]), dattention]


def cross_scores(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the queries and of the projections of the other sequence."""
    (queries, projected), heads = entry.inputs, entry.attrs["heads"]
    dqueries, dkeys = _score_gradients(
        split_interleaved(entry.attrs, queries, 1)[0], split_interleaved(entry.attrs, projected, 2)[0], dy
    )
    return [_interleave(queries, heads, [dqueries]), _interleave(projected, heads, [dkeys, None])]


def cross_values(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the projections of the other sequence and of the attention."""
    (projected, attention), heads = entry.inputs, entry.attrs["heads"]
    dattention, dvalues = _value_gradients(attention, split_interleaved(entry.attrs, projected, 2)[1], heads, dy)
    return [_interleave(projected, heads, [None, dvalues]), dattention]


GRADIENTS = (
    Gradient("_contrib_interleaved_matmul_selfatt_qk", self_scores, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_selfatt_valatt", self_values, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_encdec_qk", cross_scores, reads_outputs=False),
    Gradient("_contrib_interleaved_matmul_encdec_valatt", cross_values, reads_outputs=False),
)
