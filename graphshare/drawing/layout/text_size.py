"""Sizes of boxes, from an estimate of the width of text: the reader's font is not known."""

from __future__ import annotations

import unicodedata

from graphshare.drawing.picture import Box
from graphshare.text.format import escape_control

TITLE_SIZE = 12.0  # pixels
LINE_SIZE = 10.5
LINE_STEP = 14.0
LONGEST_TEXT = 44  # characters in a box
PADDING = 11.0
RIM = 7.0  # above the text of a cylinder
LABEL_MARGIN = 12.0  # beside a label
TITLE_BAR = 24.0  # above the contents of a scope

_NARROW, _WIDE = frozenset("iljtfrI.,:;|!'()[]/ -`"), frozenset("mwMW@%")


def shorten_middle(text: str, limit: int = LONGEST_TEXT) -> str:
    """Return printable text of at most ``limit`` characters; the ends of a name tell most."""
    # Only the ends are shown, so megabytes between them need not be escaped.
    text = escape_control(text[:limit] + text[limit:][-limit:])
    if len(text) <= limit:
        return text
    tail = limit * 2 // 5
    return f"{text[: limit - tail - 1]}…{text[-tail:]}"


def estimate_width(text: str, size: float) -> float:
    """Return the width in pixels in a sans-serif font of ``size`` pixels, rather too large."""
    return size * sum(map(_relative_width, text))


def _relative_width(character: str) -> float:
    if character in _NARROW:
        return 0.36
    if character in _WIDE:
        return 0.95
    if character.isascii():
        return 0.7 if character.isupper() else 0.6
    return 1.05 if unicodedata.east_asian_width(character) in "WF" else 0.7


def box_texts(box: Box) -> list[str]:
    """Return the drawn title and lines of a box."""
    return [shorten_middle(text) for text in (box.title, *box.lines)]


def measure_box(box: Box) -> tuple[float, float]:
    """Return the width and the height of a box in pixels."""
    title, *lines = box_texts(box)
    # Titles are bold: some 6 % wider.
    widths = [
        estimate_width(title, TITLE_SIZE) * 1.06,
        *(estimate_width(line, LINE_SIZE) for line in lines),
    ]
    height = (
        2 * PADDING
        - 4
        + LINE_STEP * (1 + len(lines))
        + (RIM if box.kind in ("shared", "parameter") else 0)
    )
    return max(56.0, round(max(widths) + 2 * PADDING)), height


def measure_label(text: str) -> float:
    """Return the width of a box's label; 0 without one."""
    return round(estimate_width(text, LINE_SIZE)) + LABEL_MARGIN if text else 0.0


def title_width(title: str) -> float:
    """Return the width of an open scope's title bar with its fold mark."""
    return estimate_width(shorten_middle(title), TITLE_SIZE) * 1.06 + 40
