"""User errors: faults with the place of an error, a message, and a hint how to fix it.

User errors derive from :class:`GraphshareError`; any other exception that escapes is a bug. A check
collects every fault and raises once. ``cli/main.py`` alone maps errors to exit codes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

import msgspec

from graphshare.text.urls import redact

BUG = "this is a bug in graphshare; nothing was written, please report it"
"""The hint of a fault that the user did not make."""
_PACKAGES = {
    "onnx": "onnx onnxruntime",
    "paddle": "paddlepaddle",
    "images": "Pillow",
    "dask": "distributed",
    "remote": "fsspec aiohttp s3fs",
}


def install_command(extra: str) -> str:
    """Return the command that installs an extra's packages by their own names: this package's may
    be a stranger's.
    """
    return f"pip install {_PACKAGES[extra]}"


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong.

    ``where`` is the file (or ``<stdin>``), ``path`` a place in it (a JSON path such as
    ``$.nodes[12].inputs[0]``, a byte offset or a record name), ``node`` the name of the node; any
    may be empty. ``hint`` is a way to fix it. URLs in the texts lose their credentials and queries.
    """

    message: str
    where: str = ""
    path: str = ""
    node: str | None = None
    hint: str = ""

    def __post_init__(self) -> None:
        if "://" in self.where or "://" in self.message or "://" in self.hint:
            for name in ("where", "message", "hint"):
                msgspec.structs.force_setattr(self, name, redact(getattr(self, name)))

    def __str__(self) -> str:
        place = ": ".join(part for part in (self.where, self.path) if part)
        if self.node is not None:
            quoted = f'(node "{self.node}")'
            place = f"{place} {quoted}" if place else quoted
        return f"{place}: {self.message}" if place else self.message


class GraphshareError(Exception):
    """An error that a user can fix. ``faults`` holds every fault and is never empty."""

    def __init__(self, faults: Fault | str | Iterable[Fault], *, hint: str = "") -> None:
        if isinstance(faults, str):
            faults = (Fault(faults, hint=hint),)
        elif isinstance(faults, Fault):
            faults = (faults,)
        self.faults: tuple[Fault, ...] = tuple(faults)
        super().__init__(self.faults)  # the arguments of a pickle or copy

    def __str__(self) -> str:
        """Return every fault with its hint, each on lines of its own; a repeated hint is there
        once.
        """
        following = (*(fault.hint for fault in self.faults[1:]), "")
        ends = [
            f"\n  hint: {f.hint}" if f.hint and f.hint != after else ""
            for f, after in zip(self.faults, following, strict=True)
        ]
        return "\n".join(f"{fault}{end}" for fault, end in zip(self.faults, ends, strict=True))

    @classmethod
    def raise_any(cls, faults: Iterable[Fault]) -> None:
        """Raise this error with ``faults``, if there are any."""
        if listed := tuple(faults):
            raise cls(listed)

    def with_location(self, where: str) -> GraphshareError:
        """Return the same error with ``where`` for the faults that name no file."""
        named = (
            fault if fault.where else msgspec.structs.replace(fault, where=where)
            for fault in self.faults
        )
        return type(self)(list(named))


class InputError(GraphshareError):
    """A file cannot be read, or its content is not valid."""


class RefusedError(GraphshareError):
    """The input is valid but the request is not: a collision, a pattern that matches nothing, an unknown target."""


class HasPlace(Protocol):
    """Something read from a file; ``where`` is its name in messages."""

    @property
    def where(self) -> str: ...


@contextmanager
def locate_refusals(source: HasPlace) -> Iterator[None]:
    """Name the file of ``source`` in refusals that name none."""
    try:
        yield
    except RefusedError as error:
        # The same refusal without its place would only repeat itself in the traceback.
        raise error.with_location(source.where) from error.__cause__


class MemoryLimitError(RefusedError):
    """The work would take more memory than the limit or, without one, than is available."""


class UsageError(GraphshareError):
    """The options contradict each other or are incomplete."""


class OutputError(GraphshareError):
    """A result could not be written; the earlier files are unchanged."""


class SelfCheckError(GraphshareError):
    """A written file does not read back as intended. No output was put in place. This is a bug: please report it."""


class DisprovedError(GraphshareError):
    """The answer is "no": the property to be proved does not hold. No output was put in place."""


class BugError(Exception):
    """A fault of the program, or of an operator registered with it: never of the user, so not a
    :class:`GraphshareError`.
    """
