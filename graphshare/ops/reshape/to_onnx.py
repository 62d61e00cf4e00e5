"""Shapes in ONNX. Every shape is known, so that MXNet's codes in ``Reshape`` leave no trace."""

from __future__ import annotations

from graphshare.ops.translation import Translation, Translator


def translate_reshape(t: Translation) -> str:
    """Emit ``Reshape`` to the inferred shape."""
    return t.reshape(t.inputs[0], t.outputs[0].shape)


TRANSLATIONS = tuple(
    Translator(name, translate_reshape) for name in ("Flatten", "Reshape", "expand_dims", "reshape_like", "squeeze")
)
