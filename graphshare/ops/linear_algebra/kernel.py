"""Linear algebra on the last two axes: factorizations, inverses, determinants, triangles."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.kernel import (
    NP_SHAPE,
    Array,
    Attrs,
    Context,
    Dim,
    Dims,
    Kernel,
    KernelError,
    Shape,
    Shapes,
)
from graphshare.ops.limits import LAPACK, Limits, require, with_limits
from graphshare.ops.unification import exceeds, output_rule, same_dtypes, same_shapes, unify
from graphshare.ops.windows import unify_dims
from graphshare.text.format import format_count, format_shape


def det(context: Context, attrs: Attrs, a: Array) -> tuple[Array, ...]:
    """Return the determinant, and zeros for MXNet's LU factors and pivots."""
    return (
        _numbers(context, np.linalg.det(a), a),
        np.zeros_like(a),
        np.zeros(a.shape[:-1], np.int32),
    )


def slogdet(context: Context, attrs: Attrs, a: Array) -> tuple[Array, ...]:
    """Return sign and logarithm of the absolute determinant, then zeros as :func:`det`."""
    sign, logarithm = np.linalg.slogdet(a)
    return (
        _numbers(context, sign, a),
        _numbers(context, logarithm, a),
        np.zeros_like(a),
        np.zeros(a.shape[:-1], np.int32),
    )


def _numbers(context: Context, x: Any, a: Array) -> Array:
    """A single number has shape (1), or () if inferred."""
    single = () if context.shapes and context.shapes[0] == () else (1,)
    return np.asarray(x, a.dtype).reshape(a.shape[:-2] or single)


