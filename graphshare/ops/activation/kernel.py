"""Activations: elementwise, result in the input's buffer where that is dead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.activation.leaky import KERNELS as LEAKY_KERNELS
from graphshare.ops.buffers import result_buffer
from graphshare.ops.conversion import convert, to_floating
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel
from graphshare.ops.unification import same_dtypes, same_shapes


def relu(context: Context, attrs: Attrs, x: Array) -> Array:
    """max(x, 0)."""
    result: Array = np.maximum(x, x.dtype.type(0), out=result_buffer(context, x))
    return result


def sigmoid(context: Context, attrs: Attrs, x: Array) -> Array:
    """1 / (1 + exp(-x)), without overflow on either side; of float16 in float32, where exp(17) is finite."""
    if x.dtype == np.float16:
        return sigmoid(Context(reusable=(True,)), attrs, x.astype(np.float32)).astype(x.dtype)
    out = np.negative(x, out=result_buffer(context, x))
    with np.errstate(over="ignore"):
        np.exp(out, out=out)
    out += 1
    result: Array = np.reciprocal(out, out=out)
    return result


def tanh(context: Context, attrs: Attrs, x: Array) -> Array:
    """The hyperbolic tangent."""
    result: Array = np.tanh(x, out=result_buffer(context, x))
    return result


def softrelu(context: Context, attrs: Attrs, x: Array) -> Array:
    """log(1 + exp(x))."""
    result: Array = np.logaddexp(x, x.dtype.type(0))
    return result


def softsign(context: Context, attrs: Attrs, x: Array) -> Array:
    """x / (1 + abs(x))."""
    with np.errstate(invalid="ignore"):
        result: Array = x / (1 + np.abs(x))
    return result


_BY_TYPE: dict[str, Callable[[Context, Attrs, Array], Array]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softrelu": softrelu,
    "softsign": softsign,
}


def activation(context: Context, attrs: Attrs, x: Array) -> Any:
    """The function that ``act_type`` names; of whole numbers without the fraction."""
    return _of_any_type(_BY_TYPE[attrs["act_type"]])(context, attrs, x)


def _of_any_type(forward: Callable[[Context, Attrs, Array], Array]) -> Forward:
    def of_any_type(context: Context, attrs: Attrs, x: Array) -> Array:
        if x.dtype.kind == "f" or forward is relu:
            return forward(context, attrs, x)
        return convert(forward(Context(), attrs, to_floating(x)), x.dtype)

    return of_any_type


def _elementwise(operator: str, forward: Any) -> Kernel:
    return Kernel(operator, _of_any_type(forward), same_shapes, same_dtypes)


KERNELS = (
    _elementwise("Activation", activation),
    _elementwise("relu", relu),
    _elementwise("sigmoid", sigmoid),
    _elementwise("tanh", tanh),
    _elementwise("softsign", softsign),
    *LEAKY_KERNELS,
)
