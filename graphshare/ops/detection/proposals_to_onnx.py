"""Region proposals in ONNX.

Boxes with equal scores keep the order of the anchors, as in our kernel; MXNet's sort is unstable.
"""

from __future__ import annotations

import numpy as np

from graphshare.ops.box.suppression_to_onnx import (
    Candidates,
    Suppression,
    emit_columns,
    emit_compact_order,
    emit_rows,
    emit_survivors,
)
from graphshare.ops.box.to_onnx import refuse_integers
from graphshare.ops.detection.proposals import anchors_of
from graphshare.ops.kernel import Array
from graphshare.ops.translation import Translation


def translate_proposals(t: Translation) -> str | list[str]:
    """Emit the boxes at the offsets, the best of them, the suppression, and the first ones, repeated where they are too few."""
    refuse_integers(t)
    scores, attrs = t.inputs[0], t.attrs
    batch, twice, height, width = scores.shape
    total, dtype = twice // 2 * height * width, scores.dtype
    if twice // 2 != len(attrs["ratios"]) * len(attrs["scales"]):
        t.refuse(f"it has {twice} scores, but ratios and scales give another number of anchors")
    if batch > 1 and t.op == "_contrib_Proposal":
        t.refuse(f"it has {batch} images; _contrib_MultiProposal takes several")
    boxes, score = _emit_boxes(t, total)
    top = min(attrs["rpn_pre_nms_top_n"], total) if attrs["rpn_pre_nms_top_n"] > 0 else total
    best, order = t.emit_several("TopK", 2, score, t.integers([top]), axis=1, largest=1, sorted=1)
    boxes = emit_rows(t, boxes, order, (batch, top))
    count = attrs["rpn_post_nms_top_n"]
    everyone = t.emit("Expand", t.number(True, "bool"), t.integers((batch, top)))
    rule = Suppression(attrs["threshold"], pixels=True, most=count)
    left = emit_survivors(t, Candidates(boxes, everyone, (batch, top), dtype), rule)
    first, is_left = emit_compact_order(t, left, top)
    numbers = t.reduce("ReduceSum", t.cast(is_left, "int64", "bool"), (1,), keepdims=True)
    chosen = t.emit("GatherElements", first, t.emit("Mod", t.integers(range(count)), numbers), axis=1)
    ones = t.emit("Expand", t.number(1, dtype), t.integers((batch, count, 1)))
    images = t.emit("CumSum", ones, t.number(0, "int64"), exclusive=1)
    rows = t.emit("Concat", images, emit_rows(t, boxes, chosen, (batch, count)), axis=-1)
    result = t.reshape(rows, (batch * count, 5))
    if not attrs["output_score"]:
        return result
    return [result, t.reshape(t.emit("GatherElements", best, chosen, axis=1), (batch * count, 1))]


def _emit_boxes(t: Translation, total: int) -> tuple[str, str]:
    """Return the boxes ``(B, N, 4)`` within the images and their scores ``(B, N)``, -1 if too small or in the padding."""
    scores, deltas, info = t.inputs
    batch, twice, height, width = scores.shape
    dtype, number = scores.dtype, twice // 2
    score = t.transpose(t.slice(scores, [1], [number], [twice]), (0, 2, 3, 1))
    moved = t.reshape(t.transpose(deltas, (0, 2, 3, 1)), (batch, total, 4))
    boxes = _emit_moved(t, anchors_of(t.attrs, height, width), moved)
    sides = t.emit("Gather", info, t.integers((1, 0, 1, 0)), axis=1)
    limits = t.emit("Sub", t.reshape(sides, (batch, 1, 4)), t.number(1, dtype))
    boxes = t.emit("Min", t.emit("Max", boxes, t.number(0, dtype)), limits)
    scale = t.reshape(emit_columns(t, info, 2, 3), (batch, 1, 1))
    least = t.emit("Mul", scale, t.number(t.attrs["rpn_min_size"], dtype))
    extent = t.emit("Sub", emit_columns(t, boxes, 2, 4), emit_columns(t, boxes, 0, 2))
    narrow = t.emit("Less", t.emit("Add", extent, t.number(1, dtype)), least)
    small = t.reduce("ReduceMax", t.cast(narrow, "int32", "bool"), (2,), keepdims=True)
    small = t.cast(small, "bool", "int32")
    growth = t.emit("Mul", t.constant([-1, -1, 1, 1], dtype), t.emit("Div", least, t.number(2, dtype)))
    boxes = t.emit("Where", small, t.emit("Add", boxes, growth), boxes)
    outside = t.emit("Or", _emit_padding(t), t.reshape(small, (batch, height, width, number)))
    return boxes, t.reshape(t.emit("Where", outside, t.number(-1, dtype), score), (batch, total))


def _emit_moved(t: Translation, anchors: Array, deltas: str) -> str:
    """Return the anchors moved and scaled by ``deltas``."""
    dtype = t.inputs[0].dtype
    if t.attrs["iou_loss"]:
        return t.emit("Add", t.constant(anchors, dtype), deltas)
    size = anchors[:, 2:] - anchors[:, :2] + 1
    base, origin, shift = (t.constant(x, dtype) for x in (size, anchors[:, :2], (size - 1) / 2))
    middle = t.emit("Mul", emit_columns(t, deltas, 0, 2), base)
    middle = t.emit("Add", t.emit("Add", middle, origin), shift)
    power = t.emit("Mul", t.emit("Exp", emit_columns(t, deltas, 2, 4)), base)
    half = t.emit("Div", t.emit("Sub", power, t.number(1, dtype)), t.number(2, dtype))
    return t.emit("Concat", t.emit("Sub", middle, half), t.emit("Add", middle, half), axis=-1)


def _emit_padding(t: Translation) -> str:
    """Return which cells ``(B, H, W, 1)`` are beyond the image."""
    info, (batch, _, height, width) = t.inputs[2], t.inputs[0].shape
    stride = t.number(t.attrs["feature_stride"], info.dtype)
    real = t.cast(t.emit("Div", emit_columns(t, info, 0, 2), stride), "int64", info.dtype)
    beyond = []
    for axis, size in enumerate((height, width)):
        places = np.arange(size).reshape((1, -1, 1, 1) if axis == 0 else (1, 1, -1, 1))
        limit = t.reshape(emit_columns(t, real, axis, axis + 1), (batch, 1, 1, 1))
        beyond.append(t.emit("GreaterOrEqual", t.constant(places, "int64"), limit))
    return t.emit("Or", *beyond)
