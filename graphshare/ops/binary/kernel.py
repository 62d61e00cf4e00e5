"""Elementwise operators on arrays, or an array and a number, and gradients.

Arrays have one dtype; comparisons return 0 and 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np

from graphshare.ops.arrays import Array, Attrs, Types
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp, no_gradient, sum_to_shape
from graphshare.ops.kernel import Add, Context, Direct, Forward, Kernel, result_buffer, reuse_buffer
from graphshare.ops.limits import FLOATS, NUMBERS, Limits, require, with_limits
from graphshare.ops.unification import broadcast_shapes, same_dtypes, same_shapes
from graphshare.ops.windows import to_compute_dtype

Function = Callable[[Context, Array, Array], Array]


def _in_place(function: Any) -> Function:
    """Make a dtype-preserving numpy function write to a reusable input's buffer."""

    def forward(context: Context, x: Array, y: Array) -> Array:
        with np.errstate(all="ignore"):
            result: Array = function(x, y, out=result_buffer(context, x, y))
        return result

    return forward


def _compare(function: Any) -> Function:
    def forward(context: Context, x: Array, y: Array) -> Array:
        result: Array = function(x, y).astype(x.dtype)
        return result

    return forward


def _real(function: Any) -> Function:
    """Integers are computed in float32."""

    def forward(context: Context, x: Array, y: Array) -> Array:
        if x.dtype.kind == "f":
            return _in_place(function)(context, x, y)
        with np.errstate(all="ignore"):
            # float64 first, so that float32 is the nearest to the exact result.
            return convert(
                function(x.astype(np.float64), y.astype(np.float64)).astype(np.float32), x.dtype
            )

    return forward


_power_of_numpy = _real(np.power)


def power(context: Context, x: Array, y: Array) -> Array:
    """Return ``x`` to the power ``y``; as in C, not numpy, (-inf)**0.5 is inf and (-0)**0.5 is 0."""
    if x.size == 1:
        # In place, numpy squares a single number instead of taking a power, and rounds differently.
        context = Context()
    if y.ndim or y != 0.5 or x.dtype.kind != "f":
        return _power_of_numpy(context, x, y)
    infinite = np.isneginf(x)
    root = np.asarray(_power_of_numpy(context, x, y))
    root += x.dtype.type(0)
    root[infinite] = np.inf
    return root


def _refuse_booleans(x: Array) -> None:
    # numpy makes their quotients int8.
    require(x.dtype != np.bool_, "booleans cannot be divided")


def divide(context: Context, x: Array, y: Array) -> Array:
    """Return ``x / y``; integers truncate, and give 0 where ``y`` is 0."""
    if x.dtype.kind == "f":
        return _in_place(np.divide)(context, x, y)
    _refuse_booleans(x)
    with np.errstate(all="ignore"):
        # numpy rounds integer quotients down, C truncates; without the remainder both agree.
        rest = np.fmod(x, y)
        result: Array = np.floor_divide(x - rest, y)
    return result


def mod(context: Context, x: Array, y: Array) -> Array:
    """Return the remainder with the sign of ``y``; 0 where ``y`` is 0."""
    _refuse_booleans(x)
    with np.errstate(all="ignore"):
        rest: Array = np.mod(x, y)
    return np.where(y == 0, x.dtype.type(0), rest)


_UFUNCS: dict[str, np.ufunc] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
_OF_FLOATS = {**_UFUNCS, "div": np.divide, "hypot": np.hypot}
"""Operators that are one numpy function if both arrays have the same floating-point dtype."""


ARITHMETIC: dict[str, Function] = {
    **{name: _in_place(function) for name, function in _UFUNCS.items()},
    "div": divide,
    "mod": mod,
    "power": power,
    "hypot": _real(np.hypot),
    "equal": _compare(np.equal),
    "not_equal": _compare(np.not_equal),
    "greater": _compare(np.greater),
    "greater_equal": _compare(np.greater_equal),
    "lesser": _compare(np.less),
    "lesser_equal": _compare(np.less_equal),
    "logical_and": _compare(np.logical_and),
    "logical_or": _compare(np.logical_or),
    "logical_xor": _compare(np.logical_xor),
}
"""The functions on two arrays, or an array and a number, by the word in the operator's name."""


PAIRS = {
    **{f"elemwise_{name}": name for name in ("add", "sub", "mul", "div")},
    **{f"_{name}": name for name in ARITHMETIC if name not in ("add", "sub", "mul", "div")},
    "_grad_add": "add",
    **{f"broadcast_{name}": name for name in ARITHMETIC},
}
"""The operators on two arrays, and the words of their functions."""

_WORDS = {"add": "plus", "sub": "minus"}

