"""Matrix products and attention in ONNX; float16 is summed in float32, as in MXNet."""

from __future__ import annotations

from math import prod, sqrt

import numpy as np

from graphshare.ops.onnx_terms import term
from graphshare.ops.translation import Translation, Translator, Value
from graphshare.ops.unification import normalize_axis


def translate_fully_connected(t: Translation) -> str:
    """Emit ``Gemm`` for rows of inputs; other data is flattened to rows and back."""
    x, weight, *bias = widen_factors(t)
    axes = 1 if t.attrs["flatten"] else x.rank - 1
    lead = x.shape[:axes]
    rows = t.reshape(x, (prod(lead), prod(x.shape[axes:])))
    out = t.emit("Gemm", rows, weight, *bias, transB=1)
    if len(lead) != 1:
        out = t.reshape(out, (*lead, weight.shape[0]))
    return t.cast(out, t.outputs[0].dtype, x.dtype)


def widen_factors(t: Translation) -> list[Value]:
    """Return inputs in the dtype of sums; ONNX's ``MatMul`` takes no 8-bit integers."""
    if any(x.dtype in ("int8", "uint8", "bool") for x in t.inputs):
        t.refuse(
            f"it multiplies matrices of {t.inputs[0].dtype}, which neither MXNet nor ONNX supports"
        )
    if any(0 in x.shape for x in t.inputs):
        t.refuse("its matrices have no elements")
    return [t.widen(x) for x in t.inputs]


