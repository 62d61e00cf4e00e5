"""How far long work has come, for whoever wants to know. Nothing is printed here; nobody listens unless someone asked to.

Work announces itself: ``with task("copying", total, "B") as advance: ... advance(n)``. The command line listens and draws a
bar; a library user may listen too (:func:`listen`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Protocol, TypeVar

_STRIDE = 1 << 14  # items between two reports, where one costs more than the work on an item
T = TypeVar("T")
Advance = Callable[[int], None]


class Listener(Protocol):
    """What is told of a task: that it begins, how much more is done, that it ended (well or not)."""

    def begin(self, title: str, total: int, unit: str) -> None:
        """A task of ``total`` steps begins."""

    def advance(self, count: int) -> None:
        """``count`` more steps are done."""

    def end(self) -> None:
        """The task is over."""


_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


def unheard(count: int) -> None:
    """Progress that nobody asked for."""


@contextmanager
def task(title: str, total: int, unit: str) -> Iterator[Advance]:
    """A stretch of work of ``total`` steps (0 where that is not known) of ``unit`` (``B`` for bytes, or a plural noun).

    Inside another task it is a part of that one and says nothing.
    """
    listener = _LISTENER.get()
    if listener is None:
        yield unheard
        return
    token = _LISTENER.set(None)
    listener.begin(title, total, unit)
    try:
        yield listener.advance
    finally:
        listener.end()
        _LISTENER.reset(token)


def counted(items: Sequence[T], title: str, unit: str) -> Iterator[T]:
    """``items`` one by one, as a task of so many steps."""
    with task(title, len(items), unit) as advance:
        for item in items:
            yield item
            advance(1)


def paced(items: Sequence[T], title: str, unit: str) -> Iterator[T]:
    """As :func:`counted` for work of less than a microsecond an item: told of now and then, at no cost an item."""
    return chain.from_iterable(_strides(items, title, unit))


def _strides(items: Sequence[T], title: str, unit: str) -> Iterator[Sequence[T]]:
    with task(title, len(items), unit) as advance:
        for start in range(0, len(items), _STRIDE):
            stride = items[start : start + _STRIDE]
            yield stride
            advance(len(stride))


@contextmanager
def listen(listener: Listener) -> Iterator[None]:
    """Tells ``listener`` of all tasks inside the block."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
