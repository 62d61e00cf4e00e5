"""Numbers for automatic names."""

from __future__ import annotations

from graphshare.builder.naming import Naming


class Counters:
    """Numbers for automatic names, from 0."""

    def __init__(self) -> None:
        self._next: dict[str, int] = {}

    def draw(self, naming: Naming, kind: str, path: str) -> int:
        """The next number of what ``naming`` counts together with a ``kind`` under ``path``."""
        key = {"kind": kind, "path": path + kind, "all": ""}[naming.counted]
        number = self._next.get(key, 0)
        self._next[key] = number + 1
        return number
