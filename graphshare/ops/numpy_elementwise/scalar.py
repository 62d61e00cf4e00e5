"""The numpy interface's operators between an array and a number that are not plain arithmetic, and choices between numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphshare.ops.binary.kernel import result_type
from graphshare.ops.conversion import convert
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel, KernelError, Types
from graphshare.ops.limits import NUMBERS, Limits, with_limits
from graphshare.ops.unification import broadcast_shapes, same_dtypes, same_shapes

_WHOLE: dict[str, Any] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "lcm": np.lcm,
}


def _ldexp(x: Array, exponent: Array) -> Array:
    """x times 2 to a power, which may have a fraction."""
    return np.asarray(x * np.power(2.0, exponent))


def _copysign(x: Array, of: Array) -> Array:
    """x with the sign of another number; NaN has none, and turns it round."""
    return np.where(((x >= 0) & (of >= 0)) | ((x < 0) & (of < 0)), x, -x)


_REAL: dict[str, Any] = {"arctan2": np.arctan2, "copysign": _copysign, "ldexp": _ldexp}


def _of_whole_numbers(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        return np.asarray(function(x, convert(np.asarray(attrs["scalar"], np.float64), x.dtype))).astype(x.dtype)

    return forward


def _of_real_numbers(function: Any, reverse: bool) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        name = result_type(attrs, str(x.dtype))
        number = convert(np.asarray(attrs["scalar"], np.float64), name).astype(np.float64)
        data = convert(x, name).astype(np.float64)
        with np.errstate(all="ignore"):
            return convert(np.asarray(function(number, data) if reverse else function(data, number)), name)

    return forward


def _whole_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    known, results = same_dtypes(attrs, inputs, outputs)
    if known[0] is not None and known[0].startswith("float"):
        raise KernelError(f"{known[0]} where whole numbers are wanted")
    return known, results


def _real_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """As between any array and a number."""
    return inputs, outputs if inputs[0] is None else [result_type(attrs, inputs[0])]


def _pair(function: Any) -> Forward:
    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            return convert(np.asarray(function(x.astype(np.float64), y.astype(np.float64))), x.dtype)

    return forward


def bitwise_not(context: Context, attrs: Attrs, x: Array) -> Array:
    """All bits the other way round; the other truth value of a boolean."""
    return np.bitwise_not(x)


def around(context: Context, attrs: Attrs, x: Array) -> Array:
    """Rounded to ``decimals`` places, half to even."""
    if x.dtype.kind != "f":
        return x
    factor = np.float64(10.0) ** attrs["decimals"]
    return np.asarray(np.rint(x.astype(np.float64) * factor) / factor).astype(x.dtype)


def nan_to_num(context: Context, attrs: Attrs, x: Array) -> Array:
    """Numbers in the place of NaN and infinities; by default 0 and the ends of the type."""
    return np.nan_to_num(x, copy=True, nan=attrs["nan"], posinf=attrs["posinf"], neginf=attrs["neginf"])


def polyval(context: Context, attrs: Attrs, p: Array, x: Array) -> Array:
    """The polynomial with coefficients ``p``, highest power first, at ``x``."""
    return np.polyval(p, x).astype(x.dtype)


def _polyval_shapes(attrs: Attrs, inputs: Any, outputs: Any) -> Any:
    (x,), (out,) = same_shapes(attrs, inputs[1:], outputs)
    if inputs[0] is not None and len(inputs[0]) != 1:
        raise KernelError(f"coefficients have {len(inputs[0])} axes where one is wanted")
    return [inputs[0], x], [out]


def _where(left: str | None, right: str | None) -> Forward:
    """Where the condition is not 0 the first, else the second; an attribute where it is named, else the next array."""

    def forward(context: Context, attrs: Attrs, condition: Array, *arrays: Array) -> Array:
        given = list(arrays)
        dtype = given[0].dtype if given else np.dtype(np.float32)
        parts = [given.pop(0) if key is None else np.asarray(attrs[key]).astype(dtype) for key in (left, right)]
        return np.where(condition != 0, *parts)

    return forward


def _where_types(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    if len(inputs) == 1:
        return inputs, ["float32"]
    (data,), out = same_dtypes(attrs, inputs[1:], outputs)
    return [inputs[0], data], out


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(Kernel(f"_npi_{name}_scalar", _of_whole_numbers(f), same_shapes, _whole_types) for name, f in _WHOLE.items()),
    *(Kernel(f"_npi_{name}_scalar", _of_real_numbers(f, False), same_shapes, _real_types) for name, f in _REAL.items()),
    *(Kernel(f"_npi_r{name}_scalar", _of_real_numbers(f, True), same_shapes, _real_types) for name, f in _REAL.items()),
    Kernel("_npi_copysign", _pair(_copysign), broadcast_shapes, same_dtypes),
    Kernel("_npi_ldexp", _pair(_ldexp), broadcast_shapes, same_dtypes),
    Kernel("_npi_bitwise_not", bitwise_not, same_shapes, _whole_types),
    Kernel("_npi_around", around, same_shapes, same_dtypes),
    Kernel("_npi_nan_to_num", nan_to_num, same_shapes, same_dtypes),
    Kernel("_npi_polyval", polyval, _polyval_shapes, same_dtypes),
    Kernel("_npi_where_lscalar", _where("scalar", None), broadcast_shapes, _where_types),
    Kernel("_npi_where_rscalar", _where(None, "scalar"), broadcast_shapes, _where_types),
    Kernel("_npi_where_scalar2", _where("x", "y"), same_shapes, _where_types),
)
