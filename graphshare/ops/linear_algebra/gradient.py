"""Gradients of factorizations, inverses, determinants and triangles, on the last two axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.gradient import (
    Gradient,
    GradientError,
    Gradients,
    TapeEntry,
    no_gradient,
    sum_to_shape,
)
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.limits import require
from graphshare.ops.linear_algebra.kernel import triangular_factor
from graphshare.ops.linear_algebra.numpy_kernel import find_summed_axes, multiplies_by_scalar
from graphshare.ops.permutation import permutation_vjp
from graphshare.ops.unification import normalize_axis
from graphshare.ops.windows import to_compute_dtype


def _transpose(a: Array) -> Array:
    return np.asarray(a.swapaxes(-1, -2))


def _inverse_or_zeros(a: Array) -> Array:
    """Invert each matrix; as in MXNet, a determinant of 0 gives zeros."""
    singular = np.linalg.det(a) == 0
    regular = np.where(singular[..., None, None], np.eye(a.shape[-1], dtype=a.dtype), a)
    return np.asarray(np.where(singular[..., None, None], a.dtype.type(0), _inverse(regular)))


def _inverse(a: Array) -> Array:
    try:
        result: Array = np.linalg.inv(a)
    except np.linalg.LinAlgError as error:
        raise GradientError(str(error)) from None
    return result


def _mirror_lower(a: Array) -> Array:
    return np.asarray(np.tril(a) + _transpose(np.tril(a, -1)))


def _per_matrix(numbers: Array, a: Array) -> Array:
    return numbers.reshape(*a.shape[:-2], 1, 1)


def det(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` times the determinant times the transposed inverse."""
    (a,) = entry.inputs
    return np.asarray(_per_matrix(dy * entry.outputs[0], a) * _transpose(_inverse_or_zeros(a)))


def slogdet(
    entry: TapeEntry, dsign: Array, dlog: Array | None = None, *_: Array | None
) -> Array | None:
    """Return the transposed inverse times the logarithm's gradient; the sign has none."""
    (a,) = entry.inputs
    if dlog is None:
        return None
    return np.asarray(_per_matrix(dlog, a) * _transpose(_inverse_or_zeros(a)))


def inverse(entry: TapeEntry, dy: Array) -> Array:
    """Return ``-Y^T dY Y^T``."""
    y = _transpose(entry.outputs[0])
    return np.asarray(-(y @ dy @ y))


def potrf(entry: TapeEntry, dy: Array) -> Array:
    """Return the symmetric gradient, whichever triangle was read."""
    lower = entry.attrs["lower"]
    factor, gradient = (
        (entry.outputs[0], dy) if lower else (_transpose(entry.outputs[0]), _transpose(dy))
    )
    back = _inverse(factor)
    return np.asarray(
        0.5 * (_transpose(back) @ _mirror_lower(_transpose(factor) @ gradient) @ back)
    ).astype(dy.dtype, copy=False)


