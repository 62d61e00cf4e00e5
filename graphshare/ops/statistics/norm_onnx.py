"""Norms of vectors and matrices in ONNX, in float64."""

from __future__ import annotations

from math import inf, isinf

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.statistics.kernel import matrix_order, norm_axes
from graphshare.ops.translation import Translation


def translate_norm(t: Translation) -> list[str]:
    """Emit a norm of vectors along one axis or of matrices over two; the other outputs are empty."""
    x, out = term(t), t.outputs[0]
    axes, flag, keep = norm_axes(t.attrs, t.inputs[0].rank), t.attrs["flag"], t.attrs["keepdims"]
    wide = x.cast("float64")
    if flag == -2 or (flag == 1 and len(axes) == 2):
        result = (wide * wide).reduce("ReduceSum", axes, keepdims=True).apply("Sqrt")
    elif len(axes) == 2:
        result = _matrix_norm(wide, axes)
    else:
        result = _vector_norm(wide, axes)
    named = result if keep else result.reshape(out.shape)
    empty = [t.constant([], x.dtype)] * 3 if t.used - {0} else []
    return [named.convert(x.dtype).name, *empty]


def _matrix_norm(x: Term, axes: tuple[int, ...]) -> Term:
    """Return the largest or smallest sum of absolute values of a row or column."""
    order = matrix_order(x.t.attrs["ord"])
    if order in (2, -2):
        x.t.refuse("it needs singular values, which ONNX does not compute")
    along, across = axes if order in (1, -1) else axes[::-1]
    sums = x.apply("Abs").reduce("ReduceSum", [along], keepdims=True)
    return sums.reduce("ReduceMax" if order > 0 else "ReduceMin", [across], keepdims=True)


def _vector_norm(x: Term, axes: tuple[int, ...]) -> Term:
    """Return the norm of vectors without their zeros, so that an order below 0 is not 0 because of one."""
    order, size = x.t.attrs["ord"], x.apply("Abs")
    if isinf(order):
        return size.reduce("ReduceMax" if order == inf else "ReduceMin", axes, keepdims=True)
    if order == 0:
        return (~x.equals(0)).cast("float64").reduce("ReduceSum", axes, keepdims=True)
    powers = _power_but_of_zero(size, order).reduce("ReduceSum", axes, keepdims=True)
    return _power_but_of_zero(powers, 1 / order)


def _power_but_of_zero(x: Term, exponent: float) -> Term:
    is_zero = x.equals(0)
    return is_zero.choose(0.0, is_zero.choose(1.0, x).apply("Pow", exponent))
