"""A node's subgraph bodies as kernels see them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order, reachable
from graphshare.ops.index import FAMILY_OF
from graphshare.ops.kernel import Attrs, KernelError, Shapes, Types
from graphshare.ops.registry import canonical, find_signature
from graphshare.text.format import format_count

What = Literal["shapes", "types"]
InferBody = Callable[
    [Graph, What, Sequence[Any], Sequence[Any]], tuple[Sequence[Any], Sequence[Any]]
]
"""Infers shapes or dtypes of a body's variables (in MXNet's order) and heads from the known ones.
"""


def inner_operators(graph: Graph) -> tuple[tuple[str, Attrs], ...]:
    """Return the canonical names and attributes of a subgraph's operators, inputs before users."""
    rows = [
        (canonical(n.op), find_signature(n), n.attrs)
        for n in post_order(e.node for e in graph.heads)
        if not n.is_variable
    ]
    return tuple(
        (op, signature.parse(attrs)[0] if signature is not None else attrs)
        for op, signature, attrs in rows
    )


def inner_variables(graph: Graph) -> list[Node]:
    """Return a subgraph's variables, in the order in which it takes arrays."""
    return [node for node in reachable(graph) if node.is_variable]


def draws_numbers(node: Node) -> bool:
    """Whether an operator, or one in its subgraphs, draws random numbers at inference."""
    if node.is_variable:
        return False
    operators = [
        canonical(node.op),
        *(op for graph in node.subgraphs for op, _ in inner_operators(graph)),
    ]
    return any(FAMILY_OF.get(op) == "random" for op in operators)


class NodeBodies:
    """The :class:`~graphshare.ops.kernel.Bodies` of one node; results are cached."""

    def __init__(self, node: Node, infer_body: InferBody) -> None:
        self._graphs, self._infer_body = node.subgraphs, infer_body
        self._known: dict[tuple[Any, ...], tuple[Sequence[Any], Sequence[Any]]] = {}

    def operators(self, number: int) -> Sequence[tuple[str, Attrs]]:
        return inner_operators(self._graph(number))

    def shapes(self, number: int, variables: Shapes, heads: Shapes) -> tuple[Shapes, Shapes]:
        """Infer shapes of variables and heads from the known ones."""
        return self._infer(number, "shapes", variables, heads)

    def types(self, number: int, variables: Types, heads: Types) -> tuple[Types, Types]:
        return self._infer(number, "types", variables, heads)

    def _graph(self, number: int) -> Graph:
        if number >= len(self._graphs):
            raise KernelError(
                f"the node has {format_count(len(self._graphs), 'subgraph')}, expected at least {number + 1}"
            )
        return self._graphs[number]

    def _infer(
        self, number: int, what: What, variables: Sequence[Any], heads: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        # Rules run until nothing changes: the same question recurs.
        key = (number, what, tuple(variables), tuple(heads))
        if key not in self._known:
            self._known[key] = self._infer_body(self._graph(number), what, variables, heads)
        return self._known[key]
