"""Facts about Paddle's programs for several rules. Symbol files need not import this."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from graphshare.formats.paddle.records import PARAMETER
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import own_inputs
from graphshare.reports.model import Steps

_BLOCK: Steps = ("program", "regions", 0, "blocks", 0, "ops")


def find_place(graph: Graph, node: Node) -> Steps:
    """Return the place of an operator in the program's file; in a body, the place of all operators."""
    # Every operator of the program is a node, in the order of the file.
    return (*_BLOCK, graph.nodes.index(node)) if node in graph.nodes else _BLOCK


def list_uses(graph: Graph) -> Iterator[tuple[Node, Node, int]]:
    """Yield the parameters that operators read, bodies included, each with the operator and the
    input's position.
    """
    scopes: list[tuple[Graph, Mapping[Node, Node]]] = [(graph, {})]
    for scope, captured in scopes:  # grows during the loop
        for node in scope.nodes:
            own = own_inputs(node)
            places = (
                place
                for place in range(len(own) + len(node.details.absent))
                if place not in node.details.absent
            )
            for place, entry in zip(places, own, strict=False):
                source = captured.get(entry.node, entry.node)
                if source.details.holds_value or source.op == PARAMETER:
                    yield source, node, place
            outer = iter(node.inputs[len(own) :])
            for body in node.subgraphs:
                inner = {capture: next(outer).node for capture in body.captures}
                scopes.append(
                    (
                        body,
                        {
                            capture: captured.get(source, source)
                            for capture, source in inner.items()
                        },
                    )
                )
