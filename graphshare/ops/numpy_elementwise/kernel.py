"""The numpy interface's elementwise operators and gradients.

Dtypes are promoted, arrays broadcast, comparisons give booleans.
"""

from __future__ import annotations

from collections.abc import Callable
from math import log
from typing import Any

import numpy as np

from graphshare.ops.activation import kernel as activation
from graphshare.ops.activation.kernel import relu_gradient, sigmoid_gradient, tanh_gradient
from graphshare.ops.binary import kernel as binary
from graphshare.ops.binary.kernel import binary_gradient, fit_to, result_type, scalar_gradient
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp, no_gradient
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Types
from graphshare.ops.limits import NUMBERS, Limits, with_limits
from graphshare.ops.unary import kernel as unary
from graphshare.ops.unary.kernel import (
    FACTORS,
    SLOPES_BY_INPUT,
    SLOPES_BY_OUTPUT,
    STEPS,
    factor_vjp,
    sign,
    slope_gradient,
)
from graphshare.ops.unification import broadcast_shapes, compare_dtypes, same_dtypes, same_shapes
from graphshare.text.format import format_count

INTEGER_FUNCTIONS: dict[str, Any] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "lcm": np.lcm,
}


def _ldexp_scalar(x: Array, exponent: Array) -> Array:
    return np.asarray(x * np.power(2.0, exponent))


def has_sign_of(x: Array, other: Array) -> Array:
    """Whether both are negative or both not; NaN is neither."""
    return np.asarray(((x >= 0) & (other >= 0)) | ((x < 0) & (other < 0)))


def _copysign(x: Array, other: Array) -> Array:
    """NaN has no sign, and negates ``x``."""
    return np.where(has_sign_of(x, other), x, -x)


_REAL: dict[str, Any] = {"arctan2": np.arctan2, "copysign": _copysign, "ldexp": _ldexp_scalar}