def potri(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the triangular factor."""
    (a,), lower = entry.inputs, entry.attrs["lower"]
    factor = np.tril(a) if lower else _transpose(np.triu(a))
    result = np.tril(-(entry.outputs[0] @ (dy + _transpose(dy)) @ _transpose(_inverse(factor))))
    return np.ascontiguousarray(result if lower else _transpose(result), dtype=a.dtype)


def sumlogdiag(entry: TapeEntry, dy: Array) -> Array:
    """Divide ``dy`` by the diagonal, as a diagonal matrix."""
    (a,) = entry.inputs
    return np.asarray(
        _per_matrix(dy, a)
        * np.eye(a.shape[-1], dtype=a.dtype)
        / np.where(np.eye(a.shape[-1]) == 1, a, 1)
    )


def syrk(entry: TapeEntry, dy: Array) -> Array:
    """Return ``alpha (dY + dY^T) A``, or ``alpha A (dY + dY^T)`` with ``transpose``."""
    (a,) = entry.inputs
    both = (dy + _transpose(dy)) * a.dtype.type(entry.attrs["alpha"])
    return np.asarray(a @ both if entry.attrs["transpose"] else both @ a)


def _triangle_gradient(attrs: Attrs, gradient: Array) -> Array:
    back = _transpose(gradient) if attrs["transpose"] else gradient
    return np.tril(back) if attrs["lower"] else np.triu(back)


def trmm(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of the triangle and B."""
    a, b = entry.inputs
    factor, scaled = triangular_factor(entry.attrs, a), dy * dy.dtype.type(entry.attrs["alpha"])
    if entry.attrs["rightside"]:
        return [
            _triangle_gradient(entry.attrs, _transpose(b) @ scaled),
            scaled @ _transpose(factor),
        ]
    return [_triangle_gradient(entry.attrs, scaled @ _transpose(b)), _transpose(factor) @ scaled]


def trsm(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of the triangle and B."""
    a, x = entry.inputs[0], entry.outputs[0]
    back = _transpose(_inverse(triangular_factor(entry.attrs, a)))
    if entry.attrs["rightside"]:
        right = dy @ back
        product = _transpose(x) @ right
    else:
        right = back @ dy
        product = right @ _transpose(x)
    return [_triangle_gradient(entry.attrs, -product), right * dy.dtype.type(entry.attrs["alpha"])]


def gelqf(entry: TapeEntry, dq: Array, dl: Array | None = None) -> Array:
    """Return the gradient through both factors."""
    q, factor = entry.outputs[:2]
    inner = -(dq @ _transpose(q)) if dl is None else _transpose(factor) @ dl - dq @ _transpose(q)
    return np.asarray(_transpose(_inverse(factor)) @ (dq + _mirror_lower(inner) @ q))


def syevd(entry: TapeEntry, dvectors: Array, dvalues: Array | None = None) -> Array:
    """Return the symmetric gradient through eigenvectors (rows) and eigenvalues."""
    vectors, values = entry.outputs[:2]
    apart = values[..., :, None] - values[..., None, :]
    same = np.eye(values.shape[-1], dtype=bool)
    mixed = np.where(same, 0, (dvectors @ _transpose(vectors)) / np.where(same, 1, apart))
    middle = (mixed + _transpose(mixed)) / 2
    if dvalues is not None:
        middle = middle + dvalues[..., None] * np.eye(values.shape[-1])
    return np.asarray(_transpose(vectors) @ middle @ vectors).astype(dvectors.dtype, copy=False)


def matmul(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both gradients; one axis is a row on the left, a column on the right."""
    a, b = entry.inputs
    left = a.reshape(1, -1) if a.ndim == 1 else a
    right = b.reshape(-1, 1) if b.ndim == 1 else b
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    gradient = dy.reshape(*shape, left.shape[-2], right.shape[-1])
    gradients = (gradient @ _transpose(right), _transpose(left) @ gradient)
    return [
        sum_to_shape(g, x.shape).reshape(y.shape)
        for g, x, y in zip(gradients, (left, right), (a, b), strict=True)
    ]


def solve(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both sides' gradients."""
    a, x = entry.inputs[0], entry.outputs[0]
    columns = x.ndim == a.ndim - 1
    gradient, solution = (dy[..., None], x[..., None]) if columns else (dy, x)
    right = _transpose(_inverse(a)) @ gradient
    return [-(right @ _transpose(solution)), right[..., 0] if columns else right]


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def contraction(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both gradients of a product that sums over axes; a scalar is a factor."""
    a, b = entry.inputs
    if multiplies_by_scalar(entry.attrs, a.ndim, b.ndim):
        return [sum_to_shape(dy * b, a.shape), sum_to_shape(dy * a, b.shape)]
    left, right = find_summed_axes(entry.attrs, a.ndim, b.ndim)
    first, second = (
        [normalize_axis(i, a.ndim) for i in left],
        [normalize_axis(i, b.ndim) for i in right],
    )
    rows, columns = (
        [i for i in range(a.ndim) if i not in first],
        [i for i in range(b.ndim) if i not in second],
    )
    gradient = to_compute_dtype(dy).reshape(
        [a.shape[i] for i in rows] + [b.shape[i] for i in columns]
    )
    count = len(rows)
    da = np.tensordot(gradient, to_compute_dtype(b), (range(count, gradient.ndim), columns))
    db = np.tensordot(to_compute_dtype(a), gradient, (rows, range(count)))
    # Remaining axes of b represent the summed axes of a, in the order of b.
    order_a = rows + [first[second.index(i)] for i in sorted(second)]
    order_b = [second[first.index(i)] for i in sorted(first)] + columns
    return [
        np.transpose(da, np.argsort(order_a)).astype(a.dtype, copy=False),
        np.transpose(db, np.argsort(order_b)).astype(b.dtype, copy=False),
    ]


def _terms(subscripts: str, arrays: Sequence[Array]) -> tuple[list[str], str]:
    """Return a letter per axis, also for axes of ``...``."""
    operands, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = operands.split(",")
    free = [letter for letter in _LETTERS if letter not in subscripts]
    ranks = [
        x.ndim - len(term.replace("...", "")) if "..." in term else 0
        for term, x in zip(terms, arrays, strict=True)
    ]
    if max(ranks) > len(free):
        raise GradientError(f"no letters are left for the axes of ... in {subscripts}")
    ellipsis = "".join(free[: max(ranks)])
    if not arrow:
        # Without an arrow, einsum returns letters that occur once, in alphabetical order.
        once = sorted(letter for letter in set(operands) - set(".,") if operands.count(letter) == 1)
        result = ("..." if "..." in operands else "") + "".join(once)
    # Axes of "..." are aligned at the last, as in broadcasting.
    named = [
        term.replace("...", ellipsis[len(ellipsis) - rank :])
        for term, rank in zip(terms, ranks, strict=True)
    ]
    return named, result.replace("...", ellipsis)


def einsum(entry: TapeEntry, dy: Array) -> Gradients:
    """Sum ``dy`` times all other arrays; repeated letters are diagonals."""
    arrays = [to_compute_dtype(x) for x in entry.inputs]
    terms, result = _terms(entry.attrs["subscripts"], arrays)
    gradients: list[Array | None] = []
    pairs = list(zip(terms, arrays, strict=True))
    for i, (term, x) in enumerate(zip(terms, entry.inputs, strict=True)):
        if not entry.requested[i]:
            gradients.append(None)
            continue
        others = [*pairs[:i], *pairs[i + 1 :]]
        gradients.append(_operand_gradient(to_compute_dtype(dy), result, others, term, x))
    return gradients


def _operand_gradient(
    dy: Array, result: str, others: Sequence[tuple[str, Array]], term: str, x: Array
) -> Array:
    sizes = dict(zip(term, x.shape, strict=True))
    known = "".join(c for c in sizes if c in result or any(c in t for t, _ in others))
    text = ",".join([result, *(t for t, _ in others)]) + "->" + known
    total = np.einsum(text, dy, *(a for _, a in others), optimize=True)
    if any(sizes[c] < size and c in result for c, size in zip(known, total.shape, strict=True)):
        raise GradientError("MXNet sums only a part of the gradient of a broadcast axis of size 1")
    total = sum_to_shape(
        total, tuple(min(sizes[c], size) for c, size in zip(known, total.shape, strict=True))
    )
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
    return np.asarray(
        -(transposed @ dy.reshape(side, -1) @ transposed).reshape(y.shape[split:] + y.shape[:split])
    )


def tensorsolve(entry: TapeEntry, dy: Array) -> Gradients:
    """Return both gradients, with the tensor as a matrix, ``a_axes`` last."""
    (a, b), x = entry.inputs, entry.outputs[0]
    last = [normalize_axis(axis, a.ndim) for axis in entry.attrs["a_axes"]]
    require(len(set(last)) == len(last), "a_axes names an axis twice")
    order = [i for i in range(a.ndim) if i not in last] + last
    ordered = a.transpose(order)
    db = np.linalg.solve(ordered.reshape(b.size, -1).T, dy.reshape(-1))
    da = -np.outer(db, x).reshape(ordered.shape).transpose(np.argsort(order))
    return [da, db.reshape(b.shape)]


def svd(
    entry: TapeEntry, dleft: Array, dvalues: Array | None = None, dright: Array | None = None
) -> Array:
    """Return the gradient; differences of values are at least MXNet's minimum."""
    left, values, right = entry.outputs
    least = 1e-30 if values.dtype == np.float32 else 1e-100
    scaled = (
        np.zeros_like(right) if dright is None else dright / np.maximum(values, least)[..., None]
    )
    inner = scaled @ right.swapaxes(-1, -2)
    diagonal = np.diagonal(inner, axis1=-2, axis2=-1)
    mixed = inner * values[..., None, :] + dleft.swapaxes(-1, -2) @ left
    upper = np.triu(np.ones(left.shape[-2:], values.dtype), 1)
    differences = np.maximum(np.abs(values[..., :, None] - values[..., None, :]), least)
    sums = np.maximum(values[..., :, None] + values[..., None, :], least)
    middle = (
        (mixed - mixed.swapaxes(-1, -2))
        * (upper - upper.T)
        / differences
        / sums
        * values[..., None, :]
    )
    slope = -diagonal if dvalues is None else dvalues - diagonal
    middle = middle + slope[..., None] * np.eye(values.shape[-1], dtype=values.dtype)
    return np.asarray(left @ (scaled + middle @ right))


GRADIENTS = (
    Gradient("_linalg_det", det),
    Gradient("_linalg_slogdet", slogdet, reads_outputs=False),
    Gradient("_linalg_inverse", inverse, reads_inputs=False),
    Gradient("_linalg_potrf", potrf, reads_inputs=False),
    Gradient("_linalg_potri", potri),
    Gradient("_linalg_sumlogdiag", sumlogdiag, reads_outputs=False),
    Gradient("_linalg_syrk", syrk, reads_outputs=False),
    Gradient("_linalg_trmm", trmm, reads_outputs=False),
    Gradient("_linalg_trsm", trsm),
    Gradient("_linalg_gelqf", gelqf, reads_inputs=False),
    Gradient("_linalg_syevd", syevd, reads_inputs=False),
    *(
        Gradient(name, permutation_vjp(name), reads_outputs=False)
        for name in (
            "_linalg_makediag",
            "_linalg_maketrian",
            "_linalg_extractdiag",
            "_linalg_extracttrian",
        )
    ),
    *(
        Gradient(name, contraction, reads_outputs=False)
        for name in ("_np_dot", "_npi_tensordot", "_npi_tensordot_int_axes")
    ),
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
