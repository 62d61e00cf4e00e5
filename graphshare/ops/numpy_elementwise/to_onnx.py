"""The numpy interface's elementwise operators in ONNX: promotion, comparisons to booleans.

Bitwise functions loop over bits: ONNX has operators for them only from opset 18.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from graphshare.ops.activation.to_onnx import activate
from graphshare.ops.binary import to_onnx as binary
from graphshare.ops.binary.kernel import result_type
from graphshare.ops.binary.to_onnx import read_scalar
from graphshare.ops.numpy_elementwise.kernel import ARITHMETIC, UNARY
from graphshare.ops.onnx_terms import Term, term, terms, translate_terms
from graphshare.ops.translation import Translation, Translator, Value
from graphshare.ops.unary import to_onnx as unary
from graphshare.ops.unary.onnx_special import arctan

_COMPARISONS = {"less": "lesser", "less_equal": "lesser_equal"}
_COMPARISONS |= {name: name for name in ("equal", "greater", "greater_equal", "not_equal")}


def _never(x: Term) -> Term:
    return ~_always(x)


def _always(x: Term) -> Term:
    # An integer equals itself: true in the shape of x.
    return x.equals(x)


def _is_finite(x: Term) -> Term:
    return ~(x.is_nan() | x.is_infinite()) if x.is_float else _always(x)


def _of_floats(test: Callable[[Term], Term]) -> Callable[[Term], Term]:
    return lambda x: test(x) if x.is_float else _never(x)


_TESTS: dict[str, Callable[[Term], Term]] = {
    "isfinite": _is_finite,
    "isinf": _of_floats(lambda x: x.is_infinite()),
    "isnan": _of_floats(lambda x: x.is_nan()),
    "isneginf": _of_floats(lambda x: x.is_infinite(positive=False)),
    "isposinf": _of_floats(lambda x: x.is_infinite(negative=False)),
    "logical_not": lambda x: ~x.is_true(),
}


def translate_arithmetic(t: Translation, name: str) -> str:
    """Emit ``name`` in the output's dtype."""
    x, y = (value.cast(t.outputs[0].dtype) for value in terms(t))
    return binary.FUNCTIONS[name](x, y).name


def translate_scalar_comparison(t: Translation, name: str) -> str:
    """Emit a comparison of an array with a number."""
    x = term(t)
    data = x if x.dtype == "bool" else x.cast(result_type(t.attrs, x.dtype))
    return binary.COMPARISONS[name](data, data.number(binary.read_scalar(t, data.dtype))).name


def translate_division(t: Translation, reverse: bool) -> str:
    """Emit a quotient with a number (first if ``reverse``)."""
    data = term(t).cast(t.outputs[0].dtype)
    number = data.number(float(np.dtype(data.dtype).type(t.attrs["scalar"])))
    return (number / data if reverse else data / number).name


Function = Callable[[Term, Term], Term]

_WIDTHS = {"int8": 8, "uint8": 8, "int32": 32, "int64": 64}
_STEPS_OF_EUCLID = 93
"""Enough below 2**63: consecutive Fibonacci numbers need most."""


def _bitwise(x: Term, y: Term, *, op_type: str) -> Term:
    if x.dtype == "bool":
        return x.apply(op_type, y)
    if x.t.opset >= 18:
        return x.apply(f"Bitwise{op_type}", y)
    return _loop_over_bits(x.cast("int64"), y.cast("int64"), op_type, _WIDTHS[x.dtype]).cast(
        x.dtype
    )


def _loop_over_bits(x: Term, y: Term, op_type: str, width: int) -> Term:
    def step(states: Sequence[Term]) -> list[Term]:
        a, b, total, weight = states
        # ONNX's Mod has the divisor's sign, so these are two's complement bits; the highest weight
        # overflows to the sign's.
        low, other = a.apply("Mod", 2), b.apply("Mod", 2)
        bit = low.is_true().apply(op_type, other.is_true()).cast("int64")
        return [(a - low) / 2, (b - other) / 2, total + bit * weight, weight * 2]

    # Loop states keep their shape, so both are broadcast first.
    both = x + y * 0, y + x * 0
    return _repeat(width, [*both, both[0] * 0, both[0] * 0 + 1], step)[2]


