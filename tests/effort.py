"""How much work something is, by what does not depend on the machine: a test never holds a clock against anything."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

HANGS = 900
"""Seconds after which a test is stopped as one that never ends: hundreds of times what it takes."""


def effort(work: Callable[[], object]) -> int:
    """How many functions ``work`` calls, those written in C among them."""
    count = 0

    def event(frame: Any, kind: str, argument: Any) -> None:
        nonlocal count
        count += kind in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def instructions(work: Callable[[], object]) -> int:
    """How many instructions of the package ``work`` runs: loops that call no function are counted too."""
    count = 0

    def event(frame: Any, kind: str, argument: Any) -> Any:
        nonlocal count
        if "graphshare" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        count += 1
        return event

    before = sys.gettrace()
    sys.settrace(event)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def grows_with(
    work: Callable[[int], object],
    size: int,
    *,
    measure: Callable[[Callable[[], object]], int] = effort,
) -> float:
    """How much more work four times as much is: 4 where it is linear, 16 where it is quadratic."""
    work(size)  # what is made once and kept is not counted
    return measure(lambda: work(4 * size)) / measure(lambda: work(size))


@contextmanager
def ends(seconds: int | None = None) -> Iterator[None]:
    """Stops what hangs, with the place where it was, after so many seconds: hundreds of times what it takes."""
    most = seconds or HANGS

    def stop(number: int, frame: Any) -> None:
        raise AssertionError(f"has not ended after {most} seconds")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(most)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
