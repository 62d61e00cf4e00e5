"""Products of the numpy interface in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

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
    return t.emit("MatMul", *t.inputs)


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
    inner = prod(a.shape[i] for i in first)
    rows = t.reshape(t.transpose(a, (*rest_a, *first)), (prod(a.shape[i] for i in rest_a), inner))
    columns = t.reshape(t.transpose(b, (*second, *rest_b)), (inner, prod(b.shape[i] for i in rest_b)))
    return t.reshape(t.emit("MatMul", rows, columns), t.outputs[0].shape)


def translate_einsum(t: Translation) -> str:
    """Emit ``Einsum``."""
    return t.emit("Einsum", *t.inputs, equation=t.attrs["subscripts"])


_NO_OPERATOR = "ONNX has no decomposition of matrices and no solution of equations"

TRANSLATIONS = (
    Translator("_np_dot", translate_dot),
    Translator("_npi_matmul", translate_matmul),
    Translator("_npi_tensordot", translate_tensordot),
    Translator("_npi_tensordot_int_axes", translate_tensordot_by_count),
    Translator("_npi_einsum", translate_einsum),
    *(
        NoTranslation(f"_npi_{name}", _NO_OPERATOR)
        for name in "cholesky solve pinv pinv_scalar_rcond tensorinv tensorsolve eigh eigvalsh eig eigvals svd".split()
    ),
)
