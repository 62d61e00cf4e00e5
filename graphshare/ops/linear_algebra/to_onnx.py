"""Linear algebra in ONNX.

ONNX lacks solvers, determinants and Cholesky factors: these are ``Scan`` over columns in float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.kernel import Array
from graphshare.ops.limits import LAPACK
from graphshare.ops.linear_algebra.kernel import diagonal_cells, triangle_cells
from graphshare.ops.linear_algebra.numpy_kernel import find_summed_axes, multiplies_by_scalar
from graphshare.ops.matmul.to_onnx import widen_factors
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import (
    NoTranslation,
    Outputs,
    Translate,
    Translation,
    Translator,
    Value,
)
from graphshare.ops.unification import normalize_axis


class Matrices(NamedTuple):
    """Matrices (batch, rows, columns) of float64."""

    term: Term
    shape: tuple[int, int, int]

    @property
    def value(self) -> Value:
        return Value(self.term.name, self.shape, "float64")


def matrices(t: Translation, x: Value, shape: Sequence[int] = ()) -> Matrices:
    """Return ``x``, perhaps reshaped to ``shape``, as a batch of float64 matrices."""
    *lead, rows, columns = shape or x.shape
    whole = (prod(lead), rows, columns)
    wide = Term(t, t.cast(x, "float64"), "float64")
    return Matrices(wide if x.shape == whole else wide.reshape(whole), whole)


def unit_matrices(t: Translation, like: Matrices) -> Matrices:
    """Return a unit matrix for each matrix."""
    one = Term(t, t.constant(np.eye(like.shape[1]), "float64"), "float64")
    return Matrices(one.expand(like.shape), like.shape)


def solve(t: Translation, a: Matrices, b: Matrices) -> Term:
    """Return X of A X = B by elimination with pivots; NaN or infinite if A is singular."""
    (batch, n, _), columns = a.shape, b.shape[2]
    both = Value(
        t.emit("Concat", a.term.name, b.term.name, axis=2), (batch, n, n + columns), "float64"
    )

    def step(inputs: Sequence[Value]) -> list[Value]:
        state, number = inputs
        rows, _ = _eliminate(t, state, number, stop_at_zero=False)
        return [rows]

    (reduced,) = _scan(t, n, [both], step)
    return Term(t, t.emit("Slice", reduced, *map(t.integers, ([n], [n + columns], [2]))), "float64")


def pivots(t: Translation, a: Matrices) -> Term:
    """Return pivots (rows, batch, 1), whose product is the determinant.

    Exchanging rows changes a sign.
    """

    def step(inputs: Sequence[Value]) -> list[Value]:
        return list(_eliminate(t, *inputs, stop_at_zero=True))

    return Term(t, _scan(t, a.shape[1], [a.value], step)[1], "float64")


def cholesky(t: Translation, a: Matrices) -> Term:
    """Return L of A = L L^T from A's lower triangle; NaN if A is not positive definite."""
    batch, n, _ = a.shape
    rows = Term(t, t.integers(range(n)), "int64")

    def step(inputs: Sequence[Value]) -> list[Value]:
        factor, k = Term(t, inputs[0].name, "float64"), Term(t, inputs[1].name, "int64")
        # Columns from k on are still zeros.
        done = factor.apply(
            "MatMul", factor.apply("Gather", k, axis=1).reshape((batch, n, 1))
        ).reshape((batch, n))
        column = a.term.apply("Gather", k, axis=2) - done
        corner = column.apply("Gather", k, axis=1).apply("Sqrt").reshape((batch, 1))
        lower = (rows < k).choose(0.0, column / corner).reshape((batch, n, 1))
        return [Value(rows.equals(k).choose(lower, factor).name, a.shape, "float64")]

    begin = Term(t, t.number(0, "float64"), "float64").expand(a.shape)
    return Term(t, _scan(t, n, [Value(begin.name, a.shape, "float64")], step)[0], "float64")


