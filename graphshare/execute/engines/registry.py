"""Engines by name: numpy, onnxruntime, and those of other packages (entry point group ``graphshare.engines``)."""

from __future__ import annotations

from collections.abc import Callable

from graphshare.errors import Fault, UsageError
from graphshare.execute.engines.engine import Engine
from graphshare.execute.engines.executor import Executor
from graphshare.text.names import did_you_mean

NUMPY, ONNXRUNTIME, AUTO = "numpy", "onnxruntime", "auto"
GROUP = "graphshare.engines"
_registered: dict[str, Callable[[], Engine]] = {}


def register_engine(name: str, create: Callable[[], Engine]) -> None:
    """Add an engine; ``create`` is called when it is first used, and may raise UsageError."""
    _registered[name] = create


def create_executor(name: str, *, strict: bool = False, forwards: int = 1, alone: bool = True, fixed: bool = False) -> Executor:
    """Return what computes with the engine ``name``; the arguments are those of :class:`Executor`. Raises UsageError."""
    return Executor(create_engine(name), strict=strict, forwards=forwards, alone=alone, fixed=fixed)


def create_engine(name: str) -> Engine | None:
    """Return the engine of a name; None for numpy, whose plans are run directly.

    Raises:
        UsageError: there is none of that name, or what it needs is not installed.
    """
    if name == NUMPY:
        return None
    if name in _registered:
        return _registered[name]()
    if name == ONNXRUNTIME:
        from graphshare.execute.engines.onnxruntime_engine import OnnxRuntime  # start-up: it needs the translations

        return OnnxRuntime()
    if name == AUTO:
        from graphshare.execute.engines.auto import Auto  # start-up

        return Auto()
    from importlib.metadata import entry_points  # start-up: only names that are not built in need it

    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = [NUMPY, ONNXRUNTIME, AUTO, *_registered, *points]
        hint = did_you_mean(name, known) or f"there are {', '.join(known)}"
        raise UsageError(Fault(f"engine {name!r} is not known", hint=hint))
    create: Callable[[], Engine] = points[name].load()
    return create()
