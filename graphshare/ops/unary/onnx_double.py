"""Functions of float64 as formulas of those for which onnxruntime has kernels in float64: Exp, Log, Sin, Cos and Sqrt.

They are as accurate as float64 allows, a few units in the last place.
"""

from __future__ import annotations

import math

from graphshare.ops.onnx_terms import Term

_HUGE = 1e17
"""From here on the arc tangent is that of infinity, and a logarithm that of the double without 1."""


def expm1(x: Term) -> Term:
    """Return ``exp(x) - 1`` as ``tanh(x / 2) (exp(x) + 1)``, in which nothing cancels near 0."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1)


def log1p(x: Term) -> Term:
    """Return ``log(1 + x)``; near 0 corrected by what the rounding of ``1 + x`` lost."""
    total = x + 1
    logarithm = total.apply("Log")
    return (x.apply("Abs") < 0.5).choose(logarithm - (total - 1 - x) / total, logarithm)


def sinh(x: Term) -> Term:
    """Return the hyperbolic sine."""
    return (expm1(x) - expm1(-x)) * 0.5


def cosh(x: Term) -> Term:
    """Return the hyperbolic cosine."""
    return (x.apply("Exp") + (-x).apply("Exp")) * 0.5


def tan(x: Term) -> Term:
    """Return the tangent."""
    return x.apply("Sin") / x.apply("Cos")


def arctan(x: Term) -> Term:
    """Return the arc tangent: that of float32, and what its tangent lacks."""
    near = x.apply("Clip", -_HUGE, _HUGE)
    angle = near.cast("float32").apply("Atan").cast("float64")
    sine, cosine = angle.apply("Sin"), angle.apply("Cos")
    return angle + (near * cosine - sine) / (cosine + near * sine)


def arcsin(x: Term) -> Term:
    """Return the arc sine, NaN outside of ``[-1, 1]``."""
    return arctan(x / ((1 - x) * (x + 1)).apply("Sqrt"))


def arccos(x: Term) -> Term:
    """Return the arc cosine, NaN outside of ``[-1, 1]``."""
    return arctan(((1 - x) / (x + 1)).apply("Sqrt")) * 2


def arcsinh(x: Term) -> Term:
    """Return the inverse of the hyperbolic sine."""
    size = x.apply("Abs")
    square = size * size
    near = log1p(size + square / ((square + 1).apply("Sqrt") + 1))
    return (size < _HUGE).choose(near, size.apply("Log") + math.log(2)) * x.apply("Sign")


def arccosh(x: Term) -> Term:
    """Return the inverse of the hyperbolic cosine, NaN below 1."""
    above = x - 1
    near = log1p(above + (above * (x + 1)).apply("Sqrt"))
    return (x < _HUGE).choose(near, x.apply("Log") + math.log(2))


def arctanh(x: Term) -> Term:
    """Return the inverse of the hyperbolic tangent, NaN outside of ``[-1, 1]``."""
    return log1p(x * 2 / (1 - x)) * 0.5


def softplus(x: Term) -> Term:
    """Return ``log(1 + exp(x))``."""
    return x.apply("Max", 0.0) + log1p((-x.apply("Abs")).apply("Exp"))


def softsign(x: Term) -> Term:
    """Return ``x / (1 + abs(x))``."""
    return x / (x.apply("Abs") + 1)
