"""The backend ``paddle``: runs have the predictor's bits, branches are proved, and a conversion to ONNX is judged."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.test_paddle import MADE
from tests.oracle.test_paddle import folder as folder
from tests.surroundings import ROOT

PROCESS = Path(__file__).with_name("paddle_backend_process.py")


@pytest.fixture(scope="module")
def answers(folder: Path, paddle_python: str) -> dict[str, Any]:
    """What the process says, which has the packages of Paddle's Python."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [paddle_python, PROCESS, folder]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    answers: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answers


@pytest.mark.parametrize("name", MADE)
def test_a_run_has_the_bits_of_the_predictor(name: str, answers: dict[str, Any]) -> None:
    assert answers[f"run {name}"]
    assert all(answers[f"run {name}"].values())
    assert answers[f"bind {name}"]


@pytest.mark.parametrize("mode", ["tied", "copied"])
@pytest.mark.parametrize("name", MADE)
def test_branches_are_proved_with_their_layers(
    name: str, mode: str, answers: dict[str, Any]
) -> None:
    verdict, layers = answers[f"verify {name} {mode}"]
    assert verdict == "EQUAL: b. and the original, bit for bit"
    assert layers


def test_a_conversion_to_onnx_is_judged_in_both_orders(answers: dict[str, Any]) -> None:
    assert answers["compare twin"] == answers["compare twin first"] == "equal"
    assert answers["compare other"] == "not equal"


@pytest.mark.parametrize("order", ["", " first"])
@pytest.mark.parametrize(("names", "count"), [("values", 10), ("parameters", 8), ("neither", 8)])
def test_a_right_conversion_is_judged_region_by_region(
    names: str, count: int, order: str, answers: dict[str, Any]
) -> None:
    outcome, regions, details = answers[f"conversion {names} 0.0{order}"]
    assert outcome == "equal"
    assert f", {count} regions within " in regions, regions
    assert details == []


@pytest.mark.parametrize("order", ["", " first"])
@pytest.mark.parametrize("names", ["values", "parameters", "neither"])
def test_a_moved_weight_of_a_conversion_is_named_at_its_operator(
    names: str, order: str, answers: dict[str, Any]
) -> None:
    outcome, regions, details = answers[f"conversion {names} 0.5{order}"]
    assert outcome == "not equal"
    assert "1 region DIFFERS" in regions
    paddle, twin = reversed(details[1:]) if order else details[1:]
    # Without names the weight is not known to be one, and what reads the next equal parameter ends the region.
    more = r", [Aa]dd '[%v]\d+'" if names == "neither" else ""
    assert re.search(rf"computes it by matmul '%\d+'{more}$", paddle), paddle
    assert re.search(rf"computes it by MatMul '[\w.]+'{more}$", twin), twin


def test_a_moved_weight_is_found(answers: dict[str, Any]) -> None:
    assert answers["moved"] == "not equal"


def test_values_that_two_outputs_or_an_input_are_can_be_read(answers: dict[str, Any]) -> None:
    assert answers["all outputs"]["input"]
    assert answers["all outputs"]["twice"] == 1  # what the output passes on
    assert answers["all outputs"]["count"] > 10
    assert answers["passed on"]


def test_what_cannot_be_computed_is_refused(answers: dict[str, Any]) -> None:
    assert "parameters have no values" in answers["no parameters"]
    assert "paddle 3.3.1 refuses the graph" in answers["refused"]
    assert "takes more memory in paddle" in answers["limited"]
    assert len(answers["refused"]) < 700  # without the trace of C++
