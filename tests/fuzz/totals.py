"""What a campaign has counted, and the reproductions of its failures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec


class Unavailable(Exception):
    """A campaign cannot run on this machine; the text says why."""


class Failure(msgspec.Struct, frozen=True):
    """What went wrong, and the folder or file that shows it again; empty where nothing was kept."""

    message: str
    reproduction: str = ""


class Totals(msgspec.Struct):
    """Counts of a campaign.

    ``survivors`` are attacks after which everything was as it should be: an answer, a clear
    refusal, or files that are all old or all new. ``counts`` has what else the campaign counts, by
    name (``signals``, ``reads``).
    """

    executions: int = 0
    faults: int = 0
    survivors: int = 0
    failures: list[Failure] = msgspec.field(default_factory=list)
    counts: dict[str, int] = msgspec.field(default_factory=dict)

    def add(self, other: Totals) -> None:
        """Add the counts and failures of another campaign."""
        self.executions += other.executions
        self.faults += other.faults
        self.survivors += other.survivors
        self.failures += other.failures
        self.counts = dict(Counter(self.counts) + Counter(other.counts))

    def __str__(self) -> str:
        numbers = f"{self.executions:,} executions, {self.faults:,} faults injected, {self.survivors:,} survivors, "
        others = "".join(f"; {name} {count:,}" for name, count in sorted(self.counts.items()))
        return f"{numbers}{len(self.failures):,} failures{others}"


def make_reproduction(keep: Path, name: str, files: dict[str, bytes]) -> str:
    """Write ``files`` into the folder ``name`` of ``keep`` and return its path."""
    folder = keep / name
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        (folder / path).write_bytes(data)
    return str(folder)