def _integer_scalar(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        # MXNet truncates the number first: 3 & 2.7 is 2.
        return np.asarray(
            function(x, convert(np.asarray(attrs["scalar"], np.float64), x.dtype))
        ).astype(x.dtype)

    return forward


def _real_scalar(function: Any, reverse: bool) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        name = result_type(attrs, str(x.dtype))
        number = convert(np.asarray(attrs["scalar"], np.float64), name).astype(np.float64)
        data = convert(x, name).astype(np.float64)
        with np.errstate(all="ignore"):
            return convert(
                np.asarray(function(number, data) if reverse else function(data, number)), name
            )

    return forward


def integer_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for all arrays, not floating point."""
    known, results = same_dtypes(attrs, inputs, outputs)
    if known[0] is not None and known[0].startswith("float"):
        raise KernelError(f"{known[0]} is not supported, expected integers")
    return known, results


def _real_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, outputs if inputs[0] is None else [result_type(attrs, inputs[0])]


def _pair(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert(
                np.asarray(function(x.astype(np.float64), y.astype(np.float64))), x.dtype
            )

    return forward


def around(context: Context, attrs: Attrs, x: Array) -> Array:
    """Round to ``decimals`` places, half to even."""
    if x.dtype.kind != "f":
        return x
    factor = np.float64(10.0) ** attrs["decimals"]
    return np.asarray(np.rint(x.astype(np.float64) * factor) / factor).astype(x.dtype)


def nan_to_num(context: Context, attrs: Attrs, x: Array) -> Array:
    """Replace NaN and infinities, by default with 0 and the dtype's limits."""
    return np.nan_to_num(
        x, copy=True, nan=attrs["nan"], posinf=attrs["posinf"], neginf=attrs["neginf"]
    )


def polyval(context: Context, attrs: Attrs, p: Array, x: Array) -> Array:
    """Evaluate the polynomial ``p``, highest power first, at ``x``."""
    return np.polyval(p, x).astype(x.dtype)


def _polyval_shapes(attrs: Attrs, inputs: Any, outputs: Any) -> Any:
    (x,), (out,) = same_shapes(attrs, inputs[1:], outputs)
    if inputs[0] is not None and len(inputs[0]) != 1:
        raise KernelError(f"coefficients have {format_count(len(inputs[0]), 'axis')}, expected 1")
    return [inputs[0], x], [out]


def _where(left: str | None, right: str | None) -> Forward:
    """Where the condition is not 0, take the first value; attributes may replace arrays."""

    def forward(context: Context, attrs: Attrs, condition: Array, *arrays: Array) -> Array:
        dtype = arrays[0].dtype if arrays else np.dtype(np.float32)
        rest = iter(arrays)
        parts = [
            next(rest) if key is None else np.asarray(attrs[key]).astype(dtype)
            for key in (left, right)
        ]
        return np.where(condition != 0, *parts)

    return forward


def where_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for all but the condition; float32 if both values are attributes."""
    if len(inputs) == 1:
        return inputs, ["float32"]
    data, results = same_dtypes(attrs, inputs[1:], outputs)
    return [inputs[0], *data], results


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
    if a == b:
        return a
    floats = [name for name in (a, b) if name.startswith("float")]
    if floats:
        # The names sort by width.
        return max(floats)
    return str(np.result_type(a, b))


def _arithmetic_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    a, b = inputs
    return inputs, outputs if a is None or b is None else [_promote(a, b)]


def _division_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if None in inputs:
        return inputs, outputs
    name = _promote(str(inputs[0]), str(inputs[-1]))
    return inputs, [name if name.startswith("float") else "float32"]


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
    function = binary.ARITHMETIC[word]

    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        (name,) = types(attrs, [str(x.dtype), str(y.dtype)], [None])[1]
        # The result does not fit into an array of another dtype.
        reusable = context.reusable if x.dtype == y.dtype else ()
        return function(
            Context(training=context.training, reusable=reusable),
            convert(x, name),
            convert(y, name),
        )

    return Kernel(
        f"_npi_{name}", forward, broadcast_shapes, types, direct=binary.direct_function(word)
    )


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


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(unary.unary_kernel(f"_npi_{name}", name) for name in UNARY.split()),
    unary.unary_kernel("_npi_absolute", "abs"),
    activation.activation_kernel("_npi_tanh", activation.tanh),
    activation.activation_kernel("_npx_relu", activation.relu),
    activation.activation_kernel("_npx_sigmoid", activation.sigmoid),
    *(
        Kernel(f"_npi_{name}", _plain(f), same_shapes, compare_dtypes("bool"))
        for name, f in _TESTS.items()
    ),
    *(_arithmetic_kernel(name, word) for name, word in ARITHMETIC.items()),
    _arithmetic_kernel("true_divide", "div", _division_types),
    *(
        Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, compare_dtypes("bool"))
        for name, f in COMPARISONS.items()
    ),
    *(
        Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, _float_types)
        for name, f in _FLOAT_FUNCTIONS.items()
    ),
    *(
        Kernel(f"_npi_{name}", _plain(f), broadcast_shapes, integer_types)
        for name, f in INTEGER_FUNCTIONS.items()
    ),
    Kernel("_npi_where", _where(None, None), broadcast_shapes, where_types),
    *(
        binary.scalar_kernel(f"_npi_{name}_scalar", word, False)
        for name, word in ARITHMETIC.items()
    ),
    *(
        binary.scalar_kernel(f"_npi_r{name}_scalar", ARITHMETIC[name], True)
        for name in ("subtract", "mod", "power")
    ),
    *(
        Kernel(f"_npi_{name}_scalar", _compare_scalar(f), same_shapes, compare_dtypes("bool"))
        for name, f in COMPARISONS.items()
    ),
    Kernel("_npi_true_divide_scalar", _divide_scalar(False), same_shapes, _division_types),
    Kernel("_npi_rtrue_divide_scalar", _divide_scalar(True), same_shapes, _division_types),
    *(
        Kernel(f"_npi_{name}_scalar", _integer_scalar(f), same_shapes, integer_types)
        for name, f in INTEGER_FUNCTIONS.items()
    ),
    *(
        Kernel(f"_npi_{name}_scalar", _real_scalar(f, False), same_shapes, _real_types)
        for name, f in _REAL.items()
    ),
    *(
        Kernel(f"_npi_r{name}_scalar", _real_scalar(f, True), same_shapes, _real_types)
        for name, f in _REAL.items()
    ),
    Kernel("_npi_copysign", _pair(_copysign), broadcast_shapes, same_dtypes),
    Kernel("_npi_ldexp", _pair(_ldexp_scalar), broadcast_shapes, same_dtypes),
    Kernel(
        "_npi_bitwise_not", lambda context, attrs, x: np.bitwise_not(x), same_shapes, integer_types
    ),
    Kernel("_npi_around", around, same_shapes, same_dtypes),
    Kernel("_npi_nan_to_num", nan_to_num, same_shapes, same_dtypes),
    Kernel("_npi_polyval", polyval, _polyval_shapes, same_dtypes),
    Kernel("_npi_where_lscalar", _where("scalar", None), broadcast_shapes, where_types),
    Kernel("_npi_where_rscalar", _where(None, "scalar"), broadcast_shapes, where_types),
    Kernel("_npi_where_scalar2", _where("x", "y"), same_shapes, where_types),
)


def broadcast_where_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of ``x`` where the condition is not 0 and of ``y`` elsewhere."""
    condition, x, y = entry.inputs
    return [
        None,
        fit_to(np.where(condition != 0, dy, 0), x),
        fit_to(np.where(condition != 0, 0, dy), y),
    ]


_LN2 = log(2.0)


def _scalar_vjp(slope: Callable[[Array, float], Array]) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        (x,) = entry.inputs
        return fit_to(dy * slope(x, entry.attrs["scalar"]), x)

    return vjp


def _arctan2(x: Array, number: float) -> Array:
    return np.asarray(number / (x * x + number * number))


def _rarctan2(x: Array, number: float) -> Array:
    """As in MXNet, x is on top; the derivative is ``-number / (x^2 + number^2)``."""
    return np.asarray(-x / (x * x + number * number))


def _ldexp(x: Array, exponent: float) -> Array:
    return np.full_like(x, np.float64(2.0) ** exponent)


def _rldexp(exponent: Array, number: float) -> Array:
    return np.asarray(number * np.exp2(exponent) * _LN2)


def ldexp_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of number and exponent."""
    x, exponent = entry.inputs
    scaled = dy * np.exp2(exponent)
    return [fit_to(scaled, x), fit_to(scaled * x * _LN2, exponent)]


def copysign_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the number's gradient, negated where its sign changed; the other operand has none."""
    x, sign_source = entry.inputs
    return fit_to(np.where(has_sign_of(x, sign_source), dy, -dy), x)


def nan_to_num_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` at finite elements."""
    (x,) = entry.inputs
    return np.where(np.isfinite(x), dy, dy.dtype.type(0))


def polyval_gradient(entry: TapeEntry, dy: Array) -> Gradients:
    """Return gradients of coefficients (powers of x) and of x (the derivative)."""
    p, x = entry.inputs
    dp = dy.reshape(-1) @ np.vander(x.reshape(-1), len(p))
    return [dp.astype(p.dtype, copy=False), fit_to(dy * np.polyval(np.polyder(p), x), x)]


def _where_scalar_vjp(*, left: bool) -> Vjp:
    """A left number leaves the array where the condition is 0, a right one where it is not; MXNet
    computes both the wrong way round, except for a broadcast array beside a left number.
    """

    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        condition, x = entry.inputs
        chosen = (condition != 0) == (left or x.shape != dy.shape)
        return [None, fit_to(np.where(chosen, dy, dy.dtype.type(0)), x)]

    return vjp


_BINARY = {**ARITHMETIC, "true_divide": "div"}


def _unary_gradient(name: str) -> Gradient:
    if name in FACTORS:
        return Gradient(
            f"_npi_{name}", factor_vjp(FACTORS[name]), reads_inputs=False, reads_outputs=False
        )
    by_input = name in SLOPES_BY_INPUT
    return slope_gradient(
        f"_npi_{name}",
        SLOPES_BY_INPUT[name] if by_input else SLOPES_BY_OUTPUT[name],
        by_input=by_input,
    )


GRADIENTS = (
    Gradient("_npi_arctan2_scalar", _scalar_vjp(_arctan2), reads_outputs=False),
    Gradient("_npi_rarctan2_scalar", _scalar_vjp(_rarctan2), reads_outputs=False),
    Gradient("_npi_ldexp_scalar", _scalar_vjp(_ldexp), reads_outputs=False),
    Gradient("_npi_rldexp_scalar", _scalar_vjp(_rldexp), reads_outputs=False),
    Gradient("_npi_ldexp", ldexp_gradient, reads_outputs=False),
    Gradient("_npi_copysign", copysign_gradient, reads_outputs=False),
    Gradient("_npi_nan_to_num", nan_to_num_gradient, reads_outputs=False),
    Gradient("_npi_polyval", polyval_gradient, reads_outputs=False),
    Gradient("_npi_where_lscalar", _where_scalar_vjp(left=True), reads_outputs=False),
    Gradient("_npi_where_rscalar", _where_scalar_vjp(left=False), reads_outputs=False),
    *no_gradient("MXNet's gradient of it is zero everywhere", "_npi_where_scalar2"),
    *no_gradient(
        "MXNet's backward pass of it always fails",
        "_npi_copysign_scalar",
        "_npi_rcopysign_scalar",
        is_zero=False,
    ),
    *(
        binary_gradient(f"_npi_{name}", word)
        for name, word in (*_BINARY.items(), ("arctan2", "arctan2"), ("hypot", "hypot"))
    ),
    *(scalar_gradient(f"_npi_{name}_scalar", word) for name, word in _BINARY.items()),
    *(
        scalar_gradient(f"_npi_r{name}_scalar", _BINARY[name], reverse=True)
        for name in ("subtract", "mod", "power", "true_divide")
    ),
    Gradient("_npi_where", broadcast_where_gradient, reads_outputs=False),
    *(_unary_gradient(name) for name in UNARY.split() if name not in STEPS),
    slope_gradient("_npi_absolute", sign, by_input=True),
    Gradient("_npx_relu", relu_gradient, reads_inputs=False),
    Gradient("_npx_sigmoid", sigmoid_gradient, reads_inputs=False),
    Gradient("_npi_tanh", tanh_gradient, reads_inputs=False),
    *no_gradient(
        "a comparison is constant almost everywhere",
        *(f"_npi_{name}{suffix}" for name in COMPARISONS for suffix in ("", "_scalar")),
    ),
    *no_gradient(
        "a test is constant almost everywhere",
        "_npi_isfinite",
        "_npi_isinf",
        "_npi_isnan",
        "_npi_isneginf",
        "_npi_isposinf",
    ),
    *no_gradient(
        "it computes integers",
        "_npi_bitwise_and",
        "_npi_bitwise_or",
        "_npi_bitwise_xor",
        "_npi_lcm",
    ),
    *no_gradient(
        "its derivative is 0 wherever there is one",
        *(f"_npi_{name}" for name in UNARY.split() if name in STEPS),
        "_npi_logical_not",
    ),
    *no_gradient(
        "its result is a count, a comparison or a constant",
        *"_npi_around _npi_bitwise_and_scalar _npi_bitwise_not _npi_bitwise_or_scalar _npi_bitwise_xor_scalar".split(),
        "_npi_lcm_scalar",
    ),
)