SCALARS = {
    **{f"_{_WORDS.get(name, name)}_scalar": (name, False) for name in ARITHMETIC},
    **{
        f"_r{_WORDS.get(name, name)}_scalar": (name, True)
        for name in ("sub", "div", "mod", "power")
    },
}
"""The operators on an array and a number: word, and whether the number comes first."""


def _kernel(operator: str, word: str) -> Kernel:
    function = ARITHMETIC[word]
    shapes = broadcast_shapes if operator.startswith("broadcast_") else same_shapes
    # An epilogue's Add has the result's shape; a broadcast sum might not.
    epilogue = (lambda attrs: Add()) if word == "add" and shapes is same_shapes else None

    def forward(context: Context, attrs: Attrs, x: Array, y: Array) -> Array:
        return function(context, x, y)

    return Kernel(
        operator, forward, shapes, same_dtypes, epilogue=epilogue, direct=direct_function(word)
    )


def direct_function(word: str) -> Direct | None:
    """Return :class:`~graphshare.ops.kernel.Kernel`'s ``direct`` for ``word`` on two arrays."""
    function = _OF_FLOATS.get(word)

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        left, right = dtypes[:2]
        if function is None or left != right or left not in FLOATS:
            return None
        return partial(function, order="C")

    return direct if function else None


def direct_scalar_function(word: str, reverse: bool) -> Direct | None:
    """Return ``direct`` for an array and a number."""
    function = _OF_FLOATS.get(word)

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        if function is None or dtypes[0] not in FLOATS:
            return None
        number = np.asarray(attrs["scalar"], dtypes[0])
        if reverse:
            return partial(function, number, order="C")
        return lambda x: function(x, number, order="C")

    return direct if function else None


def add_n(context: Context, attrs: Attrs, *arrays: Array) -> Array:
    """Return the sum; as in MXNet, up to four arrays are added from last to first.

    The order matters in float16.
    """
    if len(arrays) == 1:
        return arrays[0]
    if arrays[0].dtype == np.float16 and len(arrays) <= 4:
        return reduce(np.add, reversed(arrays))
    out = reuse_buffer(context, *arrays[:2])
    if out is not None and any(np.may_share_memory(out, x) for x in arrays[2:]):
        out = None  # a later summand is in this buffer
    result: Array = np.asarray(np.add(arrays[0], arrays[1], out=out))
    for x in arrays[2:]:
        np.add(result, x, out=result)
    return result


def result_type(attrs: Attrs, dtype: str) -> str:
    """Return the result's dtype for an array of ``dtype`` and the scalar."""
    if dtype.startswith("float"):
        return dtype
    if not attrs["is_int"]:
        return "float64"
    return "int64" if dtype == "bool" else dtype


def scalar_forward(word: str, reverse: bool) -> Forward:
    """Return ``word`` of :data:`ARITHMETIC` on an array and a number (first if ``reverse``)."""
    function = ARITHMETIC[word]

    def forward(context: Context, attrs: Attrs, x: Array) -> Array:
        # The common case: dtype names and conversions cost more than a small kernel
        if x.dtype.kind == "f":
            data, number = x, np.asarray(attrs["scalar"], x.dtype)
        else:
            data = convert(x, result_type(attrs, str(x.dtype)))
            number = convert(np.asarray(attrs["scalar"], np.float64), data.dtype)
        if not reverse:
            return function(context, data, number)
        # The number becomes the first operand and must not be overwritten.
        swapped = Context(training=context.training, reusable=(False, *context.reusable))
        result = function(swapped, number, data)
        if word == "div" and data.dtype.kind in "iu":  # infinity converted to an integer
            result = np.where(data == 0, convert(np.asarray(np.inf), data.dtype), result)
        return result

    return forward


def infer_scalar_dtypes(attrs: Attrs, inputs: Types, outputs: Types) -> tuple[Types, Types]:
    """Infer the result's dtype from the array, or the reverse."""
    if inputs[0] is None:
        known = outputs[0]
        # A fractional scalar makes integers floats: a float result leaves the array's dtype open.
        return [
            known if known is not None and known.startswith("float") and attrs["is_int"] else None
        ], outputs
    return inputs, [result_type(attrs, inputs[0])]


def scalar_kernel(operator: str, word: str, reverse: bool) -> Kernel:
    """Return the kernel of :func:`scalar_forward`."""
    direct = direct_scalar_function(word, reverse)
    return Kernel(
        operator, scalar_forward(word, reverse), same_shapes, infer_scalar_dtypes, direct=direct
    )


KERNELS = with_limits(
    Limits(dtypes=NUMBERS),
    *(_kernel(operator, word) for operator, word in PAIRS.items()),
    Kernel(
        "_identity_with_attr_like_rhs", lambda context, attrs, x, y: x, same_shapes, same_dtypes
    ),
    Kernel("add_n", add_n, same_shapes, same_dtypes),
    *(scalar_kernel(operator, word, reverse) for operator, (word, reverse) in SCALARS.items()),
)

