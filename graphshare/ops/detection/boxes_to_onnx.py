"""Boxes in ONNX: overlap, non-maximum suppression, decoding, matching.

``NonMaxSuppression`` lacks classes of boxes with one score each, and MXNet's pixels and limits: a
``Loop`` takes each sample's best remaining box. onnxruntime computes float16 in float32, where an
overlap may exceed a limit that it equals when rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import msgspec
import numpy as np

from graphshare.ops.detection.boxes import (
    BoxSides,
    decode_offsets,
    measure_overlap,
    measure_sides,
    read_scales,
    to_centers,
    to_corners,
)
from graphshare.ops.onnx_terms import TERMS, Term, term
from graphshare.ops.translation import Translation, Translator, Value


class RankedBoxes(msgspec.Struct, frozen=True, eq=False):
    """Corners ``(B, K, 4)`` by descending score; boxes ``alive`` ``(B, K)`` take part.

    With ``classes`` ``(B, K)``, only boxes of one class suppress each other.
    """

    boxes: str
    alive: str
    shape: tuple[int, int]
    dtype: str
    classes: str = ""


class Suppression(msgspec.Struct, frozen=True):
    """Suppress boxes that a better one overlaps by more than ``limit`` (``inclusive``: or equal).

    ``pixels`` includes a box's last pixel. The first ``most`` remaining boxes suffice.
    """

    limit: float
    inclusive: bool = False
    pixels: bool = False
    most: int | None = None


def emit_columns(t: Translation, x: Value | str, first: int, last: int) -> str:
    """Return columns ``first`` to ``last`` (exclusive)."""
    return t.slice(x, [-1], [first], [last])


def emit_column(t: Translation, x: Value | str, index: int) -> str:
    """Return a column without its axis."""
    return t.emit("Gather", x, t.number(index, "int64"), axis=-1)


def emit_overlaps(t: Translation, a: str, b: str, dtype: str) -> str:
    """Return intersection over union as the kernel does."""
    first, second = (measure_sides(TERMS, Term(t, boxes, dtype)) for boxes in (a, b))
    both, share = measure_overlap(TERMS, first, second)
    return str((both > 0).choose(share, both).name)


def emit_survivors(t: Translation, candidates: RankedBoxes, rule: Suppression) -> str:
    """Emit the ``Loop``; return which of ``candidates`` ``(B, K)`` remain."""
    shape, count = candidates.shape, candidates.shape[1]
    boxes = measure_sides(TERMS, Term(t, candidates.boxes, candidates.dtype), rule.pixels)
    no = t.number(False, "bool")
    nothing = (
        t.emit("And", candidates.alive, no)
        if t.is_open
        else t.emit("Expand", no, t.integers(shape))
    )
    total = (
        t.emit("Gather", t.emit("Shape", candidates.alive), t.number(1, "int64"))
        if t.is_open
        else ""
    )
    places = t.emit("Range", t.number(0, "int64"), total, t.number(1, "int64")) if t.is_open else ""

    def build(inputs: Sequence[Value]) -> list[Value]:
        _, going, left, kept = inputs
        # ArgMax takes no booleans; the first of equal numbers is the best box.
        best = t.emit("ArgMax", t.cast(left, "int32"), axis=1, keepdims=1)
        here = t.emit("And", t.emit("Equal", places or t.integers(range(count)), best), left)
        gone = t.emit("Or", here, _emit_hits(t, candidates, boxes, rule, best))
        rest = t.emit("And", left, t.emit("Not", gone))
        # Before opset 20 ReduceMax takes no booleans.
        most = t.reduce("ReduceMax", t.cast(rest, "int32", "bool"), (0, 1))
        names = t.cast(most, "bool", "int32"), rest, t.emit("Or", kept, here)
        return [
            msgspec.structs.replace(x, name=name)
            for x, name in zip((going, left, kept), names, strict=True)
        ]

    states = [Value("left", shape, "bool"), Value("kept", shape, "bool")]
    body = t.body([Value("step", (), "int64"), Value("going", (), "bool"), *states], build)
    trips = count if rule.most is None else min(count, rule.most)
    ends = total or t.number(trips, "int64")  # the loop ends once no box is left
    if t.is_open and rule.most is not None:
        ends = t.emit("Min", total, t.number(rule.most, "int64"))
    initial = ends, t.number(True, "bool"), candidates.alive, nothing
    return t.emit_several("Loop", 2, *initial, body=body)[1]


def _emit_hits(
    t: Translation, candidates: RankedBoxes, boxes: BoxSides, rule: Suppression, best: str
) -> str:
    """Return which boxes overlap too much with those at ``best`` ``(B, 1)``."""
    hits = t.number(True, "bool")
    if rule.limit >= 0:  # otherwise even disjoint boxes overlap too much
        this = BoxSides(
            *(
                Term(t, t.emit("GatherElements", x.name, best, axis=1), candidates.dtype)
                for x in boxes
            )
        )
        _, share = measure_overlap(TERMS, this, boxes, rule.pixels)
        # OpenVINO considers NaN (two boxes without area) greater than any number
        limit = share.number(rule.limit)
        hits = (limit <= share if rule.inclusive else limit < share).name
    if candidates.classes:
        mine = t.emit("GatherElements", candidates.classes, best, axis=1)
        hits = t.emit("And", hits, t.emit("Equal", mine, candidates.classes))
    return hits


def emit_compact_order(t: Translation, chosen: str, count: int) -> tuple[str, str]:
    """Return the places of ``chosen`` ``(B, K)`` in order, then the others, and flags."""
    flags, order = t.emit_several(
        "TopK", 2, t.cast(chosen, "int32", "bool"), t.integers([count]), axis=1, largest=1, sorted=1
    )
    # OpenVINO rejects a TopK before a Cast to bool
    return order, t.emit("Greater", flags, t.number(0, "int32"))


def emit_rows(t: Translation, rows: Value | str, places: str, shape: tuple[int, int]) -> str:
    """Return each sample's rows ``(B, K, width)`` at ``places`` ``(B, K)``."""
    return t.emit("GatherND", rows, t.reshape(places, (*shape, 1)), batch_dims=1)


