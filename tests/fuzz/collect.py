"""Failures as a campaign meets them: all are counted, and the first of each sort is kept as files."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.fuzz.totals import Failure, Totals, make_reproduction


class Collector:
    """The totals of a campaign, which grow case by case."""

    def __init__(self, keep: Path) -> None:
        self.totals = Totals()
        self._keep = keep
        self._sorts: Counter[str] = Counter()

    def count(self, executions: int, answers: int) -> None:
        """Count cases, of which ``answers`` gave a result and the others were refused."""
        self.totals.executions += executions
        self.totals.survivors += executions
        self.totals.counts["answers"] = self.totals.counts.get("answers", 0) + answers

    def fail(
        self, sort: str, what: str, command: Sequence[str], files: Mapping[str, bytes]
    ) -> None:
        """Count a failure; equal ``sort`` means an equal cause.

        ``command`` shows it in the folder that has ``files``.
        """
        self.totals.executions += 1
        self._sorts[sort] += 1
        message = what.partition("\n")[0][:400]
        reproduction = ""
        if self._sorts[sort] == 1:
            texts = {"command": f"{shlex.join(command)}\n", "what": f"{what}\n"}
            encoded = {name: text.encode(errors="backslashreplace") for name, text in texts.items()}
            reproduction = make_reproduction(
                self._keep, str(len(self._sorts)), {**files, **encoded}
            )
        self.totals.failures.append(Failure(message, reproduction))
