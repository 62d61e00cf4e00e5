"""Grids and sampling in ONNX: ``GridSample`` from opset 16, plain operators before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from graphshare.ops.onnx_windows import place_taps, sum_windows
from graphshare.ops.spatial_transform.kernel import correlation_size, read_target_shape, unit_grid
from graphshare.ops.translation import Translation, Translator, Value, wide_dtype
from graphshare.ops.windows import Window


class _Line(NamedTuple):
    """A line of pixels beside each point: numbers (int64) and weights, 0 outside."""

    number: str
    weight: str


def sample_bilinear(
    t: Translation,
    size: tuple[int, int],
    rows: str,
    columns: str,
    dtype: str,
    gather: Callable[[str], str],
    *,
    deep: bool,
) -> str:
    """Sample images of ``size`` (height, width) at ``rows`` and ``columns``, zeros outside.

    ``gather`` returns pixels by number (row * width + column, int64, in the shape of ``rows``);
    with ``deep`` they have a channel axis after that shape.
    """
    total = ""
    columns_beside = _lines_beside(t, columns, size[1], dtype)
    for row in _lines_beside(t, rows, size[0], dtype):
        begin = t.emit("Mul", row.number, t.number(size[1], "int64"))
        for column in columns_beside:
            weight = t.emit("Mul", row.weight, column.weight)
            pixels = gather(t.emit("Add", begin, column.number))
            part = t.emit(
                "Mul", pixels, t.emit("Unsqueeze", weight, t.integers([-1])) if deep else weight
            )
            total = t.emit("Add", total, part) if total else part
    return total


def is_within(
    t: Translation, places: str, low: float, high: float, dtype: str, *, closed: bool
) -> str:
    """Return where low <= places < high (``closed``: <= high), false for NaN."""
    below = t.emit("LessOrEqual" if closed else "Less", places, t.number(high, dtype))
    return t.emit("And", t.emit("GreaterOrEqual", places, t.number(low, dtype)), below)


def clamp(t: Translation, places: str, high: float, dtype: str) -> str:
    """Clamp ``places`` to 0 and ``high``."""
    return t.emit("Min", t.emit("Max", places, t.number(0, dtype)), t.number(high, dtype))


def _lines_beside(t: Translation, places: str, size: int, dtype: str) -> list[_Line]:
    """Return the lines before and after fractional ``places`` on an axis."""
    zero, one = t.number(0, dtype), t.number(1, dtype)
    before = t.emit("Floor", places)
    lines = []
    for line in (before, t.emit("Add", before, one)):
        inside = is_within(t, line, 0, size, dtype, closed=False)
        weight = t.emit("Sub", one, t.emit("Abs", t.emit("Sub", places, line)))
        index = t.cast(t.emit("Where", inside, line, zero), "int64", dtype=dtype)
        lines.append(_Line(index, t.emit("Where", inside, weight, zero)))
    return lines


def translate_grid_generator(t: Translation) -> str:
    """Emit affine matrices times a pixel grid, or the pixels that a flow reaches."""
    x = t.inputs[0]
    t.require_floats()
    if t.attrs["transform_type"] == "affine":
        height, width = read_target_shape(t.attrs)
        return t.reshape(_affine_grid(t, x, height, width), (x.shape[0], 2, height, width))
    height, width = x.shape[2:]
    wide = wide_dtype(x.dtype)
    pixels = np.stack(np.meshgrid(np.arange(width), np.arange(height)))
    half = np.array([(width - 1) / 2, (height - 1) / 2]).reshape(1, 2, 1, 1)
    flow = t.emit("Add", t.cast(x, wide), t.constant(pixels[None], wide))
    return t.cast(
        t.emit("Sub", t.emit("Div", flow, t.constant(half, wide)), t.number(1, wide)),
        x.dtype,
        dtype=wide,
    )


def translate_bilinear_sampler(t: Translation) -> str:
    """Emit ``GridSample`` at a grid ``(N, 2, h, w)``."""
    x, grid = t.inputs
    t.require_floats()
    count, height, width = grid.shape[0], *grid.shape[2:]
    rows = t.reshape(grid, (count, 2, height * width))
    return _sample_grid(t, x, rows, (height, width), is_somewhere=False)


def translate_spatial_transformer(t: Translation) -> str:
    """Emit ``GridSample`` by affine matrices."""
    x, theta = t.inputs
    t.require_floats()
    height, width = read_target_shape(t.attrs)
    # MXNet divides by the number of distances between pixels: a single one becomes NaN
    several = 1 not in (height, width)
    return _sample_grid(
        t, x, _affine_grid(t, theta, height, width), (height, width), is_somewhere=several
    )


def _affine_grid(t: Translation, theta: Value, height: int, width: int) -> str:
    """Return each pixel's x and y: (N, 2, height * width)."""
    matrices = t.reshape(theta, (theta.shape[0], 2, 3))
    return t.emit(
        "MatMul", matrices, t.constant(unit_grid(height, width, np.dtype(theta.dtype)), theta.dtype)
    )


