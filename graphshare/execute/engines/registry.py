"""Engines by name: numpy, onnxruntime, other packages' engines (entry points
``graphshare.engines``), ``auto``.

``auto`` is onnxruntime if that saves more time than its opening takes, by multiply-adds.
"""

from __future__ import annotations

from collections.abc import Callable

from graphshare.analysis.cost import count_multiply_adds
from graphshare.errors import Fault, UsageError
from graphshare.execute.backends.onnx_session import has_runtime
from graphshare.execute.engines.engine import Compiled, Engine, GraphPart
from graphshare.resources import count_threads
from graphshare.text.names import did_you_mean

NUMPY, ONNXRUNTIME, AUTO = "numpy", "onnxruntime", "auto"
GROUP = "graphshare.engines"
_registered: dict[str, Callable[[], Engine]] = {}


def register_engine(name: str, create: Callable[[], Engine]) -> None:
    """Add an engine; ``create`` is called at first use, and may raise UsageError."""
    _registered[name] = create


def create_engine(name: str) -> Engine | None:
    """Return the engine of a name; None for numpy.

    Raises:
        UsageError: no engine has that name, or its package is not installed.
    """
    if name == NUMPY:
        return None
    if name in _registered:
        return _registered[name]()
    if name == ONNXRUNTIME:
        return _create_onnxruntime()
    if name == AUTO:
        return Auto()
    # Start-up: only for names that are not built in
    from importlib.metadata import entry_points

    points = {point.name: point for point in entry_points(group=GROUP)}
    if name not in points:
        known = [NUMPY, ONNXRUNTIME, AUTO, *_registered, *points]
        hint = did_you_mean(name, known) or f"the engines are {', '.join(known)}"
        raise UsageError(Fault(f"unknown engine {name!r}", hint=hint))
    create: Callable[[], Engine] = points[name].load()
    return create()


def _create_onnxruntime() -> Engine:
    # Start-up: small graphs need no translations
    from graphshare.execute.engines.onnxruntime_engine import OnnxRuntime

    return OnnxRuntime()


# Seconds, measured with AVX-512 on ResNet-50 and smaller nets; they err on numpy's side.
_START = 0.15  # importing onnxruntime and the translations
_BY_NODE = 2e-4  # translating a node, and the session's work on it
_BY_BYTE = 4e-10  # copying constants into a session
_SAVED = 9e-12  # by a multiply-add on one thread, in a session without graph optimization
_SAVED_OPTIMIZED = 13e-12  # with graph optimization
_MARGIN = 1.2
# onnxruntime has few kernels for others
_DTYPES = {"float32", "int8", "uint8", "int32", "int64", "bool", None}


class Auto:
    """Takes a graph if onnxruntime is installed and saves more time than its opening takes."""

    name = "onnxruntime"

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def takes(self, part: GraphPart, forwards: int) -> bool:
        nodes = part.inference.nodes
        if not has_runtime() or any(
            dtype not in _DTYPES for node in nodes for dtype in part.inference.types[node]
        ):
            return False
        operators = sum(1 for node in nodes if not node.is_variable)
        opening = (
            _START
            + _BY_NODE * operators
            + _BY_BYTE * sum(array.nbytes for array in part.constants.values())
        )
        saved = (_SAVED_OPTIMIZED if part.repeated else _SAVED) / count_threads()
        return forwards * saved * count_multiply_adds(part.inference) >= _MARGIN * opening

    def compile(self, part: GraphPart) -> Compiled:
        if self._engine is None:
            self._engine = _create_onnxruntime()
        return self._engine.compile(part)
