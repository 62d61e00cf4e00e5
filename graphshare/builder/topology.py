"""The minimal subgraph that computes some targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.builder.var import Var
from graphshare.formats.mxnet.source import VERSION, MxnetSource
from graphshare.ir.graph import Graph, Node
from graphshare.ir.walk import post_order

MXNET_VERSION = ("int", 10901)


def list_needed(targets: Iterable[Var]) -> list[Node]:
    """Return the variables and operators that ``targets`` need, inputs before consumers."""
    return post_order(target.node for target in targets)


def operators(targets: Iterable[Var]) -> list[Node]:
    """Return the operators that run when ``targets`` are computed, in that order."""
    return [node for node in list_needed(targets) if not node.is_variable]


def extract_graph(targets: Sequence[Var]) -> Graph:
    """Return the minimal graph with ``targets`` as its heads, as MXNet 1.9.1 would write it."""
    heads = tuple(target.entry for target in targets)
    return Graph(tuple(list_needed(targets)), heads, {VERSION: list(MXNET_VERSION)}, MxnetSource())


def groups(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Group operators by the scope in their names (empty for none), in order, for drawing."""
    by_scope: dict[str, list[Node]] = {}
    for node in nodes:
        if not node.is_variable:
            by_scope.setdefault(node.name.rpartition("/")[0], []).append(node)
    return by_scope
