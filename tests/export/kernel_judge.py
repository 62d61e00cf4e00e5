"""One operator in onnxruntime against our own kernel, which is verified on MXNet: for what recorded
cases do not reach.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from graphshare.errors import RefusedError
from graphshare.ops.kernel import Context, KernelResult
from graphshare.ops.registry import find_kernel, lookup
from tests.elementwise import Tolerance, describe_mismatch
from tests.export.judge import export_operator, run_onnx


def compute(op: str, attrs: Mapping[str, str], inputs: tuple[Any, ...], count: int) -> list[Any]:
    """Return the first ``count`` outputs of our kernel."""
    signature, kernel = lookup(op), find_kernel(op)
    assert signature is not None
    assert kernel is not None
    parsed, faults = signature.parse(attrs)
    assert not faults
    context = Context(reusable=(False,) * len(inputs), num_outputs=count)
    made = kernel.forward(context, parsed, *(x.copy() for x in inputs))
    outputs = (
        made.outputs
        if isinstance(made, KernelResult)
        else made
        if isinstance(made, tuple)
        else (made,)
    )
    return list(outputs)[:count]


def compare(
    op: str,
    attrs: Mapping[str, str],
    *inputs: Any,
    count: int = 1,
    tolerance: Tolerance | None = None,
) -> tuple[list[Any], str]:
    """Compare ``count`` outputs in shape, dtype and values; return those of the ONNX model and who computed them."""
    wanted = compute(op, attrs, inputs, count)
    data = export_operator(op, attrs, inputs, count)
    assert not isinstance(data, RefusedError), str(data)
    outputs, judge = run_onnx(data, {f"in{i}": x for i, x in enumerate(inputs)})
    for i, (got, want) in enumerate(zip(outputs, wanted, strict=True)):
        mismatch = describe_mismatch(np.asarray(got), want, tolerance)
        assert mismatch is None, (
            f"{op} {attrs} on {[(x.dtype, x.shape) for x in inputs]}, output {i}: {mismatch}"
        )
    return outputs, judge


def refusal(op: str, attrs: Mapping[str, str], *inputs: Any) -> str:
    """Return why the operator is refused."""
    data = export_operator(op, attrs, inputs, 1)
    assert isinstance(data, RefusedError), "it was exported"
    return str(data)
