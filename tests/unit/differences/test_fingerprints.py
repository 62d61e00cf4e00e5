"""Fingerprints hash what the comparison of nodes compares, values in subgraphs included, and read nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from onnx import helper

from graphshare.differences.alignment import Fingerprints, KeyNumbers, list_places
from graphshare.formats.onnx import values
from graphshare.formats.onnx.decode import read_model
from graphshare.ir.graph import Graph
from tests.graph_differences import diff_graphs
from tests.seam.placed import PLACES, apply_add, knobs, place, tensor, write

BODIES = PLACES[1:5]


def number_last(models: list[onnx.ModelProto], folder: Path, *, coarse: bool = False) -> list[int]:
    """Return the fingerprints of the operator behind the first output of each model."""
    numbers = KeyNumbers()
    graphs = [read_model(str(write(folder / f"{i}.onnx", model))) for i, model in enumerate(models)]
    return [
        Fingerprints(graph, numbers, coarse=coarse).above[graph.heads[0].node] for graph in graphs
    ]


CHANGES: dict[str, Callable[[str, int], onnx.ModelProto]] = {
    "integer behind the 16th": lambda where, last: place(
        where, knobs(helper.make_attribute("knob", [*range(20), last]))
    ),
    "tensor": lambda where, last: place(
        where, knobs(helper.make_attribute("knob", tensor("", 1, last)))
    ),
    "domain": lambda where, last: place(where, knobs(domain="own" if last else "test.others")),
    "absent input": lambda where, last: place(
        where, knobs(inputs=("left", "", "right") if last else ("", "left", "right"))
    ),
    "initializer": lambda where, last: place(where, apply_add(), [tensor("weight", 1, last)]),
}


@pytest.mark.parametrize("where", ["graph", *BODIES])
@pytest.mark.parametrize("what", CHANGES)
def test_nodes_that_differ_in_a_value_have_different_fingerprints(
    what: str, where: str, tmp_path: Path
) -> None:
    models = [CHANGES[what](where, last) for last in (0, 1, 1)]
    first, second, third = number_last(models, tmp_path)
    assert second == third
    # The parameters of a model are compared by themselves
    at_top = what == "initializer" and where == "graph"
    assert (first == second) == at_top
    first, second, _ = number_last(models, tmp_path, coarse=True)
    assert first == second


def reverse_attributes(model: onnx.ModelProto) -> None:
    attributes = [*model.graph.node[0].attribute]
    attributes = [
        onnx.AttributeProto.FromString(each.SerializeToString()) for each in reversed(attributes)
    ]
    del model.graph.node[0].attribute[:]
    model.graph.node[0].attribute.extend(attributes)


def test_captures_are_known_by_their_use(tmp_path: Path) -> None:
    """Attributes in another order list captures in another order."""
    model = place("If", knobs())
    left = read_model(str(write(tmp_path / "left.onnx", model)))
    reverse_attributes(model)
    right = read_model(str(write(tmp_path / "right.onnx", model)))
    nodes = [graph.heads[0].node for graph in (left, right)]
    names = [[entry.node.name for entry in node.inputs] for node in nodes]
    assert sorted(names[0]) == sorted(names[1])
    assert names[0] != names[1]
    assert not diff_graphs(left, right)
    numbers = KeyNumbers()
    places = [
        dict(zip(list_places(node, numbers), own, strict=True))
        for node, own in zip(nodes, names, strict=True)
    ]
    assert places[0] == places[1]
    below = [Fingerprints(graph, numbers).below for graph in (left, right)]
    by_name = [{node.name: number for node, number in each.items()} for each in below]
    assert by_name[0] == by_name[1]
    assert by_name[0]["left"] != by_name[0]["right"]


def rename_inputs(model: onnx.ModelProto) -> None:
    """Give the inputs of a model other names, and write the attributes in another order."""
    for declared in model.graph.input:
        declared.name = f"new {declared.name}"
    model.graph.node[0].input[0] = "new flag"
    for attribute in model.graph.node[0].attribute:
        for node in attribute.g.node:
            node.input[:] = [f"new {name}" for name in node.input]
    reverse_attributes(model)


def test_variables_that_bodies_capture_are_paired_by_use_among_other_names(tmp_path: Path) -> None:
    model = place("If", knobs())
    left = read_model(str(write(tmp_path / "left.onnx", model)))
    rename_inputs(model)
    diff = diff_graphs(left, read_model(str(write(tmp_path / "right.onnx", model))))
    assert [(pair.old.name, pair.new.name) for pair in diff.renamed] == [
        (name, f"new {name}") for name in ("left", "right", "flag")
    ]
    assert not diff.without_names()


def test_initializers_of_the_model_are_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    monkeypatch.setattr(
        values, "read_elements", lambda span, place: read.append(span.start) or [b""]
    )
    paths = [
        str(write(tmp_path / f"{i}.onnx", place("graph", apply_add(), [tensor("weight", 1, i)])))
        for i in (0, 1)
    ]
    assert not diff_graphs(*map(read_model, paths))
    assert read == []
    graph = read_model(
        str(write(tmp_path / "body.onnx", place("If", apply_add(), [tensor("weight", 1, 2)])))
    )
    assert isinstance(graph, Graph)
    Fingerprints(graph, KeyNumbers())
    assert len(read) == 1
