"""Messages on values, renamed and new, as the onnx package reads them; what is kept is kept byte by byte."""

from __future__ import annotations

from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from graphshare.formats.onnx.graph_fields import ANNOTATION, SPARSE, VALUE_INFO, scan_graph
from graphshare.formats.onnx.messages import (
    describe_type,
    describe_value,
    encode_attribute,
    encode_pair,
    rename_annotation,
    rename_message,
    rename_sparse,
    rewrite_message,
)
from graphshare.formats.onnx.protobuf import Blob, Message, encode_field
from graphshare.formats.onnx.stored import MemoryFile, NamedMessage, Span
from graphshare.formats.onnx.tensor_messages import encode_tensor, name_tensor, replace_data
from graphshare.ir.graph import Graph
from graphshare.ir.onnx import Dimensions, Float, Tensor


def read(number: int, message: bytes) -> NamedMessage:
    data = b"xx" + encode_field(number, message) + b"xx"
    (named,) = scan_graph(MemoryFile(data), 2, len(data) - 2).named[number]
    return named


def encode(message: bytes | Blob | Message) -> bytes:
    return (
        message
        if isinstance(message, bytes)
        else b"".join(bytes(piece) for piece in message.pieces())
    )


def span_of(data: bytes) -> Span:
    return Span(MemoryFile(b"x" + data + b"x"), 1, len(data) + 1)


@pytest.mark.parametrize("size", [0, 400, *range(500, 508), 600])
@pytest.mark.parametrize("name", ["a", "b", "longer", "n" * 130, "ä"])
def test_another_name_leaves_the_rest(size: int, name: str) -> None:
    rest = (b"\x12\x00", b"\x1a" + bytes([size & 127 | 128, size >> 7]) + b"d" * size)
    field = encode_field(1, b"a")
    for message in (field + b"".join(rest), rest[0] + field + rest[1]):
        named = read(VALUE_INFO, message)
        renamed = rename_message(named, name)
        assert encode(renamed) == message.replace(field, encode_field(1, name.encode()))
        assert isinstance(renamed, bytes) == (len(message) <= 512)
        assert (renamed is named) == (name == "a" and len(message) > 512)


def test_fields_are_changed_by_number() -> None:
    data = encode_field(1, b"a") + b"\x10\x07" + encode_field(3, b"c")
    tail = Message()
    tail.add_integer(1, 5)
    changed = rewrite_message(
        span_of(data), {1: lambda span: span.read() + b"!", 3: lambda span: tail}
    )
    assert encode(changed) == encode_field(1, b"a!") + b"\x10\x07" + encode_field(3, b"\x08\x05")
    assert encode(rewrite_message(span_of(data), {})) == data


def test_a_sparse_initializer_is_renamed_in_its_values() -> None:
    values, indices = (
        helper.make_tensor(name, kind, [1], [1]) for name, kind in (("s", 1), ("i", 7))
    )
    sparse = helper.make_sparse_tensor(values, indices, [4])
    named = read(SPARSE, sparse.SerializeToString())
    assert rename_sparse(named, "s") is named
    renamed = onnx.SparseTensorProto.FromString(encode(rename_sparse(named, "t")))
    sparse.values.name = "t"
    assert renamed == sparse


@pytest.mark.parametrize(
    "data",
    [
        b"\x08\x02\x10\x01\x4a\x01a",
        b"\x08\x02\x10\x01",
        b"",
        b"\x42\x01o\x4a\x01a",
        b"\x08\x02\x42\x01o",
        b"\x4a\x01a\x42\x01o",
    ],
)
def test_a_tensor_gets_a_name_in_the_order_of_fields(data: bytes) -> None:
    expected = TensorProto.FromString(data)
    expected.name = "new"
    named = encode(name_tensor(span_of(data), "new"))
    assert TensorProto.FromString(named) == expected
    assert named.count(b"new") == 1
    rest = data.replace(b"\x42\x01o", b"")
    place = rest.find(b"\x4a")
    assert named == (rest if place < 0 else rest[:place]) + b"\x42\x03new" + (
        b"" if place < 0 else rest[place:]
    )


def choose(names: list[str], old: str, prefix: str) -> str:
    return names[0] if len(names) == 1 else prefix + old if prefix + old in names else old


