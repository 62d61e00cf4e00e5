"""Created arrays in ONNX: constants that the kernels compute."""

from __future__ import annotations

import numpy as np

from graphshare.ops.creation.kernel import KERNELS
from graphshare.ops.kernel import Context
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unary.to_onnx import fill_like

_FORWARD = {kernel.operator: kernel.forward for kernel in KERNELS}

_ONE_VALUE = {"_zeros": 0, "_ones": 1, "_zeros_without_dtype": 0, "_npi_zeros": 0, "_npi_ones": 1}


def translate_filled(t: Translation) -> str:
    """Emit ``Expand`` of one number, to keep the file small."""
    out = t.outputs[0]
    value = t.attrs["value"] if t.op == "_full" else _ONE_VALUE[t.op]
    return t.emit("Expand", t.number(value, out.dtype), t.integers(out.shape))


def translate_created(t: Translation) -> str:
    """Return the kernel's result as a constant."""
    out = t.outputs[0]
    # These kernels read only shapes and dtypes of their inputs.
    examples = [np.empty(x.shape, x.dtype) for x in t.inputs]
    return t.constant(_FORWARD[t.op](Context(shapes=[out.shape]), t.attrs, *examples), out.dtype)


TRANSLATIONS = (
    *(Translator(name, translate_filled) for name in ("_full", *_ONE_VALUE)),
    *(
        Translator(name, translate_created)
        for name in _FORWARD
        if name not in ("_full", "_npi_full_like", *_ONE_VALUE)
    ),
    Translator("_npi_full_like", lambda t: fill_like(t, t.attrs["fill_value"], t.outputs[0].dtype)),
)
