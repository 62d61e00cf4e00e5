"""Kernels without a recording compute what their cases say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.execute.interpreter import run_plan
from graphshare.execute.plan import make_plan
from tests.gradients.more_cases import drawn
from tests.gradients.one_operator import graph_of
from tests.kernels.unrecorded import UNRECORDED


def check_case(case: dict[str, Any]) -> None:
    inputs = [value for key, value in drawn([case]).items() if key.startswith("0_in")]
    variables, heads = graph_of(case, len(inputs), len(case["outputs"]))
    outputs = run_plan(make_plan(heads), dict(zip(variables, inputs, strict=True))).outputs
    for output, expected in zip(outputs, case["outputs"], strict=True):
        np.testing.assert_allclose(
            output,
            np.reshape(np.asarray(expected, output.dtype), output.shape),
            rtol=1e-5,
            atol=1e-6,
        )


def test_each_kernel_computes_the_outputs_of_its_case() -> None:
    for case in UNRECORDED:
        check_case(case)


def test_a_wrong_output_is_found() -> None:
    case = {
        "op": "negative",
        "attrs": {},
        "inputs": [{"shape": [2], "values": [1.0, 2.0]}],
        "outputs": [[-1.0, -2.0]],
    }
    check_case(case)
    with pytest.raises(AssertionError):
        check_case({**case, "outputs": [[-1.0, -2.001]]})
