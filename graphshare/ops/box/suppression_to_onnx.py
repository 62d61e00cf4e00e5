"""Overlaps of boxes and non-maximum suppression in ONNX.

``NonMaxSuppression`` knows neither the classes of boxes with one score each nor MXNet's pixels and limits, so that a ``Loop``
goes through the boxes by falling score, for all samples at once.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from graphshare.ops.translation import Translation, Value


class Candidates(msgspec.Struct, frozen=True, eq=False):
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

    With ``pixels`` the last pixel is part of a box. The loop may end when ``most`` boxes remain among those it has seen.
    """

    limit: float
    inclusive: bool = False
    pixels: bool = False
    most: int | None = None


class _Boxes(msgspec.Struct, frozen=True, eq=False):
    """The lower and upper corners ``(..., 2)`` of boxes and their areas ``(...)``."""

    low: str
    high: str
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


def _emit_extent(t: Translation, low: str, high: str, dtype: str, pixels: bool) -> str:
    """Return the area between corners, 0 where they are the wrong way round."""
    size = t.emit("Sub", high, low)
    if pixels:
        size = t.emit("Add", size, t.number(1, dtype))
    return t.reduce("ReduceProd", t.emit("Max", size, t.number(0, dtype)), (-1,))


def _emit_boxes(t: Translation, boxes: str, dtype: str, pixels: bool) -> _Boxes:
    low, high = emit_columns(t, boxes, 0, 2), emit_columns(t, boxes, 2, 4)
    return _Boxes(low, high, _emit_extent(t, low, high, dtype, pixels))


def _emit_shares(t: Translation, a: _Boxes, b: _Boxes, dtype: str, pixels: bool = False) -> tuple[str, str]:
    """Return the intersections of boxes that broadcast, and these over the unions (NaN where both are 0)."""
    low, high = t.emit("Max", a.low, b.low), t.emit("Min", a.high, b.high)
    both = _emit_extent(t, low, high, dtype, pixels)
    union = t.emit("Sub", t.emit("Add", a.area, b.area), both)
    return both, t.emit("Div", both, union)


def emit_overlaps(t: Translation, a: str, b: str, dtype: str) -> str:
    """Return intersection over union of boxes ``(..., 4)`` that broadcast; 0 where they have nothing in common."""
    both, share = _emit_shares(t, _emit_boxes(t, a, dtype, False), _emit_boxes(t, b, dtype, False), dtype)
    return t.emit("Where", t.emit("Greater", both, t.number(0, dtype)), share, both)


def emit_survivors(t: Translation, candidates: Candidates, rule: Suppression) -> str:
    """Emit the ``Loop``; return which of ``candidates`` ``(B, K)`` remain."""
    batch, count = candidates.shape
    boxes = _emit_boxes(t, candidates.boxes, candidates.dtype, rule.pixels)
    numbers = t.reduce("ReduceSum", t.cast(candidates.alive, "int64", "bool"), (1,))
    trips = t.reduce("ReduceMax", numbers, (0,)) if rule.most is None else t.number(count, "int64")
    states = [Value("alive", (batch, count), "bool")]
    initial = [candidates.alive]
    if rule.most is not None:
        states.append(Value("kept", (batch, 1), "int64"))
        initial.append(t.emit("Expand", t.number(0, "int64"), t.integers((batch, 1))))

    def build(inputs: Sequence[Value]) -> list[Value]:
        step, going, alive, *kept = inputs
        place = t.reshape(step, (1,))
        here = t.emit("Gather", alive, place, axis=1)
        left = _emit_step(t, candidates, boxes, rule, place, here, alive.name)
        results = [msgspec.structs.replace(alive, name=left)]
        if rule.most is not None:
            total = t.emit("Add", kept[0], t.cast(here, "int64", "bool"))
            least = t.reduce("ReduceMin", total, (0, 1))
            going = msgspec.structs.replace(going, name=t.emit("Less", least, t.number(rule.most, "int64")))
            results.append(msgspec.structs.replace(kept[0], name=total))
        return [going, *results]

    body = t.body([Value("step", (), "int64"), Value("going", (), "bool"), *states], build)
    return t.emit_several("Loop", len(states), trips, t.number(True, "bool"), *initial, body=body)[0]


def _emit_step(
    t: Translation, candidates: Candidates, boxes: _Boxes, rule: Suppression, place: str, here: str, alive: str
) -> str:
    """Return which boxes are left after the one at ``place``, if it is left itself (``here``), has suppressed later ones."""
    dtype, count = candidates.dtype, candidates.shape[1]
    later = t.emit("Greater", t.integers(range(count)), place)
    hit = t.emit("And", here, later)
    if rule.limit >= 0:  # otherwise boxes that have nothing in common overlap too much already
        this = _Boxes(*(t.emit("Gather", x, place, axis=1) for x in (boxes.low, boxes.high, boxes.area)))
        _, share = _emit_shares(t, this, boxes, dtype, rule.pixels)
        limit = t.number(rule.limit, dtype)
        hit = t.emit("And", hit, t.emit("GreaterOrEqual" if rule.inclusive else "Greater", share, limit))
    if candidates.classes:
        mine = t.emit("Gather", candidates.classes, place, axis=1)
        hit = t.emit("And", hit, t.emit("Equal", mine, candidates.classes))
    return t.emit("And", alive, t.emit("Not", hit))


def emit_compact_order(t: Translation, chosen: str, count: int) -> tuple[str, str]:
    """Return the places of ``chosen`` ``(B, K)`` in their order, the others behind, and which of the result are chosen."""
    flags, order = t.emit_several("TopK", 2, t.cast(chosen, "int32", "bool"), t.integers([count]), axis=1, largest=1, sorted=1)
    return order, t.cast(flags, "bool", "int32")


def emit_rows(t: Translation, rows: Value | str, places: str, shape: tuple[int, int]) -> str:
    """Return the rows ``(B, K, width)`` at ``places`` ``(B, K)`` of each sample."""
    return t.emit("GatherND", rows, t.reshape(places, (*shape, 1)), batch_dims=1)
