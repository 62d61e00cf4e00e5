"""``.safetensors`` against the format's own library, and its header held against the file."""

from __future__ import annotations

import io
import json
import struct
from pathlib import Path

import numpy as np
import pytest

from graphshare.errors import InputError
from graphshare.files.open_source import open_source
from graphshare.formats.params.arrays import ArrayReader
from graphshare.formats.params.format import WriteOptions, read_index
from graphshare.formats.params.records import Record
from graphshare.formats.params.safetensors import Safetensors
from tests import params_bytes as build


@pytest.fixture
def index(tmp_path: Path):
    def read(content: bytes):
        path = tmp_path / "x.safetensors"
        path.write_bytes(content)
        with open_source(path) as source:
            return Safetensors().index(source)

    return read


def planned(shapes: dict[str, tuple[tuple[int, ...], str]]) -> list[tuple[Record, str]]:
    return [
        (Record(key, shape, dtype, "V2", number, 0, 0, build.count_bytes(shape, dtype)), key)
        for number, (key, (shape, dtype)) in enumerate(shapes.items())
    ]


def chunks(record: Record):
    return [build.pattern(record.data_size, record.offset)]


SHAPES = {
    "arg:w": ((2, 3), "float32"),
    "flags": ((3,), "bool"),
    "": ((), "int64"),
    "层": ((0, 4), "float64"),
    "aux:m": ((5,), "bfloat16"),
    "h": ((3,), "float16"),
    'quote"\\\n\0': ((2,), "uint8"),
}


def test_the_formats_own_library_reads_what_is_written(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors")
    shapes = {key: value for key, value in SHAPES.items() if value[1] != "bfloat16"}
    path = tmp_path / "x.safetensors"
    with open(path, "wb") as out:
        Safetensors().write(planned(shapes), out, chunks, WriteOptions(metadata={"format": "np"}))
    with library.safe_open(str(path), "np") as file:
        assert set(file.keys()) == set(shapes)
        assert file.metadata() == {"format": "np"}
        for record, key in planned(shapes):
            array = file.get_tensor(key)
            assert (array.shape, array.dtype) == (record.shape, np.dtype(record.dtype))
            assert array.tobytes() == build.pattern(record.data_size, record.offset)


def test_the_index_of_what_the_formats_own_library_writes(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    arrays = {
        "b": np.arange(6, dtype="f4").reshape(2, 3),
        "a": np.ones(3, "i8"),
        "s": np.array(2, "u1"),
        "z": np.ones((0, 2)),
    }
    path = tmp_path / "x.safetensors"
    library.save_file(arrays, path, metadata={"k": "v"})
    file = read_index(path)
    assert file.metadata == {"k": "v"}
    with ArrayReader(file) as reader:
        loaded = {record.key: reader.read(record) for record in file.records}
    assert set(loaded) == set(arrays)
    for key, array in arrays.items():
        np.testing.assert_array_equal(loaded[key], array, strict=True)


def test_the_order_of_the_plan_survives_and_every_array_is_aligned(index) -> None:
    out = io.BytesIO()
    Safetensors().write(planned(SHAPES), out, chunks, WriteOptions())
    file = index(out.getvalue())
    assert [record.key for record in file.records] == list(SHAPES)
    for record, (wanted, _) in zip(file.records, planned(SHAPES), strict=True):
        assert (record.shape, record.dtype) == (wanted.shape, wanted.dtype)
        assert (
            record.data_offset % (record.data_size // max(1, int(np.prod(record.shape))) or 1) == 0
        )
        start = record.data_offset
        assert out.getvalue()[start : start + record.data_size] == build.pattern(
            wanted.data_size, wanted.offset
        )


def test_an_empty_file(index) -> None:
    out = io.BytesIO()
    Safetensors().write([], out, chunks, WriteOptions())
    assert index(out.getvalue()).records == ()


def entry(dtype: str = "F32", shape: object = (2,), offsets: object = (0, 8)) -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x02\0\0", "ends inside the header's length"),
        (
            struct.pack("<Q", 1 << 60) + b"{}",
            "ends inside the header: expected 1,152,921,504,606,846,976 bytes",
        ),
        (struct.pack("<Q", 3) + b"{]}", "has a malformed header"),
        (struct.pack("<Q", 2) + b"[]", "has a malformed header"),
        (struct.pack("<Q", 50_000) + b'{"a":' + b"[" * 49_990 + b"     ", "has a malformed header"),
        (build.safetensors({"a": {"dtype": "F32"}}), "has a malformed header"),
        (build.safetensors({"__metadata__": {"a": 1}}), "has a malformed header"),
        (build.safetensors({"a": entry(offsets=(0, 1 << 70))}), "has a malformed header"),
        (struct.pack("<Q", 5005) + b'{"a":' + b"9" * 4999 + b"}", "has a malformed header"),
        (
            build.safetensors({"a": entry(dtype="F8_E4M3", offsets=(0, 2))}, bytes(2)),
            "dtype 'F8_E4M3'",
        ),
        (
            build.safetensors({"a": entry()}, bytes(7)),
            "has 7 bytes of data; its header describes 8",
        ),
        (build.safetensors({"a": entry()}, bytes(9)), "has 9 bytes of data"),
        (
            build.safetensors({"a": entry(shape=(3,))}, bytes(8)),
            "not what its shape and dtype need",
        ),
        (
            build.safetensors({"a": entry(shape=(-2,), offsets=(0, 8))}, bytes(8)),
            "has a malformed header",
        ),
        (build.safetensors({"a": entry(offsets=(8, 0))}, b""), "not what its shape"),
        (
            build.safetensors({"a": entry(), "b": entry()}, bytes(8)),
            "starts at byte 0 of the data, expected byte 8",
        ),
        (
            build.safetensors({"a": entry(offsets=(4, 12))}, bytes(12)),
            "starts at byte 4 of the data, expected byte 0",
        ),
        (build.safetensors({"a": entry(shape=[1 << 62] * 4)}, bytes(8)), "not what its shape"),
        (
            build.safetensors({"a": entry(shape=[1] * 300, offsets=(0, 4))}, bytes(4)),
            "has rank 300",
        ),
    ],
)
def test_headers_that_do_not_fit_their_file(index, content: bytes, message: str) -> None:
    with pytest.raises(InputError) as caught:
        index(content)
    assert message in str(caught.value)
    assert all(fault.where.endswith("x.safetensors") for fault in caught.value.faults)


def test_every_cut_of_a_file_is_refused(index) -> None:
    content = build.safetensors({"a": entry(), "b": entry(offsets=(8, 16))}, bytes(16))
    assert len(index(content).records) == 2
    for end in range(len(content)):
        with pytest.raises(InputError):
            index(content[:end])


def test_what_has_no_place_in_a_safetensors_file() -> None:
    record = Record("a", (1,), "float32", "V2", 0, 0, 0, 4)
    assert Safetensors().refuse(record, "a\0", WriteOptions()) is None
    for key in ("__metadata__", "\udcff"):
        assert Safetensors().refuse(record, key, WriteOptions()) is not None


def test_the_header_is_json_padded_to_eight_bytes(tmp_path: Path) -> None:
    out = io.BytesIO()
    Safetensors().write(planned({"a": ((1,), "int8")}), out, chunks, WriteOptions())
    (length,) = struct.unpack_from("<Q", out.getvalue())
    assert length % 8 == 0
    assert json.loads(out.getvalue()[8 : 8 + length]) == {
        "a": {"dtype": "I8", "shape": [1], "data_offsets": [0, 1]}
    }
