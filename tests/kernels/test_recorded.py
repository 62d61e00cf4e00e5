"""Every kernel against what MXNet 1.9.1 computed: ``record.py`` asked, ``recorded/`` keeps the answers."""

from __future__ import annotations

import datetime
import importlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.ops.kernel import Context, Result
from graphshare.ops.registry import find_kernel, lookup
from graphshare.ops.unification import unify
from tests.elementwise import EXACT, TOLERANCE, Tolerance, describe_mismatch
from tests.kernels.cases import INT8

HERE = Path(__file__).parent
WITH_BODIES = ("flow", "joined")  # their nodes carry subgraphs: test_bodies.py
FAMILIES = sorted({path.stem for path in (HERE / "recorded").glob("*.npz")} - set(WITH_BODIES))


@cache
def recorded(family: str) -> dict[str, Any]:
    with np.load(HERE / "recorded" / f"{family}.npz", allow_pickle=False) as file:
        return dict(file)


@cache
def cases_of(family: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(json.dumps(importlib.import_module(f"tests.kernels.cases.{family}").CASES))
    return found


def cases(families: Sequence[str] = FAMILIES) -> list[Any]:
    return [
        pytest.param(family, number, case, id=f"{family}-{number}-{case['op']}")
        for family in families
        for number, case in enumerate(cases_of(family))
    ]


def tolerance_of(case: dict[str, Any], expected: Any) -> Tolerance:
    """Return by what an element of an output may differ: as the case says, else as its dtype allows."""
    default = TOLERANCE.get(str(expected.dtype), EXACT)
    return Tolerance(case.get("atol", default.atol), case.get("rtol", default.rtol))


@pytest.mark.parametrize(("family", "number", "case"), cases())
def test_kernel_computes_what_mxnet_computed(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    inputs = [kept[f"{number}_in{i}"].copy() for i in range(len(case["inputs"]))]
    wanted = [kept[f"{number}_out{i}"] for i in range(sum(key.startswith(f"{number}_out") for key in kept))]
    signature, kernel = lookup(case["op"]), find_kernel(case["op"])
    assert signature is not None
    assert kernel is not None, f"no kernel for {case['op']}"
    attrs, faults = signature.parse(case["attrs"])
    assert not faults
    context = Context(training=case.get("train", False), reusable=(False,) * len(inputs), num_outputs=len(wanted))
    before = [x.copy() for x in inputs]
    result = kernel.forward(context, attrs, *inputs)
    outputs = result.outputs if isinstance(result, Result) else result if isinstance(result, tuple) else (result,)
    for x, y in zip(inputs, before, strict=True):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), "an input that is still needed was changed"
    for got, want in zip(outputs, wanted, strict=False):
        mismatch = describe_mismatch(got, want, tolerance_of(case, want), zero_signs=family == "unary")
        assert mismatch is None, mismatch
    assert len(outputs) >= len(wanted)
    # In place, where every input is dead, the numbers are the same.
    context = Context(training=case.get("train", False), reusable=(True,) * len(inputs), num_outputs=len(wanted))
    again = kernel.forward(context, attrs, *[x.copy() for x in inputs])
    outputs_again = again.outputs if isinstance(again, Result) else again if isinstance(again, tuple) else (again,)
    for got, want in zip(outputs_again, outputs, strict=True):
        assert np.array_equal(got, want, equal_nan=want.dtype.kind == "f")


@pytest.mark.parametrize(("family", "number", "case"), cases())
def test_kernel_infers_what_mxnet_gave(family: str, number: int, case: dict[str, Any]) -> None:
    kept = recorded(family)
    inputs = [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))]
    wanted = [kept[f"{number}_out{i}"] for i in range(sum(key.startswith(f"{number}_out") for key in kept))]
    signature, kernel = lookup(case["op"]), find_kernel(case["op"])
    assert signature is not None
    assert kernel is not None
    attrs, _ = signature.parse(case["attrs"])
    _, shapes = kernel.shapes(attrs, [x.shape for x in inputs], [None] * len(wanted))
    if case.get("dynamic"):  # as far as it goes
        for shape, x in zip(shapes, wanted, strict=True):
            assert unify(shape, x.shape) == x.shape
    else:
        assert [tuple(shape or ()) for shape in shapes] == [x.shape for x in wanted]
    _, types = kernel.types(attrs, [str(x.dtype) for x in inputs], [None] * len(wanted))
    assert list(types) == [str(x.dtype) for x in wanted]


@pytest.mark.parametrize("family", [*FAMILIES, *WITH_BODIES])
def test_recording_is_of_the_cases_as_they_stand(family: str) -> None:
    assert json.loads(str(recorded(family)["cases"])) == [recorded_part(case) for case in cases_of(family)]


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
