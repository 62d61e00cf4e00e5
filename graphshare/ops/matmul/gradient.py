"""Gradients of matrix products."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.windows import to_compute_dtype


def fully_connected(entry: TapeEntry, dy: Array) -> tuple[Array | None, ...]:
    """Return the gradients of data, weight and bias."""
    x, weight = entry.inputs[:2]
    lead = x.shape[:1] if entry.attrs["flatten"] else x.shape[:-1]
    rows = to_compute_dtype(dy).reshape(prod(lead), len(weight))
    dx = np.matmul(rows, to_compute_dtype(weight)).reshape(x.shape).astype(x.dtype, copy=False) if entry.requested[0] else None
    dw = None
    if entry.requested[1]:
        dw = np.matmul(rows.T, to_compute_dtype(x).reshape(prod(lead), weight.shape[1])).astype(weight.dtype, copy=False)
    if len(entry.inputs) == 2:
        return dx, dw
    return dx, dw, rows.sum(axis=0).astype(entry.inputs[2].dtype, copy=False)


def dot(entry: TapeEntry, dy: Array) -> tuple[Array, Array]:
    """Return the gradients of both sides: ``dy`` times the other side, summed over its remaining axes."""
    a, b = (to_compute_dtype(x) for x in entry.inputs)
    if a.ndim == b.ndim == 1:
        scalar = dy.reshape(())
        return (scalar * b).astype(entry.inputs[0].dtype), (scalar * a).astype(entry.inputs[1].dtype)
    inner_a = 0 if entry.attrs["transpose_a"] else a.ndim - 1
    inner_b = b.ndim - 1 if entry.attrs["transpose_b"] else 0
    dy = dy.reshape(*np.delete(a.shape, inner_a), *np.delete(b.shape, inner_b))
    left = a.ndim - 1
    da = np.tensordot(to_compute_dtype(dy), b, axes=(range(left, dy.ndim), [i for i in range(b.ndim) if i != inner_b]))
    db = np.tensordot(a, to_compute_dtype(dy), axes=([i for i in range(a.ndim) if i != inner_a], range(left)))
    return (
        np.moveaxis(da, -1, inner_a).astype(entry.inputs[0].dtype),
        np.moveaxis(db, 0, inner_b).astype(entry.inputs[1].dtype),
    )


def _matrix_gradients(attrs: Attrs, a: Array, b: Array, dy: Array) -> tuple[Array, Array]:
    """Return the gradients of both sides of a product over the last two axes."""
    a, b, dy = (to_compute_dtype(x) for x in (a, b, dy))
    left = np.swapaxes(a, -1, -2) if attrs["transpose_a"] else a
    right = np.swapaxes(b, -1, -2) if attrs["transpose_b"] else b
    da = np.matmul(dy, np.swapaxes(right, -1, -2))
    db = np.matmul(np.swapaxes(left, -1, -2), dy)
    return (
        np.swapaxes(da, -1, -2) if attrs["transpose_a"] else da,
        np.swapaxes(db, -1, -2) if attrs["transpose_b"] else db,
    )


def batch_dot(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return the gradients of both sides."""
    a, b = entry.inputs
    both = _matrix_gradients(entry.attrs, a, b, dy)
    return tuple(np.ascontiguousarray(g, dtype=x.dtype) for g, x in zip(both, entry.inputs, strict=True))


def gemm2(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return the gradients of both sides, with rows on ``axis``."""
    axis = entry.attrs["axis"]
    a, b, gradient = (np.moveaxis(x, axis, -2) for x in (*entry.inputs[:2], dy))
    both = _matrix_gradients(entry.attrs, a, b, gradient * gradient.dtype.type(entry.attrs["alpha"]))
    return tuple(np.ascontiguousarray(np.moveaxis(g, -2, axis), dtype=dy.dtype) for g in both)


def gemm(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return the gradients of :func:`gemm2` and of the summand."""
    return (*gemm2(entry, dy), dy * dy.dtype.type(entry.attrs["beta"]))


def div_sqrt_dim(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient scaled like the data."""
    result: Array = dy / dy.dtype.type(sqrt(dy.shape[-1]))
    return result


def khatri_rao(entry: TapeEntry, dy: Array) -> tuple[Array, ...]:
    """Return for each matrix the gradient times the product of all others, column by column."""
    matrices = entry.inputs
    rows = [len(m) for m in matrices]
    whole = dy.reshape(*rows, -1)
    gradients = []
    for i in range(len(matrices)):
        part = whole
        for j in reversed(range(len(matrices))):
            if j != i:
                shape = [1] * part.ndim
                shape[j], shape[-1] = part.shape[j], part.shape[-1]
                part = (part * matrices[j].reshape(shape)).sum(axis=j, keepdims=True)
        gradients.append(part.reshape(matrices[i].shape))
    return tuple(gradients)


GRADIENTS = (
    Gradient("FullyConnected", fully_connected, reads_outputs=False),
    Gradient("dot", dot, reads_outputs=False),
    Gradient("batch_dot", batch_dot, reads_outputs=False),
    Gradient("_linalg_gemm", gemm, reads_outputs=False),
    Gradient("_linalg_gemm2", gemm2, reads_outputs=False),
    Gradient("_contrib_div_sqrt_dim", div_sqrt_dim, reads_inputs=False, reads_outputs=False),
    Gradient("khatri_rao", khatri_rao, reads_outputs=False),
)
