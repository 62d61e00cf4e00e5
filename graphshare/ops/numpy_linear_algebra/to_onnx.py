"""Products of the numpy interface in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from graphshare.ops.linear_algebra.elimination import matrices, solve, unit_matrices
from graphshare.ops.linear_algebra.to_onnx import translate_cholesky
from graphshare.ops.matmul.to_onnx import widen_factors
from graphshare.ops.onnx_terms import Term
from graphshare.ops.translation import NoTranslation, Translation, Translator, Value
from graphshare.ops.unification import axis_of


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


def _finish(t: Translation, x: Term) -> str:
    """Return a solution in the shape and dtype of the output."""
    return x.reshape(t.outputs[0].shape).cast(t.outputs[0].dtype).name


_FLOATS = "8-bit integers and booleans are refused"
_NO_OPERATOR = "ONNX has no eigenvalues and no singular values"

TRANSLATIONS = (
    Translator("_np_dot", translate_dot, _FLOATS),
    Translator("_npi_matmul", translate_matmul, _FLOATS),
    Translator("_npi_tensordot", translate_tensordot, _FLOATS),
    Translator("_npi_tensordot_int_axes", translate_tensordot_by_count, _FLOATS),
    Translator("_npi_einsum", translate_einsum),
    Translator("_npi_cholesky", translate_cholesky),
    Translator("_npi_solve", translate_solve, "sides of different batches are refused"),
    Translator("_npi_tensorinv", translate_tensorinv),
    Translator("_npi_tensorsolve", translate_tensorsolve),
    *(NoTranslation(f"_npi_{name}", _NO_OPERATOR) for name in "pinv pinv_scalar_rcond eigh eigvalsh eig eigvals svd".split()),
)
