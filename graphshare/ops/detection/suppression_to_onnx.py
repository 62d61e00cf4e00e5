"""Overlaps of boxes and non-maximum suppression in ONNX.

``NonMaxSuppression`` knows neither the classes of boxes with one score each nor MXNet's pixels and limits. A ``Loop`` takes the
best box that is left in each sample, as often as boxes remain. onnxruntime computes float16 in float32, where an overlap may be
above a limit that it equals when rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphshare.ops.detection.geometry import Sides, measure_overlap, measure_sides
from graphshare.ops.onnx_terms import TERMS, Term
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


def emit_columns(t: Translation, x: Value | str, first: int, last: int) -> str:
    """Return columns ``first`` to ``last`` (exclusive) of the last axis."""
    return t.slice(x, [-1], [first], [last])


def emit_column(t: Translation, x: Value | str, index: int) -> str:
    """Return one column of the last axis, without that axis."""
    return t.emit("Gather", x, t.number(index, "int64"), axis=-1)


def emit_overlaps(t: Translation, a: str, b: str, dtype: str) -> str:
    """Return intersection over union of boxes ``(..., 4)`` that broadcast; 0 where they have nothing in common."""
    first, second = (measure_sides(TERMS, Term(t, boxes, dtype)) for boxes in (a, b))
    both, share = measure_overlap(TERMS, first, second)
    return str((both > 0).choose(share, both).name)


def emit_survivors(t: Translation, candidates: RankedBoxes, rule: Suppression) -> str:
    """Emit the ``Loop``; return which of ``candidates`` ``(B, K)`` remain."""
    shape, count = candidates.shape, candidates.shape[1]
    boxes = measure_sides(TERMS, Term(t, candidates.boxes, candidates.dtype), rule.pixels)
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


def _emit_hits(t: Translation, candidates: RankedBoxes, boxes: Sides, rule: Suppression, best: str) -> str:
    """Return which boxes the one at ``best`` ``(B, 1)`` overlaps too much."""
    hits = t.number(True, "bool")
    if rule.limit >= 0:  # otherwise boxes that have nothing in common overlap too much already
        this = Sides(*(Term(t, t.emit("GatherElements", x.name, best, axis=1), candidates.dtype) for x in boxes))
        _, share = measure_overlap(TERMS, this, boxes, rule.pixels)
        hits = (share >= rule.limit if rule.inclusive else share > rule.limit).name
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
