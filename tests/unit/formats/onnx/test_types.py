"""Types that ONNX files state: read from bytes, shown, and compared."""

from __future__ import annotations

import onnx
import pytest
from onnx import TensorProto, TypeProto, helper, parser

from graphshare.errors import InputError
from graphshare.formats.facets import NestedType, TensorType
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.protobuf import encode_field
from graphshare.formats.onnx.stored import MemoryFile
from graphshare.formats.onnx.types import (
    decode_type,
    is_complete,
    list_replaceable,
    list_types,
    parse_type,
)

FLOATS = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, "n", None])
PLAIN = TensorType("float32", (1, "n", None))
SEQUENCE = helper.make_sequence_type_proto(FLOATS)
MAP = helper.make_map_type_proto(TensorProto.INT64, FLOATS)


@pytest.mark.parametrize(
    ("proto", "stated", "text"),
    [
        (FLOATS, PLAIN, "float32 (1, n, ?)"),
        (helper.make_tensor_type_proto(TensorProto.INT8, []), TensorType("int8", ()), "int8 ()"),
        (helper.make_tensor_type_proto(TensorProto.INT8, None), TensorType("int8"), "int8"),
        (helper.make_tensor_type_proto(0, [0, -1]), TensorType("", (0, None)), "any dtype (0, ?)"),
        (helper.make_sparse_tensor_type_proto(TensorProto.FLOAT, [2]),
         NestedType("sparse tensor", TensorType("float32", (2,))), "sparse tensor of float32 (2)"),
        (SEQUENCE, NestedType("sequence", PLAIN), "sequence of float32 (1, n, ?)"),
        (helper.make_optional_type_proto(SEQUENCE), NestedType("optional", NestedType("sequence", PLAIN)),
         "optional of sequence of float32 (1, n, ?)"),
        (MAP, NestedType("map from int64", PLAIN), "map from int64 of float32 (1, n, ?)"),
    ],
)  # fmt: skip
def test_a_type_is_read_and_shown(
    proto: TypeProto, stated: TensorType | NestedType, text: str
) -> None:
    data = proto.SerializeToString()
    assert parse_type(b"x" + data + b"x", 1, len(data) + 1) == stated
    assert str(stated) == text
    assert stated.parts == (
        (text, None) if isinstance(stated, NestedType) else (stated.dtype or None, stated.shape)
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x08\x01",
        b"\x0a\x7f",
        b"\x0a\x02\x08\x80",
        encode_field(4, b""),
        b"\x0a\x03\x12\x01\x08",
    ],
)
def test_what_is_no_type(data: bytes) -> None:
    assert parse_type(data, 0, len(data)) is None


def test_types_in_16_types_are_read() -> None:
    data = b"\x0a\x02\x08\x01"
    for depth in range(18):
        stated, shown = decode_type(data, 0, len(data)), "sequence of " * depth + "float32"
        assert (None if stated is None else str(stated)) == (shown if depth <= 16 else None)
        data = encode_field(4, encode_field(1, data))


ONE, OTHER, RANK = (
    TensorType("float32", (1, "n")),
    TensorType("float32", (2, "n")),
    TensorType("float32", (1, 2, 3)),
)
CONTRADICTIONS: list[tuple[TensorType | NestedType, TensorType | NestedType, bool]] = [
    (ONE, ONE, False),
    (ONE, OTHER, True),
    (ONE, RANK, True),
    (ONE, TensorType("int8", (1, 2)), True),
    (ONE, TensorType("", (1, 2)), False),
    (TensorType("", (3,)), TensorType("int8", (4,)), True),
    (ONE, TensorType("float32"), False),
    (ONE, TensorType("int8"), True),
    (TensorType("float32", (None, 2)), TensorType("float32", ("n", 3)), True),
    (NestedType("sequence", ONE), ONE, True),
    (NestedType("sequence", ONE), NestedType("sequence", ONE), False),
    (NestedType("sequence", ONE), NestedType("sequence", OTHER), True),
    (NestedType("sequence", ONE), NestedType("optional", ONE), True),
]


@pytest.mark.parametrize(("one", "other", "contradicts"), CONTRADICTIONS)
def test_types_that_no_value_has_both(
    one: TensorType | NestedType, other: TensorType | NestedType, contradicts: bool
) -> None:
    assert one.contradicts(other) == other.contradicts(one) == contradicts


def test_types_that_are_complete() -> None:
    complete = (TensorType("int8", ()), ONE, NestedType("sequence", TensorType()))
    assert [is_complete(each) for each in complete] == [True, True, True]
    assert [is_complete(each) for each in (None, TensorType("int8"), TensorType("", (1,)))] == [
        False,
        False,
        False,
    ]


@pytest.mark.parametrize(("version", "replaceable"), [(3, ["x"]), (4, ["x", "w"])])
def test_inputs_with_a_default_are_replaceable_from_version_4_on(
    version: int, replaceable: list[str]
) -> None:
    text = (
        f'<ir_version: {version}, opset_import: ["" : 9]> g (float[n] x, float[2] w) => (float[n] '
        f"y) <float[1] v = {{1}}> "
    )
    model = parser.parse_model(f"{text} {{ a = Add(x, w) y = Add(a, v) }}")
    model.graph.initializer.append(helper.make_tensor("w", TensorProto.FLOAT, [2], [1, 2]))
    model.graph.input.append(helper.make_value_info("s", SEQUENCE))
    graph = decode_model(MemoryFile(model.SerializeToString()))
    assert [node.name for node in list_replaceable(graph)] == [*replaceable, "s"]
    types = {
        "x": TensorType("float32", ("n",)),
        "w": TensorType("float32", (2,)),
        "y": TensorType("float32", ("n",)),
    }
    assert list_types(graph) == types


def test_a_damaged_type_is_refused_with_its_place() -> None:
    """Protocol buffers do not read the model either."""
    model = helper.make_model(
        parser.parse_graph("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    ).SerializeToString()
    value = onnx.ValueInfoProto(
        name="x", type=helper.make_tensor_type_proto(1, [1])
    ).SerializeToString()
    damaged = model.replace(value, value[:-4] + b"\x0a\x7f\x08\x01")
    assert damaged != model
    with pytest.raises(InputError, match="field 1 has 127 bytes and only 2 are left") as caught:
        decode_model(MemoryFile(damaged))
    assert caught.value.faults[0].path == f"byte {model.index(value) + len(value) - 4}"
