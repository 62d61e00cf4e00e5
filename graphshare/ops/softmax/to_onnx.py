"""Softmax in ONNX: ``Softmax`` and ``LogSoftmax``, in the dtype in which MXNet computes."""

from __future__ import annotations

import numpy as np

from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import axis_of

_BYTES = {"float16": 2, "float32": 4, "float64": 8}


def translate_softmax(t: Translation) -> str:
    """Emit ``Softmax``; with ``use_length`` the elements behind the length are minus infinity before and 0 after it."""
    x = t.inputs[0]
    if len(t.inputs) == 1:
        return _emit(t, "Softmax", _data(t), x.rank)
    axis, wide = axis_of(t.attrs["axis"], x.rank), _compute_dtype(t)
    places = t.constant(np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.rank - 1 - axis)), "int64")
    length = t.emit("Unsqueeze", t.cast(t.inputs[1], "int64"), t.integers([axis]))
    inside = t.emit("Less", places, length)
    data = t.emit("Where", inside, _data(t), t.number(-np.inf, wide))
    out = t.emit("Softmax", _divide(t, data, axis, wide), axis=axis)
    return _round(t, t.emit("Where", inside, out, t.number(0, wide)), wide)


def translate_log_softmax(t: Translation) -> str:
    """Emit ``LogSoftmax``."""
    return _emit(t, "LogSoftmax", _data(t), t.inputs[0].rank)


def translate_softmin(t: Translation) -> str:
    """Emit ``Softmax`` of the negative data."""
    return _emit(t, "Softmax", t.emit("Neg", _data(t)), t.inputs[0].rank)


def translate_softmax_activation(t: Translation) -> str:
    """Emit ``Softmax`` over the channels at each position, or over the last axis."""
    t.require_floats()
    return t.emit("Softmax", t.inputs[0], axis=1 if t.attrs["mode"] == "channel" else -1)


def _compute_dtype(t: Translation) -> str:
    x = t.inputs[0]
    return "float64" if "float64" in (x.dtype, t.attrs["dtype"]) else "float32"


def _data(t: Translation) -> str:
    """Return the data in the dtype of the computation, with at least one axis."""
    x = t.inputs[0]
    data = t.cast(x, _compute_dtype(t))
    return data if x.rank else t.reshape(data, (1,))


def _emit(t: Translation, op_type: str, data: str, rank: int) -> str:
    axis, wide = axis_of(t.attrs["axis"], max(1, rank)), _compute_dtype(t)
    out = _round(t, t.emit(op_type, _divide(t, data, axis, wide), axis=axis), wide)
    return out if rank else t.reshape(out, ())


def _divide(t: Translation, data: str, axis: int, dtype: str) -> str:
    """Return the distance from the largest element, divided by the temperature; ``data`` itself where that is 1."""
    temperature = t.attrs["temperature"]
    if temperature in (None, 1):
        return data
    if temperature < 0:
        t.refuse(f"its temperature is {temperature}")
    distance = t.emit("Sub", data, t.reduce("ReduceMax", data, [axis], keepdims=True))
    return t.emit("Div", distance, t.number(temperature, dtype))


def _round(t: Translation, out: str, wide: str) -> str:
    """Return the result in the dtype of the output; as in MXNet, a wider one holds numbers of the dtype of the data."""
    own, wanted = t.inputs[0].dtype, t.attrs["dtype"] or t.inputs[0].dtype
    if _BYTES[wanted] > _BYTES[own]:
        out, wide = t.cast(out, own, of=wide), own
    return t.cast(out, wanted, of=wide)


_POSITIVE = "its temperature is positive"

TRANSLATIONS = (
    Translator("softmax", translate_softmax, _POSITIVE),
    Translator("log_softmax", translate_log_softmax, _POSITIVE),
    Translator("softmin", translate_softmin, _POSITIVE),
    Translator("SoftmaxActivation", translate_softmax_activation, "its data is floating point"),
)
