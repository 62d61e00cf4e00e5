"""What MXNet 1.9.1 computed for the cases of every kernel: ``record.py`` asked, ``recorded/`` keeps the answers."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.elementwise import EXACT, TOLERANCE, Tolerance

RECORDED = Path(__file__).parent / "recorded"
WITH_BODIES = ("flow", "joined")  # their nodes carry subgraphs: test_bodies.py
FAMILIES = sorted({path.stem for path in RECORDED.glob("*.npz")} - set(WITH_BODIES))


@cache
def recorded(family: str) -> dict[str, Any]:
    """Return the arrays of a family by their names in its file."""
    with np.load(RECORDED / f"{family}.npz", allow_pickle=False) as file:
        return dict(file)


@cache
def _numbers_of_outputs(family: str) -> dict[int, int]:
    counts: dict[int, int] = {}
    for key in recorded(family):
        number, is_output, _ = key.partition("_out")
        if is_output:
            counts[int(number)] = counts.get(int(number), 0) + 1
    return counts


def recorded_inputs(family: str, number: int) -> list[Any]:
    """Return the arrays that a case was given."""
    kept = recorded(family)
    return [kept[f"{number}_in{i}"] for i in range(len(cases_of(family)[number]["inputs"]))]


def recorded_outputs(family: str, number: int) -> list[Any]:
    """Return the arrays that MXNet gave for a case."""
    kept = recorded(family)
    return [kept[f"{number}_out{i}"] for i in range(_numbers_of_outputs(family).get(number, 0))]


@cache
def cases_of(family: str) -> list[dict[str, Any]]:
    """Return the cases of a family, as JSON has them."""
    cases: list[dict[str, Any]] = json.loads(
        json.dumps(importlib.import_module(f"tests.kernels.cases.{family}").CASES)
    )
    return cases


def cases(families: Sequence[str] = FAMILIES) -> list[Any]:
    """Return the parameters ``family, number, case`` of a test of every case."""
    return [
        pytest.param(family, number, case, id=f"{family}-{number}-{case['op']}")
        for family in families
        for number, case in enumerate(cases_of(family))
    ]


def tolerance_of(case: dict[str, Any], expected: Any) -> Tolerance:
    """Return by what an element of an output may differ: as the case says, else as its dtype allows."""
    default = TOLERANCE.get(str(expected.dtype), EXACT)
    return Tolerance(case.get("atol", default.atol), case.get("rtol", default.rtol))