def refuse_integers(t: Translation) -> None:
    """Refuse integer inputs: ONNX would truncate their quotients."""
    if not t.inputs[0].dtype.startswith("float"):
        t.refuse(f"it has inputs of {t.inputs[0].dtype}")


def translate_box_nms(t: Translation) -> str:
    """Emit the kernel's rows."""
    x, attrs = t.inputs[0], t.attrs
    if attrs["topk"] == 0:
        return t.emit("Identity", x)
    batch, count, width = prod(x.shape[:-2]), *x.shape[-2:]
    data = t.reshape(x, (batch, count, width))
    kept = min(attrs["topk"], count) if attrs["topk"] > 0 else count
    rows, alive = _emit_best_rows(t, data, (batch, kept))
    first, number = attrs["coord_start"], attrs["id_index"]
    boxes = emit_corners(t, emit_columns(t, rows, first, first + 4), attrs["in_format"], x.dtype)
    classes = emit_column(t, rows, number) if number >= 0 and not attrs["force_suppress"] else ""
    candidates = RankedBoxes(boxes, alive, (batch, kept), x.dtype, classes)
    survivors = emit_survivors(t, candidates, Suppression(attrs["overlap_thresh"]))
    order, is_row = emit_compact_order(t, survivors, kept)
    none = t.number(-1, x.dtype)
    result = t.emit(
        "Where", t.reshape(is_row, (batch, kept, 1)), emit_rows(t, rows, order, (batch, kept)), none
    )
    if attrs["in_format"] != attrs["out_format"]:
        result = _emit_other_format(t, result, x)
    if kept < count:
        result = t.emit("Pad", result, t.integers((0, 0, 0, 0, count - kept, 0)), none)
    return result if x.rank == 3 else t.reshape(result, x.shape)


