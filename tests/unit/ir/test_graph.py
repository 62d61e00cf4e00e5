"""Nodes, walks, rewrites and validation."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from graphshare.errors import Fault, GraphshareError, InputError, RefusedError
from graphshare.formats.mxnet.source import MxnetSource
from graphshare.ir.graph import Branch, Entry, Graph, Node, NodeDetails, Rename, Rewrite, Source
from graphshare.ir.walk import (
    consumers,
    is_topological,
    list_operands,
    post_order,
    reachable,
    topological,
)
from tests.processes import environment
from tests.surroundings import size_of_day
from tests.validate import validate

X = Node("", "x")


def relu(name: str, *inputs: Node, deps: tuple[Node, ...] = (), **more: Any) -> Node:
    return Node(
        "relu", name, inputs=tuple(Entry(node) for node in inputs), control_deps=deps, **more
    )


def test_nodes_and_entries_are_what_they_are_not_what_they_say() -> None:
    assert Node("", "x") != Node("", "x")
    assert Entry(X) != Entry(X)
    assert len({X, Node("", "x")}) == 2


def test_a_node_in_one_line_has_its_operator_and_its_name() -> None:
    assert "variable 'x'" in repr(X)
    assert "relu 'r'" in repr(relu("r", X))
    assert (X.operator_text, relu("r").operator_text) == ("null", "relu")


def test_a_rewrite_in_one_line_counts_its_branches() -> None:
    graph = Graph((X,), (Entry(X),))
    branches = [Branch(label, graph, {X: X}) for label in ("", "b-")]
    assert "1 node, 1 head, 1 branch>" in repr(Rewrite(graph, tuple(branches[:1])))
    assert "1 node, 1 head, 2 branches>" in repr(Rewrite(graph, tuple(branches)))
    assert "0 branches>" in repr(Rewrite(graph, ()))


def test_a_later_rewrite_keeps_its_branches_of_other_graphs() -> None:
    source, middle, other = (Graph((X,), (Entry(X),)) for _ in range(3))
    later = Rewrite(middle, (Branch("a-", middle, {X: X}), Branch("b-", other, {X: X})))
    both = Rewrite(middle, (Branch("", source, {X: X}),)).then(later)
    assert [(branch.label, branch.source) for branch in both.branches] == [
        ("a-", source),
        ("b-", other),
    ]


def test_operands_have_their_positions_in_the_file() -> None:
    entries = tuple(Entry(X, index) for index in range(3))
    inner = Node("", "inner")
    body = Graph((inner,), (Entry(inner),), captures=(inner,))
    plain = Node("Op", "n", inputs=entries[:2], details=NodeDetails("", absent=(0, 2)))
    assert list_operands(plain) == [None, entries[0], None, entries[1]]
    owner = Node("Op", "n", inputs=entries, subgraphs=(body,), details=NodeDetails("", absent=(1,)))
    assert list_operands(owner) == [entries[0], None, entries[1]]


def test_nodes_out_of_order_are_sorted_and_others_stay() -> None:
    y = Node("", "y")
    a, b = relu("a", X), relu("b", y, deps=(X,))
    for nodes, is_sorted in (
        ((X, y, b, a), True),
        ((y, X, b, a), True),
        ((a, X), False),
        ((y, b, X), False),
        ((y, X, relu("c", X), b), True),
    ):
        assert is_topological(nodes) is is_sorted
        assert (topological(Graph(nodes, ())) == nodes) is is_sorted


@pytest.mark.parametrize(
    ("value", "field"),
    [(X, "name"), (Entry(X), "index"), (Graph((X,), ()), "nodes"), (Source(), "anything")],
)
def test_nothing_can_be_changed(value: Any, field: str) -> None:
    with pytest.raises(AttributeError):
        setattr(value, field, 1)


def test_version_of_a_graph() -> None:
    assert Graph((), ()).version is None
    assert Graph((), (), {"mxnet_version": ["int", 10901]}, MxnetSource()).version == 10901
    for senseless in (3, "x", ["int"], ["int", "x"], None):
        assert Graph((), (), {"mxnet_version": senseless}, MxnetSource()).version is None


def recursive_order(roots: list[Node]) -> list[Node]:
    """MXNet's walk as its documentation puts it, recursion and all."""
    order: list[Node] = []
    seen: set[Node] = set()

    def visit(node: Node) -> None:
        if node in seen:
            return
        seen.add(node)
        for needed in [*(entry.node for entry in node.inputs), *node.control_deps]:
            visit(needed)
        order.append(node)

    for root in roots:
        visit(root)
    return order


def test_post_order_is_depth_first_with_control_dependencies_last() -> None:
    generator = random.Random(7)
    for _ in range(200):
        nodes = [X]
        for i in range(12):
            inputs = generator.choices(nodes, k=generator.randrange(4))
            deps = tuple(generator.choices(nodes, k=generator.randrange(3)))
            nodes.append(relu(f"r{i}", *inputs, deps=deps))
        roots = generator.choices(nodes, k=3)
        assert post_order(roots) == recursive_order(roots)
        shuffled = generator.sample(nodes, len(nodes))
        assert is_topological(topological(Graph(tuple(shuffled), ())))


def test_a_stop_is_listed_and_not_entered() -> None:
    a = relu("a", X)
    b = relu("b", a)
    assert post_order([b], stop={a}) == [a, b]
    assert reachable(Graph((b, a, X), (Entry(b),))) == [X, a, b]
    assert consumers([X, a, b]) == {X: [(a, 0)], a: [(b, 0)]}


