"""Regions pooled to one size in ONNX: ``MaxRoiPool`` and ``RoiAlign``, else plain operators.

Where ``MaxRoiPool`` is missing, the maximum is a ``Scan`` over regions with masks of bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.spatial_transform.to_onnx import clamp, is_within, sample_bilinear
from graphshare.ops.translation import Translation, Translator, Value, wide_dtype


def translate_roi_pooling(t: Translation) -> str:
    """Emit ``MaxRoiPool``; 0 for a sample that does not exist."""
    t.require_floats()
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
    number, corners = (t.cast(y, "float32", dtype=rois.dtype) for y in (number, corners))
    # MXNet truncates the sample's number.
    whole = t.cast(t.cast(number, "int64", dtype="float32"), "float32", dtype="int64")
    low, high = t.number(0, "float32"), t.number(x.shape[0] - 1, "float32")
    # onnxruntime fails on samples outside the batch: pool a valid one, replaced by 0 below.
    existing = t.emit("Min", t.emit("Max", whole, low), high)
    regions = t.emit("Concat", existing, corners, axis=1)
    out = t.emit(
        "MaxRoiPool",
        t.cast(x, "float32"),
        regions,
        pooled_shape=t.attrs["pooled_size"],
        spatial_scale=scale,
    )
    exists = t.reshape(t.emit("Equal", whole, existing), (rois.shape[0], 1, 1, 1))
    return t.cast(t.emit("Where", exists, out, low), x.dtype, dtype="float32")


def translate_roi_align(t: Translation) -> str:
    """Emit ``RoiAlign``; sample -1 gives 0, and ``position_sensitive`` chooses each bin's channels.

    Before opset 16 it has no mode and is never aligned.
    """
    t.require_floats()
    x, rois = t.inputs
    height, width = t.attrs["pooled_size"]
    mode = {
        "coordinate_transformation_mode": "half_pixel"
        if t.attrs["aligned"]
        else "output_half_pixel"
    }
    number, corners = t.emit_several("Split", 2, rois, t.integers([1, 4]), axis=1)
    sample = t.reshape(t.cast(number, "int64", dtype=rois.dtype), (rois.shape[0],))
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
        # ONNX's 0 is MXNet's -1: as many samples as pixels in the bin, rounded up.
        sampling_ratio=max(0, t.attrs["sample_ratio"]),
        spatial_scale=scale,
        # Below opset 16 an aligned node keeps the attribute, and is refused for it.
        **(mode if t.opset >= 16 or t.attrs["aligned"] else {}),
    )
    exists = t.reshape(t.emit("GreaterOrEqual", sample, none), (rois.shape[0], 1, 1, 1))
    out = t.emit("Where", exists, out, t.number(0, x.dtype))
    if not t.attrs["position_sensitive"]:
        return out
    bins = height * width
    rows = t.reshape(out, (rois.shape[0], x.shape[1] // bins, bins * bins))
    # Bin b takes channel b of each group: the diagonal.
    return t.reshape(
        t.emit("Gather", rows, t.integers(range(0, bins * bins, bins + 1)), axis=2),
        t.outputs[0].shape,
    )


def _narrow_corners(t: Translation, corners: str) -> str:
    """Round scaled float64 corners to float32, like MXNet."""
    shift = 0.5 if t.attrs["aligned"] else 0.0
    scaled = t.emit(
        "Mul",
        t.cast(corners, "float32", dtype="float64"),
        t.number(t.attrs["spatial_scale"], "float32"),
    )
    narrow = t.cast(t.emit("Sub", scaled, t.number(shift, "float32")), "float64", dtype="float32")
    return t.emit("Add", narrow, t.number(shift, "float64"))


def translate_sensitive_pooling(t: Translation) -> str:
    """Emit for each bin its pixels' 0/1 masks times its channels, over the number of pixels."""
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
    data = t.reshape(
        t.transpose(data, (2, 3, 0, 4, 5, 1)), (size * size, n * height * width, count)
    )
    samples = t.emit(
        "Equal",
        t.cast(_column(t, rois, 0), "int64", dtype=rois.dtype),
        t.constant(np.arange(n)[None], "int64"),
    )
    masks = [
        t.cast(samples, wide, dtype="bool"),
        *(t.cast(_mask(t, axis, wide), wide, dtype="bool") for axis in (1, 0)),
    ]
    shapes = [
        (1, 1, regions, n, 1, 1),
        (size, 1, regions, 1, height, 1),
        (1, size, regions, 1, 1, width),
    ]
    spread = [t.reshape(mask, shape) for mask, shape in zip(masks, shapes, strict=True)]
    pixels = t.emit("Mul", t.emit("Mul", spread[0], spread[1]), spread[2])
    total = t.emit("MatMul", t.reshape(pixels, (size * size, regions, n * height * width)), data)
    number = t.reshape(t.reduce("ReduceSum", pixels, [3, 4, 5]), (size * size, regions, 1))
    # An empty bin's sum and result are 0.
    mean = t.emit("Div", total, t.emit("Max", number, t.number(1, wide)))
    out = t.transpose(t.reshape(mean, (size, size, regions, count)), (2, 3, 0, 1))
    return t.cast(out, x.dtype, dtype=wide)


