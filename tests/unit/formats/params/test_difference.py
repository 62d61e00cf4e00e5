"""Statistics and differences of arrays read piece by piece, against numpy on the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.difference import Distance, distance
from graphshare.formats.params.pieces import side_by_side
from graphshare.formats.params.registry import read_index
from graphshare.formats.params.statistics import Statistics, statistics

DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


def measured(path: Path, array: NDArray[np.generic]) -> Statistics:
    np.savez_compressed(path, w=array)
    file = read_index(path)
    with ArrayReader(file) as reader:
        return statistics(reader, file.records[0])


def apart(folder: Path, a: NDArray[np.generic], b: NDArray[np.generic], **tolerance: float) -> Distance:
    np.savez(folder / "a.npz", w=a)
    np.savez_compressed(folder / "b.npz", w=b)
    left, right = read_index(folder / "a.npz"), read_index(folder / "b.npz")
    with ArrayReader(left) as x, ArrayReader(right) as y:
        return distance(x, left.records[0], y, right.records[0], **tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_statistics_are_numpys(dtype: str, tmp_path: Path) -> None:
    array = (np.random.default_rng(1).normal(3, 40, (3, 211, 977)) % 100).astype(dtype)  # more than one piece
    found = measured(tmp_path / "a.npz", array)
    wide = array.astype("float64")
    assert (found.min, found.max, found.zeros, found.count) == (wide.min(), wide.max(), int((wide == 0).sum()), wide.size)
    assert (found.mean, found.std, found.norm) == pytest.approx((wide.mean(), wide.std(), np.linalg.norm(wide)), rel=1e-9)


def test_what_is_not_finite_is_counted_apart(tmp_path: Path) -> None:
    found = measured(tmp_path / "a.npz", np.array([1, np.nan, np.inf, -np.inf, 3], "float32"))
    assert (found.nans, found.infinities, found.min, found.max, found.mean) == (1, 2, 1, 3, 2)
    empty = measured(tmp_path / "a.npz", np.full(3, np.nan))
    assert (empty.nans, empty.min, empty.mean, empty.norm) == (3, None, None, None)
    assert measured(tmp_path / "a.npz", np.zeros((0, 3))).count == 0


@pytest.mark.parametrize("dtype", DTYPES)
def test_differences_are_counted(dtype: str, tmp_path: Path) -> None:
    array = (np.random.default_rng(1).normal(3, 40, (3, 211, 977)) % 2).astype(dtype)
    assert apart(tmp_path, array, array)
    other = array.copy()
    for place in ((0, 0, 0), (1, 100, 5), (2, 210, 976)):
        other[place] = 1 - np.round(other[place].astype("float64")) if dtype == "bool" else other[place] + 2
    found = apart(tmp_path, array, other)
    assert (found.differing, found.count, bool(found)) == (3, array.size, False)
    assert found.max_abs == pytest.approx(1 if dtype == "bool" else 2, rel=1e-3)


def test_large_integers_are_not_rounded(tmp_path: Path) -> None:
    high = np.array([2**63 - 1, 5], "int64")
    assert apart(tmp_path, high, high - 1).differing == 2
    assert apart(tmp_path, high.astype("uint64") * 2, high.astype("uint64") * 2 + np.uint64(1)).differing == 2
    low = np.array([-(2**63), 0], "int64")
    assert apart(tmp_path, high, low).max_abs == pytest.approx(2.0**64)


def test_nan_equals_nan_and_nothing_else(tmp_path: Path) -> None:
    a, b = np.array([np.nan, 1.0, np.inf]), np.array([np.nan, np.nan, np.inf])
    assert apart(tmp_path, a, a.copy())
    found = apart(tmp_path, a, b)
    assert (found.differing, found.max_abs) == (1, None)


def test_tolerances(tmp_path: Path) -> None:
    a, b = np.array([100.0, 1.0]), np.array([101.0, 1.5])
    assert apart(tmp_path, a, b).differing == 2
    assert apart(tmp_path, a, b, rtol=0.02).differing == 1
    assert apart(tmp_path, a, b, atol=1.0)


def test_streams_of_unequal_pieces_meet() -> None:
    whole = np.arange(10)
    rows = list(side_by_side(iter(np.split(whole, [3, 4])), iter(np.split(whole, [5]))))
    assert [len(a) for a, _ in rows] == [3, 1, 1, 5]
    assert all((a == b).all() for a, b in rows)
