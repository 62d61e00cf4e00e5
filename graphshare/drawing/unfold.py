"""Unfold a graph: place operators in bodies of If, Loop and Scan, and in called functions, beside
the graph's own.

An operator with bodies also reads their results. Operators in the body read captured values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from graphshare.formats.model_format import find_format
from graphshare.ir.graph import EMPTY, Entry, Graph, Node
from graphshare.ir.walk import Body, list_bodies, own_inputs, topological

_MOST_CALLS = 200  # calls of functions that are unfolded: functions may call each other
_DEEPEST = 12


class UnfoldedGraph(msgspec.Struct, frozen=True, eq=False):
    """``images`` maps original nodes to their images, ``bodies`` nodes in bodies to their body."""

    graph: Graph
    images: Mapping[Node, Node] = EMPTY
    bodies: Mapping[Node, OpenBody] = EMPTY


class OpenBody(msgspec.Struct, eq=False):
    """A body whose operators stand beside ``owner``, the image of its operator, where it is called
    ``key``.
    """

    key: str
    depth: int
    owner: Node


def unfold(graph: Graph) -> UnfoldedGraph:
    """Return ``graph`` with its bodies unfolded, itself if there are none."""
    find_call = find_format(graph).bodies.find_calls(graph)
    if not any(node.subgraphs or find_call(node) is not None for node in graph.nodes):
        return UnfoldedGraph(graph)
    unfolder = _Unfolder(find_call)
    images = unfolder.unfold(graph, {}, None, 0)
    heads = tuple([Entry(images[head.node], head.index) for head in graph.heads])
    return UnfoldedGraph(
        replace(graph, nodes=tuple(unfolder.nodes), heads=heads), images, unfolder.bodies
    )


class _Unfolder:
    def __init__(self, find_call: Callable[[Node], Body | None]) -> None:
        self.nodes: list[Node] = []
        self.bodies: dict[Node, OpenBody] = {}
        self._find_call = find_call
        self._calls = 0

    def unfold(
        self, graph: Graph, outer: Mapping[Node, Entry], body: OpenBody | None, depth: int
    ) -> dict[Node, Node]:
        """Return the images of a graph's nodes, new in each body; ``outer`` maps its variables to
        their outer values.
        """
        images: dict[Node, Node] = {}

        def follow(entry: Entry) -> Entry:
            return outer.get(entry.node) or Entry(images[entry.node], entry.index, entry.version)

        for node in topological(graph):
            if node in outer:
                continue
            inner, own_entries = self._open(node, depth)
            results: list[Entry] = []
            opened = []
            for key, each in inner.items():
                opened.append(OpenBody(key, depth, node))
                captured = {variable: follow(entry) for variable, entry in each.captured.items()}
                within = self.unfold(each.graph, captured, opened[-1], depth + 1)
                results += [
                    captured.get(head.node) or Entry(within[head.node], head.index)
                    for head in each.graph.heads
                ]
            own = tuple(map(follow, own_entries))
            deps = tuple([images[dep] for dep in node.control_deps])
            # So that lines lead out of open bodies.
            image = replace(
                node,
                inputs=(*own, *results),
                control_deps=deps,
                subgraphs=() if inner else node.subgraphs,
            )
            images[node] = image
            self.nodes.append(image)
            # The image exists only after the bodies.
            for each_body in opened:
                each_body.owner = image
            if body is not None:
                self.bodies[image] = body
        return images

    def _open(self, node: Node, depth: int) -> tuple[Mapping[str, Body], Sequence[Entry]]:
        """Return the unfolded bodies of an operator by name, and the inputs that it still reads
        itself.
        """
        if depth >= _DEEPEST:
            return {}, node.inputs
        call = self._find_call(node) if self._calls < _MOST_CALLS else None
        if call is None:
            return list_bodies(node), own_inputs(node)
        self._calls += 1
        return {"function": call}, ()
