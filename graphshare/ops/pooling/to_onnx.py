"""Pooling in ONNX."""

from __future__ import annotations

from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import window_of

_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}


def translate_pooling(t: Translation) -> str:
    """Emit a pooling over windows, or over all of the spatial axes."""
    x, kind = t.inputs[0], t.attrs["pool_type"]
    if kind not in _GLOBAL:
        t.refuse(f"it has the pool_type {kind}")
    if t.attrs["global_pool"]:
        return t.emit(_GLOBAL[kind], x)
    window = window_of(t.attrs)
    if t.attrs["pooling_convention"] != "valid":
        t.refuse(f"it has the pooling_convention {t.attrs['pooling_convention']}")
    pads = (*window.pad, *window.pad)
    if kind == "max":
        return t.emit("MaxPool", x, kernel_shape=window.kernel, strides=window.stride, pads=pads)
    include = int(t.attrs.get("count_include_pad") is not False)
    return t.emit("AveragePool", x, kernel_shape=window.kernel, strides=window.stride, pads=pads, count_include_pad=include)


TRANSLATIONS = (Translator("Pooling", translate_pooling),)
