"""The hint of a refused export: the ``extract`` that leaves the larger part of the graph that can be exported."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from graphshare.cli.console import choose_commands, name_options
from graphshare.cli.main import cli
from graphshare.errors import Fault
from graphshare.export_onnx.opsets import list_versions, refuse_versions
from graphshare.export_onnx.translate import add_hint
from graphshare.ir.graph import Entry, Graph, Node, NodeDetails

FAULTS = [Fault("one"), Fault("two")]
COMMAND = "operators can be exported: `graphshare extract GRAPH"
choose_commands(cli)


def node(op: str, name: str, *inputs: Node) -> Node:
    return Node(op, name, inputs=tuple(map(Entry, inputs)), num_outputs=1)


def chain(*names: str) -> list[Node]:
    """A variable and operators, each of which reads the one before it."""
    nodes = [node("", "x")]
    for name in names:
        nodes.append(node("relu", name, nodes[-1]))
    return nodes


def hint_of(nodes: list[Node], refused: list[str], heads: list[str] | None = None) -> str:
    by_name = {each.name: each for each in nodes}
    part = Graph(tuple(nodes), tuple(Entry(by_name[name]) for name in heads or [nodes[-1].name]))
    first, last = add_hint(part, [by_name[name] for name in refused], FAULTS)
    assert (first.message, last.message) == ("one", "two")
    assert not first.hint
    return name_options(last.hint)


@pytest.mark.parametrize(
    ("refused", "hint"),
    [
        (["a"], f"3 {COMMAND} --cut a_output --target d_output`"),
        (["d"], f"3 {COMMAND} --target c_output`"),
        (["b"], f"2 {COMMAND} --cut b_output --target d_output`"),
        (["c"], f"2 {COMMAND} --target b_output`"),
        # As many before as behind: those before, which need no cut.
        (["b", "c"], f"1 {COMMAND} --target a_output`"),
        (["a", "d"], ""),
        (["a", "b", "c", "d"], ""),
    ],
)
def test_the_larger_part_of_a_chain_is_named(refused: list[str], hint: str) -> None:
    assert hint_of(chain("a", "b", "c", "d"), refused) == hint


def test_operators_are_counted_once_and_variables_are_not() -> None:
    x, y = node("", "x"), node("", "y")
    a, b = node("relu", "a", x), node("relu", "b", y)
    bad = node("svd", "bad", a)
    both = node("add", "both", b, b)
    last = node("add", "last", bad, both)
    graph = [x, y, a, b, bad, both, last]
    # Before it: a, b and both. Behind it: last, both and b.
    assert hint_of(graph, ["bad"]) == f"3 {COMMAND} --target a_output --target both_output`"
    after = node("relu", "after", last)
    assert (
        hint_of([*graph, after], ["bad"]) == f"4 {COMMAND} --cut bad_output --target after_output`"
    )


def test_a_head_before_the_refused_nodes_is_a_target() -> None:
    x = node("", "x")
    a = node("relu", "a", x)
    b, bad = node("relu", "b", a), node("svd", "bad", a)
    assert (
        hint_of([x, a, b, bad], ["bad"], ["bad", "b"])
        == f"2 {COMMAND} --target a_output --target b_output`"
    )


def test_a_refused_node_that_reads_a_variable_leaves_what_is_behind_it() -> None:
    x = node("", "x")
    bad, other = node("svd", "bad", x), node("svd", "other", x)
    total = node("add", "total", bad, other)
    last = node("relu", "last", total)
    assert hint_of([x, bad, other, total, last], ["bad", "other"]) == (
        f"2 {COMMAND} --cut other_output --cut bad_output --target last_output`"
    )


def test_at_most_six_ends_are_named() -> None:
    x = node("", "x")
    ends = [node("relu", f"a{i}", x) for i in range(9)]
    bad = node("svd", "bad", *ends)
    hint = hint_of([x, *ends, bad], ["bad"])
    assert hint == f"9 {COMMAND} " + " ".join(f"--target a{i}_output" for i in range(6)) + "`"


def test_there_is_no_hint_without_a_fault() -> None:
    nodes = chain("a", "b")
    assert add_hint(Graph(tuple(nodes), (Entry(nodes[-1]),)), [], []) == []


def test_operators_that_an_opset_lacks_are_listed() -> None:
    nodes = [node("HardSwish", f"n{i}") for i in range(8)]
    graph = Graph(
        tuple(replace(each, details=NodeDetails(domain="", label=each.name)) for each in nodes), ()
    )
    (fault,) = refuse_versions(graph, 13)
    assert (
        fault.message == "opset 13 has no HardSwish in this form: n0, n1, n2, n3, n4, n5 and 2 more"
    )
    assert refuse_versions(graph, 14) == []
    own = replace(node("Mine", "m"), details=NodeDetails(domain="own"))
    assert list_versions(Graph((*graph.nodes, own), ()), 15) == {"": 15, "own": 1}


def test_an_attribute_may_need_a_later_opset_than_its_operator() -> None:
    reshape = replace(
        node("Reshape", "r"), attrs={"allowzero": ""}, details=NodeDetails(domain="", label="r")
    )
    assert [bool(refuse_versions(Graph((reshape,), ()), opset)) for opset in (13, 14)] == [
        True,
        False,
    ]
    assert refuse_versions(Graph((replace(reshape, attrs={}),), ()), 13) == []
