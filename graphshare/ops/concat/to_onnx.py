"""Concatenation, splitting, cropping, padding and editing in ONNX."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from graphshare.ops.concat.kernel import crop_origin, part_spans
from graphshare.ops.concat.numpy_kernel import (
    STACKS,
    Lift,
    find_kept_part,
    pad_widths,
    positions,
    with_split_axis,
)
from graphshare.ops.kernel import Array, Attrs
from graphshare.ops.limits import refuse_invalid_call
from graphshare.ops.translation import Translate, Translation, Translator, Value
from graphshare.ops.unification import normalize_axis


def translate_concat(t: Translation) -> str:
    """Emit ``Concat`` along ``dim`` or ``axis``; for None, of the flattened inputs."""
    axis = t.attrs["dim" if "dim" in t.attrs else "axis"]
    if axis is None:
        return t.emit("Concat", *(t.reshape(x, (prod(x.shape),)) for x in t.inputs), axis=0)
    return t.emit("Concat", *t.inputs, axis=normalize_axis(axis, t.inputs[0].rank))


def translate_stack(t: Translation) -> str:
    """Emit ``Concat`` along a new axis."""
    rank = t.inputs[0].rank + 1
    axis = normalize_axis(t.attrs["axis"], rank)
    lifted = [t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in t.inputs]
    return t.emit("Concat", *lifted, axis=axis)


def emit_parts(t: Translation, attrs: Attrs) -> list[str]:
    """Emit ``Split`` of the first input by ``attrs``; ``Reshape`` squeezes axes."""
    x = t.inputs[0]
    axis = normalize_axis(attrs["axis"], x.rank)
    sizes = [end - begin for begin, end in part_spans(attrs, x.shape[axis])]
    if len(sizes) == 1:
        return [_reshape_part(t, x.name, 0, x.shape)]
    pieces = t.emit_several("Split", len(sizes), x, t.integers(sizes), axis=axis)
    return [
        _reshape_part(t, p, i, (*x.shape[:axis], sizes[i], *x.shape[axis + 1 :]))
        for i, p in enumerate(pieces)
    ]


def _reshape_part(t: Translation, piece: str, index: int, shape: tuple[int, ...]) -> str:
    return piece if t.outputs[index].shape == shape else t.reshape(piece, t.outputs[index].shape)


def translate_crop(t: Translation) -> str:
    """Emit ``Slice`` of height and width."""
    top, left = crop_origin(t.attrs, [x.shape for x in t.inputs])
    height, width = t.outputs[0].shape[2:]
    return t.slice(t.inputs[0], (2, 3), (top, left), (top + height, left + width))


def _translate_concat(lift: Lift, axis: int | None) -> Translate:
    def translate(t: Translation) -> str:
        shapes = [tuple(size or 0 for size in lift(x.shape) or ()) for x in t.inputs]
        lifted = [t.reshape(x, shape) for x, shape in zip(t.inputs, shapes, strict=True)]
        along = axis
        if along is None:
            along = 0 if len(shapes[0]) == 1 else 1
        return t.emit("Concat", *lifted, axis=along)

    return translate


def translate_pad(t: Translation) -> str:
    """Emit ``Pad`` with a constant; otherwise ``Gather`` or an extreme, axis by axis."""
    x, mode = t.inputs[0], t.attrs["mode"]
    widths = pad_widths(t.attrs, x.rank)
    if mode == "constant":
        return _pad_with_constant(t, x, widths)
    if mode in ("reflect", "symmetric") and t.attrs["reflect_type"] != "even":
        t.refuse(f"it has the reflect_type {t.attrs['reflect_type']}")
    if mode != "edge" and min(map(min, widths), default=0) < 0:
        t.refuse(f"it has a negative pad_width with the mode {mode}")
    # Before opset 20 ONNX lacks extremes of booleans.
    is_bool = x.dtype == "bool" and mode in ("maximum", "minimum")
    result, shape = t.cast(x, "uint8") if is_bool else x.name, list(x.shape)
    for axis, pair in enumerate(widths):
        if pair == (0, 0):
            continue
        if mode in ("maximum", "minimum"):
            result = _pad_with_extreme(t, result, shape, axis, pair)
        else:
            with refuse_invalid_call():
                places = np.pad(
                    np.arange(x.shape[axis])[find_kept_part([pair], [x.shape[axis]])],
                    np.maximum(pair, 0),
                    mode,
                )
            result = t.emit("Gather", result, t.integers(places.tolist()), axis=axis)
        shape[axis] += sum(pair)
    return t.cast(result, "bool", "uint8") if is_bool else result


def _pad_with_constant(t: Translation, x: Value, widths: Sequence[tuple[int, int]]) -> str:
    kept = find_kept_part(widths, x.shape)
    cut = [axis for axis, pair in enumerate(widths) if min(pair) < 0]
    rest = t.slice(x, cut, [kept[axis].start for axis in cut], [kept[axis].stop for axis in cut])
    pads = [max(0, before) for before, _ in widths] + [max(0, after) for _, after in widths]
    return t.emit(
        "Pad", rest, t.integers(pads), t.number(t.attrs["constant_value"], x.dtype), mode="constant"
    )


def _pad_with_extreme(
    t: Translation, x: str, shape: list[int], axis: int, widths: tuple[int, int]
) -> str:
    word = "ReduceMax" if t.attrs["mode"] == "maximum" else "ReduceMin"
    extreme = t.reduce(word, x, (axis,), keepdims=True)
    before, after = (
        [t.emit("Expand", extreme, t.integers((*shape[:axis], width, *shape[axis + 1 :])))]
        if width
        else []
        for width in widths
    )
    return t.emit("Concat", *before, x, *after, axis=axis)


def _flatten_without_axis(t: Translation, x: Value) -> tuple[str, tuple[int, ...], int]:
    if t.attrs["axis"] is None:
        return t.reshape(x, (prod(x.shape),)), (prod(x.shape),), 0
    return x.name, x.shape, normalize_axis(t.attrs["axis"], x.rank)


def translate_delete(t: Translation) -> str:
    """Emit ``Gather`` of the remaining positions."""
    if len(t.inputs) > 1:
        t.refuse(
            "it has an array of positions, and the shape of its output depends on their values"
        )
    data, shape, axis = _flatten_without_axis(t, t.inputs[0])
    with refuse_invalid_call():
        places = np.delete(np.arange(shape[axis]), positions(t.attrs))
    return t.emit("Gather", data, t.integers(places.tolist()), axis=axis)


def translate_insert(t: Translation) -> str:
    """Emit ``Gather`` from old and new elements."""
    return _emit_insertion(t, t.attrs)


def _emit_insertion(t: Translation, attrs: Attrs) -> str:
    data, shape, axis = _flatten_without_axis(t, t.inputs[0])
    size, count = shape[axis], t.outputs[0].shape[axis] - shape[axis]
    new = _emit_values(t, attrs, axis, (*shape[:axis], count, *shape[axis + 1 :]))
    both = t.emit("Concat", data, new, axis=axis)
    if len(t.inputs) > 2:
        return t.emit("Gather", both, _emit_order(t, t.inputs[2], size, count), axis=axis)
    at = positions(attrs)
    with refuse_invalid_call():
        order = np.insert(np.arange(size), _places(at, size), np.arange(size, size + count))
    return t.emit("Gather", both, t.integers(order.tolist()), axis=axis)


def _places(at: int | slice, size: int) -> int | Array:
    """As in numpy, a slice's single position counts as one position."""
    if isinstance(at, int):
        return at
    places = np.arange(size)[at]
    return int(places[0]) if len(places) == 1 else places


