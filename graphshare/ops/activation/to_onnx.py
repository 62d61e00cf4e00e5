"""Elementwise activations in ONNX."""

from __future__ import annotations

from graphshare.ops.translation import Translation, Translator

_BY_TYPE = {"relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "softrelu": "Softplus", "softsign": "Softsign"}


def translate_activation(t: Translation) -> str:
    """Emit the function that ``act_type``, or the operator's own name, stands for."""
    return t.emit(_BY_TYPE[t.attrs.get("act_type", t.op)], t.inputs[0])


TRANSLATIONS = tuple(Translator(name, translate_activation) for name in ("Activation", "relu", "sigmoid", "tanh", "softsign"))
