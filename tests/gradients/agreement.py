"""Gradients of single operators compared with those that MXNet computes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from graphshare.ops.gradient import NoGradient
from graphshare.ops.registry import find_gradient
from tests.elementwise import describe_mismatch, tolerance_of_sums
from tests.gradients.one_operator import gradients_of

RTOL = {"float16": 4e-3, "float32": 1e-5, "float64": 5e-7}
LEAST = {"float16": 5e-4, "float32": 1e-6, "float64": 5e-8}
"""The absolute part where gradients are small: all of them are sums of products with numbers of about 1, rounded."""


def is_random(case: dict[str, Any]) -> bool:
    """Whether MXNet draws what nobody can draw again."""
    attrs = case["attrs"]
    return (
        float(attrs.get("p", 0)) > 0
        and case["op"] in ("Dropout", "RNN")
        and attrs.get("num_layers") != "1"
    )


def mixes_batches(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Whether both sides of a product are stretched, whose gradients MXNet adds up wrongly."""
    return bool(
        case["op"] == "_npi_matmul"
        and inputs[0].shape[:-2] != inputs[1].shape[:-2]
        and min(x.ndim for x in inputs) > 2
    )


def is_without_largest(case: dict[str, Any], inputs: list[Any]) -> bool:
    """Windows of NaN or minus infinity alone: to which cell MXNet's gradient goes depends on
    whether oneDNN computes it.
    """
    return bool(case["op"] == "Pooling" and not np.isfinite(inputs[0]).all())


def not_written(case: dict[str, Any]) -> bool:
    """Whether asking for the gradient is refused."""
    found = find_gradient(case["op"])
    return isinstance(found, NoGradient) and not found.is_zero


def rounding(case: dict[str, Any], inputs: list[Any], narrowest: str) -> float:
    """Return the least absolute tolerance: subtracting a mean of about 100 leaves the rounding of 100."""
    shifted = case["op"] == "BatchNorm" and np.abs(inputs[0]).max() > 50
    return float(np.finfo(narrowest).eps) * 100 if shifted else LEAST[narrowest]


@cache
def recorded_gradients() -> dict[str, dict[str, Any]]:
    """Return by family what MXNet answered to ``record.py``, by the number of the case and that of the input."""
    with np.load(Path(__file__).with_name("recorded.npz")) as file:
        index, data = json.loads(str(file["index"])), file["data"]
    found: dict[str, dict[str, Any]] = {}
    place = 0
    for family, answers in index.items():
        found[family] = {}
        for key, (dtype, shape) in answers.items():
            size = prod(shape) * np.dtype(dtype).itemsize
            found[family][key] = data[place : place + size].view(dtype).reshape(shape)
            place += size
    return found


def check_gradients(
    cases: Sequence[dict[str, Any]], kept: Mapping[str, Any], answers: Mapping[str, Any]
) -> None:
    """Compare the gradients of cases with MXNet's ``answers``; ``kept`` has the inputs, and the
    outputs by their names.
    """
    compared = 0
    for number, case in enumerate(cases):
        inputs = [kept[f"{number}_in{i}"] for i in range(len(case["inputs"]))]
        wanted = {
            i: answers[f"{number}_grad{i}"]
            for i in range(len(inputs))
            if f"{number}_grad{i}" in answers
        }
        if not wanted or is_random(case) or not_written(case):
            continue
        if mixes_batches(case, inputs) or is_without_largest(case, inputs):
            continue
        outputs = sum(key.startswith(f"{number}_out") for key in kept)
        found = gradients_of(case, inputs, outputs, number)
        narrowest = next(kind for kind in RTOL if any(x.dtype == kind for x in inputs))
        for i, want in wanted.items():
            got = np.zeros(want.shape) if found[i] is None else found[i]
            # For a label that is too long MXNet leaves what the memory held
            if case["op"] == "CTCLoss" and i == 0:
                possible = kept[f"{number}_out0"] != 0
                got, want = got[:, possible], want[:, possible]
            tolerance = tolerance_of_sums(
                want, narrowest, rtol=RTOL[narrowest], least=rounding(case, inputs, narrowest)
            )
            mismatch = describe_mismatch(np.asarray(got).astype(want.dtype), want, tolerance)
            assert mismatch is None, (
                f"{case['op']} case {number} {case['attrs']}, input {i}: {mismatch}"
            )
            compared += 1
    assert compared or all(isinstance(find_gradient(case["op"]), NoGradient) for case in cases)
