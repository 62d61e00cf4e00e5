"""Linear algebra in ONNX: products, triangles and diagonals on the last two axes, and the products of the numpy interface."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.limits import LAPACK
from graphshare.ops.linear_algebra.elimination import cholesky, matrices, pivots, solve, unit_matrices
from graphshare.ops.linear_algebra.kernel import diagonal_cells, triangle_cells
from graphshare.ops.matmul.to_onnx import widen_factors
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import NoTranslation, Outputs, Translate, Translation, Translator, Value
from graphshare.ops.unification import axis_of


def transpose_matrices(t: Translation, x: Value | str, rank: int) -> str:
    """Return ``x`` with its last two axes exchanged."""
    return t.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def translate_syrk(t: Translation) -> str:
    """Emit the product of the matrices and their transposes, times alpha."""
    a = t.inputs[0]
    other = transpose_matrices(t, a, a.rank)
    product = t.emit("MatMul", other, a) if t.attrs["transpose"] else t.emit("MatMul", a, other)
    return (Term(t, product, a.dtype) * float(t.attrs["alpha"])).name


def triangle_of(t: Translation, a: Value, *, lower: bool) -> str:
    """Return a triangle of the matrices, zeros elsewhere."""
    inside = np.tri(a.shape[-1]).astype(bool)
    return t.emit("Where", t.constant(inside if lower else inside.T, "bool"), a, t.number(0, a.dtype))


def translate_trmm(t: Translation) -> str:
    """Emit the product with a triangle, times alpha."""
    a, b = t.inputs
    factor = triangle_of(t, a, lower=t.attrs["lower"])
    if t.attrs["transpose"]:
        factor = transpose_matrices(t, factor, a.rank)
    product = t.emit("MatMul", b, factor) if t.attrs["rightside"] else t.emit("MatMul", factor, b)
    return (Term(t, product, b.dtype) * float(t.attrs["alpha"])).name


def translate_sum_log_diagonal(t: Translation) -> str:
    """Emit the sum of the logarithms of the diagonal."""
    a = t.inputs[0]
    steps = np.arange(a.shape[-1])
    diagonal = Term(t, _take_cells(t, a, steps, steps), a.dtype)
    total = diagonal.apply("Log").reduce("ReduceSum", [a.rank - 2])
    return total.reshape(t.outputs[0].shape).name if a.rank == 2 else total.name


def translate_extract(t: Translation) -> str:
    """Emit ``Gather`` of the cells of a diagonal or triangle."""
    return _take_cells(t, t.inputs[0], *_cells_of(t, t.inputs[0].shape[-1]))


def translate_make(t: Translation) -> str:
    """Emit ``Gather`` of each cell of the matrices: one of the numbers, or a zero behind them."""
    a, size = t.inputs[0], t.outputs[0].shape[-1]
    rows, columns = _cells_of(t, size)
    places = np.full((size, size), a.shape[-1])
    places[rows, columns] = np.arange(a.shape[-1])
    none = (0,) * (a.rank - 1)
    padded = t.pad(a, (*none, 0), (*none, 1), 0, a.dtype)
    return t.emit("Gather", padded, t.constant(places, "int64"), axis=a.rank - 1)


def _cells_of(t: Translation, size: int) -> tuple[Array, Array]:
    return triangle_cells(t.attrs, size) if "lower" in t.attrs else diagonal_cells(t.attrs["offset"], size)


def _take_cells(t: Translation, a: Value, rows: Array, columns: Array) -> str:
    flat = t.reshape(a, (*a.shape[:-2], a.shape[-2] * a.shape[-1]))
    places: Sequence[int] = (rows * a.shape[-1] + columns).tolist()
    return t.emit("Gather", flat, t.integers(places), axis=a.rank - 2)


def translate_inverse(t: Translation) -> str:
    """Emit the solution of equations with the unit matrix."""
    return _invert(t, t.inputs[0])


def _invert(t: Translation, x: Value) -> str:
    a = matrices(t, x)
    return _finish(t, solve(t, a, unit_matrices(t, a)))


def translate_solve_triangular(t: Translation) -> str:
    """Emit the solution of equations with a triangle; those from the right are transposed."""
    a, b = t.inputs
    factor, right, shape = triangle_of(t, a, lower=t.attrs["lower"]), term(t, b) * float(t.attrs["alpha"]), b.shape
    if t.attrs["transpose"] != t.attrs["rightside"]:
        factor = transpose_matrices(t, factor, a.rank)
    if t.attrs["rightside"]:
        right = Term(t, transpose_matrices(t, right.name, b.rank), b.dtype)
        shape = (*b.shape[:-2], b.shape[-1], b.shape[-2])
    left = matrices(t, Value(factor, a.shape, a.dtype))
    solution = solve(t, left, matrices(t, Value(right.name, shape, b.dtype))).reshape(shape)
    if t.attrs["rightside"]:
        solution = Term(t, transpose_matrices(t, solution.name, b.rank), solution.dtype)
    return solution.cast(b.dtype).name


def translate_potri(t: Translation) -> str:
    """Emit the inverse of the product of a Cholesky factor and its transpose."""
    x = t.inputs[0]
    factor = triangle_of(t, x, lower=t.attrs["lower"])
    pair = [factor, transpose_matrices(t, factor, x.rank)]
    whole = t.emit("MatMul", *(pair if t.attrs["lower"] else pair[::-1]))
    return _invert(t, Value(whole, x.shape, x.dtype))


def translate_cholesky(t: Translation) -> str:
    """Emit the Cholesky factor; the upper one is that of the transpose, transposed."""
    x = t.inputs[0]
    if t.attrs["lower"]:
        return _finish(t, cholesky(t, matrices(t, x)))
    factor = cholesky(t, matrices(t, Value(transpose_matrices(t, x, x.rank), x.shape, x.dtype)))
    return _finish(t, Term(t, transpose_matrices(t, factor.name, 3), factor.dtype))


def translate_determinant(t: Translation) -> list[str]:
    """Emit the product of the pivots of an elimination."""
    _check_outputs(t, 1)
    return [_finish(t, pivots(t, matrices(t, t.inputs[0])).reduce("ReduceProd", [0]))]


def translate_log_determinant(t: Translation) -> list[str]:
    """Emit the product of the signs of the pivots, and the sum of the logarithms of their sizes."""
    _check_outputs(t, 2)
    found = pivots(t, matrices(t, t.inputs[0]))
    sign, logarithm = found.apply("Sign").reduce("ReduceProd", [0]), found.apply("Abs").apply("Log").reduce("ReduceSum", [0])
    return [_finish(t, sign), _finish(t, logarithm)]


def _check_outputs(t: Translation, count: int) -> None:
    if max(t.used, default=0) >= count:
        t.refuse("its factors are read, which MXNet keeps for the gradient only")


def _finish(t: Translation, x: Term) -> str:
    """Return a result of float64 in the shape and dtype of the first output."""
    return x.reshape(t.outputs[0].shape).cast(t.outputs[0].dtype).name


def _of_floats(translate: Translate) -> Translate:
    """Return a translation that refuses the dtypes that MXNet does not compute in."""

    def translate_floats(t: Translation) -> Outputs:
        if any(x.dtype not in LAPACK for x in t.inputs):
            t.refuse(f"it is of {t.inputs[0].dtype}, and MXNet computes it in {' and '.join(LAPACK)} only")
        return translate(t)

    return translate_floats


_NO_OPERATOR = "ONNX has no decomposition into orthogonal matrices"
_FLOATS = "other dtypes than float32 and float64 are refused"
_FACTORS = f"{_FLOATS}, and factors that MXNet keeps for the gradient where something reads them"


def translate_dot(t: Translation) -> str:
    """Emit the product over the last axis of the first and the last but one of the second."""
    a, b = t.inputs
    if not a.rank or not b.rank:
        return t.emit("Mul", a, b)
    return _contract(t, a, b, [-1], [-1 if b.rank == 1 else -2])


def translate_matmul(t: Translation) -> str:
    """Emit ``MatMul``, whose rules are numpy's."""
    a, b = widen_factors(t)
    return t.cast(t.emit("MatMul", a, b), t.outputs[0].dtype, a.dtype)