def _sample_grid(
    t: Translation, x: Value, grid: str, size: tuple[int, int], *, is_somewhere: bool
) -> str:
    """Sample at a grid (N, 2, h * w) from -1 to 1; NaN stays (absent with ``is_somewhere``)."""
    count, channels, height, width = x.shape
    points = t.transpose(grid, (0, 2, 1))
    if x.dtype == "float32" and t.opset >= 16:
        places = t.reshape(points, (count, *size, 2))
        # Opset 20 renamed the mode.
        mode = "bilinear" if t.opset < 20 else "linear"
        out = t.emit("GridSample", x, places, mode=mode, padding_mode="zeros", align_corners=1)
        if is_somewhere:
            return out
        # NaN where x or y is.
        nowhere = t.emit("IsNaN", t.reshape(t.reduce("ReduceSum", points, [2]), (count, 1, *size)))
        return t.emit("Where", nowhere, t.number(np.nan, x.dtype), out)
    wide = wide_dtype(x.dtype)
    half = t.constant([(width - 1) / 2, (height - 1) / 2], wide)
    pixels = t.emit(
        "Mul", t.emit("Add", t.cast(points, wide, dtype=x.dtype), t.number(1, wide)), half
    )
    columns, rows = (t.emit("Gather", pixels, t.number(i, "int64"), axis=2) for i in (0, 1))
    table = t.transpose(t.reshape(t.cast(x, wide), (count, channels, height * width)), (0, 2, 1))

    def gather(index: str) -> str:
        return t.emit("GatherND", table, t.emit("Unsqueeze", index, t.integers([-1])), batch_dims=1)

    out = sample_bilinear(t, (height, width), rows, columns, wide, gather, deep=True)
    if not is_somewhere:
        nowhere = t.emit("IsNaN", t.emit("Add", rows, columns))
        out = t.emit(
            "Where", t.emit("Unsqueeze", nowhere, t.integers([-1])), t.number(np.nan, wide), out
        )
    return t.reshape(t.cast(t.transpose(out, (0, 2, 1)), x.dtype, dtype=wide), t.outputs[0].shape)


def translate_correlation(t: Translation) -> str:
    """Emit for each row displacement products with all columns, summed over patches."""
    x, y = t.inputs
    kernel, stride, pad = t.attrs["kernel_size"], t.attrs["stride1"], t.attrs["pad_size"]
    if kernel % 2 == 0:
        t.refuse(f"its kernel_size is {kernel}, expected an odd number")
    step, first = t.attrs["stride2"], t.attrs["max_displacement"]
    reach = first // step
    spans = _spans(t)
    wide = wide_dtype(x.dtype)
    widths = (0, 0, pad, pad)
    left, right = (t.pad(t.cast(z, wide), widths, widths, 0, wide) for z in (x, y))
    patches = _slice(t, left, (2, 3), (first, first), (first + spans[0], first + spans[1]))
    patches = t.emit("Unsqueeze", patches, t.integers([3]))  # (N, C, rows, 1, columns)
    places = first + step * (np.arange(2 * reach + 1) - reach)[:, None] + np.arange(spans[1])
    parts = []
    for row in range(2 * reach + 1):
        begin = first + step * (row - reach)
        rows = _slice(t, right, (2,), (begin,), (begin + spans[0],))
        # (N, C, rows, displacements, columns)
        others = t.emit("Gather", rows, t.constant(places, "int64"), axis=3)
        pairs = (
            t.emit("Mul", patches, others)
            if t.attrs["is_multiply"]
            else t.emit("Abs", t.emit("Sub", patches, others))
        )
        parts.append(t.transpose(t.reduce("ReduceSum", pairs, [1]), (0, 2, 1, 3)))
    out = parts[0] if len(parts) == 1 else t.emit("Concat", *parts, axis=1)
    if max(kernel, stride) > 1 and wide == "float32":
        out = t.emit("AveragePool", out, kernel_shape=[kernel, kernel], strides=[stride, stride])
    # onnxruntime's AveragePool lacks float64.
    elif max(kernel, stride) > 1:
        window = Window((kernel, kernel), (stride, stride), (1, 1), (0, 0))
        total = sum_windows(t, out, place_taps(window, t.outputs[0].shape[2:]))
        out = t.emit("Div", total, t.number(kernel * kernel, wide))
    return t.cast(t.emit("Div", out, t.number(x.shape[1], wide)), x.dtype, dtype=wide)


def _slice(
    t: Translation, x: str, axes: Sequence[int], begin: Sequence[int], end: Sequence[int]
) -> str:
    return t.emit("Slice", x, t.integers(begin), t.integers(end), t.integers(axes))


def _spans(t: Translation) -> list[int]:
    """Return height and width of the area of all patches."""
    sizes = correlation_size(t.attrs, *t.inputs[0].shape[2:])
    return [((n or 1) - 1) * t.attrs["stride1"] + t.attrs["kernel_size"] for n in sizes]


TRANSLATIONS = (
    Translator("GridGenerator", translate_grid_generator, "its data is floating point"),
    Translator("BilinearSampler", translate_bilinear_sampler, "its data is floating point"),
    Translator("SpatialTransformer", translate_spatial_transformer, "its data is floating point"),
    Translator("Correlation", translate_correlation),
)
