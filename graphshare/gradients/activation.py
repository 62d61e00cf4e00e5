"""Gradients of activations, from their outputs where those tell."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphshare.gradients.gradient import Gradient, Record
from graphshare.kernels.kernel import Array


def relu(record: Record, dy: Array) -> Array:
    """Through where the output is positive; NaN stays."""
    y = record.outputs[0]
    result: Array = np.multiply(dy, y > 0)
    return np.where(np.isnan(y), y, result) if np.isnan(y.sum()) else result


def sigmoid(record: Record, dy: Array) -> Array:
    """``y (1 - y)``."""
    y = record.outputs[0]
    result: Array = dy * (y * (1 - y))
    return result


def tanh(record: Record, dy: Array) -> Array:
    """``1 - y^2``."""
    y = record.outputs[0]
    result: Array = dy * (1 - y * y)
    return result


def softrelu(record: Record, dy: Array) -> Array:
    """``1 - exp(-y)``, the sigmoid of the input."""
    result: Array = dy * -np.expm1(-record.outputs[0])
    return result


def softsign(record: Record, dy: Array) -> Array:
    """``1 / (1 + |x|)^2``."""
    result: Array = dy / np.square(1 + np.abs(record.inputs[0]))
    return result


BY_TYPE: dict[str, Callable[[Record, Array], Array]] = {
    "relu": relu,
    "sigmoid": sigmoid,
    "tanh": tanh,
    "softrelu": softrelu,
    "softsign": softsign,
}


def activation(record: Record, dy: Array) -> Array:
    """That of the function which ``act_type`` names."""
    return BY_TYPE[record.attrs["act_type"]](record, dy)


GRADIENTS = (
    Gradient("Activation", activation),
    *(Gradient(name, BY_TYPE[name], reads_inputs=False) for name in ("relu", "sigmoid", "tanh")),
    Gradient("softsign", softsign, reads_outputs=False),
    Gradient("_npx_relu", relu, reads_inputs=False),
    Gradient("_npx_sigmoid", sigmoid, reads_inputs=False),
    Gradient("_npi_tanh", tanh, reads_inputs=False),
)
