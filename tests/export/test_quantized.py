"""8-bit integers in ONNX beside what is recorded: ranges of 0, NaN, and arrays of dtypes that are not multiplied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graphshare.errors import RefusedError
from graphshare.ops.kernel import Context
from graphshare.ops.registry import find_kernel, lookup
from tests.elementwise import describe_mismatch
from tests.export.judge import export_operator, run_onnx

ZERO = np.zeros(1, "float32")
NUMBERS = np.array([[0.0, -2.5, 3.0], [np.nan, 1e-9, 2.0]], "float32")
CALIBRATED = {"min_calib_range": "0.0", "max_calib_range": "0.0"}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize(
    ("op", "attrs", "inputs"),
    [
        ("_contrib_quantize_v2", {}, [np.zeros((2, 3), "float32")]),
        ("_contrib_quantize_v2", CALIBRATED, [NUMBERS]),
        ("_contrib_quantize_v2", {"min_calib_range": "-1.0", "max_calib_range": "3.0"}, [NUMBERS]),
        ("_contrib_quantize", {}, [NUMBERS, ZERO, ZERO]),
        ("_contrib_requantize", {}, [np.zeros((2, 3), "int32"), ZERO, ZERO]),
        ("_contrib_requantize", CALIBRATED, [np.array([[-5, 0, 7]], "int32"), ZERO + 1, ZERO + 3]),
    ],
)
def test_ranges_of_0_and_numbers_that_are_none(
    op: str, attrs: dict[str, str], inputs: list[Any], dtype: str
) -> None:
    attrs = attrs | {"out_type": dtype}
    data = export_operator(op, attrs, inputs, 3)
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    assert judge == "onnxruntime"
    kernel, signature = find_kernel(op), lookup(op)
    assert kernel is not None
    assert signature is not None
    with np.errstate(all="ignore"):
        wanted = kernel.forward(Context(num_outputs=3), signature.parse(attrs)[0], *inputs)
    assert isinstance(wanted, tuple)
    for got, want in zip(outputs, wanted, strict=True):
        mismatch = describe_mismatch(got, want)
        assert mismatch is None, mismatch


@pytest.mark.parametrize("op", ["dot", "batch_dot", "_npi_matmul", "_np_dot"])
def test_matrices_of_bytes_are_refused(op: str) -> None:
    refusal = export_operator(op, {}, [np.ones((2, 2, 2), "int8")] * 2, 1)
    assert isinstance(refusal, RefusedError)
    assert "it multiplies matrices of int8, which neither MXNet nor ONNX supports" in str(refusal)
