"""What is learned of shapes and types when one operator is applied: inference over it alone, with stubs for its inputs.

So authoring costs the same for every operator however large the graph is. What follows for nodes further back is found when
the graph runs.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from graphshare.analysis.shapes import infer
from graphshare.builder.var import Var
from graphshare.ir.graph import VARIABLE, Entry, Graph, Node
from graphshare.kernels.kernel import Shape


class Learned(msgspec.Struct, frozen=True):
    """Shapes and types by position of the input, and of the visible outputs."""

    inputs: list[Shape]
    input_types: list[str | None]
    outputs: list[Shape]
    output_types: list[str | None]


def learn(operator: str, name: str, attrs: Mapping[str, str], given: Mapping[int, Var], count: int) -> Learned:
    """What follows for an operator with ``count`` inputs, of which some are given.

    Raises:
        RefusedError: the inputs cannot go together; the operator and their shapes are named.
    """
    stubs: dict[Entry, Node] = {}
    shapes, types = {}, {}
    nodes = []
    for position in range(count):
        var = given.get(position)
        if var is not None and var.entry in stubs:
            nodes.append(stubs[var.entry])
            continue
        stub = Node(VARIABLE, var.node.name if var is not None else "?")
        nodes.append(stub)
        if var is None:
            continue
        stubs[var.entry] = stub
        if var.shape is not None:
            shapes[stub] = var.shape
        if var.dtype is not None:
            types[stub] = var.dtype
    node = Node(operator, name, attrs, tuple(map(Entry, nodes)))
    order = [*dict.fromkeys(nodes), node]
    found = infer(Graph(tuple(order), (Entry(node),)), shapes, types, nodes=order, default_type=None)
    return Learned(
        [found.shapes[stub][0] for stub in nodes],
        [found.types[stub][0] for stub in nodes],
        list(found.shapes[node]),
        list(found.types[node]),
    )
