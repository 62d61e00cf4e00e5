"""Names of nodes: repeats, and the endings that MXNet looks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")

#: The formal name inside a parameter's name, where more text follows it.
INNER_FORMAL = re.compile(r"(?:^|_)(weight|bias|gamma|beta|moving_mean|moving_var|running_mean|running_var)(?=[^a-z])")


def find_repeats(named: Iterable[tuple[str, T]]) -> Iterator[tuple[str, T, T]]:
    """Yield each item whose name an earlier item has: the name, the first item, this item. Empty names are skipped."""
    first: dict[str, T] = {}
    for name, item in named:
        if name and first.setdefault(name, item) is not item:
            yield name, first[name], item
