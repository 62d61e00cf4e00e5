"""What can go wrong for a user: faults that say where, what and how to mend.

User errors derive from :class:`GraphshareError`; everything else that escapes is a bug. A check collects every fault it finds
and raises once, so that one run names them all. Which exit code an error becomes is decided in ``cli/edge.py`` alone.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    ``where`` is the file (or ``<stdin>``), ``path`` a place in it (a JSON path as ``$.nodes[12].inputs[0]``, a byte offset or a
    record name), ``node`` the name of the node concerned. Any of them may be empty. ``hint`` says how to mend it.
    """

    message: str
    where: str = ""
    path: str = ""
    node: str | None = None
    hint: str = ""

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.path) if part)
        if self.node is not None:
            quoted = f'(node "{self.node}")'
            place = f"{place} {quoted}" if place else quoted
        return f"{place}: {self.message}" if place else self.message


class GraphshareError(Exception):
    """An error that a user can mend. ``faults`` holds all that was found, never empty."""

    def __init__(self, faults: Fault | str | Iterable[Fault], *, hint: str = "") -> None:
        if isinstance(faults, str):
            faults = (Fault(faults, hint=hint),)
        elif isinstance(faults, Fault):
            faults = (faults,)
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__("\n".join(map(str, self.faults)))

    def located(self, where: str) -> GraphshareError:
        """The same error with ``where`` filled in for the faults that do not name a file yet."""
        named = (fault if fault.where else msgspec.structs.replace(fault, where=where) for fault in self.faults)
        return type(self)(list(named))


class InputError(GraphshareError):
    """A file cannot be read, or is not what it should be."""


class RefusedError(GraphshareError):
    """The input is sound but the plan is not: a collision, a pattern that matches nothing, an unknown target."""


class UsageError(GraphshareError):
    """The options contradict each other or leave something open."""


class OutputError(GraphshareError):
    """A result could not be written; what stood there before still stands."""


class SelfCheckError(GraphshareError):
    """What was written does not read back as it should. Nothing was put in place. This is a bug worth reporting."""


class DisprovedError(GraphshareError):
    """The question was answered "no": what was to be proved does not hold. Nothing was put in place."""
