"""``--layers`` and records of ONNX models, and which file an error names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import graphshare as gs
from tests.onnx_files.made import MADE, dense
from tests.onnx_files.test_run import build
from tests.onnx_files.test_verify import siamese, write
from tests.processes import done, in_process, refused

LAYERED = [name for name in MADE if name != "kinds"]


def leaky(slope: float, name: str = "r") -> onnx.ModelProto:
    """A model of three layers, the second with this slope and an output of this name."""
    nodes = [
        helper.make_node("Neg", ["x"], ["n"], "negative"),
        helper.make_node("LeakyRelu", ["n"], [name], "leak", alpha=slope),
        helper.make_node("Exp", [name], ["y"], "power"),
    ]
    return build(nodes, {"x": (1, ["N", 2])}, {"y": 1})


def stages(report: gs.Report) -> dict[str, tuple[str, str, tuple[str, ...]]]:
    (branch,) = report.branches
    return {stage.name: (stage.verdict, stage.summary, stage.details) for stage in branch.stages}


@pytest.mark.parametrize("name", LAYERED)
def test_two_models_are_compared_layer_by_layer(name: str, tmp_path: Path) -> None:
    path = write(tmp_path, name)
    gs.save(gs.rename(gs.load(path), prefix="q_"), tmp_path / "renamed.onnx")
    report = gs.compare(path, tmp_path / "renamed.onnx", layers=True)
    assert report
    verdict, summary, _ = stages(report)["layers"]
    count = sum(1 for node in gs.load(path).graph.nodes if node.op)
    assert verdict == "holds"
    assert summary.startswith(f"{count} inner output{'s' if count > 1 else ''} compared")
    assert f", {count} bit for bit" in summary
    report = gs.verify(siamese(tmp_path, name, "tie"), layers=True)
    assert stages(report)["layers"][0] == "holds"


@pytest.mark.parametrize("is_turned", [False, True])
def test_the_first_layer_that_differs_is_named(is_turned: bool, tmp_path: Path) -> None:
    left, right = write(tmp_path, "left", leaky(0.25)), write(tmp_path, "right", leaky(0.5))
    left, right = (right, left) if is_turned else (left, right)
    report = gs.compare(left, right, layers=True, feeds={"x": [[1, 2], [3, 4]]})
    assert not report
    assert report.verdict == gs.compare(left, right, feeds={"x": [[1, 2], [3, 4]]}).verdict
    verdict, summary, details = stages(report)["layers"]
    assert (verdict, summary) == ("fails", "2 of 3 inner outputs depart")
    assert details[0].startswith(
        "first at LeakyRelu 'r' and 'r', output 0: values differ, max abs 1"
    )


def test_models_of_different_structure_are_compared_by_the_names_of_values(tmp_path: Path) -> None:
    model = leaky(0.25)
    model.graph.node.insert(1, helper.make_node("Identity", ["n"], ["same"]))
    model.graph.node[2].input[0] = "same"
    left, right = write(tmp_path, "left", leaky(0.25)), write(tmp_path, "longer", model)
    report = gs.compare(right, left, layers=True)
    assert report
    assert (
        stages(report)["layers"][1]
        == "3 inner outputs compared in 2 runs, 3 bit for bit, max abs 0"
    )


def test_values_of_any_type_are_layers(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Cast", ["x"], ["short"], to=TensorProto.BFLOAT16),
        helper.make_node("Cast", ["short"], ["long"], to=TensorProto.FLOAT),
        helper.make_node("SequenceConstruct", ["long", "x"], ["s"]),
        helper.make_node("ConcatFromSequence", ["s"], ["y"], axis=0),
    ]
    path = write(tmp_path, "kinds", build(nodes, {"x": (1, [2])}, {"y": 1}))
    assert stages(gs.compare(path, path, layers=True))["layers"][1].startswith(
        "4 inner outputs compared, 4 bit for bit"
    )
    computed = gs.run(path, seed=0, all_outputs=True)
    assert list(computed.outputs) == ["x", "short", "long", "s", "y"]
    assert (computed.outputs["short"].dtype.name, len(computed.outputs["s"])) == ("bfloat16", 2)


def test_an_output_that_no_record_has_is_no_difference(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("SequenceConstruct", ["x"], ["s"]),
        helper.make_node("Neg", ["x"], ["y"]),
    ]
    model = build(nodes, {"x": (1, [2])}, {"y": 1})
    model.graph.output.append(helper.make_tensor_sequence_value_info("s", 1, [2]))
    path = write(tmp_path, "pair", model)
    done(in_process("run", path, "--seed", "0", "--all", "-o", "dump.npz", cwd=tmp_path))
    message = "outputs cannot be recorded because they are not arrays of numbers: s"
    refused(
        in_process("compare", path, "dump.npz", cwd=tmp_path),
        message,
        "`graphshare compare` with another model compares them",
    )
    with pytest.raises(gs.GraphshareError, match=message):
        gs.compare(path, {"x": np.ones(2, np.float32), "y": np.ones(2, np.float32)})


def test_a_model_is_compared_with_what_it_was_recorded_to_compute(tmp_path: Path) -> None:
    path = write(tmp_path, "dense")
    done(in_process("run", path, "--seed", "3", "--all", "-o", "dump.npz", cwd=tmp_path))
    dump = tmp_path / "dump.npz"
    report = gs.compare(path, dump, layers=True)
    assert report
    assert stages(report)["layers"][1].startswith("3 inner outputs compared, 3 bit for bit")
    assert gs.compare(path, dump).notes == (
        f"{dump} has 2 arrays beside the outputs; `layers` compares inner outputs",
    )
    with np.load(dump) as arrays:
        recorded = {**arrays, "w": np.full((2, 2), 0.5, np.float32)}
    assert gs.compare(path, recorded)
    model = dense()
    model.graph.node[2].attribute[0].f = 0.75
    report = gs.compare(
        write(tmp_path, "other", model), recorded, layers=True, feeds={"data": [[1, 2]]}
    )
    assert not report
    recorded["r"] = recorded["r"] + 1
    report = gs.compare(path, recorded, layers=True)
    assert stages(report)["layers"][2][0].startswith(
        "first at Relu 'r' and 'r', output 0: values differ, max abs 1"
    )
    recorded["w"] = recorded["w"] + 2
    assert stages(gs.compare(path, recorded, layers=True))["layers"][0] == "fails"
    del recorded["out"]
    assert not gs.compare(path, recorded)


def test_an_exported_model_is_compared_with_what_its_graph_computed(tmp_path: Path) -> None:
    from tests.processes import ROOT

    lenet = gs.load(ROOT / "fixtures" / "lenet")
    gs.export(lenet, tmp_path / "x.onnx", shapes={"data": (2, 1, 28, 28)})
    dump = gs.run(lenet, seed=0, shapes={"data": (2, 1, 28, 28)}, all_outputs=True).outputs
    inputs = {
        name: array
        for name, array in dump.items()
        if name in ("data", *gs.bind(tmp_path / "x.onnx").outputs)
    }
    assert gs.compare(tmp_path / "x.onnx", inputs)


def test_an_error_names_the_file_that_it_is_about(tmp_path: Path) -> None:
    product = helper.make_node("MatMul", ["x", "w"], ["y"], "product")
    good = write(
        tmp_path,
        "good",
        build([helper.make_node("Neg", ["x"], ["y"])], {"x": (1, ["N", "M"])}, {"y": 1}),
    )
    weight = {"w": np.ones((3, 2), np.float32)}
    bad = write(tmp_path, "bad", build([product], {"x": (1, ["N", "M"])}, {"y": 1}, weight))
    broken = write(
        tmp_path,
        "broken",
        build([helper.make_node("Nothing", ["x"], ["y"])], {"x": (1, ["N", "M"])}, {"y": 1}),
    )
    feed = ("--feed", "x=[[1, 2]]")
    for options in ((), ("--layers",)):
        for pair in ((good, bad), (bad, good)):
            run = in_process("compare", *pair, *feed, *options, cwd=tmp_path)
            text = run.stdout.decode()
            assert run.returncode == 1
            assert "one model alone does not compute it: " in text
            assert 'bad.onnx (node "product"): onnxruntime' in text
            assert "good.onnx" not in text
        for pair in ((good, broken), (broken, good)):
            run = in_process("compare", *pair, *feed, *options, cwd=tmp_path)
            assert "good.onnx" not in refused(run, "broken.onnx", "Nothing")
    run = in_process("compare", bad, good, "--feed", "x=[1, 2]", cwd=tmp_path)
    refused(run, "bad.onnx (node \"x\"): --feed 'x' is (2), but the model declares NxM")
