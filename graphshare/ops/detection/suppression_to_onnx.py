"""Overlaps of boxes and non-maximum suppression in ONNX.

``NonMaxSuppression`` knows neither the classes of boxes with one score each nor MXNet's pixels and limits. A ``Loop`` takes the
best box that is left in each sample, as often as boxes remain. onnxruntime computes float16 in float32, where an overlap may be
above a limit that it equals when rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphshare.ops.translation import Translation, Value


class RankedBoxes(msgspec.Struct, frozen=True, eq=False):
    """Boxes ``(B, K, 4)`` by their corners and falling score; ``alive`` ``(B, K)`` are those that take part.

    ``classes`` ``(B, K)`` keep boxes of different classes from suppressing each other; empty where they do not.
    """

    boxes: str
    alive: str
    shape: tuple[int, int]
    dtype: str
    classes: str = ""


class Suppression(msgspec.Struct, frozen=True):
    """Boxes that a better one overlaps by more than ``limit``, or with ``inclusive`` by as much, are suppressed.

    With ``pixels`` the last pixel is part of a box. The first ``most`` of the remaining boxes are enough.
    """

    limit: float
    inclusive: bool = False
    pixels: bool = False
    most: int | None = None


class _Boxes(msgspec.Struct, frozen=True, eq=False):
    """The corners of boxes and their areas, each ``(...)``."""

    left: str
    top: str
    right: str
    bottom: str
    area: str


def emit_columns(t: Translation, x: Value | str, first: int, last: int) -> str:
    """Return columns ``first`` to ``last`` (exclusive) of the last axis."""
    return t.slice(x, [-1], [first], [last])


def emit_column(t: Translation, x: Value | str, index: int) -> str:
    """Return one column of the last axis, without that axis."""
    return t.emit("Gather", x, t.number(index, "int64"), axis=-1)


def emit_corners(t: Translation, boxes: Value | str, form: str, dtype: str) -> str:
    """Return the corners of boxes ``(..., 4)`` in format ``form``."""
    if form == "corner":
        return boxes.name if isinstance(boxes, Value) else boxes
    middle = emit_columns(t, boxes, 0, 2)
    half = t.emit("Div", emit_columns(t, boxes, 2, 4), t.number(2, dtype))
    return t.emit("Concat", t.emit("Sub", middle, half), t.emit("Add", middle, half), axis=-1)


def emit_centers(t: Translation, boxes: Value | str, dtype: str) -> tuple[str, str]:
    """Return centre and size ``(..., 2)`` of boxes given by their corners."""
    low = emit_columns(t, boxes, 0, 2)
    size = t.emit("Sub", emit_columns(t, boxes, 2, 4), low)
    return t.emit("Add", low, t.emit("Div", size, t.number(2, dtype))), size


def _emit_area(t: Translation, corners: Sequence[str], dtype: str, pixels: bool) -> str:
    """Return the area between corners (left, top, right, bottom), 0 where they are the wrong way round."""
    left, top, right, bottom = corners
    sides = [t.emit("Sub", right, left), t.emit("Sub", bottom, top)]
    if pixels:
        sides = [t.emit("Add", side, t.number(1, dtype)) for side in sides]
    return t.emit("Mul", *(t.emit("Max", side, t.number(0, dtype)) for side in sides))


def _emit_boxes(t: Translation, boxes: str, dtype: str, pixels: bool = False) -> _Boxes:
    left, top, right, bottom = (emit_column(t, boxes, i) for i in range(4))
    return _Boxes(left, top, right, bottom, _emit_area(t, (left, top, right, bottom), dtype, pixels))


def _emit_shares(t: Translation, a: _Boxes, b: _Boxes, dtype: str, pixels: bool = False) -> tuple[str, str]:
    """Return the intersections of boxes that broadcast, and these over the unions (NaN where both are 0)."""
    low = t.emit("Max", a.left, b.left), t.emit("Max", a.top, b.top)
    high = t.emit("Min", a.right, b.right), t.emit("Min", a.bottom, b.bottom)
    both = _emit_area(t, (*low, *high), dtype, pixels)
    union = t.emit("Sub", t.emit("Add", a.area, b.area), both)
    return both, t.emit("Div", both, union)


def emit_overlaps(t: Translation, a: str, b: str, dtype: str) -> str:
    """Return intersection over union of boxes ``(..., 4)`` that broadcast; 0 where they have nothing in common."""
    both, share = _emit_shares(t, _emit_boxes(t, a, dtype), _emit_boxes(t, b, dtype), dtype)
    return t.emit("Where", t.emit("Greater", both, t.number(0, dtype)), share, both)


def emit_survivors(t: Translation, candidates: RankedBoxes, rule: Suppression) -> str:
    """Emit the ``Loop``; return which of ``candidates`` ``(B, K)`` remain."""
    shape, count = candidates.shape, candidates.shape[1]
    boxes = _emit_boxes(t, candidates.boxes, candidates.dtype, rule.pixels)
    nothing = t.emit("Expand", t.number(False, "bool"), t.integers(shape))

    def build(inputs: Sequence[Value]) -> list[Value]:
        _, going, left, kept = inputs
        best = t.emit("ArgMax", t.cast(left, "int32"), axis=1, keepdims=1)
        here = t.emit("And", t.emit("Equal", t.integers(range(count)), best), left)
        gone = t.emit("Or", here, _emit_hits(t, candidates, boxes, rule, best))
        rest = t.emit("And", left, t.emit("Not", gone))
        most = t.reduce("ReduceMax", t.cast(rest, "int32", "bool"), (0, 1))
        names = t.cast(most, "bool", "int32"), rest, t.emit("Or", kept, here)
        return [msgspec.structs.replace(x, name=name) for x, name in zip((going, left, kept), names, strict=True)]

    states = [Value("left", shape, "bool"), Value("kept", shape, "bool")]
    body = t.body([Value("step", (), "int64"), Value("going", (), "bool"), *states], build)
    trips = count if rule.most is None else min(count, rule.most)
    initial = t.number(trips, "int64"), t.number(True, "bool"), candidates.alive, nothing
    return t.emit_several("Loop", 2, *initial, body=body)[1]


def _emit_hits(t: Translation, candidates: RankedBoxes, boxes: _Boxes, rule: Suppression, best: str) -> str:
    """Return which boxes the one at ``best`` ``(B, 1)`` overlaps too much."""
    hits = t.number(True, "bool")
    if rule.limit >= 0:  # otherwise boxes that have nothing in common overlap too much already
        corners = boxes.left, boxes.top, boxes.right, boxes.bottom, boxes.area
        this = _Boxes(*(t.emit("GatherElements", x, best, axis=1) for x in corners))
        _, share = _emit_shares(t, this, boxes, candidates.dtype, rule.pixels)
        limit = t.number(rule.limit, candidates.dtype)
        hits = t.emit("GreaterOrEqual" if rule.inclusive else "Greater", share, limit)
    if candidates.classes:
        mine = t.emit("GatherElements", candidates.classes, best, axis=1)
        hits = t.emit("And", hits, t.emit("Equal", mine, candidates.classes))
    return hits


def emit_compact_order(t: Translation, chosen: str, count: int) -> tuple[str, str]:
    """Return the places of ``chosen`` ``(B, K)`` in their order, the others behind, and which of the result are chosen."""
    flags, order = t.emit_several("TopK", 2, t.cast(chosen, "int32", "bool"), t.integers([count]), axis=1, largest=1, sorted=1)
    return order, t.cast(flags, "bool", "int32")


def emit_rows(t: Translation, rows: Value | str, places: str, shape: tuple[int, int]) -> str:
    """Return the rows ``(B, K, width)`` at ``places`` ``(B, K)`` of each sample."""
    return t.emit("GatherND", rows, t.reshape(places, (*shape, 1)), batch_dims=1)
