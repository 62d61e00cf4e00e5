"""``im2col`` and ``col2im`` in ONNX."""

from __future__ import annotations

from math import prod

from graphshare.ops.onnx_windows import fold_columns, gather_columns, place_taps
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.windows import Window, window_of


def translate_im2col(t: Translation) -> str:
    """Emit a ``Gather`` of the taps for each axis."""
    x, window = t.inputs[0], window_of(t.attrs)
    front = (0, 0, *window.pad)
    data = t.pad(x, front, front, 0, x.dtype)
    return t.reshape(gather_columns(t, data, place_taps(window, _positions(window, x.shape[2:]))), t.outputs[0].shape)


def translate_col2im(t: Translation) -> str:
    """Emit for each axis the sum of the columns that meet at each cell."""
    x, window, size = t.inputs[0], window_of(t.attrs), tuple(t.attrs["output_size"])
    wide = t.widen(x)
    shape = (x.shape[0], x.shape[1] // prod(window.kernel))
    return t.cast(fold_columns(t, wide.name, window, shape, _positions(window, size), size, wide.dtype), x.dtype, of=wide.dtype)


def _positions(window: Window, sizes: tuple[int, ...]) -> list[int]:
    """Return the number of positions of the window along each axis."""
    return [(n + 2 * p - e) // s + 1 for n, p, e, s in zip(sizes, window.pad, window.extent, window.stride, strict=True)]


TRANSLATIONS = (Translator("im2col", translate_im2col), Translator("col2im", translate_col2im))
