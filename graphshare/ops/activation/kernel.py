"""Elementwise activations and their gradients; the result takes the buffer of a reusable input."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphshare.ops.activation.leaky import GRADIENTS as LEAKY_GRADIENTS
from graphshare.ops.activation.leaky import KERNELS as LEAKY_KERNELS
from graphshare.ops.activation.softmax import GRADIENTS as SOFTMAX_GRADIENTS
from graphshare.ops.activation.softmax import KERNELS as SOFTMAX_KERNELS
from graphshare.ops.conversion import convert
from graphshare.ops.gradient import Gradient, TapeEntry
from graphshare.ops.kernel import RELU, Array, Attrs, Context, Epilogue, Forward, Kernel, Operation, result_buffer
from graphshare.ops.special_functions import softplus
from graphshare.ops.unification import same_dtypes, same_shapes
from graphshare.ops.windows import to_compute_dtype


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


def _relu_directly(dtype: str) -> Callable[..., Array]:
    zero = np.zeros((), dtype)

    def compute(x: Array) -> Array:
        result: Array = np.maximum(x, zero, order="C")
        return result

    return compute


def _sigmoid_directly(dtype: str) -> Callable[..., Array]:
    minus, one = np.full((), -1, dtype), np.ones((), dtype)

    def compute(x: Array) -> Array:
        out: Array = np.multiply(x, minus, order="C")
        np.exp(out, out=out)
        np.add(out, one, out=out)
        np.reciprocal(out, out=out)
        return out

    return compute


def _tanh_directly(dtype: str) -> Callable[..., Array]:
    return partial(np.tanh, order="C")


_DIRECT: dict[Any, Callable[[str], Callable[..., Array]]] = {
    relu: _relu_directly,
    sigmoid: _sigmoid_directly,
    tanh: _tanh_directly,
}


def _find_direct(forward: Any, dtype: str) -> Callable[..., Array] | None:
    function = _DIRECT.get(forward)
    return function(dtype) if function is not None and dtype in ("float32", "float64") else None


def activation_kernel(operator: str, forward: Any, epilogue: Epilogue | None = None) -> Kernel:
    """Return the kernel of an activation that computes ``forward``; shape and dtype are those of the input."""

    def direct(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
        return _find_direct(forward, dtypes[0])

    return Kernel(operator, accept_integers(forward), same_shapes, same_dtypes, epilogue=epilogue, direct=direct)


def _direct_by_type(attrs: Attrs, dtypes: Sequence[str]) -> Callable[..., Array] | None:
    return _find_direct(_BY_TYPE[attrs["act_type"]], dtypes[0])


def _clip_by_type(attrs: Attrs) -> Operation | None:
    return RELU if attrs["act_type"] == "relu" else None


KERNELS = (
    *SOFTMAX_KERNELS,
    Kernel("Activation", activation, same_shapes, same_dtypes, epilogue=_clip_by_type, direct=_direct_by_type),
    activation_kernel("relu", relu, lambda attrs: RELU),
    activation_kernel("sigmoid", sigmoid),
    activation_kernel("tanh", tanh),
    activation_kernel("softsign", softsign),
    *LEAKY_KERNELS,
)


def relu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient where the output is positive, otherwise 0; NaN stays NaN."""
    y = entry.outputs[0]
    result: Array = np.multiply(dy, y > 0)
    return np.where(np.isnan(y), y, result) if np.isnan(y.sum()) else result


def sigmoid_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy y (1 - y)``."""
    y = entry.outputs[0]
    result: Array = dy * (y * (1 - y))
    return result


def tanh_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - y^2)``."""
    y = entry.outputs[0]
    result: Array = dy * (1 - y * y)
    return result


def softrelu_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy (1 - exp(-y))``: the derivative is the sigmoid of the input."""
    result: Array = dy * -np.expm1(-entry.outputs[0])
    return result


def softsign_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return ``dy / (1 + |x|)^2``."""
    slope = 1 / np.square(1 + np.abs(to_compute_dtype(entry.inputs[0])))  # the square overflows in float16
    return np.asarray((dy * slope).astype(dy.dtype, copy=False))


_GRADIENT_BY_TYPE: dict[str, Callable[[TapeEntry, Array], Array]] = {
    "relu": relu_gradient,
    "sigmoid": sigmoid_gradient,
    "tanh": tanh_gradient,
    "softrelu": softrelu_gradient,
    "softsign": softsign_gradient,
}


def activation_gradient(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of the function that ``act_type`` names."""
    return _GRADIENT_BY_TYPE[entry.attrs["act_type"]](entry, dy)


GRADIENTS = (
    *SOFTMAX_GRADIENTS,
    Gradient("Activation", activation_gradient),
    *(Gradient(name, _GRADIENT_BY_TYPE[name], reads_inputs=False) for name in ("relu", "sigmoid", "tanh")),
    Gradient("softsign", softsign_gradient, reads_outputs=False),
    *LEAKY_GRADIENTS,
)
