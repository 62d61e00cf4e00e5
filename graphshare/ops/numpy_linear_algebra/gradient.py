"""Gradients of the numpy interface's products, factorizations and inverses of tensors."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry, no_gradient, sum_to_shape
from graphshare.ops.kernel import Array
from graphshare.ops.limits import require
from graphshare.ops.linear_algebra.gradient import matmul, potrf, solve
from graphshare.ops.unification import axis_of
from graphshare.ops.windows import to_compute_dtype

_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _contraction_gradients(a: Array, b: Array, dy: Array, left: Sequence[int], right: Sequence[int]) -> Gradients:
    """Return the gradients of both sides of a product summed over axes ``left`` of ``a`` and ``right`` of ``b``."""
    first, second = [axis_of(i, a.ndim) for i in left], [axis_of(i, b.ndim) for i in right]
    rows, columns = [i for i in range(a.ndim) if i not in first], [i for i in range(b.ndim) if i not in second]
    gradient = to_compute_dtype(dy).reshape([a.shape[i] for i in rows] + [b.shape[i] for i in columns])
    count = len(rows)
    da = np.tensordot(gradient, to_compute_dtype(b), (range(count, gradient.ndim), columns))
    db = np.tensordot(to_compute_dtype(a), gradient, (rows, range(count)))
    order_a = rows + [first[second.index(i)] for i in sorted(second)]
    order_b = [second[first.index(i)] for i in sorted(first)] + columns
    return [
        np.transpose(da, np.argsort(order_a)).astype(a.dtype, copy=False),
        np.transpose(db, np.argsort(order_b)).astype(b.dtype, copy=False),
    ]


def dot(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides; a scalar multiplies the other side."""
    a, b = entry.inputs
    if not a.ndim or not b.ndim:
        return [sum_to_shape(dy * b, a.shape), sum_to_shape(dy * a, b.shape)]
    return _contraction_gradients(a, b, dy, [-1], [-1 if b.ndim == 1 else -2])


