"""Non-maximum suppression: boxes that a better one overlaps too far are dropped.

Each box is compared only with those whose left edge is near its own, so the time grows with the number of pairs of neighbours.
"""

from __future__ import annotations

import numpy as np

from graphshare.ops.detection.geometry import measure_overlap, measure_sides
from graphshare.ops.formulas import ARRAYS
from graphshare.ops.kernel import Array

_SLACK = 64
"""Rounding errors that the choice of neighbours allows for, in units of the precision of the dtype."""

_FEW = 1024
"""Largest number of boxes that are compared with each other without a look at their places."""

_TOGETHER = 64
"""Number of boxes that are compared with all others at a time."""


def overlaps(a: Array, b: Array, *, pixels: bool = False) -> Array:
    """Return intersection over union of boxes ``(..., 4)`` that broadcast; with ``pixels`` the last pixel is part of a box."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        both, share = measure_overlap(ARRAYS, measure_sides(ARRAYS, a, pixels), measure_sides(ARRAYS, b, pixels), pixels)
    return np.asarray(np.where(both > 0, share, both))  # also where neither box has an area


def suppress_overlaps(
    boxes: Array, limit: float, *, most: int | None = None, classes: Array | None = None, pixels: bool = False
) -> list[int]:
    """Return which boxes, in order of falling score, remain: those that no better one overlaps by more than ``limit``.

    With ``classes`` only boxes of one class suppress each other. At most ``most`` remain. With ``pixels`` the last pixel is
    part of a box.
    """
    if classes is not None and not np.isnan(classes).any():
        return _suppress_by_class(boxes, limit, most, classes, pixels)
    if classes is None and len(boxes) <= _FEW:
        return _suppress_few(boxes, limit, most, pixels)
    more, bound, nothing = boxes.dtype.type(1 if pixels else 0), boxes.dtype.type(limit), boxes.dtype.type(0)
    order = np.argsort(boxes[:, 0], kind="stable")
    places = np.argsort(order, kind="stable").tolist()
    left, top, right, bottom = np.ascontiguousarray(boxes[order].T)
    kinds = None if classes is None else classes[order]
    chosen: list[int] = []
    alive = np.ones(len(boxes), bool)
    with np.errstate(all="ignore"):
        areas = np.maximum(right - left + more, 0) * np.maximum(bottom - top + more, 0)
        starts, ends = find_neighbours(left, right - left + more, areas, float(bound))
        for i, place in enumerate(places):
            if not alive[place]:
                continue
            if most is not None and len(chosen) >= most:
                break
            chosen.append(i)
            near = slice(starts[place], ends[place])
            width = np.minimum(right[near], right[place]) - np.maximum(left[near], left[place]) + more
            height = np.minimum(bottom[near], bottom[place]) - np.maximum(top[near], top[place]) + more
            both = np.maximum(width, nothing) * np.maximum(height, nothing)
            over = np.where(both > 0, both / (areas[place] + areas[near] - both), both) > bound
            if kinds is not None:
                over &= kinds[near] == kinds[place]
            alive[near] &= ~over
    return chosen


def _suppress_by_class(boxes: Array, limit: float, most: int | None, classes: Array, pixels: bool) -> list[int]:
    """Return what remains where only boxes of one class suppress each other."""
    chosen: list[int] = []
    for kind in np.unique(classes):
        places = np.flatnonzero(classes == kind)
        chosen += places[suppress_overlaps(boxes[places], limit, pixels=pixels)].tolist()
    return sorted(chosen)[:most]


def _suppress_few(boxes: Array, limit: float, most: int | None, pixels: bool) -> list[int]:
    """Return what remains of few boxes: the better ones are compared with all, ``_TOGETHER`` at a time."""
    alive, bound = np.ones(len(boxes), bool), boxes.dtype.type(limit)
    for start in range(0, len(boxes), _TOGETHER):
        candidates = start + np.flatnonzero(alive[start : start + _TOGETHER])
        with np.errstate(all="ignore"):
            over = overlaps(boxes[candidates, None], boxes[None, start:], pixels=pixels) > bound
        for place, row in zip(candidates.tolist(), over, strict=True):
            if alive[place]:
                alive[place + 1 :] &= ~row[place + 1 - start :]
    chosen: list[int] = np.flatnonzero(alive)[:most].tolist()
    return chosen


def find_neighbours(left: Array, widths: Array, areas: Array, limit: float) -> tuple[list[int], list[int]]:
    """Return for each box, sorted by the left edge, the first box that it can suppress and the one after the last.

    Where intersection over union exceeds ``limit``, the intersection has more than this share of either width. A left edge is
    therefore at most ``(1 - limit)`` of the left box's width before the other, and no width is more than ``1 / limit`` of the
    other. A box without an area overlaps none.
    """
    count, kind = len(left), np.finfo(left.dtype)
    positive = areas[areas > 0]
    if limit < 0 or not np.isfinite(widths).all() or (positive.size and positive.min() < kind.tiny / kind.eps):
        return [0] * count, [count] * count
    edges, spans, largest = left.astype(np.float64), np.maximum(widths, 0).astype(np.float64), float(widths.max(initial=0))
    share = min(1.0, limit * (1 - _SLACK * float(kind.eps)))
    error = _SLACK * float(kind.eps) * (np.abs(edges) + spans + largest + 1)
    before = np.minimum(largest, spans * ((1 - share) / share)) if share > 0 else largest
    starts = np.searchsorted(edges, edges - before - error)
    ends = np.searchsorted(edges, edges + spans * (1 - share) + error, side="right")
    empty = areas <= 0
    return np.where(empty, 0, starts).tolist(), np.where(empty, 0, ends).tolist()
