"""Gradients of the softmax family, from their outputs."""

from __future__ import annotations

import numpy as np

from graphshare.ops.gradient import Gradient, TapeEntry, Vjp
from graphshare.ops.kernel import Array


def _member(*, sign: int = 1, logarithm: bool = False) -> Vjp:
    def vjp(entry: TapeEntry, dy: Array) -> Array:
        x, y, axis = entry.inputs[0], entry.outputs[0], entry.attrs["axis"]
        if not y.ndim:
            return np.zeros_like(x)
        if logarithm:
            dx = dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)
        else:
            dx = y * (dy - (dy * y).sum(axis=axis, keepdims=True))
        temperature = entry.attrs["temperature"]
        scale = sign if temperature is None else np.divide(sign, temperature)
        return np.asarray(dx if scale == 1 else dx * dx.dtype.type(scale)).astype(x.dtype, copy=False)

    return vjp


def softmax_activation(entry: TapeEntry, dy: Array) -> Array:
    """Return the gradient of a softmax over channels, which is MXNet's behaviour even where it was over the last axis."""
    y = entry.outputs[0]
    return np.asarray(y * (dy - (dy * y).sum(axis=min(1, y.ndim - 1), keepdims=True)))


GRADIENTS = (
    Gradient("softmax", _member()),
    Gradient("softmin", _member(sign=-1)),
    Gradient("log_softmax", _member(logarithm=True)),
    Gradient("SoftmaxActivation", softmax_activation, reads_inputs=False),
)
