"""Gradients of the softmax family, from their outputs."""

from __future__ import annotations

import numpy as np

from graphshare.gradients.gradient import Gradient, Record, Vjp
from graphshare.kernels.kernel import Array


def _member(*, sign: int = 1, logarithm: bool = False) -> Vjp:
    def vjp(record: Record, dy: Array) -> Array:
        x, y, axis = record.inputs[0], record.outputs[0], record.attrs["axis"]
        if logarithm:
            dx = dy - np.exp(y) * dy.sum(axis=axis, keepdims=True)
        else:
            dx = y * (dy - (dy * y).sum(axis=axis, keepdims=True))
        scale = sign / (record.attrs["temperature"] or 1.0)
        return np.asarray(dx if scale == 1 else dx * dx.dtype.type(scale)).astype(x.dtype, copy=False)

    return vjp


def softmax_activation(record: Record, dy: Array) -> Array:
    """Over the channels at each place, or over the last axis."""
    y, axis = record.outputs[0], 1 if record.attrs["mode"] == "channel" else -1
    result: Array = y * (dy - (dy * y).sum(axis=axis, keepdims=True))
    return result


GRADIENTS = (
    Gradient("softmax", _member()),
    Gradient("softmin", _member(sign=-1)),
    Gradient("log_softmax", _member(logarithm=True)),
    Gradient("SoftmaxActivation", softmax_activation, reads_inputs=False),
)
