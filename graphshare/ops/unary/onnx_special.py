"""Functions that ONNX or onnxruntime lack, as formulas.

onnxruntime has float64 kernels for Exp, Log, Sin, Cos and Sqrt; formulas of these are accurate to a
few units in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from graphshare.ops import conversion, special_functions
from graphshare.ops.onnx_terms import Term

_HUGE = 1e17
"""From here on arctan equals its limit, and adding 1 does not change the logarithm."""


def expm1(x: Term) -> Term:
    """Return ``exp(x) - 1`` as ``tanh(x / 2) (exp(x) + 1)``, without cancellation near 0."""
    return (x * 0.5).apply("Tanh") * (x.apply("Exp") + 1)


def log1p(x: Term) -> Term:
    """Return ``log(1 + x)``, near 0 corrected by the digits lost in ``1 + x``."""
    total = x + 1
    logarithm = total.apply("Log")
    return (x.apply("Abs") < 0.5).choose(logarithm - (total - 1 - x) / total, logarithm)


def sinh(x: Term) -> Term:
    """Return ``sinh(x)``."""
    return (expm1(x) - expm1(-x)) * 0.5


def cosh(x: Term) -> Term:
    """Return ``cosh(x)``."""
    return (x.apply("Exp") + (-x).apply("Exp")) * 0.5


def tan(x: Term) -> Term:
    """Return ``tan(x)``."""
    return x.apply("Sin") / x.apply("Cos")


def arctan(x: Term) -> Term:
    """Return ``arctan(x)``: in float32, then corrected by one step with sine and cosine."""
    near = x.apply("Clip", -_HUGE, _HUGE)
    angle = near.cast("float32").apply("Atan").cast("float64")
    sine, cosine = angle.apply("Sin"), angle.apply("Cos")
    return angle + (near * cosine - sine) / (cosine + near * sine)


def arcsin(x: Term) -> Term:
    """Return ``arcsin(x)``, NaN outside ``[-1, 1]``."""
    # Division by 0 at the ends gives infinity, whose arc tangent is right.
    return arctan(x / ((1 - x) * (x + 1)).apply("Sqrt"))


def arccos(x: Term) -> Term:
    """Return ``arccos(x)``, NaN outside ``[-1, 1]``."""
    return arctan(((1 - x) / (x + 1)).apply("Sqrt")) * 2


def arcsinh(x: Term) -> Term:
    """Return ``arcsinh(x)``."""
    size = x.apply("Abs")
    square = size * size
    # log(x + sqrt(x^2 + 1)) as log1p, without cancellation near 0.
    near = log1p(size + square / ((square + 1).apply("Sqrt") + 1))
    return (size < _HUGE).choose(near, size.apply("Log") + math.log(2)) * x.apply("Sign")


def arccosh(x: Term) -> Term:
    """Return ``arccosh(x)``, NaN below 1."""
    above = x - 1
    near = log1p(above + (above * (x + 1)).apply("Sqrt"))
    return (x < _HUGE).choose(near, x.apply("Log") + math.log(2))


def arctanh(x: Term) -> Term:
    """Return ``arctanh(x)``, NaN outside ``[-1, 1]``."""
    return log1p(x * 2 / (1 - x)) * 0.5


def softplus(x: Term) -> Term:
    """Return ``log(1 + exp(x))``."""
    return x.apply("Max", 0.0) + log1p((-x.apply("Abs")).apply("Exp"))


def softsign(x: Term) -> Term:
    """Return ``x / (1 + abs(x))``."""
    return x / (x.apply("Abs") + 1)


# Lanczos's approximation with g = 7 and nine terms (Godfrey): relative error 1e-15.
_LANCZOS = (
    0.99999999999980993,
    676.5203681218851,
    -1259.1392167224028,
    771.32342877765313,
    -176.61502916214059,
    12.507343278686905,
    -0.13857109526572012,
    9.9843695780195716e-6,
    1.5056327351493116e-7,
)

# Giles, Approximating the erfinv function (2012), highest power first: in w - 2.5 for w < 5, else
# in sqrt(w) - 3.
_CENTRAL = (
    2.81022636e-08,
    3.43273939e-07,
    -3.5233877e-06,
    -4.39150654e-06,
    0.00021858087,
    -0.00125372503,
    -0.00417768164,
    0.246640727,
    1.50140941,
)
_TAIL = (
    -0.000200214257,
    0.000100950558,
    0.00134934322,
    -0.00367342844,
    0.00573950773,
    -0.0076224613,
    0.00943887047,
    1.00167406,
    2.83297682,
)


def gammaln_of_double(x: Term) -> Term:
    """Return ``log(abs(gamma(x)))`` of float64, infinite at the poles."""
    reflected = x < 0.5
    logarithm = _lanczos(reflected.choose(1 - x, x))
    # Reduced first: sin(pi * x) of a large x has no correct digits.
    sine = ((x - x.apply("Round")) * math.pi).apply("Sin").apply("Abs")
    # Reflection below 1/2: gamma(x) * gamma(1 - x) = pi / sin(pi * x).
    result = reflected.choose(math.log(math.pi) - sine.apply("Log") - logarithm, logarithm)
    return x.is_infinite().choose(math.inf, result)


def _lanczos(x: Term) -> Term:
    """Return ``log(gamma(x))`` from 1/2 on."""
    z = x - 1
    total: Term | None = None
    for i, c in enumerate(_LANCZOS[1:], start=1):
        part = c / (z + i)
        total = part if total is None else total + part
    assert total is not None
    half = z + 0.5
    return (
        half * ((half + 7).apply("Log") - 1)
        - 7
        + 0.5 * math.log(2 * math.pi)
        + (total + _LANCZOS[0]).apply("Log")
    )


def gammaln(x: Term) -> Term:
    """Return ``log(abs(gamma(x)))``."""
    if x.dtype == "bool":
        return ~x  # infinity at 0, 0 at 1: the series only comes near
    return gammaln_of_double(x.cast("float64")).convert(x.dtype)


def gamma(x: Term) -> Term:
    """Return ``gamma(x)``, NaN at the poles (negative integers)."""
    if not x.is_float:
        return _gamma_of_integers(x)
    wide = x.cast("float64")
    low = wide.apply("Floor")
    is_odd = (low - (low * 0.5).apply("Floor") * 2).equals(1)
    size = gammaln_of_double(wide).apply("Exp")
    signed = ((wide < 0) & is_odd).choose(-size, size)
    # The pole at 0 has the sign of the zero.
    at_zero = wide.equals(0).choose(1 / wide, signed)
    return ((wide < 0) & wide.equals(low)).choose(math.nan, at_zero).convert(x.dtype)


def _gamma_of_integers(x: Term) -> Term:
    """Return factorials from a table: first for 0 and below, last for all that overflow."""
    values = special_functions.gamma(np.arange(173, dtype=np.float64))
    table = x.t.constant(conversion.convert(values, x.dtype), x.dtype)
    # gamma overflows float64 from 172 on.
    place = x.cast("int64").apply("Max", 0).apply("Min", 172)
    return Term(x.t, x.t.emit("Gather", table, place.name), x.dtype)


def erf(x: Term) -> Term:
    """Return ``erf(x)``; of float64 as a formula, because more engines run it.

    Integers reach 1 at 6.
    """
    if not x.is_float:
        one = int(special_functions.ONE_IN_FLOAT64)
        ends = (
            ((x >= one).cast("int32"), (x <= -one).cast("int32"))
            if x.dtype != "uint8"
            else ((x >= one).cast("int32"),)
        )
        return (ends[0] - ends[1] if len(ends) > 1 else ends[0]).cast(x.dtype)
    return x.apply("Erf") if x.dtype != "float64" else _erf_of_double(x)


def _erf_of_double(x: Term) -> Term:
    inner, outer = special_functions.erf_polynomials(*special_functions.DEGREES)
    size = x.apply("Abs").apply("Min", special_functions.ONE_IN_FLOAT64)
    square = size * size
    near = x * _series(inner, square * 2 - 1)
    far = 1 - (-square).apply("Exp") * _series(outer, special_functions.outer_argument(size))
    return (size <= 1).choose(near, far * x.apply("Sign"))


def _series(coefficients: Sequence[float], u: Term) -> Term:
    twice = u * 2
    last: Term = u * 0 + coefficients[-1]
    before: Term = u * 0
    for c in coefficients[-2:0:-1]:
        last, before = twice * last - before + c, last
    return u * last - before + coefficients[0]


def erfinv(x: Term) -> Term:
    """Return ``erfinv(x)``, NaN outside ``[-1, 1]``; 0 for integers but at the ends."""
    if not x.is_float:
        least = float(conversion.convert(np.asarray(np.inf), x.dtype))
        return (
            (x.cast("float64").apply("Abs").equals(1).cast("float64") * least)
            .cast("int64")
            .cast(x.dtype)
        )
    wide = x.cast("float64")
    size = wide.apply("Abs")
    w = -((1 - size) * (1 + size)).apply("Log")
    central = _polynomial(_CENTRAL, w - 2.5)
    tail = _polynomial(_TAIL, w.apply("Sqrt") - 3)
    result = (w < 5).choose(central, tail) * wide
    if x.dtype == "float64":
        result = _refine(wide, result)
    return size.equals(1).choose(wide / 0.0, result).convert(x.dtype)


def _refine(x: Term, root: Term) -> Term:
    """Improve ``erf(root) = x`` by two of Halley's steps."""
    for _ in range(2):
        step = (_erf_of_double(root) - x) / (
            (-(root * root)).apply("Exp") * (2 / math.sqrt(math.pi))
        )
        root = root - step / (1 + root * step)
    return root


def _polynomial(coefficients: Sequence[float], x: Term) -> Term:
    total: Term | float = coefficients[0]
    for c in coefficients[1:]:
        total = total * x + c
    assert isinstance(total, Term)
    return total
