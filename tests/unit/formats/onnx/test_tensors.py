"""Tensors of ONNX files: sizes by dtype, where data is, what is refused, and which are weights."""

from __future__ import annotations

import math
import os
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

from graphshare.files.open_source import open_source
from graphshare.formats.onnx.protobuf import WireError, encode_field, scan
from graphshare.formats.onnx.stored import MemoryFile, OnnxFile, Span, TensorPlace
from graphshare.formats.onnx.tensors import (
    check_location,
    data_size,
    is_weight,
    locate_sparse,
    locate_tensor,
    pack_integers,
    read_elements,
)
from graphshare.ir.onnx import dtype_code, dtype_name

FLOATING = {1, 10, 11, 14, 15, 16, 17, 18, 19, 20, 23, 24}
BITS = {
    1: 32,
    2: 8,
    3: 8,
    4: 16,
    5: 16,
    6: 32,
    7: 64,
    9: 8,
    10: 16,
    11: 64,
    12: 32,
    13: 64,
    14: 64,
    15: 128,
    16: 16,
}
BITS |= {17: 8, 18: 8, 19: 8, 20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2}


@pytest.mark.parametrize("code", range(27))
def test_sizes_names_and_weights_of_dtypes(code: int) -> None:
    bits = BITS.get(code)
    for shape in ((3,), (4,), (5,), (), (0,), (2, 3)):
        count = math.prod(shape)
        assert data_size(TensorPlace(shape, code)) == (
            None if bits is None else math.ceil(count * bits / 8)
        )
    least = 8 if code in FLOATING else 16
    assert (is_weight((least - 1,), code), is_weight((least // 2, 2), code)) == (False, True)
    name = dtype_name(code)
    assert name == f"dtype {code}" or dtype_code(name) == code
    if code in TensorProto.DataType.values() and code:
        assert name == {"float": "float32", "double": "float64"}.get(
            own := TensorProto.DataType.Name(code).lower(), own
        )
    assert dtype_code("no dtype") == 0


def locate(data: bytes) -> TensorPlace:
    return locate_tensor(MemoryFile(b"x" + data + b"x"), 1, len(data) + 1)


DIMS = b"\x08\x02\x10\x01"
EIGHT = b"\0" * 8


@pytest.mark.parametrize(
    ("data", "place"),
    [
        (b"", TensorPlace((), 0, 0, 1, 1, 0)),
        (DIMS + b"\x4a\x08" + EIGHT, TensorPlace((2,), 1, 9, 7, 15, 1)),
        (b"\x0a\x02\x03\x04" + b"\x10\x06", TensorPlace((3, 4), 6, 0, 7, 7, 0)),
        (DIMS + b"\x22\x08" + EIGHT, TensorPlace((2,), 1, 4, 7, 15, 1)),
        (DIMS + b"\x25\0\0\0\0" * 2, TensorPlace((2,), 1, 4, 5, 15, 2)),
        (b"\x08\x02\x10\x03\x28\x07\x28\x08", TensorPlace((2,), 3, 5, 5, 9, 2)),
        (b"\x08\x02\x10\x03\x28\x07\x2a\x01\x08", TensorPlace((2,), 3, 5, 5, 10, 2)),
        (b"\x08\x02\x10\x03\x38\x07\x28\x07\x28\x08", TensorPlace((2,), 3, 5, 7, 11, 2)),
        (b"\x08\x01\x10\x08\x32\x01a\x32\x01b", TensorPlace((1,), 8, 6, 7, 11, 2)),
        (b"\x08\x01\x10\x0d\x58\x01", TensorPlace((1,), 13, 11, 5, 7, 1)),
        (b"\x08\x01\x10\x0b\x52\x08" + EIGHT, TensorPlace((1,), 11, 10, 7, 15, 1)),
        (b"\x10\x63\x4a\x03abc", TensorPlace((), 99, 9, 5, 8, 1)),
        (b"\x0a\xff\x01" + b"\x01" * 255, TensorPlace((1,) * 255, 0, 0, 259, 259, 0)),
        (b"\x08\x80\x80\x80\x80\x80\x80\x80\x80\x40", TensorPlace((1 << 62,), 0, 0, 11, 11, 0)),
        (b"\x08\x00\x10\x01\x70\x00", TensorPlace((0,), 1, 0, 7, 7, 0)),
    ],
)
def test_the_place_of_data(data: bytes, place: TensorPlace) -> None:
    assert locate(data) == place


@pytest.mark.parametrize(
    ("data", "message", "position"),
    [
        (
            DIMS + b"\x4a\x07" + EIGHT[:7],
            "a tensor has 7 bytes of data; its shape and dtype need 8",
            1,
        ),
        (DIMS + b"\x4a\x01\0", "a tensor has 1 byte of data; its shape and dtype need 8", 1),
        (
            DIMS + b"\x4a\x04\0\0\0\0\x4a\x04\0\0\0\0",
            "field 9 occurs twice in a message that has it once",
            11,
        ),
        (b"\x0a\x80\x02" + b"\x01" * 256, "a tensor has more than 255 dimensions", 1),
        (b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "a tensor has the shape (-1,)", 1),
        (
            b"\x08\x81\x80\x80\x80\x80\x80\x80\x80\x40",
            f"a tensor has the shape ({(1 << 62) + 1},), which no memory holds",
            1,
        ),
        (b"\x48\x01", "the data of a tensor has the wire type 0, expected 2", 1),
        (b"\x30\x01", "the data of a tensor has the wire type 0, expected 2", 1),
        (b"\x68\x01", "a pair of texts has the wire type 0, expected 2", 1),
        (b"\x10\x01\x10\x01", "field 2 occurs twice in a message that has it once", 3),
        (b"\x42\x01a\x42\x01a", "field 8 occurs twice in a message that has it once", 4),
    ],
)
def test_a_damaged_tensor_is_refused(data: bytes, message: str, position: int) -> None:
    with pytest.raises(WireError) as raised:
        locate(data)
    assert (str(raised.value), raised.value.position) == (message, position)


def test_elements_are_read_however_they_are_stored() -> None:
    pieces = {
        DIMS + b"\x4a\x08abcdefgh": b"abcdefgh",
        DIMS + b"\x22\x04abcd\x25efgh": b"abcdefgh",
        b"\x08\x01\x10\x0b\x52\x08abcdefgh": b"abcdefgh",
        b"\x08\x02\x10\x03\x28\x07\x28\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01": b"\x07\xff",
        b"\x08\x01\x10\x04\x28\xac\x02": b"\x2c\x01",
        b"\x08\x01\x10\x07\x38\xac\x02": b"\x2c\x01" + bytes(6),
        b"\x08\x01\x10\x0c\x58\xac\x02": b"\x2c\x01" + bytes(2),
        b"\x08\x02\x10\x16\x28\x2c": b"\x2c",
        b"\x08\x02\x10\x08\x32\x02ab\x32\x01c": b"\x02"
        + bytes(7)
        + b"ab"
        + b"\x01"
        + bytes(7)
        + b"c",
    }
    for data, elements in pieces.items():
        span = Span(MemoryFile(b"x" + data), 1, len(data) + 1)
        assert (
            b"".join(read_elements(span, locate_tensor(span.file, span.start, span.end)))
            == elements
        )
    (field,) = scan(b"\x28\x80\x01", 0, 3)
    assert pack_integers(b"\x28\x80\x01", field, 1) == b"\x80"


def external(**pairs: str) -> bytes:
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in pairs.items():
        tensor.external_data.add(key=key, value=value)
    return bytes(tensor.SerializeToString())


def locate_in(folder: Path, data: bytes, *, seeks_data: bool = True) -> TensorPlace:
    path = folder / "model.onnx"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        file = OnnxFile(source, seeks_data=seeks_data)
        return locate_tensor(file, 0, file.size)


def test_data_in_another_file_is_located_and_read(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(range(16)))
    path = str(tmp_path / "w.bin")
    for offset in (0, 8):
        pairs = {"location": "w.bin"} | ({"offset": str(offset), "length": "8"} if offset else {})
        place = locate_in(tmp_path, external(**pairs))
        assert place == TensorPlace((2,), 1, 13, offset, offset + 8, 1, path, tuple(pairs.items()))
        assert b"".join(read_elements(Span(MemoryFile(b""), 0, 0), place)) == bytes(
            range(offset, offset + 8)
        )
    assert locate_in(tmp_path, external(location="w.bin", offset="9"), seeks_data=False).start == 9


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (external(location="w.bin", offset="-1"), "external data is at byte -1 of 'w.bin'"),
        (
            external(location="w.bin", length="9"),
            "external data in 'w.bin' has 9 bytes; its shape and dtype need 8",
        ),
        (
            external(location="w.bin", length="nine"),
            "external data in 'w.bin' has an offset or length that is not a number",
        ),
        (
            external(location="w.bin") + encode_field(13, b"\x0a\x08location\x12\x01w"),
            "external data is described twice",
        ),
        (
            external(location="w.bin").replace(b"\x10\x01", b"\x10\x08"),
            "external data in 'w.bin' has the dtype string",
        ),
        (
            external(location="w.bin/v"),
            "external data is in 'w.bin/v', which cannot be read: Not a directory",
        ),
        (external(location="folder"), "external data is in 'folder', which is not a regular file"),
        (
            external(location="w.bin") + encode_field(13, b"\x0a\x01k" * 2),
            "field 1 occurs twice in a message that has it once",
        ),
        (
            external(location="w.bin") + encode_field(13, b"\x08\x01"),
            "a pair of texts has the wire type 0, expected 2",
        ),
    ],
)
def test_data_that_is_not_in_the_other_file_is_refused(
    data: bytes, message: str, tmp_path: Path
) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(16))
    (tmp_path / "folder").mkdir()
    with pytest.raises(WireError) as raised:
        locate_in(tmp_path, data)
    assert str(raised.value) == message


