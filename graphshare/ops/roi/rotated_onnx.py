"""Rotated regions in ONNX: the mean of bilinear samples at a grid of points that is turned about each region's centre."""

from __future__ import annotations

import numpy as np

from graphshare.ops.spatial_transform.sampling_onnx import clamp, is_within, sample_bilinear
from graphshare.ops.translation import Translation


def translate_rotated(t: Translation) -> str:
    """Emit the samples of all bins and their means; without a positive ratio their number depends on the regions."""
    x, rois = t.inputs
    ratio, (rows, columns) = t.attrs["sampling_ratio"], t.attrs["pooled_size"]
    if ratio <= 0:
        t.refuse("its sampling_ratio is not positive, so that the number of samples depends on the regions")
    wide = "float32" if x.dtype == "float16" else x.dtype
    n, channels, height, width = x.shape
    across, along = _points(t, wide)
    inside = t.emit(
        "And",
        is_within(t, along, -1, height, wide, closed=True),
        is_within(t, across, -1, width, wide, closed=True),
    )
    table = t.reshape(t.transpose(t.cast(x, wide), (0, 2, 3, 1)), (n * height * width, channels))
    number = t.cast(t.emit("Gather", rois, t.integers([0]), axis=1), "int64", of=rois.dtype)
    begin = t.emit("Unsqueeze", t.emit("Mul", number, t.number(height * width, "int64")), t.integers([2]))

    def gather(index: str) -> str:
        return t.emit("Gather", table, t.emit("Add", begin, index))

    along, across = clamp(t, along, height - 1, wide), clamp(t, across, width - 1, wide)
    samples = sample_bilinear(t, (height, width), along, across, wide, gather, deep=True)
    kept = t.emit("Mul", samples, t.emit("Unsqueeze", t.cast(inside, wide, of="bool"), t.integers([-1])))
    bins = t.reshape(kept, (rois.shape[0], rows, ratio, columns, ratio, channels))
    return t.cast(t.transpose(t.reduce("ReduceMean", bins, [2, 4]), (0, 3, 1, 2)), x.dtype, of=wide)


def _points(t: Translation, dtype: str) -> tuple[str, str]:
    """Return x and y of all points of all regions: (R, rows, columns)."""
    rois = t.inputs[1]
    scale = t.number(t.attrs["spatial_scale"], dtype)
    columns = t.emit_several("Split", 6, t.cast(rois, dtype), t.integers([1] * 6), axis=1)
    x, y, width, height = (t.emit("Mul", column, scale) for column in columns[1:5])
    angle = t.emit("Mul", t.cast(columns[5], "float64", of=dtype), t.number(np.pi / 180, "float64"))
    angle = t.emit("Unsqueeze", t.cast(angle, dtype, of="float64"), t.integers([2]))
    cos, sin = t.emit("Cos", angle), t.emit("Sin", angle)
    down = t.emit("Unsqueeze", _steps(t, height, t.attrs["pooled_size"][0], dtype), t.integers([2]))
    right = t.emit("Unsqueeze", _steps(t, width, t.attrs["pooled_size"][1], dtype), t.integers([1]))
    across = t.emit("Add", t.emit("Mul", right, cos), t.emit("Mul", down, sin))
    along = t.emit("Sub", t.emit("Mul", down, cos), t.emit("Mul", right, sin))
    middle = [t.emit("Unsqueeze", z, t.integers([2])) for z in (x, y)]
    return t.emit("Add", across, middle[0]), t.emit("Add", along, middle[1])


def _steps(t: Translation, size: str, bins: int, dtype: str) -> str:
    """Return the points of all bins along an axis of the region, from its centre: (R, bins * points); ``size`` is (R, 1)."""
    ratio = t.attrs["sampling_ratio"]
    extent = t.emit("Max", size, t.number(1, dtype))
    width = t.emit("Div", extent, t.number(bins, dtype))
    inner = t.emit("Mul", t.constant(np.arange(ratio)[None] + 0.5, dtype), width)
    inner = t.emit("Div", inner, t.number(ratio, dtype))
    starts = t.emit("Div", t.emit("Neg", extent), t.number(2, dtype))
    starts = t.emit("Add", starts, t.emit("Mul", t.constant(np.arange(bins)[None], dtype), width))
    points = t.emit("Add", t.emit("Unsqueeze", starts, t.integers([2])), t.emit("Unsqueeze", inner, t.integers([1])))
    return t.reshape(points, (t.inputs[1].shape[0], bins * ratio))
