"""The comparison of a written file with its graph: what is proved without decoding is what decoding finds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import onnx
import onnx.parser
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper

import graphshare as gs
from graphshare.errors import SelfCheckError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx import read_back
from graphshare.formats.onnx.attributes import Attributes, ReadGraph
from graphshare.formats.onnx.node_fields import NodeKind, NodeReader, encode_names
from graphshare.formats.onnx.stored import OnnxFile
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.ir.graph import Graph
from graphshare.ir.rebuild import rebuild_graph

NAMES = ["x", "a" * 10, 'quote"in', "tab\tin", "b" * 18, "c" * 26, "d" * 34, "ü" * 70, "y" * 200]
"""Lengths that are tags of fields, bytes that are, and lengths of two bytes."""


def write(folder: Path, names: list[str]) -> Path:
    """Write a chain of operators whose values have these names; return its path."""
    nodes = [
        helper.make_node("Add", [one, "weight"], [other], f"label {other}"[:60], axis=0) if number % 2 else
        helper.make_node("Clip", [one, "", "weight"], [other])
        for number, (one, other) in enumerate(pairwise(names))
    ]  # fmt: skip
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1])
        for name in (names[0], names[-1])
    ]
    weight = helper.make_tensor("weight", TensorProto.FLOAT, [1], b"\0\0\x80?", raw=True)
    inner = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in names[1:-1]]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight], value_info=inner)
    path = folder / "model.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    return path


def find(path: Path, graph: Graph) -> str:
    """Return the faults of a file that was written from a graph; empty without one."""
    try:
        read_back.check_written(str(path), graph, where="here")
    except SelfCheckError as error:
        return str(error)
    return ""


def proves(path: Path, graph: Graph) -> bool:
    with open_source(str(path)) as source:
        return read_back.reads_back(OnnxFile(source, seeks_data=False), graph)


@pytest.mark.parametrize("names", [NAMES, NAMES[:3]])
def test_names_of_any_bytes_are_read_and_follow(names: list[str], tmp_path: Path) -> None:
    graph = gs.rename(gs.load(write(tmp_path, names)), prefix="b_").graph
    written = tmp_path / "out.onnx"
    written.write_bytes(b"".join(encode_graph_file(graph).pieces()))
    assert proves(written, graph)
    nodes = onnx.load(written).graph.node
    assert [node.output[0] for node in nodes] == [f"b_{name}" for name in names[1:]]
    assert [node.input[0] for node in nodes] == [f"b_{name}" for name in names[:-1]]


@pytest.mark.parametrize("label", ["", "a label", "l" * 128, "ü" * 64])
@pytest.mark.parametrize(
    "names", [["x"], ["x", "", "i" * 127], ["i" * 128, "ü", "x"], ["ü" * 63, "ü" * 64]]
)
def test_names_of_a_node_are_encoded_as_protobuf_does(names: list[str], label: str) -> None:
    node = onnx.NodeProto(input=names, output=names[::-1], **{"name": label} if label else {})
    assert encode_names(names, names[::-1], label) == node.SerializeToString()


def test_what_is_proved_without_decoding_is_what_decoding_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = gs.load(write(tmp_path, NAMES[:4])).graph
    graph = gs.duplicate(source, "b_").graph
    data = b"".join(encode_graph_file(graph).pieces())
    changed, proved = tmp_path / "changed.onnx", []
    for place in range(len(data)):
        for mask in (1, 0x80):
            changed.write_bytes(data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :])
            if proves(changed, graph):
                proved.append(changed.read_bytes())
    assert 0 < len(proved) < len(data)  # values of weights and types are not compared
    monkeypatch.setattr(read_back, "reads_back", lambda *_: False)
    for content in proved:
        changed.write_bytes(content)
        assert not find(changed, graph)


@pytest.mark.parametrize(
    "task", ["names", "operator", "label", "attribute", "shape", "output", "order", "missing"]
)
def test_a_file_of_another_graph_is_refused(task: str, tmp_path: Path) -> None:
    graph = gs.rename(gs.load(write(tmp_path, NAMES[:4])), prefix="b_").graph
    model = onnx.load_from_string(b"".join(encode_graph_file(graph).pieces()))
    written = tmp_path / "out.onnx"
    written.write_bytes(model.SerializeToString())
    assert not find(written, graph)
    nodes = model.graph.node
    if task == "names":
        nodes[1].input[0] = nodes[0].input[0]
    elif task == "operator":
        nodes[1].op_type = "Sub"
    elif task == "label":
        nodes[1].name = "other"
    elif task == "attribute":
        nodes[1].attribute[0].i = 1
    elif task == "shape":
        model.graph.initializer[0].dims[:] = [1, 1]
    elif task == "output":
        model.graph.output[0].name = nodes[0].output[0]
    elif task == "order":
        first = onnx.NodeProto()
        first.CopyFrom(nodes[0])
        del nodes[0]
        nodes.append(first)
    else:
        del nodes[-1]
    written.write_bytes(model.SerializeToString())
    assert not proves(written, graph)
    assert find(written, graph)


def encode(graph: Graph) -> bytes:
    return b"".join(encode_graph_file(graph).pieces())


def save(folder: Path, model: onnx.ModelProto) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_attributes_that_are_copied_are_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = gs.load(write(tmp_path, [*"xabcdy"])).graph
    graph, written = gs.rename(source, prefix="b_").graph, tmp_path / "out.onnx"
    written.write_bytes(encode(graph))
    read, calls = NodeReader.read_attributes, list[str]()

    def count(self: NodeReader, kind: NodeKind, read_graph: ReadGraph) -> Attributes:
        calls.append(kind.op)
        return read(self, kind, read_graph)

    monkeypatch.setattr(NodeReader, "read_attributes", count)
    assert proves(written, graph)
    assert calls == []
    changed, _ = rebuild_graph(graph, lambda node: replace(node, attrs=dict(node.attrs)))
    assert proves(written, changed)
    assert set(calls) == {"Add"}
    model = onnx.load(written)
    model.graph.node[1].attribute[0].doc_string = "text"
    written.write_bytes(model.SerializeToString())
    assert not proves(written, graph)
    assert "what node says of" in find(written, graph)


def test_data_in_other_files_is_compared_by_its_place(tmp_path: Path) -> None:
    tensor = TensorProto(data_type=TensorProto.FLOAT, dims=[1], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.bin")
    (tmp_path / "w.bin").write_bytes(bytes(4))
    model = onnx.load(write(tmp_path, NAMES[:3]))
    model.graph.node.insert(0, helper.make_node("Constant", [], ["k"], value=tensor))
    graph = gs.rename(gs.load(save(tmp_path, model)).graph, prefix="b_").graph
    written = tmp_path / "out.onnx"
    written.write_bytes(encode(graph))
    assert proves(written, graph)
    assert not find(written, graph)
    written.write_bytes(encode(graph).replace(b"w.bin", b"v.bin"))
    assert not proves(written, graph)
    assert "what node says of" in find(written, graph)


def test_initializers_are_compared_however_they_are_stored(tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path, NAMES[:3]))
    model.graph.initializer[0].CopyFrom(helper.make_tensor("weight", TensorProto.FLOAT, [1], [1.0]))
    values, indices = (
        helper.make_tensor(name, kind, [1], [1]) for name, kind in (("s", 1), ("i", 7))
    )
    for has_sparse in (False, True):
        if has_sparse:
            model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [4]))
        graph = gs.rename(gs.load(save(tmp_path, model)).graph, prefix="b_").graph
        written = tmp_path / "out.onnx"
        written.write_bytes(encode(graph))
        assert proves(written, graph) != has_sparse
        assert not find(written, graph)
        other = onnx.load(written)
        other.graph.initializer[0].data_type, other.graph.initializer[0].int32_data[:] = (
            TensorProto.INT32,
            [1],
        )
        other.graph.initializer[0].ClearField("float_data")
        written.write_bytes(other.SerializeToString())
        message = "variable reads back as ('initializer', (1,), 6, 1), expected ('initializer', (1,), 1, 4)"
        assert message in find(written, graph)
        with open_source(str(written)) as source:
            assert not [*read_back._find_differences(source, graph, ["b_weight"])]


def test_a_name_of_two_values_is_left_to_decoding(tmp_path: Path) -> None:
    graph = gs.load(write(tmp_path, NAMES[:4])).graph
    first, second = [node for node in graph.nodes if node.op][:2]
    details = replace(second.details, outputs=first.details.outputs)
    twice, images = rebuild_graph(
        graph, lambda node: replace(node, details=details) if node is second else node
    )
    written = tmp_path / "out.onnx"
    written.write_bytes(encode(twice))
    assert images[second].details.outputs == first.details.outputs
    assert not proves(written, twice)


def test_another_number_of_operators_and_other_outputs_are_named(tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path, NAMES[:4]))
    model.graph.node.append(helper.make_node("Neg", ["x"], ["unused"]))
    graph = gs.load(save(tmp_path, model)).graph
    del model.graph.node[-1]
    path = save(tmp_path, model)
    assert "a graph has a different number of operators" in find(path, graph)
    graph = gs.load(path).graph
    model.graph.node.append(helper.make_node("Neg", ["x"], ["unused"]))
    assert "a graph has a different number of operators" in find(save(tmp_path, model), graph)
    del model.graph.node[-1]
    model.graph.output[0].name = NAMES[1]
    assert f"the outputs read back as [{NAMES[1]!r}], expected [{NAMES[3]!r}]" in find(
        save(tmp_path, model), graph
    )


def test_what_bodies_capture_is_compared(tmp_path: Path) -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, float[2] z, bool c) => (float[2] y) {
        a = Relu(x) y = If(c) <then_branch = t () => (float[2] d) { e = Neg(a) d = Add(e, z) },
            else_branch = e () => (float[2] f) { f = Identity(a) }> }"""
    model = onnx.parser.parse_model(text)
    graph = gs.rename(gs.load(save(tmp_path, model)).graph, prefix="b_").graph
    written = tmp_path / "out.onnx"
    written.write_bytes(encode(graph))
    assert not proves(written, graph)
    assert not find(written, graph)
    other = onnx.load(written)
    other.graph.node[1].attribute[0].g.node[0].input[0] = "b_x"
    written.write_bytes(other.SerializeToString())
    assert "reads back as ('Neg', " in find(written, graph)
