"""Padding, repetition and broadcasting in ONNX."""

from __future__ import annotations

from math import prod

import numpy as np

from graphshare.ops.broadcast.kernel import align_repeats, read_padding
from graphshare.ops.translation import Translation, Translator
from graphshare.ops.unification import normalize_axis


def translate_pad(t: Translation) -> str:
    """Emit ``Pad`` of the same mode."""
    x, mode = t.inputs[0], t.attrs["mode"]
    before, after = zip(*read_padding(t.attrs, x.rank), strict=True)
    if mode == "constant":
        return t.pad(x, before, after, t.attrs["constant_value"], x.dtype)
    return t.emit("Pad", x, t.integers((*before, *after)), mode=mode)


def translate_tile(t: Translation) -> str:
    """Emit ``Tile``, with an axis for each member of ``reps``."""
    x = t.inputs[0]
    shape, reps = align_repeats(t.attrs, x.shape)
    return t.emit("Tile", t.reshape(x, [size or 0 for size in shape]), t.integers(reps))


def translate_repeat(t: Translation) -> str:
    """Emit ``Tile`` along a new axis after the repeated one."""
    x, repeats, axis = t.inputs[0], t.attrs["repeats"], t.attrs["axis"]
    if not repeats:
        return t.constant(np.empty((0,)), x.dtype)
    shape = (prod(x.shape),) if axis is None else x.shape
    at = 0 if axis is None else normalize_axis(axis, x.rank)
    apart = t.reshape(x, (*shape[: at + 1], 1, *shape[at + 1 :]))
    tiled = t.emit(
        "Tile", apart, t.integers((*(1,) * (at + 1), repeats, *(1,) * (len(shape) - at - 1)))
    )
    return t.reshape(tiled, t.outputs[0].shape)


def translate_broadcast(t: Translation) -> str:
    """Emit ``Expand`` to the inferred shape."""
    x, shape = t.inputs[0], t.outputs[0].shape
    return x.name if x.shape == shape else t.emit("Expand", x, t.integers(shape))


def translate_broadcast_like(t: Translation) -> str:
    """Emit ``Expand`` to the other shape, or if axes are named to the inferred one."""
    if t.attrs["lhs_axes"] is None:
        return t.emit("Expand", t.inputs[0], t.emit("Shape", t.inputs[1]))
    return translate_broadcast(t)


TRANSLATIONS = (
    Translator("Pad", translate_pad),
    Translator("tile", translate_tile),
    Translator("repeat", translate_repeat),
    Translator("broadcast_to", translate_broadcast),
    Translator("broadcast_axis", translate_broadcast),
    Translator("broadcast_like", translate_broadcast_like),
)