def _repeat(
    count: int, states: Sequence[Term], step: Callable[[Sequence[Term]], Sequence[Term]]
) -> list[Term]:
    """Emit a ``Loop`` of ``count`` steps on states of the output's shape."""
    t, shape = states[0].t, states[0].t.outputs[0].shape

    def build(inputs: Sequence[Value]) -> list[Value]:
        results = step([term(t, x) for x in inputs[2:]])
        going_on = Term(t, t.emit("Identity", inputs[1]), "bool")
        return [Value(going_on.name, (), "bool"), *(Value(x.name, shape, x.dtype) for x in results)]

    counter = [Value("iteration", (), "int64"), Value("condition", (), "bool")]
    body = t.body([*counter, *(Value("state", shape, x.dtype) for x in states)], build)
    names = [x.name for x in states]
    outputs = t.emit_several(
        "Loop", len(states), t.number(count, "int64"), t.number(True, "bool"), *names, body=body
    )
    return [Term(t, name, x.dtype) for name, x in zip(outputs, states, strict=True)]


def least_common_multiple(x: Term, y: Term) -> Term:
    """Return the least common multiple by Euclid's algorithm, without a sign; 0 if a number is 0."""
    a, b = x.cast("int64").apply("Abs"), y.cast("int64").apply("Abs")

    def step(states: Sequence[Term]) -> list[Term]:
        large, small = states
        is_done = small.equals(0)
        # Finished elements stay; Mod by 0 is undefined.
        rest = large.apply("Mod", is_done.choose(1, small))
        return [is_done.choose(large, small), rest]

    divisor, _ = _repeat(_STEPS_OF_EUCLID, [a + b * 0, b + a * 0], step)
    return (a / divisor.equals(0).choose(1, divisor) * b).cast(x.dtype)


INTEGER_FUNCTIONS: dict[str, Function] = {
    "bitwise_and": partial(_bitwise, op_type="And"),
    "bitwise_or": partial(_bitwise, op_type="Or"),
    "bitwise_xor": partial(_bitwise, op_type="Xor"),
    "lcm": least_common_multiple,
}


def arctan2(y: Term, x: Term) -> Term:
    """Return the angle of (x, y) by quadrants: ONNX has only the arc tangent of a quotient."""
    up, right = (z.widen() if z.is_float else z.cast("float64") for z in (y, x))
    height, width = up.apply("Abs"), right.apply("Abs")
    # At the origin, take the angle of 0 / 1.
    ratio = height / (height + width).equals(0).choose(1.0, width)
    both = height.is_infinite() & width.is_infinite()
    # Two infinities have a NaN quotient, and 45 degrees.
    quotient = both.choose(1.0, ratio)
    angle = arctan(quotient) if quotient.dtype == "float64" else quotient.apply("Atan")
    turned = _is_negative(right).choose(math.pi - angle, angle)
    return _is_negative(up).choose(-turned, turned).convert(y.dtype)


def _is_negative(x: Term) -> Term:
    """Include -0, unlike a comparison with 0."""
    return (x < 0) | (1 / x < 0)


def copysign(x: Term, other: Term) -> Term:
    """Return ``x`` with the sign of ``other`` as the kernel does."""
    if x.dtype == "uint8":
        return x
    agree = ((x >= 0) & (other >= 0)) | ((x < 0) & (other < 0))
    return agree.choose(x, -x)


def ldexp(x: Term, exponent: Term) -> Term:
    """Return ``x * 2 ** exponent`` in float64."""
    wide = x.cast("float64")
    return (wide * wide.number(2.0).apply("Pow", exponent.cast("float64"))).convert(x.dtype)


_REAL: dict[str, Function] = {"arctan2": arctan2, "copysign": copysign, "ldexp": ldexp}


def translate_real_scalar(t: Translation, name: str, reverse: bool = False) -> str:
    """Emit a function with a number (first if ``reverse``)."""
    x = term(t)
    data = x.cast(result_type(t.attrs, x.dtype))
    number = data.number(read_scalar(t, data.dtype))
    if reverse:
        # uint8: the first operand, broadcast to the output's shape.
        return _REAL[name](
            number.expand(t.outputs[0].shape) if name == "copysign" else number, data
        ).name
    return _REAL[name](data, number).name


def translate_integer_scalar(t: Translation, name: str) -> str:
    """Emit a function of integers and a number."""
    x = term(t)
    return INTEGER_FUNCTIONS[name](x, x.number(read_scalar(t, x.dtype))).name


def translate_bitwise_not(t: Translation) -> str:
    """Emit -1 - x, of unsigned integers 255 - x."""
    x = term(t)
    if x.dtype == "bool":
        return (~x).name
    return ((255 if x.dtype == "uint8" else -1) - x).name


def translate_around(t: Translation) -> str:
    """Emit ``Round``; decimals in float64."""
    x, decimals = term(t), t.attrs["decimals"]
    if not x.is_float:
        return x.name
    if not decimals:
        return x.apply("Round").name
    factor = float(np.float64(10.0) ** decimals)
    return ((x.cast("float64") * factor).apply("Round") / factor).cast(x.dtype).name


