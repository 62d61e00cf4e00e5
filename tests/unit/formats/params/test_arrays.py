"""Arrays decoded from their records: by value, dense or sparse, never writable through the map."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphshare.errors import InputError
from graphshare.formats.params import arrays
from graphshare.formats.params.arrays import (
    ArrayReader,
    SparseArray,
    _find_misfit,
    have_equal_bytes,
    have_equal_values,
    read_array,
)
from graphshare.formats.params.format import read_index
from tests import params_bytes as build


@pytest.fixture
def written(tmp_path: Path):
    def write(*records: bytes):
        path = tmp_path / "x.params"
        path.write_bytes(build.container(records))
        return read_index(path)

    return write


@pytest.mark.parametrize("rows", [slice(0, 1), slice(1, 3), slice(2, 9), slice(3, 3), slice(None)])
@pytest.mark.parametrize("suffix", ["params", "npz"])
def test_some_rows_are_read_alone(rows: slice, suffix: str, written, tmp_path: Path) -> None:
    whole = np.arange(3 * 2 * 4, dtype="f").reshape(3, 2, 4)
    if suffix == "params":
        file = written(build.dense((1,), "int8"), build.dense(whole.shape, data=whole.tobytes()))
    else:
        np.savez(tmp_path / "x.npz", w=whole)
        file = read_index(tmp_path / "x.npz")
    with ArrayReader(file) as reader:
        read = reader.read(file.records[-1], rows)
    np.testing.assert_array_equal(read, whole[rows])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_rows_have_the_size_of_their_dtype(dtype: str, written) -> None:
    file = written(build.dense((4, 2), dtype, data=bytes(range(16))))
    with ArrayReader(file) as reader:
        np.testing.assert_array_equal(
            reader.read(file.records[0], slice(1, 3)), read_array(file, file.records[0])[1:3]
        )


def test_a_dense_array_is_a_read_only_view_that_outlives_the_reader(written) -> None:
    file = written(
        build.dense((1,), "int8"), build.dense((2, 3), data=build.floats(1, 2, 3, 4, 5, 6))
    )
    array = read_array(file, file.records[1])
    np.testing.assert_array_equal(array, np.array([[1, 2, 3], [4, 5, 6]], "f4"), strict=True)
    assert not array.flags.writeable
    assert not array.flags.owndata


@pytest.mark.parametrize("copies", [1, 40])
def test_arrays_that_are_read_together_are_the_same(written, copies: int) -> None:
    records = [
        build.dense((n, 3), dtype)
        for dtype in ("float32", "int8", "float64", "bfloat16")
        for n in (0, 1, 5, 100)
    ]
    file = written(
        *records * copies, build.csr((3, 4), [0, 1, 1, 3], [2, 0, 3], build.floats(5, 6, 7))
    )
    with ArrayReader(file) as single, ArrayReader(file, together=True) as together:
        arrays = [together.read(record) for record in file.records]
        for array, record in zip(arrays, file.records, strict=True):
            np.testing.assert_array_equal(array, single.read(record), strict=True)
    stored = [
        array
        for array, record in zip(arrays, file.records, strict=True)
        if record.dtype == "float32" and array.size
    ]
    assert not any(array.flags.writeable for array in stored if array.shape != (3, 4))
    assert len({array.__array_interface__["data"][0] for array in stored}) == len(stored)


@given(
    st.binary(min_size=1, max_size=60),
    st.lists(st.integers(0, 60)),
    st.lists(st.integers(0, 60)),
    st.booleans(),
)
def test_bytes_are_equal_wherever_their_pieces_end(
    data: bytes, cuts: list[int], others: list[int], view: bool
) -> None:
    def cut(data: bytes, at: list[int]) -> list[bytes | memoryview]:
        places = [0, *sorted(at), len(data)]
        pieces = [data[start:stop] for start, stop in pairwise(places)]
        return [memoryview(piece) for piece in pieces] if view else pieces  # type: ignore[list-item]

    assert have_equal_bytes(cut(data, cuts), cut(data, others))
    for changed in (data + b"x", data[:-1], data[:-1] + bytes([data[-1] ^ 1]), b""):
        assert not have_equal_bytes(cut(data, cuts), cut(changed, others))
        assert not have_equal_bytes(cut(changed, others), cut(data, cuts))


def test_bfloat16_is_read_by_value(written) -> None:
    file = written(
        build.dense((5,), "bfloat16", struct.pack("<5H", 0x3F80, 0xC000, 0x7F80, 0x0001, 0x7FC0))
    )
    expected = np.array([1, -2, np.inf, 9.183549615799121e-41, np.nan], "f4")
    np.testing.assert_array_equal(read_array(file, file.records[0]), expected, strict=True)


@pytest.mark.parametrize(
    ("record", "shape", "dtype"),
    [
        (build.dense((), "int64", magic=build.V3), (), "int64"),
        (build.dense((0, 3)), (0, 3), "float32"),
    ]
    + [(build.dense((2,), dtype), (2,), dtype) for dtype in build.FLAGS if dtype != "bfloat16"],
)
def test_shapes_and_dtypes(written, record: bytes, shape: tuple[int, ...], dtype: str) -> None:
    file = written(build.dense((1,)), record)
    array = read_array(file, file.records[1])
    assert (array.shape, array.dtype) == (shape, np.dtype(dtype))
    assert array.tobytes() == build.pattern(array.nbytes)


def test_sparse_arrays_dense_and_as_stored(written) -> None:
    file = written(
        build.row_sparse((4, 2), [3, 1], build.floats(1, 2, 3, 4)),
        build.csr((3, 4), [0, 1, 1, 3], [2, 0, 3], build.floats(5, 6, 7)),
        build.row_sparse((2, 2), [], b""),
        build.csr((2, 2), [0, 0, 0], [], b""),
    )
    with ArrayReader(file) as reader:
        rows, matrix, no_rows, no_values = map(reader.read, file.records)
        stored = reader.read_sparse(file.records[1])
        assert b"".join(reader.chunks(file.records[0])) == rows.tobytes()
    np.testing.assert_array_equal(rows, [[0, 0], [3, 4], [0, 0], [1, 2]])
    np.testing.assert_array_equal(matrix, [[0, 0, 5, 0], [0, 0, 0, 0], [6, 0, 0, 7]])
    assert not no_rows.any()
    assert not no_values.any()
    assert (stored.storage, stored.shape, list(stored.indptr), list(stored.indices)) == (
        "csr",
        (3, 4),
        [0, 1, 1, 3],
        [2, 0, 3],
    )


def test_a_sparse_bfloat16_array_by_value(written) -> None:
    file = written(build.row_sparse((2, 1), [1], struct.pack("<H", 0x3F80), "bfloat16"))
    np.testing.assert_array_equal(
        read_array(file, file.records[0]), np.array([[0], [1]], "f4"), strict=True
    )
    with ArrayReader(file) as reader:
        assert reader.read_sparse(file.records[0]).values.dtype == np.float32
        assert b"".join(reader.chunks(file.records[0])) == b"\0\0\x80\x3f"


@pytest.mark.parametrize(
    "record",
    [
        build.row_sparse((4, 2), [4, 1], build.floats(1, 2, 3, 4)),
        build.row_sparse((4, 2), [-1, 1], build.floats(1, 2, 3, 4)),
        build.csr((3, 4), [0, 1, 1, 2], [2, 0, 3], build.floats(5, 6, 7)),
        build.csr((3, 4), [0, 2, 1, 3], [2, 0, 3], build.floats(5, 6, 7)),
        build.csr((3, 4), [1, 1, 1, 3], [2, 0, 3], build.floats(5, 6, 7)),
        build.csr((3, 4), [0, 1, 3], [2, 0, 3], build.floats(5, 6, 7)),
        build.csr((3, 4), [0, 1, 1, 3], [2, 0, 4], build.floats(5, 6, 7)),
        build.csr((3,), [0, 1, 1, 3], [2, 0, 3], build.floats(5, 6, 7)),
    ],
)
def test_indices_that_do_not_fit_the_shape_are_input_errors(written, record: bytes) -> None:
    file = written(record)
    with pytest.raises(InputError, match=r"record 0"):
        read_array(file, file.records[0])


def test_what_cannot_be_read(written) -> None:
    file = written(
        build.never_filled(),
        build.dense((1,) * 100),
        build.row_sparse((1 << 60, 1), [1], build.floats(1)),
    )
    for record, message in zip(
        file.records, ("never filled", "cannot be held", "cannot be held"), strict=True
    ):
        with pytest.raises(InputError, match=message):
            read_array(file, record)


def test_a_file_that_changed_since_it_was_indexed(written) -> None:
    file = written(build.dense((1,)))
    Path(file.path).write_bytes(b"")
    with pytest.raises(InputError, match="changed"):
        read_array(file, file.records[0])


def test_an_npz_that_changed_since_it_was_indexed(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", a=np.ones(2))
    file = read_index(tmp_path / "x.npz")
    np.savez(tmp_path / "x.npz", a=np.ones(3))
    with pytest.raises(InputError, match="changed"):
        read_array(file, file.records[0])


@pytest.mark.parametrize(
    ("shape", "values", "indices", "indptr", "misfit"),
    [
        ((4, 2), (2, 2), [0, 3], None, ""),
        ((4, 2), (0, 2), [], None, ""),
        ((4, 2), (1, 2), [0.0], None, "has indices that are not one row of integers"),
        ((4, 2), (1, 2), [[0]], None, "has indices that are not one row of integers"),
        ((4, 2), (1, 3), [0], None, "has stored rows of shape (1, 3) for 1 index and shape (4, 2)"),
        (
            (4, 2),
            (1, 2),
            [0, 1],
            None,
            "has stored rows of shape (1, 2) for 2 indices and shape (4, 2)",
        ),
        ((4, 2), (1, 2), [4], None, "has an index outside of 0 to 3"),
        ((4, 2), (1, 2), [-1], None, "has an index outside of 0 to 3"),
        ((2, 4), (3,), [0, 3, 0], [0, 2, 3], ""),
        ((2, 4), (0,), [], [0, 0, 0], ""),
        ((2, 4), (1,), [0], [0, 1], "has row pointers of shape (2,) for shape (2, 4)"),
        ((2, 4, 1), (1,), [0], [0, 1, 1], "has row pointers of shape (3,) for shape (2, 4, 1)"),
        ((2, 4), (1,), [0], [0.0, 1.0, 1.0], "has row pointers of shape (3,) for shape (2, 4)"),
        ((2, 4), (2,), [0], [0, 1, 1], "has 2 values for 1 column number"),
        (
            (2, 4),
            (1,),
            [0],
            [1, 1, 1],
            "has row pointers that do not rise from 0 to the number of values",
        ),
        (
            (2, 4),
            (1,),
            [0],
            [0, 0, 0],
            "has row pointers that do not rise from 0 to the number of values",
        ),
        (
            (2, 4),
            (1,),
            [0],
            [0, 2, 1],
            "has row pointers that do not rise from 0 to the number of values",
        ),
        ((2, 4), (1,), [4], [0, 1, 1], "has an index outside of 0 to 3"),
        ((2, 4), (1,), [-1], [0, 1, 1], "has an index outside of 0 to 3"),
    ],
)
def test_indices_that_do_not_fit_a_sparse_array_are_named(
    shape: tuple[int, ...],
    values: tuple[int, ...],
    indices: list[float],
    indptr: list[float] | None,
    misfit: str,
) -> None:
    places, pointers = (
        None if x is None else np.array(x, None if x else int) for x in (indices, indptr)
    )
    storage = "row_sparse" if indptr is None else "csr"
    assert (
        _find_misfit(SparseArray(storage, shape, np.ones(values, "f4"), places, pointers)) == misfit
    )  # type: ignore[arg-type]


def test_only_decoded_arrays_count_towards_the_limit_of_memory(
    written, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[tuple[int, int]] = []
    monkeypatch.setattr(
        arrays, "describe_excess", lambda size, so_far=0: taken.append((size, so_far)) or ""
    )
    rows = build.row_sparse((4, 2), [1], build.floats(1, 2))
    file = written(build.dense((3,)), rows, build.dense((5,)), rows)
    with ArrayReader(file) as reader:
        for record in file.records:
            reader.read(record)
    assert taken == [(32, 0), (32, 32)]


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ({"a": np.ones(2)}, {"a": np.ones(2)}, True),
        ({"a": np.ones(2)}, {"a": np.ones(2, "float32")}, False),
        ({"a": np.array([np.nan])}, {"a": np.array([np.nan])}, True),
        ({"a": np.array([1, 2])}, {"a": np.array([1, 3])}, False),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 1}, False),
        ([1, np.ones(1)], [1, np.ones(1)], True),
        ([1], [1, 2], False),
        ([np.ones(1)], [np.zeros(1)], False),
        (float("nan"), float("nan"), True),
        (float("nan"), 1.0, False),
        (1.0, float("nan"), False),
        (1.0, 1.0, True),
        (np.ones(1), 1.0, False),
        ([1.0, 1.0], np.ones(2), False),
        (np.array(["a"]), np.array(["a"]), True),
    ],
)
def test_values_are_equal_in_any_container(left: object, right: object, expected: bool) -> None:
    assert have_equal_values(left, right) is expected
