"""The numpy interface's operators in ONNX between an array and a number that are not plain arithmetic, and ``where``."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from graphshare.ops.binary.kernel import result_type
from graphshare.ops.binary.to_onnx import scalar_of
from graphshare.ops.numpy_elementwise.integers_onnx import INTEGER_FUNCTIONS
from graphshare.ops.onnx_terms import Term, term, terms
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary.onnx_double import arctan

Function = Callable[[Term, Term], Term]


def arctan2(y: Term, x: Term) -> Term:
    """Return the angle of the point (x, y), by the quadrants: ONNX has the arc tangent of quotients alone."""
    up, right = (z.widen() if z.is_float else z.cast("float64") for z in (y, x))
    height, width = up.apply("Abs"), right.apply("Abs")
    ratio = height / (height + width).equals(0).choose(1.0, width)
    both = height.is_infinite() & width.is_infinite()
    quotient = both.choose(1.0, ratio)
    angle = arctan(quotient) if quotient.dtype == "float64" else quotient.apply("Atan")
    turned = _is_negative(right).choose(math.pi - angle, angle)
    return _is_negative(up).choose(-turned, turned).convert(y.dtype)


def _is_negative(x: Term) -> Term:
    """Return where the sign is negative, that of -0 too."""
    return (x < 0) | (1 / x < 0)


def copysign(x: Term, other: Term) -> Term:
    """Return ``x`` with the sign of another number; NaN has none, and negates ``x``."""
    if x.dtype == "uint8":
        return x
    agree = ((x >= 0) & (other >= 0)) | ((x < 0) & (other < 0))
    return agree.choose(x, -x)


def ldexp(x: Term, exponent: Term) -> Term:
    """Return ``x`` times 2 to a power, which may have a fraction, in float64."""
    wide = x.cast("float64")
    return (wide * wide.number(2.0).apply("Pow", exponent.cast("float64"))).convert(x.dtype)


_REAL: dict[str, Function] = {"arctan2": arctan2, "copysign": copysign, "ldexp": ldexp}


def translate_pair(t: Translation, function: Function) -> str:
    """Emit a function of two arrays of one dtype."""
    x, y = terms(t)
    return function(x, y).name


def translate_real_scalar(t: Translation, name: str, reverse: bool = False) -> str:
    """Emit a function of an array and a number, which comes first with ``reverse``."""
    x = term(t)
    data = x.cast(result_type(t.attrs, x.dtype))
    number = data.number(scalar_of(t, data.dtype))
    if reverse:
        return _REAL[name](number.expand(t.outputs[0].shape) if name == "copysign" else number, data).name
    return _REAL[name](data, number).name


def translate_integer_scalar(t: Translation, name: str) -> str:
    """Emit a function of integers and a number."""
    x = term(t)
    return INTEGER_FUNCTIONS[name](x, x.number(scalar_of(t, x.dtype))).name


def translate_bitwise_not(t: Translation) -> str:
    """Emit the complement: -1 - x, of unsigned integers 255 - x."""
    x = term(t)
    if x.dtype == "bool":
        return (~x).name
    return ((255 if x.dtype == "uint8" else -1) - x).name


def translate_around(t: Translation) -> str:
    """Emit ``Round``, of as many decimals in float64."""
    x, decimals = term(t), t.attrs["decimals"]
    if not x.is_float:
        return x.name
    if not decimals:
        return x.apply("Round").name
    factor = float(np.float64(10.0) ** decimals)
    return ((x.cast("float64") * factor).apply("Round") / factor).cast(x.dtype).name


def translate_nan_to_num(t: Translation) -> str:
    """Emit replacements of NaN and infinities, by default with 0 and the limits of the dtype."""
    x = term(t)
    if not x.is_float:
        return x.name
    greatest = float(np.finfo(x.dtype).max)
    high, low = t.attrs["posinf"], t.attrs["neginf"]
    finite = x.is_infinite(negative=False).choose(greatest if high is None else high, x)
    finite = x.is_infinite(positive=False).choose(-greatest if low is None else low, finite)
    return x.is_nan().choose(t.attrs["nan"], finite).name


def translate_polyval(t: Translation) -> str:
    """Emit Horner's scheme, a coefficient at a time."""
    p, x = terms(t)
    total = x * 0
    for i in range(t.inputs[0].shape[0]):
        coefficient = p.apply("Gather", Term(t, t.number(i, "int64"), "int64"))
        total = total * x + coefficient if i else total + coefficient
    return total.name


def translate_where(t: Translation, keys: Sequence[str | None]) -> str:
    """Emit ``Where`` with two values: the attribute that a key names, or the next array."""
    condition, *arrays = terms(t)
    dtype = arrays[0].dtype if arrays else "float32"
    yes, no = (arrays[0] if key is None else condition.number(_as(t.attrs[key], dtype), dtype) for key in keys)
    return condition.is_true().choose(yes, no).name


def _as(value: float, dtype: str) -> float:
    number: float = np.asarray(value).astype(dtype).item()
    return number


TRANSLATIONS = (
    *(Translator(f"_npi_{name}", partial(translate_pair, function=f)) for name, f in INTEGER_FUNCTIONS.items()),
    *(Translator(f"_npi_{name}_scalar", partial(translate_integer_scalar, name=name)) for name in INTEGER_FUNCTIONS),
    *(Translator(f"_npi_{name}_scalar", partial(translate_real_scalar, name=name)) for name in _REAL),
    *(Translator(f"_npi_r{name}_scalar", partial(translate_real_scalar, name=name, reverse=True)) for name in _REAL),
    *(Translator(f"_npi_{name}", partial(translate_pair, function=_REAL[name])) for name in ("copysign", "ldexp")),
    Translator("_npi_bitwise_not", translate_bitwise_not),
    Translator("_npi_around", translate_around),
    Translator("_npi_nan_to_num", translate_nan_to_num),
    Translator("_npi_polyval", translate_polyval),
    Translator("_npi_where_lscalar", partial(translate_where, keys=("scalar", None))),
    Translator("_npi_where_rscalar", partial(translate_where, keys=(None, "scalar"))),
    Translator("_npi_where_scalar2", partial(translate_where, keys=("x", "y"))),
)
