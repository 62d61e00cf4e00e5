"""Sparse arrays are compared and measured as numpy does it with the dense arrays that they stand for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from graphshare.formats.params.arrays import ArrayReader, read_array
from graphshare.formats.params.comparison import Distance, compare_records
from graphshare.formats.params.format import read_index
from graphshare.formats.params.statistics import count_in_bins, measure_array
from tests import params_bytes as build

ROWS = {
    "nothing": build.row_sparse((4, 2), [], b""),
    "one row": build.row_sparse((4, 2), [1], build.floats(1, 2)),
    "the last row": build.row_sparse((4, 2), [3], build.floats(1, 2)),
    "rows in order": build.row_sparse((4, 2), [0, 2, 3], build.floats(1, 2, 3, 4, 5, 6)),
    "rows in another order": build.row_sparse((4, 2), [3, 0, 2], build.floats(5, 6, 1, 2, 3, 4)),
    "zeros that are stored": build.row_sparse((4, 2), [0, 1], build.floats(0, 0, 1, 0)),
    "a row twice": build.row_sparse((4, 2), [1, 1], build.floats(8, 9, 1, 2)),
    "a NaN": build.row_sparse((4, 2), [2], build.floats(float("nan"), 1)),
}
CELLS = {
    "nothing": build.csr((3, 4), [0, 0, 0, 0], [], b""),
    "one in each row": build.csr((3, 4), [0, 1, 2, 3], [0, 1, 3], build.floats(1, 2, 3)),
    "one in another column": build.csr((3, 4), [0, 1, 2, 3], [0, 2, 3], build.floats(1, 2, 3)),
    "the corners": build.csr((3, 4), [0, 2, 2, 4], [0, 3, 0, 3], build.floats(1, 2, 3, 4)),
    "columns in another order": build.csr(
        (3, 4), [0, 2, 2, 4], [3, 0, 3, 0], build.floats(2, 1, 4, 3)
    ),
    "an infinity": build.csr((3, 4), [0, 1, 1, 1], [1], build.floats(float("inf"))),
}
PAIRS = [*product(ROWS.items(), repeat=2), *product(CELLS.items(), repeat=2)]


@pytest.mark.parametrize(("left", "right"), PAIRS, ids=[f"{a[0]} and {b[0]}" for a, b in PAIRS])
def test_sparse_arrays_are_as_far_apart_as_their_dense_forms(
    left: tuple[str, bytes], right: tuple[str, bytes], tmp_path: Path
) -> None:
    path = tmp_path / "a.params"
    path.write_bytes(build.container([left[1], right[1]], ["a", "b"]))
    file = read_index(path)
    with ArrayReader(file) as reader:
        found = compare_records(reader, file.records[0], reader, file.records[1])
    a, b = (np.array(read_array(file, record)) for record in file.records)
    differs = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    finite = bool(np.isfinite(a[differs]).all() and np.isfinite(b[differs]).all())
    most = float(np.abs(a[differs] - b[differs]).max()) if differs.any() and finite else None
    assert found == Distance(a.size, int(differs.sum()), most if differs.any() else 0.0)


@pytest.mark.parametrize("record", [*ROWS.values(), *CELLS.values()], ids=[*ROWS, *CELLS])
@pytest.mark.parametrize("is_reference", [True, False])
def test_a_sparse_array_is_made_dense_to_be_compared_with_a_dense_one(
    record: bytes, is_reference: bool, tmp_path: Path
) -> None:
    path = tmp_path / "a.params"
    path.write_bytes(build.container([record], ["w"]))
    file = read_index(path)
    np.savez(tmp_path / "b.npz", w=read_array(file, file.records[0]))
    dense = read_index(tmp_path / "b.npz")
    pair = (dense, file) if is_reference else (file, dense)
    with ArrayReader(pair[0]) as x, ArrayReader(pair[1]) as y:
        found = compare_records(x, pair[0].records[0], y, pair[1].records[0])
    assert found
    assert found == Distance(8 if record in ROWS.values() else 12, 0, 0.0, densified=True)


@pytest.mark.parametrize(
    ("name", "stored"),
    [
        ("nothing", 0),
        ("one row", 2),
        ("the last row", 2),
        ("rows in order", 6),
        ("zeros that are stored", 4),
        ("a NaN", 2),
    ],
)
def test_the_zeros_that_a_sparse_array_does_not_store_are_measured(
    name: str, stored: int, tmp_path: Path
) -> None:
    path = tmp_path / "a.params"
    path.write_bytes(build.container([ROWS[name]], ["w"]))
    file = read_index(path)
    with ArrayReader(file) as reader:
        found = measure_array(reader, file.records[0])
        assert count_in_bins(reader, file.records[0], found, 4) == []
    array = np.array(read_array(file, file.records[0]), "float64")
    finite = array[np.isfinite(array)]
    assert (found.count, found.zeros, found.nans, found.infinities) == (
        8,
        int((array == 0).sum()),
        int(np.isnan(array).sum()),
        0,
    )
    assert (found.min, found.max) == (finite.min(), finite.max())
    assert (found.mean, found.std, found.norm) == pytest.approx(
        (finite.mean(), finite.std(), np.linalg.norm(finite))
    )
    assert found.stored == stored


def test_a_full_sparse_array_has_no_other_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.params"
    path.write_bytes(build.container([build.row_sparse((2, 1), [0, 1], build.floats(3, 5))], ["w"]))
    file = read_index(path)
    with ArrayReader(file) as reader:
        found = measure_array(reader, file.records[0])
    assert (found.count, found.stored, found.zeros, found.min, found.max, found.mean) == (
        2,
        2,
        0,
        3.0,
        5.0,
        4.0,
    )
