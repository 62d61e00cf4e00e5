"""Names of nodes, which viewers show: they are accepted wherever those of values are, and values come first."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import graphshare as gs
from graphshare.errors import RefusedError


def value(name: str, shape: list[int | str] | None = None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, TensorProto.FLOAT, ["n", 4] if shape is None else shape
    )


def write(
    path: Path, nodes: list[onnx.NodeProto], outputs: list[onnx.ValueInfoProto], inputs: str = "x"
) -> Path:
    graph = helper.make_graph(
        nodes, "g", [value(inputs, ["n", 4 if inputs == "x" else "m"])], outputs
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path
    )
    return path


@pytest.fixture
def halves(tmp_path: Path) -> Path:
    """A model in which nodes, values and even a node and another one's value have different names."""
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "first"),
        helper.make_node("Split", ["r"], ["a", "b"], "halves", axis=1, num_outputs=2),
        helper.make_node("Neg", ["a"], ["na"], "b"),  # the name of a value of another node
        helper.make_node("Add", ["na", "b"], ["y"], "sum"),
    ]
    return write(tmp_path / "halves.onnx", nodes, [value("y", ["n", 2])])


def list_output_names(model: gs.Checkpoint) -> list[str]:
    return [entry.node.details.outputs[entry.index] for entry in model.graph.heads]


@pytest.mark.parametrize(
    ("targets", "outputs"),
    [
        (["sum"], ["y"]),
        (["halves"], ["a", "b"]),
        (["b"], ["b"]),
        (["=first"], ["r"]),
        (["fir*"], ["r"]),
        (["h*s"], ["a", "b"]),
    ],
)
def test_a_node_means_its_values_and_a_value_of_the_name_comes_first(
    halves: Path, targets: list[str], outputs: list[str]
) -> None:
    assert list_output_names(gs.extract(halves, targets)) == outputs


def test_branches_end_at_a_node(halves: Path) -> None:
    assert list_output_names(gs.duplicate(halves, "b_", upto="first"))[1:] == ["b_r"]


def test_a_wrong_name_is_answered_with_that_of_a_node(halves: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        gs.extract(halves, "halvse")
    assert caught.value.faults[0].hint == "did you mean 'halves'?"


def test_several_nodes_of_one_name_are_told_apart_by_values(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Relu", ["x"], ["r"], "same"),
        helper.make_node("Neg", ["r"], ["y"], "same"),
    ]
    path = write(tmp_path / "same.onnx", nodes, [value("y")])
    with pytest.raises(RefusedError, match="means 2 nodes") as caught:
        gs.extract(path, "same")
    assert caught.value.faults[0].hint == "name a value instead: r, y"


def test_rules_that_match_no_value_rename_nodes(halves: Path, tmp_path: Path) -> None:
    renamed, names = tmp_path / "renamed.onnx", tmp_path / "names.json"
    gs.save(gs.rename(halves, match={"halves": "parts", "fir*": "1*"}), renamed, map=names)
    nodes = [(node.name, list(node.output)) for node in onnx.load(renamed).graph.node]
    assert nodes == [("1st", ["r"]), ("parts", ["a", "b"]), ("b", ["na"]), ("sum", ["y"])]
    gs.save(gs.rename(renamed, map=names, inverse=True), tmp_path / "back.onnx")
    assert (tmp_path / "back.onnx").read_bytes() == halves.read_bytes()
    # A value has this name, and the node called so keeps it
    named = gs.rename(halves, match={"b": "other"})
    assert [list(node.details.outputs) for node in named.graph.nodes if node.op == "Split"] == [
        ["a", "other"]
    ]
    with pytest.raises(RefusedError) as caught:
        gs.rename(halves, match={"halvse": "parts"})
    assert caught.value.faults[0].hint == "did you mean 'halves'?"


def test_a_node_is_connected(halves: Path, tmp_path: Path) -> None:
    head = write(
        tmp_path / "head.onnx",
        [helper.make_node("Relu", ["in"], ["out"], "last")],
        [value("out", ["n", "m"])],
        "in",
    )
    assert list_output_names(
        gs.group([halves, head], connect={"sum": "in"}, prefixes=["", "h_"])
    ) == ["h_out"]
    assert list_output_names(
        gs.group([halves, head], connect={"p_sum": "in"}, prefixes=["p_", "h_"])
    ) == ["h_out"]
    with pytest.raises(RefusedError, match="'halves' has 2 outputs") as caught:
        gs.group([halves, head], connect={"halves": "in"}, prefixes=["", "h_"])
    assert caught.value.faults[0].hint == "name one of a, b"


def test_a_cut_at_a_node_is_one_at_the_outputs_that_are_needed(halves: Path) -> None:
    assert [node.name for node in gs.extract(halves, "sum", cuts="halves").graph.variables()] == [
        "a",
        "b",
    ]
    assert [node.name for node in gs.extract(halves, "na", cuts="halves").graph.variables()] == [
        "a"
    ]
    with pytest.raises(RefusedError, match="'b' is not needed"):
        gs.extract(halves, "na", cuts=["a", "b"])
    with pytest.raises(RefusedError, match="'y' is not needed"):
        gs.extract(halves, "na", cuts="sum")
