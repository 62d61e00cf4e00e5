"""Data of a model that is written: what stays where it is, what is copied and where to, and what is refused."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from msgspec.structs import replace
from onnx import TensorProto, helper, numpy_helper, parser

from graphshare.errors import Fault, RefusedError
from graphshare.files.open_source import open_source
from graphshare.formats.onnx import external
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.external import (
    Placement,
    find_missing_data,
    list_external,
    list_outside,
)
from graphshare.formats.onnx.stored import FileRange, OnnxFile
from graphshare.formats.onnx.write import encode_graph_file
from graphshare.formats.params.records import Origin, ParameterFile, Record
from graphshare.ir.graph import Graph
from graphshare.ir.onnx import Tensor
from tests.onnx_files.composed import model

MIB = 1 << 20


def outside(name: str, start: int, size: int = 8, location: str = "w.bin") -> TensorProto:
    tensor = TensorProto(
        name=name, data_type=TensorProto.FLOAT, dims=[size // 4], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", location), ("offset", str(start)), ("length", str(size))):
        tensor.external_data.add(key=key, value=value)
    return tensor


def read(
    folder: Path, tensors: Sequence[TensorProto], constant: TensorProto | None = None
) -> Graph:
    graph = parser.parse_graph("g (float[1] x) => (float[1] y) { y = Relu(x) }")
    graph.initializer.extend(tensors)
    if constant is not None:
        graph.node.insert(0, helper.make_node("Constant", [], ["k"], value=constant))
    folder.mkdir(exist_ok=True)
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph), path)
    with open_source(str(path)) as source:
        return decode_model(OnnxFile(source, seeks_data=False))


def show(placement: Placement) -> list[tuple[str, int, int, int]]:
    """Return the parts of the file beside the model: name, begin and end where they are now, and where they go."""
    return [
        (os.path.basename(data.path), data.start, data.end, offset) if isinstance(data, FileRange) else
        (data.key or "", data.offset, data.dense_size, offset)
        for data, offset in placement.outside
    ]  # fmt: skip


def write(placement: Placement, graph: Graph) -> dict[str, tuple[str, str, str]]:
    """Return where the tensors of a written model say that their data is."""
    message = encode_graph_file(placement.move_inner(graph), placement.make_encoder(None))
    written = onnx.load_from_string(b"".join(message.pieces()))
    tensors = [
        *written.graph.initializer,
        *(node.attribute[0].t for node in written.graph.node if node.attribute),
    ]
    pairs = {tensor.name: [pair.value for pair in tensor.external_data] for tensor in tensors}
    return {name: (each[0], each[1], each[2]) for name, each in pairs.items() if each}


def test_data_stays_where_the_model_can_reach_it(tmp_path: Path) -> None:
    tensors = [outside("a", 0), outside("b", 8), outside("c", 0)]
    graph = read(tmp_path / "m", tensors, outside("", 16))
    same = Placement(graph, str(tmp_path / "m" / "other.onnx"))
    assert (same.outside, same.size, same.beside, same.has_external) == ([], 0, "", False)
    stated = {
        "a": ("w.bin", "0", "8"),
        "b": ("w.bin", "8", "8"),
        "c": ("w.bin", "0", "8"),
        "": ("w.bin", "16", "8"),
    }
    assert write(same, graph) == stated
    above = Placement(graph, str(tmp_path / "other.onnx"))
    assert (above.outside, above.size, above.beside, above.has_external) == ([], 0, "", True)
    assert write(above, graph) == {
        name: (f"m/{where}", *rest) for name, (where, *rest) in stated.items()
    }
    inner = Placement(read(tmp_path / "m", [], outside("", 16)), str(tmp_path / "other.onnx"))
    assert inner.has_external


def test_data_that_cannot_be_reached_is_copied_once(tmp_path: Path) -> None:
    sizes = {
        "a": (0, 8),
        "b": (8, 100),
        "c": (0, 8),
        "d": (200, MIB - 4),
        "e": (2 * MIB, MIB),
        "f": (4 * MIB, 8),
    }
    graph = read(
        tmp_path / "m", [outside(name, *place) for name, place in sizes.items()], outside("", 0)
    )
    target = tmp_path / "n" / "other.onnx"
    placement = Placement(graph, str(target))
    ends = -(-(192 + MIB - 4) // 4096) * 4096
    assert show(placement) == [
        ("w.bin", 0, 8, 0),
        ("w.bin", 8, 108, 64),
        ("w.bin", 200, 200 + MIB - 4, 192),
        ("w.bin", 2 * MIB, 3 * MIB, ends),
        ("w.bin", 4 * MIB, 4 * MIB + 8, ends + MIB),
    ]
    assert placement.size == ends + MIB + 8
    assert placement.beside == f"{target}.data"
    name = "other.onnx.data"
    assert write(placement, graph) == {
        "a": (name, "0", "8"),
        "b": (name, "64", "100"),
        "c": (name, "0", "8"),
        "d": (name, "192", str(MIB - 4)),
        "e": (name, str(ends), str(MIB)),
        "f": (name, str(ends + MIB), "8"),
        "": (name, "0", "8"),
    }
    with pytest.raises(RefusedError) as raised:
        Placement(graph, str(target), no_copy=True)
    (fault,) = raised.value.faults
    assert fault.message == "2.1 MB of w.bin would have to be copied, and `no_copy` forbids that"
    assert fault.where == str(target)
    assert not Placement(graph, str(tmp_path / "m" / "other.onnx"), no_copy=True).outside


def test_every_user_but_the_first_has_a_copy(tmp_path: Path) -> None:
    graph = read(
        tmp_path / "m",
        [outside(name, start) for name, start in (("a", 0), ("b", 8), ("c", 0), ("d", 0))],
    )
    placement = Placement(graph, str(tmp_path / "m" / "other.onnx"), copies="copy")
    assert show(placement) == [("w.bin", 0, 8, 0), ("w.bin", 0, 8, 64)]
    own, name = ("w.bin", "0", "8"), "other.onnx.data"
    assert write(placement, graph) == {
        "a": own,
        "b": ("w.bin", "8", "8"),
        "c": (name, "0", "8"),
        "d": (name, "64", "8"),
    }


def exported() -> Graph:
    return model("g", [], {"x": ("float32", (1,))}, {}, {name: Tensor("float32", (size,), None) for name, size in
                                                        (("a", 256), ("b", 255), ("c", 300))})  # fmt: skip


def index(folder: Path, **changes: object) -> ParameterFile:
    path = folder / "w.params"
    path.write_bytes(bytes(4000))
    rows = [("a", 256, 100), ("b", 255, 1200), ("c", 300, 2400)]
    records = [
        Record(name, (size,), "float32", "V2", start, 4 * size, start, 4 * size)
        for name, size, start in rows
    ]
    records[2] = replace(records[2], **changes)
    return ParameterFile(str(path), 4000, "params", tuple(records), True)


def test_large_parameters_go_beside_the_model(tmp_path: Path) -> None:
    graph, target = exported(), str(tmp_path / "model.onnx")
    placement = Placement(graph, target, index(tmp_path), weights="external")
    assert show(placement) == [("a", 100, 1024, 0), ("c", 2400, 1200, 1024)]
    assert (placement.size, placement.embedded, placement.files) == (2224, [], ())
    assert placement.beside == f"{target}.data"
    embedded = Placement(graph, target, index(tmp_path))
    assert (embedded.outside, embedded.has_external, embedded.embedded, embedded.files) == (
        [],
        False,
        [],
        (),
    )
    assert embedded.records.keys() == {"a", "b", "c"}
    with pytest.raises(RefusedError, match="is an initializer without a value") as raised:
        Placement(graph, target, replace(index(tmp_path), records=index(tmp_path).records[:1]))
    assert [fault.node for fault in raised.value.faults] == ["b", "c"]
    with pytest.raises(RefusedError):
        Placement(graph, target)


@pytest.mark.parametrize(
    "changes",
    [
        {"storage": "csr"},
        {"fortran_order": True},
        {"big_endian": True},
        {"data_offset": None},
        {"origin": Origin("c")},
    ],
)
def test_parameters_stay_in_their_file_where_onnx_can_read_them(
    changes: dict[str, object], tmp_path: Path
) -> None:
    graph, target = exported(), str(tmp_path / "model.onnx")
    placement = Placement(graph, target, index(tmp_path), weights="params")
    assert (placement.embedded, placement.outside) == ([], [])
    assert placement.files == (str(tmp_path / "w.params"),)
    assert {node.name: where for node, where in placement._places.items()} == {
        "a": ("w.params", 100, 1124),
        "c": ("w.params", 2400, 3600),
    }
    other = Placement(graph, target, index(tmp_path, **changes), weights="params")
    assert other.embedded == ["c"]
    assert [node.name for node in other._places] == ["a"]


def test_records_of_other_files_and_arrays(tmp_path: Path) -> None:
    origin = replace(index(tmp_path), path=str(tmp_path / "v.params"))
    (tmp_path / "v.params").write_bytes(bytes(4000))
    placement = Placement(
        exported(),
        str(tmp_path / "model.onnx"),
        index(tmp_path, origin=Origin("c", origin)),
        weights="params",
    )
    assert placement.files == (str(tmp_path / "w.params"), str(tmp_path / "v.params"))
    held = numpy_helper.from_array(np.zeros(300, "f4"), "c")
    graph = read(tmp_path / "m", [held, numpy_helper.from_array(np.zeros(2, "f4"), "b")])
    for array, size in ((np.ones(300, "f4"), 300), (np.ones(255, "f4"), 255)):
        record = Record(
            "c",
            (size,),
            "float32",
            "",
            0,
            4 * size,
            None,
            4 * size,
            origin=Origin("c", array=array),
        )
        file = ParameterFile("", 0, "onnx", (record, replace(record, key="b", origin=None)), True)
        placement = Placement(graph, str(tmp_path / "model.onnx"), file, weights="params")
        assert placement.records == {"c": record}
        assert placement.embedded == (["c"] if size == 300 else [])


def test_where_onnx_allows_a_parameter_file(tmp_path: Path) -> None:
    (tmp_path / "m" / "deep").mkdir(parents=True)
    for path in ("m/w", "m/deep/w", "w", "m/twice"):
        (tmp_path / path).write_bytes(b"")
    folder = str(tmp_path / "m")
    assert external._locate(str(tmp_path / "m" / "w"), folder) == "w"
    assert external._locate(str(tmp_path / "m" / "deep" / "w"), folder) == "deep/w"
    os.link(tmp_path / "m" / "twice", tmp_path / "m" / "again")
    for path, message in {
        str(
            tmp_path / "w"
        ): "is neither in the directory of the model nor below it, and ONNX allows no other place",
        str(tmp_path / "m" / "twice"): "has several hard links, which ONNX does not allow",
        "https://host/w": "is at a URL, or the model will be",
    }.items():
        fault = external._locate(path, folder)
        assert isinstance(fault, Fault)
        assert (fault.message, fault.where) == (message, path)
    assert isinstance(external._locate(str(tmp_path / "m" / "w"), "https://host/m"), Fault)
    file = replace(index(tmp_path), path=str(tmp_path / "w"))
    with pytest.raises(RefusedError, match="is neither in the directory of the model nor below it"):
        Placement(exported(), str(tmp_path / "m" / "model.onnx"), file, weights="params")


def test_missing_data_is_named(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    path = tmp_path / "m" / "w.bin"
    path.write_bytes(bytes(16))
    graph = read(
        tmp_path / "m",
        [outside("a", 0), outside("b", 8), outside("c", 9), outside("d", 0, 8, "v.bin")],
        outside("", 16),
    )
    assert [(node.name, place.start) for node, place in list_external(graph)] == [
        ("a", 0),
        ("b", 8),
        ("c", 9),
        ("d", 0),
    ]
    owners = [*(f"initializer {name!r}" for name in "abcd"), "a tensor of operator 'k'"]
    assert [owner for owner, _, _ in list_outside(graph)] == owners
    missing = [
        (each.owners, each.node is not None and each.node.op, each.reason)
        for each in find_missing_data(graph)
    ]
    assert missing == [
        (f"{owners[2]}, {owners[4]}", "", f"{path} has 16 bytes, and the data ends at byte 24"),
        (owners[3], "", f"{tmp_path / 'm' / 'v.bin'} does not exist"),
    ]
