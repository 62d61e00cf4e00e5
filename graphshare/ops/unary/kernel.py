"""Functions of one array, element by element.

MXNet computes the real functions of integers in float64, and truncates the result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.ops import special_functions as special
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.kernel import Array, Attrs, Clip, Context, Forward, Kernel, Operation, Shapes, Types, result_buffer
from graphshare.ops.limits import FLOATS, NUMBERS, Limits, require, with_limits
from graphshare.ops.unification import same_dtypes, same_shapes

Function = Callable[[Array], Array]


_DEGREE = np.float32(np.pi) / np.float32(180)  # in float32 for every dtype, as in MXNet


_RADIAN = np.float32(180) / np.float32(np.pi)


def _own_dtype_function(function: Any) -> Forward:
    """Return the kernel of a numpy function that computes in the array's own dtype, integers included."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x, out=result_buffer(context, x)))

    return forward


def _real_function(function: Any) -> Forward:
    """Return the kernel of a numpy function of real numbers."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            if x.dtype.kind == "f":
                return np.asarray(function(x, out=result_buffer(context, x)))
            return convert(function(x.astype(np.float64)), x.dtype)

    return forward


def _float_function(function: Function) -> Forward:
    """Return the kernel of a function for float32 and float64."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert(function(to_floating(x) if x.dtype.kind == "f" else x.astype(np.float64)), x.dtype)

    return forward


def _double_function(function: Function) -> Forward:
    """Return the kernel of a function for float64 only."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return convert(function(x.astype(np.float64)), x.dtype)

    return forward


def erfinv(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the inverse of the error function; NaN outside ``[-1, 1]``, 0 for integers."""
    result = special.erfinv(x.astype(np.float64))
    return convert(result if x.dtype.kind == "f" else np.nan_to_num(result, nan=0.0, posinf=np.inf, neginf=-np.inf), x.dtype)


def _scale_by(factor: np.float32) -> Any:
    def scale(x: Array, out: Array | None = None) -> Array:
        return np.asarray(np.multiply(x, x.dtype.type(factor), out=out))

    return scale


def _rounding(function: Function) -> Forward:
    """Return the kernel of a rounding, which leaves integers unchanged."""

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        with np.errstate(invalid="ignore"):
            return function(x) if x.dtype.kind == "f" else x

    return forward


def _round_half_away(x: Array) -> Array:
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(x.dtype.type(1), x), whole)


def _round_half_down(x: Array) -> Array:
    """Round to the nearest integer, half down."""
    low, high = np.floor(x), np.ceil(x)
    return np.where(x - low <= high - x, low, high)


def sign(x: Array) -> Array:
    """Return -1, 0 or 1; 0 for NaN."""
    return np.subtract(x > 0, x < 0, dtype=np.int8).astype(x.dtype)


def _sign(context: Context, attrs: Attrs, x: Array) -> Array:
    return sign(x)


def _logical_not(context: Context, attrs: Attrs, x: Array) -> Array:
    return np.equal(x, 0).astype(x.dtype)


def _identity(context: Context, attrs: Attrs, x: Array) -> Array:
    return x


def _fill_with(value: int) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return np.full_like(x, value)

    return forward


def _invert_root(root: Any) -> Function:
    def inverse(x: Array) -> Array:
        return np.asarray(1 / root(x))

    return inverse


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
    "rcbrt": _float_function(_invert_root(np.cbrt)),
    "rsqrt": _float_function(_invert_root(np.sqrt)),
    "sign": _sign,
    "_contrib_sign_ste": _sign,
    "logical_not": _logical_not,
    "_copy": _identity,
    "_copyto": _identity,
    "BlockGrad": _identity,
    "make_loss": _identity,
    "_contrib_gradientmultiplier": _identity,
    "zeros_like": _fill_with(0),
    "ones_like": _fill_with(1),
}


def unary_kernel(operator: str, name: str) -> Kernel:
    """Return the kernel of the function ``name`` of :data:`FORWARD`."""
    function = {**_REAL, **_OWN_DTYPE}.get(name)
    if not isinstance(function, np.ufunc):
        return Kernel(operator, FORWARD[name], same_shapes, same_dtypes)
    in_order = partial(function, order="C")

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        return in_order if dtypes[0] in FLOATS else None

    return Kernel(operator, FORWARD[name], same_shapes, same_dtypes, direct=direct)


def clip(context: Context, attrs: Attrs, x: Array) -> Array:
    """Clip to ``a_min`` and ``a_max``, which are truncated for integers."""
    low, high = np.float32(attrs["a_min"]), np.float32(attrs["a_max"])
    if x.dtype.kind == "f" and low <= high:
        return np.asarray(np.clip(x, x.dtype.type(low), x.dtype.type(high), out=result_buffer(context, x)))
    first, last = convert(np.asarray(low), x.dtype), convert(np.asarray(high), x.dtype)
    return np.where(x > high, last, np.where(x < low, first, x))


def hard_sigmoid(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``alpha * x + beta``, clipped to 0 and 1, of floats."""
    require(x.dtype.kind == "f", f"{x.dtype} is not supported, expected floats")
    result = np.asarray(to_floating(x) * np.float32(attrs["alpha"]))
    result += np.float32(attrs["beta"])
    return convert(np.clip(result, 0, 1, out=result), x.dtype)


def quadratic(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``a x^2 + b x + c``."""
    a, b, c = (convert(np.asarray(attrs[key]), x.dtype) for key in "abc")
    return np.asarray((a * x + b) * x + c)


def smooth_l1(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return ``(sigma x)^2 / 2`` near 0, ``|x| - 1 / (2 sigma^2)`` beyond ``1 / sigma^2``; ``scalar`` is sigma."""
    data = to_floating(x)
    sigma = data.dtype.type(convert(np.asarray(attrs["scalar"]), x.dtype))
    with np.errstate(all="ignore"):
        square = sigma * sigma
        size = np.abs(data)
        result = np.where(size > 1 / square, size - data.dtype.type(0.5) / square, size * size * square * data.dtype.type(0.5))
    return convert(result, x.dtype)


def shape_array(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the shape as an int64 array."""
    return np.array(x.shape, np.int64)


def size_array(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the number of elements as an int64 array."""
    return np.array([x.size], np.int64)


def _rank_shape(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, [None if inputs[0] is None else (len(inputs[0]),)]


def _one_shape(attrs: Attrs, inputs: Shapes, outputs: Shapes) -> tuple[Shapes, Shapes]:
    return inputs, [(1,)]


def _int64(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    return inputs, ["int64"]


def _bounds_of(attrs: Attrs) -> Operation | None:
    low, high = attrs["a_min"], attrs["a_max"]
    return Clip(low, high) if low <= high else None


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(unary_kernel(name, name) for name in FORWARD),
    Kernel("clip", clip, same_shapes, same_dtypes, epilogue=_bounds_of),
    Kernel("hard_sigmoid", hard_sigmoid, same_shapes, same_dtypes),
    Kernel("_contrib_quadratic", quadratic, same_shapes, same_dtypes),
    Kernel("smooth_l1", smooth_l1, same_shapes, same_dtypes),
    Kernel("shape_array", shape_array, _rank_shape, _int64),
    Kernel("size_array", size_array, _one_shape, _int64),
)