def tensordot(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides, summed over the axes of the attributes."""
    a, b = entry.inputs
    return _contraction_gradients(a, b, dy, entry.attrs["a_axes_summed"], entry.attrs["b_axes_summed"])


def tensordot_by_count(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides, summed over the last ``axes`` of ``a`` and the first ``axes`` of ``b``."""
    (a, b), count = entry.inputs, entry.attrs["axes"]
    if not a.ndim or not b.ndim:
        return [sum_to_shape(dy * b, a.shape), sum_to_shape(dy * a, b.shape)]
    return _contraction_gradients(a, b, dy, range(a.ndim - count, a.ndim), range(count))


def _terms(subscripts: str, arrays: Sequence[Array]) -> tuple[list[str], str]:
    """Return a letter for each axis of each array and of the result; the axes of ``...`` get letters of their own."""
    operands, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = operands.split(",")
    free = [letter for letter in _LETTERS if letter not in subscripts]
    ranks = [x.ndim - len(term.replace("...", "")) if "..." in term else 0 for term, x in zip(terms, arrays, strict=True)]
    if max(ranks) > len(free):
        raise GradientError(f"no letters are left for the axes of ... in {subscripts}")
    ellipsis = "".join(free[: max(ranks)])
    if not arrow:
        once = sorted(letter for letter in set(operands) - set(".,") if operands.count(letter) == 1)
        result = ("..." if "..." in operands else "") + "".join(once)
    # the axes of "..." are aligned at the last one, as in broadcasting
    named = [term.replace("...", ellipsis[len(ellipsis) - rank :]) for term, rank in zip(terms, ranks, strict=True)]
    return named, result.replace("...", ellipsis)


def einsum(entry: TapeEntry, dy: Array) -> Gradients:
    """Return for each array the sum of ``dy`` times all others, along a diagonal for a repeated letter."""
    arrays = [to_compute_dtype(x) for x in entry.inputs]
    terms, result = _terms(entry.attrs["subscripts"], arrays)
    gradients: list[Array | None] = []
    for i, (term, x) in enumerate(zip(terms, entry.inputs, strict=True)):
        others = [(t, a) for j, (t, a) in enumerate(zip(terms, arrays, strict=True)) if j != i]
        gradients.append(_operand_gradient(to_compute_dtype(dy), result, others, term, x) if entry.requested[i] else None)
    return gradients


def _operand_gradient(dy: Array, result: str, others: Sequence[tuple[str, Array]], term: str, x: Array) -> Array:
    """Return the gradient of one array, whose axes are those of ``term``."""
    sizes = dict(zip(term, x.shape, strict=True))
    known = "".join(c for c in sizes if c in result or any(c in t for t, _ in others))
    text = ",".join([result, *(t for t, _ in others)]) + "->" + known
    total = np.einsum(text, dy, *(a for _, a in others), optimize=True)
    if any(sizes[c] < size and c in result for c, size in zip(known, total.shape, strict=True)):
        raise GradientError("MXNet sums only a part of the gradient of an axis of 1 that is broadcast")
    total = sum_to_shape(total, tuple(min(sizes[c], size) for c, size in zip(known, total.shape, strict=True)))
    whole = total.reshape([total.shape[known.index(c)] if c in known else 1 for c in sizes])
    if len(sizes) == x.ndim:
        return np.asarray(np.broadcast_to(whole, x.shape), x.dtype)
    dx = np.zeros_like(x)
    np.einsum(f"{term}->{''.join(sizes)}", dx)[...] = whole  # a view of the diagonal
    return np.asarray(dx)


def tensorinv(entry: TapeEntry, dy: Array) -> Array:
    """Return ``-Y^T dY Y^T`` of the tensor as a matrix."""
    y = entry.outputs[0]
    if y.ndim > 6:
        raise GradientError(f"MXNet computes it for at most 6 axes, not {y.ndim}")
    split = max(0, y.ndim - entry.attrs["ind"])
    side = prod(y.shape[:split])
    transposed = y.reshape(side, -1).T
    return np.asarray(-(transposed @ dy.reshape(side, -1) @ transposed).reshape(y.shape[split:] + y.shape[:split]))


def tensorsolve(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides, of the tensor as a matrix with ``a_axes`` as its last axes."""
    (a, b), x = entry.inputs, entry.outputs[0]
    last = [axis_of(axis, a.ndim) for axis in entry.attrs["a_axes"]]
    require(len(set(last)) == len(last), "a_axes names an axis twice")
    order = [i for i in range(a.ndim) if i not in last] + last
    ordered = a.transpose(order)
    db = np.linalg.solve(ordered.reshape(b.size, -1).T, dy.reshape(-1))
    da = -np.outer(db, x).reshape(ordered.shape).transpose(np.argsort(order))
    return [da, db.reshape(b.shape)]


def svd(entry: TapeEntry, dleft: Array, dvalues: Array | None = None, dright: Array | None = None) -> Array:
    """Return the gradient from those of both factors and the values; differences of values are at least MXNet's minimum."""
    left, values, right = entry.outputs
    least = 1e-30 if values.dtype == np.float32 else 1e-100
    scaled = np.zeros_like(right) if dright is None else dright / np.maximum(values, least)[..., None]
    inner = scaled @ right.swapaxes(-1, -2)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    mixed = inner * values[..., None, :] + dleft.swapaxes(-1, -2) @ left
    upper = np.triu(np.ones(left.shape[-2:], values.dtype), 1)
    differences = np.maximum(np.abs(values[..., :, None] - values[..., None, :]), least)
    sums = np.maximum(values[..., :, None] + values[..., None, :], least)
    middle = (mixed - mixed.swapaxes(-1, -2)) * (upper - upper.T) / differences / sums * values[..., None, :]
    slope = -diagonal if dvalues is None else dvalues - diagonal
    middle = middle + slope[..., None] * np.eye(values.shape[-1], dtype=values.dtype)
    return np.asarray(left @ (scaled + middle @ right))


GRADIENTS = (
    Gradient("_np_dot", dot, reads_outputs=False),
    Gradient("_npi_tensordot", tensordot, reads_outputs=False),
    Gradient("_npi_tensordot_int_axes", tensordot_by_count, reads_outputs=False),
    Gradient("_npi_einsum", einsum, reads_outputs=False),
    Gradient("_npi_cholesky", potrf, reads_inputs=False),
    Gradient("_npi_tensorinv", tensorinv, reads_inputs=False),
    Gradient("_npi_tensorsolve", tensorsolve),
    Gradient("_npi_svd", svd, reads_inputs=False),
    *no_gradient(
        "MXNet's gradient of it is zero everywhere",
        *"_npi_eig _npi_eigh _npi_eigvals _npi_eigvalsh _npi_pinv _npi_pinv_scalar_rcond".split(),
    ),
    Gradient("_npi_matmul", matmul, reads_outputs=False),
    Gradient("_npi_solve", solve),
)
