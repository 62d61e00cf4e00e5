"""Statistics of arrays read piece by piece, against numpy on the whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import read_index
from graphshare.formats.params.statistics import Statistics, count_in_bins, measure_array

DTYPES = ("float32", "float64", "float16", "int8", "uint8", "int32", "int64", "bool")


def measured(path: Path, array: NDArray[np.generic]) -> Statistics:
    np.savez_compressed(path, w=array)
    file = read_index(path)
    with ArrayReader(file) as reader:
        return measure_array(reader, file.records[0])


@pytest.mark.parametrize("dtype", DTYPES)
def test_statistics_are_numpys(dtype: str, tmp_path: Path) -> None:
    # More than one piece
    array = (np.random.default_rng(1).normal(3, 40, (3, 211, 977)) % 100).astype(dtype)
    found = measured(tmp_path / "a.npz", array)
    wide = array.astype("float64")
    assert (found.min, found.max, found.zeros, found.count) == (
        wide.min(),
        wide.max(),
        int((wide == 0).sum()),
        wide.size,
    )
    assert (found.mean, found.std, found.norm) == pytest.approx(
        (wide.mean(), wide.std(), np.linalg.norm(wide)), rel=1e-9
    )


def test_what_is_not_finite_is_counted_apart(tmp_path: Path) -> None:
    found = measured(tmp_path / "a.npz", np.array([1, np.nan, np.inf, -np.inf, 3], "float32"))
    assert (found.nans, found.infinities, found.min, found.max, found.mean) == (1, 2, 1, 3, 2)
    empty = measured(tmp_path / "a.npz", np.full(3, np.nan))
    assert (empty.nans, empty.min, empty.mean, empty.norm) == (3, None, None, None)
    assert measured(tmp_path / "a.npz", np.zeros((0, 3))).count == 0


@pytest.mark.filterwarnings("error")
def test_any_bits_are_measured_without_a_warning(tmp_path: Path) -> None:
    signalling = np.array([0x7FA00000, 0x3F800000], "uint32").view("float32")
    assert measured(tmp_path / "a.npz", signalling).nans == 1
    huge = measured(tmp_path / "a.npz", np.array([1e308, 1e308, -1e308]))
    assert (huge.max, huge.norm) == (1e308, None)


def counted(path: Path, array: NDArray[np.generic], bins: int) -> list[int]:
    np.savez_compressed(path, w=array)
    file = read_index(path)
    with ArrayReader(file) as reader:
        return count_in_bins(reader, file.records[0], measure_array(reader, file.records[0]), bins)


@pytest.mark.parametrize("dtype", DTYPES)
def test_counts_in_bins_are_numpys(dtype: str, tmp_path: Path) -> None:
    # More than one piece
    array = (np.random.default_rng(1).normal(3, 40, (3, 211, 977)) % 100).astype(dtype)
    array[0, :9] = 0
    assert (
        counted(tmp_path / "a.npz", array, 7)
        == np.histogram(array.astype("float64"), 7)[0].tolist()
    )


def test_bins_are_of_the_finite_numbers_and_none_where_all_are_the_same(tmp_path: Path) -> None:
    assert counted(tmp_path / "a.npz", np.array([1, np.nan, np.inf, -np.inf, 3], "float32"), 2) == [
        1,
        1,
    ]
    assert counted(tmp_path / "a.npz", np.full(3, 2.0), 4) == []
    # A range that is no float
    assert counted(tmp_path / "a.npz", np.array([-1.7e308, 1.7e308]), 4) == []
    assert counted(tmp_path / "a.npz", np.zeros((0, 3)), 4) == []
