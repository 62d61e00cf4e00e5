"""What some outputs need: the minimal sub-graph, found from the targets."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphshare.builder.var import Var
from graphshare.ir.graph import VARIABLE, Graph, Node
from graphshare.ir.walk import post_order

MXNET_VERSION = ("int", 10901)


def needed(targets: Iterable[Var]) -> list[Node]:
    """The variables and operators that ``targets`` need, inputs before consumers."""
    return post_order(target.node for target in targets)


def operators(targets: Iterable[Var]) -> list[Node]:
    """The operators that run when ``targets`` are computed, in that order."""
    return [node for node in needed(targets) if node.op != VARIABLE]


def graph_of(targets: Sequence[Var]) -> Graph:
    """The minimal graph with ``targets`` as its heads, as MXNet 1.9.1 would write it."""
    return Graph(tuple(needed(targets)), tuple(target.entry for target in targets), {"mxnet_version": list(MXNET_VERSION)})


def groups(nodes: Iterable[Node]) -> dict[str, list[Node]]:
    """Operators by the scope that their names begin with (empty for none), for drawing; in order."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if node.op != VARIABLE:
            found.setdefault(node.name.rpartition("/")[0], []).append(node)
    return found
