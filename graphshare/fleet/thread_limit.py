"""A time limit for work in a thread other than the main one, which the workers of a cluster use: signals do not reach it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

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
    thread = ctypes.c_ulong(threading.get_ident())
    raise_in = ctypes.pythonapi.PyThreadState_SetAsyncExc  # the interpreter's own way to end a thread's work
    timers = [
        threading.Timer(seconds, lambda: raise_in(thread, ctypes.py_object(TimeUp))),
        threading.Timer(seconds + _GRACE, lambda: os._exit(1)),
    ]
    try:
        try:
            for timer in timers:
                timer.daemon = True
                timer.start()
            yield
        finally:
            for timer in timers:
                timer.cancel()
            raise_in(thread, None)  # one that has fired and has not been raised yet
    except TimeUp:
        raise time_error(seconds) from None
