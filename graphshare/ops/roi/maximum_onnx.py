"""Regions pooled by maximum in ONNX where no runtime has ``MaxRoiPool``: ``Scan`` over the regions with masks of bins."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import Translation, Value


def pool_by_masks(t: Translation) -> str:
    """Return the maximum of each bin of each region, 0 in an empty one and for a sample that does not exist."""
    x, rois = t.inputs
    count, channels, height, width = x.shape
    rows, columns = t.attrs["pooled_size"]
    lowest = -float(np.finfo(x.dtype).max)
    number = _column(term(t, rois), 0).cast("int64")
    existing = number.apply("Max", 0).apply("Min", count - 1)

    def step(inputs: Sequence[Value]) -> list[Value]:
        down, right, place = (term(t, value) for value in inputs)
        image = term(t, x).apply("Gather", place.reshape(()), axis=0)
        bands = down.reshape((rows, 1, height, 1)).choose(image, lowest).reduce("ReduceMax", [2])
        cells = right.reshape((1, columns, 1, width)).choose(bands.reshape((rows, 1, channels, width)), lowest)
        inside = _is_any(down).reshape((rows, 1, 1)) & _is_any(right).reshape((1, columns, 1))
        out = inside.choose(cells.reduce("ReduceMax", [3]), 0)
        return [Value(t.transpose(out.name, (2, 0, 1)), (channels, rows, columns), x.dtype)]

    shapes = (((rows, height), "bool"), ((columns, width), "bool"), ((1,), "int64"))
    body = t.body([Value("region", shape, dtype) for shape, dtype in shapes], step)
    masks = _masks(t, 1, rows, height), _masks(t, 0, columns, width)
    (out,) = t.emit_several("Scan", 1, *(mask.name for mask in masks), existing.name, body=body, num_scan_inputs=3)
    exists = number.equals(existing).reshape((rois.shape[0], 1, 1, 1))
    return exists.choose(Term(t, out, x.dtype), 0).name


def _masks(t: Translation, axis: int, bins: int, size: int) -> Term:
    """Return whether each of ``size`` pixels along x (0) or y (1) is in each bin of each region: (R, bins, size)."""
    rois = term(t, 1)
    first, last = ((_column(rois, i + axis) * t.attrs["spatial_scale"]).round_half_away() for i in (1, 3))
    each = (last - first + 1).apply("Max", 1).cast("float32") / bins
    steps = Term(t, t.constant(np.arange(bins + 1)[None], "float32"), "float32") * each  # (R, bins + 1)
    edges = [
        _unsqueeze(
            Term(t, t.slice(steps.name, [1], [begin], [begin + bins]), "float32").apply(op_type).cast(rois.dtype) + first
        )
        for op_type, begin in (("Floor", 0), ("Ceil", 1))
    ]
    pixels = Term(t, t.constant(np.arange(size), rois.dtype), rois.dtype)
    return (edges[0] <= pixels) & (edges[1] > pixels)


def _is_any(mask: Term) -> Term:
    """Return whether any pixel is in each bin."""
    return mask.cast("int32").reduce("ReduceMax", [1]).cast("bool")


def _column(rois: Term, index: int) -> Term:
    return Term(rois.t, rois.t.emit("Gather", rois.name, rois.t.integers([index]), axis=1), rois.dtype)


def _unsqueeze(x: Term) -> Term:
    return Term(x.t, x.t.emit("Unsqueeze", x.name, x.t.integers([2])), x.dtype)
