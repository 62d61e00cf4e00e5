"""Two branches in lock-step, and nodes with their images."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphshare.ir.compare import (
    compare_images,
    compare_structure,
    find_content_changes,
    make_content_key,
)
from graphshare.ir.graph import Entry, Graph, Node, NodeDetails
from graphshare.ir.rebuild import prefix_node, rebuild
from graphshare.ir.walk import list_bodies


def layers(**changes: object) -> tuple[Node, ...]:
    """A dense layer on ``x``, and its sum with ``x``; ``changes`` are for the layer."""
    x, w = Node("", "x"), Node("", "w", {"__shape__": "(2, 3)"})
    dense = replace(
        Node("FullyConnected", "fc", {"num_hidden": "2"}, (Entry(x), Entry(w)), 1), **changes
    )
    return x, w, dense, Node("add", "sum", inputs=(Entry(dense), Entry(x)))


def difference(a: tuple[Node, ...], b: tuple[Node, ...]) -> str:
    pairing = compare_structure((Entry(a[-1]),), (Entry(b[-1]),))
    return ", ".join(found.what for found in pairing.differences)


def test_names_and_attributes_of_variables_do_not_count() -> None:
    left, right = layers(), tuple(rebuild(layers(), lambda node: prefix_node(node, "b-")).values())
    pairing = compare_structure((Entry(left[-1]),), (Entry(right[-1]),))
    assert pairing
    assert [(a.name, b.name) for a, b in pairing.pairs] == [
        ("x", "b-x"),
        ("w", "b-w"),
        ("fc", "b-fc"),
        ("sum", "b-sum"),
    ]


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"op": "Dense"}, "operators FullyConnected and Dense"),
        ({"op": ""}, "operators FullyConnected and none (a variable)"),
        ({"attrs": {"num_hidden": "3"}}, "attributes num_hidden '2' and '3'"),
        ({"inputs": ()}, "2 and 0 inputs"),
        ({"details": NodeDetails(absent=(1,))}, "absent inputs none and 1"),
        ({"details": NodeDetails("other")}, "domain mxnet and other"),
        ({"subgraphs": (Graph((), ()),)}, "subgraphs none and 0"),
    ],
)
def test_each_difference_is_described(changes: dict[str, object], what: str) -> None:
    assert difference(layers(), layers(**changes)) == what


def test_one_node_in_place_of_two_is_a_difference() -> None:
    x, y = Node("", "x"), Node("", "y")
    two, one = (
        Node("add", "a", inputs=(Entry(x), Entry(y))),
        Node("add", "a", inputs=(Entry(x), Entry(x))),
    )
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
    for inputs, what in (
        (images[dense].inputs[:1], "2 and 1 input"),
        (images[dense].inputs * 2, "2 and 4 inputs"),
    ):
        images[dense] = replace(images[dense], inputs=inputs)
        assert next(found.what for found in compare_images(images)) == what


# Subgraphs: names do not count, values and what is captured do.


def value(number: object, name: str = "w") -> Node:
    """A variable of a subgraph with a value."""
    return Node("", name, details=NodeDetails(outputs=(name,), values={"value": number}))


def choose(
    *bodies: Graph, around: tuple[Node, ...] = (), names: tuple[str, ...] = ("then", "else")
) -> Node:
    """An operator with ``bodies``; ``around`` are captured by them, in order."""
    return Node(
        "If",
        "if",
        inputs=tuple(map(Entry, around)),
        subgraphs=bodies,
        details=NodeDetails(bodies=names[: len(bodies)]),
    )


def subtract(number: object = 1, *, names: str = "", swap: bool = False) -> Graph:
    """A subgraph that takes a value, and then one that it has, from one that it captures; ``swap``
    lists captures in turn.
    """
    captures = (
        Node("", f"{names}0", details=NodeDetails()),
        Node("", f"{names}1", details=NodeDetails()),
    )
    w = value(number, f"{names}w")
    first = Node(
        "Sub", f"{names}a", inputs=(Entry(captures[0]), Entry(captures[1])), details=NodeDetails()
    )
    last = Node("Sub", f"{names}b", inputs=(Entry(first), Entry(w)), details=NodeDetails())
    return Graph(
        (*captures, w, first, last), (Entry(last),), captures=captures[::-1] if swap else captures
    )


X, Y = Node("", "x"), Node("", "y")


def test_names_in_subgraphs_do_not_count_and_captures_pair_by_their_use() -> None:
    plain, renamed = choose(subtract(), around=(X, Y)), choose(subtract(names="n"), around=(X, Y))
    swapped = choose(subtract(swap=True), around=(Y, X))
    for other in (renamed, swapped):
        assert difference((plain,), (other,)) == ""
    pairing = compare_structure((Entry(plain),), (Entry(swapped),))
    assert [(a.name, b.name) for a, b in pairing.pairs] == [("x", "x"), ("y", "y"), ("if", "if")]


def test_what_subgraphs_capture_counts() -> None:
    left, right = (
        Node("add", "a", inputs=(Entry(choose(subtract(), around=xs)), Entry(X)))
        for xs in ((X, Y), (Y, X))
    )
    assert difference((left,), (left,)) == ""
    assert "one branch uses a single node where the other uses two" in difference((left,), (right,))


def test_values_of_variables_in_subgraphs_count() -> None:
    left, right = choose(subtract(1), around=(X, Y)), choose(subtract(2), around=(X, Y))
    assert (
        difference((left,), (right,)) == "subgraph then: 'w' and 'w': attributes value '1' and '2'"
    )


def test_a_captured_value_is_not_one_of_the_subgraph() -> None:
    x = Node("", "x")
    taken, own = Graph((x,), (Entry(x),), captures=(x,)), Graph((x,), (Entry(x),))
    a, b = choose(taken, around=(X,)), choose(own)
    assert (
        difference((a,), (b,))
        == "subgraph then: 'x' and 'x': only one is a value of the graph around it"
    )


def test_subgraphs_belong_to_the_attributes_that_hold_them() -> None:
    one, two = Graph((n := value(1),), (Entry(n),)), Graph((m := value(2),), (Entry(m),))
    assert difference((choose(one, two),), (choose(two, one, names=("else", "then")),)) == ""
    assert difference((choose(one, two),), (choose(two, one),)).startswith("subgraph then: ")
    several = choose(one, two, names=("cases", "cases"))
    assert list(list_bodies(several)) == ["cases 0", "cases 1"]
    assert difference((several,), (choose(two, one, names=("cases", "cases")),)).startswith(
        "subgraph cases 0: "
    )


# The content of single nodes.


@pytest.mark.parametrize(
    ("left", "right", "what"),
    [
        (NodeDetails(values={"k": 1}), NodeDetails(values={"k": 1.5}), [("attribute", "k", "1", "1.5")]),
        (NodeDetails(values={"k": "1"}), NodeDetails(values={"k": 1}), [("attribute", "k", "1", "1 (another value or type)")]),
        (NodeDetails(values={"k": 1}), NodeDetails(values={}), [("attribute", "k", "1", None)]),
        (NodeDetails(values={"k": 1}), NodeDetails(values={"k": 1, "j": 2}), [("attribute", "j", None, "2")]),
        (NodeDetails(domain="a"), NodeDetails(domain="b"), [("domain", "", "a", "b")]),
        (NodeDetails(absent=(0,)), NodeDetails(absent=(1,)), [("absent inputs", "", "0", "1")]),
        (NodeDetails(absent=(1,)), NodeDetails(absent=(1, 3, 4)), []),
        (NodeDetails(absent=(0, 1)), NodeDetails(absent=(0, 1)), []),
        (NodeDetails(outputs=("a", "b")), NodeDetails(outputs=("a",)), [("outputs", "", "2", "1")]),
        (NodeDetails(outputs=("a", "")), NodeDetails(outputs=("a",)), []),
        (NodeDetails(outputs=("", "b")), NodeDetails(outputs=("a", "b")), []),
        (NodeDetails(label="a", stored=1), NodeDetails(label="b", stored=2), []),
    ],
)  # fmt: skip
def test_changes_of_content_and_its_key_agree(
    left: NodeDetails, right: NodeDetails, what: list[tuple[str, ...]]
) -> None:
    a, b = (
        Node("op", name, inputs=(Entry(X), Entry(Y)), details=details)
        for name, details in (("a", left), ("b", right))
    )
    assert [(c.what, c.key, c.old, c.new) for c in find_content_changes(a, b)] == what
    assert (make_content_key(a) == make_content_key(b)) == (not what)


def test_texts_of_attributes_are_in_the_keys_of_operators_alone() -> None:
    keys = [make_content_key(Node("op", "a", {"k": text})) for text in "112"]
    assert (keys[0] == keys[1], keys[1] == keys[2]) == (True, False)
    assert make_content_key(Node("", "a", {"k": "1"})) == make_content_key(
        Node("", "b", {"k": "2"})
    )


def test_texts_of_typed_attributes_do_not_count() -> None:
    a, b = (
        Node("op", "a", {"k": text}, details=NodeDetails(values={"k": 7}))
        for text in ("7", "seven")
    )
    assert list(find_content_changes(a, b)) == []
    assert make_content_key(a) == make_content_key(b)


def test_statements_make_a_pairing_fail() -> None:
    pairing = compare_structure((Entry(X),), (Entry(X),))
    assert pairing
    pairing.statements.append("operator set 17 and 18")
    assert not pairing
    assert pairing.describe() == ("operator set 17 and 18",)
