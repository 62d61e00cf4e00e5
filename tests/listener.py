"""A listener of progress that keeps what it hears."""

from __future__ import annotations


class Recorder:
    """``calls`` has the arguments of each call, in order."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def begin(self, title: str, total: int, unit: str) -> None:
        self.calls.append((title, total, unit))

    def advance(self, count: int) -> None:
        self.calls.append((count,))

    def end(self) -> None:
        self.calls.append(("end",))