def _emit_values(t: Translation, attrs: Attrs, axis: int, shape: tuple[int, ...]) -> str:
    """At a scalar position new elements extend along axis 0."""
    x, values = t.inputs[:2]
    cast = t.cast(values, x.dtype)
    lifted = (*[1] * (len(shape) - values.rank), *values.shape)
    named = t.inputs[2].rank == 0 if len(t.inputs) > 2 else isinstance(positions(attrs), int)
    if lifted != values.shape:
        cast = t.reshape(cast, lifted)
    if named and axis:
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(shape))]
        cast, lifted = t.transpose(cast, order), tuple(lifted[i] for i in order)
    return cast if lifted == shape else t.emit("Expand", cast, t.integers(shape))


def _emit_order(t: Translation, places: Value, size: int, count: int) -> str:
    """Element i has key 2i + 1, a new one before position p has 2p."""
    old = t.constant(np.arange(size) * 2 + 1, "int64")
    flat = t.reshape(places, (prod(places.shape),))
    negative = t.emit("Less", flat, t.number(0, "int64"))
    inside = t.emit("Where", negative, t.emit("Add", flat, t.number(size, "int64")), flat)
    new = t.emit("Mul", inside, t.number(2, "int64"))
    if prod(places.shape) != count:
        new = t.emit("Expand", new, t.integers((count,)))
    keys = t.emit("Concat", old, new, axis=0)
    # Among equal keys TopK takes the lower index first: new elements keep their order.
    return t.emit_several("TopK", 2, keys, t.integers([size + count]), axis=0, largest=0, sorted=1)[
        1
    ]


TRANSLATIONS = (
    Translator("Concat", translate_concat),
    Translator("_rnn_param_concat", translate_concat),
    Translator("_npi_concatenate", translate_concat),
    Translator("stack", translate_stack),
    *(Translator(name, lambda t: emit_parts(t, t.attrs)) for name in ("SliceChannel", "_split_v2")),
    Translator("Crop", translate_crop),
    *(Translator(name, _translate_concat(lift, axis)) for name, (_, lift, axis) in STACKS.items()),
    Translator("_npi_stack", translate_stack),
    Translator("_npi_hsplit", lambda t: emit_parts(t, with_split_axis(t.attrs, t.inputs[0].rank))),
    Translator(
        "_npi_pad",
        translate_pad,
        condition="odd reflections are refused, and negative widths except of the modes constant and edge",
    ),
    Translator("_npi_delete", translate_delete, condition="an array of positions is refused"),
    Translator(
        "_npi_insert_scalar",
        lambda t: _emit_insertion(t, {**t.attrs, "int_ind": t.attrs["int_ind"] or 0}),
    ),
    Translator("_npi_insert_slice", translate_insert),
    Translator("_npi_insert_tensor", translate_insert),
)
