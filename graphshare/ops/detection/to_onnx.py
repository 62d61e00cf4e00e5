"""Single-shot detection in ONNX: results and targets of anchors, and region proposals."""

from __future__ import annotations

from operator import mul, truediv

import numpy as np

from graphshare.ops.detection.boxes import decode_offsets, encode_offsets, to_centers
from graphshare.ops.detection.boxes_to_onnx import TRANSLATIONS as BOX_TRANSLATIONS
from graphshare.ops.detection.boxes_to_onnx import (
    RankedBoxes,
    Suppression,
    emit_column,
    emit_columns,
    emit_compact_order,
    emit_matches,
    emit_overlaps,
    emit_rows,
    emit_survivors,
    refuse_integers,
)
from graphshare.ops.detection.kernel import PREFIXES, make_anchors, multi_box_prior, variances
from graphshare.ops.kernel import Array, Context
from graphshare.ops.onnx_terms import TERMS, Term, term
from graphshare.ops.translation import FAR, Translation, Translator, Value, wide_dtype


def translate_multi_box_prior(t: Translation) -> str:
    """Return the anchors as a constant, or computed for open shapes."""
    x = t.inputs[0]
    if t.is_open:
        return _emit_anchors(t, x)
    return t.constant(
        multi_box_prior(Context(), t.attrs, np.broadcast_to(np.zeros((), x.dtype), x.shape)),
        x.dtype,
    )


def _emit_anchors(t: Translation, x: Value) -> str:
    sizes, ratios = t.attrs["sizes"], t.attrs["ratios"]
    pairs = [(size, ratios[0]) for size in sizes] + [(sizes[0], ratio) for ratio in ratios[1:]]
    wide = "float64"  # as in the kernel: suppression compares anchors of equal overlap
    shape = t.emit("Shape", x)
    counts, middles = [], []
    for axis, step, offset, spread in zip(
        (2, 3), t.attrs["steps"], t.attrs["offsets"], ((-1, 1, 1), (1, -1, 1)), strict=True
    ):
        count = t.emit("Gather", shape, t.number(axis, "int64"))
        places = t.cast(
            t.emit("Range", t.number(0, "int64"), count, t.number(1, "int64")), wide, "int64"
        )
        counts.append(t.cast(count, wide, "int64"))
        scale = t.number(step, wide) if step > 0 else t.emit("Div", t.number(1, wide), counts[-1])
        middles.append(
            t.reshape(t.emit("Mul", t.emit("Add", places, t.number(offset, wide)), scale), spread)
        )
    # Sizes are shares of the height.
    shares = [
        t.constant(np.array([f(size, ratio**0.5) / 2 for size, ratio in pairs]), wide)
        for f in (truediv, mul)
    ]
    half = shares[0], t.emit("Mul", shares[1], t.emit("Div", *counts))
    grid = t.emit(
        "Concat",
        t.emit("Slice", shape, t.integers([2]), t.integers([4])),
        t.integers([len(pairs)]),
        axis=0,
    )
    sides = [
        t.emit(
            "Unsqueeze",
            t.emit("Expand", t.emit(op, middles[axis], half[axis]), grid),
            t.integers([-1]),
        )
        for op in ("Sub", "Add")
        for axis in (1, 0)
    ]
    anchors = t.cast(t.reshape(t.emit("Concat", *sides, axis=-1), (1, -1, 4)), x.dtype, wide)
    return (
        t.emit("Clip", anchors, t.number(0, x.dtype), t.number(1, x.dtype))
        if t.attrs["clip"]
        else anchors
    )