def translate_dot(t: Translation) -> str:
    """Emit ``MatMul`` over the last axis of ``a`` and the first of ``b``, or the reverse."""
    a, b = widen_factors(t)
    left: Value | str = a
    right: Value | str = b
    if t.attrs["transpose_a"] and a.rank > 1:
        left = t.transpose(a, (*range(1, a.rank), 0))
    last = t.attrs["transpose_b"] and b.rank > 1
    if last:
        right = t.transpose(b, (b.rank - 1, *range(b.rank - 1)))
    # MatMul would batch the leading axes; dot keeps them.
    if b.rank > 2:
        inner = b.shape[-1] if last else b.shape[0]
        right = t.reshape(right, (inner, prod(b.shape) // inner))
    out = t.emit("MatMul", left, right)
    # MXNet's product of two vectors has the shape (1,), ONNX's has no axes.
    if a.rank == b.rank == 1 or b.rank > 2:
        out = t.reshape(out, t.outputs[0].shape)
    return t.cast(out, t.outputs[0].dtype, a.dtype)


def translate_matrix_product(t: Translation) -> str:
    """Emit alpha * a @ b, for a third input beta * c more, with rows on ``axis``."""
    values = widen_factors(t)
    rank = values[0].rank
    rows = normalize_axis(t.attrs.get("axis", -2), rank)
    batch = [i for i in range(rank) if i not in (rows, rank - 1)]
    plain, swapped = (*batch, rows, rank - 1), (*batch, rank - 1, rows)
    left, right = (
        t.transpose(x, swapped if t.attrs[key] else plain)
        for x, key in zip(values, ("transpose_a", "transpose_b"), strict=False)
    )
    out = t.transpose(t.emit("MatMul", left, right), np.argsort(plain).tolist())
    dtype = values[0].dtype
    narrow = t.outputs[0].dtype
    if t.attrs.get("alpha", 1) != 1:
        out = t.emit("Mul", out, t.number(_round(t.attrs["alpha"], narrow), dtype))
    # Like the kernel, round to float16 before and after the sum, and in beta * c.
    out = t.cast(out, narrow, dtype)
    if len(values) > 2:
        addend = t.cast(
            t.emit("Mul", values[2], t.number(_round(t.attrs["beta"], narrow), dtype)),
            narrow,
            dtype,
        )
        wide = t.emit("Add", *(t.cast(x, dtype, narrow) for x in (out, addend)))
        out = t.cast(wide, narrow, dtype)
    return out


def _round(number: float, dtype: str) -> float:
    return float(np.dtype(dtype).type(number))


def translate_div_sqrt_dim(t: Translation) -> str:
    """Divide as the kernel does, in the data's dtype."""
    x = t.widen(t.inputs[0])
    root = t.number(_round(sqrt(x.shape[-1]), t.inputs[0].dtype), x.dtype)
    return t.cast(t.emit("Div", x, root), t.outputs[0].dtype, x.dtype)


def translate_khatri_rao(t: Translation) -> str:
    """Emit for each further matrix products of all pairs of rows."""
    t.refuse_booleans()
    first, *others = t.inputs
    out, rows = term(t, first), first.shape[0]
    for matrix in others:
        product = out.unsqueeze(1) * term(t, matrix)
        rows *= matrix.shape[0]
        out = product.reshape((rows, matrix.shape[1]))
    return out.name if others else t.emit("Identity", out.name)


_FLOATS = "8-bit integers, booleans and matrices without elements are refused"


def translate_scores(t: Translation) -> str:
    """Emit (queries / sqrt(depth)) @ keys, of one sequence or of two."""
    projections, counts = [t.widen(x) for x in t.inputs], (3,) if len(t.inputs) == 1 else (1, 2)
    parts = [
        part
        for x, count in zip(projections, counts, strict=True)
        for part in split_interleaved(t, x, count)
    ]
    queries, keys, _ = parts
    dtype, x = t.outputs[0].dtype, projections[-1]
    if 0 in x.shape:
        return _zeros(t)
    depth = t.inputs[0].shape[2] // t.attrs["heads"] // counts[0]
    scaled = t.emit("Div", queries, t.number(_round(sqrt(depth), dtype), x.dtype))
    return t.cast(t.emit("MatMul", scaled, t.transpose(keys, (0, 2, 1))), dtype, x.dtype)


def translate_values(t: Translation) -> str:
    """Apply the attention to the values, the last part of the projections."""
    projected, attention = map(t.widen, t.inputs)
    if 0 in projected.shape:
        return _zeros(t)
    parts = 3 if t.op == "_contrib_interleaved_matmul_selfatt_valatt" else 2
    values = split_interleaved(t, projected, parts)[-1]
    weighted = t.transpose(t.emit("MatMul", attention, values), (1, 0, 2))
    return t.cast(t.reshape(weighted, t.outputs[0].shape), t.outputs[0].dtype, projected.dtype)


def split_interleaved(t: Translation, x: Value, count: int) -> list[str]:
    """Return ``count`` parts, each (batch * heads, length, depth)."""
    length, batch, width = x.shape
    heads = t.attrs["heads"]
    depth = width // heads // count
    split = t.transpose(t.reshape(x, (length, batch * heads, count * depth)), (1, 0, 2))
    return (
        [split]
        if count == 1
        else t.emit_several("Split", count, split, t.integers([depth] * count), axis=2)
    )


def _zeros(t: Translation) -> str:
    """onnxruntime leaves sums of nothing out where it fuses a scale."""
    return t.constant(np.zeros(t.outputs[0].shape), t.outputs[0].dtype)


TRANSLATIONS = (
    Translator("FullyConnected", translate_fully_connected, _FLOATS),
    Translator("dot", translate_dot, _FLOATS),
    Translator("batch_dot", translate_matrix_product, _FLOATS),
    Translator("_linalg_gemm", translate_matrix_product, _FLOATS),
    Translator("_linalg_gemm2", translate_matrix_product, _FLOATS),
    Translator("_contrib_div_sqrt_dim", translate_div_sqrt_dim),
    Translator("khatri_rao", translate_khatri_rao, "its matrices are not bool"),
    Translator("_contrib_interleaved_matmul_selfatt_qk", translate_scores),
    Translator("_contrib_interleaved_matmul_selfatt_valatt", translate_values),
    Translator("_contrib_interleaved_matmul_encdec_qk", translate_scores),
    Translator("_contrib_interleaved_matmul_encdec_valatt", translate_values),
)
