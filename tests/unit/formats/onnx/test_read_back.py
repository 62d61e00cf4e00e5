"""The comparison of a written file with its graph: what is proved without decoding is what decoding finds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import onnx
import pytest
from onnx import TensorProto, helper

import graphshare as gs
from graphshare.errors import SelfCheckError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx import read_back
from graphshare.formats.onnx.node_fields import encode_names
from graphshare.formats.onnx.stored import OnnxFile
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.ir.graph import Graph

NAMES = ["x", "a" * 10, 'quote"in', "tab\tin", "b" * 18, "c" * 26, "d" * 34, "ü" * 70, "y" * 200]
"""Lengths that are tags of fields, bytes that are, and lengths of two bytes."""


def write(folder: Path, names: list[str]) -> Path:
    """Write a chain of operators whose values have these names; return its path."""
    nodes = [
        helper.make_node("Add", [one, "weight"], [other], f"label {other}"[:60], axis=0) if number % 2 else
        helper.make_node("Clip", [one, "", "weight"], [other])
        for number, (one, other) in enumerate(pairwise(names))
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in (names[0], names[-1])]
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
@pytest.mark.parametrize("names", [["x"], ["x", "", "i" * 127], ["i" * 128, "ü", "x"], ["ü" * 63, "ü" * 64]])
def test_names_of_a_node_are_encoded_as_protobuf_does(names: list[str], label: str) -> None:
    node = onnx.NodeProto(input=names, output=names[::-1], **{"name": label} if label else {})
    assert encode_names(names, names[::-1], label) == node.SerializeToString()


def test_what_is_proved_without_decoding_is_what_decoding_finds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize("task", ["names", "operator", "label", "attribute", "shape", "output", "order", "missing"])
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