def translate_multi_box_detection(t: Translation) -> str:
    """Emit the kernel's rows."""
    refuse_integers(t)
    scores, offsets, anchors = t.inputs
    batch, _, count = scores.shape
    dtype = scores.dtype
    centers = to_centers(TERMS, term(t, anchors))
    moved = Term(t, t.reshape(offsets, (batch, count, 4)), dtype)
    boxes = str(decode_offsets(TERMS, centers, moved, variances(t.attrs, dtype)).name)
    if t.attrs["clip"]:
        boxes = t.emit("Min", t.emit("Max", boxes, t.number(0, dtype)), t.number(1, dtype))
    objects = t.slice(scores, [1], [1], [scores.shape[1]])
    best = t.cast(t.emit("ArgMax", objects, axis=1, keepdims=0), dtype, "int64")
    score = t.reduce("ReduceMax", objects, (1,))
    if t.attrs["threshold"] > -1:
        valid = t.emit("GreaterOrEqual", score, t.number(t.attrs["threshold"], dtype))
    else:  # the search for the best class starts from score -1
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
    count, top = t.inputs[0].shape[2], t.attrs["nms_topk"]
    return top if 0 < top < count else count


def _emit_falling_order(t: Translation, valid: str, score: str, order: str) -> str:
    """Return the best ``nms_topk`` rows by descending score, then, as in MXNet, the rest in
    ``order``.
    """
    top, dtype = _top(t), t.inputs[0].dtype
    count = t.inputs[0].shape[2]
    key = t.emit("Where", valid, score, t.number(-np.inf, dtype))
    is_open = t.is_open and t.attrs["nms_topk"] > 0
    _, falling = t.emit_several(
        "TopK", 2, key, t.integers([count if is_open else top]), axis=1, largest=1, sorted=1
    )
    if is_open:  # other sizes may have fewer rows; Slice takes what exists
        top = t.attrs["nms_topk"]
        falling = t.slice(falling, [1], [0], [top])
    if top == count and not is_open:
        return falling
    rest = t.slice(order, [1], [top], [FAR if is_open else count])
    return t.emit("Concat", falling, rest, axis=1)


def _emit_suppressed(t: Translation, classes: str, boxes: str, is_row: str) -> str:
    """Give class -1 to suppressed rows, and to those after the best ``nms_topk``."""
    dtype, (batch, _, count), top = t.inputs[0].dtype, t.inputs[0].shape, _top(t)
    alive, own, mine = is_row, "" if t.attrs["force_suppress"] else classes, boxes
    is_open = t.is_open and t.attrs["nms_topk"] > 0
    if is_open or top < count:
        end = t.attrs["nms_topk"]
        alive, mine = t.slice(alive, [1], [0], [end]), t.slice(mine, [1], [0], [end])
        own = own and t.slice(own, [1], [0], [end])
    rule = Suppression(t.attrs["nms_threshold"], inclusive=True)
    left = emit_survivors(t, RankedBoxes(mine, alive, (batch, top), dtype, own), rule)
    if is_open:
        others = t.slice(is_row, [1], [t.attrs["nms_topk"]], [FAR])
        left = t.emit("Concat", left, t.emit("And", others, t.number(False, "bool")), axis=1)
    elif top < count:
        left = t.emit(
            "Concat",
            left,
            t.emit("Expand", t.number(False, "bool"), t.integers((batch, count - top))),
            axis=1,
        )
    return t.emit("Where", left, classes, t.number(-1, dtype))


def translate_multi_box_target(t: Translation) -> list[str]:
    """Emit the kernel's targets."""
    refuse_integers(t)
    anchors, labels, scores = t.inputs
    batch, _, count = scores.shape
    dtype, anchor_count = anchors.dtype, anchors.shape[1]
    shared, has_labels = _emit_shared(t)
    of_rows, _ = emit_matches(
        t, Value(shared, (batch, anchor_count, labels.shape[1]), dtype), 1e-6, labels.shape[1]
    )
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
    offsets = t.emit(
        "Where", chosen, _emit_offsets(t, emit_columns(t, rows, 1, 5)), t.number(0, dtype)
    )
    mask = t.emit("Expand", t.cast(chosen, dtype, "bool"), t.integers((batch, count, 4)))
    return [t.reshape(offsets, (batch, 4 * count)), t.reshape(mask, (batch, 4 * count)), classes]


