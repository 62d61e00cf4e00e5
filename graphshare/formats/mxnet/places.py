"""Find where in a JSON text the values of some paths are. Other values are skipped at the decoder's speed."""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Iterable

Steps = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(strict=False)


class _Step(dict["str | int", "_Step"]):
    """The steps that lead on from a place, and the paths that end there."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Steps] = []


def find_places(text: str, paths: Iterable[Steps]) -> dict[Steps, int]:
    """Return the offset in ``text`` of each path's value, or of the deepest value on the way to it.

    Of a repeated key the last counts. Raises ValueError or IndexError for a text that is not JSON.
    """
    root = _Step()
    for path in paths:
        at = root
        for step in path:
            if step not in at:
                at[step] = _Step()
            at = at[step]
        at.ends.append(path)
    offsets: dict[Steps, int] = {}
    pending = [(root, _skip(text, 1 if text[:1] == "\ufeff" else 0))]
    while pending:
        target, start = pending.pop()
        for path in _all_ends(target):
            offsets[path] = start
        if target and text[start] == "{":
            pending.extend(_members(text, start, target))
        elif target and text[start] == "[":
            pending.extend(_elements(text, start, target))
    return offsets


class LineIndex:
    """Where the lines of a text begin, so that each of many positions is found without reading the text again."""

    def __init__(self, text: str) -> None:
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def locate(self, offset: int) -> tuple[int, int]:
        """Return line and column of an offset, both from 1, in characters."""
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1


def _all_ends(target: _Step) -> Iterable[Steps]:
    """Yield the paths that end at a place or beyond; those beyond move on when their own value is reached."""
    pending = [target]
    while pending:
        at = pending.pop()
        yield from at.ends
        pending.extend(at.values())


def _members(text: str, start: int, target: _Step) -> list[tuple[_Step, int]]:
    offsets: dict[str, int] = {}
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key in target:
            offsets[key] = at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
    return [(target[key], place) for key, place in offsets.items()]


def _elements(text: str, start: int, target: _Step) -> list[tuple[_Step, int]]:
    offsets = []
    last = max((step for step in target if isinstance(step, int)), default=-1)
    at, number = _skip(text, start + 1), 0
    while number <= last and text[at] != "]":
        if number in target:
            offsets.append((target[number], at))
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1
    return offsets


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
