"""Gradients of the numpy interface's products, factors and inverses of tensors."""

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
    """Of both sides of a product that is summed over the axes ``left`` of the first and ``right`` of the second."""
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
    """Of both sides; a number scales the other side."""
    a, b = entry.inputs
    if not a.ndim or not b.ndim:
        return [sum_to_shape(dy * b, a.shape), sum_to_shape(dy * a, b.shape)]
    return _contraction_gradients(a, b, dy, [-1], [-1 if b.ndim == 1 else -2])


def tensordot(entry: TapeEntry, dy: Array) -> Gradients:
    """Of both sides, over the axes that are named."""
    a, b = entry.inputs
    return _contraction_gradients(a, b, dy, entry.attrs["a_axes_summed"], entry.attrs["b_axes_summed"])


def tensordot_by_count(entry: TapeEntry, dy: Array) -> Gradients:
    """Of both sides, over so many last axes of the first and first axes of the second."""
    (a, b), count = entry.inputs, entry.attrs["axes"]
    if not a.ndim or not b.ndim:
        return [sum_to_shape(dy * b, a.shape), sum_to_shape(dy * a, b.shape)]
    return _contraction_gradients(a, b, dy, range(a.ndim - count, a.ndim), range(count))


def _terms(subscripts: str, arrays: Sequence[Array]) -> tuple[list[str], str]:
    """A letter for each axis of each array and of the result; those that ``...`` stands for get letters of their own."""
    given, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    free = [letter for letter in _LETTERS if letter not in subscripts]
    ranks = [x.ndim - len(term.replace("...", "")) if "..." in term else 0 for term, x in zip(terms, arrays, strict=True)]
    if max(ranks) > len(free):
        raise GradientError(f"no letters are left for the axes of ... in {subscripts}")
    spread = "".join(free[: max(ranks)])
    if not arrow:
        once = sorted(letter for letter in set(given) - set(".,") if given.count(letter) == 1)
        result = ("..." if "..." in given else "") + "".join(once)
    # of "..." the last axes are common, as in broadcasting
    named = [term.replace("...", spread[len(spread) - rank :]) for term, rank in zip(terms, ranks, strict=True)]
    return named, result.replace("...", spread)


def einsum(entry: TapeEntry, dy: Array) -> Gradients:
    """Of every array the sum of the result's gradient against all others; along a diagonal for a letter that is repeated."""
    arrays = [to_compute_dtype(x) for x in entry.inputs]
    terms, result = _terms(entry.attrs["subscripts"], arrays)
    found: list[Array | None] = []
    for i, (term, x) in enumerate(zip(terms, entry.inputs, strict=True)):
        others = [(t, a) for j, (t, a) in enumerate(zip(terms, arrays, strict=True)) if j != i]
        found.append(_against(to_compute_dtype(dy), result, others, term, x) if entry.requested[i] else None)
    return found


def _against(dy: Array, result: str, others: Sequence[tuple[str, Array]], term: str, x: Array) -> Array:
    """The gradient of one array, whose axes are those of ``term``."""
    sizes = dict(zip(term, x.shape, strict=True))
    known = "".join(c for c in sizes if c in result or any(c in t for t, _ in others))
    text = ",".join([result, *(t for t, _ in others)]) + "->" + known
    total = np.einsum(text, dy, *(a for _, a in others), optimize=True)
    if any(sizes[c] < size and c in result for c, size in zip(known, total.shape, strict=True)):
        raise GradientError("an axis of 1 was stretched, of which MXNet adds up only a part")
    total = sum_to_shape(total, tuple(min(sizes[c], size) for c, size in zip(known, total.shape, strict=True)))
    whole = total.reshape([total.shape[known.index(c)] if c in known else 1 for c in sizes])
    if len(sizes) == x.ndim:
        return np.asarray(np.broadcast_to(whole, x.shape), x.dtype)
    dx = np.zeros_like(x)
    np.einsum(f"{term}->{''.join(sizes)}", dx)[...] = whole  # a view of the diagonal
    return np.asarray(dx)


def tensorinv(entry: TapeEntry, dy: Array) -> Array:
    """``-Y^T dY Y^T`` of the tensor as a matrix."""
    y = entry.outputs[0]
    if y.ndim > 6:
        raise GradientError(f"MXNet has it for 6 axes at most, and these are {y.ndim}")
    split = max(0, y.ndim - entry.attrs["ind"])
    side = prod(y.shape[:split])
    turned = y.reshape(side, -1).T
    return np.asarray(-(turned @ dy.reshape(side, -1) @ turned).reshape(y.shape[split:] + y.shape[:split]))


def tensorsolve(entry: TapeEntry, dy: Array) -> Gradients:
    """Of both sides, of the tensor as a matrix once ``a_axes`` are its last."""
    (a, b), x = entry.inputs, entry.outputs[0]
    moved = [axis_of(axis, a.ndim) for axis in entry.attrs["a_axes"]]
    require(len(set(moved)) == len(moved), "a_axes names an axis twice")
    order = [i for i in range(a.ndim) if i not in moved] + moved
    ordered = a.transpose(order)
    db = np.linalg.solve(ordered.reshape(b.size, -1).T, dy.reshape(-1))
    da = -np.outer(db, x).reshape(ordered.shape).transpose(np.argsort(order))
    return [da, db.reshape(b.shape)]


def svd(entry: TapeEntry, dleft: Array, dvalues: Array | None = None, dright: Array | None = None) -> Array:
    """Of both factors and the values together; equal values are held apart by the least number MXNet knows."""
    left, values, right = entry.outputs
    least = 1e-30 if values.dtype == np.float32 else 1e-100
    divided = np.zeros_like(right) if dright is None else dright / np.maximum(values, least)[..., None]
    inner = divided @ right.swapaxes(-1, -2)
    along = np.diagonal(inner, axis1=-2, axis2=-1)
    mixed = inner * values[..., None, :] + dleft.swapaxes(-1, -2) @ left
    falling = np.triu(np.ones(left.shape[-2:], values.dtype), 1)
    apart = np.maximum(np.abs(values[..., :, None] - values[..., None, :]), least)
    both = np.maximum(values[..., :, None] + values[..., None, :], least)
    middle = (mixed - mixed.swapaxes(-1, -2)) * (falling - falling.T) / apart / both * values[..., None, :]
    slope = -along if dvalues is None else dvalues - along
    middle = middle + slope[..., None] * np.eye(values.shape[-1], dtype=values.dtype)
    return np.asarray(left @ (divided + middle @ right))


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
