"""The numpy interface's elementwise operators in ONNX: dtypes are promoted, comparisons give booleans."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from graphshare.ops.activation.to_onnx import activate
from graphshare.ops.binary import to_onnx as binary
from graphshare.ops.binary.kernel import result_type
from graphshare.ops.numpy_elementwise.kernel import ARITHMETIC, UNARY
from graphshare.ops.numpy_elementwise.scalar_onnx import TRANSLATIONS as SCALAR_TRANSLATIONS
from graphshare.ops.numpy_elementwise.scalar_onnx import arctan2
from graphshare.ops.onnx_terms import Term, term, terms
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary import to_onnx as unary

_COMPARISONS = {"less": "lesser", "less_equal": "lesser_equal"}
_COMPARISONS |= {name: name for name in ("equal", "greater", "greater_equal", "not_equal")}


def _never(x: Term) -> Term:
    """Return false for each element."""
    return ~_always(x)


def _always(x: Term) -> Term:
    return x.equals(x)


def _is_finite(x: Term) -> Term:
    return ~(x.is_nan() | x.is_infinite()) if x.is_float else _always(x)


def _of_floats(test: Callable[[Term], Term]) -> Callable[[Term], Term]:
    """Return a test that no integer passes."""
    return lambda x: test(x) if x.is_float else _never(x)


_TESTS: dict[str, Callable[[Term], Term]] = {
    "isfinite": _is_finite,
    "isinf": _of_floats(lambda x: x.is_infinite()),
    "isnan": _of_floats(lambda x: x.is_nan()),
    "isneginf": _of_floats(lambda x: x.is_infinite(positive=False)),
    "isposinf": _of_floats(lambda x: x.is_infinite(negative=False)),
    "logical_not": lambda x: ~x.is_true(),
}


def translate_test(t: Translation, name: str) -> str:
    """Emit a function with boolean results."""
    return _TESTS[name](term(t)).name


def translate_activation(t: Translation, name: str) -> str:
    """Emit an activation."""
    return activate(term(t), name).name


def translate_arithmetic(t: Translation, name: str) -> str:
    """Emit the function ``name`` of two arrays in the output's dtype."""
    x, y = (value.cast(t.outputs[0].dtype) for value in terms(t))
    return binary.FUNCTIONS[name](x, y).name


def translate_comparison(t: Translation, name: str) -> str:
    """Emit a comparison of two arrays."""
    x, y = terms(t)
    return binary.COMPARISONS[name](x, y).name


def translate_scalar_comparison(t: Translation, name: str) -> str:
    """Emit a comparison of an array with a number."""
    x = term(t)
    data = x if x.dtype == "bool" else x.cast(result_type(t.attrs, x.dtype))
    return binary.COMPARISONS[name](data, data.number(binary.scalar_of(t, data.dtype))).name


def translate_division(t: Translation, reverse: bool) -> str:
    """Emit the quotient of an array and a number, which comes first with ``reverse``."""
    data = term(t).cast(t.outputs[0].dtype)
    number = data.number(float(np.dtype(data.dtype).type(t.attrs["scalar"])))
    return (number / data if reverse else data / number).name


def translate_two_floats(t: Translation, function: binary.Function) -> str:
    """Emit a function of two arrays of floats."""
    x, y = terms(t)
    return function(x, y).name


def translate_where(t: Translation) -> str:
    """Emit ``Where``."""
    condition, x, y = terms(t)
    return condition.is_true().choose(x, y).name


TRANSLATIONS = (
    *(Translator(f"_npi_{name}", partial(unary.translate_function, name=name)) for name in UNARY.split()),
    Translator("_npi_absolute", partial(unary.translate_function, name="abs")),
    Translator("_npi_tanh", partial(translate_activation, name="tanh")),
    Translator("_npx_relu", partial(translate_activation, name="relu")),
    Translator("_npx_sigmoid", partial(translate_activation, name="sigmoid")),
    *(Translator(f"_npi_{name}", partial(translate_test, name=name)) for name in _TESTS),
    *(Translator(f"_npi_{name}", partial(translate_arithmetic, name=word)) for name, word in ARITHMETIC.items()),
    Translator("_npi_true_divide", partial(translate_arithmetic, name="div")),
    *(Translator(f"_npi_{name}", partial(translate_comparison, name=word)) for name, word in _COMPARISONS.items()),
    Translator("_npi_arctan2", partial(translate_two_floats, function=arctan2)),
    Translator("_npi_hypot", partial(translate_two_floats, function=binary.hypot)),
    Translator("_npi_where", translate_where),
    *(Translator(f"_npi_{name}_scalar", partial(binary.translate_scalar, name=word)) for name, word in ARITHMETIC.items()),
    *(
        Translator(f"_npi_r{name}_scalar", partial(binary.translate_scalar, name=ARITHMETIC[name], reverse=True))
        for name in ("subtract", "mod", "power")
    ),
    *(
        Translator(f"_npi_{name}_scalar", partial(translate_scalar_comparison, name=word))
        for name, word in _COMPARISONS.items()
    ),
    Translator("_npi_true_divide_scalar", partial(translate_division, reverse=False)),
    Translator("_npi_rtrue_divide_scalar", partial(translate_division, reverse=True)),
    *SCALAR_TRANSLATIONS,
)
