"""First values of parameters, by the initializer in ``__init__`` or by the name's ending, as MXNet's Module gives them.

Random ones come from a stream of the seed and the variable's name, so they do not depend on the order of asking.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from math import prod, sqrt
from typing import Any

import numpy as np

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Node
from graphshare.ops.kernel import Array

_Make = Callable[[Mapping[str, Any], "tuple[int, ...]", np.random.Generator], Any]


def _uniform(scale: float, shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    return rng.uniform(-scale, scale, shape)


def _xavier(options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    if len(shape) < 2:
        raise ValueError(f"xavier needs two axes or more, and the shape is {shape}")
    window = prod(shape[2:])
    fan_in, fan_out = shape[1] * window, shape[0] * window
    factor = {"avg": (fan_in + fan_out) / 2, "in": fan_in, "out": fan_out}[options.get("factor_type", "avg")]
    scale = sqrt(options.get("magnitude", 3) / factor)
    if options.get("rnd_type", "uniform") == "gaussian":
        return rng.normal(0, scale, shape)
    return _uniform(scale, shape, rng)


def _msra(options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    slope, kind = options.get("slope", 0.25), options.get("factor_type", "avg")
    return _xavier({"rnd_type": "gaussian", "factor_type": kind, "magnitude": 2 / (1 + slope**2)}, shape, rng)


def _bilinear(options: Mapping[str, Any], shape: tuple[int, ...], rng: np.random.Generator) -> Array:
    """The weights that make a deconvolution stretch an image."""
    half = -(-shape[3] // 2)
    centre = (2 * half - 1 - half % 2) / (2.0 * half)
    columns = 1 - np.abs(np.arange(shape[3]) / half - centre)
    rows = 1 - np.abs(np.arange(shape[2]) / half - centre)
    weights: Array = np.broadcast_to(np.outer(rows, columns), shape).copy()
    return weights


_MAKERS: dict[str, _Make] = {
    "zero": lambda options, shape, rng: np.zeros(shape),
    "zeros": lambda options, shape, rng: np.zeros(shape),
    "one": lambda options, shape, rng: np.ones(shape),
    "ones": lambda options, shape, rng: np.ones(shape),
    "constant": lambda options, shape, rng: np.full(shape, options.get("value", 0.0)),
    "uniform": lambda options, shape, rng: _uniform(options.get("scale", 0.07), shape, rng),
    "normal": lambda options, shape, rng: rng.normal(0, options.get("sigma", 0.01), shape),
    "xavier": _xavier,
    "msraprelu": _msra,
    "bilinear": _bilinear,
}
_BY_ENDING = (
    (("gamma", "moving_var", "running_var", "max"), _MAKERS["one"]),
    (("bias", "beta", "moving_mean", "running_mean", "moving_inv_var", "moving_avg", "min"), _MAKERS["zero"]),
)


def initial_value(node: Node, shape: Sequence[int], dtype: str, *, seed: int) -> Array:
    """The first value of a parameter: what its ``__init__`` says, else by the ending of its name, else uniform within 0.01.

    Raises:
        RefusedError: the initializer is not known here, or cannot fill this shape.
    """
    stream = np.random.default_rng([seed, zlib.crc32(node.name.encode("utf-8", "surrogateescape"))])
    text = node.attrs.get("__init__")
    if text is None:
        make = next((make for endings, make in _BY_ENDING if node.name.endswith(endings)), None)
        values = make({}, tuple(shape), stream) if make else _uniform(0.01, tuple(shape), stream)
        return np.asarray(values).astype(dtype)
    try:
        name, options = json.loads(text)
        values = _MAKERS[name.lower()](options, tuple(shape), stream)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError, ZeroDivisionError, MemoryError) as error:
        known = ", ".join(_MAKERS)
        hint = f"initializers are {known}; or give the value itself with Session.set_value"
        raise RefusedError(
            Fault(f"the initializer {text} cannot fill {tuple(shape)}: {error}", node=node.name, hint=hint)
        ) from error
    return np.asarray(values).astype(dtype)
