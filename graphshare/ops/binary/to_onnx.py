"""Elementwise operators in ONNX on arrays, or on an array and a constant number."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, reduce

import numpy as np

from graphshare.ops import conversion
from graphshare.ops.binary.kernel import PAIRS, SCALARS, result_type
from graphshare.ops.onnx_terms import Term, term, terms, translate_terms
from graphshare.ops.translation import Translation, Translator, keep_input

Function = Callable[[Term, Term], Term]


def _arithmetic(op_type: str, of_booleans: str) -> Function:
    return lambda x, y: x.apply(of_booleans if x.dtype == "bool" else op_type, y)


def divide(x: Term, y: Term) -> Term:
    """Return ``x / y`` as the kernel does."""
    if x.is_float:
        return x / y
    quotient = x / _safe_divisor(y)
    if y.dtype != "uint8":
        quotient = y.equals(-1).choose(-x, quotient)
    return y.equals(0).choose(0, quotient)


def _safe_divisor(y: Term) -> Term:
    """Replace 0 and -1 by 1: the least integer cannot be divided by either."""
    unsafe = y.equals(0) if y.dtype == "uint8" else y.equals(0) | y.equals(-1)
    return unsafe.choose(1, y)


def mod(x: Term, y: Term) -> Term:
    """Return the remainder as the kernel does."""
    if not x.is_float:
        return x.apply("Mod", _safe_divisor(y))
    rest = x.apply("Mod", y, fmod=1)
    # fmod has the sign of x, MXNet's remainder the sign of y.
    other_side = ~rest.equals(0) & ((rest < 0) ^ (y < 0))
    return y.equals(0).choose(0.0, other_side.choose(rest + y, rest))


def power(x: Term, y: Term) -> Term:
    """Return ``x`` to the power ``y``; integer results are rounded to float32 first."""
    if x.is_float:
        return x.apply("Pow", y)
    return x.cast("float64").apply("Pow", y.cast("float64")).cast("float32").convert(x.dtype)


def hypot(x: Term, y: Term) -> Term:
    """Return ``sqrt(x^2 + y^2)`` in float64, infinite where ``x`` or ``y`` is."""
    a, b = x.cast("float64"), y.cast("float64")
    if x.dtype == "float64":
        return _hypot_of_double(a.apply("Abs"), b.apply("Abs"))
    root = (a * a + b * b).apply("Sqrt")
    if not x.is_float:
        return root.cast("float32").convert(x.dtype)
    # With infinity and NaN the root is NaN, but hypot is infinite.
    return (x.is_infinite() | y.is_infinite()).choose(math.inf, root).cast(x.dtype)


def _hypot_of_double(a: Term, b: Term) -> Term:
    """Return the hypotenuse relative to the larger number: no overflow."""
    large, small = a.apply("Max", b), a.apply("Min", b)
    ratio = small / large.equals(0).choose(1.0, large)
    return (a.is_infinite() | b.is_infinite()).choose(
        math.inf, large * (ratio * ratio + 1).apply("Sqrt")
    )


def _extremum(op_type: str) -> Function:
    return lambda x, y: _comparable(x).apply(op_type, _comparable(y)).cast(x.dtype)


def _comparable(x: Term) -> Term:
    """ONNX cannot order booleans."""
    return x.cast("int32") if x.dtype == "bool" else x


COMPARISONS: dict[str, Function] = {
    "equal": lambda x, y: x.equals(y),
    "not_equal": lambda x, y: ~x.equals(y),
    "greater": lambda x, y: _comparable(x) > _comparable(y),
    "greater_equal": lambda x, y: _comparable(x) >= _comparable(y),
    "lesser": lambda x, y: _comparable(x) < _comparable(y),
    "lesser_equal": lambda x, y: _comparable(x) <= _comparable(y),
    "logical_and": lambda x, y: x.is_true() & y.is_true(),
    "logical_or": lambda x, y: x.is_true() | y.is_true(),
    "logical_xor": lambda x, y: x.is_true() ^ y.is_true(),
}
"""Functions with boolean results, by the word in the operator's name."""


def _as_numbers(compare: Function) -> Function:
    return lambda x, y: compare(x, y).cast(x.dtype)


FUNCTIONS: dict[str, Function] = {
    "add": _arithmetic("Add", "Or"),
    "sub": lambda x, y: x - y,
    "mul": _arithmetic("Mul", "And"),
    "div": divide,
    "mod": mod,
    "power": power,
    "hypot": hypot,
    "maximum": _extremum("Max"),
    "minimum": _extremum("Min"),
    **{name: _as_numbers(compare) for name, compare in COMPARISONS.items()},
}
"""The functions on two arrays, or an array and a number, by the word in the operator's name."""


def read_scalar(t: Translation, dtype: str) -> int | float:
    """Return the attribute ``scalar`` as a number of ``dtype``."""
    number: int | float = conversion.convert(
        np.asarray(t.attrs["scalar"], np.float64), dtype
    ).item()
    return number


def translate_scalar(t: Translation, name: str, reverse: bool = False) -> str:
    """Emit ``name`` of :data:`FUNCTIONS` on an array and a number (first if ``reverse``)."""
    x = term(t)
    data = x.convert(result_type(t.attrs, x.dtype))
    value = read_scalar(t, data.dtype)
    number = data.number(value)
    if name in ("div", "mod") and not reverse:
        return _by_number(data, value, name).name
    result = FUNCTIONS[name](number, data) if reverse else FUNCTIONS[name](data, number)
    if reverse and name == "div" and not data.is_float:
        result = data.equals(0).choose(
            conversion.convert(np.asarray(np.inf), data.dtype).item(), result
        )
    return result.name


def _by_number(x: Term, value: float, name: str) -> Term:
    """A constant divisor needs no choice."""
    # For integers, MXNet's x / 0 is 0; ONNX leaves that, and the least integer / -1, undefined.
    if name == "div":
        if x.is_float or value not in (0, -1):
            return x / value
        return -x if value else x * 0
    if not x.is_float:
        return x.apply("Mod", value) if value not in (0, -1) else x * 0
    return mod(x, x.number(value))


def translate_sum(t: Translation) -> str:
    """Emit a sum, in the kernel's order."""
    arrays = terms(t)
    if arrays[0].dtype == "float16" and len(arrays) <= 4:
        arrays.reverse()
    if len(arrays) > 2 and arrays[0].dtype in ("float32", "float64"):
        return arrays[0].apply("Sum", *arrays[1:]).name
    return reduce(lambda x, y: x + y, arrays).name


TRANSLATIONS = (
    *(Translator(operator, translate_terms(FUNCTIONS[word])) for operator, word in PAIRS.items()),
    *(
        Translator(operator, partial(translate_scalar, name=word, reverse=first))
        for operator, (word, first) in SCALARS.items()
    ),
    Translator("_identity_with_attr_like_rhs", keep_input),
    Translator("add_n", translate_sum),
)
