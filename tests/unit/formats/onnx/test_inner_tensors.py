"""Tensors inside operators, functions and training information whose data is in another file:
listed, moved and changed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    helper,
    numpy_helper,
)

from graphshare.errors import InputError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.inner_tensors import (
    change_inner_tensors,
    list_inner_tensors,
    list_outside_graph,
    move_inner_data,
)
from graphshare.formats.onnx.messages import rewrite_message
from graphshare.formats.onnx.protobuf import Message, encode_field
from graphshare.formats.onnx.stored import FileRange, MemoryFile, OnnxFile, Span
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.ir.graph import Graph

FLOAT = TensorProto.FLOAT


def outside(start: int) -> TensorProto:
    """Return two floats from a byte of ``w.bin`` on."""
    tensor = TensorProto(data_type=FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "w.bin"), ("offset", str(start)), ("length", "8")):
        tensor.external_data.add(key=key, value=value)
    return tensor


def constant(output: str, value: TensorProto) -> NodeProto:
    return helper.make_node("Constant", [], [output], value=value)


def body(name: str, nodes: list[NodeProto], result: str) -> GraphProto:
    return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(result, FLOAT, [2])])


def make_model() -> ModelProto:
    """Return a model with data in ``w.bin``: at 0 and 8 that of the graph, from 16 bodies, 32 a
    function, 64 training.
    """
    inner = numpy_helper.from_array(np.array([1, 2], "f4"))
    branches = (
        body("t", [constant("t", outside(16))], "t"),
        body("e", [constant("e", outside(24))], "e"),
    )
    choose = helper.make_node(
        "If", ["flag"], ["chosen"], then_branch=branches[0], else_branch=branches[1]
    )
    many = helper.make_node(
        "Many", [], ["many"], domain="f", tensors=[inner, outside(8)], alpha=1.0
    )
    nodes = [
        constant("a", outside(0)),
        constant("b", inner),
        many,
        choose,
        helper.make_node("F", [], ["y"], domain="f"),
    ]
    ends = (
        [helper.make_tensor_value_info("flag", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("y", FLOAT, [2])],
    )
    deep = helper.make_node("If", ["c"], ["z"], then_branch=body("u", [constant("u", outside(32))], "u"),
                            else_branch=body("v", [constant("v", inner)], "v"))  # fmt: skip
    deep.attribute[0].g.initializer.append(outside(40))
    sparse = helper.make_sparse_tensor(inner, numpy_helper.from_array(np.array([0, 1], "i8")), [4])
    function = helper.make_function(
        "f", "F", [], ["z"], [constant("c", outside(48)), deep], [helper.make_opsetid("", 17)]
    )
    function.node.append(helper.make_node("Constant", [], ["s"], sparse_value=sparse))
    function.attribute_proto.append(helper.make_attribute("k", outside(56)))
    plain = helper.make_function(
        "f", "G", [], ["z"], [constant("z", inner)], [helper.make_opsetid("", 17)]
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("f", 1)]
    model = helper.make_model(
        helper.make_graph(nodes, "g", *ends), opset_imports=opsets, functions=[plain, function]
    )
    model.metadata_props.add(key="location", value="of no data")
    training = model.training_info.add()
    training.initialization.CopyFrom(body("i", [constant("i", outside(64))], "i"))
    training.algorithm.CopyFrom(body("j", [constant("j", outside(72))], "j"))
    training.algorithm.sparse_initializer.append(sparse)
    return model


def read(folder: Path, model: ModelProto | bytes) -> Graph:
    path = folder / "model.onnx"
    path.write_bytes(model if isinstance(model, bytes) else model.SerializeToString())
    with open_source(str(path)) as source:
        return decode_model(OnnxFile(source, seeks_data=False))


def test_every_tensor_is_listed_with_its_operator(tmp_path: Path) -> None:
    graph = read(tmp_path, make_model())
    found = [
        (each.name, each.place.start, each.node is not None and each.node.op)
        for each in list_inner_tensors(graph)
    ]
    in_graph = [
        ("a", 0, "Constant"),
        ("many", 8, "Many"),
        ("t", 16, "Constant"),
        ("e", 24, "Constant"),
    ]
    apart = [
        ("u", 32, False),
        ("z", 40, False),
        ("c", 48, False),
        ("", 56, False),
        ("i", 64, False),
        ("j", 72, False),
    ]
    assert sorted(found[:4], key=lambda each: each[1]) == in_graph
    # protobuf may write fields in any order
    assert sorted(found[4:], key=lambda each: each[1]) == apart
    assert [(each.name, each.place.start) for each in list_outside_graph(graph)] == [
        each[:2] for each in found[4:]
    ]
    assert all(each.place.end - each.place.start == 8 for each in list_inner_tensors(graph))


def test_data_moves_and_all_else_stays(tmp_path: Path) -> None:
    model = make_model()
    graph = read(tmp_path, model)
    assert move_inner_data(graph, {}) is graph
    data = np.array([5, 6], "f4").tobytes()
    held = Span(MemoryFile(data), 0, 8)
    path = str(tmp_path / "w.bin")
    moves = {
        FileRange(path, start, start + 8): ("other.bin", start + 100, start + 108)
        for start in range(0, 80, 8)
    }
    changed = move_inner_data(
        graph, {**moves, FileRange(path, 8, 16): held, FileRange(path, 40, 48): held}
    )
    written = onnx.load_from_string(b"".join(encode_graph_file(changed).pieces()))
    expected = make_model()
    for tensor in list_tensors(expected):
        if tensor.external_data:
            start = int(tensor.external_data[1].value)
            if start in (8, 40):
                tensor.CopyFrom(TensorProto(data_type=FLOAT, dims=[2], raw_data=data))
            else:
                tensor.external_data[0].value, tensor.external_data[1].value = (
                    "other.bin",
                    str(start + 100),
                )
    assert written == expected


def plain_model() -> ModelProto:
    return helper.make_model(
        body("g", [constant("y", numpy_helper.from_array(np.array([1, 2], "f4")))], "y")
    )


def list_tensors(model: ModelProto) -> list[TensorProto]:
    """Return the tensors of nodes, functions and training information."""
    tensors: list[TensorProto] = []
    graphs = [
        model.graph,
        *(part for each in model.training_info for part in (each.initialization, each.algorithm)),
    ]
    nodes = [*model.functions[0].node, *model.functions[1].node]
    attributes = [*model.functions[1].attribute_proto]
    while graphs or nodes or attributes:
        for graph in graphs:
            nodes += graph.node
            tensors += graph.initializer
        graphs = []
        attributes += [attribute for node in nodes for attribute in node.attribute]
        nodes = []
        for attribute in attributes:
            tensors += [attribute.t] if attribute.HasField("t") else attribute.tensors
            graphs += [attribute.g] if attribute.HasField("g") else []
        attributes = []
    return tensors


@pytest.mark.parametrize("enters_bodies", [False, True])
def test_operators_that_are_concerned_are_changed(enters_bodies: bool, tmp_path: Path) -> None:
    graph = read(tmp_path, make_model())
    seen: list[int] = []

    def change(span: Span) -> Message:
        tensor = TensorProto.FromString(span.read())
        seen.append(int(tensor.external_data[1].value) if tensor.external_data else -1)
        return rewrite_message(span, {})

    change_inner_tensors(graph, change, lambda node: False, enters_bodies=enters_bodies)
    assert seen == []
    change_inner_tensors(graph, change, lambda node: node.op == "If", enters_bodies=enters_bodies)
    assert sorted(seen) == ([16, 24] if enters_bodies else [])
    seen.clear()
    change_inner_tensors(
        graph, change, lambda node: node.op == "Constant", enters_bodies=enters_bodies
    )
    assert sorted(seen) == [-1, 0, 16, 24]
    seen.clear()
    change_inner_tensors(
        graph, change, lambda node: node.op == "Many" or not node.op, enters_bodies=enters_bodies
    )
    assert seen == [-1, 8]


def nest(levels: int, end: bytes) -> bytes:
    """Return a function with bodies in bodies, whose last attribute is ``end``; the function itself is level 0."""
    attribute = end
    for _ in range(levels):
        attribute = encode_field(1, b"k") + encode_field(
            6, encode_field(1, encode_field(5, attribute))
        )
    held = AttributeProto(name="value", t=outside(8)).SerializeToString()
    return (
        encode_field(1, b"F")
        + encode_field(7, encode_field(5, attribute))
        + encode_field(7, encode_field(5, held))
    )


def test_200_levels_of_messages_are_moved_and_more_are_refused(tmp_path: Path) -> None:
    # Attributes are at the levels 2, 5 and so on.
    for end, is_refused in (
        (encode_field(1, b"k"), False),
        (encode_field(1, b"k") + encode_field(6, b""), True),
    ):
        graph = read(tmp_path, plain_model().SerializeToString() + encode_field(25, nest(66, end)))
        moves = {FileRange(str(tmp_path / "w.bin"), 8, 16): ("v.bin", 0, 8)}
        assert [each.place.start for each in list_outside_graph(graph)] == [8]
        if is_refused:
            with pytest.raises(InputError, match="messages are nested deeper than 200 levels"):
                move_inner_data(graph, moves)
        else:
            written = read(
                tmp_path, b"".join(encode_graph_file(move_inner_data(graph, moves)).pieces())
            )
            assert [each.place.external[0][1] for each in list_outside_graph(written)] == ["v.bin"]


def test_a_function_that_is_damaged_is_refused_with_its_place(tmp_path: Path) -> None:
    model = plain_model().SerializeToString()
    function = encode_field(1, b"location") + encode_field(7, b"\x2a\x09")
    with pytest.raises(InputError, match=f"byte {len(model) + 3 + len(function) - 2}"):
        list(list_outside_graph(read(tmp_path, model + encode_field(25, function))))
