"""``verify`` by onnxruntime, and by two engines that are compared with each other; faults are found by each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import graphshare as gs
from graphshare.cli.main import cli
from graphshare.execute.backends import confined_session
from graphshare.files.schema import find_violations
from graphshare.ir.graph import Entry, Graph
from graphshare.ir.rebuild import rebuild
from graphshare.ops.registry import TRANSLATIONS, register_translation
from graphshare.ops.translation import Translation, Translator
from tests.processes import ROOT, done, graphshare, refused

LENET = ROOT / "fixtures" / "lenet"
SHAPE = {"data": (1, 1, 28, 28)}
BOTH = "numpy,onnxruntime"


@pytest.fixture(autouse=True)
def runtime() -> None:
    pytest.importorskip("onnxruntime")


@pytest.fixture
def siam(tmp_path: Path) -> Path:
    gs.save(gs.duplicate(gs.load(LENET), "right_", mode="tie"), tmp_path / "siam")
    return tmp_path


def test_two_engines_are_compared(siam: Path) -> None:
    arguments = ("verify", "siam", "--shape", "data=1,1,28,28", "--engine", BOTH)
    found = json.loads(done(graphshare(*arguments, "--format", "json", cwd=siam)).stdout)
    assert find_violations(found, "verify") == []
    (branch,) = found["branches"]
    assert [values["engine"] for values in branch["rounds"]] == ["numpy", "onnxruntime"]
    assert all(
        output["comparison"]["identical"]
        for values in branch["rounds"]
        for output in values["outputs"]
    )
    (engines,) = branch["engines"]
    assert (engines["reference"], engines["engine"], engines["first"]) == (
        "numpy",
        "onnxruntime",
        None,
    )
    assert [output["output"] for output in engines["outputs"]] == [
        "softmax_output",
        "right_softmax_output",
    ]
    assert all(output["comparison"]["equal"] for output in engines["outputs"])
    text = done(graphshare(*arguments, cwd=siam)).stdout.decode()
    assert "  ok   engines     numpy and onnxruntime: 2 outputs compared" in text


def test_the_engines_are_named_in_errors(siam: Path) -> None:
    arguments = ("verify", "siam", "--shape", "data=1,1,28,28", "--engine")
    refused(
        graphshare(*arguments, "numpy,onxruntime", cwd=siam),
        "unknown engine 'onxruntime'",
        "'onnxruntime'?",
    )


def test_training_is_computed_with_numpy() -> None:
    model = gs.duplicate(gs.load(LENET), "right_", mode="tie")
    report = gs.verify(model, shapes=SHAPE, engine="onnxruntime", train_step=True)
    assert report
    assert "training is computed with numpy" in report.notes


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime", BOTH])
def test_a_planted_fault_is_found_at_the_same_node(engine: str) -> None:
    model = gs.load(LENET)
    images = rebuild(
        model.graph.nodes,
        lambda node: replace(node, attrs={"eps": "0.1"}) if node.name == "bn2" else node,
    )
    heads = tuple(Entry(images[entry.node], entry.index) for entry in model.graph.heads)
    other = gs.Checkpoint(
        Graph(tuple(images.values()), heads, model.graph.attrs, model.graph.source),
        model.parameter_file,
    )
    report = gs.compare(other, model, shapes=SHAPE, layers=True, engine=engine)
    assert not report
    values = [values for branch in report.branches for values in branch.rounds]
    assert [of.engine for of in values] == engine.split(",")
    assert [of.first.node if of.first else None for of in values] == ["bn2"] * len(values)


def test_parameters_that_differ_are_found_by_each_engine() -> None:
    model = gs.duplicate(gs.load(LENET), "right_", mode="copy")
    changed = model.with_params(
        {"right_conv2_weight": np.asarray(model.params["right_conv2_weight"]) + 1}
    )
    report = gs.verify(changed, shapes=SHAPE, engine=BOTH)
    (branch,) = report.branches
    assert [of.first.node if of.first else None for of in branch.rounds] == [
        "right_conv2_weight"
    ] * 2
    assert [stage.verdict for stage in branch.stages] == ["holds", "fails", "fails", "holds"]
    assert any(", in onnxruntime" in detail for detail in branch.stages[2].details)


def test_an_engine_that_computes_something_else_is_found_with_the_node(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each engine agrees with itself, so only the comparison of both shows it."""

    def wrong(translation: Translation) -> str:
        return translation.emit("Sigmoid", translation.inputs[0])

    monkeypatch.setattr(TRANSLATIONS, "registered", {})
    register_translation(Translator("Activation", wrong))
    model = gs.duplicate(gs.load(LENET), "right_", mode="tie")
    assert gs.verify(model, shapes=SHAPE, engine="onnxruntime")
    report = gs.verify(model, shapes=SHAPE, engine=BOTH)
    assert report.verdict == "NOT EQUAL: engines of right_"
    (engines,) = report.branches[0].engines
    assert engines.first is not None
    assert engines.first.node == "tanh1"
    stage = report.branches[0].stages[-1]
    assert stage.details[-1].startswith("first at Activation 'tanh1', output 0")


def test_branches_of_a_batch_and_records_are_computed_in_each_engine(tmp_path: Path) -> None:
    model = gs.load(LENET)
    batch = gs.duplicate(gs.extract(model, ["conv1"]), "right_", mode="batch")
    report = gs.verify(batch, shapes=SHAPE, engine=BOTH)
    assert report
    assert [[of.engine for of in branch.rounds] for branch in report.branches] == [
        ["numpy", "onnxruntime"]
    ] * 2
    assert [[of.outputs[0].output for of in branch.engines] for branch in report.branches] == [
        ["conv1_output"],
        ["right_conv1_output"],
    ]
    record: dict[str, Any] = gs.run(model, shapes=SHAPE, seed=0, all_outputs=True).outputs
    report = gs.compare(model, record, engine=BOTH, layers=True)
    assert report
    assert [branch.branch for branch in report.branches] == [
        "this graph in numpy",
        "this graph in onnxruntime",
    ]


@pytest.mark.parametrize(
    ("name", "starts"), [("small.onnx", 1), ("lenet-symbol.json", 0), ("no-file", 0)]
)
def test_the_process_of_onnx_models_starts_before_the_command_is_imported(
    monkeypatch: pytest.MonkeyPatch, name: str, starts: int
) -> None:
    pytest.importorskip("onnxruntime")
    started = []
    monkeypatch.setattr(
        confined_session,
        "start_process",
        lambda: started.append("graphshare.cli.commands.verify" in sys.modules),
    )
    monkeypatch.delitem(sys.modules, "graphshare.cli.commands.verify", raising=False)
    with pytest.raises(SystemExit):
        cli(["verify", str(ROOT / "fixtures" / name), "--help"])
    assert started == [False] * starts
