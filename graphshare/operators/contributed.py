"""What families of a package give for operators, one thing for each, and what other packages add: kernels, gradients."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Generic, Protocol, TypeVar

from graphshare.operators.registry import canonical


class ForOperator(Protocol):
    """Anything that belongs to one operator."""

    @property
    def operator(self) -> str: ...


Item = TypeVar("Item", bound=ForOperator)


class Contributed(Generic[Item]):
    """Each module ``package.family`` has a tuple called ``listed``; other packages add such tuples through the entry point
    group of the package's name, and :meth:`register` adds a single one."""

    def __init__(self, package: str, listed: str, families: Iterable[str]) -> None:
        self._package, self._listed, self._families = package, listed, tuple(families)
        self.registered: dict[str, Item] = {}
        self._known: dict[str, Item] | None = None

    def find(self, operator: str) -> Item | None:
        """What there is for an operator, by any of its names."""
        name = canonical(operator)
        return self.registered.get(name) or self.known().get(name)

    def register(self, item: Item) -> None:
        """Adds ``item``, or puts it in the place of the one for the same operator."""
        self.registered[canonical(item.operator)] = item

    def known(self) -> dict[str, Item]:
        """Everything of the package and of installed ones, by canonical name; found once."""
        if self._known is None:
            self._known = self._found()
        return self._known

    def forget(self) -> None:
        """Looks again at the next question, as after an installation."""
        self._known = None

    def _found(self) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for family in self._families:
            for item in getattr(import_module(f"{self._package}.{family}"), self._listed):
                assert item.operator not in found, f"{self._listed} has {item.operator} twice"
                found[item.operator] = item
        from importlib.metadata import entry_points

        for point in entry_points(group=self._package):
            found.update((canonical(item.operator), item) for item in point.load())
        return found