def _emit_best_rows(t: Translation, data: str, shape: tuple[int, int]) -> tuple[str, str]:
    """Return rows by descending score, candidates first, and candidate flags."""
    dtype, attrs = t.inputs[0].dtype, t.attrs
    score = emit_column(t, data, attrs["score_index"])
    valid = t.emit("Greater", score, t.number(attrs["valid_thresh"], dtype))
    if attrs["id_index"] >= 0:
        background = t.emit(
            "Equal",
            emit_column(t, data, attrs["id_index"]),
            t.number(attrs["background_id"], dtype),
        )
        valid = t.emit("And", valid, t.emit("Not", background))
    # -inf puts other rows after the candidates.
    key = t.emit("Where", valid, score, t.number(-np.inf, dtype))
    _, order = t.emit_several("TopK", 2, key, t.integers([shape[1]]), axis=1, largest=1, sorted=1)
    return emit_rows(t, data, order, shape), t.emit("GatherElements", valid, order, axis=1)


def _emit_other_format(t: Translation, rows: str, x: Value) -> str:
    """Convert rows like the kernel's ``_convert_format``."""
    first, width = t.attrs["coord_start"], x.shape[-1]
    boxes = emit_columns(t, rows, first, first + 4)
    if t.attrs["out_format"] == "corner":
        other = emit_corners(t, boxes, "center", x.dtype)
    else:
        low, high = emit_columns(t, boxes, 0, 2), emit_columns(t, boxes, 2, 4)
        middle = t.emit("Div", t.emit("Add", low, high), t.number(2, x.dtype))
        other = t.emit("Concat", middle, t.emit("Sub", high, low), axis=-1)
    negative = t.emit("Less", emit_columns(t, boxes, 0, 1), t.number(0, x.dtype))
    before = [emit_columns(t, rows, 0, first)] if first else []
    after = [emit_columns(t, rows, first + 4, width)] if first + 4 < width else []
    return t.emit("Concat", *before, t.emit("Where", negative, boxes, other), *after, axis=-1)


def translate_box_iou(t: Translation) -> str:
    """Emit the overlaps of all pairs."""
    a, b = t.inputs
    one = t.reshape(emit_corners(t, a.name, t.attrs["format"], a.dtype), (prod(a.shape[:-1]), 1, 4))
    other = t.reshape(
        emit_corners(t, b.name, t.attrs["format"], a.dtype), (1, prod(b.shape[:-1]), 4)
    )
    return t.reshape(emit_overlaps(t, one, other, a.dtype), t.outputs[0].shape)


def emit_corners(t: Translation, boxes: str, form: str, dtype: str) -> str:
    """Return the corners as the kernel does."""
    return boxes if form == "corner" else str(to_corners(TERMS, Term(t, boxes, dtype)).name)


def translate_box_decode(t: Translation) -> str:
    """Emit corners of boxes at offsets from anchors."""
    x, anchors = term(t), term(t, 1)
    if t.attrs["format"] == "corner":
        centers = to_centers(TERMS, anchors)
    else:
        centers = (TERMS.columns(anchors, 0, 2), TERMS.columns(anchors, 2, 4))
    scales = read_scales(t.attrs, x.dtype)
    return str(decode_offsets(TERMS, centers, x, scales, t.attrs["clip"]).name)


def translate_box_encode(t: Translation) -> list[str]:
    """Emit the kernel's offsets and mask."""
    refuse_integers(t)
    samples, matches, anchors, refs, means, stds = t.inputs
    dtype, half = anchors.dtype, t.number(0.5, anchors.dtype)
    picked = emit_rows(t, refs, t.cast(matches, "int64"), (matches.shape[0], matches.shape[1]))
    ends = []
    for boxes in (picked, anchors):
        low = emit_columns(t, boxes, 0, 2)
        size = t.emit("Sub", emit_columns(t, boxes, 2, 4), low)
        ends.append((t.emit("Add", low, t.emit("Mul", size, half)), size))
    (middle, size), (origin, base) = ends
    first = t.emit("Div", t.emit("Sub", middle, origin), base)
    offsets = t.emit("Concat", first, t.emit("Log", t.emit("Div", size, base)), axis=-1)
    offsets = t.emit("Div", t.emit("Sub", offsets, means), stds)
    positive = t.reshape(
        t.emit("Greater", samples, t.number(0.5, samples.dtype)), (*samples.shape, 1)
    )
    mask = t.emit("Expand", t.cast(positive, dtype, "bool"), t.integers(anchors.shape))
    return [t.emit("Where", positive, offsets, t.number(0, dtype)), mask]


