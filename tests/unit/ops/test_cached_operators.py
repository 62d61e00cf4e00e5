"""``_CachedOp``: outputs and auxiliary states of the graph inside, as MXNet 1.9.1 lists them.

Its partitioner writes the graph as a subgraph (which its own loader then cannot use), its loader
reads it from an attribute.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphshare.analysis.name_lists import NameLists, internals
from graphshare.api.check import check
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.walk import reachable
from graphshare.ops.registry import total_outputs
from tests.symbols import Document, document, operator, variable


def norm(*heads: Any, **attrs: str) -> Document:
    """A normalization, and what follows it."""
    nodes = [
        variable("x"),
        variable("bn_gamma"),
        variable("bn_beta"),
        variable("mean"),
        variable("bn_moving_var"),
    ]
    nodes += [
        operator(
            "BatchNorm", "bn", [0, 1, 2, (3, 0, 1), (4, 0, 1)], attrs={"eps": "0.001", **attrs}
        )
    ]
    nodes += [
        operator("relu", "r", [5]),
        operator("SliceChannel", "parts", [6], attrs={"num_outputs": "2"}),
    ]
    return document(nodes, heads, row_ptr=False)


RELU = document([variable("x"), operator("relu", "r", [0])], [0, 1], row_ptr=False)
UNNAMED = document([variable("x"), operator("relu", "", [0])], [1], row_ptr=False)
# The graph inside, and the outputs and the positions of the auxiliary states, of an operator called ``op``.
CASES: dict[str, tuple[Document, list[str], list[int]]] = {
    "one output": (norm(6), ["op_r_output"], [3, 4]),
    "several outputs": (
        norm(6, (7, 0, 0), (7, 1, 0)),
        ["op_r_output", "op_parts_output0", "op_parts_output1"],
        [3, 4],
    ),
    "one of several": (norm((7, 1, 0)), ["op_parts_output1"], [3, 4]),
    "named outputs": (
        norm(5, (5, 1, 0), output_mean_var="True"),
        ["op_bn_output", "op_bn_mean"],
        [3, 4],
    ),
    "an input that is an output": (RELU, ["op_x", "op_r_output"], []),
    "an operator without a name": (UNNAMED, ["op_output"], []),
}


def outer(inner: Document, *, text: bool) -> Document:
    """A graph of one cached operator, with the inner graph in an attribute or as a subgraph."""
    names = [node["name"] for node in inner["nodes"] if node["op"] == "null"]
    more: dict[str, Any] = (
        {"attrs": {"subgraph": json.dumps(inner)}} if text else {"subgraphs": [inner]}
    )
    inputs = range(len(names))
    nodes = [*(variable(f"v{i}") for i in inputs), operator("_CachedOp", "op", inputs, **more)]
    return document(nodes, [(len(names), i, 0) for i in range(len(inner["heads"]))], row_ptr=False)


@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_lists_are_those_of_the_graph_inside(name: str, text: bool) -> None:
    inner, outputs, auxiliary = CASES[name]
    graph = read_symbol(json.dumps(outer(inner, text=text)).encode())
    lists = NameLists(graph)
    assert lists.outputs == outputs
    assert lists.auxiliary_states == [f"v{i}" for i in auxiliary]
    assert lists.arguments == [f"v{i}" for i in range(len(graph.nodes) - 1) if i not in auxiliary]
    assert [label for label, entry in internals(reachable(graph)) if entry.node.op] == outputs
    assert total_outputs(graph.nodes[-1]) == len(outputs)


def test_cached_operators_may_be_nested() -> None:
    graph = read_symbol(json.dumps(outer(outer(norm(6), text=True), text=False)).encode())
    assert (NameLists(graph).outputs, NameLists(graph).auxiliary_states) == (
        ["op_op_r_output"],
        ["v3", "v4"],
    )


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"nodes": [], "heads": [[0, 0, 0]]}',
        '{"nodes": [{"op": "null", "name": "x"}], "heads": []}',
    ],
)
def test_an_attribute_that_holds_no_graph_leaves_the_outputs_unknown(text: str) -> None:
    nodes = [variable("x"), operator("_CachedOp", "op", [0], attrs={"subgraph": text})]
    graph = read_symbol(json.dumps(document(nodes, [1], row_ptr=False)).encode())
    assert (NameLists(graph).outputs, NameLists(graph).arguments) == (["op_output"], ["x"])


def test_the_number_of_inputs_is_checked(tmp_path: Any) -> None:
    (tmp_path / "net.json").write_text(json.dumps(outer(norm(6), text=False)))
    assert "GS306" not in [finding.code for finding in check(tmp_path / "net.json").findings]
    wrong = outer(norm(6), text=False)
    wrong["nodes"][-1]["inputs"].pop()
    (tmp_path / "net.json").write_text(json.dumps(wrong))
    assert "GS306" in [finding.code for finding in check(tmp_path / "net.json").findings]
