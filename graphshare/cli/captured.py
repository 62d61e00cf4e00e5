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
from graphshare.fleet.records import Captured
from graphshare.formats.descriptors import note_inherited_descriptors

_COLLECT_AFTER = 200_000  # objects that may be part of cycles


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
    out, err = io.BytesIO(), io.BytesIO()
    saved = sys.stdin, sys.stdout, sys.stderr
    gc.disable()  # as in the command itself
    with open(os.devnull, encoding="utf-8") as nothing:
        sys.stdin = nothing
        sys.stdout = io.TextIOWrapper(out, encoding="utf-8", errors="backslashreplace", write_through=True)
        sys.stderr = io.TextIOWrapper(err, encoding="utf-8", errors="backslashreplace", write_through=True)
        streams = sys.stdout, sys.stderr
        try:
            code = run(list(words))
        finally:
            sys.stdin, sys.stdout, sys.stderr = saved
            choose_quiet(False)
            choose_color("auto")
            for stream in streams:
                with contextlib.suppress(ValueError):  # it is closed
                    stream.detach()
            gc.enable()
            if gc.get_count()[0] > _COLLECT_AFTER:
                gc.collect()
    return Captured(code, out.getvalue(), err.getvalue().decode())
