"""Correlation of patches with displaced patches in ONNX: for each displacement by rows one product with all by columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.onnx_windows import place_taps, sum_windows
from graphshare.ops.spatial_transform.kernel import correlation_size
from graphshare.ops.translation import Translation
from graphshare.ops.windows import Window


def translate_correlation(t: Translation) -> str:
    """Emit for each displacement by rows the products with all displaced columns, summed over channels and patches."""
    x, y = t.inputs
    kernel, stride, pad = t.attrs["kernel_size"], t.attrs["stride1"], t.attrs["pad_size"]
    if kernel % 2 == 0:
        t.refuse(f"its kernel_size {kernel} is even")
    step, first = t.attrs["stride2"], t.attrs["max_displacement"]
    reach = first // step
    spans = _spans(t)
    wide = "float32" if x.dtype == "float16" else x.dtype
    widths = (0, 0, pad, pad)
    left, right = (t.pad(t.cast(z, wide), widths, widths, 0, wide) for z in (x, y))
    patches = _slice(t, left, (2, 3), (first, first), (first + spans[0], first + spans[1]))
    patches = t.emit("Unsqueeze", patches, t.integers([3]))  # (N, C, rows, 1, columns)
    places = first + step * (np.arange(2 * reach + 1) - reach)[:, None] + np.arange(spans[1])
    parts = []
    for row in range(2 * reach + 1):
        begin = first + step * (row - reach)
        rows = _slice(t, right, (2,), (begin,), (begin + spans[0],))
        others = t.emit("Gather", rows, t.constant(places, "int64"), axis=3)  # (N, C, rows, displacements, columns)
        pairs = t.emit("Mul", patches, others) if t.attrs["is_multiply"] else t.emit("Abs", t.emit("Sub", patches, others))
        parts.append(t.transpose(t.reduce("ReduceSum", pairs, [1]), (0, 2, 1, 3)))
    out = parts[0] if len(parts) == 1 else t.emit("Concat", *parts, axis=1)
    if max(kernel, stride) > 1 and wide == "float32":
        out = t.emit("AveragePool", out, kernel_shape=[kernel, kernel], strides=[stride, stride])
    elif max(kernel, stride) > 1:
        window = Window((kernel, kernel), (stride, stride), (1, 1), (0, 0))
        total = sum_windows(t, out, place_taps(window, t.outputs[0].shape[2:]))
        out = t.emit("Div", total, t.number(kernel * kernel, wide))
    return t.cast(t.emit("Div", out, t.number(x.shape[1], wide)), x.dtype, of=wide)


def _slice(t: Translation, x: str, axes: Sequence[int], begin: Sequence[int], end: Sequence[int]) -> str:
    return t.emit("Slice", x, t.integers(begin), t.integers(end), t.integers(axes))


def _spans(t: Translation) -> list[int]:
    """Return the height and the width of what all patches cover."""
    sizes = correlation_size(t.attrs, *t.inputs[0].shape[2:])
    return [((n or 1) - 1) * t.attrs["stride1"] + t.attrs["kernel_size"] for n in sizes]
