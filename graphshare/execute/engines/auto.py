"""The engine ``auto``: onnxruntime where it saves more than its opening takes, estimated from the multiply-adds of a graph."""

from __future__ import annotations

from graphshare.analysis.cost import count_multiply_adds
from graphshare.execute.engines.engine import Compiled, Engine, Part
from graphshare.execute.engines.onnx_session import count_threads, has_runtime

# Seconds, measured with AVX-512 on ResNet-50 and smaller nets; they err on numpy's side.
_START = 0.15  # importing onnxruntime and the translations
_BY_NODE = 2e-4  # translating a node, and the session's work on it
_BY_BYTE = 4e-10  # copying constants into a session
_SAVED = 9e-12  # by a multiply-add on one thread, in a session that does not optimize the graph
_SAVED_OPTIMIZED = 13e-12  # in one that does
_MARGIN = 1.2
_DTYPES = {"float32", "int8", "uint8", "int32", "int64", "bool", None}  # onnxruntime has few kernels for others


class Auto:
    """Takes what is worth its opening, if onnxruntime is installed; numpy computes all else."""

    name = "onnxruntime"

    def __init__(self) -> None:
        self._engine: Engine | None = None

    def takes(self, part: Part, forwards: int) -> bool:
        """Whether onnxruntime computes a part ``forwards`` times, its opening included, in less time than numpy."""
        nodes = part.inference.nodes
        if not has_runtime() or any(dtype not in _DTYPES for node in nodes for dtype in part.inference.types[node]):
            return False
        operators = sum(1 for node in nodes if not node.is_variable)
        opening = _START + _BY_NODE * operators + _BY_BYTE * sum(array.nbytes for array in part.constants.values())
        saved = (_SAVED_OPTIMIZED if part.repeated else _SAVED) / count_threads()
        return forwards * saved * count_multiply_adds(part.inference) >= _MARGIN * opening

    def compile(self, part: Part) -> Compiled:
        """Return the part in a session of onnxruntime."""
        if self._engine is None:
            from graphshare.execute.engines.onnxruntime_engine import OnnxRuntime  # start-up: small graphs need no translations

            self._engine = OnnxRuntime()
        return self._engine.compile(part)
