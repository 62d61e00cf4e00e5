"""Initializers of ONNX models as records: where each is, which are read in place, and their bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

from graphshare.errors import InputError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.parameters import FORMAT, index_functions, index_parameters
from graphshare.formats.onnx.protobuf import encode_field
from graphshare.formats.onnx.stored import OnnxFile
from graphshare.formats.params.format import WriteOptions
from graphshare.formats.params.records import ParameterFile, Record

GRAPH = "g (float[1] x) => (float[1] y) { y = Relu(x) }"


def write(folder: Path, *tensors: TensorProto | bytes, text: str = GRAPH) -> Path:
    model = helper.make_model(parser.parse_graph(text)).SerializeToString()
    added = b"".join(
        encode_field(5, each if isinstance(each, bytes) else each.SerializeToString())
        for each in tensors
    )
    path = folder / "model.onnx"
    path.write_bytes(model + encode_field(7, added))  # protobuf joins the two messages of a graph
    if added:
        path.write_bytes(onnx.load_model_from_string(path.read_bytes()).SerializeToString())
    return path


def write_bytes(folder: Path, tensor: bytes) -> Path:
    """Write a model whose initializer has these bytes, whatever they are."""
    graph = parser.parse_graph(GRAPH).SerializeToString() + encode_field(5, tensor)
    path = folder / "model.onnx"
    path.write_bytes(b"\x08\x08" + encode_field(7, graph) + encode_field(8, b"\x10\x11"))
    return path


def index(path: Path, *, functions: bool = False) -> ParameterFile:
    with open_source(str(path)) as source:
        return index_parameters(decode_model(OnnxFile(source)), functions=functions)


def read(path: Path, record: Record) -> bytes:
    with open_source(str(path)) as source:
        return b"".join(bytes(piece) for piece in FORMAT.read(source)(record))


def make(
    dtype: int, shape: list[int], values: list[Any], name: str = "w", *, raw: bool = False
) -> TensorProto:
    tensor = helper.make_tensor(name, dtype, shape, values)
    return numpy_helper.from_array(numpy_helper.to_array(tensor), name) if raw else tensor


IN_PLACE = {
    "raw floats": (make(TensorProto.FLOAT, [2, 1], [1.5, 2.5], raw=True), "float32", (2, 1)),
    "raw integers": (make(TensorProto.INT8, [3], [1, 2, -3], raw=True), "int8", (3,)),
    "floats": (make(TensorProto.FLOAT, [2], [1.5, 2.5]), "float32", (2,)),
    "doubles": (make(TensorProto.DOUBLE, [2], [1.5, 2.5]), "float64", (2,)),
}
DECODED = {
    "integers of 8 bits": (make(TensorProto.INT8, [3], [1, 2, -3]), "int8", (3,)),
    "integers of 64 bits": (make(TensorProto.INT64, [2], [1, -(1 << 40)]), "int64", (2,)),
    "unsigned integers": (make(TensorProto.UINT32, [2], [1, (1 << 32) - 1]), "uint32", (2,)),
    "float16": (make(TensorProto.FLOAT16, [2], [1.5, -2.5]), "float16", (2,)),
    "bool": (make(TensorProto.BOOL, [2], [1, 0]), "bool", (2,)),
}


@pytest.mark.parametrize("name", [*IN_PLACE, *DECODED])
def test_a_tensor_is_listed_where_it_is(name: str, tmp_path: Path) -> None:
    tensor, dtype, shape = {**IN_PLACE, **DECODED}[name]
    path = write(tmp_path, make(TensorProto.FLOAT, [1], [3], "v"), tensor)
    data, message = path.read_bytes(), tensor.SerializeToString()
    array = numpy_helper.to_array(tensor)
    _, record = index(path).records
    start = data.index(array.tobytes()) if name in IN_PLACE else None
    where = (data.index(message), len(message))
    assert record == Record("w", shape, dtype, "onnx", *where, start, array.nbytes)
    assert read(path, record) == array.tobytes()


def test_elements_of_other_dtypes_are_listed_as_bytes(tmp_path: Path) -> None:
    raw = make(TensorProto.COMPLEX64, [2], [1 + 2j, 3 - 4j], raw=True)
    single = make(TensorProto.COMPLEX64, [2], [1 + 2j, 3 - 4j], "v")
    texts = make(TensorProto.STRING, [2], [b"ab", b"c"], "t")
    path = write(tmp_path, raw, single, texts)
    data, whole = path.read_bytes(), numpy_helper.to_array(raw).tobytes()
    spans = {
        each.name: (data.index(each.SerializeToString()), each.ByteSize())
        for each in (raw, single, texts)
    }
    records = index(path).records
    place = data.index(b"ab")
    assert records == (
        Record(
            "w",
            (16,),
            "uint8",
            "onnx complex64",
            *spans["w"],
            data.index(whole),
            16,
            stated="complex64 (2)",
        ),
        Record(
            "v", (16,), "uint8", "onnx complex64", *spans["v"], None, 16, stated="complex64 (2)"
        ),
        Record("t", (5,), "uint8", "onnx string", place, 5, place, 5, stated="string (2)"),
    )
    assert [read(path, record) for record in records] == [whole, whole, b"ab\x32\x01c"]


def test_numbers_in_a_field_each_are_joined(tmp_path: Path) -> None:
    floats = np.array([1.5, 2.5], "f4").tobytes()
    single = b"\x08\x02\x10\x01\x25" + floats[:4] + b"\x25" + floats[4:] + b"\x42\x01w"
    path = write_bytes(tmp_path, single)
    (record,) = index(path).records
    assert record == Record(
        "w", (2,), "float32", "onnx", path.read_bytes().index(single), len(single), None, 8
    )
    assert read(path, record) == floats


def test_a_tensor_without_data(tmp_path: Path) -> None:
    empty, hollow = b"\x08\x00\x10\x01\x42\x01w", b"\x08\x02\x10\x01\x42\x01w"
    path = write_bytes(tmp_path, empty)
    start = path.read_bytes().index(empty)
    (record,) = index(path).records
    assert (record.shape, record.dtype, record.offset, record.size, record.data_size) == (
        (0,),
        "float32",
        start,
        len(empty),
        0,
    )
    assert read(path, record) == b""
    path = write_bytes(tmp_path, hollow)
    assert index(path).records == (Record("w", None, None, "onnx", start, len(hollow), None, 0),)


@pytest.mark.parametrize("count", [1, 3])
def test_another_number_of_elements_is_refused_where_they_are_read(
    count: int, tmp_path: Path
) -> None:
    path = write_bytes(tmp_path, b"\x08\x02\x10\x03" + b"\x28\x07" * count + b"\x42\x01w")
    (record,) = index(path).records
    with pytest.raises(
        InputError, match=rf"model\.onnx.*has {count} bytes of data; its shape and dtype need 2"
    ):
        read(path, record)


@pytest.mark.parametrize("dims", [b"\x18\x04\x18\x05", b"\x1a\x02\x04\x05"])
@pytest.mark.parametrize("raw", [False, True])
def test_a_sparse_tensor_is_the_bytes_of_its_parts(dims: bytes, raw: bool, tmp_path: Path) -> None:
    values, indices = (
        make(TensorProto.FLOAT, [2], [1.5, 2.5]),
        make(TensorProto.INT64, [2], [1, 3], "", raw=raw),
    )
    message = (
        encode_field(1, values.SerializeToString())
        + encode_field(2, indices.SerializeToString())
        + dims
    )
    graph = parser.parse_graph(GRAPH).SerializeToString() + encode_field(15, message)
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08" + encode_field(7, graph) + encode_field(8, b"\x10\x11"))
    (record,) = index(path).records
    where = path.read_bytes().index(message), len(message)
    assert record == Record(
        "w", (40,), "uint8", "onnx sparse", *where, None, 40, stated="sparse float32"
    )
    parts = (np.array([1.5, 2.5], "f4"), np.array([1, 3], "i8"), np.array([4, 5], "i8"))
    assert read(path, record) == b"".join(part.tobytes() for part in parts)


def test_data_in_other_files_is_listed_in_the_order_of_the_model(tmp_path: Path) -> None:
    def outside(name: str, location: str, start: int) -> TensorProto:
        tensor = TensorProto(
            name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", location), ("offset", str(start))):
            tensor.external_data.add(key=key, value=value)
        return tensor

    (tmp_path / "v.bin").write_bytes(bytes(8))
    (tmp_path / "w.bin").write_bytes(bytes(24))
    inner = make(TensorProto.FLOAT, [2], [1.5, 2.5], "b")
    path = write(
        tmp_path,
        outside("a", "w.bin", 8),
        inner,
        outside("c", "v.bin", 0),
        outside("d", "w.bin", 16),
    )
    file = index(path)
    files = [each.origin.file for each in file.records if each.origin and each.origin.file]
    pairs = zip(file.records, files, strict=True)
    rows = [
        (each.key, origin.path, each.offset, each.size, each.data_offset) for each, origin in pairs
    ]
    start = path.read_bytes().index(np.array([1.5, 2.5], "f4").tobytes())
    own = file.records[1]
    assert rows == [
        ("a", str(tmp_path / "w.bin"), 8, 8, 8),
        ("b", str(path), own.offset, own.size, start),
        ("c", str(tmp_path / "v.bin"), 0, 8, 0),
        ("d", str(tmp_path / "w.bin"), 16, 8, 16),
    ]
    assert {
        Path(each.path).name: (each.size, [record.key for record in each.records]) for each in files
    } == {
        "w.bin": (24, ["a", "d"]),
        "v.bin": (8, ["c"]),
        "model.onnx": (path.stat().st_size, ["b"]),
    }


def make_function() -> ModelProto:
    weight = numpy_helper.from_array(np.arange(8, dtype="f4"))
    nodes = [
        helper.make_node("Constant", [], ["k"], value=weight),
        helper.make_node("Add", ["x", "k"], ["z"]),
    ]
    function = helper.make_function("f", "F", ["x"], ["z"], nodes, [helper.make_opsetid("", 17)])
    graph = parser.parse_graph("g (float[8] x) => (float[8] y) { y = f.F(x) }")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    return helper.make_model(graph, functions=[function], opset_imports=opsets)


def test_weights_of_functions_are_listed_where_they_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(make_function(), path)
    assert index(path).records == ()
    (record,) = index(path, functions=True).records
    with open_source(str(path)) as source:
        graph = decode_model(OnnxFile(source))
        assert index_functions(graph) == [record]
        assert FORMAT.index(source).records == (record,)
    data = np.arange(8, dtype="f4").tobytes()
    assert (record.shape, record.dtype, record.data_offset) == (
        (8,),
        "float32",
        path.read_bytes().index(data),
    )
    assert read(path, replace(record, data_offset=None)) == data


def test_values_that_stay_float32_beside_float16(tmp_path: Path) -> None:
    text = """g (float[1,2,4,4] x, float[2] s, bool c) => (float[1,2,4,4] y) {
        a = BatchNormalization(x, s, bias, mean, var) d = Resize(a, roi, scales, sizes) e = Upsample(d, factors)
        y = If(c) <then_branch = t () => (float[1,2,4,4] g) { g = BatchNormalization(x, s, bias, mean, inner) },
            else_branch = h () => (float[1,2,4,4] i) { i = Identity(e) }> }"""
    names = ("bias", "mean", "var", "roi", "scales", "sizes", "factors", "inner")
    path = write(
        tmp_path, *(make(TensorProto.FLOAT, [2], [1, 2], name) for name in names), text=text
    )
    assert FORMAT.find_float32(index(path)) == {
        "s",
        "bias",
        "mean",
        "var",
        "roi",
        "scales",
        "factors",
        "inner",
    }


def test_models_are_told_by_their_start(tmp_path: Path) -> None:
    assert FORMAT.sniff(b"\x08\x07")
    assert not FORMAT.sniff(b"\x0a\x07")
    path, other = write(tmp_path), tmp_path / "other"
    other.write_bytes(b"\x08\x07" + b"no model")
    for each, is_model in ((path, True), (other, False)):
        with open_source(str(each)) as source:
            assert FORMAT.may_hold_arrays(source) == is_model
    fault = FORMAT.refuse(Record("w", (1,), "float32", "onnx", 0, 4, 0, 4), "w", WriteOptions())
    assert fault is not None
    assert fault.message == "cannot be written into an ONNX model on its own"
