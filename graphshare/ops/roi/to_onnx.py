"""Regions pooled to one size in ONNX: ``MaxRoiPool`` and ``RoiAlign``, and plain operators for the position-sensitive ones."""

from __future__ import annotations

import numpy as np

from graphshare.ops.onnx_terms import Term
from graphshare.ops.roi.maximum_onnx import pool_by_masks
from graphshare.ops.roi.rotated_onnx import translate_rotated
from graphshare.ops.translation import Translation, Translator, Value


def translate_roi_pooling(t: Translation) -> str:
    """Emit ``MaxRoiPool``; a region of a sample that does not exist gives 0."""
    x, rois = t.inputs
    if x.dtype == "float64":
        return pool_by_masks(t)
    number, corners = t.emit_several("Split", 2, rois, t.integers([1, 4]), axis=1)
    scale = float(t.attrs["spatial_scale"])
    if not x.shape[0]:
        t.refuse("its data has no samples")
    if scale <= 0:
        t.refuse(f"its spatial_scale is {scale:g}, which runtimes refuse")
    if x.dtype == "float16":  # corners are scaled in float16 before they are rounded
        corners, scale = t.emit("Mul", corners, t.number(scale, "float16")), 1.0
    number, corners = (t.cast(y, "float32", of=rois.dtype) for y in (number, corners))
    whole = t.cast(t.cast(number, "int64", of="float32"), "float32", of="int64")
    low, high = t.number(0, "float32"), t.number(x.shape[0] - 1, "float32")
    existing = t.emit("Min", t.emit("Max", whole, low), high)
    regions = t.emit("Concat", existing, corners, axis=1)
    out = t.emit("MaxRoiPool", t.cast(x, "float32"), regions, pooled_shape=t.attrs["pooled_size"], spatial_scale=scale)
    exists = t.reshape(t.emit("Equal", whole, existing), (rois.shape[0], 1, 1, 1))
    return t.cast(t.emit("Where", exists, out, low), x.dtype, of="float32")


