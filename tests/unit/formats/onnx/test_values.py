"""Values of ONNX files are compared by what they are: two spellings of one are equal, and nothing else is."""

from __future__ import annotations

import hashlib
from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, TensorProto, helper, numpy_helper

from graphshare.files.open_source import open_source
from graphshare.formats.onnx import values
from graphshare.formats.onnx.stored import OnnxFile, Span
from graphshare.formats.onnx.values import (
    StoredValue,
    read_attribute,
    read_sparse_tensor,
    read_tensor,
)

READERS = {
    AttributeProto: read_attribute,
    TensorProto: read_tensor,
    onnx.SparseTensorProto: read_sparse_tensor,
}
Message = AttributeProto | TensorProto | onnx.SparseTensorProto


def store(folder: Path, message: Message | bytes) -> StoredValue:
    """Return the value of a message that is the second half of a file."""
    path = folder / f"{len(list(folder.iterdir()))}.bin"
    data = message if isinstance(message, bytes) else message.SerializeToString()
    path.write_bytes(data + data)
    with open_source(str(path)) as source:
        file = OnnxFile(source)
    return StoredValue(
        Span(file, len(data), 2 * len(data)),
        READERS[AttributeProto if isinstance(message, bytes) else type(message)],
        "",
    )


def check(folder: Path, left: Message | bytes, right: Message | bytes, *, same: bool) -> None:
    a, b = store(folder, left), store(folder, right)
    assert (a == b) == (b == a) == same
    assert (hash(a) == hash(b)) == same


def spell(dtype: int, numbers: list[float], *, raw: bool) -> TensorProto:
    tensor = helper.make_tensor("", dtype, [len(numbers)], numbers)
    return numpy_helper.from_array(numpy_helper.to_array(tensor)) if raw else tensor


NUMBERS = {
    "float32": TensorProto.FLOAT,
    "uint8": TensorProto.UINT8,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
    "float16": TensorProto.FLOAT16,
    "float64": TensorProto.DOUBLE,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "complex64": TensorProto.COMPLEX64,
    "bfloat16": TensorProto.BFLOAT16,
    "float8": TensorProto.FLOAT8E5M2,
    "int4": TensorProto.INT4,
}


@pytest.mark.parametrize("dtype", NUMBERS)
def test_numbers_one_by_one_are_the_same_as_their_bytes(dtype: str, tmp_path: Path) -> None:
    numbers = (
        [0, 1, 1, 0]
        if dtype == "bool"
        else [0, 1, 2, 3]
        if dtype.startswith("u")
        else [0, 1, -2, 3]
    )
    single = spell(NUMBERS[dtype], numbers, raw=False)
    assert not single.HasField("raw_data")
    check(tmp_path, single, spell(NUMBERS[dtype], numbers, raw=True), same=True)
    check(tmp_path, single, spell(NUMBERS[dtype], [*numbers[:3], 1], raw=True), same=False)


@pytest.mark.parametrize(
    ("left", "right"), [(["a", "b"], ["ab", ""]), (["a"], ["b"]), (["a" * 100], ["a" * 101])]
)
def test_texts_in_tensors_count_one_by_one(
    left: list[str], right: list[str], tmp_path: Path
) -> None:
    tensors = [
        helper.make_tensor("", TensorProto.STRING, [len(left)], [text.encode() for text in each])
        for each in (left, right[: len(left)])
    ]
    check(tmp_path, *tensors, same=False)
    check(tmp_path, tensors[0], tensors[0], same=True)


def test_names_and_documentation_do_not_count(tmp_path: Path) -> None:
    message = helper.make_attribute("k", numpy_helper.from_array(np.float32([1, 2]), "a"))
    other = helper.make_attribute(
        "j", numpy_helper.from_array(np.float32([1, 2]), "b"), doc_string="text"
    )
    other.t.doc_string = "text"
    check(tmp_path, message, other, same=True)


