"""What a graph keeps of its file: bytes in pieces, names that are taken, and sources that are joined and compared."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest
from msgspec.structs import replace

from graphshare.files.open_source import open_source
from graphshare.formats.onnx import stored
from graphshare.formats.onnx.compose import make_source
from graphshare.formats.onnx.messages import keep_field
from graphshare.formats.onnx.protobuf import Message
from graphshare.formats.onnx.stored import (
    FUNCTION,
    OPSET,
    TRAINING,
    FileRange,
    MemoryFile,
    OnnxFile,
    OnnxSource,
    Span,
    find_stored,
    get_source,
    read_metadata,
)
from graphshare.ir.graph import EMPTY, Entry, Graph, Node, NodeDetails, Source
from tests.onnx_files.composed import Operator, model


@pytest.mark.parametrize("large", [5, 30, 31, 1000])
def test_bytes_are_read_in_pieces(
    large: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored, "_LARGE", large)
    monkeypatch.setattr(stored, "_CHUNK", 8)
    data = bytes(range(30))
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    with open_source(str(path)) as source:
        file = OnnxFile(source)
    is_whole = large > 30
    assert isinstance(file.data, bytes) == is_whole
    assert (file.folder, file.real_folder, file.size, file.held) == (
        str(tmp_path),
        str(tmp_path),
        30,
        b"",
    )
    for start, end, sizes in (
        (0, 8, [8]),
        (3, 11, [8]),
        (3, 12, [8, 1]),
        (3, 30, [8, 8, 8, 3]),
        (4, 4, [0]),
    ):
        span = Span(file, start, end)
        pieces = [bytes(piece) for piece in span.pieces()]
        assert [len(piece) for piece in pieces] == ([end - start] if is_whole else sizes)
        assert (b"".join(pieces), span.read(), span.size) == (
            data[start:end],
            data[start:end],
            end - start,
        )
        assert FileRange("", start, end).size == end - start
    again = pickle.loads(pickle.dumps(file))
    assert isinstance(again.data, bytes) == is_whole
    assert again.data[3:9] == data[3:9]
    memory = MemoryFile(data)
    assert (memory.size, memory.held, memory.sizes, memory.folder, memory.seeks_data) == (
        30,
        data,
        {},
        "",
        False,
    )


def make(
    opsets: Mapping[str, int], metadata: Mapping[str, str] = EMPTY, version: int = 8
) -> OnnxSource:
    return make_source("g", opsets, version, metadata=metadata)


def with_field(source: OnnxSource, number: int, text: bytes) -> OnnxSource:
    message = Message()
    message.add_bytes(1, text)
    return replace(source, fields=(*source.fields, (number, keep_field(number, message))))


def show(source: OnnxSource) -> list[tuple[int, bytes]]:
    return [(number, span.read()) for number, span in source.fields]


def test_a_joined_source_has_what_each_has() -> None:
    first = with_field(make({"": 17, "a": 1}, {"k": "v", "both": "first"}), FUNCTION, b"f")
    second = with_field(
        with_field(make({"": 16, "b": 2}, {"both": "second", "new": "w"}, 9), FUNCTION, b"f"),
        FUNCTION,
        b"g",
    )
    joined = first.after_join([second, Source()])
    assert joined.opsets == {"": 17, "a": 1, "b": 2}
    assert joined.ir_version == 9
    fields = show(joined)
    opset = next(
        span.read() for number, span in second.fields if number == OPSET and b"b" in span.read()
    )
    version = next(span.read() for number, span in second.fields if number == 1)
    metadata = [
        span
        for number, span in second.fields
        if number == stored.METADATA and read_metadata(span)[0] == "new"
    ]
    own = [field for field in show(first) if field[0] != 1]
    assert fields == [
        *own,
        (1, version),
        (OPSET, opset),
        show(second)[-1],
        (stored.METADATA, metadata[0].read()),
    ]
    assert show(second.after_join([first])) == [
        *show(second),
        *(
            field
            for field in show(first)
            if (field[0] == OPSET and b"a" in field[1]) or b"\x01k" in field[1]
        ),
    ]
    same = first.after_join([first])
    assert (show(same), same.opsets, same.ir_version) == (show(first), first.opsets, 8)
    # A domain that a damaged model imports twice.
    twice = replace(
        second, fields=(*second.fields, *(field for field in second.fields if field[0] == OPSET))
    )
    assert [number for number, _ in show(first.after_join([twice]))].count(OPSET) == 2


def test_what_differs_between_sources_and_is_lost() -> None:
    first = make({"": 17, "a": 1, "c": 3}, {"k": "v", "same": "s", "graphshare.sha256": "1"})
    second = make(
        {"": 16, "a": 1, "b": 2}, {"k": "w", "same": "s", "new": "n", "graphshare.sha256": "2"}
    )
    hint, other = (
        "`align=True` brings the older model up, with a proof",
        "export both models with one version of it",
    )
    assert list(first.mismatches(second)) == [
        ("operator set ai.onnx is 17 in one and 16 in the other", hint)
    ]
    assert list(second.mismatches(make({"b": 3}))) == [
        ("operator set b is 2 in one and 3 in the other", other)
    ]
    assert list(first.mismatches(first)) == list(first.mismatches(Source())) == []
    assert first.describe() == "ONNX (IR 8, opset ai.onnx 17, a 1, c 3)"
    assert make({}).describe() == "ONNX (IR 8, opset missing)"


def test_notes_on_a_source() -> None:
    source = make({"": 17})
    path = source.file.path
    assert list(source.list_notes()) == []
    assert list(replace(source, is_ordered=False).list_notes()) == [
        f"{path}: its fields are not in protobuf's own order; a rewritten model has them in that order"
    ]
    assert list(with_field(source, TRAINING, b"").list_notes()) == [
        f"{path}: its training information is kept as it is, with the names that values had there"
    ]


def test_parts_labels_and_names_of_a_graph() -> None:
    operators = [
        Operator("Relu", ("x",), ("y",), label="relu"),
        Operator("Constant", (), ("k",), {"value_int": 1}, label="constant"),
        Operator("Neg", ("y",), ("z",)),
        Operator("Split", ("x",), ("", "q")),
    ]
    graph = model("g", operators, {"x": ("float32", (1,))}, {"z": ("float32", (1,))})
    source = get_source(graph)
    assert source.count_parts(graph.nodes) == {"node": 4, "initializer": 0}
    held = Node("", "w", num_outputs=1, details=NodeDetails("", ("w",), holds_value=True))
    assert source.count_parts([held, *graph.nodes[:1]]) == {"node": 0, "initializer": 1}
    assert {node.op: label for node, label in source.list_labels(graph).items()} == {"Relu": "relu"}
    assert list(source.name_faults(graph)) == []
    relu, neg = graph.nodes[1], graph.nodes[3]
    clash = replace(neg, details=replace(neg.details, outputs=("y",)))
    twice = replace(graph, nodes=(*graph.nodes[:3], clash, *graph.nodes[4:]))
    hint = "choose another name or prefix, or rename one of them first"
    assert list(source.name_faults(twice)) == [
        ("two values would be called 'y', and a name stands for one value", hint, clash)
    ]
    heads = replace(graph, heads=(Entry(relu), Entry(neg), Entry(relu)))
    ((message, _, node),) = source.name_faults(heads)
    assert (message, node) == (
        "two outputs would be the value 'y', and outputs need different names",
        relu,
    )
    assert list(replace(source, heads=heads.heads).name_faults(heads)) == []
    assert get_source(Graph((), ())).ir_version == 0
    assert find_stored(NodeDetails()).node is None
