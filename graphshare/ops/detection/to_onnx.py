"""Single-shot detection in ONNX: results and targets of anchors, and region proposals."""

from __future__ import annotations

import numpy as np

from graphshare.ops.box.suppression_to_onnx import (
    Candidates,
    Suppression,
    emit_centers,
    emit_compact_order,
    emit_rows,
    emit_survivors,
)
from graphshare.ops.box.to_onnx import emit_decoded, refuse_integers
from graphshare.ops.detection.kernel import variances
from graphshare.ops.detection.proposals_to_onnx import translate_proposals
from graphshare.ops.detection.targets_to_onnx import translate_multi_box_target
from graphshare.ops.translation import Translation, Translator


def translate_multi_box_detection(t: Translation) -> str:
    """Emit class, score and box of each anchor by falling score, and the suppression, which makes classes -1."""
    refuse_integers(t)
    scores, offsets, anchors = t.inputs
    batch, _, count = scores.shape
    dtype = scores.dtype
    centers = emit_centers(t, anchors, dtype)
    boxes = emit_decoded(t, centers, t.reshape(offsets, (batch, count, 4)), dtype, variances(t.attrs))
    if t.attrs["clip"]:
        boxes = t.emit("Min", t.emit("Max", boxes, t.number(0, dtype)), t.number(1, dtype))
    objects = t.slice(scores, [1], [1], [scores.shape[1]])
    best = t.cast(t.emit("ArgMax", objects, axis=1, keepdims=0), dtype, "int64")
    score = t.reduce("ReduceMax", objects, (1,))
    if t.attrs["threshold"] > -1:
        valid = t.emit("GreaterOrEqual", score, t.number(t.attrs["threshold"], dtype))
    else:  # the best class is looked for from a score of -1 on
        valid = t.emit("Greater", score, t.number(-1, dtype))
    order, is_row = emit_compact_order(t, valid, count)
    suppresses = 0 < t.attrs["nms_threshold"] <= 1
    if suppresses:
        order = _emit_falling_order(t, valid, score, order)
    best, score = (t.emit("GatherElements", x, order, axis=1) for x in (best, score))
    boxes = emit_rows(t, boxes, order, (batch, count))
    if suppresses:
        best = _emit_suppressed(t, best, boxes, is_row)
    columns = [t.reshape(x, (batch, count, 1)) for x in (best, score)]
    rows = t.emit("Concat", *columns, boxes, axis=-1)
    return t.emit("Where", t.reshape(is_row, (batch, count, 1)), rows, t.number(-1, dtype))


def _top(t: Translation) -> int:
    """Return how many rows take part in the suppression at most."""
    count, top = t.inputs[0].shape[2], t.attrs["nms_topk"]
    return top if 0 < top < count else count


def _emit_falling_order(t: Translation, valid: str, score: str, order: str) -> str:
    """Return the order by falling score of the best ``nms_topk`` rows; behind them, as in MXNet, rows stay in ``order``."""
    top, dtype = _top(t), t.inputs[0].dtype
    key = t.emit("Where", valid, score, t.number(-np.inf, dtype))
    _, falling = t.emit_several("TopK", 2, key, t.integers([top]), axis=1, largest=1, sorted=1)
    count = t.inputs[0].shape[2]
    return falling if top == count else t.emit("Concat", falling, t.slice(order, [1], [top], [count]), axis=1)


def _emit_suppressed(t: Translation, classes: str, boxes: str, is_row: str) -> str:
    """Return the classes, -1 for rows that a better one suppresses and for those behind the best ``nms_topk``."""
    dtype, (batch, _, count), top = t.inputs[0].dtype, t.inputs[0].shape, _top(t)
    alive, own, mine = is_row, "" if t.attrs["force_suppress"] else classes, boxes
    if top < count:
        alive, mine = t.slice(alive, [1], [0], [top]), t.slice(mine, [1], [0], [top])
        own = own and t.slice(own, [1], [0], [top])
    rule = Suppression(t.attrs["nms_threshold"], inclusive=True)
    left = emit_survivors(t, Candidates(mine, alive, (batch, top), dtype, own), rule)
    if top < count:
        left = t.emit("Concat", left, t.emit("Expand", t.number(False, "bool"), t.integers((batch, count - top))), axis=1)
    return t.emit("Where", left, classes, t.number(-1, dtype))


TRANSLATIONS = tuple(
    Translator(operator, function, condition="integers are refused")
    for operator, function in (
        ("_contrib_MultiBoxDetection", translate_multi_box_detection),
        ("_contrib_MultiBoxTarget", translate_multi_box_target),
        ("_contrib_Proposal", translate_proposals),
        ("_contrib_MultiProposal", translate_proposals),
    )
)
