"""A progress bar on stderr, once a command works for more than a second, on a terminal only."""

from __future__ import annotations

import contextlib
import os
import sys
from time import monotonic
from typing import TextIO

from graphshare.cli.console import is_quiet
from graphshare.text.format import format_bytes

PATIENCE = 1.0  # seconds before a bar appears
PAUSE = 0.1  # seconds between two drawings
WIDTH = 24  # characters of the bar itself


def is_shown() -> bool:
    """Return whether to draw a bar: stderr is a terminal that can move its cursor."""
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"


class Bar:
    """Draws progress on one line: title, bar, percentage, rate and time left; the line is cleared at the end."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._title, self._total, self._unit = "", 0, ""
        self._done, self._started, self._drawn_at, self._visible = 0, 0.0, 0.0, False
        self._made = monotonic()

    def begin(self, title: str, total: int, unit: str) -> None:
        """Begin a task; nothing is drawn yet."""
        self._title, self._total, self._unit = title, total, unit
        self._started = self._drawn_at = monotonic()  # a short task draws nothing
        self._done, self._visible = 0, False

    def advance(self, count: int) -> None:
        """Count ``count`` more steps as done."""
        self._done += count
        now = monotonic()
        if not is_quiet() and now - self._made >= PATIENCE and now - self._drawn_at >= PAUSE:
            self._drawn_at = now
            self._draw(now - self._started)

    def end(self) -> None:
        """End the task and clear the line."""
        if self._visible:
            self._write("\r\x1b[K")
            self._visible = False

    def _draw(self, elapsed: float) -> None:
        self._visible = True
        import shutil  # start-up: few commands take so long

        columns = shutil.get_terminal_size().columns or 80  # Python 3.10 returns 0 where a terminal states none
        self._write("\r" + self.line(elapsed)[: max(columns - 1, 1)] + "\x1b[K")

    def line(self, elapsed: float) -> str:
        """Return the line after ``elapsed`` seconds."""
        rate = self._done / elapsed if elapsed else 0.0
        if not self._total:
            return f"{self._title}  {self._amount(self._done)}  {self._amount(rate)}/s"
        share = min(self._done / self._total, 1.0)
        full = int(share * WIDTH)
        bar = "█" * full + "░" * (WIDTH - full)
        return f"{self._title}  {bar} {share:4.0%}  {self.rate_and_time_left(elapsed, '  ')}"

    def rate_and_time_left(self, elapsed: float, separator: str = ", ") -> str:
        """Return ``20 nodes/s, 0:05 left`` after ``elapsed`` seconds."""
        rate = self._done / elapsed if elapsed else 0.0
        left = _clock((self._total - self._done) / rate) if rate and self._done < self._total else "0:00"
        return f"{self._amount(rate)}/s{separator}{left} left"

    def _amount(self, count: float) -> str:
        if self._unit != "B":
            return f"{count:,.0f} {self._unit}"
        return format_bytes(int(count))

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # the bar is not worth an error
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            self._stream.write(text.encode(encoding, "replace").decode(encoding))
            self._stream.flush()


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
