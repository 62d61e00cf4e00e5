"""Stacks, splits by columns, padding and editing of the numpy interface in ONNX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphshare.ops.concat.to_onnx import emit_parts, translate_stack
from graphshare.ops.kernel import Shape
from graphshare.ops.limits import refuse_invalid_call
from graphshare.ops.numpy_concat.editing_to_onnx import translate_delete, translate_insert, translate_insert_scalar
from graphshare.ops.numpy_concat.kernel import (
    at_least_1d,
    at_least_3d,
    kept_part,
    pad_widths,
    to_columns,
    to_rows,
    with_split_axis,
)
from graphshare.ops.translation import Translate, Translation, Translator, Value


def _translate_concat(lift: Callable[[Shape], Shape], axis: int | None) -> Translate:
    """Return the translation to ``Concat`` of lifted inputs along ``axis`` (None: 0 for one axis, otherwise 1)."""

    def translate(t: Translation) -> str:
        shapes = [tuple(size or 0 for size in lift(x.shape) or ()) for x in t.inputs]
        lifted = [t.reshape(x, shape) for x, shape in zip(t.inputs, shapes, strict=True)]
        return t.emit("Concat", *lifted, axis=axis if axis is not None else 0 if len(shapes[0]) == 1 else 1)

    return translate


def translate_hsplit(t: Translation) -> list[str]:
    """Emit ``Split`` by columns, or along the only axis."""
    return emit_parts(t, with_split_axis(t.attrs, t.inputs[0].rank))


def translate_pad(t: Translation) -> str:
    """Emit ``Pad`` with a constant; otherwise each axis in turn, by ``Gather`` or with its maximum or minimum."""
    x, mode = t.inputs[0], t.attrs["mode"]
    widths = pad_widths(t.attrs, x.rank)
    if mode == "constant":
        return _pad_with_constant(t, x, widths)
    if mode in ("reflect", "symmetric") and t.attrs["reflect_type"] != "even":
        t.refuse(f"it has the reflect_type {t.attrs['reflect_type']}")
    if mode != "edge" and min(map(min, widths), default=0) < 0:
        t.refuse(f"it has a negative pad_width with the mode {mode}")
    result, shape = x.name, list(x.shape)
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        if mode in ("maximum", "minimum"):
            result = _pad_with_extreme(t, result, shape, axis, pair)
        else:
            with refuse_invalid_call():
                places = np.pad(np.arange(x.shape[axis])[kept_part([pair], [x.shape[axis]])], np.maximum(pair, 0), mode)
            result = t.emit("Gather", result, t.integers(places.tolist()), axis=axis)
        shape[axis] += sum(pair)
    return result


def _pad_with_constant(t: Translation, x: Value, widths: Sequence[tuple[int, int]]) -> str:
    """Emit ``Slice`` for what negative widths take away, then ``Pad``."""
    kept = kept_part(widths, x.shape)
    cut = [axis for axis, pair in enumerate(widths) if min(pair) < 0]
    rest = t.slice(x, cut, [kept[axis].start for axis in cut], [kept[axis].stop for axis in cut])
    pads = [max(0, before) for before, _ in widths] + [max(0, after) for _, after in widths]
    return t.emit("Pad", rest, t.integers(pads), t.number(t.attrs["constant_value"], x.dtype), mode="constant")


def _pad_with_extreme(t: Translation, x: str, shape: list[int], axis: int, widths: tuple[int, int]) -> str:
    """Emit ``x`` between copies of its maximum or minimum along one axis."""
    word = "ReduceMax" if t.attrs["mode"] == "maximum" else "ReduceMin"
    extreme = t.reduce(word, x, (axis,), keepdims=True)
    before, after = (
        [t.emit("Expand", extreme, t.integers((*shape[:axis], width, *shape[axis + 1 :])))] if width else [] for width in widths
    )
    return t.emit("Concat", *before, x, *after, axis=axis)


TRANSLATIONS = (
    Translator("_npi_vstack", _translate_concat(to_rows, 0)),
    Translator("_npi_hstack", _translate_concat(at_least_1d, None)),
    Translator("_npi_dstack", _translate_concat(at_least_3d, 2)),
    Translator("_npi_column_stack", _translate_concat(to_columns, 1)),
    Translator("_npi_stack", translate_stack),
    Translator("_npi_hsplit", translate_hsplit),
    Translator(
        "_npi_pad",
        translate_pad,
        condition="odd reflections are refused, and negative widths except of the modes constant and edge",
    ),
    Translator("_npi_delete", translate_delete, condition="an array of positions is refused"),
    Translator("_npi_insert_scalar", translate_insert_scalar),
    Translator("_npi_insert_slice", translate_insert),
    Translator("_npi_insert_tensor", translate_insert),
)