def _emit_shared(t: Translation) -> tuple[str, str]:
    """Return overlaps ``(B, N, L)``, -1 after the last label.

    The second result ``(B, 1)`` is whether a sample has labels.
    """
    anchors, labels, _ = t.inputs
    batch, rows, _ = labels.shape
    ends = t.cast(
        t.emit("Equal", emit_column(t, labels, 0), t.number(-1, labels.dtype)), "int32", "bool"
    )
    # Labels end at the first class -1; before it the sum of ends is 0.
    real = t.emit("Equal", t.emit("CumSum", ends, t.number(1, "int64")), t.number(0, "int32"))
    boxes = t.reshape(emit_columns(t, labels, 1, 5), (batch, 1, rows, 4))
    each = t.reshape(anchors, (1, anchors.shape[1], 1, 4))
    shared = emit_overlaps(t, each, boxes, anchors.dtype)
    counted = t.emit(
        "Where", t.reshape(real, (batch, 1, rows)), shared, t.number(-1, anchors.dtype)
    )
    return counted, t.slice(real, [1], [0], [1])


def _emit_hard_negatives(t: Translation, best: str, positive: str) -> str:
    """Return the anchors least likely background, by ``negative_mining_ratio``."""
    scores, dtype = t.inputs[2], t.inputs[2].dtype
    count = scores.shape[2]
    numbers = t.reduce("ReduceSum", t.cast(positive, "int64", "bool"), (1,), keepdims=True)
    # float64 as in the kernel: the product is truncated to a number of anchors.
    ratio = t.number(t.attrs["negative_mining_ratio"], "float64")
    wanted = t.cast(t.emit("Mul", t.cast(numbers, "float64", "int64"), ratio), "int64", "float64")
    wanted = t.emit("Min", wanted, t.emit("Sub", t.number(count, "int64"), numbers))
    limit = t.number(t.attrs["negative_mining_thresh"], dtype)
    candidates = t.emit("And", t.emit("Not", positive), t.emit("Less", best, limit))
    powers = t.emit(
        "Exp", t.emit("Sub", scores, t.reduce("ReduceMax", scores, (1,), keepdims=True))
    )
    first = t.emit("Gather", powers, t.number(0, "int64"), axis=1)
    background = t.emit("Div", first, t.reduce("ReduceSum", powers, (1,)))
    key = t.emit("Where", candidates, background, t.number(np.inf, dtype))
    _, order = t.emit_several("TopK", 2, key, t.integers([count]), axis=1, largest=0, sorted=1)
    chosen = t.emit("Less", t.integers(range(count)), wanted)
    none = t.emit("Expand", t.number(False, "bool"), t.integers((scores.shape[0], count)))
    return t.emit("ScatterElements", none, order, chosen, axis=1)


def _emit_offsets(t: Translation, targets: str) -> str:
    anchors = term(t)
    centers = to_centers(TERMS, anchors), to_centers(TERMS, Term(t, targets, anchors.dtype))
    return str(encode_offsets(TERMS, *centers, variances(t.attrs, anchors.dtype)).name)


