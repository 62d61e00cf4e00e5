"""Attention products on interleaved projections in ONNX: slices by head, then ``MatMul``."""

from __future__ import annotations

from math import sqrt

import numpy as np

from graphshare.ops.translation import Translation, Translator, Value


def translate_self_scores(t: Translation) -> str:
    """Emit the scaled products of queries and keys of one sequence."""
    projected = t.widen(t.inputs[0])
    queries, keys, _ = split_interleaved(t, projected, 3)
    return _scores(t, queries, keys, projected)


def translate_cross_scores(t: Translation) -> str:
    """Emit the scaled products of queries and keys of another sequence."""
    first, projected = map(t.widen, t.inputs)
    (queries,), (keys, _) = split_interleaved(t, first, 1), split_interleaved(t, projected, 2)
    return _scores(t, queries, keys, projected)


def translate_values(t: Translation) -> str:
    """Emit the attention applied to the values, which are the last part of the projections."""
    projected, attention = map(t.widen, t.inputs)
    if 0 in projected.shape:
        return _zeros(t)
    parts = 3 if t.op == "_contrib_interleaved_matmul_selfatt_valatt" else 2
    values = split_interleaved(t, projected, parts)[-1]
    weighted = t.transpose(t.emit("MatMul", attention, values), (1, 0, 2))
    return t.cast(t.reshape(weighted, t.outputs[0].shape), t.outputs[0].dtype, projected.dtype)


def split_interleaved(t: Translation, x: Value, count: int) -> list[str]:
    """Return the ``count`` parts of ``x``, each (batch * heads, length, depth)."""
    length, batch, width = x.shape
    heads = t.attrs["heads"]
    depth = width // heads // count
    split = t.transpose(t.reshape(x, (length, batch * heads, count * depth)), (1, 0, 2))
    return [split] if count == 1 else t.emit_several("Split", count, split, t.integers([depth] * count), axis=2)


def _scores(t: Translation, queries: str, keys: str, x: Value) -> str:
    """Return (queries / sqrt(depth)) @ keys."""
    dtype = t.outputs[0].dtype
    if 0 in x.shape:
        return _zeros(t)
    depth = t.inputs[0].shape[2] // t.attrs["heads"] // (3 if len(t.inputs) == 1 else 1)
    root = float(np.dtype(dtype).type(sqrt(depth)))
    scaled = t.emit("Div", queries, t.number(root, x.dtype))
    return t.cast(t.emit("MatMul", scaled, t.transpose(keys, (0, 2, 1))), dtype, x.dtype)


def _zeros(t: Translation) -> str:
    """Return sums of nothing, which onnxruntime leaves out where it fuses a product with its scale."""
    return t.constant(np.zeros(t.outputs[0].shape), t.outputs[0].dtype)


TRANSLATIONS = (
    Translator("_contrib_interleaved_matmul_selfatt_qk", translate_self_scores),
    Translator("_contrib_interleaved_matmul_selfatt_valatt", translate_values),
    Translator("_contrib_interleaved_matmul_encdec_qk", translate_cross_scores),
    Translator("_contrib_interleaved_matmul_encdec_valatt", translate_values),
)
