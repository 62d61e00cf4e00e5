"""``group`` is undone by ``extract``; a batch computes what copies compute."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from graphshare.api.duplicate import duplicate
from graphshare.errors import RefusedError
from graphshare.execute.interpreter import run_graph
from graphshare.ir.compare import check_isomorphic, compare_structure
from graphshare.ir.graph import Entry, Graph
from graphshare.ir.walk import reachable
from graphshare.rewrite.batched_graph import find_batch, single_run
from graphshare.rewrite.extract_graph import extract_entries
from graphshare.rewrite.grouping.join import Member, find_collisions, join
from graphshare.rewrite.rename_nodes import set_names
from tests.property.documents import documents
from tests.property.test_transform_properties import read, sound, written
from tests.symbols import Document, Record, document, operator, variable
from tests.validate import validate


def same_text(a: Graph, b: Graph) -> bool:
    """Whether two graphs are one but for their nodes' order: what is written of each, from the heads on."""

    def told(graph: Graph) -> list[Any]:
        nodes = reachable(graph)
        ids = {node: i for i, node in enumerate(nodes)}
        listed = [
            (
                n.op,
                n.name,
                dict(n.attrs),
                [(ids[e.node], e.index, e.version) for e in n.inputs],
                [ids[d] for d in n.control_deps],
            )
            for n in nodes
        ]
        return [listed, [(ids[h.node], h.index, h.version) for h in graph.heads]]

    return told(a) == told(b)


@given(found=st.lists(documents(plain=True), min_size=2, max_size=3))
def test_a_group_holds_every_part_and_extract_gives_it_back(found: list[Document]) -> None:
    graphs = [read(each) for each in found]
    assume(any(graph.heads for graph in graphs))
    parts = [Member(graph, f"p{i}/" if i else "", f"graph {i}") for i, graph in enumerate(graphs)]
    try:
        rewrite = join(parts)
    except RefusedError:
        assert find_collisions(parts, {}, {})
        return
    sound(rewrite)
    check_isomorphic(rewrite)
    assert len(written(rewrite.graph)["nodes"]) == sum(len(each["nodes"]) for each in found)
    heads = list(rewrite.graph.heads)
    for part, branch in zip(parts, rewrite.branches, strict=True):
        mine, heads = heads[: len(part.graph.heads)], heads[len(part.graph.heads) :]
        back = extract_entries(rewrite.graph, mine).graph
        alone = extract_entries(part.graph, part.graph.heads).graph
        stripped = back if not part.prefix else _stripped(back, part.prefix)
        assert same_text(stripped, alone)
        assert all(image.name == part.name(node) for node, image in branch.images.items())
    assert not heads


def _stripped(graph: Graph, prefix: str) -> Graph:

    return set_names(
        graph,
        {
            node: node.name.removeprefix(prefix)
            for node in graph.nodes
            if node.name.startswith(prefix)
        },
    ).graph


@given(found=documents(plain=True), data=st.data())
def test_a_graph_cut_in_two_and_joined_again_is_the_graph(
    found: Document, data: st.DataObject
) -> None:
    """Trunk and head meet at one output; what both need besides is the same nodes, so such cuts are left out."""
    graph = read(found)
    operators = [node for node in reachable(graph) if not node.is_variable]
    assume(operators)
    cut = data.draw(st.sampled_from(operators))
    try:
        head = extract_entries(graph, graph.heads, cuts={(cut, 0): "the cut"})
    except RefusedError:
        return  # the name is taken
    trunk = extract_entries(graph, [Entry(cut, 0)]).graph
    assume(not set(trunk.nodes) & set(head.graph.nodes))
    variable_of = next(
        node for node in head.graph.nodes if node.name == "the cut" and node not in graph.nodes
    )
    names = [node.name for node in trunk.nodes if node.name]
    assume(not set(names) & {node.name for node in head.graph.nodes if node.name})
    order = data.draw(st.booleans())
    parts = [Member(trunk, "", "trunk"), Member(head.graph, "", "head")]
    place = {(1, variable_of): (0, Entry(cut, 0))}
    if order:
        parts.reverse()
        place = {(0, variable_of): (1, Entry(cut, 0))}
    try:
        rewrite = join(parts, connect=place)
    except RefusedError as error:
        assert "is in both" in str(error) or "no output is left" in str(error)  # implied states
        return
    whole = extract_entries(graph, graph.heads).graph
    assert [
        fault for fault in validate(rewrite.graph) if "which is not in the graph" in fault.message
    ] == []
    wanted = extract_entries(rewrite.graph, rewrite.graph.heads).graph
    assert bool(compare_structure(whole.heads, wanted.heads))
    assert {n.name for n in wanted.nodes} == {n.name for n in whole.nodes}