def _column(t: Translation, rois: Value, index: int) -> str:
    return t.emit("Gather", rois, t.integers([index]), axis=1)


def _mask(t: Translation, axis: int, dtype: str) -> str:
    """Return whether pixels along x (0) or y (1) are in each bin: (bins, R, pixels)."""
    x, rois = t.inputs
    size, scale = t.attrs["pooled_size"], t.number(t.attrs["spatial_scale"], dtype)
    ends = []
    for i in (1 + axis, 3 + axis):
        corner = t.cast(_column(t, rois, i), dtype, dtype=rois.dtype)
        rounded = Term(t, corner, dtype).round_half_away().name
        ends.append(
            t.emit("Mul", rounded if i < 3 else t.emit("Add", rounded, t.number(1, dtype)), scale)
        )
    extent = t.emit("Max", t.emit("Sub", ends[1], ends[0]), t.number(0.1, dtype))
    each = t.emit("Div", t.cast(extent, "float32", dtype=dtype), t.number(size, "float32"))
    pixels = t.constant(np.arange(x.shape[3 - axis]), dtype)
    edges = []
    for op_type, first in (("Floor", 0), ("Ceil", 1)):
        steps = t.constant(np.arange(first, size + first).reshape(size, 1, 1), "float32")
        edges.append(
            t.emit(
                op_type,
                t.emit("Add", t.cast(t.emit("Mul", steps, each), dtype, dtype="float32"), ends[0]),
            )
        )
    return t.emit(
        "And", t.emit("GreaterOrEqual", pixels, edges[0]), t.emit("Less", pixels, edges[1])
    )


class _Steps(NamedTuple):
    """Points along an axis from regions' centres (R, bins, points); the number in use (R, 1)."""

    places: str
    number: str


def translate_rotated(t: Translation) -> str:
    """Emit the samples of all bins and their means.

    Without a positive ratio each bin gets as many samples as the largest region needs; those beyond
    a region's own number lie at infinity and do not count.
    """
    t.require_floats()
    x, rois = t.inputs
    wide = wide_dtype(x.dtype)
    n, channels, height, width = x.shape
    columns = t.emit_several("Split", 6, t.cast(rois, wide), t.integers([1] * 6), axis=1)
    right, down = (_steps(t, columns[i], t.attrs["pooled_size"][4 - i], wide) for i in (3, 4))
    across, along = _turn(t, columns, right.places, down.places, wide)
    inside = t.emit(
        "And",
        is_within(t, along, -1, height, wide, closed=True),
        is_within(t, across, -1, width, wide, closed=True),
    )
    table = t.reshape(t.transpose(t.cast(x, wide), (0, 2, 3, 1)), (n * height * width, channels))
    begin = t.emit(
        "Mul", t.cast(columns[0], "int64", dtype=wide), t.number(height * width, "int64")
    )
    begin = t.emit("Unsqueeze", begin, t.integers([2, 3, 4]))

    def gather(index: str) -> str:
        return t.emit("Gather", table, t.emit("Add", begin, index))

    along, across = clamp(t, along, height - 1, wide), clamp(t, across, width - 1, wide)
    # (R, rows, points, columns, points, C)
    samples = sample_bilinear(t, (height, width), along, across, wide, gather, deep=True)
    kept = t.emit(
        "Where", t.emit("Unsqueeze", inside, t.integers([-1])), samples, t.number(0, wide)
    )
    number = t.emit("Unsqueeze", t.emit("Mul", right.number, down.number), t.integers([2, 3]))
    mean = t.emit("Div", t.reduce("ReduceSum", kept, [2, 4]), number)
    return t.cast(t.transpose(mean, (0, 3, 1, 2)), x.dtype, dtype=wide)


def _steps(t: Translation, column: str, bins: int, dtype: str) -> _Steps:
    """Return all bins' points along an axis; ``column`` (R, 1) is the regions' size there."""
    ratio, half = t.attrs["sampling_ratio"], t.number(0.5, dtype)
    extent = t.emit(
        "Max", t.emit("Mul", column, t.number(t.attrs["spatial_scale"], dtype)), t.number(1, dtype)
    )
    width = t.emit("Div", extent, t.number(bins, dtype))
    if ratio > 0:
        number, order = (
            t.constant(np.full((1, 1), ratio), dtype),
            t.constant(np.arange(ratio)[None], dtype),
        )
    else:
        number = t.emit("Ceil", width)
        largest = t.reduce("ReduceMax", number, [0, 1])
        order = t.emit(
            "Unsqueeze",
            t.emit("Range", t.number(0, dtype), largest, t.number(1, dtype)),
            t.integers([0]),
        )
    inner = t.emit("Div", t.emit("Mul", t.emit("Add", order, half), width), number)
    if ratio <= 0:
        inner = t.emit("Where", t.emit("Less", order, number), inner, t.number(np.inf, dtype))
    starts = t.emit("Div", t.emit("Neg", extent), t.number(2, dtype))
    starts = t.emit("Add", starts, t.emit("Mul", t.constant(np.arange(bins)[None], dtype), width))
    return _Steps(
        t.emit(
            "Add",
            t.emit("Unsqueeze", starts, t.integers([2])),
            t.emit("Unsqueeze", inner, t.integers([1])),
        ),
        number,
    )


