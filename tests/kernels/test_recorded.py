"""Every kernel against what MXNet 1.9.1 computed: ``record.py`` asked, ``recorded/`` keeps the answers."""

from __future__ import annotations

import datetime
import json
from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, Kernel, KernelResult
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.unification import unify
from tests.elementwise import describe_mismatch
from tests.kernels.cases import INT8
from tests.kernels.recordings import (
    FAMILIES,
    WITH_BODIES,
    cases,
    cases_of,
    recorded,
    recorded_inputs,
    recorded_outputs,
    tolerance_of,
)


@pytest.mark.parametrize(("family", "number", "case"), cases())
def test_kernel_infers_and_computes_what_mxnet_did(
    family: str, number: int, case: dict[str, Any]
) -> None:
    inputs, wanted = recorded_inputs(family, number), recorded_outputs(family, number)
    signature, kernel = lookup(case["op"]), find_kernel(case["op"])
    assert signature is not None
    assert kernel is not None, f"no kernel for {case['op']}"
    attrs, faults = signature.parse(case["attrs"])
    assert not faults
    compare_inference(kernel, attrs, inputs, wanted, is_dynamic=case.get("dynamic", False))
    context = Context(
        training=case.get("train", False), reusable=(False,) * len(inputs), num_outputs=len(wanted)
    )
    given = [x.copy() for x in inputs]
    result = kernel.forward(context, attrs, *given)
    outputs = (
        result.outputs
        if isinstance(result, KernelResult)
        else result
        if isinstance(result, tuple)
        else (result,)
    )
    for x, y in zip(given, inputs, strict=True):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), (
            "an input that is still needed was changed"
        )
    for got, want in zip(outputs, wanted, strict=False):
        mismatch = describe_mismatch(
            got, want, tolerance_of(case, want), zero_signs=family == "unary"
        )
        assert mismatch is None, mismatch
    assert len(outputs) >= len(wanted)
    # In place, where every input is dead, the numbers are the same.
    context = Context(
        training=case.get("train", False), reusable=(True,) * len(inputs), num_outputs=len(wanted)
    )
    again = kernel.forward(context, attrs, *[x.copy() for x in inputs])
    outputs_again = (
        again.outputs
        if isinstance(again, KernelResult)
        else again
        if isinstance(again, tuple)
        else (again,)
    )
    for got, want in zip(outputs_again, outputs, strict=True):
        assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f")


def compare_inference(
    kernel: Kernel, attrs: dict[str, Any], inputs: list[Any], wanted: list[Any], *, is_dynamic: bool
) -> None:
    """Check the inferred shapes and dtypes; what is dynamic is inferred as far as it goes."""
    _, shapes = kernel.shapes(attrs, [x.shape for x in inputs], [None] * len(wanted))
    if is_dynamic:
        for shape, x in zip(shapes, wanted, strict=True):
            assert unify(shape, x.shape) == x.shape
    else:
        assert [tuple(shape or ()) for shape in shapes] == [x.shape for x in wanted]
    _, types = kernel.types(attrs, [str(x.dtype) for x in inputs], [None] * len(wanted))
    assert list(types) == [str(x.dtype) for x in wanted]


@pytest.mark.parametrize("family", [*FAMILIES, *WITH_BODIES])
def test_recording_is_of_the_cases_as_they_stand(family: str) -> None:
    assert json.loads(str(recorded(family)["cases"])) == [
        recorded_part(case) for case in cases_of(family)
    ]


def recorded_part(case: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in case.items() if key not in ("atol", "rtol")}


@pytest.mark.parametrize("family", [*FAMILIES, *WITH_BODIES])
def test_recording_has_its_provenance(family: str) -> None:
    provenance = json.loads(str(recorded(family)["provenance"]))
    assert provenance["mxnet"] == "1.9.1"
    assert provenance["onednn"].startswith("v")
    assert "MKLDNN" in provenance["features"]
    assert provenance["instructions"].startswith("Intel")
    assert {"instructions_limit", "numpy"} <= provenance.keys()
    assert datetime.date.fromisoformat(provenance["date"])


@pytest.mark.parametrize("family", INT8)
def test_int8_sums_are_recorded_where_mxnet_adds_exactly(family: str) -> None:
    provenance = json.loads(str(recorded(family)["provenance"]))
    assert provenance["instructions_limit"] is None
    assert "avx_vnni" in provenance["instructions_of_processor"]
