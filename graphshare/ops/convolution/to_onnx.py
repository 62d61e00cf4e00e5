"""Convolutions in ONNX: ``Conv``, which has the channels first and the weights as (filters, channels / groups, ...)."""

from __future__ import annotations

from graphshare.ops.convolution.columns_onnx import TRANSLATIONS as COLUMNS
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import is_channels_last, window_of


def translate_convolution(t: Translation) -> str:
    """Emit ``Conv``, between transposes where the channels come last."""
    window = window_of(t.attrs)
    rank = len(window.kernel)
    x, weight = t.inputs[:2]
    bias = [] if t.attrs["no_bias"] else [t.inputs[2]]
    last = is_channels_last(t.attrs["layout"])
    first = (0, rank + 1, *range(1, rank + 1))
    out = t.emit(
        "Conv",
        t.transpose(x, first) if last else x,
        t.transpose(weight, first) if last else weight,
        *bias,
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=(*window.pad, *window.pad),
        group=t.attrs["num_group"],
    )
    return t.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


TRANSLATIONS = (
    Translator("Convolution", translate_convolution),
    Translator("Convolution_v1", translate_convolution),
    *COLUMNS,
)
