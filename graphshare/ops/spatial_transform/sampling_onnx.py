"""Bilinear sampling of images at any coordinates in plain ONNX operators, for what ``GridSample`` does not cover."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from graphshare.ops.translation import Translation


class _Line(NamedTuple):
    """A line of pixels beside each point: their numbers (int64), 0 outside, and their weights, 0 outside."""

    number: str
    weight: str


def sample_bilinear(
    t: Translation, size: tuple[int, int], rows: str, columns: str, dtype: str, gather: Callable[[str], str], *, deep: bool
) -> str:
    """Return the samples at ``rows`` and ``columns`` of images of ``size`` (height, width), with zeros outside.

    ``gather`` returns pixels by their numbers (row * width + column, int64, in the shape of ``rows``); with ``deep`` they have
    an axis of channels behind that shape.
    """
    total = ""
    columns_beside = _lines_beside(t, columns, size[1], dtype)
    for row in _lines_beside(t, rows, size[0], dtype):
        begin = t.emit("Mul", row.number, t.number(size[1], "int64"))
        for column in columns_beside:
            weight = t.emit("Mul", row.weight, column.weight)
            pixels = gather(t.emit("Add", begin, column.number))
            part = t.emit("Mul", pixels, t.emit("Unsqueeze", weight, t.integers([-1])) if deep else weight)
            total = t.emit("Add", total, part) if total else part
    return total


def is_within(t: Translation, places: str, low: float, high: float, dtype: str, *, closed: bool) -> str:
    """Return where low <= places < high (<= high if ``closed``); nowhere for NaN."""
    below = t.emit("LessOrEqual" if closed else "Less", places, t.number(high, dtype))
    return t.emit("And", t.emit("GreaterOrEqual", places, t.number(low, dtype)), below)


def clamp(t: Translation, places: str, high: float, dtype: str) -> str:
    """Return ``places``, at least 0 and at most ``high``."""
    return t.emit("Min", t.emit("Max", places, t.number(0, dtype)), t.number(high, dtype))


def _lines_beside(t: Translation, places: str, size: int, dtype: str) -> list[_Line]:
    """Return the lines before and behind fractional ``places`` on an axis of ``size`` pixels."""
    zero, one = t.number(0, dtype), t.number(1, dtype)
    before = t.emit("Floor", places)
    lines = []
    for line in (before, t.emit("Add", before, one)):
        inside = is_within(t, line, 0, size, dtype, closed=False)
        weight = t.emit("Sub", one, t.emit("Abs", t.emit("Sub", places, line)))
        index = t.cast(t.emit("Where", inside, line, zero), "int64", of=dtype)
        lines.append(_Line(index, t.emit("Where", inside, weight, zero)))
    return lines
