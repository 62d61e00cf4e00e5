"""Losses in ONNX: what they compute at inference; the label is dropped."""

from __future__ import annotations

from math import prod

from graphshare.ops.translation import Translation, Translator


def translate_softmax_output(t: Translation) -> str:
    """Emit ``Softmax`` over axis 1 (``multi_output``), the last axis, or each sample as a whole, as the kernel does."""
    x = t.inputs[0]
    if t.attrs["multi_output"]:
        return t.emit("Softmax", x, axis=1)
    if t.attrs["preserve_shape"] or (x.dtype == "float32" and x.rank in (1, 2, 4)):
        return t.emit("Softmax", x, axis=-1)
    rows = t.reshape(x, (x.shape[0], prod(x.shape[1:])))
    return t.reshape(t.emit("Softmax", rows, axis=-1), x.shape)


TRANSLATIONS = (Translator("SoftmaxOutput", translate_softmax_output),)
