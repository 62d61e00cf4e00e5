"""Gradients of elementwise operators on two arrays, or an array and a number; summed where an array was broadcast."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphshare.ops.gradient import Gradient, Gradients, TapeEntry, Vjp, no_gradient, sum_to_shape
from graphshare.ops.kernel import Array
from graphshare.ops.windows import to_compute_dtype

Rule = Callable[[Array, Array, Array, Array], "Array | None"]
"""Computes the gradient of one side from x, y, the result and its gradient."""


def _power_log(x: Array, y: Array, z: Array, dz: Array) -> Array:
    if dz.dtype == np.float16:
        x, y, dz = (array.astype(np.float32) for array in (x, y, dz))
        z = np.power(x, y)
    result: Array = dz * z * np.log(x)
    return result


def _power_slope(x: Array, y: Array, z: Array, dz: Array) -> Array:
    """Compute float16 in float32, except ``y - 1``: for ``y`` near 0 it is exactly -1, as in MXNet."""
    result: Array = to_compute_dtype(dz) * to_compute_dtype(y) * np.power(to_compute_dtype(x), to_compute_dtype(y - 1))
    return result


RULES: dict[str, tuple[Rule, Rule]] = {
    "add": (lambda x, y, z, dz: dz, lambda x, y, z, dz: dz),
    "sub": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz),
    "mul": (lambda x, y, z, dz: dz * y, lambda x, y, z, dz: dz * x),
    "div": (lambda x, y, z, dz: dz / y, lambda x, y, z, dz: -dz * x / (y * y)),
    "mod": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz * np.floor(x / y)),
    "power": (_power_slope, _power_log),
    "hypot": (lambda x, y, z, dz: dz * x / z, lambda x, y, z, dz: dz * y / z),
    "maximum": (lambda x, y, z, dz: dz * (x >= y), lambda x, y, z, dz: dz * (x < y)),
    "minimum": (lambda x, y, z, dz: dz * (x <= y), lambda x, y, z, dz: dz * (x > y)),
    "arctan2": (lambda x, y, z, dz: dz * y / (x * x + y * y), lambda x, y, z, dz: -dz * x / (x * x + y * y)),
}


_COMPARISONS = "equal not_equal greater greater_equal lesser lesser_equal logical_and logical_or logical_xor".split()


def _apply(word: str, side: int, x: Array, y: Array, z: Array, dz: Array) -> Array | None:
    """Return the gradient of a side; the slopes of float16 are computed in float32 where squares would leave the range."""
    rule = RULES[word][side]
    if dz.dtype != np.float16 or word not in ("div", "hypot"):
        return rule(x, y, z, dz)
    x, y = x.astype(np.float32), y.astype(np.float32)
    slope = rule(x, y, np.hypot(x, y) if word == "hypot" else z, np.ones((), np.float32))
    return None if slope is None else dz * slope.astype(np.float16)


def _binary_vjp(word: str) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Gradients:
        x, y = entry.inputs
        z = entry.outputs[0] if entry.outputs else dy
        return [
            fit_to(_apply(word, side, x, y, z, dy), array) if requested else None
            for side, (array, requested) in enumerate(zip((x, y), entry.requested, strict=True))
        ]

    return vjp


def fit_to(gradient: Array | None, side: Array) -> Array | None:
    """Return ``gradient`` in the shape and dtype of an input that was broadcast; None stays None."""
    return None if gradient is None else sum_to_shape(gradient, side.shape).astype(side.dtype, copy=False)


def _scalar_vjp(word: str, *, reverse: bool) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array | None:
        x = entry.inputs[0]
        if dy.dtype.kind != "f":
            return None
        number = np.asarray(entry.attrs["scalar"], dy.dtype)
        left, right = (number, x) if reverse else (x, number)
        return fit_to(_apply(word, int(reverse), left, right, entry.outputs[0], dy), x)

    return vjp


def add_n(entry: TapeEntry, dy: Array) -> Gradients:
    """Return the gradient of the sum for each summand."""
    return [dy] * len(entry.requested)


def binary_gradient(operator: str, word: str) -> Gradient:
    """Return the gradient of an operator of two arrays that computes the function ``word`` of :data:`RULES`."""
    return Gradient(operator, _binary_vjp(word), reads_outputs=word in ("power", "hypot"))


def scalar_gradient(operator: str, word: str, *, reverse: bool = False) -> Gradient:
    """Return the gradient of an operator of an array and the attribute ``scalar``, which comes first with ``reverse``."""
    return Gradient(operator, _scalar_vjp(word, reverse=reverse), reads_outputs=True)


_SHORT = {"add": "plus", "sub": "minus"}


GRADIENTS = (
    *(binary_gradient(f"elemwise_{word}", word) for word in ("add", "sub", "mul", "div")),
    *(binary_gradient(f"_{word}", word) for word in ("mod", "power", "hypot", "maximum", "minimum")),
    *(binary_gradient(f"broadcast_{word}", word) for word in RULES if word != "arctan2"),
    *(scalar_gradient(f"_{_SHORT.get(word, word)}_scalar", word) for word in RULES if word != "arctan2"),
    *(scalar_gradient(f"_r{_SHORT.get(word, word)}_scalar", word, reverse=True) for word in ("sub", "div", "mod", "power")),
    binary_gradient("_grad_add", "add"),
    Gradient("add_n", add_n, reads_inputs=False, reads_outputs=False),
    Gradient("_identity_with_attr_like_rhs", lambda entry, dy: dy, reads_inputs=False, reads_outputs=False),
    *no_gradient(
        "a comparison is constant almost everywhere",
        *(name for word in _COMPARISONS for name in (f"_{word}", f"broadcast_{word}", f"_{word}_scalar")),
    ),
)
