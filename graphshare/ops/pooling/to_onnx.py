"""Pooling in ONNX: ``MaxPool`` and ``AveragePool``, channels first, each end padded on its own.

The conventions ``full`` and ``same`` are a padding at the end. Sums are means times the window
size; other divisors than ONNX's are scaling constants.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from graphshare.ops.onnx_windows import place_taps, sum_windows
from graphshare.ops.pooling.kernel import axes_and_window
from graphshare.ops.translation import Translation, Translator, Value, wide_dtype
from graphshare.ops.windows import Window, is_channels_last, tap_cells

_REDUCTIONS = {"max": "ReduceMax", "avg": "ReduceMean", "sum": "ReduceSum"}
_GLOBAL = {"max": "GlobalMaxPool", "avg": "GlobalAveragePool"}


class _Cells(NamedTuple):
    """Windows over axes of ``sizes``: positions, and padding at either end."""

    window: Window
    sizes: tuple[int, ...]
    counts: tuple[int, ...]
    end: tuple[int, ...]

    @property
    def begin(self) -> tuple[int, ...]:
        return self.window.pad

    @property
    def fits(self) -> bool:
        """Whether all windows have a cell of the image: ONNX requires padding below the window."""
        return all(
            p < k
            for pads in (self.begin, self.end)
            for p, k in zip(pads, self.window.kernel, strict=True)
        )


def translate_pooling_v1(t: Translation) -> str:
    """Emit MXNet 0.x's pooling, as the kernel does."""
    t.require_floats()
    _require_elements(t)
    if t.attrs["global_pool"] or t.attrs["pool_type"] == "sum":
        return translate_pooling(t)
    x, cells = t.inputs[0], _find_windows(t)
    if t.attrs["pool_type"] == "avg":
        return _average_all(t, x, cells)
    front = (0, 0, *cells.begin)
    data = _pad_apart(t, x, front, front, 0)
    window = cells.window._replace(pad=(0,) * len(cells.begin))
    sizes = tuple(n + 2 * p for n, p in zip(cells.sizes, cells.begin, strict=True))
    counts = tuple(
        min(c, -(-n // s)) for c, n, s in zip(cells.counts, sizes, window.stride, strict=True)
    )
    ends = tuple(
        max(0, (c - 1) * s + k - n)
        for c, s, k, n in zip(counts, window.stride, window.kernel, sizes, strict=True)
    )
    out = _maximum(t, data, x.dtype, _Cells(window, sizes, counts, ends))
    # Windows without any cell
    beyond = (0, 0, *(c - d for c, d in zip(cells.counts, counts, strict=True)))
    return t.pad(out, (0,) * len(beyond), beyond, -np.inf, x.dtype)


def translate_pooling(t: Translation) -> str:
    """Emit a pooling over windows, or over all spatial axes."""
    x, kind = t.inputs[0], t.attrs["pool_type"]
    power = t.attrs.get("p_value") if kind == "lp" else 1
    _require_elements(t)
    # ONNX pools no integers but maxima of 8 bits.
    if kind != "max" or x.dtype not in ("int8", "uint8"):
        t.require_floats()
    if power not in (1, 2, 3):
        t.refuse(f"its p_value is {power}; pool_type lp takes 1, 2 or 3")
    if kind == "lp":
        kind = "sum"
    wide = "float32" if x.dtype == "float16" and kind == "sum" else x.dtype
    data = t.cast(x, wide)
    factors = data
    for _ in range(power - 1):
        data = t.emit("Mul", data, factors)
    value = Value(data, x.shape, wide)
    out = (
        _pool_globally(t, value, kind) if t.attrs["global_pool"] else _pool_windows(t, value, kind)
    )
    return t.cast(_root(t, out, power, wide), x.dtype, dtype=wide)


def _require_elements(t: Translation) -> None:
    """onnxruntime does not run windows of only padding."""
    if 0 in t.inputs[0].shape:
        t.refuse("its data has no elements")


def _root(t: Translation, x: str, power: int, dtype: str) -> str:
    """The cube root of a negative number is negative."""
    if power == 1:
        return x
    if power == 2:
        return t.emit("Sqrt", x)
    return t.emit("Mul", t.emit("Sign", x), t.emit("Pow", t.emit("Abs", x), t.number(1 / 3, dtype)))


def _pool_globally(t: Translation, x: Value, kind: str) -> str:
    last = is_channels_last(t.attrs.get("layout"))
    # ONNX's global pooling takes no integers, onnxruntime's no float64.
    if kind in _GLOBAL and not last and x.dtype in ("float16", "float32"):
        return t.emit(_GLOBAL[kind], x)
    axes, _ = axes_and_window(t.attrs, x.shape)
    return t.reduce(_REDUCTIONS[kind], x, list(axes), keepdims=True)


def _pool_windows(t: Translation, x: Value, kind: str) -> str:
    cells = _find_windows(t)
    if is_channels_last(t.attrs.get("layout")):
        rank = x.rank
        data = t.transpose(x, (0, rank - 1, *range(1, rank - 1)))
        first = Value(data, (x.shape[0], x.shape[-1], *x.shape[1:-1]), x.dtype)
        return t.transpose(_pool_cells(t, first, kind, cells), (0, *range(2, rank), 1))
    return _pool_cells(t, x, kind, cells)


def _find_windows(t: Translation) -> _Cells:
    """Padding at the end gives MXNet's number of positions."""
    shape = t.inputs[0].shape
    axes, window = axes_and_window(t.attrs, shape)
    if any(pad < 0 for pad in window.pad):
        t.refuse(f"its pad is {window.pad}, and windows in ONNX have no negative padding")
    sizes, counts = (
        tuple(sizes_by_axis[a] for a in axes) for sizes_by_axis in (shape, t.outputs[0].shape)
    )
    ends = tuple(
        # If rounding down gives MXNet's number of windows, both ends have the same padding.
        p if (n + 2 * p - k) // s + 1 == count else (count - 1) * s + k - n - p
        for n, count, k, s, p in zip(
            sizes, counts, window.kernel, window.stride, window.pad, strict=True
        )
    )
    return _Cells(window, sizes, counts, ends)


def _pool_cells(t: Translation, x: Value, kind: str, cells: _Cells) -> str:
    if kind == "max" and _can_round_up(t, cells.window):
        return _maximum_of_ceiling(t, x, cells)
    if kind == "max":
        return _maximum(t, x, x.dtype, cells)
    if kind == "sum":
        mean = _average_all(t, x, cells)
        return t.emit("Mul", mean, t.number(prod(cells.window.kernel), x.dtype))
    has_padding = any((*cells.begin, *cells.end))
    include = has_padding and t.attrs.get("count_include_pad") is not False
    # ONNX counts all padding; MXNet not the cells that `full` adds beyond pad.
    counts_alike = not include or cells.begin == cells.end
    if x.dtype != "float64" and cells.fits and counts_alike:
        return _average(t, x, cells, include=include)
    return _average_by_weight(t, x, cells, include=include)


def _can_round_up(t: Translation, window: Window) -> bool:
    """Whether ``ceil_mode`` is MXNet's ``full`` at every size: no window begins after the data."""
    steps = zip(window.kernel, window.stride, window.pad, strict=True)
    return t.attrs["pooling_convention"] == "full" and all(s + p <= k for k, s, p in steps)


def _maximum_of_ceiling(t: Translation, x: Value, cells: _Cells) -> str:
    """The attributes are independent of the size."""
    window = cells.window
    pads = (*window.pad, *window.pad)
    return t.emit(
        "MaxPool", x, kernel_shape=window.kernel, strides=window.stride, pads=pads, ceil_mode=1
    )


def _maximum(t: Translation, x: Value | str, dtype: str, cells: _Cells) -> str:
    if not cells.fits:
        x, cells = _pad_all(
            t, Value(x, (), dtype) if isinstance(x, str) else x, cells, -float(np.finfo(dtype).max)
        )
    window = cells.window
    return t.emit(
        "MaxPool",
        x,
        kernel_shape=window.kernel,
        strides=window.stride,
        pads=(*cells.begin, *cells.end),
    )


def _average_all(t: Translation, x: Value, cells: _Cells) -> str:
    """Padding counts as zeros. onnxruntime lacks float64: use sums."""
    if x.dtype == "float64":
        window = cells.window
        padded, inner = _pad_all(t, x, cells, 0)
        total = sum_windows(t, padded, place_taps(window, inner.counts))
        return t.emit("Div", total, t.number(prod(window.kernel), x.dtype))
    if cells.fits:
        return _average(t, x, cells, include=True)
    return _average(t, *_pad_all(t, x, cells, 0), include=True)


def _average(t: Translation, x: Value | str, cells: _Cells, *, include: bool) -> str:
    window = cells.window
    return t.emit(
        "AveragePool",
        x,
        kernel_shape=window.kernel,
        strides=window.stride,
        pads=(*cells.begin, *cells.end),
        count_include_pad=int(include),
    )


def _pad_all(t: Translation, x: Value, cells: _Cells, value: float) -> tuple[str, _Cells]:
    ends = tuple(max(0, e) for e in cells.end)
    padded = _pad_apart(t, x, (0, 0, *cells.begin), (0, 0, *ends), value)
    none = (0,) * len(ends)
    sizes = tuple(n + p + e for n, p, e in zip(cells.sizes, cells.begin, ends, strict=True))
    return padded, _Cells(cells.window._replace(pad=none), sizes, cells.counts, none)


def _pad_apart(
    t: Translation, x: Value, before: Sequence[int], after: Sequence[int], value: float
) -> str:
    """Pad through an added axis.

    Otherwise onnxruntime joins ``Pad`` and pooling even where the padding is as large as the window
    (which it then refuses) or is not -inf for a maximum (which it then becomes).
    """
    if not any((*before, *after)):
        return x.name
    first = t.integers([0])
    return t.emit(
        "Squeeze",
        t.pad(t.emit("Unsqueeze", x, first), (0, *before), (0, *after), value, x.dtype),
        first,
    )


def _average_by_weight(t: Translation, x: Value, cells: _Cells, *, include: bool) -> str:
    """Scale means over whole windows to their numbers of cells."""
    wide = wide_dtype(x.dtype)
    mean = _average_all(t, Value(t.cast(x, wide), x.shape, wide), cells)
    factor = np.ones((1, 1, *(1,) * len(cells.counts)))
    for i, (size, count, kernel) in enumerate(
        zip(cells.sizes, cells.counts, cells.window.kernel, strict=True)
    ):
        number = tap_cells(size, cells.window, i, count, include)
        factor = factor * (kernel / number).reshape(-1, *(1,) * (len(cells.counts) - 1 - i))
    return t.cast(t.emit("Mul", mean, t.constant(factor, wide)), x.dtype, dtype=wide)


_POOLED = "its data is floating point (of max also int8 or uint8), its pad not negative, the p_value of lp at most 3"
TRANSLATIONS = (
    Translator("Pooling", translate_pooling, _POOLED),
    Translator(
        "Pooling_v1", translate_pooling_v1, "its data is floating point, and its pad not negative"
    ),
)
