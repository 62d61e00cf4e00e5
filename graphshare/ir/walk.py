"""Walks over graphs, none recursive: real graphs are chains of thousands of nodes."""

from __future__ import annotations

import copyreg
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, TypeVar

import msgspec

from graphshare.errors import GraphshareError
from graphshare.ir.graph import Entry, Graph, Node

Key = TypeVar("Key", bound=Hashable)


def post_order(roots: Iterable[Node], *, stop: Collection[Node] = ()) -> list[Node]:
    """Return the nodes that ``roots`` need, once each, inputs before consumers: MXNet's order.

    Depth first, in the order of the roots; inputs come before control dependencies. ``stop`` nodes
    are listed but not entered.
    """
    order: list[Node] = []
    seen: set[Node] = set()
    stack: list[tuple[Node, bool]] = []
    for root in roots:
        if root in seen:
            continue
        stack.append((root, False))
        while stack:
            node, entered = stack.pop()
            if entered:
                order.append(node)
                continue
            if node in seen:
                continue
            seen.add(node)
            if (not node.inputs and not node.control_deps) or node in stop:
                order.append(node)
                continue
            # The last node pushed is popped first.
            stack.append((node, True))
            stack.extend([(dep, False) for dep in reversed(node.control_deps) if dep not in seen])
            stack.extend(
                [(entry.node, False) for entry in reversed(node.inputs) if entry.node not in seen]
            )
    return order


def _reduce_graph(graph: Graph) -> tuple[Any, ...]:
    """Nodes come first, inputs before consumers, so that pickling does not recurse."""
    return _restore_graph, (
        post_order(graph.nodes),
        *(getattr(graph, name) for name in graph.__struct_fields__),
    )


def _restore_graph(nodes: list[Node], *fields: Any) -> Graph:
    return Graph(*fields)


copyreg.pickle(Graph, _reduce_graph)


def iter_graphs(graph: Graph) -> Iterator[Graph]:
    """Yield a graph and its subgraphs, outer ones first."""
    pending = [graph]
    while pending:
        each = pending.pop()
        yield each
        pending.extend([body for node in each.nodes for body in node.subgraphs])


def iter_nodes(graph: Graph) -> Iterator[Node]:
    """Return the nodes of a graph and its subgraphs, those of outer graphs first."""
    return chain.from_iterable(each.nodes for each in iter_graphs(graph))


def reachable(graph: Graph) -> list[Node]:
    """Return the nodes that the heads need, in MXNet's order."""
    return post_order(entry.node for entry in graph.heads)


def node_ids(graph: Graph) -> dict[Node, int]:
    """Return each node's id: its place in the file."""
    return dict(zip(graph.nodes, range(len(graph.nodes)), strict=True))


def consumers(nodes: Iterable[Node]) -> dict[Node, list[tuple[Node, int]]]:
    """Return the ``(consumer, input position)`` pairs of each node with consumers, in order."""
    users: dict[Node, list[tuple[Node, int]]] = {}
    for node in nodes:
        for position, entry in enumerate(node.inputs):
            users.setdefault(entry.node, []).append((node, position))
    return users


def list_value_places(entries: Iterable[Entry]) -> list[tuple[Node, int]]:
    """Return node and output index of each entry; entries themselves are compared by identity."""
    return [(entry.node, entry.index) for entry in entries]


def find_dependents(nodes: Iterable[Node], starts: Iterable[Node]) -> set[Node]:
    """Return ``starts`` and all of ``nodes``, inputs first, that need them."""
    dependents = set(starts)
    for node in nodes:
        if any(entry.node in dependents for entry in node.inputs):
            dependents.add(node)
    return dependents


def is_topological(nodes: Iterable[Node]) -> bool:
    """Whether every node comes after its inputs and control dependencies."""
    seen: set[Node] = set()
    for node in nodes:
        if any(entry.node not in seen for entry in node.inputs) or any(
            dep not in seen for dep in node.control_deps
        ):
            return False
        seen.add(node)
    return True


def topological(graph: Graph) -> tuple[Node, ...]:
    """Return all nodes, even unreachable ones, inputs first; in file order if possible."""
    return graph.nodes if is_topological(graph.nodes) else tuple(post_order(graph.nodes))


def order_by_references(
    roots: Iterable[Key],
    references: Callable[[Key], Iterable[Key]],
    refuse_cycle: Callable[[list[Key]], GraphshareError],
) -> Iterator[Key]:
    """Yield ``roots`` and all that they refer to, references first, otherwise in the given order.

    Raises the error of ``refuse_cycle`` for a cycle: each key refers to the next.
    """
    done: set[Key] = set()
    for root in roots:
        path = {} if root in done else {root: iter(references(root))}
        while path:
            key, rest = next(reversed(path.items()))
            following = next(rest, None)
            if following is None:
                path.popitem()
                done.add(key)
                yield key
            elif following in path:
                raise refuse_cycle([*path][[*path].index(following) :])
            elif following not in done:
                path[following] = iter(references(following))


def format_cycle(names: Sequence[str]) -> str:
    """Return a cycle as a path; a long one is cut in the middle."""
    parts = (
        names if len(names) <= 8 else [*names[:4], f"... {len(names) - 7} more ...", *names[-3:]]
    )
    return " <- ".join([*parts, names[0]])


class Body(msgspec.Struct, frozen=True, eq=False):
    """A subgraph of a node; ``captured`` maps its captures to entries of the enclosing graph."""

    graph: Graph
    captured: dict[Node, Entry]


def count_inputs(node: Node) -> int:
    """Count a node's own inputs, without captures of its subgraphs."""
    return (
        len(node.inputs) - sum([len(graph.captures) for graph in node.subgraphs])
        if node.subgraphs
        else len(node.inputs)
    )


def own_inputs(node: Node) -> tuple[Entry, ...]:
    """Return a node's inputs without captures of its subgraphs."""
    return node.inputs[: count_inputs(node)] if node.subgraphs else node.inputs


def list_operands(node: Node) -> list[Entry | None]:
    """Return a node's own inputs by their positions in the file, None for absent ones."""
    entries, absent = iter(own_inputs(node)), node.details.absent
    return [
        None if place in absent else next(entries)
        for place in range(count_inputs(node) + len(absent))
    ]


def find_operand(node: Node, place: int) -> Entry | None:
    """Return a node's own input by its position in the file; None for an absent one."""
    operands = list_operands(node)
    return operands[place] if place < len(operands) else None


def list_output_names(node: Node) -> tuple[str, ...]:
    """Return the names of a node's outputs; a variable is its own output."""
    return node.details.outputs if node.op else (node.name,)


def list_named_outputs(nodes: Iterable[Node]) -> list[Entry]:
    """Return the named outputs of nodes, in order."""
    return [
        Entry(node, index)
        for node in nodes
        for index, name in enumerate(list_output_names(node))
        if name
    ]


def list_bodies(node: Node) -> dict[str, Body]:
    """Return a node's subgraphs by attribute name, in formats without such names by position.

    If an attribute has several, the position in it follows its name.
    """
    if not node.subgraphs:
        return {}
    names = node.details.bodies or tuple(map(str, range(len(node.subgraphs))))
    counts, places = Counter(names), Counter[str]()
    entries = iter(node.inputs[count_inputs(node) :])
    bodies: dict[str, Body] = {}
    for name, graph in zip(names, node.subgraphs, strict=True):
        captured = {variable: next(entries) for variable in graph.captures}
        bodies[f"{name} {places[name]}" if counts[name] > 1 else name] = Body(graph, captured)
        places[name] += 1
    return bodies
