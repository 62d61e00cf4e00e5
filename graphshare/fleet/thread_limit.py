"""A time limit for work in a thread other than the main one, which the workers of a cluster use: signals do not reach it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from graphshare.resources import TimeUp, time_error, time_limit

_GRACE = 5.0  # seconds for a single call of native code after the limit; then the process is ended


@contextmanager
def any_time_limit(seconds: float | None) -> Iterator[None]:
    """End the work inside the block after ``seconds``, in whatever thread it is, unless that is None.

    Raises:
        RefusedError: the limit has passed.
    """
    if seconds is None or threading.current_thread() is threading.main_thread():
        with time_limit(seconds):
            yield
        return
    deadline = time.monotonic() + seconds

    def look(frame: FrameType, event: str, argument: object) -> None:
        if time.monotonic() > deadline:
            raise TimeUp

    watchdog = threading.Timer(seconds + _GRACE, lambda: os._exit(1))
    watchdog.daemon = True
    before = sys.getprofile()
    try:
        try:
            watchdog.start()
            sys.setprofile(look)  # called at each call and return in this thread: some tens of percent more time
            yield
        finally:
            sys.setprofile(before)  # a call, too: the limit may pass here
    except TimeUp:
        raise time_error(seconds) from None
    finally:
        watchdog.cancel()
