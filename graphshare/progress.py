"""Progress of long work, reported to a listener if there is one.

A piece of work reports itself: ``with task("copying", total, "B") as advance: ... advance(n)``. The
command line installs a listener that draws a bar; a library user may install one too
(:func:`progress_listener`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Protocol, TypeVar

_BATCH = 1 << 14  # items between two reports, where a report costs more than the work on an item
T = TypeVar("T")
Advance = Callable[[int], None]


class Listener(Protocol):
    """Receives the begin of each task, the steps since the last report, and the end, even after a
    failure.
    """

    def begin(self, title: str, total: int, unit: str) -> None:
        """Begin a task of ``total`` steps."""

    def advance(self, count: int) -> None:
        """Count more steps."""

    def end(self) -> None:
        """End the task."""


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def noop_progress(count: int) -> None:
    """Ignore progress: the ``advance`` of work without a listener."""


@contextmanager
def task(title: str, total: int, unit: str) -> Iterator[Advance]:
    """Report a piece of work of ``total`` steps (0 if unknown) in ``unit`` (``B`` for bytes, or a
    plural noun).

    A task inside another task is part of it and reports nothing.
    """
    listener = _LISTENER.get()
    if listener is None:
        yield noop_progress
        return
    token = _LISTENER.set(None)
    listener.begin(title, total, unit)
    try:
        yield listener.advance
    finally:
        listener.end()
        _LISTENER.reset(token)


def item_progress(items: Sequence[T], title: str, unit: str) -> Iterator[T]:
    """Iterate over ``items`` and report a step after each."""
    # Without a listener there is no generator: it would cost time for each item.
    return iter(items) if _LISTENER.get() is None else _report_each(items, title, unit)


def _report_each(items: Sequence[T], title: str, unit: str) -> Iterator[T]:
    with task(title, len(items), unit) as advance:
        for item in items:
            yield item
            advance(1)


def track_batches(items: Sequence[T], title: str, unit: str) -> Iterator[T]:
    """Yield ``items`` and report a step after every 16,384: for work of less than a microsecond an
    item.
    """
    return chain.from_iterable(_batches(items, title, unit))


def _batches(items: Sequence[T], title: str, unit: str) -> Iterator[Sequence[T]]:
    with task(title, len(items), unit) as advance:
        for start in range(0, len(items), _BATCH):
            batch = items[start : start + _BATCH]
            yield batch
            advance(len(batch))


@contextmanager
def progress_listener(listener: Listener) -> Iterator[None]:
    """Report all tasks inside the block to ``listener``."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
