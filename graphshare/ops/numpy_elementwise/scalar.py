"""The numpy interface's operators between an array and a number that are not plain arithmetic, and ``where`` with numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.binary.kernel import result_type
from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Types
from graphshare.ops.limits import NUMBERS, Limits, with_limits
from graphshare.ops.unification import broadcast_shapes, same_dtypes, same_shapes
from graphshare.text.format import format_count

INTEGER_FUNCTIONS: dict[str, Any] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "lcm": np.lcm,
}


def _ldexp(x: Array, exponent: Array) -> Array:
    """Return x times 2 to a power, which may have a fraction."""
    return np.asarray(x * np.power(2.0, exponent))


def has_sign_of(x: Array, other: Array) -> Array:
    """Return whether ``x`` and ``other`` are both negative or both not; NaN is neither."""
    return np.asarray(((x >= 0) & (other >= 0)) | ((x < 0) & (other < 0)))


def _copysign(x: Array, other: Array) -> Array:
    """Return x with the sign of another number; NaN has none, and negates x."""
    return np.where(has_sign_of(x, other), x, -x)


_REAL: dict[str, Any] = {"arctan2": np.arctan2, "copysign": _copysign, "ldexp": _ldexp}


def _integer_scalar(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return np.asarray(function(x, convert(np.asarray(attrs["scalar"], np.float64), x.dtype))).astype(x.dtype)

    return forward


def _real_scalar(function: Any, reverse: bool) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        name = result_type(attrs, str(x.dtype))
        number = convert(np.asarray(attrs["scalar"], np.float64), name).astype(np.float64)
        data = convert(x, name).astype(np.float64)
        with np.errstate(all="ignore"):
            return convert(np.asarray(function(number, data) if reverse else function(data, number)), name)

    return forward


def integer_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for all arrays, which must not be floating point."""
    known, results = same_dtypes(attrs, inputs, outputs)
    if known[0] is not None and known[0].startswith("float"):
        raise KernelError(f"{known[0]} is not supported, expected integers")
    return known, results


def _real_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the dtype of any operator between an array and a number."""
    return inputs, outputs if inputs[0] is None else [result_type(attrs, inputs[0])]


def _pair(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert(np.asarray(function(x.astype(np.float64), y.astype(np.float64))), x.dtype)

    return forward


def bitwise_not(context: Context, attrs: Attrs, x: Array) -> Array:
    """Invert all bits, or negate a boolean."""
    return np.bitwise_not(x)


def around(context: Context, attrs: Attrs, x: Array) -> Array:
    """Round to ``decimals`` places, half to even."""
    if x.dtype.kind != "f":
        return x
    factor = np.float64(10.0) ** attrs["decimals"]
    return np.asarray(np.rint(x.astype(np.float64) * factor) / factor).astype(x.dtype)


def nan_to_num(context: Context, attrs: Attrs, x: Array) -> Array:
    """Replace NaN and infinities, by default with 0 and the limits of the dtype."""
    return np.nan_to_num(x, copy=True, nan=attrs["nan"], posinf=attrs["posinf"], neginf=attrs["neginf"])


def polyval(context: Context, attrs: Attrs, p: Array, x: Array) -> Array:
    """Evaluate the polynomial with coefficients ``p``, highest power first, at ``x``."""
    return np.polyval(p, x).astype(x.dtype)


def _polyval_shapes(attrs: Attrs, inputs: Any, outputs: Any) -> Any:
    (x,), (out,) = same_shapes(attrs, inputs[1:], outputs)
    if inputs[0] is not None and len(inputs[0]) != 1:
        raise KernelError(f"coefficients have {format_count(len(inputs[0]), 'axis')}, expected 1")
    return [inputs[0], x], [out]


def _where(left: str | None, right: str | None) -> Forward:
    """Return the first value where the condition is not 0, else the second: the attribute named, or the next array."""

    def forward(context: Context, attrs: Attrs, condition: Array, *arrays: Array) -> Array:
        dtype = arrays[0].dtype if arrays else np.dtype(np.float32)
        parts = [arrays[0] if key is None else np.asarray(attrs[key]).astype(dtype) for key in (left, right)]
        return np.where(condition != 0, *parts)

    return forward


def where_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer one dtype for the result and all arrays but the condition; float32 where both values are attributes."""
    if len(inputs) == 1:
        return inputs, ["float32"]
    data, results = same_dtypes(attrs, inputs[1:], outputs)
    return [inputs[0], *data], results


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(Kernel(f"_npi_{name}_scalar", _integer_scalar(f), same_shapes, integer_types) for name, f in INTEGER_FUNCTIONS.items()),
    *(Kernel(f"_npi_{name}_scalar", _real_scalar(f, False), same_shapes, _real_types) for name, f in _REAL.items()),
    *(Kernel(f"_npi_r{name}_scalar", _real_scalar(f, True), same_shapes, _real_types) for name, f in _REAL.items()),
    Kernel("_npi_copysign", _pair(_copysign), broadcast_shapes, same_dtypes),
    Kernel("_npi_ldexp", _pair(_ldexp), broadcast_shapes, same_dtypes),
    Kernel("_npi_bitwise_not", bitwise_not, same_shapes, integer_types),
    Kernel("_npi_around", around, same_shapes, same_dtypes),
    Kernel("_npi_nan_to_num", nan_to_num, same_shapes, same_dtypes),
    Kernel("_npi_polyval", polyval, _polyval_shapes, same_dtypes),
    Kernel("_npi_where_lscalar", _where("scalar", None), broadcast_shapes, where_types),
    Kernel("_npi_where_rscalar", _where(None, "scalar"), broadcast_shapes, where_types),
    Kernel("_npi_where_scalar2", _where("x", "y"), same_shapes, where_types),
)
