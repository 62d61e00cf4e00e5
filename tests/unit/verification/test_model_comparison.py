"""Parameters of two models that are fed or drawn have one value in both; what has none is listed
whichever model it is of.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphshare as gs
from graphshare.errors import RefusedError
from tests.processes import ROOT

LENET = ROOT / "fixtures" / "lenet"
FEEDS: dict[str, Any] = {"data": np.ones((1, 1, 28, 28), "float32")}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, gs.Checkpoint]:
    folder = tmp_path_factory.mktemp("models")
    bare = gs.load(f"{LENET}-symbol.json")
    return {
        "whole": gs.load(LENET),
        "bare": bare,
        "renamed": gs.rename(bare, prefix="q_"),
        "onnx": gs.export(
            LENET, folder / "lenet.onnx", shapes={"data": (1, 1, 28, 28)}, verify=False
        ),
    }


@pytest.mark.parametrize(
    ("left", "right"), [("bare", "bare"), ("bare", "renamed"), ("renamed", "bare")]
)
def test_a_parameter_that_is_drawn_is_the_same_in_both(
    models: dict[str, gs.Checkpoint], left: str, right: str
) -> None:
    # A shape may have the name of either model's input.
    shapes = {"q_data" if left == "renamed" else "data": (1, 1, 28, 28)}
    report = gs.compare(models[left], models[right], inputs=gs.Inputs(params_seed=3), shapes=shapes)
    assert report
    assert report.branches[0].rounds[0].outputs[0].comparison.identical


def test_parameters_that_are_fed_count_in_both(models: dict[str, gs.Checkpoint]) -> None:
    params = {name: np.array(value) for name, value in models["whole"].params.items()}
    for left, right in (("bare", "bare"), ("whole", "bare"), ("bare", "whole")):
        assert gs.compare(models[left], models[right], feeds={**FEEDS, **params})
    other = models["whole"].with_params({"fc1_bias": params["fc1_bias"] + 1})
    assert gs.compare(models["whole"], other, feeds=FEEDS).outcome == "not equal"
    # The values of the files take no part, so nothing shows that they differ.
    fed = gs.compare(models["whole"], other, feeds={**FEEDS, "fc1_bias": params["fc1_bias"]})
    assert (fed.outcome, fed.branches[0].rounds[0].outputs[0].comparison.identical) == (
        "not proved",
        True,
    )


@pytest.mark.parametrize("left", ["whole", "onnx", "bare"])
@pytest.mark.parametrize("swapped", [False, True])
def test_what_has_no_value_is_named_with_its_file(
    models: dict[str, gs.Checkpoint], left: str, *, swapped: bool
) -> None:
    sides = (models["bare"], models[left]) if swapped else (models[left], models["bare"])
    with pytest.raises(RefusedError) as caught:
        gs.compare(*sides, feeds=FEEDS)
    faults = caught.value.faults
    assert [fault.where for fault in faults] == [f"{LENET}-symbol.json"] * (1 + (left == "bare"))
    for fault in faults:
        assert fault.message.startswith("16 parameters have no value: no parameter file is given (")


def test_a_value_that_one_model_contains_cannot_be_fed(models: dict[str, gs.Checkpoint]) -> None:
    feeds = {**FEEDS, "conv1_bias": np.zeros(8, "float32")}
    with pytest.raises(
        RefusedError,
        match="`feeds` 'conv1_bias' is not an input of both: a model contains its value",
    ):
        gs.compare(models["whole"], models["onnx"], feeds=feeds)


def test_regions_have_the_parameters_that_are_drawn(
    models: dict[str, gs.Checkpoint], tmp_path: Path
) -> None:
    text = Path(f"{LENET}-symbol.json").read_text()
    (tmp_path / "net.json").write_text(text.replace('"act_type": "tanh"', '"act_type": "relu"', 1))
    report = gs.compare(
        models["bare"],
        tmp_path / "net.json",
        inputs=gs.Inputs(params_seed=0),
        shapes={"data": (1, 1, 28, 28)},
    )
    stages = {stage.name: stage for stage in report.branches[0].stages}
    assert stages["regions"].details[0].startswith("first at tanh1_output: values differ")
