"""Inference: both directions, declared shapes, and contradictions that name the node and both shapes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphshare.analysis.cost import multiply_adds
from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node, NodeDetails
from graphshare.ir.walk import post_order
from graphshare.ops.inference import Inference, choose_sizes, infer
from graphshare.ops.node_errors import find_faults
from graphshare.ops.unification import is_known
from tests.gradients.control_graphs import foreach
from tests.symbols import document, operator, siamese, two_layers, variable


def graph_of(found: dict[str, Any]) -> Graph:
    return read_symbol(json.dumps(found).encode())


def inferred(graph: Graph, **shapes: Any) -> dict[str, Any]:
    found = infer(
        graph, {node: shapes[node.name] for node in graph.variables() if node.name in shapes}, {}
    )
    return {node.name: found.shapes[node][0] for node in graph.nodes}


def faults_of(graph: Graph, **shapes: Any) -> list[Any]:
    with pytest.raises(RefusedError) as caught:
        inferred(graph, **shapes)
    return list(caught.value.faults)


def test_forwards_and_backwards() -> None:
    found = inferred(graph_of(two_layers()), data=(5, 3))
    assert (found["fc1_weight"], found["fc1"], found["bn_moving_var"]) == ((4, 3), (5, 4), (4,))
    assert (found["fc2_weight"], found["softmax_label"], found["softmax"]) == ((2, 4), (5,), (5, 2))
    found = inferred(graph_of(two_layers()), fc1_weight=(4, 3))
    assert (found["fc1"], found["softmax"]) == ((None, 4), (None, 2))
    nodes = [
        variable("a"),
        variable("b"),
        operator("relu", "r", [0]),
        operator("elemwise_add", "sum", [2, 1]),
    ]
    assert inferred(graph_of(document(nodes, [3])), b=(2, 3))["a"] == (2, 3)


def test_what_stays_unknown() -> None:
    graph = graph_of(siamese())
    found = infer(graph, {}, {})
    unknown = [
        node.name
        for node in found.nodes
        if node.is_variable and not is_known(found.shapes[node][0])
    ]
    assert unknown == ["data", "conv_weight"]
    assert inferred(graph, data=(2, 5, None, 9))["conv"] == (2, 1, None, 7)
    assert inferred(graph, data=(2, 5, None, 9))["conv_weight"] == (1, 5, 3, 3)


def test_a_contradiction_names_the_node_and_both_shapes() -> None:
    (fault,) = faults_of(graph_of(two_layers()), data=(5, 3), fc1_weight=(4, 6))
    assert fault.node == "fc1"
    assert "data (5,3)" in fault.message
    assert "fc1_weight (4,6)" in fault.message
    assert "6 where 3 would fit" in fault.message
    nodes = [variable("a"), variable("b"), operator("elemwise_add", "sum", [0, 1])]
    (fault,) = faults_of(graph_of(document(nodes, [2])), a=(2, 3), b=(2, 4))
    assert (fault.node, "(2,3) does not fit (2,4)" in fault.message) == ("sum", True)


def test_declared_shapes_and_types() -> None:
    nodes = [
        variable("a", attrs={"__shape__": "(0, 3)", "__dtype__": "2"}),
        operator("relu", "r", [0]),
    ]
    graph = graph_of(document(nodes, [1]))
    assert inferred(graph)["r"] == (None, 3)
    assert inferred(graph, a=(4, None))["r"] == (4, 3)
    assert infer(graph, {}, {}).types[graph.nodes[1]] == ["float16"]


def test_a_shape_held_in_a_file_must_agree_with_the_declared_one() -> None:
    graph = graph_of(
        document([variable("a", attrs={"__shape__": "(0, 3)"}), operator("relu", "r", [0])], [1])
    )
    assert infer(graph, {graph.nodes[0]: (4, 3)}, {}, held=[graph.nodes[0]]).shapes[
        graph.nodes[1]
    ] == [(4, 3)]
    with pytest.raises(RefusedError) as caught:
        infer(graph, {graph.nodes[0]: (4, 5)}, {}, held=[graph.nodes[0]])
    (fault,) = caught.value.faults
    assert fault.node == "a"
    assert "(4,5)" in fault.message
    assert "(?,3)" in fault.message


@pytest.mark.parametrize(("np_shape", "expected"), [(False, None), (True, ())])
def test_an_empty_declared_shape_is_known_under_numpy_shapes(
    np_shape: bool, expected: tuple[int, ...] | None
) -> None:
    graph = graph_of(
        document([variable("a", attrs={"__shape__": "()"}), operator("_npi_exp", "e", [0])], [1])
    )
    inference = infer(graph, {}, None, np_shape=np_shape)
    assert [inference.shapes[node] for node in inference.nodes] == [[expected], [expected]]


def test_a_body_may_return_an_output_that_its_operator_does_not_have() -> None:
    document = foreach()
    document["nodes"][3]["subgraphs"][0]["heads"][0] = [6, 4, 0]
    graph = graph_of(document)
    shapes = {
        node: {"data": (4, 3), "state": (3,), "weight": (3,)}[node.name]
        for node in graph.variables()
    }
    assert infer(graph, shapes, {}).shapes[graph.nodes[-1]] == [None, (3,)]


def test_an_input_that_its_operator_does_not_have_stays_unknown() -> None:
    nodes = [variable("a"), operator("relu", "r", [0]), operator("relu", "s", [[1, 3, 0]])]
    graph = graph_of(document(nodes, [2]))
    inference = infer(graph, {graph.nodes[0]: (2, 3)}, {})
    assert [inference.shapes[node] for node in graph.nodes] == [[(2, 3)], [(2, 3)], [None]]


def test_bodies_do_not_count_as_inputs() -> None:
    (loop,) = (node for node in graph_of(foreach()).nodes if node.subgraphs)
    assert find_faults(loop) == []


def test_types_contradict_each_other() -> None:
    graph = graph_of(
        document([variable("a"), variable("b"), operator("elemwise_add", "sum", [0, 1])], [2])
    )
    a, b = graph.variables()
    with pytest.raises(RefusedError, match="float16 and float64"):
        infer(graph, {}, {a: "float16", b: "float64"})
    assert infer(graph, {}, {a: "float16"}).types[b] == ["float16"]
    assert infer(graph, {}, {}, yielding=None).types[b] == [None]


def costs(op: str, attrs: dict[str, str], **shapes: tuple[int, ...]) -> int | None:
    nodes = [*map(variable, shapes), operator(op, "n", list(range(len(shapes))), attrs=attrs)]
    graph = graph_of(document(nodes, [len(shapes)]))
    node: Node = graph.nodes[-1]
    found: Inference = infer(
        graph,
        dict(zip(graph.variables(), shapes.values(), strict=True)),
        {},
        nodes=post_order([node]),
    )
    return multiply_adds(
        node, [found.shapes[entry.node][0] for entry in node.inputs], found.shapes[node]
    )


def test_sizes_are_chosen_by_which_every_array_has_elements() -> None:
    def choose(*nodes: Any, **shapes: Any) -> dict[str, tuple[int, ...]]:
        graph = graph_of(document(list(nodes), [len(nodes) - 1]))
        found = infer(
            graph,
            {node: shapes[node.name] for node in graph.variables() if node.name in shapes},
            {},
        )
        chosen, sizes = choose_sizes(found)
        assert not sizes or all(
            is_known(row[0]) and 0 not in row[0] for row in chosen.shapes.values()
        )
        return {node.name: shape for node, shape in sizes.items()}

    relu = operator("relu", "r", [0])
    assert choose(variable("a"), relu) == {}  # not even the rank is known
    assert choose(variable("a"), relu, a=(2, 3)) == {}
    assert choose(variable("a"), relu, a=(None, None, None, 7)) == {"a": (1, 3, 224, 7)}
    assert choose(variable("a"), relu, a=(None, None, 5)) == {"a": (1, 224, 5)}
    fits = operator("Reshape", "r", [0], attrs={"shape": "(4,28,7)"})
    assert choose(variable("a"), fits, a=(None, None, 28)) == {"a": (1, 28, 28)}
    cut = operator("slice_axis", "r", [0], attrs={"axis": "1", "begin": "230", "end": "None"})
    assert choose(variable("a"), cut, a=(None, None)) == {"a": (1, 299)}
    assert (
        choose(
            variable("a"), operator("Reshape", "r", [0], attrs={"shape": "(70,)"}), a=(None, None)
        )
        == {}
    )


@pytest.mark.parametrize(
    ("op", "attrs", "shapes", "wanted"),
    [
        ("Convolution", {"kernel": "(3,3)", "num_filter": "4", "no_bias": "1"}, [(2, 6, 8, 8), (4, 6, 3, 3)], 2 * 4 * 36 * 54),
        ("Convolution", {"kernel": "(3,3)", "num_filter": "4", "no_bias": "1", "num_group": "2"}, [(2, 6, 8, 8), (4, 3, 3, 3)],
         2 * 4 * 36 * 27),
        ("Convolution", {"kernel": "(3,)", "num_filter": "4"}, [(1, 2, 5), (4, 2, 3), (4,)], 4 * 3 * 6),
        ("Deconvolution", {"kernel": "(2,2)", "stride": "(2,2)", "num_filter": "4"}, [(1, 3, 5, 5), (3, 4, 2, 2)], 3 * 25 * 16),
        ("FullyConnected", {"num_hidden": "4"}, [(2, 3, 5), (4, 15), (4,)], 2 * 4 * 15),
        ("FullyConnected", {"num_hidden": "4", "flatten": "0"}, [(2, 3, 5), (4, 5), (4,)], 2 * 3 * 4 * 5),
        ("dot", {}, [(2, 3), (3, 4)], 24),
        ("dot", {"transpose_a": "True"}, [(3, 2), (3, 4)], 24),
        ("batch_dot", {"transpose_b": "True"}, [(7, 2, 3), (7, 4, 3)], 7 * 24),
        ("RNN", {"mode": "lstm", "state_size": "4", "num_layers": "1"}, [(5, 2, 3), (144,), (1, 2, 4), (1, 2, 4)],
         5 * 2 * 4 * 4 * (3 + 4)),
        ("_contrib_interleaved_matmul_selfatt_qk", {"heads": "2"}, [(5, 3, 2 * 3 * 4)], 3 * 2 * 5 * 5 * 4),
        ("_contrib_interleaved_matmul_selfatt_valatt", {"heads": "2"}, [(5, 3, 2 * 3 * 4), (6, 5, 5)], 3 * 2 * 5 * 5 * 4),
        ("_contrib_interleaved_matmul_encdec_qk", {"heads": "2"}, [(5, 3, 8), (7, 3, 16)], 3 * 2 * 5 * 7 * 4),
        ("_contrib_interleaved_matmul_encdec_valatt", {"heads": "2"}, [(7, 3, 16), (6, 5, 7)], 3 * 2 * 5 * 7 * 4),
        ("relu", {}, [(2, 3)], 0),
    ],
)  # fmt: skip
def test_multiply_adds(
    op: str, attrs: dict[str, str], shapes: list[tuple[int, ...]], wanted: int
) -> None:
    assert costs(op, attrs, **{f"v{i}": shape for i, shape in enumerate(shapes)}) == wanted


def test_multiply_adds_of_what_has_no_kernel() -> None:
    node = graph_of(document([variable("x"), operator("Mine", "n", [0])], [1])).nodes[-1]
    assert multiply_adds(node, [(2, 3)], [(2, 3)]) == 0
    assert (
        multiply_adds(Node("Mine", "n", details=NodeDetails(domain="own")), [(2, 3)], [(2, 3)])
        is None
    )
