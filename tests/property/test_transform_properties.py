"""Transforms held against independent checks on the level of JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from graphshare.analysis.name_lists import resolve_targets
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.layout import write_symbol
from graphshare.formats.mxnet.staging import check_written
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.compare import check_isomorphic
from graphshare.ir.graph import Graph, Rewrite
from graphshare.rewrite.add_branches import add_branches
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.rename_nodes import plan_rename
from tests.property.documents import documents
from tests.symbols import Document, mxnet_text
from tests.validate import validate

PREFIXES = st.lists(
    st.sampled_from(["x-", "y/", 'é"\n', "x-x-"]), min_size=1, max_size=3, unique=True
)


def read(found: Document) -> Graph:
    return read_symbol(mxnet_text(found).encode())


def written(graph: Graph) -> Document:
    data = b"".join(write_symbol(graph))
    check_written(data, graph, where="test")
    loaded: Document = json.loads(data, strict=False)
    return loaded


def sound(rewrite: Rewrite) -> None:
    """No fault but those that any file may have from the start: output indices and inputs of variables."""
    inherited = ("refers to output", "a variable has inputs")
    assert [
        fault for fault in validate(rewrite.graph) if not fault.message.startswith(inherited)
    ] == []


@given(found=documents(), prefix=st.sampled_from(["x-", 'é"\n', "a_"]))
def test_a_rename_and_its_inverse_give_the_same_bytes(found: Document, prefix: str) -> None:
    graph = read(found)
    assume(any(node.name for node in graph.nodes))
    there = plan_rename(graph, prefix=prefix)
    sound(there)
    assert [node["name"] for node in written(there.graph)["nodes"]] == [
        prefix + node["name"] if node["name"] else "" for node in found["nodes"]
    ]
    back = plan_rename(there.graph, strip_prefix=prefix)
    assert b"".join(write_symbol(back.graph)) == mxnet_text(found).encode()
    both = there.then(back)
    assert [both.images(graph, node) for node in graph.nodes] == [
        [("", node)] for node in back.graph.nodes
    ]


class Pairing:
    """A lock-step walk over two parts of a written file: the same graph but for the names?"""

    def __init__(self, nodes: list[dict[str, Any]], prefix: str, shared: set[int]) -> None:
        self.nodes, self.prefix, self.shared = nodes, prefix, shared
        self.pairs: dict[int, int] = {}

    def entry(self, a: list[int], b: list[int]) -> None:
        assert a[1] == b[1]
        assert len(a) == len(b)
        assert a[2:] == b[2:] or a[0] in self.shared
        self.node(a[0], b[0])

    def node(self, a: int, b: int) -> None:
        if a in self.pairs:
            assert self.pairs[a] == b
            return
        self.pairs[a] = b
        if a in self.shared:
            assert a == b
            return
        assert a != b
        one, two = self.nodes[a], self.nodes[b]
        assert two["name"] == (self.prefix + one["name"] if one["name"] else "")
        assert list(one) == list(two)
        rest = {"name", "inputs", "control_deps"}
        assert {k: v for k, v in one.items() if k not in rest} == {
            k: v for k, v in two.items() if k not in rest
        }
        assert len(one["inputs"]) == len(two["inputs"])
        for x, y in zip(one["inputs"], two["inputs"], strict=True):
            self.entry(x, y)
        for i, j in zip(one.get("control_deps", ()), two.get("control_deps", ()), strict=True):
            self.node(i, j)


@given(found=documents(), prefixes=PREFIXES, data=st.data())
def test_every_branch_is_isomorphic_to_its_source(
    found: Document, prefixes: list[str], data: st.DataObject
) -> None:
    graph = read(found)
    variables = [
        i
        for i, node in enumerate(graph.nodes)
        if node.is_variable and not node.inputs and not node.control_deps
    ]
    shared = data.draw(st.sets(st.sampled_from(variables))) if variables else set()
    try:
        rewrite = add_branches(graph, prefixes, shared={graph.nodes[i] for i in shared})
    except RefusedError as error:
        assert "would" in str(error) or "implies states" in str(error)
        return
    sound(rewrite)
    check_isomorphic(rewrite)
    result = written(rewrite.graph)
    count, heads = len(found["nodes"]), len(found["heads"])
    assert len(result["nodes"]) == count + len(prefixes) * (count - len(shared))
    assert result["nodes"][:count] == found["nodes"]
    assert len(result["heads"]) == heads * (1 + len(prefixes))
    assert result["arg_nodes"] == [
        i for i, node in enumerate(result["nodes"]) if node["op"] == "null"
    ]
    for number, prefix in enumerate(prefixes, start=1):
        pairing = Pairing(result["nodes"], prefix, shared)
        for a, b in zip(result["heads"][:heads], result["heads"][number * heads :], strict=False):
            pairing.entry(a, b)
        assert len(set(pairing.pairs.values())) == len(pairing.pairs)


@given(found=documents(), prefixes=PREFIXES)
def test_without_the_original_only_the_copies_are_left(
    found: Document, prefixes: list[str]
) -> None:
    graph = read(found)
    try:
        rewrite = add_branches(graph, prefixes, drop_original=True)
    except RefusedError as error:
        assert "would" in str(error) or "implies states" in str(error)
        return
    sound(rewrite)
    result = written(rewrite.graph)
    assert len(result["nodes"]) == len(prefixes) * len(found["nodes"])
    assert [branch.label for branch in rewrite.branches] == prefixes


@given(found=documents(), data=st.data())
def test_an_extract_holds_what_its_targets_need_and_nothing_else(
    found: Document, data: st.DataObject
) -> None:
    assume(found["nodes"])
    graph = read(found)
    ids = data.draw(st.lists(st.integers(0, len(graph.nodes) - 1), min_size=1, max_size=3))
    names = [graph.nodes[i].name for i in ids]
    try:
        targets = resolve_targets(names, graph.nodes, option="--target")
    except RefusedError:
        return  # names repeat, or are empty
    needed: set[int] = set()
    pending = [graph.nodes.index(entry.node) for entry in targets]
    while pending:
        i = pending.pop()
        if i not in needed:
            needed.add(i)
            pending += [entry[0] for entry in found["nodes"][i]["inputs"]] + found["nodes"][i].get(
                "control_deps", []
            )
    rewrite = extract_entries(graph, targets)
    sound(rewrite)
    result = written(rewrite.graph)
    assert sorted(node["name"] for node in result["nodes"]) == sorted(
        found["nodes"][i]["name"] for i in needed
    )
    assert [result["nodes"][head[0]]["name"] for head in result["heads"]] == [
        entry.node.name for entry in targets
    ]
    assert all(image is node for node, image in rewrite.branches[0].images.items())
