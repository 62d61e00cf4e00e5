"""Convolutions in ONNX: ``Conv`` and ``ConvTranspose``, channels first.

Weights are (filters, channels / groups, ...), transposed (channels, filters / groups, ...).
"""

from __future__ import annotations

from math import prod

from graphshare.ops.convolution.kernel import fit_window
from graphshare.ops.kernel import Attrs
from graphshare.ops.onnx_windows import fold_columns, gather_columns, place_taps
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import Window, is_channels_last, read_window


def translate_convolution(t: Translation) -> str:
    """Emit ``Conv``, between transposes if channels are last.

    float64 is a matrix product: onnxruntime lacks its ``Conv``.
    """
    rank, last = len(t.attrs["kernel"]), is_channels_last(t.attrs["layout"])
    t.require_floats()
    first = (0, rank + 1, *range(1, rank + 1))
    data, weight = (t.transpose(x, first) if last else x.name for x in t.inputs[:2])
    bias = [] if t.attrs["no_bias"] else [t.inputs[2].name]
    emit = _emit_product if t.inputs[0].dtype == "float64" else _emit_convolution
    out = emit(t, data, weight, bias)
    return t.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


def _emit_convolution(t: Translation, data: str, weight: str, bias: list[str]) -> str:
    window = read_window(t.attrs)
    if min(window.pad) < 0:  # Conv takes no negative padding
        data = t.pad(data, (0, 0, *window.pad), (0, 0, *window.pad), 0, t.inputs[0].dtype)
    pad = window.pad if min(window.pad) >= 0 else (0,) * len(window.pad)
    return t.emit(
        "Conv",
        data,
        weight,
        *bias,
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=(*pad, *pad),
        group=t.attrs["num_group"],
    )


def _emit_product(t: Translation, data: str, weight: str, bias: list[str]) -> str:
    x, window, groups = t.inputs[0], read_window(t.attrs), t.attrs["num_group"]
    (samples, channels, *_), (_, filters, *counts) = _shapes_with_channels_first(t, t.attrs)
    rows, front = channels // groups * prod(window.kernel), (0, 0, *window.pad)
    cells = gather_columns(t, t.pad(data, front, front, 0, x.dtype), place_taps(window, counts))
    columns = t.reshape(cells, (samples, groups, rows, prod(counts)))
    product = t.emit("MatMul", t.reshape(weight, (groups, filters // groups, rows)), columns)
    out = t.reshape(product, (samples, filters, *counts))
    return t.emit("Add", out, t.reshape(bias[0], (filters, *(1,) * len(counts)))) if bias else out


def _shapes_with_channels_first(t: Translation, attrs: Attrs) -> list[tuple[int, ...]]:
    """Return data and output as (N, C, spatial)."""
    shapes = [x.shape for x in (t.inputs[0], t.outputs[0])]
    return (
        [(shape[0], shape[-1], *shape[1:-1]) for shape in shapes]
        if is_channels_last(attrs["layout"])
        else shapes
    )


def translate_im2col(t: Translation) -> str:
    """Emit a ``Gather`` of taps per axis."""
    x, window = t.inputs[0], read_window(t.attrs)
    front = (0, 0, *window.pad)
    data = t.pad(x, front, front, 0, x.dtype)
    return t.reshape(
        gather_columns(t, data, place_taps(window, _positions(window, x.shape[2:]))),
        t.outputs[0].shape,
    )


def translate_col2im(t: Translation) -> str:
    """Emit, per axis, the sum of the columns that meet at each cell."""
    t.require_floats()
    x, window, size = t.inputs[0], read_window(t.attrs), tuple(t.attrs["output_size"])
    wide = t.widen(x)
    shape = (x.shape[0], x.shape[1] // prod(window.kernel))
    return t.cast(
        fold_columns(t, wide.name, window, shape, _positions(window, size), size, wide.dtype),
        x.dtype,
        dtype=wide.dtype,
    )


def _positions(window: Window, sizes: tuple[int, ...]) -> list[int]:
    return [
        (n + 2 * p - e) // s + 1
        for n, p, e, s in zip(sizes, window.pad, window.extent, window.stride, strict=True)
    ]


def emit_deconvolution(t: Translation, attrs: Attrs) -> str:
    """Emit ``ConvTranspose``, between transposes if channels are last."""
    t.require_floats()
    x = t.inputs[0]
    last, rank = is_channels_last(attrs["layout"]), len(attrs["kernel"])
    window, extra = fit_window(attrs, x.shape[1:-1] if last else x.shape[2:])
    first = (0, rank + 1, *range(1, rank + 1))
    data, weight = (t.transpose(y, first) if last else y.name for y in t.inputs[:2])
    if x.dtype == "float64":
        out = _emit_transposed_product(t, data, weight, window, attrs)
    else:
        out = _emit_deconvolution(t, data, weight, window, extra, attrs["num_group"])
    return t.transpose(out, (0, *range(2, rank + 2), 1)) if last else out


def _emit_deconvolution(
    t: Translation, data: str, weight: str, window: Window, extra: tuple[int, ...], groups: int
) -> str:
    """``output_padding`` gives the ``extra`` cells.

    PyTorch refuses as many cells as a stride; then the padding there is reduced first.
    """
    taken = [
        0 if max(extra) < min(window.stride) else min(p, a)
        for p, a in zip(window.pad, extra, strict=True)
    ]
    return t.emit(
        "ConvTranspose",
        data,
        weight,
        *t.inputs[2:],
        kernel_shape=window.kernel,
        strides=window.stride,
        dilations=window.dilate,
        pads=(*window.pad, *(p - cells for p, cells in zip(window.pad, taken, strict=True))),
        output_padding=[a - cells for a, cells in zip(extra, taken, strict=True)],
        group=groups,
    )


def _emit_transposed_product(
    t: Translation, data: str, weight: str, window: Window, attrs: Attrs
) -> str:
    """Sum each cell's products with all taps; onnxruntime lacks float64."""
    x, groups, filters = t.inputs[0], attrs["num_group"], attrs["num_filter"]
    (samples, channels, *counts), (_, _, *sizes) = _shapes_with_channels_first(t, attrs)
    matrix = t.reshape(
        weight, (groups, channels // groups, filters // groups * prod(window.kernel))
    )
    cells = t.reshape(data, (samples, groups, channels // groups, prod(counts)))
    products = t.emit("MatMul", t.transpose(matrix, (0, 2, 1)), cells)
    out = fold_columns(t, products, window, (samples, filters), counts, sizes, x.dtype)
    for bias in t.inputs[2:]:
        out = t.emit("Add", out, t.reshape(bias, (filters, *(1,) * len(sizes))))
    return out


TRANSLATIONS = (
    Translator("Convolution", translate_convolution, "its data is floating point"),
    Translator("Convolution_v1", translate_convolution, "its data is floating point"),
    Translator("im2col", translate_im2col),
    Translator("col2im", translate_col2im, "its data is not bool"),
    Translator("Deconvolution", lambda t: emit_deconvolution(t, t.attrs)),
)
