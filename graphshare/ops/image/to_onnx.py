"""Images in ONNX: conversion, normalization, flips and crops."""

from __future__ import annotations

import numpy as np

from graphshare.ops.image.kernel import by_channel, compute_shift
from graphshare.ops.onnx_terms import Term, term
from graphshare.ops.translation import FAR, Translation, Translator


def translate_to_tensor(t: Translation) -> str:
    """Emit the kernel's conversion."""
    x = t.inputs[0]
    rank = x.rank
    moved = t.transpose(x, (*range(rank - 3), rank - 1, rank - 3, rank - 2))
    return (Term(t, moved, x.dtype).cast("float32") / 255.0).name


def translate_normalize(t: Translation) -> str:
    """Emit the kernel's formula."""
    x = t.inputs[0]
    mean, deviation = (
        Term(t, t.constant(by_channel(t.attrs[key], x.shape[-3]), "float32"), "float32")
        for key in ("mean", "std")
    )
    wide = "float64" if x.dtype == "float64" else "float32"
    return ((term(t).cast(wide) - mean.cast(wide)) / deviation.cast(wide)).convert(x.dtype).name


def translate_flip(t: Translation) -> str:
    """Emit a reversed ``Slice`` of columns or rows."""
    axis = 1 if t.op == "_image_flip_left_right" else 0
    # An end before any axis includes the first element.
    return t.slice(t.inputs[0], [axis], [-1], [-FAR], [-1])


def translate_crop(t: Translation) -> str:
    """Emit ``Slice`` of rows and columns."""
    top, left = t.attrs["y"], t.attrs["x"]
    return t.slice(
        t.inputs[0], [-3, -2], [top, left], [top + t.attrs["height"], left + t.attrs["width"]]
    )


def translate_adjust_lighting(t: Translation) -> str:
    """Emit a sum with one number per colour, clipped for integers."""
    x = term(t)
    if t.inputs[0].shape[-1] == 1:
        return x.name
    bright = x.cast("float32") + Term(t, t.constant(compute_shift(t.attrs), "float32"), "float32")
    if x.is_float:
        return bright.cast(x.dtype).name
    ends = np.iinfo(x.dtype)
    return bright.apply("Clip", float(ends.min), float(ends.max)).convert(x.dtype).name


TRANSLATIONS = (
    Translator("_image_to_tensor", translate_to_tensor),
    Translator("_image_normalize", translate_normalize),
    Translator("_image_flip_left_right", translate_flip),
    Translator("_image_flip_top_bottom", translate_flip),
    Translator("_image_crop", translate_crop),
    Translator("_image_adjust_lighting", translate_adjust_lighting),
)
