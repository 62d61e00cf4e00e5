"""Gradients of factorizations, inverses, determinants and triangles, on the last two axes."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, GradientError, Gradients, TapeEntry, sum_to_shape
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.linear_algebra.kernel import triangular_factor
from graphshare.ops.permutation import permutation_vjp


def _transpose(a: Array) -> Array:
    return np.asarray(a.swapaxes(-1, -2))


def _inverse_or_zeros(a: Array) -> Array:
    """Return the inverse of each matrix; zeros for one whose determinant is 0, as in MXNet."""
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
    """Return the symmetric matrix with the lower triangle of ``a``."""
    return np.asarray(np.tril(a) + _transpose(np.tril(a, -1)))


def _per_matrix(numbers: Array, a: Array) -> Array:
    """Return one number for each matrix, in a shape that broadcasts with ``a``."""
    return numbers.reshape(*a.shape[:-2], 1, 1)


def det(entry: TapeEntry, dy: Array, *_: Array | None) -> Array:
    """Return ``dy`` times the determinant times the transposed inverse."""
    (a,) = entry.inputs
    return np.asarray(_per_matrix(dy * entry.outputs[0], a) * _transpose(_inverse_or_zeros(a)))


def slogdet(entry: TapeEntry, dsign: Array, dlog: Array | None = None, *_: Array | None) -> Array | None:
    """Return the transposed inverse times the gradient of the logarithm; the sign has none."""
    (a,) = entry.inputs
    return None if dlog is None else np.asarray(_per_matrix(dlog, a) * _transpose(_inverse_or_zeros(a)))


def inverse(entry: TapeEntry, dy: Array) -> Array:
    """Return ``-Y^T dY Y^T``."""
    y = _transpose(entry.outputs[0])
    return np.asarray(-(y @ dy @ y))


def potrf(entry: TapeEntry, dy: Array) -> Array:
    """Return the symmetric gradient of the matrix, whichever triangle was read."""
    lower = entry.attrs["lower"]
    factor, gradient = (entry.outputs[0], dy) if lower else (_transpose(entry.outputs[0]), _transpose(dy))
    back = _inverse(factor)
    return np.asarray(0.5 * (_transpose(back) @ _mirror_lower(_transpose(factor) @ gradient) @ back)).astype(
        dy.dtype, copy=False
    )


def potri(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the triangular factor."""
    (a,), lower = entry.inputs, entry.attrs["lower"]
    factor = np.tril(a) if lower else _transpose(np.triu(a))
    result = np.tril(-(entry.outputs[0] @ (dy + _transpose(dy)) @ _transpose(_inverse(factor))))
    return np.ascontiguousarray(result if lower else _transpose(result), dtype=a.dtype)


def sumlogdiag(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` divided by the diagonal, as a diagonal matrix."""
    (a,) = entry.inputs
    return np.asarray(_per_matrix(dy, a) * np.eye(a.shape[-1], dtype=a.dtype) / np.where(np.eye(a.shape[-1]) == 1, a, 1))


def syrk(entry: TapeEntry, dy: Array) -> Array:
    """Return ``alpha (dY + dY^T) A``, or ``alpha A (dY + dY^T)`` with ``transpose``."""
    (a,) = entry.inputs
    both = (dy + _transpose(dy)) * a.dtype.type(entry.attrs["alpha"])
    return np.asarray(a @ both if entry.attrs["transpose"] else both @ a)


def _triangle_gradient(attrs: Attrs, gradient: Array) -> Array:
    """Return the gradient of the triangle of A from that of op(A)."""
    back = _transpose(gradient) if attrs["transpose"] else gradient
    return np.tril(back) if attrs["lower"] else np.triu(back)


def trmm(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the triangle and of B."""
    a, b = entry.inputs
    factor, scaled = triangular_factor(entry.attrs, a), dy * dy.dtype.type(entry.attrs["alpha"])
    if entry.attrs["rightside"]:
        return [_triangle_gradient(entry.attrs, _transpose(b) @ scaled), scaled @ _transpose(factor)]
    return [_triangle_gradient(entry.attrs, scaled @ _transpose(b)), _transpose(factor) @ scaled]


def trsm(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of the triangle and of B."""
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
    """Return the gradient of the matrix from those of both factors."""
    q, factor = entry.outputs[:2]
    inner = -(dq @ _transpose(q)) if dl is None else _transpose(factor) @ dl - dq @ _transpose(q)
    return np.asarray(_transpose(_inverse(factor)) @ (dq + _mirror_lower(inner) @ q))


def syevd(entry: TapeEntry, dvectors: Array, dvalues: Array | None = None) -> Array:
    """Return the symmetric gradient of the matrix from those of eigenvectors (rows) and eigenvalues."""
    vectors, values = entry.outputs[:2]
    apart = values[..., :, None] - values[..., None, :]
    same = np.eye(values.shape[-1], dtype=bool)
    mixed = np.where(same, 0, (dvectors @ _transpose(vectors)) / np.where(same, 1, apart))
    middle = (mixed + _transpose(mixed)) / 2
    if dvalues is not None:
        middle = middle + dvalues[..., None] * np.eye(values.shape[-1])
    return np.asarray(_transpose(vectors) @ middle @ vectors).astype(dvectors.dtype, copy=False)


def matmul(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides; one axis is a row on the left, a column on the right."""
    a, b = entry.inputs
    left = a.reshape(1, -1) if a.ndim == 1 else a
    right = b.reshape(-1, 1) if b.ndim == 1 else b
    shape = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    gradient = dy.reshape(*shape, left.shape[-2], right.shape[-1])
    gradients = (gradient @ _transpose(right), _transpose(left) @ gradient)
    return [sum_to_shape(g, x.shape).reshape(y.shape) for g, x, y in zip(gradients, (left, right), (a, b), strict=True)]


def solve(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradients of both sides."""
    a, x = entry.inputs[0], entry.outputs[0]
    columns = x.ndim == a.ndim - 1
    gradient, solution = (dy[..., None], x[..., None]) if columns else (dy, x)
    right = _transpose(_inverse(a)) @ gradient
    return [-(right @ _transpose(solution)), right[..., 0] if columns else right]


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
        for name in ("_linalg_makediag", "_linalg_maketrian", "_linalg_extractdiag", "_linalg_extracttrian")
    ),
)
