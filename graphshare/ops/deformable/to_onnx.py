"""Deformable convolution and position-sensitive pooling in ONNX, from bilinear samples."""

from __future__ import annotations

import numpy as np

from graphshare.ops.deformable.kernel import regular_taps
from graphshare.ops.kernel import Array
from graphshare.ops.onnx_terms import Term
from graphshare.ops.spatial_transform.kernel import window_pairs
from graphshare.ops.spatial_transform.to_onnx import clamp, is_within, sample_bilinear
from graphshare.ops.translation import Translation, Translator, Value, wide_dtype


def _convolve(t: Translation, mask: Value | None, weight: Value, *bias: Value) -> str:
    """Without a mask, taps beyond the edge give its pixel."""
    x, offset = t.inputs[:2]
    t.require_floats()
    if 0 in x.shape:
        t.refuse("its data has no elements")
    wide = wide_dtype(x.dtype)
    count, channels, *_ = x.shape
    places, shifts, groups = (
        offset.shape[2] * offset.shape[3],
        t.attrs["num_deformable_group"],
        t.attrs["num_group"],
    )
    taps, filters = weight.shape[2] * weight.shape[3], weight.shape[0]
    cells = _sample(t, mask, wide)  # (N, G, taps * places, C / G)
    cells = t.reshape(cells, (count, shifts, taps, places, channels // shifts))
    cells = t.reshape(
        t.transpose(cells, (0, 1, 4, 2, 3)), (count, groups, channels // groups * taps, places)
    )
    kernels = t.reshape(
        Value(t.cast(weight, wide), weight.shape, wide),
        (groups, filters // groups, channels // groups * taps),
    )
    out = t.reshape(t.emit("MatMul", kernels, cells), (count, filters, *offset.shape[2:]))
    for term in bias:
        out = t.emit(
            "Add", out, t.reshape(Value(t.cast(term, wide), term.shape, wide), (filters, 1, 1))
        )
    return t.cast(out, x.dtype, dtype=wide)


def _sample(t: Translation, mask: Value | None, dtype: str) -> str:
    """Return (N, G, taps * places, C / G)."""
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
    """Return row and column: (N, G, taps * places)."""
    offset = t.inputs[1]
    (kh, kw), *_ = window_pairs(t.attrs)
    count, _, h, w = offset.shape
    shifts = t.attrs["num_deformable_group"]
    moved = t.reshape(
        Value(t.cast(offset, dtype), offset.shape, dtype), (count, shifts, kh * kw, 2, h, w)
    )
    down, right = regular_taps(t.attrs, h, w)
    whole = (kh, kw, h, w)

    def move(axis: int, start: Array) -> str:
        shift = t.emit("Gather", moved, t.number(axis, "int64"), axis=3)
        place = t.emit(
            "Add", shift, t.constant(np.broadcast_to(start, whole).reshape(kh * kw, h, w), dtype)
        )
        return t.reshape(place, (count, shifts, kh * kw * h * w))

    return move(0, down), move(1, right)


def translate_regions(t: Translation) -> list[str]:
    """Emit the means and numbers of points (R, output_dim, p, p)."""
    t.require_floats()
    x = t.inputs[0]
    if 0 in x.shape:
        t.refuse("its data has no elements")
    if t.attrs["sample_per_part"] < 1:
        t.refuse(f"its sample_per_part is {t.attrs['sample_per_part']}")
    wide = wide_dtype(x.dtype)
    height, width = x.shape[2:]
    columns, rows = _points(t, wide)
    inside = t.emit(
        "And",
        is_within(t, columns, -0.5, width - 0.5, wide, closed=True),
        is_within(t, rows, -0.5, height - 0.5, wide, closed=True),
    )
    rows, columns = clamp(t, rows, height - 1, wide), clamp(t, columns, width - 1, wide)
    table, planes = t.reshape(t.cast(x, wide), (int(np.prod(x.shape)),)), _planes(t)

    def gather(index: str) -> str:
        return t.emit("Gather", table, t.emit("Add", planes, index))

    samples = sample_bilinear(t, (height, width), rows, columns, wide, gather, deep=False)
    total = t.reduce("ReduceSum", t.emit("Where", inside, samples, t.number(0, wide)), [4, 5])
    number = t.reduce("ReduceSum", t.cast(inside, wide, dtype="bool"), [4, 5])
    mean = t.emit("Div", total, t.emit("Max", number, t.number(1, wide)))
    return [t.cast(y, x.dtype, dtype=wide) for y in (mean, number)]


def _points(t: Translation, dtype: str) -> tuple[str, str]:
    """Return x and y: (R, output_dim, p, p, s, s), points by row and column."""
    size, points = t.attrs["pooled_size"], t.attrs["sample_per_part"]
    shape = (t.inputs[1].shape[0], t.attrs["output_dim"], size, size, points, points)
    results = []
    for axis in (0, 1):
        start, extent = _extent(t, axis, dtype)  # (R, 1, 1, 1)
        each = t.emit("Div", extent, t.number(size, dtype))
        bins = np.arange(size).reshape((1, 1, 1, size) if axis == 0 else (1, 1, size, 1))
        first = t.emit("Add", t.emit("Mul", t.constant(bins, dtype), each), start)
        shift = _shift(t, axis, dtype)
        if shift:
            first = t.emit("Add", first, t.emit("Mul", shift, extent))
        steps = np.arange(points).reshape(
            (1, 1, 1, 1, 1, points) if axis == 0 else (1, 1, 1, 1, points, 1)
        )
        step = t.emit("Unsqueeze", t.emit("Div", each, t.number(points, dtype)), t.integers([4, 5]))
        places = t.emit("Mul", t.constant(steps, dtype), step)
        places = t.emit("Add", t.emit("Unsqueeze", first, t.integers([4, 5])), places)
        results.append(t.emit("Expand", places, t.integers((1, *shape[1:]))))
    return results[0], results[1]


def _extent(t: Translation, axis: int, dtype: str) -> tuple[str, str]:
    """Return start along x (0) or y (1), and size of at least 0.1: (R, 1, 1, 1)."""
    rois, scale, half = t.inputs[1], t.number(t.attrs["spatial_scale"], dtype), t.number(0.5, dtype)
    corners = t.cast(rois, dtype)
    rounded = Term(t, corners, dtype).round_half_away().name
    first, last = (
        t.emit("Gather", rounded, t.integers([1 + axis + 2 * i]), axis=1) for i in (0, 1)
    )
    start = t.emit("Sub", t.emit("Mul", first, scale), half)
    end = t.emit("Sub", t.emit("Mul", t.emit("Add", last, t.number(1, dtype)), scale), half)
    size = t.emit("Max", t.emit("Sub", end, start), t.number(0.1, dtype))
    shape = (rois.shape[0], 1, 1, 1)
    return t.reshape(start, shape), t.reshape(size, shape)


def _shift(t: Translation, axis: int, dtype: str) -> str:
    """Return each bin's offset in units of the region: (R, output_dim, p, p), or empty."""
    if t.attrs["no_trans"]:
        return ""
    trans, count, size = t.inputs[2], t.attrs["output_dim"], t.attrs["pooled_size"]
    part, classes = t.attrs["part_size"] or size, trans.shape[1] // 2
    if count < classes:
        t.refuse(f"it has offsets for {classes} classes and {count} channels")
    chosen = 2 * (np.arange(count) // (count // classes)) + axis
    parts = np.arange(size) * part // size
    offsets = t.emit("Gather", t.cast(trans, dtype), t.integers(chosen.tolist()), axis=1)
    # Rows, then columns: each bin takes the offsets of its part.
    for where in (2, 3):
        offsets = t.emit("Gather", offsets, t.integers(parts.tolist()), axis=where)
    return t.emit("Mul", offsets, t.number(t.attrs["trans_std"], dtype))


def _planes(t: Translation) -> str:
    """Return the first pixel of each bin's channel in the batch: (R, output_dim, p, p, 1, 1)."""
    x, rois = t.inputs[:2]
    size, count, group = t.attrs["pooled_size"], t.attrs["output_dim"], t.attrs["group_size"]
    cells = np.clip(np.arange(size) * group // size, 0, group - 1)
    channels = (np.arange(count)[:, None, None] * group + cells[:, None]) * group + cells
    pixels = x.shape[2] * x.shape[3]
    sample = t.cast(t.emit("Gather", rois, t.integers([0]), axis=1), "int64", dtype=rois.dtype)
    begin = t.emit(
        "Mul",
        t.reshape(sample, (rois.shape[0], 1, 1, 1, 1, 1)),
        t.number(x.shape[1] * pixels, "int64"),
    )
    return t.emit("Add", begin, t.constant((channels * pixels)[None, :, :, :, None, None], "int64"))


_FLOATS = "its data has elements, and is floating point"
TRANSLATIONS = (
    Translator(
        "_contrib_DeformableConvolution", lambda t: _convolve(t, None, *t.inputs[2:]), _FLOATS
    ),
    Translator(
        "_contrib_ModulatedDeformableConvolution", lambda t: _convolve(t, *t.inputs[2:]), _FLOATS
    ),
    Translator(
        "_contrib_DeformablePSROIPooling",
        translate_regions,
        "its data has elements, its sample_per_part is positive",
    ),
)
