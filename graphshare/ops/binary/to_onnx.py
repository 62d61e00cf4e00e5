"""Elementwise operators of two arrays in ONNX."""

from __future__ import annotations

from graphshare.ops.translation import Translation, Translator

_ARITHMETIC = {"elemwise_add": "Add", "elemwise_sub": "Sub", "elemwise_mul": "Mul", "elemwise_div": "Div"}


def translate_arithmetic(t: Translation) -> str:
    """Emit the operator of the same meaning."""
    return t.emit(_ARITHMETIC[t.op], *t.inputs)


TRANSLATIONS = tuple(Translator(name, translate_arithmetic) for name in _ARITHMETIC)