def translate_bipartite_matching(t: Translation) -> list[str]:
    """Emit the matches of rows and columns; ascending ones by negative scores."""
    refuse_integers(t)
    x, limit = t.inputs[0], t.attrs["threshold"]
    batch, rows, columns = prod(x.shape[:-2]), *x.shape[-2:]
    scores = t.reshape(x, (batch, rows, columns))
    if t.attrs["is_ascend"]:
        scores, limit = t.emit("Neg", scores), -limit
    most = min(rows, columns)
    if t.attrs["topk"] > 0:
        most = min(most, t.attrs["topk"] + 1)
    matches = emit_matches(t, Value(scores, (batch, rows, columns), x.dtype), limit, most)
    return [
        t.cast(t.reshape(y, out.shape), x.dtype, "int64")
        for y, out in zip(matches, t.outputs, strict=True)
    ]


_INTEGERS = "integers are refused"


def emit_matches(t: Translation, scores: Value, limit: float, most: int) -> tuple[str, str]:
    """Match at most ``most`` rows and columns of scores ``(B, R, C)`` above ``limit``, best first.

    Return each row's ``(B, R)`` and column's ``(B, C)`` partner as int64, or -1.
    """
    batch, rows, columns = scores.shape
    states = [
        msgspec.structs.replace(scores, name="free", read=None),
        Value("of_rows", (batch, rows), "int64"),
        Value("of_columns", (batch, columns), "int64"),
    ]
    unmatched = [
        t.emit("Expand", t.number(-1, "int64"), t.integers(state.shape)) for state in states[1:]
    ]

    def build(inputs: Sequence[Value]) -> list[Value]:
        _, going, free, of_rows, of_columns = inputs
        flat = t.reshape(free, (batch, rows * columns))
        at = t.emit("ArgMax", flat, axis=1, keepdims=1)
        good = t.emit(
            "Greater",
            t.reduce("ReduceMax", flat, (1,), keepdims=True),
            t.number(limit, scores.dtype),
        )
        row, column = (t.emit(op, at, t.number(columns, "int64")) for op in ("Div", "Mod"))
        in_row = t.emit("And", good, t.emit("Equal", t.integers(range(rows)), row))
        in_column = t.emit("And", good, t.emit("Equal", t.integers(range(columns)), column))
        gone = t.emit(
            "Or", t.reshape(in_row, (batch, rows, 1)), t.reshape(in_column, (batch, 1, columns))
        )
        names = (
            t.emit("Where", gone, t.number(-np.inf, free.dtype), free),
            t.emit("Where", in_row, column, of_rows),
            t.emit("Where", in_column, row, of_columns),
        )
        return [
            going,
            *(
                msgspec.structs.replace(x, name=name)
                for x, name in zip(inputs[2:], names, strict=True)
            ),
        ]

    body = t.body([Value("step", (), "int64"), Value("going", (), "bool"), *states], build)
    _, of_rows, of_columns = t.emit_several(
        "Loop", 3, t.number(most, "int64"), t.number(True, "bool"), scores, *unmatched, body=body
    )
    return of_rows, of_columns


TRANSLATIONS = (
    Translator("_contrib_box_nms", translate_box_nms),
    Translator("_contrib_box_iou", translate_box_iou),
    Translator("_contrib_box_decode", translate_box_decode),
    Translator("_contrib_box_encode", translate_box_encode, _INTEGERS),
    Translator("_contrib_bipartite_matching", translate_bipartite_matching, _INTEGERS),
)
