"""Transposed convolutions in ONNX: ``ConvTranspose``, with the channels first and weights (channels, filters / groups, ...)."""

from __future__ import annotations

from math import prod

from graphshare.ops.deconvolution.kernel import fit_window
from graphshare.ops.kernel import Attrs
from graphshare.ops.onnx_windows import fold_columns
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import Window, is_channels_last


def translate_deconvolution(t: Translation) -> str:
    """Emit ``ConvTranspose``, between transposes where the channels come last."""
    return emit_deconvolution(t, t.attrs)


def emit_deconvolution(t: Translation, attrs: Attrs) -> str:
    """Emit the deconvolution that ``attrs`` state, on the inputs of the node."""
    x = t.inputs[0]
    last, rank = is_channels_last(attrs["layout"]), len(attrs["kernel"])
    window, extra = fit_window(attrs, x.shape[1:-1] if last else x.shape[2:])
    first = (0, rank + 1, *range(1, rank + 1))
    data, weight = (t.transpose(y, first) if last else y.name for y in t.inputs[:2])
    if x.dtype == "float64":
        out = _emit_product(t, data, weight, window, attrs)
    else:
        out = _emit_deconvolution(t, data, weight, window, extra, attrs["num_group"])
    return t.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


def _emit_deconvolution(t: Translation, data: str, weight: str, window: Window, extra: tuple[int, ...], groups: int) -> str:
    """Emit ``ConvTranspose``.

    Cells that are added at the end take from the padding there; only what is more than that is ``output_padding``.
    """
    return t.emit(
        "ConvTranspose",
        data,
        weight,
        *t.inputs[2:],
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=(*window.pad, *(max(0, p - a) for p, a in zip(window.pad, extra, strict=True))),
        output_padding=[max(0, a - p) for p, a in zip(window.pad, extra, strict=True)],
        group=groups,
    )


def _emit_product(t: Translation, data: str, weight: str, window: Window, attrs: Attrs) -> str:
    """Return the products of each cell with all taps of the filters, added where they meet; onnxruntime lacks float64."""
    x, groups, filters = t.inputs[0], attrs["num_group"], attrs["num_filter"]
    shapes = [y.shape for y in (x, t.outputs[0])]
    if is_channels_last(attrs["layout"]):
        shapes = [(shape[0], shape[-1], *shape[1:-1]) for shape in shapes]
    (samples, channels, *counts), (_, _, *sizes) = shapes
    matrix = t.reshape(weight, (groups, channels // groups, filters // groups * prod(window.kernel)))
    cells = t.reshape(data, (samples, groups, channels // groups, prod(counts)))
    products = t.emit("MatMul", t.transpose(matrix, (0, 2, 1)), cells)
    out = fold_columns(t, products, window, (samples, filters), counts, sizes, x.dtype)
    for bias in t.inputs[2:]:
        out = t.emit("Add", out, t.reshape(bias, (filters, *(1,) * len(sizes))))
    return out


TRANSLATIONS = (Translator("Deconvolution", translate_deconvolution),)
