"""Every kernel against what MXNet 1.9.1 computed: ``record.py`` asked, ``recorded/`` keeps the answers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from graphshare.kernels.inference import unify
from graphshare.kernels.kernel import Context, Result
from graphshare.kernels.registry import find_kernel
from graphshare.operators import lookup

HERE = Path(__file__).parent
WITH_BODIES = ("flow", "joined")  # their nodes carry sub-graphs: test_bodies.py
FAMILIES = sorted({path.stem for path in (HERE / "recorded").glob("*.npz")} - set(WITH_BODIES))
TOLERANCE = {"float64": 1e-9, "float32": 1e-5, "float16": 4e-3}


@cache
def recorded(family: str) -> dict[str, Any]:
    with np.load(HERE / "recorded" / f"{family}.npz", allow_pickle=False) as file:
        return dict(file)


def cases(families: Sequence[str] = FAMILIES) -> list[Any]:
    found = []
    for family in families:
        for number, case in enumerate(json.loads(str(recorded(family)["cases"]))):
            found.append(pytest.param(family, number, case, id=f"{family}-{number}-{case['op']}"))
    return found


def difference(got: Any, wanted: Any) -> float:
    """The largest difference relative to the largest finite value; infinite where NaN or infinities do not fall together."""
    got, wanted = np.asarray(got, "float64"), np.asarray(wanted, "float64")
    finite = np.isfinite(wanted)
    if not np.array_equal(np.where(finite, 0, got), np.where(finite, 0, wanted), equal_nan=True):
        return float("inf")
    if not finite.any():
        return 0.0
    scale = max(float(np.abs(wanted[finite]).max()), 1e-30)
    return float(np.abs(got[finite] - wanted[finite]).max()) / scale


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
    context = Context(training=case.get("train", False), dead=(False,) * len(inputs), num_outputs=len(wanted))
    before = [x.copy() for x in inputs]
    result = kernel.forward(context, attrs, *inputs)
    outputs = result.outputs if isinstance(result, Result) else result if isinstance(result, tuple) else (result,)
    for x, y in zip(inputs, before, strict=True):
        assert np.array_equal(x, y, equal_nan=x.dtype.kind == "f"), "an input that is still needed was changed"
    for got, want in zip(outputs, wanted, strict=False):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        limit = case.get("tolerance", TOLERANCE.get(str(want.dtype), 0.0))
        assert difference(got, want) <= limit
    assert len(outputs) >= len(wanted)
    # In place, where every input is dead, the numbers are the same.
    context = Context(training=case.get("train", False), dead=(True,) * len(inputs), num_outputs=len(wanted))
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
    cases_now = importlib.import_module(f"tests.kernels.cases.{family}").CASES
    assert json.loads(str(recorded(family)["cases"])) == json.loads(json.dumps(cases_now))
