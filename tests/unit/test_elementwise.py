"""The comparison of arrays that the recorded answers are compared with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.elementwise import TOLERANCE, Tolerance, describe_mismatch

RECORDED = Path(__file__).parents[1] / "kernels" / "recorded"


def test_one_wrong_small_entry_is_a_mismatch() -> None:
    expected = np.array([1000.0, -20.0, 0.001, 0.5], np.float32)
    got = expected.copy()
    got[2] *= np.float32(1.001)
    # Which one measure of the whole array would accept
    assert np.abs(got - expected).max() / np.abs(expected).max() < 1e-8
    message = describe_mismatch(got, expected)
    assert message is not None
    assert message.startswith("1 of 4 elements differ")
    assert message.endswith("at (2,)")
    assert describe_mismatch(expected, expected) is None


@pytest.mark.parametrize("family", ["binary", "unary", "pooling", "convolution", "softmax"])
def test_a_wrong_smallest_entry_of_a_recorded_answer_is_a_mismatch(family: str) -> None:
    """Only an entry below the absolute tolerance of its case may be off by more than 1 %."""
    with np.load(RECORDED / f"{family}.npz") as kept:
        cases, outputs = (
            json.loads(str(kept["cases"])),
            [kept[key] for key in kept.files if "_out" in key],
        )
    assert len(outputs) >= len(cases)
    changed = 0
    for expected in outputs:
        small = np.abs(expected.astype(np.float64))
        small[~np.isfinite(small) | (small < 1e-6)] = np.inf
        if expected.dtype.name not in ("float32", "float64") or np.isinf(small).all():
            continue
        got = expected.copy()
        got[np.unravel_index(np.argmin(small), small.shape)] *= got.dtype.type(1.02)
        assert describe_mismatch(got, expected) is not None
        changed += 1
    assert changed > 5


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_the_tolerance_has_an_absolute_and_a_relative_part(dtype: str) -> None:
    atol, rtol = TOLERANCE[dtype]
    expected = np.array([0.0, 1.0], dtype)
    assert describe_mismatch(expected + np.array([atol * 0.9, 0], dtype), expected) is None
    assert describe_mismatch(expected + np.array([atol * 1.2, 0], dtype), expected) is not None
    assert describe_mismatch(expected * np.asarray(1 + rtol * 0.9, dtype), expected) is None
    assert describe_mismatch(expected * np.asarray(1 + rtol * 2, dtype), expected) is not None
    assert (
        describe_mismatch(expected * np.asarray(1.5, dtype), expected, Tolerance(0.0, 0.51)) is None
    )


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ([np.nan, 1], [0, 1]),
        ([0, 1], [np.nan, 1]),
        ([np.inf, 1], [1, 1]),
        ([-np.inf, 1], [np.inf, 1]),
        ([1, 1], [np.inf, 1]),
        ([np.nan, 1], [np.inf, 1]),
    ],
)
def test_special_values_must_be_the_same(got: list[Any], expected: list[Any]) -> None:
    wide = Tolerance(10.0, 10.0)
    assert describe_mismatch(np.array(got, float), np.array(expected, float), wide) is not None
    assert describe_mismatch(np.array(expected, float), np.array(expected, float)) is None


def test_zeros_have_a_sign_only_where_it_is_asked_for() -> None:
    assert describe_mismatch(np.array([-0.0]), np.array([0.0])) is None
    assert describe_mismatch(np.array([-0.0]), np.array([0.0]), zero_signs=True) is not None


def test_integers_shapes_and_dtypes_must_be_equal() -> None:
    large = np.array([2**62, 1])
    # Which float64 does not tell apart
    assert describe_mismatch(large + np.array([1, 0]), large) is not None
    assert describe_mismatch(large[None], large) is not None
    assert describe_mismatch(large.astype(np.int32), large.astype(np.int16)) is not None
    assert describe_mismatch(large[:0], large[:0]) is None
