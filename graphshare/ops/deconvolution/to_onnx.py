"""Transposed convolutions in ONNX: ``ConvTranspose``, with the channels first and weights (channels, filters / groups, ...)."""

from __future__ import annotations

from graphshare.ops.deconvolution.kernel import fit_window
from graphshare.ops.kernel import Attrs
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import is_channels_last


def translate_deconvolution(t: Translation) -> str:
    """Emit ``ConvTranspose``, between transposes where the channels come last."""
    return emit_deconvolution(t, t.attrs)


def emit_deconvolution(t: Translation, attrs: Attrs) -> str:
    """Emit the deconvolution that ``attrs`` state, on the inputs of the node.

    Cells that are added at the end take from the padding there; only what is more than that is ``output_padding``.
    """
    x, weight = t.inputs[:2]
    last, rank = is_channels_last(attrs["layout"]), len(attrs["kernel"])
    window, extra = fit_window(attrs, x.shape[1:-1] if last else x.shape[2:])
    first = (0, rank + 1, *range(1, rank + 1))
    if 0 in t.outputs[0].shape:
        t.refuse("its result has no elements")
    out = t.emit(
        "ConvTranspose",
        t.transpose(x, first) if last else x,
        t.transpose(weight, first) if last else weight,
        *t.inputs[2:],
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=(*window.pad, *(max(0, p - a) for p, a in zip(window.pad, extra, strict=True))),
        output_padding=[max(0, a - p) for p, a in zip(window.pad, extra, strict=True)],
        group=attrs["num_group"],
    )
    return t.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


TRANSLATIONS = (Translator("Deconvolution", translate_deconvolution),)