def test_data_in_a_file_that_does_not_exist_has_a_place(tmp_path: Path) -> None:
    place = locate_in(tmp_path, external(location="v.bin", offset="9"))
    assert (os.path.basename(place.path), place.start, place.end) == ("v.bin", 9, 17)


def test_data_must_be_in_the_directory_of_the_model(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"")
    with open_source(str(model)) as source:
        file = OnnxFile(source, seeks_data=False)
    for location in ("w.bin", "a/w.bin", "a\\w.bin", "a/b:c", "..a"):
        assert check_location(file, location, 0) == os.path.join(tmp_path, location)
    for location in (
        "",
        "a\0b",
        "/w.bin",
        "../w.bin",
        "a/../w.bin",
        "a\\..\\w.bin",
        "c:w.bin",
        "c:/w.bin",
    ):
        with pytest.raises(WireError) as raised:
            check_location(file, location, 7)
        assert (
            str(raised.value)
            == f"external data is in {location!r}, which is not in the model's directory"
        )
        assert raised.value.position == 7


@pytest.mark.parametrize(
    ("location", "is_right"),
    [("w.bin", True), ("../w.bin", False), ("w.bin?x", False), ("a#b", False), ("a::b", False)],
)
def test_data_of_a_model_at_a_url(location: str, is_right: bool, tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    model.write_bytes(b"")
    with open_source(str(model)) as source:
        file = OnnxFile(source, seeks_data=False)
    file.folder = "https://host/models"
    if is_right:
        assert check_location(file, location, 0) == f"https://host/models/{location}"
    else:
        with pytest.raises(WireError, match="which is not in the model's directory"):
            check_location(file, location, 0)


def test_the_values_of_a_sparse_tensor() -> None:
    values, indices = (helper.make_tensor("", kind, [1], [1]) for kind in (1, 7))
    message = helper.make_sparse_tensor(values, indices, [4]).SerializeToString()
    place = locate_sparse(MemoryFile(message), 0, len(message))
    assert place is not None
    assert (place.shape, place.code) == ((1,), 1)
    only = onnx.SparseTensorProto(indices=indices).SerializeToString()
    assert locate_sparse(MemoryFile(only), 0, len(only)) is None
    outside = encode_field(2, external(location="w.bin"))
    file = MemoryFile(outside)
    file.folder = "."
    with pytest.raises(
        WireError, match="a sparse tensor has external data, which ONNX does not allow"
    ):
        locate_sparse(file, 0, len(outside))
    for damaged in (b"\x08\x01", b"\x10\x01"):
        with pytest.raises(
            WireError, match="a part of a sparse tensor has the wire type 0, expected 2"
        ):
            locate_sparse(MemoryFile(damaged), 0, 2)
