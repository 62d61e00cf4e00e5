"""What a model is after a rewrite, and one of several: its file, its epoch, its parameters, its notes."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

import graphshare as gs
from graphshare.checkpoint.folder import Sieve, find_models
from graphshare.checkpoint.model import _find_free_labels
from graphshare.ir.graph import Node
from tests.symbols import document, operator, variable

ONES = np.ones((2, 2), "float32")


def load(folder: Path, name: str) -> gs.Checkpoint:
    """A product of ``data`` and a weight."""
    nodes = [variable("data"), variable(f"{name}_weight")]
    nodes.append(
        operator("FullyConnected", name, [0, 1], attrs={"num_hidden": "2", "no_bias": "True"})
    )
    (folder / f"{name}.json").write_text(json.dumps(document(nodes, [2])))
    return gs.load(folder / f"{name}.json")


def with_weight(model: gs.Checkpoint, name: str) -> gs.Checkpoint:
    return model.with_params({f"{name}_weight": ONES})


def test_a_group_is_named_by_the_first_model_that_has_parameters(tmp_path: Path) -> None:
    a, b, c = (load(tmp_path, name) for name in "abc")
    for models, first in (([a, b, c], a), ([a, with_weight(b, "b"), with_weight(c, "c")], b)):
        joined = gs.group(models, share_inputs=["data"])
        assert joined.where == first.where
        assert len(joined.sources) == 3
        assert joined.needs_params
        assert (joined.parameter_file is None) is (first is a)
    assert sorted(joined.params) == ["b_weight", "c_weight"]


@pytest.mark.parametrize("missing", ["", "a", "b", "ab"])
def test_a_group_notes_which_model_has_no_parameter_file(missing: str, tmp_path: Path) -> None:
    models = [
        load(tmp_path, name) if name in missing else with_weight(load(tmp_path, name), name)
        for name in "ab"
    ]
    notes = [
        note
        for note in gs.group(models, share_inputs=["data"]).notes
        if "no parameter file" in note
    ]
    expected = {"a": "a_weight", "b": "b_weight"}.get(missing)
    assert len(notes) == (expected is not None)
    for note in notes:
        assert note.startswith(f"{tmp_path}/{missing}.json has no parameter file")
        assert note.endswith(f"that of the result will lack {expected}")


def test_a_rewrite_of_a_rewrite_leads_from_the_file_that_was_loaded(tmp_path: Path) -> None:
    model = with_weight(load(tmp_path, "a"), "a")
    once = gs.rename(model, prefix="x-")
    twice = gs.duplicate(once, ["y-"])
    assert once.sources == twice.sources == (model,)
    assert model.loaded_models == twice.loaded_models == (model,)
    assert twice.rewrite is not None
    assert [branch.label for branch in twice.rewrite.branches] == ["", "y-"]
    assert all(branch.source is model.graph for branch in twice.rewrite.branches)
    assert sorted(twice.params) == ["x-a_weight", "y-x-a_weight"]


def test_a_summary_counts_branches_and_arrays(tmp_path: Path) -> None:
    model = load(tmp_path, "a")
    assert "array" not in repr(model)
    assert "1 array" in repr(with_weight(model, "a"))
    assert "branch" not in repr(model)
    for prefixes, words in ((["x-"], "2 branches"), (["x-", "y-"], "3 branches")):
        assert words in repr(gs.duplicate(model, prefixes))
    assert "1 branch" in repr(gs.rename(model, prefix="x-"))
    assert "(original), x-" in gs.duplicate(model, ["x-"])._repr_html_()


def test_a_model_is_called_by_its_stem_or_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = load(Path(), "a")
    assert repr(model).startswith("<Checkpoint: 'a.json', ")
    gs.save(with_weight(model, "a"), "b")
    assert repr(gs.load("b")).startswith("<Checkpoint: 'b', ")


def test_parameters_of_other_names_are_refused(tmp_path: Path) -> None:
    model = load(tmp_path, "a")
    assert model.with_params({}) is model
    with pytest.raises(
        gs.GraphshareError, match="the graph has no variable named 'a_weihgt'"
    ) as caught:
        model.with_params({"a_weihgt": ONES})
    assert caught.value.faults[0].hint == "did you mean 'a_weight'?"


def test_the_models_of_a_folder_without_those_that_are_left_out(tmp_path: Path) -> None:
    first, second = (str(tmp_path / folder / "m-symbol.json") for folder in "ab")
    for path in (first, second):
        Path(path).parent.mkdir()
        Path(path).write_text("{}")
    assert [model.graph for model in find_models(str(tmp_path))] == [first, second]
    sieve = Sieve(["b"])
    assert [model.graph for model in find_models(str(tmp_path), sieve)] == [first]
    assert list(sieve.notes()) == ["excluded 1 path"]
    (tmp_path / "none").mkdir()
    with pytest.raises(gs.GraphshareError, match=r"contains no \*-symbol\.json or \*\.onnx"):
        find_models(str(tmp_path / "none"))


def test_a_free_label_is_the_next_one_that_no_node_has() -> None:
    nodes = [Node("relu", str(i)) for i in range(6)]
    labels = dict(zip(nodes, ("a", "a", "a_1", "b", "a", "a_1"), strict=True))
    graph: Any = SimpleNamespace(source=SimpleNamespace(list_labels=lambda _: labels))
    assert _find_free_labels(graph) == {nodes[1]: "a_2", nodes[4]: "a_3", nodes[5]: "a_1_1"}
    for node in (nodes[1], nodes[4], nodes[5]):
        del labels[node]
    assert _find_free_labels(graph) == {}


@pytest.mark.parametrize(
    ("labels", "kept"), [(("n", "n", "m"), ["n", "n"]), (("n", "k", "m"), ["n", "k"])]
)
def test_labels_that_are_the_same_in_the_file_stay_so(
    labels: tuple[str, ...], kept: list[str], tmp_path: Path
) -> None:
    value = [onnx.helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
    edges = ("x", "h", "y", "z")
    nodes = [
        onnx.helper.make_node("Relu", [a], [b], label)
        for a, b, label in zip(edges, edges[1:], labels, strict=False)
    ]
    z = onnx.helper.make_tensor_value_info("z", 1, [2])
    onnx.save(
        onnx.helper.make_model(onnx.helper.make_graph(nodes, "g", value[:1], [value[1], z])),
        tmp_path / "a.onnx",
    )
    model = gs.extract(gs.load(tmp_path / "a.onnx"), "y")
    gs.save(model, tmp_path / "b.onnx")
    assert [node.name for node in onnx.load(tmp_path / "b.onnx").graph.node] == kept
