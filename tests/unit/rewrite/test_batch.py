"""One run for several branches, and the way back."""

from __future__ import annotations

import pytest

from graphshare.api.duplicate import duplicate
from graphshare.errors import RefusedError
from graphshare.ir.compare import compare_structure
from graphshare.ir.graph import Entry, Graph
from graphshare.rewrite.batched_graph import find_batch, single_run
from tests.symbols import document, operator, siamese, variable
from tests.unit.rewrite.graphs import heads, read, wiring
from tests.validate import validate


def test_inputs_are_concatenated_and_outputs_split() -> None:
    graph = duplicate(read(siamese()), ["sha-"], mode="batch").graph
    assert wiring(graph) == {
        "data": [],
        "sha-data": [],
        "data_batch": ["data", "sha-data"],
        "conv_weight": [],
        "conv": ["data_batch", "conv_weight"],
        "loss_batch": ["conv"],
        "loss_split": ["loss_batch"],
        "loss": ["loss_split"],
        "sha-loss": ["loss_split"],
    }
    assert heads(graph) == ["loss", "sha-loss"]
    assert [
        entry.index for entry in (graph.heads[0].node.inputs[0], graph.heads[1].node.inputs[0])
    ] == [0, 1]
    assert validate(graph) == []


def test_an_input_may_be_shared() -> None:
    nodes = [variable("x"), variable("y"), operator("elemwise_add", "sum", [0, 1])]
    graph = duplicate(read(document(nodes, [2])), ["b-"], share_inputs=["y"], mode="batch").graph
    assert wiring(graph)["y_batch"] == ["y", "y"]
    assert wiring(graph)["x_batch"] == ["x", "b-x"]


def test_each_branch_can_be_read_back_alone() -> None:
    source = read(siamese())
    batched = find_batch(duplicate(source, ["a-", "b-"], mode="batch").graph)
    assert batched is not None
    assert batched.labels == ("", "a-", "b-")
    for number, label in enumerate(batched.labels):
        alone, _ = single_run(batched, number)
        assert [node.name for node in alone.variables()] == [f"{label}data", "conv_weight"]
        copies = [entry.node.inputs[0] for entry in alone.heads]
        assert compare_structure(copies, source.heads)


def test_a_graph_without_marks_is_not_a_batch() -> None:
    assert find_batch(read(siamese())) is None


def test_what_is_left_of_a_batch_is_known_by_one_mark() -> None:
    graph = duplicate(read(siamese()), ["sha-"], mode="batch").graph
    (join,) = (node for node in graph.nodes if node.name == "data_batch")
    batched = find_batch(Graph(graph.nodes, (Entry(join, 0),), graph.attrs, graph.source))
    assert batched is not None
    assert (batched.labels, batched.joins, batched.splits) == (("", "sha-"), (join,), ())


def test_an_operator_that_mixes_samples_is_refused_or_noted() -> None:
    graph = read(document([variable("x"), operator("mean", "m", [0], attrs={"axis": "0"})], [1]))
    with pytest.raises(RefusedError):
        duplicate(graph, ["b-"], mode="batch")
    assert duplicate(graph, ["b-"], force=True, mode="batch").notes


def test_a_batch_of_a_batch_is_refused() -> None:
    graph = duplicate(read(siamese()), ["a-"], mode="batch").graph
    with pytest.raises(RefusedError, match="batch of branches already"):
        duplicate(graph, ["b-"], mode="batch")


def test_an_input_without_axes_has_no_samples_under_numpy_shapes() -> None:
    """Without them ``()`` is an unknown shape."""
    nodes = [variable("x", attrs={"__shape__": "()"}), operator("relu", "r", [0])]
    content = document(nodes, [1])
    duplicate(read(content), ["b-"], mode="batch")
    content["attrs"]["is_np_shape"] = ["int", 1]
    with pytest.raises(RefusedError, match="to an axis that there is not"):
        duplicate(read(content), ["b-"], mode="batch")
