"""Linear algebra on the last two axes: factors, inverses, determinants, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.kernel import Array, Attrs, Context, Dim, Kernel, KernelError, Shape, Shapes
from graphshare.ops.limits import LAPACK, Limits, with_limits
from graphshare.ops.unification import axis_of, dims_of_rank, same_dtypes, same_shapes, unify
from graphshare.ops.windows import unify_dims


def det(context: Context, attrs: Attrs, a: Array) -> tuple[Array, ...]:
    """The determinant; behind it the factors LU with their pivots, which only a gradient needs."""
    return (_numbers(np.linalg.det(a), a), np.zeros_like(a), np.zeros(a.shape[:-1], np.int32))


def slogdet(context: Context, attrs: Attrs, a: Array) -> tuple[Array, ...]:
    """The determinant's sign and the logarithm of its absolute value."""
    sign, logarithm = np.linalg.slogdet(a)
    return (_numbers(sign, a), _numbers(logarithm, a), np.zeros_like(a), np.zeros(a.shape[:-1], np.int32))


def _numbers(x: Any, a: Array) -> Array:
    """One number for each matrix; of a single matrix a shape of one axis."""
    return np.asarray(x, a.dtype).reshape(a.shape[:-2] or (1,))


def inverse(context: Context, attrs: Attrs, a: Array) -> Array:
    """The inverse.

    Raises:
        KernelError: a matrix has none.
    """
    return _solve(np.linalg.inv, a)


def potrf(context: Context, attrs: Attrs, a: Array) -> Array:
    """The Cholesky factor: L of L L^T, or U of U^T U."""
    found = _solve(np.linalg.cholesky, np.tril(a) + np.tril(a, -1).swapaxes(-1, -2) if attrs["lower"] else _from_upper(a))
    return found if attrs["lower"] else np.ascontiguousarray(found.swapaxes(-1, -2))


def _from_upper(a: Array) -> Array:
    return np.asarray(np.triu(a) + np.triu(a, 1).swapaxes(-1, -2))


def potri(context: Context, attrs: Attrs, a: Array) -> Array:
    """The inverse of the matrix of which ``a`` is the Cholesky factor."""
    factor = np.tril(a) if attrs["lower"] else np.triu(a)
    whole = factor @ factor.swapaxes(-1, -2) if attrs["lower"] else factor.swapaxes(-1, -2) @ factor
    return np.asarray(_solve(np.linalg.inv, whole.astype(np.float64)).astype(a.dtype))


def _solve(function: Callable[..., Any], *arrays: Array) -> Array:
    try:
        result: Array = function(*arrays)
    except np.linalg.LinAlgError as error:
        raise KernelError(str(error)) from None
    return result


def decomposable(a: Array) -> Array:
    """``a``, of which singular values are to be found: LAPACK may search for those of an infinite matrix without end.

    Raises:
        KernelError: some number is not finite.
    """
    if not np.isfinite(a).all():
        raise KernelError("singular values of a matrix with numbers that are not finite")
    return a