def _scan(
    t: Translation,
    count: int,
    states: Sequence[Value],
    step: Callable[[Sequence[Value]], Sequence[Value]],
) -> list[str]:
    """Scan the numbers below ``count``; return last states, then further outputs."""
    body = t.body(
        [*(Value("state", x.shape, x.dtype) for x in states), Value("number", (), "int64")], step
    )
    return t.emit_several(
        "Scan", len(body.heads), *states, t.integers(range(count)), body=body, num_scan_inputs=1
    )


def _eliminate(
    t: Translation, state: Value, number: Value, *, stop_at_zero: bool
) -> tuple[Value, Value]:
    """Eliminate column ``number``; return the rows and the pivot (batch, 1).

    The pivot is the column's largest number. With ``stop_at_zero`` a column of zeros stays.
    """
    batch, n, width = state.shape
    rows = Term(t, t.integers(range(n)), "int64")
    k = Term(t, number.name, "int64")

    def take(x: Term, axis: int) -> Term:
        return x.apply("Gather", k, axis=axis)

    column = take(Term(t, state.name, "float64"), 2)
    # Rows above the pivot are done: -1 is below every absolute value.
    best = (
        (rows < k)
        .choose(-1.0, column.apply("Abs"))
        .apply("ArgMax", dtype="int64", axis=1, keepdims=1)
    )
    order = rows.equals(k).choose(best, rows.equals(best).choose(k, rows))
    places = t.emit("Unsqueeze", order.name, t.integers([2]))
    swapped = Term(t, t.emit("GatherND", state.name, places, batch_dims=1), "float64")
    top = take(swapped, 1)
    pivot = take(top, 1).reshape((batch, 1))
    # A determinant of 0 is valid; equations of a singular matrix have no solution.
    line = top / (pivot.equals(0).choose(1.0, pivot) if stop_at_zero else pivot)
    line = line.reshape((batch, 1, width))
    reduced = swapped - take(swapped, 2).reshape((batch, n, 1)) * line
    rest = rows.reshape((n, 1)).equals(k).choose(line, reduced)
    signed = best.equals(k).choose(pivot, -pivot)
    return Value(rest.name, state.shape, "float64"), Value(signed.name, (batch, 1), "float64")


def transpose_matrices(t: Translation, x: Value | str, rank: int) -> str:
    """Exchange the last two axes of ``x``."""
    return t.transpose(x, (*range(rank - 2), rank - 1, rank - 2))


def translate_syrk(t: Translation) -> str:
    """Emit the product of matrices and their transposes, times alpha."""
    a = t.inputs[0]
    other = transpose_matrices(t, a, a.rank)
    product = t.emit("MatMul", other, a) if t.attrs["transpose"] else t.emit("MatMul", a, other)
    return (Term(t, product, a.dtype) * float(t.attrs["alpha"])).name


def take_triangle(t: Translation, a: Value, *, lower: bool) -> str:
    """Return a triangle, else 0."""
    inside = np.tri(a.shape[-1]).astype(bool)
    return t.emit(
        "Where", t.constant(inside if lower else inside.T, "bool"), a, t.number(0, a.dtype)
    )


def translate_trmm(t: Translation) -> str:
    """Emit the product with a triangle, times alpha."""
    a, b = t.inputs
    factor = take_triangle(t, a, lower=t.attrs["lower"])
    if t.attrs["transpose"]:
        factor = transpose_matrices(t, factor, a.rank)
    product = t.emit("MatMul", b, factor) if t.attrs["rightside"] else t.emit("MatMul", factor, b)
    return (Term(t, product, b.dtype) * float(t.attrs["alpha"])).name


def translate_sum_log_diagonal(t: Translation) -> str:
    """Emit the sum of the diagonal's logarithms."""
    a = t.inputs[0]
    steps = np.arange(a.shape[-1])
    diagonal = Term(t, _take_cells(t, a, steps, steps), a.dtype)
    total = diagonal.apply("Log").reduce("ReduceSum", [a.rank - 2])
    return total.reshape(t.outputs[0].shape).name if a.rank == 2 else total.name


def translate_extract(t: Translation) -> str:
    """Emit ``Gather`` of a diagonal's or triangle's cells."""
    return _take_cells(t, t.inputs[0], *_list_cells(t, t.inputs[0].shape[-1]))


