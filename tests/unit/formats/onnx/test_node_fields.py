"""Names, kinds and attributes of nodes: nodes whose names come first are read together, all as protobuf reads them."""

from __future__ import annotations

import pytest
from onnx import NodeProto, TensorProto, helper

from graphshare.formats.onnx.node_fields import (
    NodeFields,
    NodeKind,
    NodeReader,
    encode_names,
    name_domain,
)
from graphshare.formats.onnx.protobuf import WireError, encode_field, scan
from graphshare.formats.onnx.stored import MemoryFile
from graphshare.ir.graph import Graph

RELU = b"\x22\x04Relu"


def read(*nodes: bytes) -> tuple[NodeReader, list[NodeFields]]:
    file = MemoryFile(b"x" + b"".join(encode_field(1, node) for node in nodes))
    reader = NodeReader(file)
    return reader, list(reader.read(list(scan(file.data, 1, file.size))))


def names(inputs: list[str], outputs: list[str], label: str = "") -> bytes:
    fields = [
        *((1, name) for name in inputs),
        *((2, name) for name in outputs),
        *([(3, label)] if label else []),
    ]
    return b"".join(encode_field(number, name.encode()) for number, name in fields)


NODES = {
    # whether the node is one of those that are read together
    "one input": (names(["a"], ["y"]) + RELU, True),
    "no input": (names([], ["y"]) + RELU, True),
    "two inputs": (names(["a", "b"], ["y"], "label") + RELU, True),
    "three inputs": (names(["a", "", "c"], ["y"]) + RELU, True),
    "four inputs": (names(["a", "b", "c", "d"], ["y"]) + RELU, False),
    "two outputs": (names(["a"], ["y", "z"]) + RELU, False),
    "no output": (names(["a"], []) + RELU, False),
    "a name of 127": (names(["a" * 127], ["y" * 127], "l" * 127) + RELU, True),
    "a name of 128": (names(["a" * 128], ["y"]) + RELU, False),
    "a label of 128": (names(["a"], ["y"], "l" * 128) + RELU, False),
    "a quotation mark": (names(['a"b'], ["y"]) + RELU, False),
    "a quotation mark in an output": (names(["a"], ['y"z']) + RELU, False),
    "a quotation mark in a label": (names(["a"], ["y"], 'l"m') + RELU, False),
    "a line break": (names(["a\nb"], ["y"]) + RELU, False),
    "a line break in the second input": (names(["p", "a\nb"], ["y"]) + RELU, False),
    "a byte of a tag in the third input": (names(["p", "q", "a\x12b"], ["y"]) + RELU, False),
    "bytes of tags in an output": (names(["p"], ["y\x1a\x01z"]) + RELU, False),
    "no ASCII": (names(["ä"], ["y"]) + RELU, False),
    "an operator first": (RELU + names(["a"], ["y"]), False),
    "a label behind": (names(["a"], ["y"]) + RELU + b"\x1a\x01l", False),
    "an output behind": (names(["a"], ["y"]) + RELU + b"\x12\x01z", False),
    "an input behind": (names(["a"], ["y"]) + RELU + b"\x0a\x01z", False),
    "no operator": (names(["a"], ["y"]) + b"\x3a\x01d", False),
    "an empty operator": (names(["a"], ["y"]) + b"\x22\x00", False),
    "a domain and an overload": (names(["a"], ["y"]) + RELU + b"\x3a\x01d\x42\x01o", True),
    "the domain of ONNX": (names(["a"], ["y"]) + RELU + b"\x3a\x07ai.onnx", True),
    "documentation": (names(["a"], ["y"]) + RELU + b"\x32\x01d", True),
    "512 bytes": (names(["a"], ["y"]) + RELU + b"\x32\xf1\x03" + b"d" * 497, True),
    "513 bytes": (names(["a"], ["y"]) + RELU + b"\x32\xf2\x03" + b"d" * 498, False),
    "nothing": (b"", False),
}


@pytest.mark.parametrize("kind", NODES)
def test_a_node_is_read_as_protobuf_reads_it(kind: str) -> None:
    node, is_fast = NODES[kind]
    plain = names(["p"], ["q"], "r") + RELU
    _, found = read(plain, node, node, plain)
    proto = NodeProto.FromString(node)
    assert found[0] == found[3] == (("p",), ("q",), "r", NodeKind("Relu", "", "", [], '"\x04Relu'))
    for inputs, outputs, label, kind_of in found[1:3]:
        assert (inputs, outputs, label) == (tuple(proto.input), tuple(proto.output), proto.name)
        assert (kind_of.op, kind_of.domain) == (proto.op_type, proto.domain.removeprefix("ai.onnx"))
        assert kind_of.overload == (b"\x42\x01o" in node) * "o"
        assert list(kind_of.fields) == []
        assert bool(kind_of.key) == is_fast
    assert (found[1][3] is found[2][3]) == is_fast


def test_more_nodes_than_are_read_at_a_time() -> None:
    for count in (511, 512, 513, 1025):
        _, found = read(*[names([f"a{number}"], [f"b{number}"]) + RELU for number in range(count)])
        assert [fields[0][0] for fields in found] == [f"a{number}" for number in range(count)]


def refuse(start: int, end: int) -> Graph:
    raise AssertionError


def test_attributes_that_repeat_are_read_once() -> None:
    big = helper.make_tensor("", TensorProto.FLOAT, [8], [0.0] * 8)
    for value, is_kept in ((3, True), (big, False)):
        node = NodeProto(
            input=["a"], output=["y"], op_type="Op", attribute=[helper.make_attribute("k", value)]
        )
        reader, (first, second) = read(*[node.SerializeToString()] * 2)
        assert len(first[3].fields) == 1
        known = reader.read_attributes(first[3], refuse)
        assert known.texts.keys() == {"k"}
        ((*_, again),) = reader.read(list(scan(reader._file.data, 1, reader._file.size))[1:])
        assert (again.known is known, len(again.fields)) == ((True, 0) if is_kept else (False, 1))
        assert (reader.read_attributes(again, refuse) is known) == is_kept
        assert reader.read_attributes(second[3], refuse).texts == known.texts


def test_the_body_of_each_node_is_read() -> None:
    attribute = helper.make_attribute("body", helper.make_graph([], "g", [], []))
    node = NodeProto(
        input=["a"], output=["y"], op_type="Op", attribute=[attribute]
    ).SerializeToString()
    reader, _ = read(node, node)
    graphs = [Graph((), ()), Graph((), ())]
    fields = list(scan(reader._file.data, 1, reader._file.size))
    for graph in graphs:
        ((*_, kind),) = reader.read(fields[1:])
        assert reader.read_attributes(kind, lambda start, end: graph).graphs[0] is graph  # noqa: B023


@pytest.mark.parametrize(
    "node",
    [
        b"\x22\x01a\x22\x01b",
        b"\x3a\x01a\x3a\x01b",
        b"\x42\x01a\x42\x01b",
        b"\x1a\x01a\x1a\x01b",
        b"\x22",
    ],
)
def test_a_damaged_node_is_refused(node: bytes) -> None:
    with pytest.raises(WireError):
        read(names(["a"], ["y"]) + node)


def test_names_are_encoded_and_domains_have_one_name() -> None:
    assert encode_names(["a", "ä"], ["y"], "l") == names(["a", "ä"], ["y"], "l")
    assert encode_names(["a" * 128], [], "") == names(["a" * 128], [])
    assert [name_domain(name) for name in ("ai.onnx", "", "ai.onnx.ml")] == ["", "", "ai.onnx.ml"]
