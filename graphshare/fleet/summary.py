"""What a fleet run comes to: counts by outcome, sums, and the first failures."""

from __future__ import annotations

import msgspec

from graphshare.fleet.records import Result

_FIRST = 10


class Summary(msgspec.Struct):
    """The counts of a run; ``seconds`` and ``cpu_seconds`` are sums over the models; ``first`` are the first not done."""

    done: int = 0
    no: int = 0
    failed: int = 0
    skipped: int = 0
    seconds: float = 0.0
    cpu_seconds: float = 0.0
    first: list[Result] = []

    def add(self, result: Result) -> None:
        """Count a result."""
        if result.was_skipped:
            self.skipped += 1
        else:
            self.seconds += result.seconds
            self.cpu_seconds += result.figures.get("cpu_seconds", 0.0)
        if result.result == "done":
            self.done += 1
            return
        if result.result == "no":
            self.no += 1
        else:
            self.failed += 1
        if len(self.first) < _FIRST:
            self.first.append(msgspec.structs.replace(result, report=msgspec.Raw(b"null")))

    @property
    def total(self) -> int:
        """The number of models."""
        return self.done + self.no + self.failed

    @property
    def exit_code(self) -> int:
        """2 if a model has failed, else 1 if an answer was no, else 0."""
        return 2 if self.failed else 1 if self.no else 0
