"""Segments are convex, in an order in which they can be computed, and as few as can be."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graphshare.execute.engines.executor import Segment, cut, partition
from graphshare.execute.interpreter import run_graph
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ops.inference import infer


@st.composite
def chains(draw: st.DrawFn) -> tuple[list[Node], list[Node], list[Node]]:
    """Nodes of a random graph in topological order; those that are computed apart, and of these the ones that draw."""
    nodes = [Node("", "x")]
    for number in range(draw(st.integers(1, 14))):
        inputs = draw(st.lists(st.sampled_from(nodes), min_size=1, max_size=2))
        nodes.append(
            Node(
                "add_n",
                f"n{number}",
                {"num_args": str(len(inputs))},
                tuple(Entry(node) for node in inputs),
            )
        )
    apart = [node for node in nodes[1:] if draw(st.booleans())]
    return nodes, apart, [node for node in apart if draw(st.booleans())]


def ancestors(nodes: list[Node]) -> dict[Node, set[Node]]:
    found: dict[Node, set[Node]] = {}
    for node in nodes:
        found[node] = set().union(*({entry.node} | found[entry.node] for entry in node.inputs))
    return found


@given(chains())
@settings(max_examples=30, deadline=None)
def test_segments_are_convex_and_ordered(case: tuple[list[Node], list[Node], list[Node]]) -> None:
    nodes, apart, drawing = case
    segments = partition(nodes, apart, drawing)
    place = {node: number for number, segment in enumerate(segments) for node in segment.nodes}
    before = ancestors(nodes)
    assert sorted(place, key=nodes.index) == nodes[1:]
    for segment in segments:
        assert all((node in apart) == segment.apart for node in segment.nodes)
        for node in segment.nodes:
            others = [x for x in before[node] if x in place]
            assert all(place[x] <= place[node] for x in others)
            # convex: what lies between two nodes of a segment is in it
            assert all(x in segment.nodes for x in others if before[x] & set(segment.nodes))
    assert [node for segment in segments for node in segment.nodes if node in drawing] == drawing


@given(chains())
@settings(max_examples=20, deadline=None)
def test_no_division_has_fewer_segments(case: tuple[list[Node], list[Node], list[Node]]) -> None:
    """A chain of nodes that change sides as often as there are segments but one needs that many."""
    nodes, apart, _ = case
    changes: dict[Node, int] = {}
    for node in nodes[1:]:
        inputs = [entry.node for entry in node.inputs if not entry.node.is_variable]
        changes[node] = max(
            (changes[x] + ((x in apart) != (node in apart)) for x in inputs), default=0
        )
    most = max(changes.values()) + 1
    # The first kind may be missing in the longest chain
    assert len(partition(nodes, apart)) <= most + 1


def test_a_cut_computes_what_the_graph_does() -> None:
    x = Node("", "x")
    a = Node("exp", "a", {}, (Entry(x),))
    b = Node("sqrt", "b", {}, (Entry(a),))
    c = Node("elemwise_add", "c", {}, (Entry(b), Entry(x)), control_deps=(a,))
    graph = Graph((x, a, b, c), (Entry(c),))
    inference = infer(graph, {x: (3,)}, {})
    values = {x: np.array([0.0, 1.0, 2.0], np.float32)}
    first, second = Segment((a,), False), Segment((b, c), True)
    one, two = cut(first, [(a, 0)], inference, graph), cut(second, [(c, 0)], inference, graph)
    assert list(two.inputs.values()) == [(a, 0)]
    inner = run_graph(one.graph.heads, values)
    (stand_in,) = two.inputs
    assert two.inference.shapes[stand_in] == [(3,)]
    found = run_graph(two.graph.heads, {**values, stand_in: inner[0]})
    assert np.array_equal(found[0], run_graph(graph.heads, values)[0])
