"""The minimal subgraph for some outputs, cut at others."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphshare as gs
from graphshare.errors import RefusedError
from graphshare.ir.graph import Entry
from graphshare.rewrite.extract_graph import extract_entries, extract_graph
from tests.symbols import two_layers
from tests.unit.rewrite.graphs import heads, named, read, wiring
from tests.validate import validate


def test_what_a_target_needs_keeps_its_identity() -> None:
    graph = read(two_layers())
    part = extract_graph(graph, ["fc1_output"]).graph
    assert part.nodes == graph.nodes[:4]
    assert heads(part) == ["fc1"]


def test_a_cut_output_becomes_a_variable_in_its_place() -> None:
    rewrite = extract_graph(read(two_layers()), ["fc2_output"], cuts=["bn_output"])
    assert wiring(rewrite.graph) == {
        "bn_output": [],
        "fc2_weight": [],
        "fc2": ["bn_output", "fc2_weight"],
    }
    assert validate(rewrite.graph) == []


def test_targets_become_the_heads_in_their_own_order() -> None:
    assert heads(extract_graph(read(two_layers()), ["fc2_output", "fc1_output"]).graph) == [
        "fc2",
        "fc1",
    ]


def test_a_target_may_be_cut_itself() -> None:
    graph = read(two_layers())
    fc1 = named(graph, "fc1")
    part = extract_entries(graph, [Entry(fc1)], cuts={(fc1, 0): "hidden"}).graph
    assert wiring(part) == {"hidden": []}


@pytest.mark.parametrize(("other", "free"), [("y_1", "y_2"), ("q", "y_1")])
def test_an_operator_that_stays_beside_its_cut_output_gets_another_name(
    other: str, free: str, tmp_path: Path
) -> None:
    """The variable has the name of the output, which the operator and what else has such a name give way to."""
    onnx = pytest.importorskip("onnx")
    text = f"""<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => (float[2] a) {{
        y, z = Split(x) {other} = Neg(z) b = Exp(y) c = Add(b, z) a = Add(c, {other}) }}"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    part = gs.extract(tmp_path / "m.onnx", ["a"], cuts=["y"])
    assert [node.details.outputs for node in part.graph.nodes if node.op == "Split"] == [
        (free, "z")
    ]
    gs.save(part, tmp_path / "part.onnx")
    model = onnx.load(tmp_path / "part.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(list(node.input), list(node.output)) for node in model.graph.node] == [
        (["x"], [free, "z"]),
        (["z"], [other]),
        (["y"], ["b"]),
        (["b", "z"], ["c"]),
        (["c", other], ["a"]),
    ]
    assert {value.name for value in model.graph.input} == {"x", "y"}


@pytest.mark.parametrize(
    ("targets", "cuts"),
    [([], []), (["none"], []), (["fc1_output"], ["bn_output"]), (["fc1_output"], ["none"])],
    ids=["no target", "unknown target", "cut behind the target", "unknown cut"],
)
def test_what_names_nothing_or_is_not_needed_is_refused(
    targets: list[str], cuts: list[str]
) -> None:
    with pytest.raises(RefusedError):
        extract_graph(read(two_layers()), targets, cuts=cuts)


def test_the_name_of_a_cut_must_be_free() -> None:
    graph = read(two_layers())
    with pytest.raises(RefusedError, match="a node of that name stays"):
        extract_entries(graph, graph.heads, cuts={(named(graph, "fc1"), 0): "fc2_weight"})


@pytest.mark.parametrize(("value", "op"), [(True, "Neg"), (False, "Exp")])
def test_the_body_of_a_branch_has_the_names_of_its_operator(
    value: bool, op: str, tmp_path: Path
) -> None:
    onnx = pytest.importorskip("onnx")
    text = """<ir_version: 8, opset_import: ["" : 17]> g (bool f, float[4] x) => (float[4] y, float[4] z) {
        y = If(f) <then_branch = t () => (float[4] a) { a = Neg(x) }, else_branch = e () => (float[4] b) { b = Exp(x) }>
        z = Abs(y) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    gs.save(gs.extract(tmp_path / "m.onnx", branch=("f", value)), tmp_path / "part.onnx")
    model = onnx.load(tmp_path / "part.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert [(node.op_type, list(node.output)) for node in model.graph.node] == [
        (op, ["y"]),
        ("Abs", ["z"]),
    ]
    assert [each.name for each in (*model.graph.input, *model.graph.output)] == ["x", "y", "z"]
