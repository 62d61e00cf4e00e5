"""Elementwise activations in ONNX."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary.onnx_double import expm1, softplus, softsign
from graphshare.ops.unary.onnx_special import erf
from graphshare.ops.unary.to_onnx import fill_like

_BY_TYPE = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign"}
_FIRST_ONE = {"sigmoid": 37.0, "tanh": 20.0}
"""The first integer for which the function, in float64, is 1; for smaller ones it is truncated to 0. Runtimes differ by one."""
_OF_DOUBLE = {"softrelu": softplus, "softsign": softsign}


def activate(x: Term, name: str) -> Term:
    """Return the function ``name``; for integers it is computed in float64 and truncated."""
    if name == "relu":
        return x.apply("Relu") if x.is_float else x.apply("Max", 0)
    if name == "softrelu" and x.dtype == "float16":  # a function of Exp from opset 18 on, which is infinite in float16
        return activate(x.cast("float32"), name).cast(x.dtype)
    wide = x if x.is_float else x.cast("float64")
    if not x.is_float and x.dtype != "bool" and name in _FIRST_ONE:
        size = wide.apply("Abs") if name == "tanh" else wide
        return (size >= _FIRST_ONE[name]).choose(wide.apply("Sign"), 0.0).convert(x.dtype)
    if wide.dtype == "float64" and name in _OF_DOUBLE:
        return _OF_DOUBLE[name](wide).convert(x.dtype)
    return wide.apply(_BY_TYPE[name]).convert(x.dtype)


def translate_activation(t: Translation) -> str:
    """Emit the function that ``act_type``, or the operator's own name, stands for."""
    return activate(term(t), t.attrs.get("act_type", t.op)).name


def _leaky(t: Translation, slope: float) -> str:
    x = term(t)
    if x.dtype == "float64":  # the attribute of LeakyRelu is of float32
        return (x < 0).choose(x * slope, x).name
    return x.apply("LeakyRelu", alpha=slope).name


def _translate_leaky(t: Translation) -> str:
    return _leaky(t, float(t.attrs["slope"]))


def _translate_elu(t: Translation) -> str:
    x, slope = term(t), float(t.attrs["slope"])
    if x.dtype == "float64":
        return (x < 0).choose(expm1(x) * slope, x).name
    return x.apply("Elu", alpha=slope).name


def _translate_selu(t: Translation) -> str:
    x, alpha, scale = term(t), float(np.float32(1.6732632423543772)), float(np.float32(1.0507009873554805))
    if x.dtype == "float64":
        return ((x < 0).choose(expm1(x) * alpha, x) * scale).name
    return x.apply("Selu", alpha=alpha, gamma=scale).name


def _translate_gelu(t: Translation) -> str:
    x = term(t).widen()
    return ((erf(x * math.sqrt(0.5)) + 1) * x * 0.5).cast(t.inputs[0].dtype).name


def _translate_prelu(t: Translation) -> str:
    """Emit ``PRelu``: the slopes of the channels lie along axis 1."""
    x, gamma = t.inputs
    per_channel = gamma.rank == 1 and x.rank > 1
    return t.emit("PRelu", x, t.reshape(gamma, (*gamma.shape, *(1,) * (x.rank - 2))) if per_channel else gamma)


def _translate_rrelu(t: Translation) -> list[str]:
    """Emit the middle slope of inference; the second output is zeros."""
    slope = (np.float32(t.attrs["lower_bound"]) + np.float32(t.attrs["upper_bound"])) / np.float32(2)
    return [_leaky(t, float(slope)), *([fill_like(t, 0, t.inputs[0].dtype)] if 1 in t.used else [])]


_LEAKY: dict[str, Callable[[Translation], str | list[str]]] = {
    "elu": _translate_elu,
    "gelu": _translate_gelu,
    "leaky": _translate_leaky,
    "prelu": _translate_prelu,
    "rrelu": _translate_rrelu,
    "selu": _translate_selu,
}


def translate_leaky_relu(t: Translation) -> str | list[str]:
    """Emit the function that ``act_type`` names."""
    return _LEAKY[t.attrs["act_type"]](t)


TRANSLATIONS = (
    *(Translator(name, translate_activation) for name in ("Activation", "relu", "sigmoid", "tanh", "softsign")),
    Translator("LeakyReLU", translate_leaky_relu),
)
