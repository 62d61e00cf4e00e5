"""Indices and choices in ONNX, as several families need them."""

from __future__ import annotations

from graphshare.ops.translation import Translation, Value

_WHERE = ("float16", "float32", "float64", "int8", "int32", "int64", "uint8")
"""The dtypes among which onnxruntime chooses; to float16 it casts by itself."""


def emit_indices(t: Translation, index: Value, size: int, mode: str = "clip") -> str:
    """Emit int64 indices ``0 <= i < size`` from numbers of any dtype, whose fractions are truncated.

    With ``raise`` all that is out of range becomes ``size``, which ONNX refuses where it runs.
    """
    places = t.cast(index, "int64")
    count = t.number(size, "int64")
    if mode == "wrap":
        return t.emit("Mod", places, count)
    if mode == "raise":
        return t.emit("Where", t.emit("Less", places, t.number(0, "int64")), count, places)
    return t.emit("Clip", places, t.number(0, "int64"), t.number(size - 1, "int64"))


def emit_where(t: Translation, condition: str, x: Value | str, y: Value | str, dtype: str) -> str:
    """Emit ``Where`` of values of ``dtype``, as uint8 for bool."""
    if dtype in _WHERE:
        return t.emit("Where", condition, x, y)
    chosen = t.emit("Where", condition, t.cast(x, "uint8", dtype), t.cast(y, "uint8", dtype))
    return t.cast(chosen, dtype, "uint8")
