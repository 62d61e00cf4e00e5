"""The cost of a graph by its shapes: multiply-adds and parameters, by layer and by operator.

Only products of matrices or windows count: a multiply-add is one product added to a sum. Biases,
activations and means count nothing, as in published tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from graphshare.analysis.roles import Kind, Role
from graphshare.ir.graph import MXNET_DOMAIN, Graph, Node
from graphshare.ops.bodies import inner_variables
from graphshare.ops.inference import Inference, infer
from graphshare.ops.kernel import Shape
from graphshare.ops.registry import find_node_kernel, find_signature, visible_outputs
from graphshare.ops.unification import count_elements, is_known, sum_if_known


class OperatorTotals(msgspec.Struct):
    """Totals of one operator; None if a shape is unknown. A tied parameter counts at its first use."""

    nodes: int = 0
    parameters: int | None = 0
    multiply_adds: int | None = 0


class LayerCost(msgspec.Struct, frozen=True):
    """One operator of the graph, with the shapes of its visible outputs.

    ``parameters`` counts elements, auxiliary states included, that no earlier layer uses;
    ``shared`` the others. Either is None if a shape is unknown.
    """

    name: str
    op: str
    outputs: tuple[Shape, ...]
    parameters: int | None
    shared: int | None
    multiply_adds: int | None


class Totals(msgspec.Struct, frozen=True):
    """Totals of the graph. ``parameters`` and ``auxiliary`` count elements; None if a shape is unknown."""

    parameters: int | None
    auxiliary: int | None
    multiply_adds: int | None
    operators: dict[str, OperatorTotals]
    layers: list[LayerCost]


def multiply_adds(node: Node, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """Return a node's multiply-adds: 0 if the operator has no cost, None if a shape or it is
    unknown.
    """
    kernel, signature = find_node_kernel(node), find_signature(node)
    if kernel is None or signature is None:
        return 0 if node.details.domain == MXNET_DOMAIN else None
    if kernel.body_cost is not None and node.subgraphs:
        attrs = signature.parse(node.attrs)[0]
        return kernel.body_cost(
            attrs, inputs, lambda i, shapes: _of_graph(node.subgraphs[i], shapes)
        )
    if kernel.cost is None:
        return 0
    # Costs follow from the first output; others may be hidden and of unknown shape.
    if not all(map(is_known, (*inputs, *outputs[:1]))):
        return None
    attrs = signature.parse(node.attrs)[0]
    return kernel.cost(attrs, _list_sizes(inputs), _list_sizes(outputs))


def _list_sizes(shapes: Sequence[Shape]) -> list[tuple[int, ...]]:
    return [tuple(size for size in shape or () if size is not None) for shape in shapes]


def _of_graph(graph: Graph, variables: Sequence[Shape]) -> int | None:
    shapes = {
        node: shape
        for node, shape in zip(inner_variables(graph), variables, strict=True)
        if shape is not None
    }
    inference = infer(graph, shapes, {})
    return sum_if_known(
        [
            multiply_adds(node, _list_input_shapes(node, inference), inference.shapes[node])
            for node in inference.nodes
        ]
    )


def count_multiply_adds(inference: Inference) -> int:
    """Sum the multiply-adds of nodes of known shape."""
    total = 0
    for node in inference.nodes:
        if not node.is_variable:
            cost = multiply_adds(node, _list_input_shapes(node, inference), inference.shapes[node])
            total += cost or 0
    return total


def _list_input_shapes(node: Node, inference: Inference) -> list[Shape]:
    shapes: list[Shape] = []
    for entry in node.inputs:
        outputs = inference.shapes[entry.node]
        shapes.append(outputs[entry.index] if entry.index < len(outputs) else None)
    return shapes


def _list_layers(inference: Inference, roles: Mapping[Node, Role]) -> list[LayerCost]:
    layers = []
    counted: set[Node] = set()
    for node in inference.nodes:
        if node.is_variable:
            continue
        # A layer may read one parameter twice.
        held = {e.node for e in node.inputs if e.node.is_variable and roles[e.node].is_parameter}
        new = _count_numbers(held - counted, inference)
        old = _count_numbers(held & counted, inference)
        counted |= held
        outputs = tuple(
            shape for shape, _ in zip(inference.shapes[node], visible_outputs(node), strict=False)
        )
        cost = multiply_adds(node, _list_input_shapes(node, inference), inference.shapes[node])
        layers.append(LayerCost(node.name, node.op, outputs, new, old, cost))
    return layers


def _count_numbers(variables: Iterable[Node], inference: Inference) -> int | None:
    return sum_if_known([count_elements(inference.shapes[variable][0]) for variable in variables])


def totals(inference: Inference, roles: Mapping[Node, Role]) -> Totals:
    """Sum the costs of all nodes in ``inference``."""
    operators: dict[str, OperatorTotals] = {}
    layers = _list_layers(inference, roles)
    for layer in layers:
        total = operators.setdefault(layer.op, OperatorTotals())
        total.nodes += 1
        total.multiply_adds = sum_if_known([total.multiply_adds, layer.multiply_adds])
        total.parameters = sum_if_known([total.parameters, layer.parameters])
    by_kind: dict[Kind, list[Node]] = {kind: [] for kind in Kind}
    for node in inference.nodes:
        if node in roles:
            by_kind[roles[node].kind].append(node)
    return Totals(
        parameters=_count_numbers(by_kind[Kind.PARAMETER], inference),
        auxiliary=_count_numbers(by_kind[Kind.AUXILIARY], inference),
        multiply_adds=sum_if_known([total.multiply_adds for total in operators.values()]),
        operators=operators,
        layers=layers,
    )
