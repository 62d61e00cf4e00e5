"""Conversions of dtype in ONNX."""

from __future__ import annotations

import numpy as np

from graphshare.ops.cast.kernel import GREATEST
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Translation, Translator


def translate_amp_cast(t: Translation) -> str:
    """Emit the kernel's conversion."""
    x, dtype = term(t), t.attrs["dtype"]
    if x.dtype == "float32" and dtype in GREATEST:
        return _round_into(x, dtype).name
    return x.convert(dtype).name if x.is_float else x.name


def _round_into(x: Term, dtype: str) -> Term:
    greatest = GREATEST[dtype]
    rounded = x.apply("Clip", float(np.iinfo(dtype).min), greatest).apply("Round")
    # ONNX leaves a Cast of NaN undefined.
    return x.is_nan().choose(0.0 if dtype == "uint8" else greatest, rounded).cast(dtype)


TRANSLATIONS = (
    Translator("Cast", lambda t: term(t).convert(t.attrs["dtype"]).name),
    Translator("amp_cast", translate_amp_cast),
    Translator(
        "amp_multicast",
        lambda t: [t.cast(x, out.dtype) for x, out in zip(t.inputs, t.outputs, strict=True)],
    ),
)