def inverse(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return the inverse.

    Raises:
        KernelError: a matrix is singular.
    """
    return np.asarray(_call_lapack(np.linalg.inv, a))


def potrf(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return the Cholesky factor: L of L L^T, or U of U^T U."""
    lower, upper = (np.tril(a), np.tril(a, -1)) if attrs["lower"] else (np.triu(a), np.triu(a, 1))
    factor = _call_lapack(np.linalg.cholesky, lower + upper.swapaxes(-1, -2))
    return factor if attrs["lower"] else np.ascontiguousarray(factor.swapaxes(-1, -2))


def potri(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return the inverse of the matrix with Cholesky factor ``a``."""
    factor = np.tril(a) if attrs["lower"] else np.triu(a)
    whole = factor @ factor.swapaxes(-1, -2) if attrs["lower"] else factor.swapaxes(-1, -2) @ factor
    # The product squares the factor's condition: float32 would lose twice as many digits.
    return np.asarray(_call_lapack(np.linalg.inv, whole.astype(np.float64)).astype(a.dtype))


def _call_lapack(function: Callable[..., Any], *arrays: Array) -> Any:
    require_lapack(*arrays)
    try:
        results = function(*arrays)
    except np.linalg.LinAlgError as error:
        raise KernelError(str(error)) from None
    # Without elements MXNet takes any dtype; numpy makes it float64.
    dtype = arrays[-1].dtype
    return (
        tuple(x.astype(dtype, copy=False) for x in results)
        if isinstance(results, tuple)
        else results.astype(dtype, copy=False)
    )


def require_lapack(*arrays: Array) -> None:
    """Refuse nonempty arrays of dtypes that LAPACK lacks."""
    for x in arrays:
        require(
            str(x.dtype) in LAPACK or not x.size,
            f"{x.dtype} is not supported, expected {' or '.join(LAPACK)}",
        )


def check_finite(a: Array) -> Array:
    """Return ``a`` if finite: LAPACK may iterate forever on infinite matrices.

    Raises:
        KernelError: some number is not finite.
    """
    require(np.isfinite(a).all(), "the matrix has numbers that are not finite")
    return a


def gelqf(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Return Q (orthonormal rows) and L of A = L Q, with LAPACK's signs."""
    q, r = _call_lapack(np.linalg.qr, a.swapaxes(-1, -2))
    return np.ascontiguousarray(q.swapaxes(-1, -2)), np.ascontiguousarray(r.swapaxes(-1, -2))


def syevd(context: Context, attrs: Attrs, a: Array) -> tuple[Array, Array]:
    """Return eigenvectors (rows, largest number positive) and ascending eigenvalues."""
    values, vectors = _call_lapack(np.linalg.eigh, a)
    rows = np.ascontiguousarray(vectors.swapaxes(-1, -2))
    largest = np.take_along_axis(rows, np.abs(rows).argmax(axis=-1, keepdims=True), axis=-1)
    return rows * np.where(largest < 0, -1, 1).astype(a.dtype), values


def sumlogdiag(context: Context, attrs: Attrs, a: Array) -> Array:
    """Sum the logarithms of the diagonal."""
    with np.errstate(all="ignore"):
        return _numbers(context, np.log(np.diagonal(a, axis1=-2, axis2=-1)).sum(axis=-1), a)


def syrk(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return alpha A A^T, or alpha A^T A with ``transpose``."""
    other = a.swapaxes(-1, -2)
    product: Array = other @ a if attrs["transpose"] else a @ other
    return np.asarray(product * a.dtype.type(attrs["alpha"]))


def triangular_factor(attrs: Attrs, a: Array) -> Array:
    """Return op(A): the triangle, transposed if ``transpose``."""
    triangle = np.tril(a) if attrs["lower"] else np.triu(a)
    return triangle.swapaxes(-1, -2) if attrs["transpose"] else triangle


def trmm(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return alpha op(A) B, or alpha B op(A)."""
    factor = triangular_factor(attrs, a)
    product: Array = b @ factor if attrs["rightside"] else factor @ b
    return np.asarray(product * b.dtype.type(attrs["alpha"]))


def trsm(context: Context, attrs: Attrs, a: Array, b: Array) -> Array:
    """Return X of op(A) X = alpha B, or X op(A) = alpha B."""
    factor, right = triangular_factor(attrs, a), b * b.dtype.type(attrs["alpha"])
    if attrs["rightside"]:
        solution = _call_lapack(np.linalg.solve, factor.swapaxes(-1, -2), right.swapaxes(-1, -2))
        return np.ascontiguousarray(solution.swapaxes(-1, -2))
    return np.asarray(_call_lapack(np.linalg.solve, factor, right))


def extractdiag(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return the diagonal ``offset`` above the main one."""
    return np.ascontiguousarray(np.diagonal(a, attrs["offset"], -2, -1))


def makediag(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return matrices with ``a`` on diagonal ``offset``, else 0."""
    size = a.shape[-1] + abs(attrs["offset"])
    out = np.zeros((*a.shape[:-1], size, size), a.dtype)
    rows, columns = diagonal_cells(attrs["offset"], size)
    out[..., rows, columns] = a
    return out


def diagonal_cells(offset: int, size: int) -> tuple[Array, Array]:
    """Return rows and columns of diagonal ``offset``."""
    steps = np.arange(size - abs(offset))
    return steps + max(-offset, 0), steps + max(offset, 0)


def triangle_cells(attrs: Attrs, size: int) -> tuple[Array, Array]:
    """Return rows and columns of the packed triangle: lower by rows, upper by columns."""
    offset = attrs["offset"]
    rows, columns = np.tril_indices(size, -abs(offset))
    # Beside the main diagonal the offset's sign chooses the triangle, not ``lower``.
    is_lower = attrs["lower"] if offset == 0 else offset < 0
    return (rows, columns) if is_lower else (columns, rows)


def extracttrian(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return a triangle, packed."""
    rows, columns = triangle_cells(attrs, a.shape[-1])
    return np.ascontiguousarray(a[..., rows, columns])


def maketrian(context: Context, attrs: Attrs, a: Array) -> Array:
    """Return matrices with ``a`` in their triangle, else 0."""
    size = _side(a.shape[-1]) + abs(attrs["offset"])
    rows, columns = triangle_cells(attrs, size)
    out = np.zeros((*a.shape[:-1], size, size), a.dtype)
    out[..., rows, columns] = a
    return out


def _side(count: int) -> int:
    side = int((np.sqrt(8 * count + 1) - 1) // 2)
    if side * (side + 1) // 2 != count:
        raise KernelError(f"{format_count(count, 'number')} cannot form a triangle")
    return side


def square(shape: Dims) -> Dims:
    """Unify the last two axes.

    Raises:
        KernelError: they differ.
    """
    require(len(shape) >= 2, f"matrices have at least 2 axes, not {len(shape)}")
    side = unify_dims(shape[-1], shape[-2], "columns against rows of a square matrix")
    return (*shape[:-2], side, side)


def infer_matrix_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """Infer one shape for square matrices and their results."""
    both, _ = same_shapes(attrs, inputs, outputs[:1])
    shape = None if both[0] is None else square(both[0])
    return [shape], [shape]


def _infer_number_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    shape = square(inputs[0])
    single: Shape = () if attrs.get(NP_SHAPE) else (1,)
    return [shape], [unify(shape[:-2] or single, output) for output in outputs]


def _infer_sum_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    """A single number has shape (1), also under NumPy shapes."""
    return _infer_number_shapes({**attrs, NP_SHAPE: False}, inputs, outputs)


def _syrk_shape(attrs: Attrs, shape: Dims) -> Shape:
    side = shape[-1 if attrs["transpose"] else -2] if len(shape) > 1 else None
    return (*shape[:-2], side, side)


def _infer_triangular_shapes(
    attrs: Attrs, inputs: Shapes, outputs: Shapes
) -> tuple[Shapes, Shapes]:
    a, b = inputs
    b = unify(b, outputs[0])
    if b is None:
        return [a, b], [b]
    require(len(b) >= 2, f"{format_shape(b)} has {format_count(len(b), 'axis')}, expected matrices")
    side = b[-1] if attrs["rightside"] else b[-2]
    return [unify(a, (*b[:-2], side, side)), b], [b]


def _infer_gelqf_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    shape = unify(inputs[0], outputs[0])
    if shape is None:
        return inputs, outputs
    problem = "the matrix has more rows than columns"
    require(len(shape) >= 2, problem)
    rows, columns = shape[-2:]
    require(not exceeds(rows, columns), problem)
    return [shape], [shape, (*shape[:-2], rows, rows)]


def _infer_syevd_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    (shape,), _ = infer_matrix_shapes(attrs, inputs, outputs)
    return [shape], outputs if shape is None else [shape, shape[:-1]]


def _side_without_offset(attrs: Attrs, size: Dim) -> Dim:
    if size is None:
        return None
    side: int = size - abs(attrs["offset"])
    if side <= 0:
        raise KernelError(f"offset {attrs['offset']} is outside a matrix of side {size}")
    return side


def _infer_extract_shapes(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    if inputs[0] is None:
        return inputs, outputs
    shape = square(inputs[0])
    side = _side_without_offset(attrs, shape[-1])
    count = side if "lower" not in attrs or side is None else side * (side + 1) // 2
    return [shape], [unify((*shape[:-2], count), outputs[0])]


def _make_shape(attrs: Attrs, shape: Dims) -> Shape:
    if not shape:
        return None
    side = shape[-1] if "lower" not in attrs or shape[-1] is None else _side(shape[-1])
    full = None if side is None else side + abs(attrs["offset"])
    return (*shape[:-1], full, full)


KERNELS = with_limits(
    Limits(dtypes=LAPACK, rank=2, elements=True, finite=True),
    Kernel("_linalg_det", det, _infer_number_shapes, same_dtypes),
    Kernel("_linalg_slogdet", slogdet, _infer_number_shapes, same_dtypes),
    Kernel("_linalg_inverse", inverse, infer_matrix_shapes, same_dtypes),
    Kernel("_linalg_potrf", potrf, infer_matrix_shapes, same_dtypes),
    Kernel("_linalg_potri", potri, infer_matrix_shapes, same_dtypes),
    Kernel("_linalg_gelqf", gelqf, _infer_gelqf_shapes, same_dtypes),
    Kernel("_linalg_syevd", syevd, _infer_syevd_shapes, same_dtypes),
    Kernel("_linalg_sumlogdiag", sumlogdiag, _infer_sum_shapes, same_dtypes),
    Kernel("_linalg_syrk", syrk, output_rule(_syrk_shape), same_dtypes),
    Kernel("_linalg_trmm", trmm, _infer_triangular_shapes, same_dtypes),
    Kernel("_linalg_trsm", trsm, _infer_triangular_shapes, same_dtypes),
    Kernel("_linalg_extractdiag", extractdiag, _infer_extract_shapes, same_dtypes),
    Kernel("_linalg_makediag", makediag, output_rule(_make_shape), same_dtypes),
    Kernel("_linalg_extracttrian", extracttrian, _infer_extract_shapes, same_dtypes),
    Kernel("_linalg_maketrian", maketrian, output_rule(_make_shape), same_dtypes),
)
