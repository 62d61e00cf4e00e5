"""Concatenation, splitting and cropping in ONNX."""

from __future__ import annotations

from math import prod

from graphshare.ops.concat.kernel import crop_origin, equal_parts, part_spans
from graphshare.ops.kernel import Attrs
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import axis_of


def translate_concat(t: Translation) -> str:
    """Emit ``Concat`` along ``dim``."""
    return t.emit("Concat", *t.inputs, axis=axis_of(t.attrs["dim"], t.inputs[0].rank))


def translate_concatenate(t: Translation) -> str:
    """Emit ``Concat`` along ``axis``, or of the flattened inputs."""
    if t.attrs["axis"] is None:
        return t.emit("Concat", *(t.reshape(x, (prod(x.shape),)) for x in t.inputs), axis=0)
    return t.emit("Concat", *t.inputs, axis=axis_of(t.attrs["axis"], t.inputs[0].rank))


def translate_stack(t: Translation) -> str:
    """Emit ``Concat`` of the inputs with a new axis of size 1."""
    rank = t.inputs[0].rank + 1
    axis = axis_of(t.attrs["axis"], rank)
    lifted = [t.reshape(x, (*x.shape[:axis], 1, *x.shape[axis:])) for x in t.inputs]
    return t.emit("Concat", *lifted, axis=axis)


def emit_parts(t: Translation, attrs: Attrs) -> list[str]:
    """Emit ``Split`` of the first input by ``axis``, ``sections`` and ``indices``; squeezed axes go by ``Reshape``."""
    x = t.inputs[0]
    axis = axis_of(attrs["axis"], x.rank)
    sizes = [end - begin for begin, end in part_spans(attrs, x.shape[axis])]
    if len(sizes) == 1:
        return [_reshape_part(t, x.name, 0, x.shape)]
    pieces = t.emit_several("Split", len(sizes), x, t.integers(sizes), axis=axis)
    return [_reshape_part(t, p, i, (*x.shape[:axis], sizes[i], *x.shape[axis + 1 :])) for i, p in enumerate(pieces)]


def _reshape_part(t: Translation, piece: str, index: int, shape: tuple[int, ...]) -> str:
    return piece if t.outputs[index].shape == shape else t.reshape(piece, t.outputs[index].shape)


def translate_split(t: Translation) -> list[str]:
    """Emit ``Split`` into equal parts, or at indices."""
    return emit_parts(t, t.attrs)


def translate_slice_channel(t: Translation) -> list[str]:
    """Emit ``Split`` into equal parts."""
    return emit_parts(t, equal_parts(t.attrs))


def translate_crop(t: Translation) -> str:
    """Emit ``Slice`` of height and width."""
    top, left = crop_origin(t.attrs, [x.shape for x in t.inputs])
    height, width = t.outputs[0].shape[2:]
    return t.slice(t.inputs[0], (2, 3), (top, left), (top + height, left + width))


TRANSLATIONS = (
    Translator("Concat", translate_concat),
    Translator("_rnn_param_concat", translate_concat),
    Translator("_npi_concatenate", translate_concatenate),
    Translator("stack", translate_stack),
    Translator("SliceChannel", translate_slice_channel),
    Translator("_split_v2", translate_split),
    Translator("Crop", translate_crop),
)
