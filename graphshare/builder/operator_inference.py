"""Shape and dtype inference over one operator, with stubs in place of its inputs.

The cost of applying an operator therefore does not depend on the size of the graph. What follows for earlier nodes is inferred
when the graph runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.shapes import infer
from graphshare.builder.var import Var
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.kernel import Shape


class InferredOperator(msgspec.Struct, frozen=True):
    """Shapes and dtypes of the inputs by position, and of the visible outputs."""

    inputs: list[Shape]
    input_dtypes: list[str | None]
    outputs: list[Shape]
    output_dtypes: list[str | None]


def infer_operator(
    operator: str, name: str, attrs: Mapping[str, str], inputs: Mapping[int, Var], count: int
) -> InferredOperator:
    """Infer shapes and dtypes of an operator with ``count`` inputs, of which ``inputs`` exist already.

    Raises:
        RefusedError: the inputs do not fit each other; the message names the operator and their shapes.
    """
    stubs: dict[Entry, Node] = {}
    shapes, dtypes = {}, {}
    nodes = []
    for position in range(count):
        var = inputs.get(position)
        if var is not None and var.entry in stubs:
            nodes.append(stubs[var.entry])
            continue
        stub = Node("", var.node.name if var is not None else "?")
        nodes.append(stub)
        if var is None:
            continue
        stubs[var.entry] = stub
        if var.shape is not None:
            shapes[stub] = var.shape
        if var.dtype is not None:
            dtypes[stub] = var.dtype
    node = Node(operator, name, attrs, tuple(map(Entry, nodes)))
    order = [*dict.fromkeys(nodes), node]
    inference = infer(Graph(tuple(order), (Entry(node),)), shapes, dtypes, nodes=order, default_type=None)
    return InferredOperator(
        [inference.shapes[stub][0] for stub in nodes],
        [inference.types[stub][0] for stub in nodes],
        list(inference.shapes[node]),
        list(inference.types[node]),
    )
