"""Functions of one array, element by element.

MXNet computes real functions of integers in float64 and truncates.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.ops import special_functions as special
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.gradient import Gradient, TapeEntry, Vjp, no_gradient
from graphshare.ops.kernel import (
    Array,
    Attrs,
    Clip,
    Context,
    Forward,
    Kernel,
    Operation,
    result_buffer,
)
from graphshare.ops.limits import FLOATS, NUMBERS, Limits, require, with_limits
from graphshare.ops.special_functions import gamma
from graphshare.ops.unification import dtype_rule, same_dtypes, same_shapes

Function = Callable[[Array], Array]


_DEGREE = np.float32(np.pi) / np.float32(180)  # in float32 for every dtype, as in MXNet


_RADIAN = np.float32(180) / np.float32(np.pi)


def _own_dtype_function(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, out=result_buffer(context, x)))

    return forward


def _real_function(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype.kind == "f":
                return np.asarray(function(x, out=result_buffer(context, x)))
            return convert(function(x.astype(np.float64)), x.dtype)

    return forward


def _float_function(function: Function) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert(
                function(to_floating(x) if x.dtype.kind == "f" else x.astype(np.float64)), x.dtype
            )

    return forward


def _double_function(function: Function) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return convert(function(x.astype(np.float64)), x.dtype)

    return forward


def erfinv(context: Context, attrs: Attrs, x: Array) -> Array:
    """Invert the error function; NaN outside ``[-1, 1]``, 0 for integers."""
    result = special.erfinv(x.astype(np.float64))
    return convert(
        result
        if x.dtype.kind == "f"
        else np.nan_to_num(result, nan=0.0, posinf=np.inf, neginf=-np.inf),
        x.dtype,
    )


def _scale_by(factor: np.float32) -> Any:
    def scale(x: Array, out: Array | None = None) -> Array:
        return np.asarray(np.multiply(x, x.dtype.type(factor), out=out))

    return scale


def _rounding(function: Function) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return function(x) if x.dtype.kind == "f" else x

    return forward


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


def _round_half_down(x: Array) -> Array:
    low, high = np.floor(x), np.ceil(x)
    return np.where(x - low <= high - x, low, high)


def sign(x: Array) -> Array:
    """Return -1, 0 or 1; 0 for NaN."""
    # np.sign gives NaN for NaN.
    return np.subtract(x > 0, x < 0, dtype=np.int8).astype(x.dtype)


_REAL: dict[str, Any] = {
    "arccos": np.arccos,
    "arccosh": np.arccosh,
    "arcsin": np.arcsin,
    "arcsinh": np.arcsinh,
    "arctan": np.arctan,
    "arctanh": np.arctanh,
    "cbrt": np.cbrt,
    "cos": np.cos,
    "cosh": np.cosh,
    "degrees": _scale_by(_RADIAN),
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "radians": _scale_by(_DEGREE),
    "reciprocal": np.reciprocal,
    "sin": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
}


_OWN_DTYPE: dict[str, Any] = {"abs": np.absolute, "negative": np.negative, "square": np.square}


IDENTITIES = (
    "_copy",
    "_copyto",
    "BlockGrad",
    "make_loss",
    "_contrib_gradientmultiplier",
    "_CrossDeviceCopy",
)
"""Operators that return their input; there is only one device."""

FORWARD: dict[str, Forward] = {
    **{name: _real_function(function) for name, function in _REAL.items()},
    **{name: _own_dtype_function(function) for name, function in _OWN_DTYPE.items()},
    "ceil": _rounding(np.ceil),
    "fix": _rounding(np.trunc),
    "floor": _rounding(np.floor),
    "rint": _rounding(_round_half_down),
    "round": _rounding(_round_half_away),
    "trunc": _rounding(np.trunc),
    "_contrib_round_ste": _rounding(_round_half_away),
    "erf": _float_function(special.erf),
    "erfinv": erfinv,
    "gamma": _double_function(special.gamma),
    "gammaln": _double_function(special.gammaln),
    "rcbrt": _float_function(lambda x: np.asarray(1 / np.cbrt(x))),
    "rsqrt": _float_function(lambda x: np.asarray(1 / np.sqrt(x))),
    **dict.fromkeys(("sign", "_contrib_sign_ste"), lambda context, attrs, x: sign(x)),
    "logical_not": lambda context, attrs, x: np.equal(x, 0).astype(x.dtype),
    **dict.fromkeys(IDENTITIES, lambda context, attrs, x: x),
    "zeros_like": lambda context, attrs, x: np.full_like(x, 0),
    "ones_like": lambda context, attrs, x: np.full_like(x, 1),
}


def unary_kernel(operator: str, name: str) -> Kernel:
    """Return the kernel of ``name`` in :data:`FORWARD`."""
    function = {**_REAL, **_OWN_DTYPE}.get(name)
    if not isinstance(function, np.ufunc):
        return Kernel(operator, FORWARD[name], same_shapes, same_dtypes)
    # Direct results are in C order, like `forward`'s.
    in_order = partial(function, order="C")

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        return in_order if dtypes[0] in FLOATS else None

    return Kernel(operator, FORWARD[name], same_shapes, same_dtypes, direct=direct)


def clip(context: Context, attrs: Attrs, x: Array) -> Array:
    """Clip to ``a_min`` and ``a_max`` (truncated for integers)."""
    low, high = np.float32(attrs["a_min"]), np.float32(attrs["a_max"])
    if x.dtype.kind == "f" and low <= high:
        return np.asarray(
            np.clip(x, x.dtype.type(low), x.dtype.type(high), out=result_buffer(context, x))
        )
    first, last = convert(np.asarray(low), x.dtype), convert(np.asarray(high), x.dtype)
    # The upper bound comes first, in case it is smaller.
    return np.where(x > high, last, np.where(x < low, first, x))


def hard_sigmoid(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``alpha * x + beta`` of floats, clipped to 0 and 1."""
    require(x.dtype.kind == "f", f"{x.dtype} is not supported, expected floats")
    result = np.asarray(to_floating(x) * np.float32(attrs["alpha"]))
    result += np.float32(attrs["beta"])
    return convert(np.clip(result, 0, 1, out=result), x.dtype)


