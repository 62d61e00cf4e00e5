"""The numpy interface's elementwise operators: dtypes are promoted, arrays broadcast, comparisons give booleans."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.activation import kernel as activation
from graphshare.ops.binary import kernel as binary
from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Types
from graphshare.ops.limits import NUMBERS, Limits, with_limits
from graphshare.ops.numpy_elementwise.scalar import INTEGER_FUNCTIONS, integer_types, where_types
from graphshare.ops.numpy_elementwise.scalar import KERNELS as SCALAR_KERNELS
from graphshare.ops.unary import kernel as unary
from graphshare.ops.unification import broadcast_shapes, same_dtypes, same_shapes

UNARY = (
    "arccos arccosh arcsin arcsinh arctan arctanh cbrt ceil cos cosh degrees exp expm1 fix floor log log10 log1p log2 "
    "negative radians reciprocal rint sign sin sinh sqrt square tan trunc"
)


_TESTS: dict[str, Any] = {
    "isfinite": np.isfinite,
    "isinf": np.isinf,
    "isnan": np.isnan,
    "isneginf": np.isneginf,
    "isposinf": np.isposinf,
    "logical_not": np.logical_not,
}


COMPARISONS: dict[str, Any] = {
    "equal": np.equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "not_equal": np.not_equal,
}


ARITHMETIC = {"add": "add", "subtract": "sub", "multiply": "mul", "mod": "mod", "power": "power"}


_FLOAT_FUNCTIONS: dict[str, Any] = {"arctan2": np.arctan2, "hypot": np.hypot}


def _promote(a: str, b: str) -> str:
    """Return the dtype of the result: the wider one, floating point before any other."""
    if a == b:
        return a
    floats = [name for name in (a, b) if name.startswith("float")]
    if floats:
        return max(floats)
    return str(np.result_type(a, b))


def _arithmetic_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    a, b = inputs
    return inputs, outputs if a is None or b is None else [_promote(a, b)]


def _division_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the promoted dtype of one or two arrays, float32 for integers."""
    if None in inputs:
        return inputs, outputs
    name = _promote(str(inputs[0]), str(inputs[-1]))
    return inputs, [name if name.startswith("float") else "float32"]


def _boolean(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known, _ = same_dtypes(attrs, inputs, [])
    return known, ["bool"]


def _float_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known, results = same_dtypes(attrs, inputs, outputs)
    if known[0] is not None and not known[0].startswith("float"):
        raise KernelError(f"{known[0]} is not supported, expected floating point")
    return known, results


def _plain(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, *arrays: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(*arrays))

    return forward


def _arithmetic_kernel(name: str, word: str, types: Any = _arithmetic_types) -> Kernel:
    """Return the kernel of the function ``word`` of two arrays, whose result has the dtype that ``types`` gives."""
    function = binary.ARITHMETIC[word]

    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        (name,) = types(attrs, [str(x.dtype), str(y.dtype)], [None])[1]
        reusable = context.reusable if x.dtype == y.dtype else ()
        return function(Context(training=context.training, reusable=reusable), convert(x, name), convert(y, name))

    return Kernel(f"_npi_{name}", forward, broadcast_shapes, types, direct=binary.direct_function(word))


def _divide_scalar(reverse: bool) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        data = convert(x, _division_types(attrs, [str(x.dtype)], [None])[1][0])
        number = data.dtype.type(attrs["scalar"])
        with np.errstate(all="ignore"):
            return np.asarray(number / data if reverse else data / number)

    return forward


def _compare_scalar(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        data = x if x.dtype == np.bool_ else convert(x, binary.result_type(attrs, str(x.dtype)))
        number = np.asarray(attrs["scalar"], np.float64)
        return np.asarray(function(data, convert(number, data.dtype)))

    return forward


def where(context: Context, attrs: Attrs, condition: Array, x: Array, y: Array) -> Array:
    """Return ``x`` where the condition is not 0, else ``y``, broadcast together."""
    return np.where(condition != 0, x, y)


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(unary.unary_kernel(f"_npi_{name}", name) for name in UNARY.split()),
    unary.unary_kernel("_npi_absolute", "abs"),
    activation.activation_kernel("_npi_tanh", activation.tanh),
    activation.activation_kernel("_npx_relu", activation.relu),
    activation.activation_kernel("_npx_sigmoid", activation.sigmoid),
    *(Kernel(f"_npi_{name}", _plain(f), same_shapes, _boolean) for name, f in _TESTS.items()),
    *(_arithmetic_kernel(name, word) for name, word in ARITHMETIC.items()),
    _arithmetic_kernel("true_divide", "div", _division_types),
    *(Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, _boolean) for name, f in COMPARISONS.items()),
    *(Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, _float_types) for name, f in _FLOAT_FUNCTIONS.items()),
    *(Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, integer_types) for name, f in INTEGER_FUNCTIONS.items()),
    Kernel("_npi_where", where, broadcast_shapes, where_types),
    *(binary.scalar_kernel(f"_npi_{name}_scalar", word, False) for name, word in ARITHMETIC.items()),
    *(binary.scalar_kernel(f"_npi_r{name}_scalar", ARITHMETIC[name], True) for name in ("subtract", "mod", "power")),
    *(Kernel(f"_npi_{name}_scalar", _compare_scalar(f), same_shapes, _boolean) for name, f in COMPARISONS.items()),
    Kernel("_npi_true_divide_scalar", _divide_scalar(False), same_shapes, _division_types),
    Kernel("_npi_rtrue_divide_scalar", _divide_scalar(True), same_shapes, _division_types),
    *SCALAR_KERNELS,
)
