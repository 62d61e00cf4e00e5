"""Conversion of dtypes: fractions, numbers out of range, and integers that floats do not hold."""

from __future__ import annotations

import numpy as np
import pytest

from graphshare.ops.conversion import convert

_LEAST = -(2**63)


@pytest.mark.parametrize(
    ("values", "dtype", "wanted", "expected"),
    [
        ([2**53 + 1, 2**62 + 1, -1], "int64", "int32", [1, 1, -1]),
        ([2**53 + 1], "int64", "uint64", [2**53 + 1]),
        ([2**31 + 5, 300, -1], "int64", "uint8", [5, 44, 255]),
        ([True, False], "bool", "int64", [1, 0]),
        ([1.9, -1.9, 300.5, -129.0], "float32", "int8", [1, -1, 44, 127]),
        ([2.0**31, -(2.0**31) - 1, np.nan, np.inf], "float64", "int32", [-(2**31)] * 4),
        ([2.0**31 - 1, -(2.0**31)], "float64", "int32", [2**31 - 1, -(2**31)]),
        ([2.0**31, np.nan, 256.0], "float64", "uint8", [0, 0, 0]),
        (
            [2.0**63, np.nan, -np.inf, -(2.0**63), 2.0**62],
            "float64",
            "int64",
            [_LEAST] * 4 + [2**62],
        ),
        ([0.1, 1e9], "float64", "float16", [np.float16(0.1), np.inf]),
        ([0.5, 0.0, np.nan], "float32", "bool", [True, False, True]),
    ],
)
def test_numbers_become_those_of_another_dtype(
    values: list[float], dtype: str, wanted: str, expected: list[float]
) -> None:
    found = convert(np.array(values, dtype), wanted)
    assert found.dtype == np.dtype(wanted)
    np.testing.assert_array_equal(found, np.array(expected, wanted))