def quadratic(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``a x^2 + b x + c``."""
    a, b, c = (convert(np.asarray(attrs[key]), x.dtype) for key in "abc")
    return np.asarray((a * x + b) * x + c)


def smooth_l1(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(sigma x)^2 / 2`` up to ``1 / sigma^2``, then ``|x| - 1 / (2 sigma^2)``.

    ``scalar`` is sigma.
    """
    data = to_floating(x)
    sigma = data.dtype.type(convert(np.asarray(attrs["scalar"]), x.dtype))
    with np.errstate(all="ignore"):
        square = sigma * sigma
        size = np.abs(data)
        result = np.where(
            size > 1 / square,
            size - data.dtype.type(0.5) / square,
            size * size * square * data.dtype.type(0.5),
        )
    return convert(result, x.dtype)


def size_array(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the number of elements as int64."""
    return np.array([x.size], np.int64)


def _make_clip(attrs: Attrs) -> Operation | None:
    low, high = attrs["a_min"], attrs["a_max"]
    return Clip(low, high) if low <= high else None


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(unary_kernel(name, name) for name in FORWARD),
    Kernel(
        "clip", clip, same_shapes, same_dtypes, limits=Limits(dtypes=NUMBERS), epilogue=_make_clip
    ),
    Kernel("hard_sigmoid", hard_sigmoid, same_shapes, same_dtypes),
    Kernel("_contrib_quadratic", quadratic, same_shapes, same_dtypes),
    Kernel("smooth_l1", smooth_l1, same_shapes, same_dtypes),
    Kernel(
        "shape_array",
        lambda context, attrs, x: np.array(x.shape, np.int64),
        lambda attrs, inputs, _: (inputs, [None if inputs[0] is None else (len(inputs[0]),)]),
        dtype_rule("int64"),
    ),
    Kernel(
        "size_array", size_array, lambda attrs, inputs, _: (inputs, [(1,)]), dtype_rule("int64")
    ),
)


Slope = Callable[[Array], Array]


def digamma(x: Array) -> Array:
    """Return the derivative of log gamma in float64, infinite at 0 and negative integers."""
    x = x.astype(np.float64)
    low = x <= 0
    pole = low & (x == np.floor(x))
    up = np.where(low, 1 - x, x)
    result = np.zeros_like(up)
    # The series is exact to 3e-13 from 8 on; the recurrence raises smaller numbers.
    for _ in range(8):
        small = up < 8
        result -= np.where(small, 1 / np.where(small, up, 1), 0)
        up = np.where(small, up + 1, up)
    square = 1 / (up * up)
    series = square * (
        1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132)))
    )
    result += np.log(up) - 0.5 / up - series
    return np.where(pole, np.inf, np.where(low, result - math.pi / np.tan(math.pi * x), result))


def _gamma(x: Array) -> Array:
    return np.asarray(gamma(x.astype(np.float64)) * digamma(x))


SLOPES_BY_INPUT: dict[str, Slope] = {
    "abs": sign,
    "arccos": lambda x: -1 / np.sqrt(1 - x * x),
    "arccosh": lambda x: 1 / np.sqrt(x * x - 1),
    "arcsin": lambda x: 1 / np.sqrt(1 - x * x),
    "arcsinh": lambda x: 1 / np.sqrt(x * x + 1),
    "arctan": lambda x: 1 / (x * x + 1),
    "arctanh": lambda x: 1 / (1 - x * x),
    "cos": lambda x: -np.sin(x),
    "cosh": np.sinh,
    "erf": lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x),
    "expm1": np.exp,
    "gamma": _gamma,
    "gammaln": digamma,
    "log": lambda x: 1 / x,
    "log10": lambda x: 1 / (x * math.log(10)),
    "log1p": lambda x: 1 / (1 + x),
    "log2": lambda x: 1 / (x * math.log(2)),
    "rcbrt": lambda x: -1 / (3 * x * np.cbrt(x)),
    "reciprocal": lambda x: -1 / (x * x),
    "rsqrt": lambda x: -0.5 / (x * np.sqrt(x)),
    "sin": np.cos,
    "sinh": np.cosh,
    "square": lambda x: 2 * x,
}


# The output gives the slope, so the input need not be kept.
SLOPES_BY_OUTPUT: dict[str, Slope] = {
    "cbrt": lambda y: 1 / (3 * y * y),
    "erfinv": lambda y: 0.5 * math.sqrt(math.pi) * np.exp(y * y),
    "exp": lambda y: y,
    "sqrt": lambda y: 0.5 / y,
    "tan": lambda y: y * y + 1,
}


FACTORS = {
    "negative": -1.0,
    "degrees": 180 / math.pi,
    "radians": math.pi / 180,
    "_copy": 1.0,
    "_copyto": 1.0,
    "_CrossDeviceCopy": 1.0,
    # Straight-through estimators: the identity's gradient.
    "_contrib_round_ste": 1.0,
    "_contrib_sign_ste": 1.0,
}


STEPS = ("ceil", "fix", "floor", "rint", "round", "sign", "trunc")
"""Step functions."""


def _slope_at(slope: Slope, x: Array) -> Array:
    """Compute float16 in float32, where squares do not overflow."""
    return slope(x.astype(np.float32)).astype(x.dtype) if x.dtype == np.float16 else slope(x)


def factor_vjp(factor: float) -> Vjp:
    """Multiply ``dy`` by ``factor``."""

    def vjp(entry: TapeEntry, dy: Array) -> Array:
        return dy if factor == 1 else np.asarray(dy * dy.dtype.type(factor))

    return vjp


def multiply_scalar(entry: TapeEntry, dy: Array) -> Array:
    """Return ``scalar`` times ``dy``."""
    return np.asarray(dy * dy.dtype.type(entry.attrs["scalar"]))


def clip_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` within the bounds (inclusive), and for NaN."""
    (x,) = entry.inputs
    outside = (x < np.float32(entry.attrs["a_min"])) | (x > np.float32(entry.attrs["a_max"]))
    return np.where(outside, dy.dtype.type(0), dy)


def hard_sigmoid_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``alpha`` times ``dy`` strictly between the bounds."""
    y = entry.outputs[0]
    return np.asarray(dy * dy.dtype.type(entry.attrs["alpha"]) * ((y > 0) & (y < 1)))


def quadratic_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times ``2 a x + b``."""
    x = entry.inputs[0]
    return np.asarray(
        dy * (2 * x.dtype.type(entry.attrs["a"]) * x + x.dtype.type(entry.attrs["b"]))
    )


def smooth_l1_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy`` times ``sigma^2 x``, clipped to -1 and 1."""
    x = entry.inputs[0]
    return np.asarray(dy * np.clip(x.dtype.type(entry.attrs["scalar"]) ** 2 * x, -1, 1))


def slope_gradient(name: str, slope: Slope, *, by_input: bool) -> Gradient:
    """Return the gradient with this derivative, of the input (``by_input``) or the output."""

    def vjp(entry: TapeEntry, dy: Array) -> Array:
        array = entry.inputs[0] if by_input else entry.outputs[0]
        result: Array = dy * _slope_at(slope, array)
        return result.astype(array.dtype, copy=False)

    return Gradient(name, vjp, reads_inputs=by_input, reads_outputs=not by_input)


GRADIENTS = (
    *(slope_gradient(name, slope, by_input=True) for name, slope in SLOPES_BY_INPUT.items()),
    *(slope_gradient(name, slope, by_input=False) for name, slope in SLOPES_BY_OUTPUT.items()),
    *(
        Gradient(name, factor_vjp(factor), reads_inputs=False, reads_outputs=False)
        for name, factor in FACTORS.items()
    ),
    Gradient(
        "make_loss",
        lambda entry, dy: np.ones_like(entry.inputs[0]),
        reads_outputs=False,
        is_loss=True,
    ),
    Gradient(
        "_contrib_gradientmultiplier", multiply_scalar, reads_inputs=False, reads_outputs=False
    ),
    Gradient("clip", clip_gradient, reads_outputs=False),
    Gradient("hard_sigmoid", hard_sigmoid_gradient, reads_inputs=False),
    Gradient("_contrib_quadratic", quadratic_gradient, reads_outputs=False),
    Gradient("smooth_l1", smooth_l1_gradient, reads_outputs=False),
    *no_gradient("its derivative is 0 wherever there is one", *STEPS, "logical_not"),
    *no_gradient("it stops gradients", "BlockGrad"),
    *no_gradient(
        "it does not read the values of its input",
        "zeros_like",
        "ones_like",
        "shape_array",
        "size_array",
    ),
)
