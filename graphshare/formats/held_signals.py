"""Signals that wait: while files are put in place an interrupt must not leave half of them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

# SIGINT comes last, so that an interrupt while the handlers are put back finds the others in place.
_NAMES = ("SIGHUP", "SIGTERM", "SIGINT")


@contextmanager
def hold_signals() -> Iterator[None]:
    """Let SIGINT, SIGTERM and SIGHUP take effect after the block instead of inside it.

    Handlers are replaced, not masks: a process has threads (of BLAS) that would take a masked signal for the main thread. In
    another thread than the main one nothing is held, because a signal does not interrupt that thread.
    """
    received: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        received.append(number)

    replaced: dict[int, Any] = {}
    try:
        for name in _NAMES:
            number = getattr(signal, name, None)
            handler = signal.getsignal(number) if number is not None else None
            if number is None or handler in (None, signal.SIG_IGN):  # None: not installed by Python
                continue
            replaced[number] = handler
            try:
                signal.signal(number, note)
            except ValueError:  # not the main thread
                replaced.clear()
                break
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)
        for number in dict.fromkeys(received):  # after an exception too, which becomes the context of KeyboardInterrupt
            signal.raise_signal(number)