def test_annotations_name_values_by_their_new_names() -> None:
    pairs = {"A": "one", "B": "two", "C": "none", "D": "other"}
    annotation = onnx.TensorAnnotation(tensor_name="w")
    for key, value in pairs.items():
        annotation.quant_parameter_tensor_names.add(key=key, value=value)
    named = read(ANNOTATION, annotation.SerializeToString() + b"\x18\x07")
    assert encode(rename_annotation(named, "w", str)) == named.read()
    new = {
        "one": ["uno"],
        "two": ["p_two", "q_two"],
        "other": ["r_other", "s_other"],
        "A": ["key"],
        "w": ["no"],
    }

    def show(name: str) -> list[tuple[str, str]]:
        prefix = name.removesuffix("w")
        data = encode(
            rename_annotation(named, name, lambda old: choose(new.get(old, []), old, prefix))
        )
        assert data.endswith(b"\x18\x07")
        renamed = onnx.TensorAnnotation.FromString(data)
        assert renamed.tensor_name == name
        return [(pair.key, pair.value) for pair in renamed.quant_parameter_tensor_names]

    assert show("q_w") == [("A", "uno"), ("B", "q_two"), ("C", "none"), ("D", "other")]
    assert show("v") == [("A", "uno"), ("B", "two"), ("C", "none"), ("D", "other")]
    # Its own name stays
    assert show("w") == [("A", "uno"), ("B", "two"), ("C", "none"), ("D", "other")]


@pytest.mark.parametrize("shape", [None, [], [1, "n", None, 0]])
def test_types_and_values_are_those_of_onnx(shape: Dimensions | None) -> None:
    expected = helper.make_tensor_value_info(
        "v", TensorProto.INT8, None if shape is None else list(shape)
    )
    data = describe_type("int8", shape)
    assert onnx.TypeProto.FromString(data) == expected.type
    assert onnx.ValueInfoProto.FromString(encode(describe_value("v", data))) == expected
    assert onnx.ValueInfoProto.FromString(encode(describe_value("v"))) == onnx.ValueInfoProto(
        name="v"
    )


def test_tensors_with_data_in_them_or_in_another_file() -> None:
    data = Span(MemoryFile(b"abcdefgh"), 0, 8)
    whole = TensorProto(name="t", dims=[2], data_type=1, raw_data=b"abcdefgh")
    outside = TensorProto(name="t", dims=[2], data_type=1, data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", "8"), ("length", "16")):
        outside.external_data.add(key=key, value=value)
    where = ("w.bin", 8, 24)
    assert TensorProto.FromString(encode(encode_tensor("t", "float32", [2], data))) == whole
    assert TensorProto.FromString(encode(encode_tensor("t", "float32", [2], where))) == outside
    assert (
        TensorProto.FromString(encode(encode_tensor("", "float32", [2], data))).HasField("name")
        is False
    )
    for source in (whole, outside):
        span = span_of(source.SerializeToString() + b"\x62\x01d")
        for other, expected in ((data, whole), (where, outside)):
            for name in (None, "n"):
                replaced = encode(replace_data(span, other, name))
                wanted = TensorProto()
                wanted.CopyFrom(expected)
                wanted.doc_string, wanted.name = "d", name or "t"
                assert TensorProto.FromString(replaced) == wanted
                assert replaced.count(b"\x42\x01") == 1


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        (True, 1),
        (0.5, 0.5),
        ("text", "text"),
        ("", ""),
        (("a", ""), ["a", ""]),
        ((1, -2), [1, -2]),
        (Float((1.0, 2.5)), [1.0, 2.5]),
        (
            Tensor("int8", (2,), b"\x01\x02"),
            TensorProto(dims=[2], data_type=3, raw_data=b"\x01\x02"),
        ),
        (Tensor("int8", (0,), None), TensorProto(dims=[0], data_type=3, raw_data=b"")),
        (Graph((), ()), onnx.GraphProto()),
    ],
)
def test_attributes_are_those_of_onnx(value: Any, expected: Any) -> None:
    attribute = onnx.AttributeProto.FromString(encode(encode_attribute("k", value)))
    assert attribute == helper.make_attribute("k", expected)


def test_an_empty_list_is_one_of_integers() -> None:
    attribute = onnx.AttributeProto.FromString(encode(encode_attribute("k", ())))
    assert attribute == onnx.AttributeProto(name="k", type=onnx.AttributeProto.INTS)
    pair = onnx.StringStringEntryProto.FromString(encode(encode_pair("k", "v")))
    assert (pair.key, pair.value) == ("k", "v")
