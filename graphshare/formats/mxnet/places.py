"""Where in a JSON text the values of some paths stand. What lies beside the way there is passed over at the decoder's speed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

Steps = tuple[str | int, ...]
_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder(strict=False)


class _Wanted(dict["str | int", "_Wanted"]):
    """The steps that lead on from a place, and the paths that end there."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[Steps] = []


def find_places(text: str, paths: Iterable[Steps]) -> dict[Steps, int]:
    """The offset in ``text`` of each path's value, or of the deepest value on the way that is there.

    Of a key that stands twice the last counts. Raises ValueError or IndexError for a text that is no JSON.
    """
    root = _Wanted()
    for path in paths:
        at = root
        for step in path:
            if step not in at:
                at[step] = _Wanted()
            at = at[step]
        at.ends.append(path)
    found: dict[Steps, int] = {}
    pending = [(root, _skip(text, 1 if text[:1] == "\ufeff" else 0))]
    while pending:
        wanted, start = pending.pop()
        for path in _all_ends(wanted):
            found[path] = start
        if wanted and text[start] == "{":
            pending.extend(_members(text, start, wanted))
        elif wanted and text[start] == "[":
            pending.extend(_elements(text, start, wanted))
    return found


def line_and_column(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, both from 1, in characters."""
    start = text.rfind("\n", 0, offset)
    return text.count("\n", 0, offset) + 1, offset - start


def _all_ends(wanted: _Wanted) -> Iterable[Steps]:
    """The paths that end at a place or beyond; those beyond move on when their own value is found."""
    pending = [wanted]
    while pending:
        at = pending.pop()
        yield from at.ends
        pending.extend(at.values())


def _members(text: str, start: int, wanted: _Wanted) -> list[tuple[_Wanted, int]]:
    found: dict[str, int] = {}
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = _DECODER.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        if key in wanted:
            found[key] = at
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
    return [(wanted[key], place) for key, place in found.items()]


def _elements(text: str, start: int, wanted: _Wanted) -> list[tuple[_Wanted, int]]:
    found = []
    last = max((step for step in wanted if isinstance(step, int)), default=-1)
    at, number = _skip(text, start + 1), 0
    while number <= last and text[at] != "]":
        if number in wanted:
            found.append((wanted[number], at))
        at = _skip(text, _DECODER.raw_decode(text, at)[1])
        if text[at] == ",":
            at = _skip(text, at + 1)
        number += 1
    return found


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at