def translate_make(t: Translation) -> str:
    """Emit ``Gather`` from the numbers and an appended zero."""
    a, size = t.inputs[0], t.outputs[0].shape[-1]
    rows, columns = _list_cells(t, size)
    places = np.full((size, size), a.shape[-1])
    places[rows, columns] = np.arange(a.shape[-1])
    none = (0,) * (a.rank - 1)
    padded = t.pad(a, (*none, 0), (*none, 1), 0, a.dtype)
    return t.emit("Gather", padded, t.constant(places, "int64"), axis=a.rank - 1)


def _list_cells(t: Translation, size: int) -> tuple[Array, Array]:
    if "lower" in t.attrs:
        return triangle_cells(t.attrs, size)
    return diagonal_cells(t.attrs["offset"], size)


def _take_cells(t: Translation, a: Value, rows: Array, columns: Array) -> str:
    flat = t.reshape(a, (*a.shape[:-2], a.shape[-2] * a.shape[-1]))
    places: Sequence[int] = (rows * a.shape[-1] + columns).tolist()
    return t.emit("Gather", flat, t.integers(places), axis=a.rank - 2)


def _invert(t: Translation, x: Value, shape: Sequence[int] = ()) -> str:
    a = matrices(t, x, shape)
    return _finish(t, solve(t, a, unit_matrices(t, a)))


def translate_solve_triangular(t: Translation) -> str:
    """Solve with a triangle; equations from the right are transposed."""
    a, b = t.inputs
    factor, right, shape = (
        take_triangle(t, a, lower=t.attrs["lower"]),
        term(t, b) * float(t.attrs["alpha"]),
        b.shape,
    )
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
    """Emit the inverse of a Cholesky factor times its transpose."""
    x = t.inputs[0]
    factor = take_triangle(t, x, lower=t.attrs["lower"])
    pair = [factor, transpose_matrices(t, factor, x.rank)]
    whole = t.emit("MatMul", *(pair if t.attrs["lower"] else pair[::-1]))
    return _invert(t, Value(whole, x.shape, x.dtype))


def translate_cholesky(t: Translation) -> str:
    """Emit the Cholesky factor; the upper one is the transpose's, transposed."""
    x = t.inputs[0]
    if t.attrs["lower"]:
        return _finish(t, cholesky(t, matrices(t, x)))
    factor = cholesky(t, matrices(t, Value(transpose_matrices(t, x, x.rank), x.shape, x.dtype)))
    return _finish(t, Term(t, transpose_matrices(t, factor.name, 3), factor.dtype))


def translate_determinant(t: Translation) -> list[str]:
    """Emit the product of an elimination's pivots."""
    if not t.inputs[0].shape[-1]:
        return [_constant(t, 1)]
    return [_finish(t, pivots(t, matrices(t, t.inputs[0])).reduce("ReduceProd", [0]))]


def translate_log_determinant(t: Translation) -> list[str]:
    """Emit the product of the pivots' signs and the sum of their logarithms."""
    if not t.inputs[0].shape[-1]:
        return [_constant(t, 1), _constant(t, 0)]
    diagonal = pivots(t, matrices(t, t.inputs[0]))
    sign, logarithm = (
        diagonal.apply("Sign").reduce("ReduceProd", [0]),
        diagonal.apply("Abs").apply("Log").reduce("ReduceSum", [0]),
    )
    return [_finish(t, sign), _finish(t, logarithm)]


def _constant(t: Translation, number: float) -> str:
    """Without rows the determinant is 1."""
    return t.constant(np.full(t.outputs[0].shape, number), t.outputs[0].dtype)


def _finish(t: Translation, x: Term) -> str:
    return x.reshape(t.outputs[0].shape).cast(t.outputs[0].dtype).name


def _of_floats(translate: Translate) -> Translate:
    """Refuse dtypes in which MXNet does not compute."""

    def translate_floats(t: Translation) -> Outputs:
        if any(x.dtype not in LAPACK for x in t.inputs):
            t.refuse(
                f"its data is {t.inputs[0].dtype}, and MXNet computes it only in {' and '.join(LAPACK)}"
            )
        return translate(t)

    return translate_floats


