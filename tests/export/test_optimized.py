"""What onnxruntime makes of exported operators by default: it joins nodes, and the results must stay right."""

from __future__ import annotations

from typing import Any

import onnx
import pytest

from graphshare.errors import RefusedError
from tests.export.judge import export_operator, run_onnx
from tests.export.known_differences import KNOWN
from tests.export.test_recorded import compare, exported_cases
from tests.kernels.recordings import recorded_inputs, recorded_outputs

JOINED = (
    "batch_normalization",
    "convolution",
    "deconvolution",
    "normalization",
    "pooling",
    "quantized",
    "resizing",
    "rnn",
)
"""The families of operators that onnxruntime joins; of the others a share is tried."""


def joinable_cases() -> list[Any]:
    """Return recorded cases whose answer is not open."""
    cases = [case for case in exported_cases() if case.id not in KNOWN]
    return [case for case in cases if case.values[0] in JOINED or not case.marks]


@pytest.mark.parametrize(("family", "number", "case"), joinable_cases())
def test_optimizations_keep_the_results(family: str, number: int, case: dict[str, Any]) -> None:
    inputs, wanted = recorded_inputs(family, number), recorded_outputs(family, number)
    data = export_operator(case["op"], case["attrs"], inputs, len(wanted))
    if isinstance(data, RefusedError) or len(onnx.load_from_string(data).graph.node) < 2:
        return  # nothing to join
    outputs, judge = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)}, optimize=True)
    mismatches = compare(outputs, wanted, case)
    assert not mismatches or judge != "onnxruntime", mismatches