def _turn(t: Translation, columns: list[str], right: str, down: str, dtype: str) -> tuple[str, str]:
    """Return x and y of all points: (R, rows, points, columns, points)."""
    scale, behind = t.number(t.attrs["spatial_scale"], dtype), t.integers([1, 2, 3])
    angle = t.emit(
        "Mul", t.cast(columns[5], "float64", dtype=dtype), t.number(np.pi / 180, "float64")
    )
    angle = t.emit("Unsqueeze", t.cast(angle, dtype, dtype="float64"), behind)
    cos, sin = t.emit("Cos", angle), t.emit("Sin", angle)
    right, down = (
        t.emit("Unsqueeze", right, t.integers([1, 2])),
        t.emit("Unsqueeze", down, t.integers([3, 4])),
    )
    across = t.emit("Add", t.emit("Mul", right, cos), t.emit("Mul", down, sin))
    along = t.emit("Sub", t.emit("Mul", down, cos), t.emit("Mul", right, sin))
    x, y = (t.emit("Unsqueeze", t.emit("Mul", column, scale), behind) for column in columns[1:3])
    return t.emit("Add", across, x), t.emit("Add", along, y)


def pool_by_masks(t: Translation) -> str:
    """Return each bin's maximum, 0 if empty or for a sample that does not exist."""
    x, rois = t.inputs
    count, channels, height, width = x.shape
    rows, columns = t.attrs["pooled_size"]
    lowest = -float(np.finfo(x.dtype).max)
    number = _term_column(term(t, rois), 0).cast("int64")
    existing = number.apply("Max", 0).apply("Min", count - 1)

    def step(inputs: Sequence[Value]) -> list[Value]:
        down, right, place = (term(t, value) for value in inputs)
        image = term(t, x).apply("Gather", place.reshape(()), axis=0)
        bands = down.reshape((rows, 1, height, 1)).choose(image, lowest).reduce("ReduceMax", [2])
        cells = right.reshape((1, columns, 1, width)).choose(
            bands.reshape((rows, 1, channels, width)), lowest
        )
        inside = _is_any(down).reshape((rows, 1, 1)) & _is_any(right).reshape((1, columns, 1))
        out = inside.choose(cells.reduce("ReduceMax", [3]), 0)
        return [Value(t.transpose(out.name, (2, 0, 1)), (channels, rows, columns), x.dtype)]

    shapes = (((rows, height), "bool"), ((columns, width), "bool"), ((1,), "int64"))
    body = t.body([Value("region", shape, dtype) for shape, dtype in shapes], step)
    masks = _masks(t, 1, rows, height), _masks(t, 0, columns, width)
    (out,) = t.emit_several(
        "Scan", 1, *(mask.name for mask in masks), existing.name, body=body, num_scan_inputs=3
    )
    exists = number.equals(existing).reshape((rois.shape[0], 1, 1, 1))
    return exists.choose(Term(t, out, x.dtype), 0).name


def _masks(t: Translation, axis: int, bins: int, size: int) -> Term:
    """Return whether pixels along x (0) or y (1) are in each bin: (R, bins, size)."""
    rois = term(t, 1)
    first, last = (
        (_term_column(rois, i + axis) * t.attrs["spatial_scale"]).round_half_away() for i in (1, 3)
    )
    each = (last - first + 1).apply("Max", 1).cast("float32") / bins
    # (R, bins + 1)
    steps = Term(t, t.constant(np.arange(bins + 1)[None], "float32"), "float32") * each
    edges: list[Term] = []
    for op_type, begin in (("Floor", 0), ("Ceil", 1)):
        part = Term(t, t.slice(steps.name, [1], [begin], [begin + bins]), "float32").apply(op_type)
        edges.append((part.cast(rois.dtype) + first).unsqueeze(2))
    pixels = Term(t, t.constant(np.arange(size), rois.dtype), rois.dtype)
    return (edges[0] <= pixels) & (edges[1] > pixels)


def _is_any(mask: Term) -> Term:
    return mask.cast("int32").reduce("ReduceMax", [1]).cast("bool")


def _term_column(rois: Term, index: int) -> Term:
    return Term(
        rois.t, rois.t.emit("Gather", rois.name, rois.t.integers([index]), axis=1), rois.dtype
    )


TRANSLATIONS = (
    Translator(
        "ROIPooling",
        translate_roi_pooling,
        "its data has samples, and its spatial_scale is positive or the data float64",
    ),
    Translator("_contrib_PSROIPooling", translate_sensitive_pooling),
    Translator("_contrib_ROIAlign", translate_roi_align, "its data is floating point"),
    Translator("_contrib_RROIAlign", translate_rotated),
)
