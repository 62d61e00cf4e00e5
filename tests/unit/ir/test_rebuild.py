"""Copying nodes: what changes, what keeps its identity, and what follows."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphshare.ir.graph import NO_DETAILS, Entry, Graph, Node, NodeDetails
from graphshare.ir.rebuild import (
    StoredNames,
    follow_name,
    prefix_node,
    rebuild,
    relink_all,
    rename_node,
)

X, W = Node("", "x"), Node("", "w")
FC = Node("fc", "fc", inputs=(Entry(X), Entry(W, 0, 2)))
RELU = Node("relu", "act", inputs=(Entry(FC),), control_deps=(X,))
OTHER = Node("tanh", "other", inputs=(Entry(W),))
NODES = (X, W, FC, RELU, OTHER)


def test_without_a_change_every_node_is_its_own_image() -> None:
    images = rebuild(NODES)
    assert list(images) == list(NODES)
    assert all(images[node] is node for node in NODES)
    head = Entry(RELU)
    assert relink_all((head,), images)[0] is head


def test_what_needs_a_changed_node_is_copied_and_nothing_else() -> None:
    images = rebuild(NODES, lambda node: rename_node(node, "y") if node is X else node)
    assert images[X].name == "y"
    assert images[W] is W
    assert images[OTHER] is OTHER
    assert [entry.node for entry in images[FC].inputs] == [images[X], W]
    assert images[FC].inputs[1] is FC.inputs[1]
    assert images[RELU].control_deps == (images[X],)
    assert RELU.control_deps == (X,)


def test_a_redirected_entry_keeps_the_node_that_it_left() -> None:
    images = rebuild(
        NODES,
        redirect=lambda entry, user: Entry(X, 0, 7) if entry.node is W and user is FC else None,
    )
    assert [(entry.node, entry.version) for entry in images[FC].inputs] == [(X, 0), (X, 7)]
    assert images[OTHER] is OTHER


def test_an_order_that_is_not_topological_gives_inputs_first() -> None:
    images = rebuild((RELU, FC, OTHER, W, X), lambda node: replace(node, name=f"a-{node.name}"))
    assert list(images) == [X, W, FC, RELU, OTHER]
    assert images[RELU].inputs[0].node is images[FC]


def test_images_of_other_nodes_are_used_and_kept() -> None:
    outside = Node("", "outside")
    images = {X: outside, W: W}
    assert rebuild((FC,), images=images) is images
    assert images[FC].inputs[0].node is outside


def test_a_replacement_may_have_more_inputs() -> None:
    images = rebuild(
        (X, W, FC),
        lambda node: replace(node, inputs=(*node.inputs, Entry(X))) if node is FC else node,
    )
    assert [entry.node for entry in images[FC].inputs] == [X, W, X]


def test_captures_of_a_subgraph_follow_as_inputs_of_its_owner() -> None:
    inner = Node("", "feat")
    body = Graph(
        (inner, add := Node("Add", "", inputs=(Entry(inner),))), (Entry(add),), captures=(inner,)
    )
    choose = Node("If", "choose", inputs=(Entry(X), Entry(FC)), subgraphs=(body,))
    images = rebuild((*NODES, choose), lambda node: prefix_node(node, "b-"))
    assert [entry.node for entry in images[choose].inputs] == [images[X], images[FC]]
    assert images[choose].subgraphs == (body,)


def test_stored_output_names_follow_the_name_of_their_node() -> None:
    details = NodeDetails("com.example", ("top_values", "indices", ""), {"axis": 0}, (1,))
    node = Node("TopK", "top", details=details)
    renamed, prefixed = rename_node(node, "best").details, prefix_node(node, "b-").details
    assert renamed == replace(details, outputs=("best_values", "indices", ""))
    assert prefixed == replace(details, outputs=("b-top_values", "b-indices", ""))
    unnamed = prefix_node(replace(node, name=""), "b-")
    assert unnamed.name == ""
    assert unnamed.details == prefixed


def test_a_node_without_stored_names_keeps_its_details() -> None:
    for node in (Node("Relu", "r"), Node("Relu", "")):
        assert prefix_node(node, "b-").details is NO_DETAILS
        assert rename_node(node, "new").details is NO_DETAILS


@pytest.mark.parametrize(
    ("outputs", "label", "renamed", "prefixed"),
    [
        (("r",), "", (("s",), ""), (("b-r",), "")),
        (("r",), "r", (("s",), "s"), (("b-r",), "b-r")),
        ((), "r_op", ((), "s_op"), ((), "b-r_op")),
        (("r", "other"), "mine", (("s", "other"), "mine"), (("b-r", "b-other"), "b-mine")),
    ],
)
def test_labels_and_outputs_follow_a_name(
    outputs: tuple[str, ...], label: str, renamed: tuple[object, ...], prefixed: tuple[object, ...]
) -> None:
    node = Node("Relu", "r", details=NodeDetails("", outputs, label=label))
    for changed, expected in (
        (rename_node(node, "s"), renamed),
        (prefix_node(node, "b-"), prefixed),
    ):
        assert (changed.details.outputs, changed.details.label) == expected
    stored = rename_node(node, "s", StoredNames(("x",), "y"))
    assert (stored.name, stored.details.outputs, stored.details.label) == ("s", ("x",), "y")
    plain = rename_node(Node("Relu", "r"), "s", StoredNames(("x",), "y"))
    assert (plain.details.outputs, plain.details.label) == (("x",), "y")


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("", "a", "b", ""),
        ("", "a", "p-a", ""),
        ("", "", "p-", ""),
        ("x", "", "", "x"),
        ("ab", "a", "a", "ab"),
        ("x", "a", "a", "x"),
        ("ab", "a", "c", "ab"),
        ("a_b", "a", "c", "c_b"),
        ("a", "a", "c", "c"),
        ("x", "a", "p-a", "p-x"),
        ("x", "", "p-", "p-x"),
        ("p-x", "p-a", "a", "x"),
        ("x", "p-a", "a", "x"),
        ("x", "a", "b", "x"),
    ],
)
def test_a_name_follows_another_one(text: str, old: str, new: str, expected: str) -> None:
    assert follow_name(text, old, new) == expected
