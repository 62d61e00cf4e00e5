"""Names of values and nodes: each once in an ONNX graph, MXNet's own where that can be."""

from __future__ import annotations


class UniqueNames:
    """Names that were given away; a name that is taken, or empty, gets ``#1``, ``#2``... at its end."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._numbers: dict[str, int] = {}

    def claim(self, name: str) -> str:
        """Return ``name``, or the first numbered form of it that is free, and keep it for the caller."""
        unique = name
        while not unique or unique in self._taken:
            number = self._numbers[name] = self._numbers.get(name, 0) + 1
            unique = f"{name}#{number}"
        self._taken.add(unique)
        return unique
