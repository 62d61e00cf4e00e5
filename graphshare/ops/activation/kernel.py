"""Elementwise activations; the result takes the buffer of a reusable input."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphshare.ops.activation.leaky import KERNELS as LEAKY_KERNELS
from graphshare.ops.buffers import result_buffer
from graphshare.ops.conversion import convert
from graphshare.ops.fusion import RELU, Epilogue, Operation
from graphshare.ops.kernel import Array, Attrs, Context, Forward, Kernel
from graphshare.ops.special_functions import softplus
from graphshare.ops.unification import same_dtypes, same_shapes


def relu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return max(x, 0)."""
    result: Array = np.maximum(x, x.dtype.type(0), out=result_buffer(context, x))
    return result


def sigmoid(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return 1 / (1 + exp(-x)) without overflow; float16 is computed in float32, where exp(17) is finite."""
    if x.dtype == np.float16:
        return sigmoid(Context(reusable=(True,)), attrs, x.astype(np.float32)).astype(x.dtype)
    out = np.multiply(x, x.dtype.type(-1), out=result_buffer(context, x))  # negative is wrong in place on some strides
    with np.errstate(over="ignore"):
        np.exp(out, out=out)
    out += 1
    result: Array = np.reciprocal(out, out=out)
    return result


def tanh(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return the hyperbolic tangent; of integers 1 from 20 on, as in MXNet: of 19 it is 1 in some libraries."""
    if x.dtype.kind in "iu":
        return np.asarray(np.sign(x) * (np.abs(x.astype(np.float64)) >= 20), x.dtype)
    result: Array = np.tanh(x, out=result_buffer(context, x))
    return result


def softrelu(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return log(1 + exp(x))."""
    with np.errstate(all="ignore"):
        return softplus(x)


def softsign(context: Context, attrs: Attrs, x: Array) -> Array:
    """Return x / (1 + abs(x))."""
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
    """Return the function that ``act_type`` names; for integers the fraction is truncated."""
    return accept_integers(_BY_TYPE[attrs["act_type"]])(context, attrs, x)


def accept_integers(forward: Callable[[Context, Attrs, Array], Array]) -> Forward:
    """Return a kernel that also takes integers: it computes in float64 and truncates the fraction."""

    def compute(context: Context, attrs: Attrs, x: Array) -> Array:
        if x.dtype.kind == "f" or forward is relu or (forward is tanh and x.dtype.kind in "iu"):
            return forward(context, attrs, x)
        return convert(forward(Context(), attrs, x.astype(np.float64)), x.dtype)

    return compute


def _elementwise(operator: str, forward: Any, epilogue: Epilogue | None = None) -> Kernel:
    return Kernel(operator, accept_integers(forward), same_shapes, same_dtypes, epilogue=epilogue)


def _clip_by_type(attrs: Attrs) -> Operation | None:
    return RELU if attrs["act_type"] == "relu" else None


KERNELS = (
    Kernel("Activation", activation, same_shapes, same_dtypes, epilogue=_clip_by_type),
    _elementwise("relu", relu, lambda attrs: RELU),
    _elementwise("sigmoid", sigmoid),
    _elementwise("tanh", tanh),
    _elementwise("softsign", softsign),
    *LEAKY_KERNELS,
)