def translate_roi_align(t: Translation) -> str:
    """Emit ``RoiAlign``; sample -1 gives 0, and ``position_sensitive`` chooses the channels of each bin.

    Before opset 16 it has no mode and is never aligned.
    """
    t.require_floats()
    x, rois = t.inputs
    height, width = t.attrs["pooled_size"]
    mode = {"coordinate_transformation_mode": "half_pixel" if t.attrs["aligned"] else "output_half_pixel"}
    number, corners = t.emit_several("Split", 2, rois, t.integers([1, 4]), axis=1)
    sample = t.reshape(t.cast(number, "int64", of=rois.dtype), (rois.shape[0],))
    none = t.number(0, "int64")
    scale = float(t.attrs["spatial_scale"])
    if rois.dtype == "float64":  # MXNet takes corners as float32
        corners, scale = _narrow_corners(t, corners), 1.0
    out = t.emit(
        "RoiAlign",
        x,
        corners,
        t.emit("Max", sample, none),
        mode="avg",
        output_height=height,
        output_width=width,
        sampling_ratio=max(0, t.attrs["sample_ratio"]),
        spatial_scale=scale,
        **(mode if t.opset >= 16 or t.attrs["aligned"] else {}),
    )
    exists = t.reshape(t.emit("GreaterOrEqual", sample, none), (rois.shape[0], 1, 1, 1))
    out = t.emit("Where", exists, out, t.number(0, x.dtype))
    if not t.attrs["position_sensitive"]:
        return out
    bins = height * width
    rows = t.reshape(out, (rois.shape[0], x.shape[1] // bins, bins * bins))
    return t.reshape(t.emit("Gather", rows, t.integers(range(0, bins * bins, bins + 1)), axis=2), t.outputs[0].shape)


def _narrow_corners(t: Translation, corners: str) -> str:
    """Return float64 corners, scaled, as what MXNet computes in float32."""
    shift = 0.5 if t.attrs["aligned"] else 0.0
    scaled = t.emit("Mul", t.cast(corners, "float32", of="float64"), t.number(t.attrs["spatial_scale"], "float32"))
    narrow = t.cast(t.emit("Sub", scaled, t.number(shift, "float32")), "float64", of="float32")
    return t.emit("Add", narrow, t.number(shift, "float64"))


def translate_sensitive_pooling(t: Translation) -> str:
    """Emit for each bin the product of 0/1 masks of its pixels, by regions, with its channels, divided by their number."""
    x, rois = t.inputs
    size, count = t.attrs["pooled_size"], t.attrs["output_dim"]
    group, regions, (n, _, height, width) = t.attrs["group_size"] or size, rois.shape[0], x.shape
    if x.shape[1] != count * group * group:
        t.refuse(f"it has {x.shape[1]} channels, expected {count} * {group} * {group}")
    wide = "float64" if x.dtype == "float64" else "float32"
    cells = t.integers([min(max(i * group // size, 0), group - 1) for i in range(size)])
    data = t.reshape(t.cast(x, wide), (n, count, group, group, height, width))
    for axis in (2, 3) if group != size else ():
        data = t.emit("Gather", data, cells, axis=axis)
    data = t.reshape(t.transpose(data, (2, 3, 0, 4, 5, 1)), (size * size, n * height * width, count))
    samples = t.emit("Equal", t.cast(_column(t, rois, 0), "int64", of=rois.dtype), t.constant(np.arange(n)[None], "int64"))
    masks = [t.cast(samples, wide, of="bool"), *(t.cast(_mask(t, axis, wide), wide, of="bool") for axis in (1, 0))]
    shapes = [(1, 1, regions, n, 1, 1), (size, 1, regions, 1, height, 1), (1, size, regions, 1, 1, width)]
    spread = [t.reshape(mask, shape) for mask, shape in zip(masks, shapes, strict=True)]
    pixels = t.emit("Mul", t.emit("Mul", spread[0], spread[1]), spread[2])
    total = t.emit("MatMul", t.reshape(pixels, (size * size, regions, n * height * width)), data)
    number = t.reshape(t.reduce("ReduceSum", pixels, [3, 4, 5]), (size * size, regions, 1))
    mean = t.emit("Div", total, t.emit("Max", number, t.number(1, wide)))
    out = t.transpose(t.reshape(mean, (size, size, regions, count)), (2, 3, 0, 1))
    return t.cast(out, x.dtype, of=wide)


def _column(t: Translation, rois: Value, index: int) -> str:
    """Return a column of the regions: (R, 1)."""
    return t.emit("Gather", rois, t.integers([index]), axis=1)


def _mask(t: Translation, axis: int, dtype: str) -> str:
    """Return whether each pixel along x (0) or y (1) is in each bin of each region: (bins, R, pixels)."""
    x, rois = t.inputs
    size, scale = t.attrs["pooled_size"], t.number(t.attrs["spatial_scale"], dtype)
    ends = []
    for i in (1 + axis, 3 + axis):
        corner = t.cast(_column(t, rois, i), dtype, of=rois.dtype)
        rounded = Term(t, corner, dtype).round_half_away().name
        ends.append(t.emit("Mul", rounded if i < 3 else t.emit("Add", rounded, t.number(1, dtype)), scale))
    extent = t.emit("Max", t.emit("Sub", ends[1], ends[0]), t.number(0.1, dtype))
    each = t.emit("Div", t.cast(extent, "float32", of=dtype), t.number(size, "float32"))
    pixels = t.constant(np.arange(x.shape[3 - axis]), dtype)
    edges = []
    for op_type, first in (("Floor", 0), ("Ceil", 1)):
        steps = t.constant(np.arange(first, size + first).reshape(size, 1, 1), "float32")
        edges.append(t.emit(op_type, t.emit("Add", t.cast(t.emit("Mul", steps, each), dtype, of="float32"), ends[0])))
    return t.emit("And", t.emit("GreaterOrEqual", pixels, edges[0]), t.emit("Less", pixels, edges[1]))


TRANSLATIONS = (
    Translator(
        "ROIPooling", translate_roi_pooling, "its data has samples, and its spatial_scale is positive or the data float64"
    ),
    Translator("_contrib_PSROIPooling", translate_sensitive_pooling),
    Translator("_contrib_ROIAlign", translate_roi_align, "its data is floating point"),
    Translator("_contrib_RROIAlign", translate_rotated),
)
