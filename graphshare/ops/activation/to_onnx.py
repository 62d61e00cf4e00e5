"""Activations in ONNX; softmax is computed in MXNet's dtype."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ops.activation.kernel import SELU_ALPHA, SELU_SCALE
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary.onnx_special import erf, expm1, softplus, softsign
from graphshare.ops.unary.to_onnx import fill_like
from graphshare.ops.unification import normalize_axis

_BY_TYPE = {
    "relu": "Relu",
    "sigmoid": "Sigmoid",
    "tanh": "Tanh",
    "softrelu": "Softplus",
    "softsign": "Softsign",
}

_FIRST_ONE = {"sigmoid": 37.0, "tanh": 20.0}
"""The first integer where the function is 1 in float64; smaller ones are truncated to 0.

Runtimes differ by one.
"""

# onnxruntime lacks float64 Softplus, Softsign, Elu and Selu.
_OF_DOUBLE = {"softrelu": softplus, "softsign": softsign}


def activate(x: Term, name: str) -> Term:
    """Apply ``name``; integers are computed in float64 and truncated."""
    if name == "relu":
        return x.apply("Relu") if x.is_float else x.apply("Max", 0)
    # From opset 18 on Softplus is a function of Exp, and overflows in float16.
    if name == "softrelu" and x.dtype == "float16":
        return activate(x.cast("float32"), name).cast(x.dtype)
    wide = x if x.is_float else x.cast("float64")
    if not x.is_float and x.dtype != "bool" and name in _FIRST_ONE:
        size = wide.apply("Abs") if name == "tanh" else wide
        return (size >= _FIRST_ONE[name]).choose(wide.apply("Sign"), 0.0).convert(x.dtype)
    if wide.dtype == "float64" and name in _OF_DOUBLE:
        return _OF_DOUBLE[name](wide).convert(x.dtype)
    return wide.apply(_BY_TYPE[name]).convert(x.dtype)


def translate_activation(t: Translation) -> str:
    """Emit ``act_type``, or the operator's own function."""
    return activate(term(t), t.attrs.get("act_type", t.op)).name


def _leaky(t: Translation, slope: float) -> str:
    x = term(t)
    if x.dtype == "float64":  # the attribute of LeakyRelu is of float32
        return (x < 0).choose(x * slope, x).name
    return x.apply("LeakyRelu", alpha=slope).name


def _translate_elu(t: Translation) -> str:
    x, slope = term(t), float(t.attrs["slope"])
    if x.dtype == "float64":
        return (x < 0).choose(expm1(x) * slope, x).name
    return x.apply("Elu", alpha=slope).name


def _translate_selu(t: Translation) -> str:
    x, alpha, scale = term(t), float(SELU_ALPHA), float(SELU_SCALE)
    if x.dtype == "float64":
        return ((x < 0).choose(expm1(x) * alpha, x) * scale).name
    return x.apply("Selu", alpha=alpha, gamma=scale).name


def _translate_gelu(t: Translation) -> str:
    x = term(t).widen()
    return ((erf(x * math.sqrt(0.5)) + 1) * x * 0.5).cast(t.inputs[0].dtype).name


def _translate_prelu(t: Translation) -> str:
    x, gamma = t.inputs
    per_channel = gamma.rank == 1 and x.rank > 1
    return t.emit(
        "PRelu", x, t.reshape(gamma, (*gamma.shape, *(1,) * (x.rank - 2))) if per_channel else gamma
    )


def _translate_rrelu(t: Translation) -> list[str]:
    """Use the middle slope, as inference does; the second output is zeros."""
    slope = (np.float32(t.attrs["lower_bound"]) + np.float32(t.attrs["upper_bound"])) / np.float32(
        2
    )
    return [_leaky(t, float(slope)), *([fill_like(t, 0, t.inputs[0].dtype)] if 1 in t.used else [])]


