"""The encoder against the onnx package, which reads what was written and finds it as it was meant."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import numpy_helper

from graphshare.formats.facets import NestedType, TensorType
from graphshare.formats.onnx.compose import (
    ValueScope,
    find_switch,
    make_initializer,
    make_input,
    make_operator,
    make_parameter,
    make_switch,
    open_input,
    restate_shapes,
    start_body,
)
from graphshare.formats.onnx.protobuf import Message, encode_varint, pack_float
from graphshare.formats.onnx.stored import ValueMessages, find_stored, replace_stored
from graphshare.formats.onnx.tensor_messages import encode_tensor
from graphshare.formats.onnx.types import read_type
from graphshare.formats.onnx.write import encode_model
from graphshare.ir.graph import Graph, Node
from graphshare.ir.onnx import DTYPE_CODES, AttributeValue, Float, Tensor
from tests.onnx_files.composed import Operator, body, model


def model_of(graph: Graph) -> onnx.ModelProto:
    return onnx.load_from_string(b"".join(encode_model(graph, place_outside).pieces()))


def place_outside(node: Node, name: str) -> Message | None:
    return encode_tensor(name, "uint8", (4,), ("dir/file.params", 70, 74)) if name == "o" else None


def test_a_model_reads_back_as_it_was_meant() -> None:
    values: dict[str, AttributeValue] = {
        "i": -3,
        "f": 0.5,
        "s": "text",
        "ints": (1, -2, 1 << 40),
        "none": (),
        "floats": Float((1.0, 2.5)),
        "strings": ("a", ""),
        "flag": True,
        "t": Tensor("int64", (2,), np.array([1, 2], "<i8").tobytes()),
        "g": body("body", [Operator("Neg", ("x",), ("b",), label="n")], {"b": ("float32", (2,))}),
    }
    operator = Operator("Op", ("x", "", "w", "o"), ("z",), values, "node", "own")
    graph = model(
        "g",
        [operator],
        {"x": ("float16", (1, "n")), "s": ("bool", ())},
        {"z": ("float16", ("n",))},
        {
            "w": Tensor("float32", (2, 3), np.arange(6, dtype="<f4").tobytes()),
            "o": Tensor("uint8", (4,), None),
        },
        opsets={"": 17, "own": 1},
        version="1",
        metadata={"key": "value", "é": ""},
    )
    read = model_of(graph)
    assert (read.ir_version, read.producer_name, read.producer_version) == (8, "graphshare", "1")
    assert {opset.domain: opset.version for opset in read.opset_import} == {"": 17, "own": 1}
    assert {entry.key: entry.value for entry in read.metadata_props} == {"key": "value", "é": ""}
    (found,) = read.graph.node
    assert (found.op_type, found.name, found.domain) == ("Op", "node", "own")
    assert list(found.input) == ["x", "", "w", "o"]
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in found.attribute}
    assert {k: attributes[k] for k in ("i", "f", "s", "flag")} == {
        "i": -3,
        "f": 0.5,
        "s": b"text",
        "flag": 1,
    }
    assert list(attributes["ints"]) == [1, -2, 1 << 40]
    assert list(attributes["none"]) == []
    assert list(attributes["floats"]) == [1.0, 2.5]
    assert list(attributes["strings"]) == [b"a", b""]
    assert numpy_helper.to_array(attributes["t"]).tolist() == [1, 2]
    assert attributes["g"].node[0].op_type == "Neg"
    assert list(attributes["g"].node[0].input) == ["x"]
    first, second = read.graph.initializer
    assert numpy_helper.to_array(first).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert {e.key: e.value for e in second.external_data} == {
        "location": "dir/file.params",
        "offset": "70",
        "length": "4",
    }
    x, scalar = (value.type.tensor_type for value in read.graph.input)
    assert (x.elem_type, x.shape.dim[0].dim_value, x.shape.dim[1].dim_param) == (10, 1, "n")
    assert scalar.HasField("shape")
    assert not scalar.shape.dim


def test_an_empty_shape_is_a_shape() -> None:
    read = model_of(model("g", [], {"s": ("float32", ())}, {}))
    assert read.graph.input[0].type.tensor_type.HasField("shape")


@pytest.mark.parametrize("dtype", DTYPE_CODES)
def test_the_codes_of_dtypes_are_those_of_onnx(dtype: str) -> None:
    names = {"float32": "FLOAT", "float64": "DOUBLE"}
    assert onnx.TensorProto.DataType.Value(names.get(dtype, dtype.upper())) == DTYPE_CODES[dtype]


def test_numbers() -> None:
    assert encode_varint(0) == b"\0"
    assert encode_varint(300) == b"\xac\x02"
    assert pack_float(1e39) == np.float32(np.inf).tobytes()
    assert pack_float(-1e39) == np.float32(-np.inf).tobytes()


def test_lone_surrogates_are_written_in_a_readable_form() -> None:
    assert model_of(model("a\udc80", [], {}, {})).graph.name == "a\\udc80"


def test_a_made_operator_is_one_that_was_read() -> None:
    node = make_operator("Op", ("", "y"), {"k": 3}, label="l", domain="d")
    assert (node.name, node.num_outputs, node.details.outputs, node.attrs) == (
        "y",
        2,
        ("", "y"),
        {"k": "3"},
    )
    stored = find_stored(node.details).node
    assert stored is not None
    expected = onnx.helper.make_node("Op", [], ["", "y"], name="l", domain="d", k=3)
    assert onnx.NodeProto.FromString(stored.read()) == expected
    assert make_operator("Op", ("",), label="l").name == "l"
    # Equal short attributes are one object.
    again, other = make_operator("Mul", ("z",), {"k": 3}), make_operator("Mul", ("z",), {"k": 4})
    assert again.attrs is node.attrs
    assert other.attrs is not node.attrs
    sizes = set()
    for length in range(236, 256):
        text = "x" * length
        pair = [make_operator("Op", ("y",), {"k": text}) for _ in range(2)]
        size = onnx.NodeProto(attribute=[onnx.helper.make_attribute("k", text)]).ByteSize()
        sizes.add(size)
        assert (pair[0].attrs is pair[1].attrs) == (size <= 256)
    assert {256, 257} <= sizes
    bodies = [make_operator("Op", ("y",), {"g": Graph((), ())}) for _ in range(2)]
    assert bodies[0].subgraphs[0] is not bodies[1].subgraphs[0]
    assert bodies[0].details.bodies == ("g",)


@pytest.mark.parametrize("content", [None, b"\x01\x02\x03\x04\x05\x06\x07\x08"])
def test_a_made_initializer(content: bytes | None) -> None:
    node = make_initializer("w", Tensor("float32", (2,), content), 7)
    stored = find_stored(node.details)
    assert (node.name, node.details.holds_value, stored.data_in_record) == (
        "w",
        True,
        content is None,
    )
    assert node.num_outputs == 1
    assert stored.tensor is not None
    assert stored.place is not None
    tensor = onnx.TensorProto(name="w", dims=[2], data_type=1, raw_data=content)
    assert onnx.TensorProto.FromString(stored.tensor.read()) == tensor
    name = stored.tensor.file.data[stored.tensor.name_start : stored.tensor.name_end]
    assert (name, stored.tensor.rank, stored.tensor.number) == (b"\x42\x01w", 7, 8)
    assert (stored.place.shape, stored.place.code, stored.place.pieces) == (
        (2,),
        1,
        int(content is not None),
    )


@pytest.mark.parametrize(("version", "is_input"), [(3, True), (4, False), (8, False)])
def test_a_made_parameter_is_an_input_up_to_version_3(version: int, is_input: bool) -> None:
    graph = model("g", [], {}, {}, ir_version=version)
    stored = find_stored(make_parameter(graph, "w", "int8", (2,)).details)
    assert (stored.input is not None, stored.data_in_record) == (is_input, True)
    if stored.input is not None:
        expected = onnx.helper.make_tensor_value_info("w", onnx.TensorProto.INT8, [2])
        assert onnx.ValueInfoProto.FromString(stored.input.read()) == expected
    assert find_stored(make_parameter(Graph((), ()), "w", "int8", (2,)).details).input is None


def test_a_body_keeps_what_its_outputs_need() -> None:
    operators = [
        Operator("Neg", ("a",), ("b",)),
        Operator("Abs", ("outer",), ("c",)),
        Operator("Add", ("b", "z"), ("d",)),
    ]
    graph = body(
        "g",
        operators,
        {"d": ("float32", (2,))},
        {"a": ("float32", (2,)), "unused": ("float32", (2,))},
    )
    assert [node.op or node.details.outputs[0] for node in graph.nodes] == [
        "z",
        "a",
        "unused",
        "Neg",
        "Add",
    ]
    assert [node.details.outputs for node in graph.captures] == [("z",)]
    assert [node.num_outputs for node in graph.captures] == [1]
    assert [node.details.values.get("position") for node in graph.nodes] == [None, 0, 1, None, None]
    with pytest.raises(KeyError):
        ValueScope().find("z")


FLOATS, ROW = TensorType("float32", (2, "n", 3)), TensorType("float32", (2, "m", None))


@pytest.mark.parametrize(
    ("types", "common"),
    [
        ([FLOATS, FLOATS], (2, "n", 3)),
        ([FLOATS, ROW], (2, None, None)),
        ([FLOATS, TensorType("float32", (4, "n", 3))], (None, "n", 3)),
        ([TensorType("float32", ()), TensorType("float32", ())], ()),
        ([FLOATS, None], None),
        ([FLOATS, TensorType("float32")], None),
        ([FLOATS, TensorType("", (1, 2, 3))], None),
        ([NestedType("sequence", FLOATS)] * 2, None),
    ],
)
def test_the_type_that_branches_have_in_common(
    types: list[TensorType | NestedType | None], common: tuple[object] | None
) -> None:
    bodies = (Graph((), ()), Graph((), ()))
    switch, operator = make_switch("which", bodies, [("y", types)])
    results = find_stored(operator.details).values.results
    assert (switch.name, operator.op, operator.details.outputs, operator.details.label) == (
        "which",
        "If",
        ("y",),
        "which",
    )
    assert operator.details.bodies == ("then_branch", "else_branch")
    stated = None if not results else read_type(results[0])
    assert stated == (None if common is None else TensorType("float32", common))  # type: ignore[arg-type]
    declared = find_stored(switch.details).input
    assert declared is not None
    assert read_type(declared) == TensorType("bool", (1,))
    assert switch.num_outputs == 1
    name = declared.file.data[declared.name_start : declared.name_end]
    assert (name, declared.name, declared.number, declared.rank) == (
        b"\x0a\x05which",
        "which",
        1,
        0,
    )
    node = make_input("x", "int8", (7,))
    opened = open_input(node, types)
    message = find_stored(opened.details).input
    assert message is not None
    is_kept = common is None or types[0] == types[1]
    assert (opened is node) == is_kept
    assert read_type(message) == (TensorType("int8", (7,)) if is_kept else stated)


def test_shapes_that_a_file_states_are_stated_anew() -> None:
    def show(node: Node) -> list[tuple[object, ...] | None]:
        stored = find_stored(node.details)
        messages = [stored.input, stored.values.infos.get(0), stored.values.results.get(1)]
        types = [None if message is None else read_type(message) for message in messages]
        return [None if stated is None else stated.shape for stated in types]

    given = make_input("x", "float32", (2, "n", "m", 5))
    assert show(restate_shapes(given, {0: ("a", None, 3, None)})) == [
        ("a", "n", 3, None),
        None,
        None,
    ]
    assert show(restate_shapes(given, {0: ("a", None)})) == [("a", None), None, None]
    assert show(restate_shapes(given, {1: ("a",)})) == [(2, "n", "m", 5), None, None]
    assert show(restate_shapes(make_input("x", "float32", None), {0: ("a",)})) == [None, None, None]
    infos = {
        index: find_stored(make_input("v", "float32", (index, 4)).details).input for index in (0, 1)
    }
    values = ValueMessages(infos={0: infos[0]}, results={1: infos[1]})  # type: ignore[dict-item]
    operator = replace_stored(make_operator("Op", ("a", "b")), values=values)
    assert show(restate_shapes(operator, {0: (9, None)})) == [None, (9, None), (1, 4)]
    assert show(restate_shapes(operator, {1: (9, None)})) == [None, (0, 4), (9, None)]
    assert show(restate_shapes(operator, {})) == [None, (0, 4), (1, 4)]


def test_the_arguments_of_the_first_pass_of_a_body() -> None:
    counters, operands = ["i", "go"], [np.arange(6).reshape(2, 3), "s", np.arange(6).reshape(2, 3)]
    assert start_body(make_operator("If", ("y",)), operands, counters) == []
    assert start_body(make_operator("Loop", ("y",)), ["m", "c", "a", "b"], counters) == [
        "i",
        "go",
        "a",
        "b",
    ]
    assert start_body(make_operator("Other", ("y",)), operands, counters) is None

    def scan(values: dict[str, AttributeValue], count: int = 1) -> list[object] | None:
        started = start_body(
            make_operator("Scan", ("y",), {"num_scan_inputs": count, **values}),
            operands[:3],
            counters,
        )
        return (
            None
            if started is None
            else [each.tolist() if isinstance(each, np.ndarray) else each for each in started]
        )

    first = operands[0].tolist()  # type: ignore[attr-defined]
    assert scan({}) == [first, "s", [0, 1, 2]]
    assert scan({"scan_input_axes": (1,)}) == [first, "s", [0, 3]]
    assert scan({"scan_input_directions": (1,)}) == [first, "s", [3, 4, 5]]
    assert scan({"scan_input_axes": (1,), "scan_input_directions": (1,)}) == [first, "s", [2, 5]]
    node = make_operator("Scan", ("y",), {"num_scan_inputs": 2})
    started = start_body(node, [np.arange(6).reshape(2, 3), np.arange(4).reshape(2, 2)], counters)
    assert started is not None
    assert [each.tolist() for each in started] == [[0, 1, 2], [0, 1]]
    absent = replace(node, details=replace(node.details, absent=(0,)))
    assert start_body(absent, operands, counters) is None


def test_a_switch_is_an_if_with_both_bodies() -> None:
    _, operator = make_switch("which", (Graph((), ()), Graph((), ())), [("y", [FLOATS, FLOATS])])
    scope = ValueScope()
    scope.define(make_input("which", "bool", (1,)))
    node = scope.connect(operator, ("which",))
    found = find_switch(node)
    assert found is not None
    assert found[0] == scope.find("which")
    assert [each.graph for each in found[1]] == list(node.subgraphs)
    assert find_switch(replace(node, op="Loop")) is None
    assert find_switch(replace(node, details=replace(node.details, domain="d"))) is None
    one = scope.connect(make_operator("If", ("y",), {"then_branch": Graph((), ())}), ("which",))
    assert find_switch(one) is None
