"""Products of matrices in ONNX."""

from __future__ import annotations

from math import prod

from graphshare.ops.translation import Translation, Translator


def translate_fully_connected(t: Translation) -> str:
    """Emit ``Gemm`` for rows of inputs; data with more axes that stay is multiplied as rows and shaped back."""
    x, weight = t.inputs[:2]
    axes = 1 if t.attrs["flatten"] else x.rank - 1
    lead = x.shape[:axes]
    rows = t.reshape(x, (prod(lead), prod(x.shape[axes:])))
    out = t.emit("Gemm", rows, weight, *t.inputs[2:], transB=1)
    return out if len(lead) == 1 else t.reshape(out, (*lead, weight.shape[0]))


TRANSLATIONS = (Translator("FullyConnected", translate_fully_connected),)
