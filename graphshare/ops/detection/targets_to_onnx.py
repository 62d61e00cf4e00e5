"""Training targets of anchors in ONNX."""

from __future__ import annotations

import numpy as np

from graphshare.ops.box.matching_to_onnx import emit_matches
from graphshare.ops.box.suppression_to_onnx import emit_centers, emit_column, emit_columns, emit_overlaps, emit_rows
from graphshare.ops.box.to_onnx import refuse_integers
from graphshare.ops.detection.kernel import variances
from graphshare.ops.translation import Translation, Value


def translate_multi_box_target(t: Translation) -> list[str]:
    """Emit the matches of anchors and labels, the negative samples, and the targets."""
    refuse_integers(t)
    anchors, labels, scores = t.inputs
    batch, _, count = scores.shape
    dtype, anchor_count = anchors.dtype, anchors.shape[1]
    shared, has_labels = _emit_shared(t)
    of_rows, _ = emit_matches(t, Value(shared, (batch, anchor_count, labels.shape[1]), dtype), 1e-6, labels.shape[1])
    matched = t.emit("Greater", of_rows, t.number(-1, "int64"))
    best = t.reduce("ReduceMax", shared, (2,))
    match = t.emit("Where", matched, of_rows, t.emit("ArgMax", shared, axis=2, keepdims=0))
    positive = matched
    if t.attrs["overlap_threshold"] > 0:
        over = t.emit("Greater", best, t.number(t.attrs["overlap_threshold"], dtype))
        positive = t.emit("Or", matched, over)
    negative = t.emit("Not", positive)
    if t.attrs["negative_mining_ratio"] > 0:
        negative = _emit_hard_negatives(t, best, positive)
    rows = emit_rows(t, labels, match, (batch, count))
    ignored = t.number(t.attrs["ignore_label"], dtype)
    classes = t.emit("Where", t.emit("And", negative, has_labels), t.number(0, dtype), ignored)
    number = t.emit("Add", emit_column(t, rows, 0), t.number(1, dtype))
    classes = t.emit("Where", positive, number, classes)
    chosen = t.reshape(positive, (batch, count, 1))
    offsets = t.emit("Where", chosen, _emit_offsets(t, emit_columns(t, rows, 1, 5)), t.number(0, dtype))
    mask = t.emit("Expand", t.cast(chosen, dtype, "bool"), t.integers((batch, count, 4)))
    return [t.reshape(offsets, (batch, 4 * count)), t.reshape(mask, (batch, 4 * count)), classes]


def _emit_shared(t: Translation) -> tuple[str, str]:
    """Return the overlaps of anchors and labels ``(B, N, L)``, -1 for labels from the first of class -1 on.

    The second result ``(B, 1)`` says which samples have labels.
    """
    anchors, labels, _ = t.inputs
    batch, rows, _ = labels.shape
    ends = t.cast(t.emit("Equal", emit_column(t, labels, 0), t.number(-1, labels.dtype)), "int32", "bool")
    real = t.emit("Equal", t.emit("CumSum", ends, t.number(1, "int64")), t.number(0, "int32"))
    boxes = t.reshape(emit_columns(t, labels, 1, 5), (batch, 1, rows, 4))
    each = t.reshape(anchors, (1, anchors.shape[1], 1, 4))
    shared = emit_overlaps(t, each, boxes, anchors.dtype)
    counted = t.emit("Where", t.reshape(real, (batch, 1, rows)), shared, t.number(-1, anchors.dtype))
    return counted, t.slice(real, [1], [0], [1])


def _emit_hard_negatives(t: Translation, best: str, positive: str) -> str:
    """Return the anchors least probably background, ``negative_mining_ratio`` times as many as have a label."""
    scores, dtype = t.inputs[2], t.inputs[2].dtype
    count = scores.shape[2]
    numbers = t.reduce("ReduceSum", t.cast(positive, "int64", "bool"), (1,), keepdims=True)
    ratio = t.number(t.attrs["negative_mining_ratio"], "float64")
    wanted = t.cast(t.emit("Mul", t.cast(numbers, "float64", "int64"), ratio), "int64", "float64")
    wanted = t.emit("Min", wanted, t.emit("Sub", t.number(count, "int64"), numbers))
    limit = t.number(t.attrs["negative_mining_thresh"], dtype)
    candidates = t.emit("And", t.emit("Not", positive), t.emit("Less", best, limit))
    powers = t.emit("Exp", t.emit("Sub", scores, t.reduce("ReduceMax", scores, (1,), keepdims=True)))
    first = t.emit("Gather", powers, t.number(0, "int64"), axis=1)
    background = t.emit("Div", first, t.reduce("ReduceSum", powers, (1,)))
    key = t.emit("Where", candidates, background, t.number(np.inf, dtype))
    _, order = t.emit_several("TopK", 2, key, t.integers([count]), axis=1, largest=0, sorted=1)
    chosen = t.emit("Less", t.integers(range(count)), wanted)
    none = t.emit("Expand", t.number(False, "bool"), t.integers((scores.shape[0], count)))
    return t.emit("ScatterElements", none, order, chosen, axis=1)


def _emit_offsets(t: Translation, targets: str) -> str:
    """Return the offsets from the anchors to ``targets`` ``(B, N, 4)``."""
    anchors = t.inputs[0]
    middle, size = emit_centers(t, anchors, anchors.dtype)
    center, extent = emit_centers(t, targets, anchors.dtype)
    first = t.emit("Div", t.emit("Sub", center, middle), size)
    second = t.emit("Log", t.emit("Div", extent, size))
    scale = t.constant(np.array(variances(t.attrs), anchors.dtype), anchors.dtype)
    return t.emit("Div", t.emit("Concat", first, second, axis=-1), scale)