def translate_tensordot(t: Translation) -> str:
    """Emit the product over the axes that the attributes name."""
    a, b = t.inputs
    return _contract(t, a, b, t.attrs["a_axes_summed"], t.attrs["b_axes_summed"])


def translate_tensordot_by_count(t: Translation) -> str:
    """Emit the product over the last axes of the first and the first of the second; a side without axes is a factor."""
    (a, b), count = t.inputs, t.attrs["axes"]
    if not a.rank or not b.rank:
        return t.emit("Mul", a, b)
    return _contract(t, a, b, range(a.rank - count, a.rank), range(count))


def _contract(t: Translation, a: Value, b: Value, left: Sequence[int], right: Sequence[int]) -> str:
    """Return the product summed over axes ``left`` of ``a`` and ``right`` of ``b``, by one product of matrices."""
    first, second = [axis_of(i, a.rank) for i in left], [axis_of(i, b.rank) for i in right]
    rest_a, rest_b = ([i for i in range(x.rank) if i not in axes] for x, axes in ((a, first), (b, second)))
    a, b = widen_factors(t)
    inner = prod(a.shape[i] for i in first)
    rows = t.reshape(t.transpose(a, (*rest_a, *first)), (prod(a.shape[i] for i in rest_a), inner))
    columns = t.reshape(t.transpose(b, (*second, *rest_b)), (inner, prod(b.shape[i] for i in rest_b)))
    return t.cast(t.reshape(t.emit("MatMul", rows, columns), t.outputs[0].shape), t.outputs[0].dtype, a.dtype)


