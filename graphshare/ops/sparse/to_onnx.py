"""Operators for sparse arrays in ONNX, where all arrays are dense."""

from __future__ import annotations

from functools import partial
from math import prod

from graphshare.ops.binary.to_onnx import FUNCTIONS, translate_scalar
from graphshare.ops.indexing.to_onnx import emit_where
from graphshare.ops.onnx_terms import translate_terms
from graphshare.ops.translation import Translation, Translator


def translate_cast_storage(t: Translation) -> str:
    """Emit ``Identity``."""
    if t.attrs["stype"] != "default":
        t.refuse(f"it has the stype {t.attrs['stype']}, and ONNX has only dense arrays")
    return t.emit("Identity", t.inputs[0])


def translate_retain(t: Translation) -> str:
    """Keep the indexed rows, zero the others."""
    x, indices = t.inputs
    names = t.reshape(t.cast(indices, "int64"), (1, prod(indices.shape)))
    rows = t.constant([[row] for row in range(x.shape[0])], "int64")
    hits = t.cast(t.emit("Equal", rows, names), "int32", "bool")
    named = t.reshape(t.reduce("ReduceSum", hits, (1,)), (x.shape[0], *[1] * (x.rank - 1)))
    return emit_where(t, t.cast(named, "bool", "int32"), x, t.number(0, x.dtype), x.dtype)


TRANSLATIONS = (
    Translator("_sparse_retain", translate_retain),
    Translator("cast_storage", translate_cast_storage, condition="a sparse stype is refused"),
    Translator("_scatter_elemwise_div", translate_terms(FUNCTIONS["div"])),
    Translator("_scatter_plus_scalar", partial(translate_scalar, name="add")),
    Translator("_scatter_minus_scalar", partial(translate_scalar, name="sub")),
)