def translate_nan_to_num(t: Translation) -> str:
    """Replace NaN and infinities as the kernel does."""
    x = term(t)
    if not x.is_float:
        return x.name
    greatest = float(np.finfo(x.dtype).max)
    high, low = t.attrs["posinf"], t.attrs["neginf"]
    finite = x.is_infinite(negative=False).choose(greatest if high is None else high, x)
    finite = x.is_infinite(positive=False).choose(-greatest if low is None else low, finite)
    return x.is_nan().choose(t.attrs["nan"], finite).name


def translate_polyval(t: Translation) -> str:
    """Emit Horner's scheme."""
    p, x = (each.cast("int32") if each.dtype == "bool" else each for each in terms(t))
    total = x * 0
    for i in range(t.inputs[0].shape[0]):
        coefficient = p.apply("Gather", Term(t, t.number(i, "int64"), "int64"))
        total = total * x + coefficient if i else total + coefficient
    return (total.cast("bool") if t.inputs[1].dtype == "bool" else total).name


def translate_where(t: Translation, keys: Sequence[str | None]) -> str:
    """Emit ``Where``; a value is the attribute that a key names, or the next array."""
    condition, *arrays = terms(t)
    dtype = arrays[0].dtype if arrays else "float32"
    rest = iter(arrays)
    yes, no = (
        next(rest) if key is None else condition.number(_as(t.attrs[key], dtype), dtype)
        for key in keys
    )
    return condition.is_true().choose(yes, no).name


def _as(value: float, dtype: str) -> float:
    number: float = np.asarray(value).astype(dtype).item()
    return number


TRANSLATIONS = (
    *(Translator(f"_npi_{name}", translate_terms(unary.FUNCTIONS[name])) for name in UNARY.split()),
    Translator("_npi_absolute", translate_terms(unary.absolute)),
    Translator("_npi_tanh", translate_terms(partial(activate, name="tanh"))),
    Translator("_npx_relu", translate_terms(partial(activate, name="relu"))),
    Translator("_npx_sigmoid", translate_terms(partial(activate, name="sigmoid"))),
    *(Translator(f"_npi_{name}", translate_terms(test)) for name, test in _TESTS.items()),
    *(
        Translator(f"_npi_{name}", partial(translate_arithmetic, name=word))
        for name, word in ARITHMETIC.items()
    ),
    Translator("_npi_true_divide", partial(translate_arithmetic, name="div")),
    *(
        Translator(f"_npi_{name}", translate_terms(binary.COMPARISONS[word]))
        for name, word in _COMPARISONS.items()
    ),
    Translator("_npi_arctan2", translate_terms(arctan2)),
    Translator("_npi_hypot", translate_terms(binary.hypot)),
    *(
        Translator(f"_npi_{name}_scalar", partial(binary.translate_scalar, name=word))
        for name, word in ARITHMETIC.items()
    ),
    *(
        Translator(
            f"_npi_r{name}_scalar",
            partial(binary.translate_scalar, name=ARITHMETIC[name], reverse=True),
        )
        for name in ("subtract", "mod", "power")
    ),
    *(
        Translator(f"_npi_{name}_scalar", partial(translate_scalar_comparison, name=word))
        for name, word in _COMPARISONS.items()
    ),
    Translator("_npi_true_divide_scalar", partial(translate_division, reverse=False)),
    Translator("_npi_rtrue_divide_scalar", partial(translate_division, reverse=True)),
    *(Translator(f"_npi_{name}", translate_terms(f)) for name, f in INTEGER_FUNCTIONS.items()),
    *(
        Translator(f"_npi_{name}_scalar", partial(translate_integer_scalar, name=name))
        for name in INTEGER_FUNCTIONS
    ),
    *(
        Translator(f"_npi_{name}_scalar", partial(translate_real_scalar, name=name))
        for name in _REAL
    ),
    *(
        Translator(f"_npi_r{name}_scalar", partial(translate_real_scalar, name=name, reverse=True))
        for name in _REAL
    ),
    *(Translator(f"_npi_{name}", translate_terms(_REAL[name])) for name in ("copysign", "ldexp")),
    Translator("_npi_bitwise_not", translate_bitwise_not),
    Translator("_npi_around", translate_around),
    Translator("_npi_nan_to_num", translate_nan_to_num),
    Translator("_npi_polyval", translate_polyval),
    Translator("_npi_where", partial(translate_where, keys=(None, None))),
    Translator("_npi_where_lscalar", partial(translate_where, keys=("scalar", None))),
    Translator("_npi_where_rscalar", partial(translate_where, keys=(None, "scalar"))),
    Translator("_npi_where_scalar2", partial(translate_where, keys=("x", "y"))),
)
