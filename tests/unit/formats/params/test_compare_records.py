"""Comparing arrays: in memory, and read piece by piece."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.comparison import (
    Distance,
    align_rows,
    compare_arrays,
    compare_records,
)
from graphshare.formats.params.format import read_index

DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


def apart(
    folder: Path, a: NDArray[np.generic], b: NDArray[np.generic], **tolerance: float
) -> Distance:
    np.savez(folder / "a.npz", w=a)
    np.savez_compressed(folder / "b.npz", w=b)
    left, right = read_index(folder / "a.npz"), read_index(folder / "b.npz")
    with ArrayReader(left) as x, ArrayReader(right) as y:
        return compare_records(y, right.records[0], x, left.records[0], **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_differences_are_counted(dtype: str, tmp_path: Path) -> None:
    array = (np.random.default_rng(1).normal(3, 40, (3, 211, 977)) % 2).astype(dtype)
    assert apart(tmp_path, array, array)
    other = array.copy()
    for place in ((0, 0, 0), (1, 100, 5), (2, 210, 976)):
        other[place] = (
            1 - np.round(other[place].astype("float64")) if dtype == "bool" else other[place] + 2
        )
    found = apart(tmp_path, array, other)
    assert (found.differing, found.count, bool(found)) == (3, array.size, False)
    assert found.max_abs == pytest.approx(1 if dtype == "bool" else 2, rel=1e-3)


def test_large_integers_are_not_rounded(tmp_path: Path) -> None:
    high = np.array([2**63 - 1, 5], "int64")
    assert apart(tmp_path, high, high - 1).differing == 2
    assert (
        apart(
            tmp_path, high.astype("uint64") * 2, high.astype("uint64") * 2 + np.uint64(1)
        ).differing
        == 2
    )
    low = np.array([-(2**63), 0], "int64")
    assert apart(tmp_path, high, low).max_abs == pytest.approx(2.0**64)


def test_nan_equals_nan_and_nothing_else(tmp_path: Path) -> None:
    a, b = np.array([np.nan, 1.0, np.inf]), np.array([np.nan, np.nan, np.inf])
    assert apart(tmp_path, a, a.copy())
    found = apart(tmp_path, a, b)
    assert (found.differing, found.max_abs) == (1, None)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_numbers_are_compared_in_their_bits(dtype: str, tmp_path: Path) -> None:
    a = np.array([0.0, np.nan, 1.0, 2.0], dtype)
    b = np.array([-0.0, np.nan, 1.0, 2.0], dtype)
    assert apart(tmp_path, a, b) == Distance(4, 1, 0.0, bits=1)
    bits = b.view(f"u{a.itemsize}")
    bits[1] ^= bits.dtype.type(1)  # another NaN
    assert apart(tmp_path, a, b) == Distance(4, 2, 0.0, bits=2)
    b[3] = 2.5
    assert apart(tmp_path, a, b) == Distance(4, 3, 0.5, bits=2)
    b[2] = np.inf
    assert apart(tmp_path, a, b) == Distance(4, 4, None, bits=2)
    assert apart(tmp_path, b, b.copy())


def test_bits_do_not_count_with_a_tolerance_or_another_dtype(tmp_path: Path) -> None:
    a, b = np.array([0.0, np.nan, 1.0]), np.array([-0.0, -np.nan, 1.0])
    assert apart(tmp_path, a, b).bits == 2
    assert apart(tmp_path, a, b, atol=1e-300) == Distance(3, 0, 0.0)
    assert apart(tmp_path, a, b, rtol=1e-300) == Distance(3, 0, 0.0)
    assert apart(tmp_path, a, b.astype("float32")) == Distance(3, 0, 0.0)
    assert apart(tmp_path, np.zeros(0), np.zeros(0)) == Distance(0, 0, 0.0)


def test_bits_differ_in_one_piece_of_many(tmp_path: Path) -> None:
    a = np.zeros(3_000_000, "float32")
    b = a.copy()
    b[[5, 2_999_999]] = -0.0
    assert apart(tmp_path, a, b) == Distance(3_000_000, 2, 0.0, bits=2)


def test_tolerances(tmp_path: Path) -> None:
    a, b = np.array([100.0, 1.0]), np.array([101.0, 1.5])
    assert apart(tmp_path, a, b).differing == 2
    assert apart(tmp_path, a, b, rtol=0.02).differing == 1
    assert apart(tmp_path, a, b, atol=1.0)


def test_streams_of_unequal_pieces_meet() -> None:
    whole = np.arange(10)
    rows = list(align_rows(iter(np.split(whole, [3, 4])), iter(np.split(whole, [5]))))
    assert [len(a) for a, _ in rows] == [3, 1, 1, 5]
    assert all((a == b).all() for a, b in rows)


def test_the_relative_tolerance_is_of_the_reference() -> None:
    array, reference = np.array([101.0]), np.array([100.0])
    assert compare_arrays(array, reference, atol=0, rtol=0.01)
    assert not compare_arrays(reference, array, atol=0, rtol=0.0099)
    assert compare_arrays(reference, array, atol=0, rtol=1 / 101)


def test_the_tolerances_that_would_have_passed_are_reported() -> None:
    found = compare_arrays(np.array([1.5, 0.25, 7.0]), np.array([1.0, 0.5, 7.0]), atol=0, rtol=0)
    assert (found.equal, found.identical, found.max_abs, found.max_rel) == (False, False, 0.5, 0.5)
    assert compare_arrays(np.array([1.0]), np.array([0.0]), atol=2, rtol=0).max_rel == float("inf")


@pytest.mark.parametrize(
    ("array", "reference", "reason"),
    [
        (np.zeros(2), np.zeros(3), "shapes (2,) and (3,)"),
        (np.zeros(2), np.zeros(2, "float32"), "types float64 and float32"),
        (np.array([1.0, np.inf]), np.array([1.0, 5.0]), "NaN or infinities in different places"),
        (np.array([5.0]), np.array([np.inf]), "NaN or infinities in different places"),
        (np.array([np.nan]), np.array([np.inf]), "NaN or infinities in different places"),
    ],
)
def test_no_tolerance_makes_up_for_another_shape_dtype_or_infinity(
    array, reference, reason: str
) -> None:
    found = compare_arrays(array, reference, atol=1e300, rtol=1e300)
    assert (found.equal, found.max_abs, found.max_rel, found.reason) == (
        False,
        float("inf"),
        float("inf"),
        reason,
    )


def test_equal_infinities_and_nan_are_equal_beside_other_differences() -> None:
    array, reference = np.array([np.inf, np.nan, 1.0]), np.array([np.inf, np.nan, 1.5])
    assert compare_arrays(array, reference, atol=0.5, rtol=0)
    assert compare_arrays(array, reference, atol=0, rtol=0).max_abs == 0.5


def test_an_integer_passes_only_within_a_tolerance_of_one() -> None:
    assert not compare_arrays(np.array([2]), np.array([3]), atol=0.9, rtol=0)
    assert compare_arrays(np.array([2]), np.array([3]), atol=1, rtol=0)
    assert compare_arrays(np.array([True]), np.array([False]), atol=0, rtol=0).max_abs == 1


def test_arrays_without_numbers_are_equal() -> None:
    assert compare_arrays(np.zeros((0, 3)), np.zeros((0, 3)), atol=0, rtol=0).identical
