"""Regions of any pair of models: MXNet beside ONNX, other operator sets, other dtypes, fixed beside free sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.verification.report import Report
from tests.processes import ROOT, write_json
from tests.symbols import document, operator, variable

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SHAPES = {"data": (2, 1, 28, 28)}
OPERATORS = 13


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gs.Checkpoint]:
    folder = tmp_path_factory.mktemp("pairs")
    lenet = gs.load(ROOT / "fixtures" / "lenet")
    options: dict[str, dict[str, Any]] = {
        "onnx": {},
        "opset 13": {"opset": 13},
        "float16": {"dtype": "float16"},
        "free": {"dynamic_batch": True},
    }
    for name, own in options.items():
        gs.export(lenet, folder / f"{name}.onnx", shapes=SHAPES, **own)
    return {"mxnet": lenet, **{name: gs.load(folder / f"{name}.onnx") for name in options}}


def verify(left: gs.Checkpoint, right: gs.Checkpoint, **options: Any) -> Report:
    return gs.compare(left, right, shapes=SHAPES, **options)


@pytest.mark.parametrize("other", ["onnx", "opset 13", "free"])
@pytest.mark.parametrize("is_swapped", [False, True])
def test_every_operator_of_a_graph_has_a_region(
    other: str, is_swapped: bool, models: dict[str, gs.Checkpoint]
) -> None:
    pair = ("mxnet", other)[:: -1 if is_swapped else 1]
    report = verify(*(models[name] for name in pair), layers=True, inputs=gs.Inputs(rounds=2))
    assert report, report.verdict
    assert "12 regions within" in report.verdict
    assert "1 region by weights" in report.verdict, "Flatten moves values"
    assert [each.operators for each in report.branches[0].regions] == [OPERATORS] * 2
    plain = verify(*(models[name] for name in pair), inputs=gs.Inputs(rounds=2))
    assert plain.verdict == report.verdict, "layers change no verdict"


@pytest.mark.parametrize("one", ["mxnet", "onnx"])
def test_other_dtypes_have_regions(one: str, models: dict[str, gs.Checkpoint]) -> None:
    report = verify(models[one], models["float16"], layers=one == "mxnet")
    assert report, report.verdict
    regions = report.branches[0].regions[0].regions
    assert all(region.tolerance == 1e-2 for region in regions)
    assert any(
        not region.comparison.identical for region in regions if region.comparison is not None
    )


@pytest.mark.parametrize(
    ("one", "other"), [("onnx", "opset 13"), ("onnx", "free"), ("opset 13", "free")]
)
def test_two_onnx_models_of_one_graph_are_exact(
    one: str, other: str, models: dict[str, gs.Checkpoint]
) -> None:
    report = verify(models[one], models[other])
    assert report, report.verdict
    assert not [region for each in report.branches[0].regions for region in each.regions], (
        report.verdict
    )


FAULTS = {
    "conv1": ("conv1_weight", "conv1_output"),
    "bn2": ("bn2_moving_var", "bn2_output"),
    "fc1": ("fc1_bias", "fc1_output"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("faulty", ["mxnet", "onnx"])
def test_a_planted_fault_is_named_at_its_region(
    name: str, faulty: str, models: dict[str, gs.Checkpoint]
) -> None:
    weight, end = FAULTS[name]
    array = np.array(models["mxnet"].params[weight])
    array.flat[1] += 0.5
    wrong = models[faulty].with_params({weight: array})
    report = verify(wrong, models["onnx" if faulty == "mxnet" else "mxnet"])
    assert not report
    departed = [region for region in report.branches[0].regions[0].regions if not region]
    assert [region.ends for region in departed] == [((end, end),)]
    name = name if faulty == "mxnet" else end  # an exported operator has the name of its output
    assert [node.name for node in departed[0].nodes] == [name]
    stage = next(stage for stage in report.branches[0].stages if stage.name == "regions")
    assert stage.details[1] == f"the original computes it by {departed[0].nodes[0].op} {name!r}"


def test_a_hidden_fault_is_not_proved(models: dict[str, gs.Checkpoint]) -> None:
    """One that the outputs do not show is named by its region."""
    array = np.array(models["mxnet"].params["fc1_bias"])
    array.flat[1] += 0.2
    wrong = models["onnx"].with_params({"fc1_bias": array})
    for pair in ((models["mxnet"], wrong), (wrong, models["mxnet"])):
        report = verify(*pair, tolerance=gs.Tolerance(atol=1e-8, rtol=1e-3))
        assert report.outcome == "not proved", report.verdict
        assert all(values for values in report.branches[0].rounds)
        assert [
            region.ends[0][0] for region in report.branches[0].regions[0].regions if not region
        ] == ["fc1_output"]


def test_two_graphs_of_mxnet_name_the_region(models: dict[str, gs.Checkpoint]) -> None:
    folded = gs.fold(models["mxnet"])
    assert verify(folded, models["mxnet"])
    array = np.array(folded.params["conv2_bias"])
    wrong = folded.with_params({"conv2_bias": array + 1})
    report = verify(wrong, models["mxnet"])
    (regions,) = report.branches[0].regions
    (departed,) = [region for region in regions.regions if not region]
    assert [[node.name for node in side] for side in (departed.nodes, departed.other_nodes)] == [
        ["bn2"],
        ["conv2", "bn2"],
    ]


def test_values_whose_name_is_repeated_end_no_region(tmp_path: Path) -> None:
    """Operators of one name are two values, which only their place tells apart."""
    nodes = [
        variable("data"),
        operator("tanh", "act", [0]),
        operator("exp", "same", [1]),
        operator("sigmoid", "same", [2]),
        operator("square", "out", [3]),
    ]
    model = gs.load(write_json(tmp_path / "x-symbol.json", document(nodes, [4])))
    shapes = {"data": (2, 3)}
    gs.export(model, tmp_path / "x.onnx", shapes=shapes)
    report = gs.compare(model, tmp_path / "x.onnx", shapes=shapes, layers=True)
    assert report, report.verdict
    ends = [region.ends for region in report.branches[0].regions[0].regions]
    assert ends == [(("act_output", "act_output"),), (("out_output", "out_output"),)]


def test_a_value_that_no_part_computes_is_no_crash(tmp_path: Path) -> None:
    """The batch of a state follows from what comes after it: by itself it has no shape, and its
    consumers have no value.
    """
    nodes = [
        variable("data"),
        operator("_zeros", "state", [], attrs={"shape": "(0, 3)"}),
        operator("exp", "grown", [1]),
        operator("elemwise_add", "sum", [0, 2]),
    ]
    model = gs.load(write_json(tmp_path / "x-symbol.json", document(nodes, [3])))
    shapes = {"data": (2, 3)}
    gs.export(model, tmp_path / "x.onnx", shapes=shapes)
    report = gs.compare(model, tmp_path / "x.onnx", shapes=shapes)
    assert report.outcome == "not judged"
    assert (
        report.verdict == gs.compare(model, tmp_path / "x.onnx", shapes=shapes, layers=True).verdict
    )
    reasons = {region.ends[0][0]: region.reason for region in report.branches[0].regions[0].regions}
    assert "not fully known" in reasons["state_output"], reasons
