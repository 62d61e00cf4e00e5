"""A block that is used twice, as Gluon exports it: every operator has its name twice, and ``NAME#1`` is the second."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphshare as gs
from graphshare.errors import InputError, RefusedError
from graphshare.text.names import find_numbered, unique_names
from tests.symbols import Document, document, operator, variable

SHAPES = {"a": (2, 3), "b": (2, 3)}
DRAWN = {"shapes": {"b": (2, 3)}, "inputs": gs.Inputs(params_seed=0)}


def two_towers(*, heads: list[int] | None = None, act: str = "relu", same_input: bool = False) -> Document:
    """Two towers, fc and act, on one weight; the outputs are their difference, or ``heads``."""
    nodes = [
        variable("a"),
        variable("w"),
        operator("FullyConnected", "fc", [0, 1], attrs={"num_hidden": "4", "no_bias": "True"}),
        operator("Activation", "act", [2], attrs={"act_type": "relu"}),
        variable("b"),
        operator("FullyConnected", "fc", [0 if same_input else 4, 1], attrs={"num_hidden": "4", "no_bias": "True"}),
        operator("Activation", "act", [5], attrs={"act_type": act}),
        operator("elemwise_sub", "minus", [3, 6]),
    ]
    return document(nodes, heads or [7])


def write(folder: Path, graph: Document) -> str:
    (folder / "towers-symbol.json").write_text(json.dumps(graph))
    return str(folder / "towers-symbol.json")


@pytest.mark.parametrize("names", [["a", "b"], ["a", "a"], ["a", "a", "a#1", "a"], ["b", "a", "b", "b"]])
def test_a_number_that_is_printed_means_the_thing_that_has_it(names: list[str]) -> None:
    printed = unique_names(names)
    things: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        things.setdefault(name, []).append(place)
    for place, name in enumerate(printed):
        if name != names[place] and "a#1" not in names:
            assert find_numbered(name, things) == place
    assert find_numbered("a#9", things) is None
    assert find_numbered("a#x", things) is None


def test_a_repeated_name_with_its_number_is_a_target_a_cut_and_an_output(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    with pytest.raises(RefusedError, match="means 2 nodes"):
        gs.extract(graph, "act")
    assert next(gs.extract(graph, "act#0").graph.variables()).name == "a"
    assert {node.name for node in gs.extract(graph, "act#1").graph.variables()} == {"b", "w"}
    assert {node.name for node in gs.extract(graph, "act_output#1").graph.variables()} == {"b", "w"}
    with pytest.raises(RefusedError, match="names no output"):
        gs.extract(graph, "act#2")
    cut = gs.extract(graph, "minus", cuts=["act_output#0", "act_output#1"]).graph
    assert [node.name for node in cut.nodes] == ["act_output", "act_output#1", "minus"]
    outputs = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0, targets=["act#1", "act#0"]).outputs
    assert list(outputs) == ["act_output#1", "act_output"]
    whole = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0, all_outputs=True).outputs
    assert all((outputs[name] == whole[name]).all() for name in outputs)


def test_heads_are_numbered_as_they_are_listed(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers(heads=[6, 3]))
    listed = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0).outputs
    for name in listed:
        target = name if "#" in name else f"{name}#0"
        (chosen,) = gs.run(graph, shapes=SHAPES, seed=0, params_seed=0, targets=[target]).outputs.values()
        assert (chosen == listed[name]).all()
    assert next(gs.extract(graph, "act#0").graph.variables()).name == "w"  # MXNet of b, which the heads list first
    twice = write(tmp_path, two_towers(heads=[7, 7]))
    assert gs.extract(twice, ["minus"]).graph.heads[1:] == ()
    assert len(gs.extract(twice, "minus_output#1").graph.heads) == 1


def test_a_repeated_name_with_its_number_is_renamed_copied_and_connected(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    for renamed in (gs.rename(graph, match={"act#1": "x"}), gs.rename(graph, names={"act#1": "x"})):
        assert [node.name for node in renamed.graph.nodes if node.op] == ["fc", "act", "fc", "x", "minus"]
    both = gs.rename(graph, names={"act": "y", "act#1": "x"}).graph
    assert [node.name for node in both.nodes if node.op] == ["fc", "y", "fc", "x", "minus"]
    with pytest.raises(InputError, match="no node named 'act#2'"):
        gs.rename(graph, names={"act#2": "x"})
    copied = gs.duplicate(graph, prefixes=["c-"], upto=["act#1"]).graph
    assert [node.name for node in copied.nodes if node.name.startswith("c-")] == ["c-w", "c-b", "c-fc", "c-act"]
    gs.save(gs.duplicate(graph, prefixes=["c-"], upto=["act#1"]), tmp_path / "copied-symbol.json")
    assert gs.verify(tmp_path / "copied-symbol.json", prefixes="c-", **DRAWN)
    (tmp_path / "top-symbol.json").write_text(json.dumps(document([variable("x"), operator("relu", "top", [0])], [1])))
    joined = gs.group([graph, str(tmp_path / "top-symbol.json")], connect={"act#1": "x"}).graph
    top = next(node for node in joined.nodes if node.name == "top")
    assert top.inputs[0].node.inputs[0].node.inputs[0].node.name == "b"


def test_the_second_of_two_variables_of_one_name_is_fed_by_its_number(tmp_path: Path) -> None:
    path = write(tmp_path, document([variable("x"), variable("x"), operator("elemwise_sub", "y", [0, 1])], [2]))
    outputs = gs.run(path, feeds={"x": [3.0, 3.0], "x#1": [1.0, 2.0]}).outputs
    assert outputs["y_output"].tolist() == [2.0, 1.0]


def test_the_towers_of_a_block_are_told_by_their_inputs(tmp_path: Path) -> None:
    graph = write(tmp_path, two_towers())
    report = gs.verify(graph, shapes=SHAPES, inputs=gs.Inputs(params_seed=0), train_step=True)
    assert [(branch.reference, branch.branch) for branch in report.branches] == [("a", "b")]
    assert report
    assert gs.verify(write(tmp_path, two_towers(heads=[6, 3])), shapes=SHAPES, inputs=gs.Inputs(params_seed=0))
    same = gs.verify(write(tmp_path, two_towers(same_input=True)), shapes={"a": (2, 3)}, inputs=gs.Inputs(params_seed=0))
    assert same.branches[0].branch == "act_output#1"


def test_towers_of_unlike_structure_are_not_branches(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="do not show which branches") as refused:
        gs.verify(write(tmp_path, two_towers(act="tanh")), shapes=SHAPES, inputs=gs.Inputs(params_seed=0))
    assert "graphshare extract" in str(refused.value.faults[0].hint)


@pytest.mark.parametrize(
    ("heads", "labels"),
    [
        (["flat_x1", "flat_x2"], [("x1", "x2")]),
        (["flat", "flat_b"], [("", "_b")]),
        (["p_left_q", "p_right_q", "p_mid_q"], [("left", "right"), ("left", "mid")]),
        (["u_x1", "v_x1", "u_x2", "v_x2"], [("x1", "x2")]),
        (["u_x1", "u_x2", "v_x1", "v_x2"], [("u", "v")]),
    ],
)
def test_branches_are_told_by_another_part_of_their_outputs_names(
    tmp_path: Path, heads: list[str], labels: list[tuple[str, str]]
) -> None:
    nodes = [variable("x"), *(operator("relu", name, [0]) for name in heads)]
    graph = write(tmp_path, document(nodes, range(1, len(nodes))))
    report = gs.verify(graph, shapes={"x": (2, 3)})
    assert report
    assert [(branch.reference, branch.branch) for branch in report.branches] == labels
    told = gs.verify(graph, prefixes=[part for part in dict.fromkeys(sum(labels, ())) if part], shapes={"x": (2, 3)})
    assert told == report


@pytest.mark.parametrize("second", ["sigmoid", "relu6"])
def test_a_part_of_names_is_no_branch_where_the_structure_differs_unless_it_is_told(tmp_path: Path, second: str) -> None:
    nodes = [variable("x"), operator("relu", "flat_x1", [0]), operator(second, "flat_x2", [0])]
    graph = write(tmp_path, document(nodes, [1, 2]))
    with pytest.raises(RefusedError, match="do not show which branches"):
        gs.verify(graph, shapes={"x": (2, 3)})
    assert not gs.verify(graph, prefixes=["x1", "x2"], shapes={"x": (2, 3)})
