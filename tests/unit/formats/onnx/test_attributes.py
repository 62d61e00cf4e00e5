"""Attributes of ONNX's operators: the text of each, what is shared, and which tensors are weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

from graphshare.files.open_source import open_source
from graphshare.formats.onnx.attributes import AttributeReader, Attributes, Weight
from graphshare.formats.onnx.protobuf import WireError, encode_field, scan
from graphshare.formats.onnx.stored import MemoryFile, OnnxFile
from graphshare.formats.onnx.tensors import locate_tensor
from graphshare.ir.graph import Graph

BODY = Graph((), ())


def read_node(file: OnnxFile, *, reader: AttributeReader | None = None) -> Attributes:
    fields = [field for field in scan(file.data, 0, file.size) if field[0] == 5]
    return (reader or AttributeReader(file)).read(fields, lambda start, end: BODY)


def read(*attributes: AttributeProto | bytes) -> Attributes:
    pieces = [each if isinstance(each, bytes) else each.SerializeToString() for each in attributes]
    return read_node(MemoryFile(b"".join(encode_field(5, each) for each in pieces)))


def tensor(*shape: int, dtype: str = "f4") -> TensorProto:
    return numpy_helper.from_array(np.zeros(shape, dtype))


def sparse(count: int, dtype: str = "f4") -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(tensor(count, dtype=dtype), tensor(count, dtype="i8"), [100])


TEXT = helper.make_tensor_type_proto(TensorProto.FLOAT, [1])
VALUES: dict[str, tuple[Any, str]] = {
    "an integer": (-5, "-5"),
    "a float": (0.1, "0.100000001"),
    "a text": ("one", "one"),
    "a text of 200": ("x" * 200, "x" * 200),
    "a text of 201": ("x" * 201, "x" * 197 + "..."),
    "a tensor": (tensor(2, 3), "float32 tensor (2, 3)"),
    "tensors": ([tensor(2), tensor(dtype="i8")], "[float32 tensor (2,), int64 tensor ()]"),
    "one of several tensors": ([tensor(2)], "[float32 tensor (2,)]"),
    "a graph": (helper.make_graph([], "g", [], []), "graph"),
    "graphs": ([helper.make_graph([], "g", [], [])] * 2, "[graph, graph]"),
    "one integer of several": ([3], "[3]"),
    "16 integers": ([*range(16)], str([*range(16)])),
    "17 integers": ([*range(17)], str([*range(16)])[:-1] + ", ...]"),
    "floats": ([1.5, -2.0], "[1.5, -2.0]"),
    "texts": (["a", "b"], "[a, b]"),
    "one text of several": (["a"], "[a]"),
    "17 texts": (["a"] * 17, "[" + "a, " * 16 + "...]"),
    "19 texts": (["a"] * 19, "[" + "a, " * 16 + "...]"),
    "a type": (TEXT, "type"),
    "one of several types": ([TEXT], "[type]"),
    "a sparse tensor": (sparse(2), "sparse tensor"),
    "one of several sparse tensors": ([sparse(2)], "[sparse tensor]"),
}


@pytest.mark.parametrize("name", VALUES)
def test_the_text_of_a_value(name: str) -> None:
    value, text = VALUES[name]
    attributes = read(helper.make_attribute("k", value))
    assert attributes.texts == {"k": text}
    count = text.count("graph")
    assert (attributes.graphs, attributes.bodies) == ((BODY,) * count, ("k",) * count)
    assert attributes.outer == ()
    if count:
        assert attributes.values == {"k": text}


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x0a\x01k", ""),
        (b"\x0a\x01k\xaa\x01\x03ref", "@ref"),
        (b"\x0a\x01k\x11" + bytes(8), "?"),
        (b"\x0a\x01k" + b"\x40\x07" * 18, "[" + "7, " * 16 + "...]"),
        (b"\x0a\x01k\x42\x80\x08" + b"\x01" * 1024, "[" + "1, " * 16 + "...]"),
        (b"\x0a\x01k\x42\x81\x08" + b"\x01" * 1025, "[1,025 bytes of integers]"),
        (b"\x0a\x01k" + b"\x3d\0\0\xc0\x3f" * 2, "[1.5, 1.5]"),
        (b"\x0a\x01k\x3a\x80\x08" + b"\0\0\xc0\x3f" * 256, "[" + "1.5, " * 16 + "...]"),
        (b"\x0a\x01k\x3a\x84\x08" + b"\0\0\xc0\x3f" * 257, "[1,028 bytes of floats]"),
        (b"\x0a\x01k\x22\xd2\x03" + b"y" * 466, "y" * 197 + "..."),
        (b"\x0a\x01k\x22\x02\xff\xfe", "\\xff\\xfe"),
    ],
)
def test_the_text_of_bytes_that_onnx_does_not_write(data: bytes, text: str) -> None:
    assert read(data).texts == {"k": text}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([b"\x0a\x01k\x18\x01"] * 2, "attribute 'k' occurs twice"),
        ([b"\x0a\x01k\x18\x01\x18\x02"], "twice"),
        ([b"\x0a\x01k\x20\x01"], "a value of an attribute"),
        ([b"\x0a\x01k\x28\x01"], "a value of an attribute"),
        ([b"\x0a\x01k\x30\x01"], "a graph"),
    ],
)
def test_a_damaged_attribute_is_refused(data: list[bytes], message: str) -> None:
    with pytest.raises(WireError, match=message):
        read(*data)


@pytest.mark.parametrize(
    ("value", "is_weight"),
    [
        (tensor(8), True),
        (tensor(7), False),
        (tensor(16, dtype="i8"), True),
        (tensor(15, dtype="i8"), False),
        ([tensor(8)], True),
        (sparse(8), True),
        (sparse(8, "i8"), False),
        ([sparse(8)], False),
        (5, False),
    ],
)
def test_the_weight_of_an_operator(value: Any, is_weight: bool) -> None:
    attribute = helper.make_attribute("value", value)
    weight = read(helper.make_attribute("a", 3), attribute, helper.make_attribute("z", 4)).weight
    assert (weight is not None) == is_weight
    if weight is not None:
        part = value[0] if isinstance(value, list) else value
        data = part.SerializeToString()
        parts = [helper.make_attribute("a", 3), attribute]
        whole = MemoryFile(NodeProto(attribute=parts).SerializeToString())
        assert whole.data[weight.start : weight.end] == data
        is_sparse = isinstance(part, onnx.SparseTensorProto)
        place = None if is_sparse else locate_tensor(whole, weight.start, weight.end)
        assert weight == Weight(weight.start, weight.end, place)


def test_equal_attributes_of_few_bytes_are_one_object() -> None:
    for value, is_shared in (
        (5, True),
        ("x" * 245, True),
        ("x" * 246, False),
        (tensor(8), False),
        (tensor(7), True),
    ):
        attribute = helper.make_attribute("key", value)
        file = MemoryFile(NodeProto(attribute=[attribute]).SerializeToString())
        if isinstance(value, str):
            assert (attribute.ByteSize() <= 256) == is_shared
        reader = AttributeReader(file)
        first, second = read_node(file, reader=reader), read_node(file, reader=reader)
        assert (first is second) == is_shared
        assert first.texts == second.texts
    assert read() is read()
    assert read().texts == {}


def test_a_body_is_read_for_each_operator() -> None:
    file = MemoryFile(
        NodeProto(
            attribute=[helper.make_attribute("body", helper.make_graph([], "g", [], []))]
        ).SerializeToString()
    )
    reader = AttributeReader(file)
    assert read_node(file, reader=reader) is not read_node(file, reader=reader)


def test_the_weight_of_one_operator_is_not_that_of_the_next() -> None:
    nodes = [
        NodeProto(attribute=[helper.make_attribute("k", value)]).SerializeToString()
        for value in (tensor(9), 5)
    ]
    file = MemoryFile(b"".join(nodes))
    reader = AttributeReader(file)
    fields = [field for field in scan(file.data, 0, file.size) if field[0] == 5]
    assert [reader.read([field], lambda start, end: BODY).weight is None for field in fields] == [
        False,
        True,
    ]


def test_data_of_tensors_in_other_files(tmp_path: Path) -> None:
    def outside(start: int) -> TensorProto:
        proto = TensorProto(
            data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL
        )
        for key, value in (("location", "w.bin"), ("offset", str(start))):
            proto.external_data.add(key=key, value=value)
        return proto

    attributes = [
        helper.make_attribute("a", outside(8)),
        helper.make_attribute("b", [outside(8 * n) for n in range(20)]),
    ]
    path = tmp_path / "node.bin"
    path.write_bytes(
        NodeProto(
            attribute=[*attributes, helper.make_attribute("c", tensor(2))]
        ).SerializeToString()
    )
    with open_source(str(path)) as source:
        file = OnnxFile(source, seeks_data=False)
    reader = AttributeReader(file)
    places = read_node(file, reader=reader).outer
    assert [(place.start, place.end) for place in places] == [
        (n, n + 8) for n in (8, *range(0, 160, 8))
    ]
    assert {place.path for place in places} == {str(tmp_path / "w.bin")}
    other = MemoryFile(NodeProto(attribute=[helper.make_attribute("c", 3)]).SerializeToString())
    assert read_node(other).outer == ()