def test_an_attribute_without_its_kind_has_that_of_its_value(tmp_path: Path) -> None:
    for value in (1, 1.5, "text", [1, 2], [1.5], ["a"], numpy_helper.from_array(np.float32(1))):
        stated, bare = helper.make_attribute("k", value), helper.make_attribute("k", value)
        bare.ClearField("type")
        check(tmp_path, stated, bare, same=True)
    zero, unset = helper.make_attribute("k", 0), helper.make_attribute("k", 0)
    unset.ClearField("i")
    check(tmp_path, zero, unset, same=True)
    check(tmp_path, helper.make_attribute("k", 0), helper.make_attribute("k", 0.0), same=False)


def test_integers_packed_or_not_are_one_list(tmp_path: Path) -> None:
    packed, single = b"\x42\x03\x01\xac\x02\xa0\x01\x07", b"\x40\x01\x40\xac\x02\xa0\x01\x07"
    check(tmp_path, packed, single, same=True)
    check(tmp_path, packed, single.replace(b"\x40\x01", b"\x40\x02"), same=False)


@pytest.mark.parametrize(
    "damage", [b"\x15\x01", b"\x2a\x02\x42\x09", b"\x72\x03\x0a\x7f\x00", b"\x12\x01\x00"]
)
def test_a_damaged_value_is_compared_by_its_bytes(damage: bytes, tmp_path: Path) -> None:
    check(tmp_path, damage, damage, same=True)
    check(tmp_path, damage, b"\x0a\x01k" + damage, same=False)


@pytest.mark.parametrize("cuts", [(), (1,), (30, 64), (63,), (64,), (65,)])
@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 200])
def test_long_bytes_are_kept_as_their_number_and_a_hash_of_32_bytes(
    size: int, cuts: tuple[int, ...]
) -> None:
    data = bytes(i * 7 % 256 for i in range(size))
    pieces = [data[start:stop] for start, stop in pairwise((0, *cuts, max(size, 65)))]
    digest = hashlib.sha256(data).digest()
    assert values.shorten(pieces) == ((data,) if size <= 64 else (size, digest))


def test_unknown_fields_count(tmp_path: Path) -> None:
    message = helper.make_attribute("k", 1).SerializeToString()
    check(tmp_path, message, message + b"\xfa\x06\x01x", same=False)
    check(tmp_path, message + b"\xfa\x06\x01x", message + b"\xfa\x06\x01x", same=True)


def place_outside(offset: int) -> TensorProto:
    tensor = TensorProto(dims=[4], data_type=TensorProto.FLOAT, data_location=TensorProto.EXTERNAL)
    for key, text in (("location", "data.bin"), ("offset", str(offset)), ("length", "16")):
        tensor.external_data.add(key=key, value=text)
    return tensor


def test_external_data_is_read_unless_it_is_one_range(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = np.float32([1, 2, 3, 4])
    (tmp_path / "data.bin").write_bytes(numbers.tobytes() * 2 + b"\0" * 16)
    check(tmp_path, place_outside(0), place_outside(16), same=True)
    check(tmp_path, place_outside(0), numpy_helper.from_array(numbers), same=True)
    check(tmp_path, place_outside(0), place_outside(32), same=False)
    a, b = store(tmp_path, place_outside(16)), store(tmp_path, place_outside(16))
    monkeypatch.setattr(
        values, "read_elements", lambda span, place: pytest.fail("one range is read")
    )
    assert a == b


def test_long_values_are_kept_as_hashes(tmp_path: Path) -> None:
    numbers = np.arange(1 << 19, dtype=np.int32)
    value = store(tmp_path, numpy_helper.from_array(numbers))
    other = numbers.copy()
    other[-1] += 1
    check(tmp_path, numpy_helper.from_array(numbers), numpy_helper.from_array(other), same=False)
    check(
        tmp_path,
        numpy_helper.from_array(numbers),
        helper.make_tensor("", TensorProto.INT32, numbers.shape, numbers),
        same=True,
    )
    assert value == store(tmp_path, numpy_helper.from_array(numbers))
    assert value != 1