@pytest.mark.parametrize("order", ["forward", "reversed", "heads only"])
def test_a_chain_of_very_many_nodes_is_walked_and_dropped(order: str) -> None:
    count = size_of_day(200_000, 1_000_000)
    script = f"""
from graphshare.ir.graph import Entry, Graph, Node
from graphshare.ir.walk import reachable, topological
node = Node("", "x")
nodes = [node]
for i in range({count}):
    node = Node("relu", "r", inputs=(Entry(node),)) if i % 2 else Node("relu", "r", control_deps=(node,))
    nodes.append(node)
if {order!r} == "reversed":
    nodes.reverse()
graph = Graph(tuple(nodes) if {order!r} != "heads only" else (), (Entry(node),))
del nodes, node
assert len(reachable(graph)) == {count + 1}
assert len(topological(graph)) in (0, {count + 1})
del graph
print("dropped")
"""
    run = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    assert (run.returncode, run.stdout) == (0, b"dropped\n"), run.stderr


def test_images_origin_and_composition() -> None:
    a = relu("a", X)
    source = Graph((X, a), (Entry(a),))
    b, y = relu("b-a", X), Node("", "y")
    middle = Graph((X, a, b), (Entry(a), Entry(b)))
    first = Rewrite(
        middle,
        (Branch("", source, {X: X, a: a}), Branch("b-", source, {X: X, a: b})),
        (Rename("b-", "s", "b-s"),),
    )
    assert first.images(source, a) == [("", a), ("b-", b)]
    assert first.images(source, X) == [("", X), ("b-", X)]
    assert first.images(middle, a) == []
    assert first.origin == {X: [(source, X), (source, X)], a: [(source, a)], b: [(source, a)]}
    z = relu("z", y)
    later = Rewrite(
        Graph((y, z), (Entry(z),)),
        (Branch("", middle, {X: y, b: z}),),
        (Rename("", "other", "o"),),
        ("second",),
    )
    both = replace(first, notes=("first",)).then(later)
    assert both.notes == ("first", "second")
    assert both.images(source, a) == [("b-", z)]
    assert both.images(source, X) == [("", y), ("b-", y)]
    assert both.renames == (Rename("b-", "s", "b-s"), Rename("", "other", "o"))
    assert both.graph is later.graph


def test_validation_lists_every_fault() -> None:
    outside = Node("", "out")
    hidden = relu("hidden", X, num_outputs=2)
    bad = Node(
        "conv",
        "c\0",
        {"k": 3},
        (Entry(outside), Entry(hidden, 2), Entry(X, 1), Entry(X, 0, -1)),
        -1,
        (outside,),
    )  # type: ignore[dict-item]
    odd = Node("", "v", inputs=(Entry(X),), subgraphs=(Graph((), (Entry(outside),)),))
    unnamed = Node("", 7)  # type: ignore[arg-type]
    graph = Graph(
        (X, hidden, bad, X, odd, unnamed), (Entry(hidden, 1, None), Entry(outside), Entry(bad, -2))
    )
    assert sorted((fault.path, fault.message) for fault in validate(graph)) == sorted(
        [
            ("$.nodes[3]", "is the same node as $.nodes[0]"),
            ("$.nodes[2].name", "'c\\x00' holds a NUL character, which MXNet cannot read"),
            ("$.nodes[2].attrs", "'k': 3 is not a pair of strings"),
            ("$.nodes[2]", "has -1 outputs"),
            ("$.nodes[2].inputs[0]", "refers to 'out', which is not in the graph"),
            ("$.nodes[2].inputs[1]", "refers to output 2 of 'hidden', which has 2 outputs"),
            ("$.nodes[2].inputs[2]", "refers to output 1 of 'x', which has 1 output"),
            ("$.nodes[2].inputs[3]", "has the version -1"),
            ("$.nodes[2].control_deps[0]", "depends on 'out', which is not in the graph"),
            ("$.nodes[4].inputs", "a variable has inputs"),
            ("$.nodes[4].subgraphs[0].heads[0]", "refers to 'out', which is not in the graph"),
            ("$.nodes[5].name", "is 7, not a string"),
            ("$.heads[1]", "refers to 'out', which is not in the graph"),
            ("$.heads[2]", "refers to output -2 of 'c\\x00', which has -1 outputs"),
        ]
    )
    assert validate(Graph((hidden, X), (Entry(hidden, 1, None), Entry(X)))) == []


def test_faults_say_where_and_keep_their_kind() -> None:
    fault = Fault("is wrong", path="$.nodes[1]", node="n", hint="mend it")
    assert str(fault) == '$.nodes[1] (node "n"): is wrong'
    error = InputError([fault, Fault("too", where="b")]).with_location("a")
    assert isinstance(error, InputError)
    assert str(error) == 'a: $.nodes[1] (node "n"): is wrong\n  hint: mend it\nb: too'
    assert RefusedError("text", hint="h").faults == (Fault("text", hint="h"),)
    assert issubclass(RefusedError, GraphshareError)
    RefusedError.raise_any([])
    with pytest.raises(InputError) as raised:
        InputError.raise_any(each for each in (fault, fault))
    assert raised.value.faults == (fault, fault)


def test_a_hint_that_repeats_is_there_once() -> None:
    faults = [
        Fault("a", hint="x"),
        Fault("b", hint="x"),
        Fault("c"),
        Fault("d", hint="y"),
        Fault("e"),
    ]
    assert str(GraphshareError(faults)) == "a\nb\n  hint: x\nc\nd\n  hint: y\ne"
