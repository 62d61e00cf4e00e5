"""Gradients of two arrays, or an array and a number, element by element; summed where an array was stretched."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphshare.gradients.gradient import Gradient, Gradients, Record, Vjp, no_gradient, summed_to
from graphshare.kernels.kernel import Array

Rule = Callable[[Array, Array, Array, Array], "Array | None"]
"""From x, y, the result and its gradient to the gradient of one side."""


def _power_log(x: Array, y: Array, z: Array, dz: Array) -> Array:
    result: Array = dz * z * np.log(x)
    return result


RULES: dict[str, tuple[Rule, Rule]] = {
    "add": (lambda x, y, z, dz: dz, lambda x, y, z, dz: dz),
    "sub": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz),
    "mul": (lambda x, y, z, dz: dz * y, lambda x, y, z, dz: dz * x),
    "div": (lambda x, y, z, dz: dz / y, lambda x, y, z, dz: -dz * x / (y * y)),
    "mod": (lambda x, y, z, dz: dz, lambda x, y, z, dz: -dz * np.floor(x / y)),
    "power": (lambda x, y, z, dz: dz * y * np.power(x, y - 1), _power_log),
    "hypot": (lambda x, y, z, dz: dz * x / z, lambda x, y, z, dz: dz * y / z),
    "maximum": (lambda x, y, z, dz: dz * (x >= y), lambda x, y, z, dz: dz * (x < y)),
    "minimum": (lambda x, y, z, dz: dz * (x <= y), lambda x, y, z, dz: dz * (x > y)),
    "arctan2": (lambda x, y, z, dz: dz * y / (x * x + y * y), lambda x, y, z, dz: -dz * x / (x * x + y * y)),
}
_PLAIN = ("add", "sub")  # neither side's gradient asks for values
_COMPARISONS = "equal not_equal greater greater_equal lesser lesser_equal logical_and logical_or logical_xor".split()


def _of_two(word: str) -> Vjp:
    first, second = RULES[word]

    def vjp(record: Record, dy: Array) -> Gradients:
        x, y = record.inputs
        z = record.outputs[0] if record.outputs else dy
        return [
            _fitted(rule(x, y, z, dy), side) if wanted else None
            for rule, side, wanted in zip((first, second), (x, y), record.wanted, strict=True)
        ]

    return vjp


def _fitted(gradient: Array | None, side: Array) -> Array | None:
    return None if gradient is None else summed_to(gradient, side.shape).astype(side.dtype, copy=False)


def _of_number(word: str, *, reverse: bool) -> Vjp:
    rule = RULES[word][1 if reverse else 0]

    def vjp(record: Record, dy: Array) -> Array | None:
        x = record.inputs[0]
        if dy.dtype.kind != "f":
            return None
        number = np.asarray(record.attrs["scalar"], dy.dtype)
        gradient = rule(number, x, record.outputs[0], dy) if reverse else rule(x, number, record.outputs[0], dy)
        return _fitted(gradient, x)

    return vjp


def everywhere(record: Record, dy: Array) -> Gradients:
    """The sum's gradient is that of every summand."""
    return [dy] * len(record.wanted)


def where(record: Record, dy: Array) -> Gradients:
    """To the side that was chosen."""
    condition, x, y = record.inputs
    chosen = condition != 0
    if chosen.ndim == 1 and x.ndim > 1 and chosen.shape[0] == x.shape[0] and record.attrs.get("rows", True):
        chosen = chosen.reshape((-1,) + (1,) * (x.ndim - 1))
    return [None, _fitted(np.where(chosen, dy, 0), x), _fitted(np.where(chosen, 0, dy), y)]


def stretched_where(record: Record, dy: Array) -> Gradients:
    """As :func:`where`, all three stretched over each other."""
    condition, x, y = record.inputs
    return [None, _fitted(np.where(condition != 0, dy, 0), x), _fitted(np.where(condition != 0, 0, dy), y)]


def _two(operator: str, word: str) -> Gradient:
    return Gradient(operator, _of_two(word), reads_outputs=word in ("power", "hypot"))


def _number(operator: str, word: str, *, reverse: bool = False) -> Gradient:
    return Gradient(operator, _of_number(word, reverse=reverse), reads_outputs=True)


_SHORT = {"add": "plus", "sub": "minus"}
_IN_NUMPY = {"add": "add", "subtract": "sub", "multiply": "mul", "mod": "mod", "power": "power", "true_divide": "div"}
_TESTS = "equal greater greater_equal less less_equal not_equal".split()

GRADIENTS = (
    *(_two(f"elemwise_{word}", word) for word in ("add", "sub", "mul", "div")),
    *(_two(f"_{word}", word) for word in ("mod", "power", "hypot", "maximum", "minimum")),
    *(_two(f"broadcast_{word}", word) for word in RULES if word != "arctan2"),
    *(_number(f"_{_SHORT.get(word, word)}_scalar", word) for word in RULES if word != "arctan2"),
    *(_number(f"_r{_SHORT.get(word, word)}_scalar", word, reverse=True) for word in ("sub", "div", "mod", "power")),
    *(_two(f"_npi_{name}", word) for name, word in (*_IN_NUMPY.items(), ("arctan2", "arctan2"), ("hypot", "hypot"))),
    *(_number(f"_npi_{name}_scalar", word) for name, word in _IN_NUMPY.items()),
    *(_number(f"_npi_r{name}_scalar", _IN_NUMPY[name], reverse=True) for name in ("subtract", "mod", "power", "true_divide")),
    _two("_grad_add", "add"),
    _two("_scatter_elemwise_div", "div"),
    Gradient("add_n", everywhere, reads_inputs=False, reads_outputs=False),
    Gradient("_identity_with_attr_like_rhs", lambda record, dy: dy, reads_inputs=False, reads_outputs=False),
    Gradient("where", where, reads_outputs=False),
    Gradient("_npi_where", stretched_where, reads_outputs=False),
    *no_gradient("a comparison is constant almost everywhere", *(f"_{word}" for word in _COMPARISONS)),
    *no_gradient("a comparison is constant almost everywhere", *(f"broadcast_{word}" for word in _COMPARISONS)),
    *no_gradient("a comparison is constant almost everywhere", *(f"_{word}_scalar" for word in _COMPARISONS)),
    *no_gradient("a comparison is constant almost everywhere", *(f"_npi_{word}" for word in _TESTS)),
    *no_gradient("a comparison is constant almost everywhere", *(f"_npi_{word}_scalar" for word in _TESTS)),
    *no_gradient("a test is constant almost everywhere", *(f"_npi_is{w}" for w in "finite inf nan neginf posinf".split())),
    *no_gradient("it is of whole numbers", *(f"_npi_{w}" for w in "bitwise_and bitwise_or bitwise_xor lcm".split())),
)
