"""What a graph costs to compute, read off its shapes: multiply-adds by operator, and parameters, each node once.

Counted are the operators that multiply matrices or windows. A multiply-add is one product added to a sum; a bias, an
activation, a mean count nothing, as is usual in tables of models.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from graphshare.analysis.bodies import inner_variables
from graphshare.analysis.roles import Role
from graphshare.analysis.shapes import Inference, infer
from graphshare.ir.graph import Graph, Node
from graphshare.ops.kernel import Shape
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.unification import size_of


class OperatorTotals(msgspec.Struct):
    """All nodes of one operator. ``parameters`` counts numbers; a tied parameter counts for the operator that uses it first.

    ``multiply_adds`` is None where a shape that it needs is not known.
    """

    nodes: int = 0
    parameters: int = 0
    multiply_adds: int | None = 0


class Totals(msgspec.Struct, frozen=True):
    """The whole graph. ``parameters`` and ``auxiliary`` count numbers, each node once; None where a shape is not known."""

    parameters: int | None
    auxiliary: int | None
    multiply_adds: int | None
    operators: dict[str, OperatorTotals]


def multiply_adds(node: Node, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """Return the multiply-adds of one node; 0 for an operator without a cost, None where a shape is unknown."""
    kernel, signature = find_kernel(node.op), lookup(node.op)
    if kernel is None or signature is None:
        return 0
    if kernel.body_cost is not None and node.subgraphs:
        attrs = signature.parse(node.attrs)[0]
        return kernel.body_cost(attrs, inputs, lambda i, shapes: _of_graph(node.subgraphs[i], shapes))
    if kernel.cost is None:
        return 0
    if any(shape is None or None in shape for shape in (*inputs, *outputs[:1])):
        return None
    known = [[tuple(d for d in shape or () if d is not None) for shape in shapes] for shapes in (inputs, outputs)]
    return kernel.cost(signature.parse(node.attrs)[0], *known)


def _of_graph(graph: Graph, variables: Sequence[Shape]) -> int | None:
    """The multiply-adds of a subgraph whose variables have these shapes."""
    shapes = {node: shape for node, shape in zip(inner_variables(graph), variables, strict=True) if shape is not None}
    found = infer(graph, shapes, {})
    return _sum([multiply_adds(node, _inputs_of(node, found), found.shapes[node]) for node in found.nodes])


def _inputs_of(node: Node, found: Inference) -> list[Shape]:
    return [row[e.index] if e.index < len(row) else None for e in node.inputs for row in (found.shapes[e.node],)]


def totals(found: Inference, roles: Mapping[Node, Role]) -> Totals:
    """The costs of all that ``found`` covers."""
    operators: dict[str, OperatorTotals] = {}
    counted: set[Node] = set()
    for node in found.nodes:
        if node.is_variable:
            continue
        of = operators.setdefault(node.op, OperatorTotals())
        of.nodes += 1
        cost = multiply_adds(node, _inputs_of(node, found), found.shapes[node])
        of.multiply_adds = None if cost is None or of.multiply_adds is None else of.multiply_adds + cost
        for entry in node.inputs:
            variable = entry.node
            if variable.is_variable and variable not in counted and roles[variable].is_parameter:
                counted.add(variable)
                of.parameters += size_of(found.shapes[variable][0]) or 0
    trained = [n for n in found.nodes if n in roles and roles[n].kind.value == "parameter"]
    auxiliary = [n for n in found.nodes if n in roles and roles[n].kind.value == "auxiliary"]
    return Totals(
        parameters=_sum([size_of(found.shapes[node][0]) for node in trained]),
        auxiliary=_sum([size_of(found.shapes[node][0]) for node in auxiliary]),
        multiply_adds=_sum([of.multiply_adds for of in operators.values()]),
        operators=operators,
    )


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
