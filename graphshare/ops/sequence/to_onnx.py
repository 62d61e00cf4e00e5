"""Operators on padded sequences in ONNX: time along one of the first two axes, samples along the other."""

from __future__ import annotations

import numpy as np

from graphshare.ops.conversion import convert
from graphshare.ops.translation import Translation, Translator


def translate_mask(t: Translation) -> str:
    """Emit ``Where`` with a comparison of steps and lengths."""
    if len(t.inputs) == 1:
        return t.emit("Identity", t.inputs[0])
    data, length = t.widen(t.inputs[0]), t.inputs[1]
    axis, narrow = t.attrs["axis"], t.outputs[0].dtype
    ones = (1,) * (data.rank - 2)
    steps, samples = data.shape[axis], data.shape[1 - axis]
    numbers = np.arange(steps).reshape((steps, 1, *ones) if axis == 0 else (1, steps, *ones))
    counts = t.reshape(t.cast(length, "int64"), (1, samples, *ones) if axis == 0 else (samples, 1, *ones))
    inside = t.emit("Less", t.constant(numbers, "int64"), counts)
    value = t.constant(convert(np.asarray(t.attrs["value"]), np.dtype(narrow)), data.dtype)
    return t.cast(t.emit("Where", inside, data, value), narrow, data.dtype)


def translate_last(t: Translation) -> str:
    """Emit ``Gather`` of the last step, or ``GatherND`` of each sample's own."""
    data, axis = t.inputs[0], t.attrs["axis"]
    if len(t.inputs) == 1:
        return t.emit("Gather", data, t.constant(-1, "int64"), axis=axis)
    last = t.emit("Sub", t.cast(t.inputs[1], "int64"), t.constant(1, "int64"))
    by_sample = t.transpose(data, (1, 0, *range(2, data.rank)) if axis == 0 else range(data.rank))
    return t.emit("GatherND", by_sample, t.emit("Unsqueeze", last, t.integers([1])), batch_dims=1)


def translate_reverse(t: Translation) -> str:
    """Emit ``ReverseSequence``, or a slice backwards where all steps count."""
    if len(t.inputs) == 1:
        return t.emit("Slice", t.inputs[0], *map(t.integers, ([-1], [-(1 << 63)], [0], [-1])))
    lengths = t.cast(t.inputs[1], "int64")
    return t.emit("ReverseSequence", t.inputs[0], lengths, time_axis=0, batch_axis=1)


TRANSLATIONS = (
    Translator("SequenceMask", translate_mask),
    Translator("SequenceLast", translate_last),
    Translator("SequenceReverse", translate_reverse),
)