_NO_OPERATOR = "ONNX has no decomposition into orthogonal matrices"
_FLOATS = "dtypes other than float32 and float64 are refused"
_FACTORS = f"{_FLOATS}, and factors that MXNet keeps for the gradient where something reads them"


def translate_matmul(t: Translation) -> str:
    """Emit ``MatMul`` (numpy's rules)."""
    a, b = widen_factors(t)
    return t.cast(t.emit("MatMul", a, b), t.outputs[0].dtype, a.dtype)


def translate_contraction(t: Translation) -> str:
    """Emit a product that sums over axes as ``MatMul``; a side without axes is a factor."""
    a, b = t.inputs
    if multiplies_by_scalar(t.attrs, a.rank, b.rank):
        return t.emit("Mul", a, b)
    left, right = find_summed_axes(t.attrs, a.rank, b.rank)
    first, second = (
        [normalize_axis(i, a.rank) for i in left],
        [normalize_axis(i, b.rank) for i in right],
    )
    rest_a, rest_b = (
        [i for i in range(x.rank) if i not in axes] for x, axes in ((a, first), (b, second))
    )
    a, b = widen_factors(t)
    inner = prod(a.shape[i] for i in first)
    rows = t.reshape(t.transpose(a, (*rest_a, *first)), (prod(a.shape[i] for i in rest_a), inner))
    columns = t.reshape(
        t.transpose(b, (*second, *rest_b)), (inner, prod(b.shape[i] for i in rest_b))
    )
    return t.cast(
        t.reshape(t.emit("MatMul", rows, columns), t.outputs[0].shape), t.outputs[0].dtype, a.dtype
    )


def translate_einsum(t: Translation) -> str:
    """Emit ``Einsum``; empty sums are zeros, because onnxruntime crashes on them."""
    dtype = t.outputs[0].dtype
    if any(0 in x.shape for x in t.inputs):
        return t.constant(np.zeros(t.outputs[0].shape), dtype)
    # ONNX cannot sum booleans; a sum of zeros and ones is positive if a product is true.
    wide = "float32" if dtype == "bool" else dtype
    total = t.emit("Einsum", *(t.cast(x, wide) for x in t.inputs), equation=t.attrs["subscripts"])
    return t.cast(total, dtype, wide)


def translate_solve(t: Translation) -> str:
    """Solve equations; a right side with one axis less is a column."""
    a, b = t.inputs
    shape = (*b.shape, 1) if b.rank == a.rank - 1 else b.shape
    if a.shape[:-2] != shape[:-2]:
        t.refuse("its sides have different batches")
    return _finish(t, solve(t, matrices(t, a), matrices(t, b, shape)))


def translate_tensorinv(t: Translation) -> str:
    """Invert the array as a matrix, split before axis ``ind``."""
    x = t.inputs[0]
    side = prod(x.shape[: t.attrs["ind"]])
    return _invert(t, x, (1, side, side))


def translate_tensorsolve(t: Translation) -> str:
    """Solve with the array as a matrix, ``a_axes`` last."""
    x, b = t.inputs
    last = [normalize_axis(axis, x.rank) for axis in t.attrs["a_axes"] or ()]
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
            ("inverse", lambda t: _invert(t, t.inputs[0])),
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
    Translator("_npi_matmul", translate_matmul, _ACCUMULATED),
    *(
        Translator(name, translate_contraction, _ACCUMULATED)
        for name in ("_np_dot", "_npi_tensordot", "_npi_tensordot_int_axes")
    ),
    Translator("_npi_einsum", translate_einsum),
    Translator("_npi_cholesky", _of_floats(translate_cholesky), _FLOATS),
    Translator("_npi_solve", translate_solve, "sides of different batches are refused"),
    Translator("_npi_tensorinv", _of_floats(translate_tensorinv), _FLOATS),
    Translator("_npi_tensorsolve", translate_tensorsolve),
    *(
        NoTranslation(f"_npi_{name}", _NO_SPECTRUM)
        for name in "pinv pinv_scalar_rcond eigh eigvalsh eig eigvals svd".split()
    ),
)