_LEAKY: dict[str, Callable[[Translation], str | list[str]]] = {
    "elu": _translate_elu,
    "gelu": _translate_gelu,
    "leaky": lambda t: _leaky(t, float(t.attrs["slope"])),
    "prelu": _translate_prelu,
    "rrelu": _translate_rrelu,
    "selu": _translate_selu,
}


def translate_leaky_relu(t: Translation) -> str | list[str]:
    """Emit the function ``act_type``."""
    return _LEAKY[t.attrs["act_type"]](t)


_BYTES = {"float16": 2, "float32": 4, "float64": 8}


def translate_softmax(t: Translation) -> str:
    """Emit ``Softmax``; with ``use_length``, later elements are -inf before it and 0 after it."""
    x = t.inputs[0]
    if len(t.inputs) == 1:
        return _emit(t, "Softmax", _data(t))
    axis, wide = normalize_axis(t.attrs["axis"], x.rank), _compute_dtype(t)
    places = t.constant(np.arange(x.shape[axis]).reshape(-1, *(1,) * (x.rank - 1 - axis)), "int64")
    length = t.emit("Unsqueeze", t.cast(t.inputs[1], "int64"), t.integers([axis]))
    inside = t.emit("Less", places, length)
    data = t.emit("Where", inside, _data(t), t.number(-np.inf, wide))
    out = t.emit("Softmax", _divide(t, data, axis, wide), axis=axis)
    return _round(t, t.emit("Where", inside, out, t.number(0, wide)), wide)


def _compute_dtype(t: Translation) -> str:
    x = t.inputs[0]
    return "float64" if "float64" in (x.dtype, t.attrs["dtype"]) else "float32"


def _data(t: Translation) -> str:
    x = t.inputs[0]
    data = t.cast(x, _compute_dtype(t))
    return data if x.rank else t.reshape(data, (1,))


def _emit(t: Translation, op_type: str, data: str) -> str:
    rank = t.inputs[0].rank
    axis, wide = normalize_axis(t.attrs["axis"], max(1, rank)), _compute_dtype(t)
    out = _round(t, t.emit(op_type, _divide(t, data, axis, wide), axis=axis), wide)
    return out if rank else t.reshape(out, ())


def _divide(t: Translation, data: str, axis: int, dtype: str) -> str:
    """Divide the distance from the largest element by the temperature."""
    temperature = t.attrs["temperature"]
    if temperature in (None, 1):
        return data
    if temperature < 0:
        t.refuse(f"its temperature is {temperature}")
    # The quotient of the data could overflow; a distance (0 or less) only becomes -inf.
    distance = t.emit("Sub", data, t.reduce("ReduceMax", data, [axis], keepdims=True))
    return t.emit("Div", distance, t.number(temperature, dtype))


def _round(t: Translation, out: str, wide: str) -> str:
    """As in MXNet, wider outputs hold values of the data's dtype."""
    own, wanted = t.inputs[0].dtype, t.attrs["dtype"] or t.inputs[0].dtype
    if _BYTES[wanted] > _BYTES[own]:
        out, wide = t.cast(out, own, dtype=wide), own
    return t.cast(out, wanted, dtype=wide)


_POSITIVE = "its temperature is positive"


def translate_softmax_activation(t: Translation) -> str:
    """Emit ``Softmax`` over the channels or the last axis."""
    x = t.inputs[0]
    if not x.rank:
        return t.number(1, x.dtype)
    return t.emit("Softmax", x, axis=1 if t.attrs["mode"] == "channel" else -1)


TRANSLATIONS = (
    *(
        Translator(name, translate_activation)
        for name in ("Activation", "relu", "sigmoid", "tanh", "softsign")
    ),
    Translator("LeakyReLU", translate_leaky_relu),
    Translator("softmax", translate_softmax, _POSITIVE),
    Translator("log_softmax", lambda t: _emit(t, "LogSoftmax", _data(t)), _POSITIVE),
    Translator("softmin", lambda t: _emit(t, "Softmax", t.emit("Neg", _data(t))), _POSITIVE),
    Translator("SoftmaxActivation", translate_softmax_activation),
)
