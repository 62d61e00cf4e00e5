"""What a run is given where the caller says nothing: drawn values, an upgrade in memory, a batch of one sample."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.analysis.roles import assign_roles
from graphshare.execute.prepare.prepare import UPGRADED_BEFORE, upgrade_part
from graphshare.execute.prepare.shape_report import shape_graph
from graphshare.execute.prepare.variable_values import draw_inputs
from graphshare.formats.mxnet.symbol import read_symbol
from graphshare.ir.graph import Graph
from graphshare.ops.inference import infer
from tests.symbols import document, mxnet_text, operator, variable


def read(nodes: list[dict[str, object]], version: int | None = 10901) -> Graph:
    return read_symbol(mxnet_text(document(nodes, [len(nodes) - 1], version=version)).encode())


@pytest.mark.parametrize("version", [None, UPGRADED_BEFORE - 1, UPGRADED_BEFORE, UPGRADED_BEFORE + 1])
def test_a_graph_that_lacks_nothing_is_upgraded_if_it_is_old(version: int | None) -> None:
    graph = read([variable("x"), operator("tanh", "y", [0])], version)
    part, images, implied = upgrade_part(graph, graph.heads)
    assert implied == 0
    assert bool(images) is (version is None or version < UPGRADED_BEFORE)
    assert [node.name for node in part.nodes] == ["x", "y"]


def test_labels_and_states_are_zeros_and_data_are_drawn() -> None:
    names = ("data", "rnn_parameters", "state", "state_cell", "label")
    nodes = [variable(name) for name in names]
    attrs = {"mode": "lstm", "num_layers": "1", "state_size": "2"}
    nodes += [operator("RNN", "rnn", [0, 1, 2, 3], attrs=attrs), operator("SoftmaxOutput", "out", [5, 4])]
    graph = read(nodes)
    roles = assign_roles(graph)
    inference = infer(graph, {graph.nodes[0]: (3, 4, 2)}, {})
    known = {graph.nodes[1]: np.ones(1)}
    drawn = draw_inputs(graph.nodes, known, inference, roles, seed=0)
    assert {node.name: bool(value.any()) for node, value in drawn.items()} == {
        "data": True,
        "state": False,
        "state_cell": False,
        "label": False,
    }
    unknown = draw_inputs(graph.nodes, known, inference, {}, seed=0)  # nothing is known of what they are
    assert {node.name for node, value in unknown.items() if value.any()} >= {"data", "state", "state_cell"}


@pytest.mark.parametrize(
    ("shapes", "samples", "expected"),
    [
        (("(0, 3)", "(2, 3)"), [], (2, 3)),
        (("(0, 3)", "(0, 3)"), ["x", "z"], (1, 3)),
        (("(0, 3)", None), ["x", "z"], (1, 3)),
        (("(0, 0, 3)", None), [], (None, None, 3)),
        (("(0, 0)", "(2, 3)"), [], (2, 3)),
        (("(2, 3)", "(2, 3)"), [], (2, 3)),
        ((None, None), [], None),
    ],
)
def test_an_unknown_batch_is_one_sample(
    shapes: tuple[str | None, ...], samples: list[str], expected: tuple[int | None, ...] | None
) -> None:
    nodes = [
        variable(name, **({"attrs": {"__shape__": shape}} if shape else {})) for name, shape in zip("xz", shapes, strict=True)
    ]
    shaped = shape_graph(read([*nodes, operator("elemwise_add", "y", [0, 1])]), {}, one_sample=True)
    assert (shaped.samples, shaped.outputs[-1].shape) == (samples, expected)