def gelqf(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """L and Q of A = L Q, the rows of Q orthonormal; LAPACK's choice of signs."""
    q, r = np.linalg.qr(a.swapaxes(-1, -2))
    return np.ascontiguousarray(q.swapaxes(-1, -2)), np.ascontiguousarray(r.swapaxes(-1, -2))


def syevd(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Eigenvectors of a symmetric matrix in rows, and eigenvalues, ascending. Of each vector the largest number is positive."""
    values, vectors = np.linalg.eigh(a)
    rows = np.ascontiguousarray(vectors.swapaxes(-1, -2))
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=-1, keepdims=True), axis=-1)
    return rows * np.where(largest < 0, -1, 1).astype(a.dtype), values


def sumlogdiag(context: Context, attrs: Attrs, a: Array) -> Array:
    """The sum of the logarithms of the diagonal."""
    with np.errstate(all="ignore"):
        return _numbers(np.log(np.diagonal(a, axis1=-2, axis2=-1)).sum(axis=-1), a)


def syrk(context: Context, attrs: Attrs, a: Array) -> Array:
    """alpha A A^T, or alpha A^T A."""
    other = a.swapaxes(-1, -2)
    product: Array = other @ a if attrs["transpose"] else a @ other
    return np.asarray(product * a.dtype.type(attrs["alpha"]))


def _triangle(attrs: Attrs, a: Array) -> Array:
    triangle = np.tril(a) if attrs["lower"] else np.triu(a)
    return triangle.swapaxes(-1, -2) if attrs["transpose"] else triangle


def trmm(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """alpha op(A) B, or alpha B op(A), of the triangle of A."""
    factor = _triangle(attrs, a)
    product: Array = b @ factor if attrs["rightside"] else factor @ b
    return np.asarray(product * b.dtype.type(attrs["alpha"]))


def trsm(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """X of op(A) X = alpha B, or X op(A) = alpha B, for the triangle of A."""
    factor, right = _triangle(attrs, a), b * b.dtype.type(attrs["alpha"])
    if attrs["rightside"]:
        found = _solve(np.linalg.solve, factor.swapaxes(-1, -2), right.swapaxes(-1, -2))
        return np.ascontiguousarray(found.swapaxes(-1, -2))
    return _solve(np.linalg.solve, factor, right)


def extractdiag(context: Context, attrs: Attrs, a: Array) -> Array:
    """The diagonal ``offset`` above the main one."""
    return np.ascontiguousarray(np.diagonal(a, attrs["offset"], -2, -1))


def makediag(context: Context, attrs: Attrs, a: Array) -> Array:
    """Matrices with ``a`` on the diagonal ``offset``, zeros elsewhere."""
    size, offset = a.shape[-1] + abs(attrs["offset"]), attrs["offset"]
    out = np.zeros((*a.shape[:-1], size, size), a.dtype)
    steps = np.arange(a.shape[-1])
    out[..., steps + max(-offset, 0), steps + max(offset, 0)] = a
    return out


def _triangle_cells(attrs: Attrs, size: int) -> tuple[Array, Array]:
    """Rows and columns of the packed triangle, in order: of a lower one row by row, of an upper one column by column."""
    offset = attrs["offset"]
    rows, columns = np.tril_indices(size, -abs(offset))
    return (rows, columns) if (attrs["lower"] if offset == 0 else offset < 0) else (columns, rows)


def extracttrian(context: Context, attrs: Attrs, a: Array) -> Array:
    """The numbers of a triangle, in a row."""
    rows, columns = _triangle_cells(attrs, a.shape[-1])
    return np.ascontiguousarray(a[..., rows, columns])


def maketrian(context: Context, attrs: Attrs, a: Array) -> Array:
    """Matrices with ``a`` in their triangle, zeros elsewhere."""
    size = _side(a.shape[-1]) + abs(attrs["offset"])
    rows, columns = _triangle_cells(attrs, size)
    out = np.zeros((*a.shape[:-1], size, size), a.dtype)
    out[..., rows, columns] = a
    return out


def _side(count: int) -> int:
    """The side of a triangle of ``count`` numbers."""
    side = int((np.sqrt(8 * count + 1) - 1) // 2)
    if side * (side + 1) // 2 != count:
        raise KernelError(f"{count} numbers are no triangle")
    return side


def _square(shape: Shape) -> tuple[Dim, ...]:
    """``shape``, of which the last two axes are alike.

    Raises:
        KernelError: they are not.
    """
    assert shape is not None
    if len(shape) < 2:
        raise KernelError(f"{len(shape)} axes where matrices are wanted")
    side = unify_dims(shape[-1], shape[-2], "columns against rows of a square matrix")
    return (*shape[:-2], side, side)


def _matrix_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    both, _ = same_shapes(attrs, inputs, outputs[:1])
    shape = None if both[0] is None else _square(both[0])
    return [shape], [shape]


def _number_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    shape = _square(inputs[0])
    number: Shape = shape[:-2] or (1,)
    wanted = [number] * max(1, len(outputs))
    return [shape], [unify(a, b) for a, b in zip(wanted, outputs, strict=True)]


def _syrk_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if shape is None:
        return inputs, outputs
    side = dims_of_rank(shape, len(shape))[-1 if attrs["transpose"] else -2] if len(shape) > 1 else None
    return inputs, [unify((*shape[:-2], side, side), outputs[0])]


def _triangular_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    a, b = inputs
    b = unify(b, outputs[0])
    if b is not None and len(b) > 1:
        side = b[-1] if attrs["rightside"] else b[-2]
        a = unify(a, (*b[:-2], side, side))
    return [a, b], [b]


def _gelqf_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    if shape is None:
        return inputs, outputs
    if len(shape) < 2 or (None not in shape[-2:] and (shape[-2] or 0) > (shape[-1] or 0)):
        raise KernelError("a matrix with more columns than rows is wanted")
    return [shape], [shape, (*shape[:-2], shape[-2], shape[-2])]


def _syevd_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (shape,), _ = _matrix_shapes(attrs, inputs, outputs)
    return [shape], outputs if shape is None else [shape, shape[:-1]]


def _packed_length(attrs: Attrs, size: Dim) -> Dim:
    if size is None:
        return None
    side: int = size - abs(attrs["offset"])
    if side <= 0:
        raise KernelError(f"offset {attrs['offset']} is outside of a matrix of side {size}")
    return side


def _extract_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    shape = _square(inputs[0])
    side = _packed_length(attrs, shape[-1])
    count = side if "lower" not in attrs or side is None else side * (side + 1) // 2
    return [shape], [unify((*shape[:-2], count), outputs[0])]


def _make_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = inputs[0]
    if not shape:
        return inputs, outputs
    axis_of(-1, len(shape))
    side = shape[-1] if "lower" not in attrs or shape[-1] is None else _side(shape[-1])
    full = None if side is None else side + abs(attrs["offset"])
    return inputs, [unify((*shape[:-1], full, full), outputs[0])]


KERNELS = with_limits(
    Limits(dtypes=LAPACK, rank=2, elements=True, finite=True),
    Kernel("_linalg_det", det, _number_shapes, same_dtypes),
    Kernel("_linalg_slogdet", slogdet, _number_shapes, same_dtypes),
    Kernel("_linalg_inverse", inverse, _matrix_shapes, same_dtypes),
    Kernel("_linalg_potrf", potrf, _matrix_shapes, same_dtypes),
    Kernel("_linalg_potri", potri, _matrix_shapes, same_dtypes),
    Kernel("_linalg_gelqf", gelqf, _gelqf_shapes, same_dtypes),
    Kernel("_linalg_syevd", syevd, _syevd_shapes, same_dtypes),
    Kernel("_linalg_sumlogdiag", sumlogdiag, _number_shapes, same_dtypes),
    Kernel("_linalg_syrk", syrk, _syrk_shapes, same_dtypes),
    Kernel("_linalg_trmm", trmm, _triangular_shapes, same_dtypes),
    Kernel("_linalg_trsm", trsm, _triangular_shapes, same_dtypes),
    Kernel("_linalg_extractdiag", extractdiag, _extract_shapes, same_dtypes),
    Kernel("_linalg_makediag", makediag, _make_shapes, same_dtypes),
    Kernel("_linalg_extracttrian", extracttrian, _extract_shapes, same_dtypes),
    Kernel("_linalg_maketrian", maketrian, _make_shapes, same_dtypes),
)