Rule = Callable[[Array, Array, Array, Array], Array]
"""Computes the gradient of one side from x, y, the result and its gradient."""


def _power_log(x: Array, y: Array, z: Array, dz: Array) -> Array:
    if dz.dtype == np.float16:
        x, y, dz = (array.astype(np.float32) for array in (x, y, dz))
        z = np.power(x, y)
    result: Array = dz * z * np.log(x)
    return result


def _power_slope(x: Array, y: Array, z: Array, dz: Array) -> Array:
    """Compute float16 in float32, except ``y - 1``: near 0 it is exactly -1, as in MXNet."""
    result: Array = (
        to_compute_dtype(dz)
        * to_compute_dtype(y)
        * np.power(to_compute_dtype(x), to_compute_dtype(y - 1))
    )
    return result


RULES: dict[str, tuple[Rule, Rule]] = {
    "add": (lambda x, y, z, dz: dz, lambda x, y, z, dz: dz),
    "sub": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz),
    "mul": (lambda x, y, z, dz: dz * y, lambda x, y, z, dz: dz * x),
    "div": (lambda x, y, z, dz: dz / y, lambda x, y, z, dz: -dz * x / (y * y)),
    "mod": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz * np.floor(x / y)),
    "power": (_power_slope, _power_log),
    "hypot": (lambda x, y, z, dz: dz * x / z, lambda x, y, z, dz: dz * y / z),
    # As in MXNet, on equality the left side takes the whole gradient.
    "maximum": (lambda x, y, z, dz: dz * (x >= y), lambda x, y, z, dz: dz * (x < y)),
    "minimum": (lambda x, y, z, dz: dz * (x <= y), lambda x, y, z, dz: dz * (x > y)),
    "arctan2": (
        lambda x, y, z, dz: dz * y / (x * x + y * y),
        lambda x, y, z, dz: -dz * x / (x * x + y * y),
    ),
}


def _apply(word: str, side: int, x: Array, y: Array, z: Array, dz: Array) -> Array:
    """float16 slopes use float32 where squares would overflow."""
    rule = RULES[word][side]
    if dz.dtype != np.float16 or word not in ("div", "hypot"):
        return rule(x, y, z, dz)
    x, y = x.astype(np.float32), y.astype(np.float32)
    slope = rule(x, y, np.hypot(x, y) if word == "hypot" else z, np.ones((), np.float32))
    result: Array = dz * slope.astype(np.float16)
    return result


def _binary_vjp(word: str) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        x, y = entry.inputs
        z = entry.outputs[0] if entry.outputs else dy
        return [
            fit_to(_apply(word, side, x, y, z, dy), array) if requested else None
            for side, (array, requested) in enumerate(zip((x, y), entry.requested, strict=True))
        ]

    return vjp


def fit_to(gradient: Array, side: Array) -> Array:
    """Sum ``gradient`` to the shape of a broadcast input, in its dtype."""
    return sum_to_shape(np.asarray(gradient), side.shape).astype(side.dtype, copy=False)


def _scalar_vjp(word: str, *, reverse: bool) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array | None:
        x = entry.inputs[0]
        if dy.dtype.kind != "f":
            return None
        number = np.asarray(entry.attrs["scalar"], dy.dtype)
        left, right = (number, x) if reverse else (x, number)
        return fit_to(_apply(word, int(reverse), left, right, entry.outputs[0], dy), x)

    return vjp


def binary_gradient(operator: str, word: str) -> Gradient:
    """Return the gradient of ``word`` of :data:`RULES` on two arrays."""
    return Gradient(operator, _binary_vjp(word), reads_outputs=word in ("power", "hypot"))


def scalar_gradient(operator: str, word: str, *, reverse: bool = False) -> Gradient:
    """Return the gradient of :func:`scalar_kernel`."""
    return Gradient(operator, _scalar_vjp(word, reverse=reverse), reads_outputs=True)


GRADIENTS = (
    *(binary_gradient(operator, word) for operator, word in PAIRS.items() if word in RULES),
    *(
        scalar_gradient(operator, word, reverse=first)
        for operator, (word, first) in SCALARS.items()
        if word in RULES
    ),
    Gradient(
        "add_n",
        lambda entry, dy: [dy] * len(entry.requested),
        reads_inputs=False,
        reads_outputs=False,
    ),
    Gradient(
        "_identity_with_attr_like_rhs",
        lambda entry, dy: dy,
        reads_inputs=False,
        reads_outputs=False,
    ),
    *no_gradient(
        "a comparison is constant almost everywhere",
        *(operator for operator, word in PAIRS.items() if word not in RULES),
        *(operator for operator, (word, _) in SCALARS.items() if word not in RULES),
    ),
)
