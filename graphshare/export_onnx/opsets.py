"""Versions of ONNX's operator set. Translations are written for 17; some nodes differ in other versions."""

from __future__ import annotations

from graphshare.errors import Fault, UsageError
from graphshare.ir.graph import Graph, Node, NodeDetails
from graphshare.ir.walk import iter_nodes
from graphshare.text.format import format_names

DEFAULT = 17
IR_VERSIONS = {13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 8, 19: 9, 20: 9, 21: 10}
"""The lowest IR version of a model, by version of the operator set."""

FIRST = {"GridSample": 16, "HardSwish": 14, "LayerNormalization": 17, "Trilu": 14}
"""The first version with the form of an operator that translations write, if it is later than 13."""

FIRST_WITH = {
    ("Reshape", "allowzero"): 14,
    ("RoiAlign", "coordinate_transformation_mode"): 16,
    ("ScatterElements", "reduction"): 16,
    ("ScatterND", "reduction"): 16,
}
"""The same for operators with an attribute added later."""


def check_opset(opset: int) -> None:
    """Refuse an unsupported version of the operator set. Raises UsageError."""
    if opset not in IR_VERSIONS:
        message = (
            f"`opset={opset}` is not supported, expected {min(IR_VERSIONS)} to {max(IR_VERSIONS)}"
        )
        raise UsageError(
            Fault(message, hint=f"onnxruntime supports opset {DEFAULT} since its version 1.12")
        )


def refuse_versions(graph: Graph, opset: int) -> list[Fault]:
    """Return a fault for each operator that version ``opset`` lacks in the form of these nodes."""
    wrong: dict[str, list[str]] = {}
    for node, details in list_operators(graph):
        if not details.domain and _is_newer(node, opset):
            wrong.setdefault(node.op, []).append(details.label)
    return [
        Fault(
            f"opset {opset} has no {op} in this form: {format_names(names, 6)}",
            hint=f"use `opset={DEFAULT}`",
        )
        for op, names in wrong.items()
    ]


def _is_newer(node: Node, opset: int) -> bool:
    versions = [FIRST.get(node.op, 0)]
    versions += [FIRST_WITH.get((node.op, name), 0) for name in node.attrs]
    return max(versions) > opset


def list_operators(graph: Graph) -> list[tuple[Node, NodeDetails]]:
    """Return the operators of an ONNX graph and of the bodies in it."""
    return [(node, node.details) for node in iter_nodes(graph) if node.op]


def list_versions(graph: Graph, opset: int) -> dict[str, int]:
    """Return the versions of the operator sets that a graph uses, by domain; ONNX's own is ``opset``."""
    return {
        "": opset,
        **{details.domain: 1 for _, details in list_operators(graph) if details.domain},
    }
