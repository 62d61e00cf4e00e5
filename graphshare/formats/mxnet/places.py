"""Find where in a JSON text the values of some paths are, skipping others at the decoder's
speed.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

Steps = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t\n\r]*")
# MXNet writes control characters into strings unescaped.
_DECODER = json.JSONDecoder(strict=False)


class ValueSpan(NamedTuple):
    """The place of a value: the positions of its first character, and after its last."""

    start: int
    end: int


class _Step(dict["str | int", "_Step"]):
    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Steps] = []


def find_places(text: str, paths: Iterable[Steps]) -> dict[Steps, int]:
    """Return the offset in ``text`` of each path's value, or of the deepest value on the way to it.

    If a key repeats, the last one counts. Raises ValueError or IndexError if the text is not JSON.
    """
    root = _Step()
    for path in paths:
        at = root
        for step in path:
            at = at.setdefault(step, _Step())
        at.ends.append(path)
    offsets: dict[Steps, int] = {}
    pending = [(root, skip_blanks(text, 1 if text[:1] == "\ufeff" else 0))]
    while pending:
        target, start = pending.pop()
        for path in _all_ends(target):
            offsets[path] = start
        if target:
            pending.extend(
                (target[step], span.start)
                for step, span in _list_values(text, start, target)
                if step in target
            )
    return offsets


def _list_values(
    text: str, start: int, steps: Iterable[str | int]
) -> Iterable[tuple[str | int, ValueSpan]]:
    """Return values by key, or by number up to the last of ``steps``."""
    if text[start] == "{":
        return find_members(text, start).items()
    if text[start] == "[":
        last = max((step for step in steps if isinstance(step, int)), default=-1)
        return enumerate(islice(find_elements(text, start), last + 1))
    return ()


class LineIndex:
    """The starts of a text's lines, to find positions without reading the text again."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1, in characters."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def _all_ends(target: _Step) -> Iterable[Steps]:
    """Yield the paths that end at a place or beyond; the latter move on with their own value."""
    pending = [target]
    while pending:
        at = pending.pop()
        yield from at.ends
        pending.extend(at.values())


def find_members(text: str, start: int) -> dict[str, ValueSpan]:
    """Return where the values of the object at ``start`` are; of equal keys the last one counts."""
    members: dict[str, ValueSpan] = {}
    at = skip_blanks(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = skip_blanks(text, skip_blanks(text, at) + 1)
        members[key], at = _read_value(text, at)
    return members


def find_elements(text: str, start: int) -> Iterator[ValueSpan]:
    """Yield where the elements of the array at ``start`` are."""
    at = skip_blanks(text, start + 1)
    while text[at] != "]":
        span, at = _read_value(text, at)
        yield span


def _read_value(text: str, start: int) -> tuple[ValueSpan, int]:
    """Return where a value is, and where the next one, or the closing bracket, begins."""
    end = _DECODER.raw_decode(text, start)[1]
    at = skip_blanks(text, end)
    return ValueSpan(start, end), skip_blanks(text, at + 1) if text[at] == "," else at


def skip_blanks(text: str, at: int) -> int:
    """Return the place of the next character that is not white space."""
    match = _BLANK.match(text, at)
    return match.end() if match else at
