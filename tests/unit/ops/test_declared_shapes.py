"""A shape that is given replaces the one that a variable declares, as in MXNet; the recorded
answers are MXNet 1.9.1's.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphshare.errors import RefusedError
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ops.inference import infer
from tests.symbols import document, operator, variable


def net(data: str, weight: str) -> dict[str, Any]:
    nodes = [
        variable("data", attrs={"__shape__": data}),
        variable("w", attrs={"__shape__": weight}),
    ]
    attrs = {"kernel": "(3, 3)", "no_bias": "True", "num_filter": "4"}
    return document([*nodes, operator("Convolution", "c", [0, 1], attrs=attrs)], [2])


FIXED, OPEN = net("(1, 3, 8, 8)", "(4, 3, 3, 3)"), net("(0, 3, 8, 8)", "(0, 0, 0, 0)")
# A graph, the shapes given, and the shape of the output; None where MXNet refuses.
CASES: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]], tuple[int, ...] | None]] = {
    "nothing given": (FIXED, {}, (1, 4, 6, 6)),
    "another size": (FIXED, {"data": (1, 3, 9, 9)}, (1, 4, 7, 7)),
    "another batch": (FIXED, {"data": (2, 3, 8, 8)}, (2, 4, 6, 6)),
    "channels that the weight does not have": (FIXED, {"data": (1, 5, 8, 8)}, None),
    "another rank": (FIXED, {"data": (3, 8, 8)}, None),
    "another weight": (FIXED, {"w": (4, 3, 5, 5)}, None),
    "the same weight": (FIXED, {"w": (4, 3, 3, 3)}, (1, 4, 6, 6)),
    "both": (FIXED, {"data": (1, 5, 8, 8), "w": (4, 5, 3, 3)}, (1, 4, 6, 6)),
    "open sizes, all given": (OPEN, {"data": (2, 5, 9, 9)}, (2, 4, 7, 7)),
    "open sizes, another rank": (OPEN, {"data": (2, 3, 9)}, None),
}


@pytest.mark.parametrize("name", CASES)
def test_a_given_shape_wins(name: str) -> None:
    source, given, expected = CASES[name]
    graph = read_symbol(json.dumps(source).encode())
    shapes = {node: given[node.name] for node in graph.variables() if node.name in given}
    if expected is None:
        with pytest.raises(RefusedError):
            infer(graph, shapes, {})
    else:
        assert infer(graph, shapes, {}).shapes[graph.heads[0].node] == [expected]


def test_sizes_that_are_left_open_are_those_declared() -> None:
    graph = read_symbol(json.dumps(FIXED).encode())
    assert infer(graph, {graph.nodes[0]: (None, 3, 9, 9)}, {}).shapes[graph.nodes[0]] == [
        (1, 3, 9, 9)
    ]


def test_a_body_takes_the_shapes_of_its_owner() -> None:
    inner = document(
        [variable("x", attrs={"__shape__": "(5,)"}), operator("relu", "r", [0])], [1], version=None
    )
    attrs = {
        "num_args": "2",
        "num_outputs": "1",
        "num_out_data": "1",
        "in_state_locs": "()",
        "in_data_locs": "(0,)",
    }
    attrs["remain_locs"] = "()"
    nodes = [variable("data"), operator("_foreach", "each", [0], attrs=attrs, subgraphs=[inner])]
    graph = read_symbol(json.dumps(document(nodes, [1])).encode())
    assert infer(graph, {graph.nodes[0]: (2, 3)}, {}).shapes[graph.nodes[1]] == [(2, 3)]
    assert infer(graph, {graph.nodes[0]: (2, None)}, {}).shapes[graph.nodes[1]] == [(2, 5)]
