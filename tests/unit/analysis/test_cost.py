"""The cost of a graph: multiply-adds and parameters of each layer, of all, and what is not known."""

from __future__ import annotations

import pytest

from graphshare.analysis.cost import (
    LayerCost,
    OperatorTotals,
    Totals,
    count_multiply_adds,
    multiply_adds,
    totals,
)
from graphshare.analysis.roles import assign_roles
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph, Node, NodeDetails
from graphshare.ops.inference import infer
from graphshare.ops.kernel import Shape
from tests.symbols import document, mxnet_text, operator, variable

FC = {"num_hidden": "3"}
LSTM = {"mode": "lstm", "state_size": "4", "num_layers": "1"}


def shared() -> Graph:
    """Two layers with one weight and one bias, a BatchNorm, and an operator that reads one weight twice."""
    names = (
        "data",
        "w_weight",
        "w_bias",
        "bn_gamma",
        "bn_beta",
        "bn_moving_mean",
        "bn_moving_var",
        "v_weight",
    )
    nodes = [
        *map(variable, names),
        operator("FullyConnected", "first", [0, 1, 2], attrs=FC),
        operator("FullyConnected", "second", [8, 1, 2], attrs=FC),
        operator("BatchNorm", "bn", [9, 3, 4, 5, 6]),
        operator("elemwise_mul", "square", [7, 7]),
        operator("elemwise_add", "sum", [10, 11]),
    ]
    return read_symbol(mxnet_text(document(nodes, [12])).encode())


def find_totals(shapes: dict[str, tuple[int, ...]]) -> Totals:
    graph = shared()
    given = {node: shapes[node.name] for node in graph.variables() if node.name in shapes}
    return totals(infer(graph, given, {}), assign_roles(graph))


def test_a_shared_parameter_counts_for_the_layer_that_uses_it_first() -> None:
    found = find_totals({"data": (2, 3), "v_weight": (2, 3)})
    out = ((2, 3),)
    assert found.layers == [
        LayerCost("first", "FullyConnected", out, 12, 0, 18),
        LayerCost("second", "FullyConnected", out, 0, 12, 18),
        LayerCost("bn", "BatchNorm", out, 12, 0, 0),
        LayerCost("square", "elemwise_mul", out, 6, 0, 0),
        LayerCost("sum", "elemwise_add", out, 0, 0, 0),
    ]
    assert (found.parameters, found.auxiliary, found.multiply_adds) == (24, 6, 36)
    assert found.operators == {
        "FullyConnected": OperatorTotals(2, 12, 36),
        "BatchNorm": OperatorTotals(1, 12, 0),
        "elemwise_mul": OperatorTotals(1, 6, 0),
        "elemwise_add": OperatorTotals(1, 0, 0),
    }


def test_what_needs_an_unknown_shape_is_not_known() -> None:
    found = find_totals({})
    assert [
        (layer.parameters, layer.shared, layer.multiply_adds) for layer in found.layers[:4]
    ] == [(12, 0, None), (0, 12, None), (12, 0, 0), (None, 0, 0)]
    assert found.operators["elemwise_mul"] == OperatorTotals(1, None, 0)
    assert (found.parameters, found.auxiliary, found.multiply_adds) == (None, 6, None)


def test_an_output_that_inference_does_not_cover_has_no_shape() -> None:
    nodes = [
        *(
            variable("data"),
            variable("weight"),
            operator("Pooling", "pool", [0], attrs={"kernel": "(2, 2)"}),
        ),
        operator("FullyConnected", "fc", [[2, 1, 0], 1], attrs={**FC, "no_bias": "True"}),
    ]
    graph = read_symbol(mxnet_text(document(nodes, [3])).encode())
    assert count_multiply_adds(infer(graph, {graph.nodes[0]: (1, 1, 4, 4)}, {})) == 0


def test_a_sum_leaves_out_what_is_not_known() -> None:
    graph = shared()
    data = next(graph.variables())
    assert count_multiply_adds(infer(graph, {data: (2, 3)}, {})) == 36
    assert count_multiply_adds(infer(graph, {}, {})) == 0


@pytest.mark.parametrize(
    ("node", "inputs", "outputs", "cost"),
    [
        (Node("FullyConnected", "n", {"num_hidden": "4"}), [(2, 3), (4, 3), (4,)], [(2, 4)], 24),
        (
            Node("FullyConnected", "n", {"num_hidden": "4"}),
            [(2, 3), (4, 3), (4,)],
            [(2, 4), None],
            24,
        ),
        (Node("FullyConnected", "n", {"num_hidden": "4"}), [(2, 3), (4, 3), (4,)], [None], None),
        (
            Node("FullyConnected", "n", {"num_hidden": "4"}),
            [(2, None), (4, 3), (4,)],
            [(2, 4)],
            None,
        ),
        (Node("FullyConnected", "n", {"num_hidden": "4"}), [(2, 3), None, (4,)], [(2, 4)], None),
        (
            Node("RNN", "n", LSTM),
            [(5, 2, 3), (144,), (1, 2, 4), (1, 2, 4)],
            [(5, 2, 4)],
            5 * 2 * 4 * 4 * (3 + 4),
        ),
        (Node("relu", "n"), [None], [None], 0),
        (Node("Mine", "n"), [(2, 3)], [(2, 3)], 0),
        (Node("Mine", "n", details=NodeDetails("own")), [(2, 3)], [(2, 3)], None),
        (Node("Custom", "n", {"op_type": "mine"}), [(2, 3)], [(2, 3)], 0),
    ],
)
def test_multiply_adds_of_one_node(
    node: Node, inputs: list[Shape], outputs: list[Shape], cost: int | None
) -> None:
    assert multiply_adds(node, inputs, outputs) == cost
