"""Parts of arrays in ONNX, and arrays with a part replaced."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphshare.ops.slice.kernel import axis_span, slice_shape, slices
from graphshare.ops.translation import FAR, Translation, Translator
from graphshare.ops.unification import normalize_axis


def translate_slice(t: Translation) -> str:
    """Emit ``Slice`` along the cut axes; it counts and clips as Python does."""
    x = t.inputs[0]
    whole = (slice(None), slice(None, None, 1))
    cut, firsts, lasts, steps = list[int](), list[int](), list[int](), list[int]()
    for axis, part in enumerate(slices(t.attrs, x.rank)):
        if part in whole:
            continue
        first, last, step = _onnx_bounds(part, x.shape[axis])
        cut.append(axis)
        firsts.append(first)
        lasts.append(last)
        steps.append(step)
    return t.slice(x, cut, firsts, lasts, steps)


def _onnx_bounds(part: slice, size: int) -> tuple[int, int, int]:
    """Return (0, 0, 1) for nothing: ONNX clips to the last element."""
    if not range(*part.indices(size)):
        return 0, 0, 1
    step = part.step or 1
    first, last = (0, FAR) if step > 0 else (-1, -FAR)
    if part.start is not None:
        first = part.start
    if part.stop is not None:
        last = part.stop
    return first, last, step


def translate_slice_axis(t: Translation) -> str:
    """Emit ``Slice`` along one axis."""
    x = t.inputs[0]
    axis = normalize_axis(t.attrs["axis"], x.rank)
    axis_span(t.attrs, x.shape[axis])  # raises an error for an empty part
    end = t.attrs["end"]
    if end in (None, x.shape[axis]):
        end = FAR
    return t.slice(x, [axis], [t.attrs["begin"]], [end])


def translate_slice_like(t: Translation) -> str:
    """Emit ``Slice`` from the beginning along the cut axes."""
    x, shape = t.inputs[0], t.outputs[0].shape
    if t.is_open:
        cut = [axis % x.rank for axis in t.attrs["axes"] or range(x.rank)]
    else:
        cut = [axis for axis in range(x.rank) if x.shape[axis] != shape[axis]]
    return t.slice(x, cut, [0] * len(cut), [shape[axis] for axis in cut])


def translate_slice_assign(t: Translation) -> str:
    """Emit ``Concat`` of before, part and after per axis; ``ScatterND`` for steps other than 1."""
    x = t.inputs[0]
    shape = slice_shape(t.attrs, x.shape)
    sizes = [size or 0 for size in shape]
    if 0 in sizes:
        return t.emit("Identity", x)
    if len(t.inputs) == 1:
        part = t.emit("Expand", t.number(t.attrs["scalar"], x.dtype), t.integers(sizes))
    else:
        part = t.inputs[1].name
    pairs = zip(slices(t.attrs, x.rank), x.shape, strict=True)
    spans = [range(*each.indices(size)) for each, size in pairs]
    cut = [axis for axis in range(x.rank) if spans[axis] != range(x.shape[axis])]
    if all(spans[axis].step == 1 for axis in cut):
        return _replace(t, x.name, part, cut, spans) if cut else t.emit("Identity", part)
    # ScatterND writes whole slices: axes after the last cut one need no indices.
    grid = np.meshgrid(*spans[: cut[-1] + 1], indexing="ij")
    return t.emit("ScatterND", x, t.constant(np.stack(grid, axis=-1), "int64"), part)


def _replace(t: Translation, x: str, part: str, cut: Sequence[int], spans: Sequence[range]) -> str:
    axis, *inner = cut
    first, last = spans[axis].start, spans[axis].stop
    middle = part
    if inner:
        middle = _replace(t, t.slice(x, [axis], [first], [last]), part, inner, spans)
    before = [t.slice(x, [axis], [0], [first])] if first > 0 else []
    after = [t.slice(x, [axis], [last], [FAR])] if last < t.inputs[0].shape[axis] else []
    return t.emit("Concat", *before, middle, *after, axis=axis)


TRANSLATIONS = (
    Translator("slice", translate_slice),
    Translator("slice_axis", translate_slice_axis),
    Translator("slice_like", translate_slice_like),
    Translator("_slice_assign", translate_slice_assign),
    Translator("_slice_assign_scalar", translate_slice_assign),
)
