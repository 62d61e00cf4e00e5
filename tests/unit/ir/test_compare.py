"""Two branches in lock-step, and nodes with their images."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphshare.ir.compare import compare_images, compare_structure
from graphshare.ir.graph import Entry, Graph, Node, NodeDetails
from graphshare.ir.rebuild import prefix_node, rebuild


def layers(**changes: object) -> tuple[Node, ...]:
    """A dense layer on ``x``, and its sum with ``x``; ``changes`` are for the layer."""
    x, w = Node("", "x"), Node("", "w", {"__shape__": "(2, 3)"})
    dense = replace(Node("FullyConnected", "fc", {"num_hidden": "2"}, (Entry(x), Entry(w)), 1), **changes)
    return x, w, dense, Node("add", "sum", inputs=(Entry(dense), Entry(x)))


def difference(a: tuple[Node, ...], b: tuple[Node, ...]) -> str:
    pairing = compare_structure((Entry(a[-1]),), (Entry(b[-1]),))
    return ", ".join(found.what for found in pairing.differences)


def test_names_and_attributes_of_variables_do_not_count() -> None:
    left, right = layers(), tuple(rebuild(layers(), lambda node: prefix_node(node, "b-")).values())
    pairing = compare_structure((Entry(left[-1]),), (Entry(right[-1]),))
    assert pairing
    assert [(a.name, b.name) for a, b in pairing.pairs] == [("x", "b-x"), ("w", "b-w"), ("fc", "b-fc"), ("sum", "b-sum")]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"op": "Dense"}, "operators FullyConnected and Dense"),
        ({"op": ""}, "operators FullyConnected and none (a variable)"),
        ({"attrs": {"num_hidden": "3"}}, "attributes num_hidden '2' and '3'"),
        ({"inputs": ()}, "2 and 0 inputs"),
        ({"details": NodeDetails(absent=(1,))}, "absent inputs none and 1"),
        ({"details": NodeDetails("other")}, "domain none and other"),
        ({"subgraphs": (Graph((), ()),)}, "subgraphs none and 0"),
    ],
)
def test_each_difference_is_described(changes: dict[str, object], what: str) -> None:
    assert difference(layers(), layers(**changes)) == what


def test_one_node_in_place_of_two_is_a_difference() -> None:
    x, y = Node("", "x"), Node("", "y")
    two, one = Node("add", "a", inputs=(Entry(x), Entry(y))), Node("add", "a", inputs=(Entry(x), Entry(x)))
    assert difference((two,), (one,)) == "one branch uses a single node where the other uses two"


def test_exempt_attributes_may_differ() -> None:
    a, b = Node("bn", "a", {"key": "1"}), Node("bn", "a", {"key": "2"})
    assert not compare_structure((Entry(a),), (Entry(b),))
    assert compare_structure((Entry(a),), (Entry(b),), exempt={"bn": ("key",)})
    assert list(compare_images({a: b}, exempt={"bn": ("key",)})) == []


def test_wrong_images_are_found() -> None:
    nodes = layers()
    images = rebuild(nodes, lambda node: prefix_node(node, "b-"))
    assert list(compare_images(images)) == []
    dense = nodes[2]
    images[dense] = replace(images[dense], inputs=images[dense].inputs[::-1])
    images[nodes[3]] = replace(images[nodes[3]], op="mul")
    whats = [found.what for found in compare_images(images)]
    assert whats[0].startswith("an input is output 0 of")
    assert len(whats) == 2
