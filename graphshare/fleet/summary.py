"""What a fleet run comes to: counts by outcome, figures over all models, and the first failures."""

from __future__ import annotations

import msgspec

from graphshare.fleet.records import Result
from graphshare.text.format import format_count

_FIRST = 10
_MOST_FIGURES = 64


class Figure(msgspec.Struct):
    """A number of the models' reports or runs: how many have it, its sum, least and greatest value."""

    count: int = 0
    sum: float = 0
    min: float = float("inf")
    max: float = float("-inf")

    def add(self, value: float) -> None:
        """Count a value."""
        self.count += 1
        self.sum += value
        self.min, self.max = min(self.min, value), max(self.max, value)


class RunSummary(msgspec.Struct):
    """The counts of a run, its figures by name, and the first that are not done, without reports."""

    done: int = 0
    no: int = 0
    failed: int = 0
    skipped: int = 0
    figures: dict[str, Figure] = {}
    first: list[Result] = []

    def add(self, result: Result) -> None:
        """Count a result."""
        self.skipped += result.was_skipped
        for name, value in all_figures(result).items():
            if name in self.figures or len(self.figures) < _MOST_FIGURES:
                self.figures.setdefault(name, Figure()).add(value)
        if result.result == "done":
            self.done += 1
            return
        if result.result == "no":
            self.no += 1
        else:
            self.failed += 1
        if len(self.first) < _FIRST:
            error = result.error or result.verdict or _count_errors(result)
            self.first.append(msgspec.structs.replace(result, error=error, report=msgspec.Raw(b"null")))

    @property
    def total(self) -> int:
        """The number of models."""
        return self.done + self.no + self.failed

    @property
    def exit_code(self) -> int:
        """2 if a model has failed, else 1 if an answer was no, else 0."""
        return 2 if self.failed else 1 if self.no else 0


def _count_errors(result: Result) -> str:
    count = int(result.figures.get("counts.error", 0))
    return format_count(count, "error") if count else ""


def all_figures(result: Result) -> dict[str, float]:
    """Return the figures of a result, the seconds among them."""
    return {"seconds": result.seconds, **result.figures}
