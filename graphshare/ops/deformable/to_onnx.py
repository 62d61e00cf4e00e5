"""Deformable convolutions in ONNX: bilinear samples at the moved taps, and a product with the filters."""

from __future__ import annotations

import numpy as np

from graphshare.ops.deformable.regions_onnx import translate_regions
from graphshare.ops.kernel import Array
from graphshare.ops.spatial_transform.kernel import window_pairs
from graphshare.ops.spatial_transform.sampling_onnx import clamp, is_within, sample_bilinear
from graphshare.ops.translation import Translation, Translator, Value


def translate_deformable_convolution(t: Translation) -> str:
    """Emit the convolution; a tap outside of the image gives 0, one behind the last pixel that pixel."""
    return _convolve(t, None, *t.inputs[2:])


def translate_modulated_convolution(t: Translation) -> str:
    """Emit the convolution of samples that are scaled by a mask."""
    return _convolve(t, *t.inputs[2:])


def _convolve(t: Translation, mask: Value | None, weight: Value, *bias: Value) -> str:
    x, offset = t.inputs[:2]
    if 0 in x.shape:
        t.refuse("its data has no elements")
    wide = "float32" if x.dtype == "float16" else x.dtype
    count, channels, *_ = x.shape
    places, shifts, groups = offset.shape[2] * offset.shape[3], t.attrs["num_deformable_group"], t.attrs["num_group"]
    taps, filters = weight.shape[2] * weight.shape[3], weight.shape[0]
    cells = _sample(t, mask, wide)  # (N, G, taps * places, C / G)
    cells = t.reshape(cells, (count, shifts, taps, places, channels // shifts))
    cells = t.reshape(t.transpose(cells, (0, 1, 4, 2, 3)), (count, groups, channels // groups * taps, places))
    kernels = t.reshape(Value(t.cast(weight, wide), weight.shape, wide), (groups, filters // groups, channels // groups * taps))
    out = t.reshape(t.emit("MatMul", kernels, cells), (count, filters, *offset.shape[2:]))
    for term in bias:
        out = t.emit("Add", out, t.reshape(Value(t.cast(term, wide), term.shape, wide), (filters, 1, 1)))
    return t.cast(out, x.dtype, of=wide)


def _sample(t: Translation, mask: Value | None, dtype: str) -> str:
    """Return the image at each tap of each place: (N, G, taps * places, C / G)."""
    x, offset = t.inputs[:2]
    count, channels, height, width = x.shape
    shifts = t.attrs["num_deformable_group"]
    points = offset.shape[1] // (2 * shifts) * offset.shape[2] * offset.shape[3]
    rows, columns = _taps(t, dtype)
    table = t.reshape(t.cast(x, dtype), (count, shifts, channels // shifts, height * width))
    table = t.transpose(table, (0, 1, 3, 2))

    def gather(index: str) -> str:
        return t.emit("GatherND", table, t.emit("Unsqueeze", index, t.integers([-1])), batch_dims=2)

    if mask is not None:
        out = sample_bilinear(t, (height, width), rows, columns, dtype, gather, deep=True)
        scale = t.reshape(Value(t.cast(mask, dtype), mask.shape, dtype), (count, shifts, points, 1))
        return t.emit("Mul", out, scale)
    inside = t.emit(
        "And",
        is_within(t, rows, 0, height, dtype, closed=False),
        is_within(t, columns, 0, width, dtype, closed=False),
    )
    rows, columns = clamp(t, rows, height - 1, dtype), clamp(t, columns, width - 1, dtype)
    out = sample_bilinear(t, (height, width), rows, columns, dtype, gather, deep=True)
    return t.emit("Where", t.emit("Unsqueeze", inside, t.integers([-1])), out, t.number(0, dtype))


def _taps(t: Translation, dtype: str) -> tuple[str, str]:
    """Return the row and the column of each tap at each place: (N, G, taps * places)."""
    offset = t.inputs[1]
    (kh, kw), stride, dilate, pad = window_pairs(t.attrs)
    count, _, h, w = offset.shape
    shifts = t.attrs["num_deformable_group"]
    moved = t.reshape(Value(t.cast(offset, dtype), offset.shape, dtype), (count, shifts, kh * kw, 2, h, w))
    down = np.arange(kh).reshape(kh, 1, 1, 1) * dilate[0] + (np.arange(h) * stride[0] - pad[0]).reshape(h, 1)
    right = np.arange(kw).reshape(1, kw, 1, 1) * dilate[1] + np.arange(w) * stride[1] - pad[1]
    whole = (kh, kw, h, w)

    def move(axis: int, start: Array) -> str:
        shift = t.emit("Gather", moved, t.number(axis, "int64"), axis=3)
        place = t.emit("Add", shift, t.constant(np.broadcast_to(start, whole).reshape(kh * kw, h, w), dtype))
        return t.reshape(place, (count, shifts, kh * kw * h * w))

    return move(0, down), move(1, right)


TRANSLATIONS = (
    Translator("_contrib_DeformableConvolution", translate_deformable_convolution, "its data has elements"),
    Translator("_contrib_ModulatedDeformableConvolution", translate_modulated_convolution, "its data has elements"),
    Translator("_contrib_DeformablePSROIPooling", translate_regions, "its data has elements, its sample_per_part is positive"),
)
