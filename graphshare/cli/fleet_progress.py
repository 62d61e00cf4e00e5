"""Progress of a fleet: a bar with rate, time left and failures on a terminal, elsewhere a line now and then."""

from __future__ import annotations

from time import monotonic

from graphshare.cli.console import is_quiet, say
from graphshare.cli.progress import Bar, is_shown
from graphshare.fleet.records import Result
from graphshare.text.format import format_count

PAUSE = 30.0  # seconds between two lines


class FleetProgress(Bar):
    """Counts results. Those of an earlier run are left out: they take no time, and the rate would be wrong."""

    def __init__(self, total: int) -> None:
        super().__init__()
        self._is_bar = is_shown()
        self._failed = 0
        self._said_at = monotonic()
        self.begin("running", total, "models")

    def add(self, result: Result) -> None:
        """Count a result, and show how far the run is if it is time to."""
        if result.was_skipped:
            self._total -= 1
            return
        self._failed += result.result in ("failed", "killed")
        if self._is_bar:
            self.advance(1)
            return
        self._done += 1
        now = monotonic()
        if not is_quiet() and now - self._said_at >= PAUSE:
            self._said_at = now
            say(self._plain_line(now - self._started))

    def line(self, elapsed: float) -> str:
        """Return the bar's line with the failures."""
        return super().line(elapsed) + (f"  {self._failed:,} failed" if self._failed else "")

    def _amount(self, count: float) -> str:
        """Return a rate; a model may take many seconds."""
        return f"{count:,.1f} models" if 0 < count < 10 and count % 1 else super()._amount(count)

    def _plain_line(self, elapsed: float) -> str:
        bar = f"{self._done:,} of {format_count(self._total, 'model')}, {self.rate_and_time_left(elapsed)}"
        return bar + (f", {self._failed:,} failed" if self._failed else "")
