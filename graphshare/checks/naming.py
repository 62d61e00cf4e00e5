"""Names that several variables or outputs bear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def repeated(named: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T, T]]:
    """Each bearer of a name after the first, with the name and the first bearer; empty names are passed over."""
    first: dict[str, T] = {}
    for name, bearer in named:
        if name and first.setdefault(name, bearer) is not bearer:
            yield name, first[name], bearer