UNARY = [
    ("relu", {}),
    ("tanh", {}),
    ("Activation", {"act_type": "sigmoid"}),
    ("softmax", {"axis": "-1"}),
    ("_mul_scalar", {"scalar": "3"}),
    ("Flatten", {}),
    ("Reshape", {"shape": "(0, -1)"}),
    ("Reshape", {"shape": "(-1, 2)"}),
    ("Reshape", {"shape": "(-1,)"}),
    ("transpose", {"axes": "(1, 0)"}),
    ("SwapAxis", {"dim1": "0", "dim2": "1"}),
    ("sum", {"axis": "1", "keepdims": "True"}),
    ("max", {"axis": "-1"}),
    ("expand_dims", {"axis": "1"}),
    ("expand_dims", {"axis": "0"}),
    ("L2Normalization", {}),
    ("mean", {"axis": "0", "keepdims": "True"}),
]


@st.composite
def nets(draw: st.DrawFn) -> Document:
    """Small nets on a matrix ``(samples, 4)`` and parameters."""
    nodes: list[Record] = [variable("data", attrs={"__shape__": "(0, 4)"})]
    for i in range(draw(st.integers(1, 5))):
        sources = [
            k for k, node in enumerate(nodes) if node["op"] != "null" or node["name"] == "data"
        ]
        source = draw(st.sampled_from(sources))
        kind = draw(st.integers(0, 3))
        if kind == 0:
            nodes.append(variable(f"n{i}_weight"))
            attrs = {"num_hidden": "4", "no_bias": "True"}
            nodes.append(operator("FullyConnected", f"n{i}", [source, len(nodes) - 1], attrs=attrs))
        elif kind == 1:
            nodes.append(
                operator("broadcast_add", f"n{i}", [source, draw(st.sampled_from(sources))])
            )
        else:
            op, attrs = draw(st.sampled_from(UNARY))
            nodes.append(operator(op, f"n{i}", [source], attrs=attrs))
    last = len(nodes) - 1
    heads = draw(
        st.lists(st.sampled_from([k for k, n in enumerate(nodes) if n["op"] != "null"]), max_size=2)
    )
    return document(nodes, [last, *heads])


def values_of(graph: Graph, rows: dict[str, Any]) -> dict[Any, Any]:
    found = {}
    for node in graph.variables():
        rng = np.random.default_rng(list(node.name.encode()))
        found[node] = rows.get(node.name, rng.standard_normal((4, 4)).astype("float32"))
    return found


@given(found=nets(), samples=st.integers(1, 3), seed=st.integers(0, 9))
def test_a_batch_computes_what_copies_compute(found: Document, samples: int, seed: int) -> None:
    """On equal inputs and on different ones, wherever the batch is not refused and the net runs at all."""
    graph = read(found)
    rng = np.random.default_rng(seed)
    rows = {
        name: rng.standard_normal((samples, 4)).astype("float32") for name in ("data", "x-data")
    }
    copies = duplicate(graph, ["x-"], mode="tie").graph
    try:
        wanted = run_graph(copies.heads, values_of(copies, rows))
    except RefusedError:
        return  # shapes that do not fit
    try:
        made = duplicate(graph, ["x-"], mode="batch")
    except RefusedError as error:
        assert {fault.node for fault in error.faults} <= {node.name for node in graph.nodes}
        return
    for fed in (rows, dict.fromkeys(rows, rows["data"])):
        wanted = run_graph(copies.heads, values_of(copies, fed))
        got = run_graph(made.graph.heads, values_of(made.graph, fed))
        assert len(got) == len(wanted)
        for a, b in zip(got, wanted, strict=True):
            assert a.shape == b.shape
            assert np.allclose(a, b, rtol=1e-4, atol=1e-5)
    batched = find_batch(made.graph)
    assert batched is not None
    for number in range(2):
        alone = [head.node.inputs[0] for head in single_run(batched, number)[0].heads]
        assert compare_structure(alone, graph.heads)
