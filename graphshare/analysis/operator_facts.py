"""What needs facts about operators, which graphshare has of MXNet's operators alone, is refused by name elsewhere."""

from __future__ import annotations

from graphshare.errors import Fault, RefusedError
from graphshare.ir.graph import Graph

_HINT = "rewriting, comparing, inspecting and drawing work on ONNX models; values are computed by onnxruntime"


def require_operator_facts(graph: Graph, what: str, *, where: str = "", hint: str = _HINT) -> None:
    """Refuse ``what`` for a graph of another format than MXNet's.

    Raises:
        RefusedError: the graph was read from an ONNX file.
    """
    if graph.source.format != "mxnet":
        message = f"{what} needs to know what operators do, and graphshare knows MXNet's operators, not those of ONNX"
        raise RefusedError(Fault(message, where=where, hint=hint))
