"""Which nodes an engine computes together: few convex segments, between which numpy computes what the engine cannot take."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import msgspec

from graphshare.analysis.name_lists import output_name
from graphshare.analysis.shapes import Inference, ShapeTable
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.rebuild import rebuild

Output = tuple[Node, int]


class Segment(msgspec.Struct, frozen=True, eq=False):
    """Operators that are computed together, in topological order; ``apart`` with numpy, else by the engine."""

    nodes: tuple[Node, ...]
    apart: bool


class Cut(msgspec.Struct, frozen=True, eq=False):
    """A segment as a graph of its own: ``inputs`` are the outputs of other segments by the variables that stand for them.

    ``outputs`` are the values that the heads of ``graph`` compute, ``images`` what each node became.
    """

    graph: Graph
    inference: Inference
    inputs: Mapping[Node, Output]
    outputs: tuple[Output, ...]
    images: Mapping[Node, Node]


def partition(nodes: Sequence[Node], apart: Collection[Node], in_turn: Collection[Node] = ()) -> list[Segment]:
    """Return the segments of ``nodes`` (topologically sorted) in the order in which they can be computed.

    A node joins the first segment of its kind that none of the later segments comes before: the engine computes what needs
    nothing of ``apart``, then numpy what of ``apart`` follows from it, and so on. So a segment never waits for another that
    waits for it, and no other division has fewer segments. Nodes of ``in_turn`` (which draw random numbers) keep their order.
    """
    levels: dict[Node, int] = {}  # even: the engine, odd: numpy
    turn = 0
    members: dict[int, list[Node]] = {}
    for node in nodes:
        if node.is_variable:
            continue
        before = [levels[x] for x in (*(entry.node for entry in node.inputs), *node.control_deps) if not x.is_variable]
        level = max([*before, turn if node in in_turn else 0])
        level += level % 2 != (node in apart)
        levels[node] = level
        turn = level if node in in_turn else turn
        members.setdefault(level, []).append(node)
    return [Segment(tuple(members[level]), level % 2 == 1) for level in sorted(members)]


def cut(segment: Segment, outputs: Sequence[Output], inference: Inference, graph: Graph) -> Cut:
    """Return ``segment`` as a graph of its own whose heads are ``outputs``. Variables of ``graph`` stay the nodes they are."""
    members = set(segment.nodes)
    stand_ins: dict[Output, Node] = {}
    images: dict[Node, Node] = {}
    for node in segment.nodes:
        for entry in node.inputs:
            if entry.node.is_variable:
                images[entry.node] = entry.node
            elif entry.node not in members:
                key = (entry.node, entry.index)
                stand_ins.setdefault(key, Node("", output_name(entry)))

    def redirect(entry: Entry, _: Node) -> Entry | None:
        variable = stand_ins.get((entry.node, entry.index))
        return Entry(variable) if variable is not None else None

    def detach(node: Node) -> Node:
        return msgspec.structs.replace(node, control_deps=()) if node.control_deps else node

    variables = [*images]
    rebuild(segment.nodes, detach, redirect=redirect, images=images)
    heads = tuple(Entry(images[node], index) for node, index in outputs)
    nodes = (*variables, *stand_ins.values(), *(images[node] for node in segment.nodes))
    found = Inference(list(nodes), ShapeTable(getattr(inference.shapes, "np_shape", False)), {})
    for node in (*variables, *segment.nodes):
        found.shapes[images[node]], found.types[images[node]] = inference.shapes[node], inference.types[node]
    for (node, index), variable in stand_ins.items():
        found.shapes[variable], found.types[variable] = [inference.shapes[node][index]], [inference.types[node][index]]
    inputs = {variable: key for key, variable in stand_ins.items()}
    return Cut(Graph(nodes, heads, graph.attrs, graph.source), found, inputs, tuple(outputs), images)
