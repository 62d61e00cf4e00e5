"""A command of the command line in a process that goes on: its exit code and what it printed are values."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from graphshare.cli.console import choose_color, choose_quiet
from graphshare.cli.main import Terminated, run
from graphshare.files.descriptors import note_inherited_descriptors
from graphshare.fleet.records import Captured


def prepare_worker() -> None:
    """Make this process one that runs commands: the streams lead nowhere, and SIGTERM cleans up what is half written."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):  # native code prints, too
        os.dup2(nowhere, descriptor)
    os.close(nowhere)
    note_inherited_descriptors()
    with contextlib.suppress(ValueError):  # not the main thread
        signal.signal(signal.SIGTERM, _terminate)
    gc.collect()
    gc.freeze()


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def run_captured(words: Sequence[str]) -> Captured:
    """Run one command as ``graphshare WORDS`` does, and return its exit code, stdout and stderr; stdin is empty."""
    saved = sys.stdin, sys.stdout, sys.stderr
    streams = _FREE.pop() if _FREE else _Streams()
    gc.disable()  # as in the command itself
    try:
        sys.stdin, sys.stdout, sys.stderr = streams.nothing, streams.out, streams.err
        code = run(list(words))
    finally:
        sys.stdin, sys.stdout, sys.stderr = saved
        choose_quiet(False)
        choose_color("auto")
        gc.enable()
    out, err = streams.take()
    _FREE.append(streams)
    return Captured(code, out, err.decode())


class _Streams:
    """A stdout and a stderr in memory. They are used again: click keeps every stream that it has printed to."""

    def __init__(self) -> None:
        self.nothing = open(os.devnull, encoding="utf-8")  # noqa: SIM115  # as long as the process
        self._bytes = io.BytesIO(), io.BytesIO()
        self.out, self.err = (io.TextIOWrapper(b, "utf-8", "backslashreplace", write_through=True) for b in self._bytes)

    def take(self) -> tuple[bytes, bytes]:
        """Return what was printed, and forget it."""
        self.out.flush()
        self.err.flush()
        out, err = (buffer.getvalue() for buffer in self._bytes)
        for buffer in self._bytes:
            buffer.seek(0)
            buffer.truncate()
        return out, err


_FREE: list[_Streams] = []
