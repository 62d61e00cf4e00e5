"""Rotated regions in ONNX: the mean of bilinear samples at a grid of points that is turned about each region's centre."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from graphshare.ops.spatial_transform.sampling_onnx import clamp, is_within, sample_bilinear
from graphshare.ops.translation import Translation


class _Steps(NamedTuple):
    """Points along an axis of each region from its centre (R, bins, points), and how many of a bin's count (R, 1)."""

    places: str
    number: str


def translate_rotated(t: Translation) -> str:
    """Emit the samples of all bins and their means.

    Without a positive ratio the number of samples depends on the regions: each bin gets as many as the largest region needs,
    and those behind a region's own number lie nowhere.
    """
    x, rois = t.inputs
    wide = "float32" if x.dtype == "float16" else x.dtype
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
    begin = t.emit("Mul", t.cast(columns[0], "int64", of=wide), t.number(height * width, "int64"))
    begin = t.emit("Unsqueeze", begin, t.integers([2, 3, 4]))

    def gather(index: str) -> str:
        return t.emit("Gather", table, t.emit("Add", begin, index))

    along, across = clamp(t, along, height - 1, wide), clamp(t, across, width - 1, wide)
    samples = sample_bilinear(
        t, (height, width), along, across, wide, gather, deep=True
    )  # (R, rows, points, columns, points, C)
    kept = t.emit("Where", t.emit("Unsqueeze", inside, t.integers([-1])), samples, t.number(0, wide))
    number = t.emit("Unsqueeze", t.emit("Mul", right.number, down.number), t.integers([2, 3]))
    mean = t.emit("Div", t.reduce("ReduceSum", kept, [2, 4]), number)
    return t.cast(t.transpose(mean, (0, 3, 1, 2)), x.dtype, of=wide)


def _steps(t: Translation, column: str, bins: int, dtype: str) -> _Steps:
    """Return the points of all bins along an axis, on which the size of the regions is ``column`` (R, 1)."""
    ratio, half = t.attrs["sampling_ratio"], t.number(0.5, dtype)
    extent = t.emit("Max", t.emit("Mul", column, t.number(t.attrs["spatial_scale"], dtype)), t.number(1, dtype))
    width = t.emit("Div", extent, t.number(bins, dtype))
    if ratio > 0:
        number, order = t.constant(np.full((1, 1), ratio), dtype), t.constant(np.arange(ratio)[None], dtype)
    else:
        number = t.emit("Ceil", width)
        largest = t.reduce("ReduceMax", number, [0, 1])
        order = t.emit("Unsqueeze", t.emit("Range", t.number(0, dtype), largest, t.number(1, dtype)), t.integers([0]))
    inner = t.emit("Div", t.emit("Mul", t.emit("Add", order, half), width), number)
    if ratio <= 0:
        inner = t.emit("Where", t.emit("Less", order, number), inner, t.number(np.inf, dtype))
    starts = t.emit("Div", t.emit("Neg", extent), t.number(2, dtype))
    starts = t.emit("Add", starts, t.emit("Mul", t.constant(np.arange(bins)[None], dtype), width))
    return _Steps(
        t.emit("Add", t.emit("Unsqueeze", starts, t.integers([2])), t.emit("Unsqueeze", inner, t.integers([1]))), number
    )


def _turn(t: Translation, columns: list[str], right: str, down: str, dtype: str) -> tuple[str, str]:
    """Return x and y of all points of all regions: (R, rows, points, columns, points)."""
    scale, behind = t.number(t.attrs["spatial_scale"], dtype), t.integers([1, 2, 3])
    angle = t.emit("Mul", t.cast(columns[5], "float64", of=dtype), t.number(np.pi / 180, "float64"))
    angle = t.emit("Unsqueeze", t.cast(angle, dtype, of="float64"), behind)
    cos, sin = t.emit("Cos", angle), t.emit("Sin", angle)
    right, down = t.emit("Unsqueeze", right, t.integers([1, 2])), t.emit("Unsqueeze", down, t.integers([3, 4]))
    across = t.emit("Add", t.emit("Mul", right, cos), t.emit("Mul", down, sin))
    along = t.emit("Sub", t.emit("Mul", down, cos), t.emit("Mul", right, sin))
    x, y = (t.emit("Unsqueeze", t.emit("Mul", column, scale), behind) for column in columns[1:3])
    return t.emit("Add", across, x), t.emit("Add", along, y)
