"""The sub-graphs of a node, as far as a kernel may see them: which operators they have, and what follows inside of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order, reachable
from graphshare.ops.kernel import Attrs, KernelError, Shapes, Types
from graphshare.ops.registry import canonical, lookup

What = Literal["shapes", "types"]
Inferred = Callable[[Graph, What, Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]]
"""What follows inside of a graph from what is known of its variables, in MXNet's order, and of its heads."""


def inner_operators(graph: Graph) -> tuple[tuple[str, Attrs], ...]:
    """The operators of a sub-graph by their canonical names, with their attributes, inputs before users."""
    found = [(canonical(n.op), lookup(n.op), n.attrs) for n in post_order(e.node for e in graph.heads) if not n.is_variable]
    return tuple((op, signature.parse(attrs)[0] if signature is not None else attrs) for op, signature, attrs in found)


def inner_variables(graph: Graph) -> list[Node]:
    """The variables of a sub-graph, in the order in which arrays are handed to it."""
    return [node for node in reachable(graph) if node.is_variable]


class NodeBodies:
    """What :class:`~graphshare.ops.kernel.Bodies` promises, for one node; each question is worked out once."""

    def __init__(self, node: Node, inferred: Inferred) -> None:
        self._graphs, self._inferred = node.subgraphs, inferred
        self._known: dict[tuple[Any, ...], tuple[Sequence[Any], Sequence[Any]]] = {}

    def operators(self, number: int) -> Sequence[tuple[str, Attrs]]:
        """The operators of sub-graph ``number``."""
        return inner_operators(self._graph(number))

    def shapes(self, number: int, variables: Shapes, heads: Shapes) -> tuple[Shapes, Shapes]:
        """Shapes of the variables and heads of sub-graph ``number``, from what is known of them."""
        return self._asked(number, "shapes", variables, heads)

    def types(self, number: int, variables: Types, heads: Types) -> tuple[Types, Types]:
        """As :meth:`shapes`, of types."""
        return self._asked(number, "types", variables, heads)

    def _graph(self, number: int) -> Graph:
        if number >= len(self._graphs):
            raise KernelError(f"the node has {len(self._graphs)} sub-graphs, and needs another")
        return self._graphs[number]

    def _asked(
        self, number: int, what: What, variables: Sequence[Any], heads: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        key = (number, what, tuple(variables), tuple(heads))
        if key not in self._known:
            self._known[key] = self._inferred(self._graph(number), what, variables, heads)
        return self._known[key]