def translate_einsum(t: Translation) -> str:
    """Emit ``Einsum``."""
    return t.emit("Einsum", *t.inputs, equation=t.attrs["subscripts"])


def translate_solve(t: Translation) -> str:
    """Emit the solution of equations; a right side with an axis less is one column."""
    a, b = t.inputs
    shape = (*b.shape, 1) if b.rank == a.rank - 1 else b.shape
    if a.shape[:-2] != shape[:-2]:
        t.refuse("its sides have different batches")
    return _finish(t, solve(t, matrices(t, a), matrices(t, b, shape)))


def translate_tensorinv(t: Translation) -> str:
    """Emit the inverse of the array as a matrix, split before axis ``ind``."""
    x = t.inputs[0]
    side = prod(x.shape[: t.attrs["ind"]])
    a = matrices(t, x, (1, side, side))
    return _finish(t, solve(t, a, unit_matrices(t, a)))


def translate_tensorsolve(t: Translation) -> str:
    """Emit the solution of the equations of the array as a matrix, with ``a_axes`` at its end."""
    x, b = t.inputs
    last = [axis_of(axis, x.rank) for axis in t.attrs["a_axes"] or ()]
    order = (*(i for i in range(x.rank) if i not in last), *last)
    turned = Value(t.transpose(x, order), tuple(x.shape[i] for i in order), x.dtype)
    side = prod(b.shape)
    return _finish(t, solve(t, matrices(t, turned, (1, side, side)), matrices(t, b, (1, side, 1))))


_ACCUMULATED = "8-bit integers and booleans are refused"
_NO_SPECTRUM = "ONNX has no eigenvalues and no singular values"

TRANSLATIONS = (
    *(
        Translator(f"_linalg_{name}", _of_floats(translate), _FLOATS)
        for name, translate in (
            ("syrk", translate_syrk),
            ("trmm", translate_trmm),
            ("trsm", translate_solve_triangular),
            ("inverse", translate_inverse),
            ("potri", translate_potri),
            ("potrf", translate_cholesky),
            ("sumlogdiag", translate_sum_log_diagonal),
        )
    ),
    Translator("_linalg_det", _of_floats(translate_determinant), _FACTORS),
    Translator("_linalg_slogdet", _of_floats(translate_log_determinant), _FACTORS),
    *(Translator(f"_linalg_extract{what}", translate_extract) for what in ("diag", "trian")),
    *(Translator(f"_linalg_make{what}", translate_make) for what in ("diag", "trian")),
    *(NoTranslation(f"_linalg_{name}", _NO_OPERATOR) for name in ("gelqf", "syevd")),
    Translator("_np_dot", translate_dot, _ACCUMULATED),
    Translator("_npi_matmul", translate_matmul, _ACCUMULATED),
    Translator("_npi_tensordot", translate_tensordot, _ACCUMULATED),
    Translator("_npi_tensordot_int_axes", translate_tensordot_by_count, _ACCUMULATED),
    Translator("_npi_einsum", translate_einsum),
    Translator("_npi_cholesky", translate_cholesky),
    Translator("_npi_solve", translate_solve, "sides of different batches are refused"),
    Translator("_npi_tensorinv", translate_tensorinv),
    Translator("_npi_tensorsolve", translate_tensorsolve),
    *(NoTranslation(f"_npi_{name}", _NO_SPECTRUM) for name in "pinv pinv_scalar_rcond eigh eigvalsh eig eigvals svd".split()),
)