def translate_proposals(t: Translation) -> str | list[str]:
    """Emit the kernel's proposals."""
    refuse_integers(t)
    scores, attrs = t.inputs[0], t.attrs
    batch, twice, height, width = scores.shape
    total, dtype = twice // 2 * height * width, scores.dtype
    expected = len(attrs["ratios"]) * len(attrs["scales"])
    if twice // 2 != expected:
        t.refuse(f"it has scores for {twice // 2} anchors, but ratios and scales give {expected}")
    if batch > 1 and t.op == "_contrib_Proposal":
        t.refuse(f"it has {batch} images; _contrib_MultiProposal takes several")
    boxes, score = _emit_boxes(t, total)
    top = min(attrs["rpn_pre_nms_top_n"], total) if attrs["rpn_pre_nms_top_n"] > 0 else total
    best, order = t.emit_several("TopK", 2, score, t.integers([top]), axis=1, largest=1, sorted=1)
    boxes = emit_rows(t, boxes, order, (batch, top))
    count = attrs["rpn_post_nms_top_n"]
    everyone = t.emit("Expand", t.number(True, "bool"), t.integers((batch, top)))
    rule = Suppression(attrs["threshold"], pixels=True, most=count)
    left = emit_survivors(t, RankedBoxes(boxes, everyone, (batch, top), dtype), rule)
    first, is_left = emit_compact_order(t, left, top)
    numbers = t.reduce("ReduceSum", t.cast(is_left, "int64", "bool"), (1,), keepdims=True)
    chosen = t.emit(
        "GatherElements", first, t.emit("Mod", t.integers(range(count)), numbers), axis=1
    )
    wide = wide_dtype(dtype) if t.opset < 14 else dtype  # CumSum takes float16 from opset 14 on
    ones = t.emit("Expand", t.number(1, wide), t.integers((batch, count, 1)))
    # Image numbers 0, 1, 2...; the caller may choose the batch size.
    images = t.cast(t.emit("CumSum", ones, t.number(0, "int64"), exclusive=1), dtype, wide)
    rows = t.emit("Concat", images, emit_rows(t, boxes, chosen, (batch, count)), axis=-1)
    result = t.reshape(rows, (batch * count, 5))
    if not attrs["output_score"]:
        return result
    return [result, t.reshape(t.emit("GatherElements", best, chosen, axis=1), (batch * count, 1))]


def _emit_boxes(t: Translation, total: int) -> tuple[str, str]:
    """Return ``(B, N, 4)`` and scores ``(B, N)``, -1 if too small or padding."""
    scores, deltas, info = t.inputs
    batch, twice, height, width = scores.shape
    dtype, number = scores.dtype, twice // 2
    score = t.transpose(t.slice(scores, [1], [number], [twice]), (0, 2, 3, 1))
    moved = t.reshape(t.transpose(deltas, (0, 2, 3, 1)), (batch, total, 4))
    boxes = _emit_moved(t, make_anchors(t.attrs, height, width), moved)
    sides = t.emit("Gather", info, t.integers((1, 0, 1, 0)), axis=1)
    limits = t.emit("Sub", t.reshape(sides, (batch, 1, 4)), t.number(1, dtype))
    boxes = t.emit("Min", t.emit("Max", boxes, t.number(0, dtype)), limits)
    scale = t.reshape(emit_columns(t, info, 2, 3), (batch, 1, 1))
    least = t.emit("Mul", scale, t.number(t.attrs["rpn_min_size"], dtype))
    extent = t.emit("Sub", emit_columns(t, boxes, 2, 4), emit_columns(t, boxes, 0, 2))
    narrow = t.emit("Less", t.emit("Add", extent, t.number(1, dtype)), least)
    small = t.reduce("ReduceMax", t.cast(narrow, "int32", "bool"), (2,), keepdims=True)
    small = t.cast(small, "bool", "int32")
    growth = t.emit(
        "Mul", t.constant([-1, -1, 1, 1], dtype), t.emit("Div", least, t.number(2, dtype))
    )
    boxes = t.emit("Where", small, t.emit("Add", boxes, growth), boxes)
    outside = t.emit("Or", _emit_padding(t), t.reshape(small, (batch, height, width, number)))
    return boxes, t.reshape(t.emit("Where", outside, t.number(-1, dtype), score), (batch, total))


def _emit_moved(t: Translation, anchors: Array, deltas: str) -> str:
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


_INTEGERS = "integers are refused"

TRANSLATIONS = (
    *BOX_TRANSLATIONS,
    *(Translator(f"{prefix}MultiBoxPrior", translate_multi_box_prior) for prefix in PREFIXES),
    *(
        Translator(f"{prefix}MultiBoxDetection", translate_multi_box_detection, _INTEGERS)
        for prefix in PREFIXES
    ),
    *(
        Translator(f"{prefix}MultiBoxTarget", translate_multi_box_target, _INTEGERS)
        for prefix in PREFIXES
    ),
    Translator("_contrib_Proposal", translate_proposals, _INTEGERS),
    Translator("_contrib_MultiProposal", translate_proposals, _INTEGERS),
)
