"""Two models in one page: what ``diff`` found, and what ``compare`` found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.api.draw_difference import _list_marked, _list_texts
from graphshare.api.draw_proof import _mark_values
from graphshare.drawing.drawing import Drawing
from graphshare.drawing.picture import AnnotatedGraph
from graphshare.ir.graph import Entry, Graph, Node
from tests.processes import ROOT, write_json
from tests.symbols import document, operator, variable

LENET = str(ROOT / "fixtures" / "lenet")
HOSTILE = '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">'


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, (2, 4))


def save(path: Path, nodes: list[onnx.NodeProto], **tensors: Any) -> gs.Checkpoint:
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()]
    inputs = [value("x"), helper.make_tensor_value_info("flag", TensorProto.BOOL, ())]
    used = {name for node in nodes for name in node.input}
    graph = helper.make_graph(
        nodes, "g", [each for each in inputs if each.name in used], [value("y")], held
    )
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10), path
    )
    return gs.load(path)


def draw(left: gs.Checkpoint, right: gs.Checkpoint, **settings: Any) -> Drawing:
    return gs.draw_difference(gs.diff(left, right, **settings), left, right, **settings)


def marks(drawn: Drawing) -> dict[str, str]:
    return {box.title: box.mark for box in drawn.picture.boxes if box.mark}


def lines(drawn: Drawing) -> dict[tuple[str, str], str]:
    boxes = drawn.picture.boxes
    return {
        (boxes[line.source].title, boxes[line.target].title): line.mark
        for line in drawn.picture.lines
        if line.mark
    }


def sections(drawn: Drawing) -> dict[str, list[str]]:
    found = re.search(r'id="data">(.*?)</script>', drawn.text, re.S)
    assert found is not None
    return {
        title: [text for text, _ in entries] for title, entries in json.loads(found[1])["sections"]
    }


def chain(*ops: str) -> list[onnx.NodeProto]:
    names = ["x", *(f"v{i}_{op}" for i, op in enumerate(ops[:-1])), "y"]
    return [helper.make_node(op, [names[i]], [names[i + 1]]) for i, op in enumerate(ops)]


def test_an_operator_that_is_added_has_its_lines(tmp_path: Path) -> None:
    nodes = chain("Abs", "Exp", "Sin")
    nodes[1].input[0] = "new"
    left = save(tmp_path / "a.onnx", chain("Abs", "Exp", "Sin"))
    right = save(
        tmp_path / "b.onnx", [nodes[0], helper.make_node("Neg", ["v0_Abs"], ["new"]), *nodes[1:]]
    )
    drawn = draw(left, right)
    assert marks(drawn) == {"new": "added", "v1_Exp": "changed"}
    assert lines(drawn) == {
        ("v0_Abs", "new"): "added",
        ("new", "v1_Exp"): "added",
        ("v0_Abs", "v1_Exp"): "removed",
    }
    assert list(sections(drawn)) == [
        "DIFFERENT: 1 node added, 1 node changed",
        "1 node added",
        "1 node changed",
    ]
    assert sections(drawn)["1 node changed"] == ["Exp v1_Exp; input 0: v0_Abs -> new"]


def test_a_bypassed_operator_leaves_a_line(tmp_path: Path) -> None:
    left = save(tmp_path / "a.onnx", chain("Abs", "Neg", "Exp", "Sin"))
    nodes = chain("Abs", "Neg", "Exp", "Sin")
    nodes[2].input[0] = "v0_Abs"
    nodes[3].input[0] = "v2_Exp"
    right = save(tmp_path / "b.onnx", [nodes[0], nodes[2], nodes[3]])
    drawn = draw(left, right)
    assert marks(drawn)["v1_Neg"] == "removed"
    assert lines(drawn) == {
        ("v0_Abs", "v1_Neg"): "removed",
        ("v1_Neg", "v2_Exp"): "removed",
        ("v0_Abs", "v2_Exp"): "added",
    }
    assert (
        drawn.picture.boxes[[box.title for box in drawn.picture.boxes].index("v2_Exp")].mark
        == "changed"
    )


def test_operators_in_another_order_make_a_cycle_that_is_drawn(tmp_path: Path) -> None:
    def connect(*pairs: tuple[str, str, str]) -> list[onnx.NodeProto]:
        return [helper.make_node(op, [source], [name]) for op, source, name in pairs]

    left = save(
        tmp_path / "a.onnx", connect(("Abs", "x", "a"), ("Neg", "a", "b"), ("Exp", "b", "y"))
    )
    right = save(
        tmp_path / "b.onnx", connect(("Neg", "x", "b"), ("Abs", "b", "a"), ("Exp", "a", "y"))
    )
    drawn = draw(left, right)
    assert lines(drawn)["a", "b"] == "removed"
    assert lines(drawn)["b", "a"] == "added"
    assert drawn.text.startswith("<!doctype html>")


def test_a_changed_weight_or_constant_marks_what_uses_it(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Mul", ["a", "s"], ["m"]),
             helper.make_node("Abs", ["m"], ["y"])]  # fmt: skip
    tensors = {"b": np.arange(4, dtype="f"), "s": np.float32(2)}
    left = save(tmp_path / "a.onnx", nodes, **tensors)
    right = save(
        tmp_path / "b.onnx", nodes, **{**tensors, "b": np.ones(4, "f"), "s": np.float32(3)}
    )
    drawn = draw(left, right)
    assert marks(drawn) == {"a": "changed", "m": "changed"}
    assert sections(drawn)["2 nodes changed"] == [
        "variable b; parameter: values differ",
        "variable s; parameter: values differ",
    ]


def test_equal_models_have_no_mark(tmp_path: Path) -> None:
    left = save(tmp_path / "a.onnx", chain("Abs", "Exp"))
    drawn = draw(left, save(tmp_path / "b.onnx", chain("Abs", "Exp")))
    assert marks(drawn) == lines(drawn) == {}
    assert list(sections(drawn)) == ["SAME: the graphs and their parameters"]


def branches(inner: str) -> list[onnx.NodeProto]:
    then = helper.make_graph(
        [helper.make_node("Neg", ["h"], ["n"]), helper.make_node(inner, ["n"], ["t"])],
        "then",
        [],
        [value("t")],
    )
    other = helper.make_graph([helper.make_node("Exp", ["h"], ["e"])], "other", [], [value("e")])
    return [
        helper.make_node("Abs", ["x"], ["h"]),
        helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
    ]


def test_what_differs_in_a_body_is_marked_there(tmp_path: Path) -> None:
    drawn = draw(
        save(tmp_path / "a.onnx", branches("Sin")), save(tmp_path / "b.onnx", branches("Cos"))
    )
    assert set(marks(drawn)) == {"t"}
    assert {(box.title, box.cluster) for box in drawn.picture.boxes if box.mark} == {
        ("t", ("", "y", "then_branch"))
    }
    assert [
        box.mark for path, box in drawn.picture.scopes.items() if path[-1] == "then_branch"
    ] == ["changed"]


def test_a_body_that_is_gone_keeps_its_scopes(tmp_path: Path) -> None:
    left = save(tmp_path / "a.onnx", [*branches("Sin")])
    right = save(tmp_path / "b.onnx", chain("Abs", "Tanh"))
    drawn = draw(left, right)
    gone = {box.title: box.cluster for box in drawn.picture.boxes if box.mark == "removed"}
    assert gone["n"][-1] == "then_branch"  # type: ignore[index]


def test_models_of_mxnet_and_branches_under_prefixes() -> None:
    source = gs.load(LENET)
    siamese = gs.duplicate(source, "sha-", mode="tie")
    plain = draw(source, siamese)
    assert {box.mark for box in plain.picture.boxes if (box.cluster or ("",))[0] == "sha-"} == {
        "added"
    }
    prefixed = draw(source, siamese, prefixes="sha-")
    assert "added" not in marks(prefixed).values()
    renamed = draw(source, gs.rename(source, prefix="n_"))
    assert set(marks(renamed).values()) == {"highlight"}
    assert "Convolution n_conv1; was conv1" in sections(renamed)["31 nodes renamed"]
    assert "<title>lenet → lenet</title>" in renamed.text


def test_a_model_of_mxnet_and_its_export_in_one_page() -> None:
    source = gs.load(LENET)
    exported = gs.export(source, shapes={"data": (1, 1, 28, 28)})
    drawn = draw(source, exported)
    assert "changed" in marks(drawn).values()
    proof = gs.draw_proof(
        gs.compare(source, exported, shapes={"data": (1, 1, 28, 28)}), source, exported
    )
    assert next(iter(sections(proof))).startswith("EQUAL")
    assert set(marks(proof).values()) == {"near"}


def test_names_of_both_models_stay_data(tmp_path: Path) -> None:
    left = write_json(
        tmp_path / "a.json",
        document([variable("x"), operator("relu", HOSTILE, [0], attrs={HOSTILE: "1"})], [1]),
    )
    right = write_json(
        tmp_path / "b.json",
        document([variable(HOSTILE), operator("tanh", "y" + HOSTILE, [0])], [1]),
    )
    drawn = draw(gs.load(left), gs.load(right))
    assert drawn.text.count("</script>") == 2
    assert drawn.text.count("<img") == 0
    assert "\\u003c/script>" in drawn.text


def test_regions_have_the_colour_of_what_became_of_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(4, 4)).astype("f"), rng.normal(size=(4, 4)).astype("f")
    nodes = [helper.make_node("MatMul", ["x", "a"], ["m"]), helper.make_node("MatMul", ["m", "b"], ["n"]),
             helper.make_node("Relu", ["n"], ["y"])]  # fmt: skip
    joined = [
        helper.make_node("MatMul", ["x", "ab"], ["n"]),
        helper.make_node("Relu", ["n"], ["y"]),
    ]
    left = save(tmp_path / "a.onnx", nodes, a=a, b=b)
    for change, mark, verdict in ((0.0, "near", "EQUAL"), (0.5, "apart", "NOT EQUAL")):
        right = save(tmp_path / "b.onnx", joined, ab=a @ b + np.float32(change))
        report = gs.compare(left, right)
        drawn = gs.draw_proof(report, left, right)
        assert bool(report) == (mark == "near")
        assert marks(drawn) == {"m": mark, "n": mark}, change
        assert next(iter(sections(drawn))).startswith(verdict)
        (line,) = sections(drawn)["1 region"]
        size = r"n: .*\S+ of the largest number, \S+ allowed"
        assert re.fullmatch(
            {"near": "within the tolerance: ", "apart": "differs: "}[mark] + size, line
        ), line
        data = json.loads(drawn.text.partition('id="data">')[2].partition("</script>")[0])
        ((_, number),) = data["sections"][1][1]
        assert data["nodes"][number]["name"] == "n"  # the last of the region, in the other model
        assert (
            "only in the original"
            in next(box for box in drawn.picture.boxes if box.title == "m").lines
        )


def test_the_worst_of_several_runs_is_told(tmp_path: Path) -> None:
    left = save(tmp_path / "a.onnx", chain("Abs", "Exp", "Sin"))
    right = save(tmp_path / "b.onnx", chain("Abs", "Exp", "Cos"))
    report = gs.compare(left, right)
    (branch,) = report.branches
    (found,) = branch.regions
    assert not found.regions[0]
    comparison = found.regions[0].comparison
    assert comparison is not None
    near = msgspec.structs.replace(
        found.regions[0], comparison=msgspec.structs.replace(comparison, equal=True)
    )
    good = msgspec.structs.replace(found, regions=(near,))
    assert good
    for rounds in ((good, found), (found, good)):
        told = msgspec.structs.replace(
            report, branches=(msgspec.structs.replace(branch, regions=rounds),)
        )
        drawn = gs.draw_proof(told, left, right)
        assert set(marks(drawn).values()) == {"apart"}
        assert len(sections(drawn)["1 region"]) == 1


def test_an_output_that_differs_is_marked_where_no_region_is_judged(tmp_path: Path) -> None:
    """A model that cannot be computed has no regions."""
    source = gs.load(LENET)
    content = json.loads(Path(f"{LENET}-symbol.json").read_text())
    next(node for node in content["nodes"] if node["name"] == "conv2")["attrs"]["num_filter"] = "9"
    broken = gs.load(write_json(tmp_path / "broken.json", content), params=f"{LENET}-0000.params")
    report = gs.compare(source, broken, shapes={"data": (1, 1, 28, 28)})
    assert (report.outcome, report.branches[0].regions) == ("not equal", ())
    assert marks(gs.draw_proof(report, source, broken)) == {"softmax": "apart"}


def test_the_region_that_departs_is_marked_and_not_what_follows(tmp_path: Path) -> None:
    left = write_json(
        tmp_path / "a.json", document([variable("x"), operator("relu", "y", [0])], [1])
    )
    right = write_json(
        tmp_path / "b.json", document([variable("x"), operator("sigmoid", "y", [0])], [1])
    )
    report = gs.compare(gs.load(left), gs.load(right), shapes={"x": (2, 3)})
    assert not report
    assert marks(gs.draw_proof(report, gs.load(left), gs.load(right))) == {"y": "apart"}
    chains = [
        write_json(
            tmp_path / f"{op}.json",
            document([variable("x"), operator(op, "h", [0]), operator("tanh", "y", [1])], [2]),
        )
        for op in ("relu", "sigmoid")
    ]
    report = gs.compare(gs.load(chains[0]), gs.load(chains[1]), layers=True, shapes={"x": (2, 3)})
    assert marks(gs.draw_proof(report, *map(gs.load, chains))) == {"h": "apart"}
    source, shapes = gs.load(LENET), {"data": (1, 1, 28, 28)}
    assert marks(gs.draw_proof(gs.compare(source, source, shapes=shapes), source, source)) == {}


def test_common_changes_are_listed_where_they_are_of_several_nodes() -> None:
    summary = [SimpleNamespace(count=count, text=f"of {count}") for count in (1, 2, 3)]
    found: Any = SimpleNamespace(
        summary=summary, graph=SimpleNamespace(ties=(), outputs=(), attributes=())
    )
    assert list(_list_texts(found)) == ["of 2", "of 3"]


@pytest.mark.parametrize(("count", "more"), [(1, 0), (500, 0), (501, 1), (502, 2)])
def test_five_hundred_nodes_of_a_kind_are_listed(count: int, more: int) -> None:
    nodes = tuple(Node("relu", f"r{i}") for i in range(count))
    graph = AnnotatedGraph(Graph(nodes, ()), frozenset(), marks=dict.fromkeys(nodes, "added"))
    (section,) = _list_marked(graph)
    assert section.title == ("1 node added" if count == 1 else f"{count} nodes added")
    listed = [(f"relu r{i}", node) for i, node in enumerate(nodes[:500])]
    assert section.lines == [*listed, *([(f"and {more} more", None)] if more else [])]


def test_outputs_and_layers_that_differ_are_apart() -> None:
    a, b, y = Node("relu", "a"), Node("relu", "b"), Node("relu", "y")
    side = AnnotatedGraph(Graph((a, b, y), (Entry(y), Entry(b))), frozenset())
    compared = (("y_output", False), ("b_output", True), ("no", False))
    outputs = [SimpleNamespace(output=name, comparison=same) for name, same in compared]
    layers = [
        SimpleNamespace(node=name, comparison=same)
        for name, same in (("a", False), ("b", True), ("no", False))
    ]
    report: Any = SimpleNamespace(
        branches=[SimpleNamespace(rounds=[SimpleNamespace(outputs=outputs, layers=layers)])]
    )
    assert list(_mark_values(report, side)) == [(y, "apart"), (a, "apart")]
