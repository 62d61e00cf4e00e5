"""Formulas of boxes, stated once for arrays and for the terms of an ONNX graph.

A box is (left, top, right, bottom), by its centre (x, y, width, height); boxes are ``(..., 4)``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from graphshare.ops.formulas import Functions


class Sides(NamedTuple):
    """The corners of boxes and their areas, each ``(...)``."""

    left: Any
    top: Any
    right: Any
    bottom: Any
    area: Any


def measure_sides(f: Functions, boxes: Any, pixels: bool = False) -> Sides:
    """Return the corners and areas of boxes; with ``pixels`` the last pixel is part of a box."""
    left, top, right, bottom = (f.column(boxes, i) for i in range(4))
    return Sides(left, top, right, bottom, _measure_area(f, left, top, right, bottom, pixels))


def _measure_area(f: Functions, left: Any, top: Any, right: Any, bottom: Any, pixels: bool) -> Any:
    """Return the area between corners, 0 where they are the wrong way round."""
    sides = [right - left, bottom - top]
    if pixels:
        sides = [side + 1 for side in sides]
    width, height = (f.at_least_0(side) for side in sides)
    return width * height


def measure_overlap(f: Functions, a: Sides, b: Sides, pixels: bool = False) -> tuple[Any, Any]:
    """Return the intersections of boxes that broadcast, and these over the unions (NaN where both are 0)."""
    low = f.maximum(a.left, b.left), f.maximum(a.top, b.top)
    high = f.minimum(a.right, b.right), f.minimum(a.bottom, b.bottom)
    both = _measure_area(f, *low, *high, pixels=pixels)
    return both, both / (a.area + b.area - both)


def to_corners(f: Functions, boxes: Any) -> Any:
    """Return the corners of boxes given by centre and size."""
    middle, half = f.columns(boxes, 0, 2), f.columns(boxes, 2, 4) / 2
    return f.join(middle - half, middle + half)


def to_centers(f: Functions, boxes: Any) -> tuple[Any, Any]:
    """Return centre and size ``(..., 2)`` of boxes given by their corners."""
    low = f.columns(boxes, 0, 2)
    size = f.columns(boxes, 2, 4) - low
    return low + size / 2, size


def decode_offsets(f: Functions, centers: tuple[Any, ...], offsets: Any, scales: Any, clip: float = -1) -> Any:
    """Return the corners of boxes at ``offsets`` from anchors (centre, size) in units of ``scales``, an array of 4 numbers.

    A positive ``clip`` bounds scaled sizes.
    """
    middle, size = centers
    first = f.columns(offsets, 0, 2) * f.constant(scales[:2], offsets)
    second = f.columns(offsets, 2, 4) * f.constant(scales[2:], offsets)
    if clip > 0:
        second = f.minimum(second, clip)
    center = first * size + middle
    half = f.exp(second) * size / 2
    return f.join(center - half, center + half)


def encode_offsets(f: Functions, centers: tuple[Any, Any], targets: tuple[Any, Any], scales: Any) -> Any:
    """Return the offsets from anchors (centre, size) to ``targets`` in units of ``scales``, an array of 4 numbers."""
    (middle, size), (center, extent) = centers, targets
    first, second = (center - middle) / size, f.log(extent / size)
    return f.join(first, second) / f.constant(scales, first)
