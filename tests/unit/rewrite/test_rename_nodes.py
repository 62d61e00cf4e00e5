"""New names for nodes, as one act."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import graphshare as gs
from graphshare.errors import RefusedError, UsageError
from graphshare.rewrite.add_branches import add_branches
from graphshare.rewrite.rename_nodes import plan_rename, rename_by_rules, set_names
from graphshare.rewrite.rules.model import Only, Rule, Ruleset
from tests.symbols import old_batch_norm, siamese
from tests.unit.rewrite.graphs import named, read, wiring


def test_names_may_be_swapped() -> None:
    graph = read(siamese())
    rewrite = set_names(
        graph, {named(graph, "data"): "conv_weight", named(graph, "conv_weight"): "data"}
    )
    assert wiring(rewrite.graph)["conv"] == ["conv_weight", "data"]


def test_what_does_not_need_a_renamed_node_keeps_its_identity() -> None:
    graph = read(siamese())
    rewrite = set_names(graph, {named(graph, "conv"): "c"})
    assert [a is b for a, b in zip(graph.nodes, rewrite.graph.nodes, strict=True)] == [
        True,
        True,
        False,
        False,
    ]


def test_a_prefix_is_stripped_before_another_is_added() -> None:
    renamed = plan_rename(
        plan_rename(read(siamese()), prefix="a-").graph, strip_prefix="a-", prefix="b-"
    ).graph
    assert list(wiring(renamed)) == ["b-data", "b-conv_weight", "b-conv", "b-loss"]


@pytest.mark.parametrize(
    ("only", "names"),
    [
        ("ops", ["data", "conv_weight", "a-conv", "a-loss"]),
        ("variables", ["a-data", "a-conv_weight", "conv", "loss"]),
        ("parameters", ["data", "a-conv_weight", "conv", "loss"]),
        ("inputs", ["a-data", "conv_weight", "conv", "loss"]),
    ],
)
def test_a_rename_may_be_limited_to_a_kind(only: Only, names: list[str]) -> None:
    assert list(wiring(plan_rename(read(siamese()), prefix="a-", only=[only]).graph)) == names


def test_implied_states_follow_their_operator() -> None:
    graph = read(old_batch_norm())
    rewrite = plan_rename(graph, prefix="a-")
    assert [(change.old, change.new) for change in rewrite.renames] == [
        ("bn_moving_mean", "a-bn_moving_mean"),
        ("bn_moving_var", "a-bn_moving_var"),
    ]


def test_renames_of_implied_states_compose_branch_by_branch() -> None:
    """A state without a node is followed by its name: through both rewrites, in whichever order, in each branch."""
    graph = read(old_batch_norm())
    there = add_branches(graph, ["sha-"])
    both = there.then(plan_rename(there.graph, prefix="net-"))
    names = {(change.branch, change.old): change.new for change in both.renames}
    assert names["", "bn_moving_mean"] == "net-bn_moving_mean"
    assert names["sha-", "bn_moving_mean"] == "net-sha-bn_moving_mean"
    assert {old for _, old in names} == {"bn_moving_mean", "bn_moving_var"}
    renamed = plan_rename(graph, prefix="net-")
    both = renamed.then(add_branches(renamed.graph, ["sha-"]))
    names = {(change.branch, change.old): change.new for change in both.renames}
    assert names["", "bn_moving_var"] == "net-bn_moving_var"
    assert names["sha-", "bn_moving_var"] == "sha-net-bn_moving_var"
    assert {old for _, old in names} == {"bn_moving_mean", "bn_moving_var"}


def test_rules_give_names() -> None:
    rewrite = rename_by_rules(read(siamese()), Ruleset((Rule("map", "data", "image"),)))
    assert wiring(rewrite.graph)["conv"] == ["image", "conv_weight"]
    assert rewrite.notes == ()


@pytest.mark.parametrize(
    "options",
    [{}, {"strip_prefix": "none-"}, {"strip_prefix": "data"}, {"prefix": "\0"}],
    ids=["nothing", "none", "whole", "nul"],
)
def test_a_rename_that_changes_nothing_or_loses_a_name_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(RefusedError):
        plan_rename(read(siamese()), **options)  # type: ignore[arg-type]


def test_all_collisions_are_listed() -> None:
    graph = read(siamese())
    with pytest.raises(RefusedError) as refused:
        set_names(graph, {graph.nodes[0]: "loss", graph.nodes[1]: "conv"})
    assert len(refused.value.faults) == 2


def test_a_name_of_an_output_changes_where_that_of_its_operator_does_not(tmp_path: Path) -> None:
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] net_x) => (float[2] y) {
        conv, net_aux = Split(net_x) y = Add(conv, net_aux) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    gs.save(gs.rename(tmp_path / "m.onnx", strip_prefix="net_"), tmp_path / "n.onnx")
    nodes = onnx.load(tmp_path / "n.onnx").graph.node
    assert [(list(node.input), list(node.output)) for node in nodes] == [
        (["x"], ["conv", "aux"]),
        (["conv", "aux"], ["y"]),
    ]


def _rename_values(tmp_path: Path, **settings: Any) -> tuple[list[str], list[list[str]], list[str]]:
    """Return the inputs, outputs of nodes, and outputs of a renamed model; the second output of its
    Split is the graph's.
    """
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[2] y, float[2] b)
        <float[2] w = {1, 2}> { a, b = Split(x) y = Add(a, w) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    gs.save(gs.rename(tmp_path / "m.onnx", **settings), tmp_path / "n.onnx")
    graph = onnx.load(tmp_path / "n.onnx").graph
    return (
        [value.name for value in graph.input],
        [list(node.output) for node in graph.node],
        [v.name for v in graph.output],
    )


@pytest.mark.parametrize(
    "settings",
    [
        {"prefix": "p_"},
        {"prefix": "p_", "strip_prefix": "q_"},
        {"match": {"*": "p_*"}},
        {"prefix": "p_", "match": {"a": "a"}},
    ],
    ids=["prefix", "stripped", "pattern", "both"],
)
def test_names_of_inputs_and_outputs_may_be_kept(tmp_path: Path, settings: dict[str, Any]) -> None:
    assert _rename_values(tmp_path, keep=("inputs", "outputs"), **settings) == (
        ["x"],
        [["p_a", "b"], ["y"]],
        ["y", "b"],
    )
    assert _rename_values(tmp_path, keep="outputs", **settings) == (
        ["p_x"],
        [["p_a", "b"], ["y"]],
        ["y", "b"],
    )
    assert _rename_values(tmp_path, keep="inputs", **settings) == (
        ["x"],
        [["p_a", "p_b"], ["p_y"]],
        ["p_y", "p_b"],
    )


def test_parameters_are_renamed_where_inputs_and_outputs_are_kept() -> None:
    graph = plan_rename(read(siamese()), prefix="p_", keep=("inputs", "outputs")).graph
    assert [node.name for node in graph.nodes if not node.name.startswith("p_")] == ["data", "loss"]


def test_rules_name_each_output_of_an_operator(tmp_path: Path) -> None:
    assert _rename_values(tmp_path, match={"b": "c"})[1:] == ([["a", "c"], ["y"]], ["y", "c"])
    assert _rename_values(tmp_path, match={"a": "b", "b": "a"})[1:] == (
        [["b", "a"], ["y"]],
        ["y", "a"],
    )


def test_names_that_are_kept_cannot_be_changed_at_once(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="'y' is a name that `only` or `keep` leaves as it is"):
        _rename_values(tmp_path, match={"y": "z"}, keep="outputs")
    with pytest.raises(UsageError, match="a map excludes `keep`"):
        _rename_values(tmp_path, names={"a": "z"}, keep="outputs")
