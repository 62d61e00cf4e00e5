"""ONNX files that are cut short, lie about sizes, nest deeply or point out of their directory: clear errors only."""

from __future__ import annotations

import os
import random
import resource
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

import graphshare as gs
from graphshare import confined_process
from graphshare.execute.backends import session_computation
from graphshare.formats.onnx import inference
from tests.fuzz.readers import READERS
from tests.fuzz.reads import change
from tests.fuzz.sandbox import run_one
from tests.onnx_files.made import MADE, write_made

MEMORY = 256 << 20


def read(path: Path) -> str:
    """Return the message of the refusal of a file; empty where it is read, duplicated and saved."""
    try:
        gs.save(gs.duplicate(gs.load(path), "b_", mode="tie"), path.with_name("out.onnx"))
    except gs.GraphshareError as error:
        return str(error.faults[0])
    return ""


@pytest.mark.parametrize("name", [name for name in MADE if name != "external"])
def test_a_file_that_is_cut_short_is_refused(name: str) -> None:
    data = MADE[name]().SerializeToString()
    assert not any(READERS["onnx"].read_or_refuse(data[:size]) for size in range(_graph_end(data)))


def _graph_end(data: bytes) -> int:
    """Return the size from which on the graph is whole: what follows it may be missing."""
    model = onnx.load_from_string(data)
    graph = model.graph.SerializeToString()
    return data.index(graph) + len(graph)


def nested(depth: int) -> onnx.ModelProto:
    """If within If; made as bytes, for the library has a limit too."""
    body = helper.make_graph(
        [helper.make_node("Neg", ["data"], ["deepest"])],
        "g",
        [],
        [onnx.ValueInfoProto(name="deepest")],
    )
    for level in range(depth):
        node = helper.make_node(
            "If",
            ["flag"],
            [f"v{level}"],
            then_branch=body,
            else_branch=body if level == 0 else None,
        )
        body = helper.make_graph([node], "g", [], [onnx.ValueInfoProto(name=f"v{level}")])
    ends = [
        helper.make_tensor_value_info("data", 1, [1]),
        helper.make_tensor_value_info("flag", TensorProto.BOOL, []),
    ]
    graph = helper.make_graph(body.node, "main", ends, body.output)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_subgraphs_are_read_up_to_a_depth(tmp_path: Path) -> None:
    path = tmp_path / "deep.onnx"
    path.write_bytes(nested(20).SerializeToString())
    assert not read(path)
    graph = b""  # a GraphProto (6) in an attribute (5) of a node (1), a thousand times: more than the library writes
    for _ in range(1000):
        graph = _field(1, _field(4, b"If") + _field(5, _field(6, graph)))
    path.write_bytes(_field(7, graph))
    assert "nested deeper than" in read(path)


def _field(number: int, data: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _length(data) + data


def _length(data: bytes) -> bytes:
    size, out = len(data), b""
    while size > 127:
        out += bytes((size & 127 | 128,))
        size >>= 7
    return out + bytes((size,))


def point_outside(folder: Path) -> dict[str, str]:
    """Return locations that leave the directory of the model, with files where they lead to."""
    (folder.parent / "w.bin").write_bytes(bytes(64))
    (folder / "sub").mkdir()
    os.symlink(folder.parent / "w.bin", folder / "link.bin")
    os.symlink(folder.parent, folder / "out")
    return {
        "dots": "../w.bin", "dots within": "sub/../../w.bin", "absolute": str(folder.parent / "w.bin"), "link": "link.bin",
        "linked folder": "out/w.bin", "backslash": "..\\w.bin", "null": "w.bin\0", "empty": "",
        "folder": "sub", "device": "/dev/zero",
    }  # fmt: skip


def test_external_data_stays_in_the_directory(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for what, location in point_outside(folder).items():
        model = MADE["external"]()
        model.graph.initializer[0].external_data[0].value = location
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        message = read(folder / "model.onnx")
        assert "external data" in message, what
        assert 'node "w"' in message, what
    assert not (folder / "out.onnx").exists()


def lie_in_external(key: str, value: str) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = MADE["external"]()
        for pair in model.graph.initializer[0].external_data:
            pair.value = value if pair.key == key else pair.value
        return model

    return make


def lie_in_shape(*shape: int) -> Callable[[], onnx.ModelProto]:
    def make() -> onnx.ModelProto:
        model = MADE["dense"]()
        model.graph.initializer[0].dims[:] = shape
        return model

    return make


LIES = {
    "negative offset": lie_in_external("offset", "-16"),
    "offset that is no number": lie_in_external("offset", "1e3"),
    "huge offset": lie_in_external("offset", "9" * 5000),
    "length beyond the file": lie_in_external("length", str(1 << 60)),
    "other length": lie_in_external("length", "15"),
    "shape too large": lie_in_shape(1 << 40, 1 << 20),
    "shape beyond numbers": lie_in_shape(*[1 << 62] * 30),
    "negative shape": lie_in_shape(-1, 4),
    "other shape": lie_in_shape(2, 3),
    "many dimensions": lie_in_shape(*[1] * 100_000),
}


@pytest.mark.parametrize("name", LIES)
def test_sizes_that_lie_are_refused_without_taking_memory(name: str, tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(48))
    path = tmp_path / "model.onnx"
    path.write_bytes(LIES[name]().SerializeToString())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert read(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 16 << 10
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize(
    "length", [b"\xff\xff\xff\xff\x7f", b"\xff" * 9 + b"\x01", b"\x80" * 40, b"\x80"]
)
def test_lengths_that_lie_are_refused(length: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(b"\x08\x08\x3a" + length)
    assert ": byte " in read(path)


def test_a_sparse_initializer_that_is_broken_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(_field(7, _field(15, _field(1, _field(8, b"w")) + b"\x12\x09ab")))
    assert ": byte " in read(path)


def test_an_annotation_that_is_broken_is_refused_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    for broken in (b"\x12\x09ab", b"\x0d\0\0\0\0", b"\x80"):
        path.write_bytes(
            _field(
                7,
                _field(11, _field(1, b"data")) + _field(14, _field(1, b"data") + _field(2, broken)),
            )
        )
        assert ": byte " in read(path)


def test_a_type_that_is_broken_is_not_known(tmp_path: Path) -> None:
    model = MADE["dense"]()
    before, stated, after = model.SerializeToString().rpartition(
        model.graph.value_info[0].type.SerializeToString()
    )
    (tmp_path / "net.onnx").write_bytes(before + stated.replace(b"\x08\x01", b"\x0a\x00") + after)
    shaped = gs.inspect(tmp_path / "net.onnx", shapes={}).shaped
    assert shaped is not None
    assert {value.name: value.dtype for value in shaped.outputs} == {
        "data": "float32", "w": "float32", "h": None, "r": "float32", "out": "float32"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("op", "domain", "attributes"),
    [
        ("EyeLike", "", {"dtype": 1}),
        ("RegexFullMatch", "", {"pattern": "x"}),
        ("LabelEncoder", "ai.onnx.ml", {"keys_floats": [1.0], "values_int64s": [1]}),
        ("DictVectorizer", "ai.onnx.ml", {"string_vocabulary": ["a"]}),
        (
            "TreeEnsemble",
            "ai.onnx.ml",
            {"nodes_splits": numpy_helper.from_array(np.ones(1, np.float32))},
        ),
    ],
)
@pytest.mark.parametrize("where", ["graph", "body", "function", "blank", "earlier"])
def test_operators_of_unknown_types_do_not_end_the_process(
    op: str, domain: str, attributes: dict[str, object], where: str, tmp_path: Path
) -> None:
    """ONNX's inference reads the type of an input that has none."""
    strange = helper.make_node("Strange", ["data"], ["f"], domain="x")
    node = helper.make_node(
        op, ["" if where == "blank" else "f"], ["y"], "node", domain=domain, **attributes
    )
    data, flag = (
        helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("data", "flag")
    )
    ends = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
    nodes, functions = [strange, node], []
    imports = [
        helper.make_opsetid(name, version)
        for name, version in (("", 22), ("x", 1), ("ai.onnx.ml", 5), ("own", 1))
    ]
    if where == "body":
        body = helper.make_graph([node], "body", [], ends)
        nodes = [
            strange,
            helper.make_node("If", ["flag"], ["y"], then_branch=body, else_branch=body),
        ]
    elif where == "function":
        functions = [helper.make_function("own", "Own", ["data"], ["y"], nodes, imports)]
        nodes = [helper.make_node("Own", ["data"], ["y"], domain="own")]
    elif where == "earlier":
        nodes = [node, strange]
    graph = helper.make_graph(nodes, "main", [data, flag], ends)
    model = helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=10)
    (tmp_path / "net.onnx").write_bytes(model.SerializeToString())

    path = tmp_path / "net.onnx"
    with suppress(gs.RefusedError):
        gs.inspect(path, shapes={})
    assert gs.check(path).findings  # the process that ended is replaced


_EXAMPLES = {
    defs.OpSchema.AttrType.INT: 1, defs.OpSchema.AttrType.FLOAT: 1.0, defs.OpSchema.AttrType.STRING: "x",
    defs.OpSchema.AttrType.INTS: [1], defs.OpSchema.AttrType.FLOATS: [1.0], defs.OpSchema.AttrType.STRINGS: ["x"],
    defs.OpSchema.AttrType.TENSOR: numpy_helper.from_array(np.ones(1, np.float32)),
}  # fmt: skip


@pytest.mark.large
def test_no_operator_of_unknown_types_ends_the_process() -> None:
    """Every operator with each of its attributes alone, and with all."""
    cases = []
    for schema in defs.get_all_schemas_with_history():
        known = {
            name: _EXAMPLES[each.type]
            for name, each in schema.attributes.items()
            if each.type in _EXAMPLES
        }
        cases += [
            (schema, chosen)
            for chosen in ({}, known, *({name: value} for name, value in known.items()))
        ]

    ended = set()
    for schema, attributes in cases:
        inputs = [f"in{i}" for i in range(schema.min_input)]
        outputs = [f"out{i}" for i in range(max(1, schema.min_output))]
        node = helper.make_node(schema.name, inputs, outputs, domain=schema.domain, **attributes)
        graph = helper.make_graph(
            [helper.make_node("Strange", [], inputs, domain="x"), node], "main", [], []
        )
        imports = [
            helper.make_opsetid(schema.domain, schema.since_version),
            helper.make_opsetid("x", 1),
        ]
        try:
            inference.infer_types(
                helper.make_model(graph, opset_imports=imports).SerializeToString()
            )
        except gs.InputError:  # errors of inference
            pass
        except gs.RefusedError as error:
            ended.add((schema.name, str(error)))
    assert len(cases) > 2000
    assert {message.partition(" (")[0] for _, message in ended} == {
        "ONNX's inference ended without an answer"
    }
    assert "EyeLike" in {name for name, _ in ended}


def test_types_are_inferred_one_after_the_other(tmp_path: Path) -> None:
    """Operators that end the process without a type of their input, each behind another one."""
    floats, numbers = [1.0, 2.0], [3, 4]
    nodes = [
        helper.make_node(
            "LabelEncoder",
            ["x"],
            ["a"],
            domain="ai.onnx.ml",
            keys_floats=floats,
            values_int64s=numbers,
        ),
        helper.make_node(
            "LabelEncoder",
            ["a"],
            ["b"],
            domain="ai.onnx.ml",
            keys_int64s=numbers,
            values_floats=floats,
        ),
        helper.make_node("EyeLike", ["b"], ["y"]),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(
        helper.make_graph(nodes, "main", [x], [y]), opset_imports=imports, ir_version=8
    )
    types = inference.infer_types(model.SerializeToString())
    assert {
        name: onnx.TypeProto.FromString(types[name]).tensor_type.elem_type for name in "aby"
    } == {"a": 7, "b": 1, "y": 1}


@pytest.mark.large
def test_changed_files_are_read_or_refused_in_little_memory() -> None:
    reader, chance, seeds = READERS["onnx"], random.Random(7), list(write_made().values())

    def attack(number: int) -> tuple[str, str]:
        return "done", str(
            sum(reader.read_or_refuse(change(chance, seeds, reader.words)) for _ in range(3000))
        )

    found = run_one(attack, 0, memory=MEMORY)
    assert found.status == "done", found.what
    assert int(found.what) > 100


def squares(side: int | str, *, says: int = 0) -> onnx.ModelProto:
    """The sum of ``side`` times ``side`` numbers; with ``says`` the file states other sizes of them."""
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Unsqueeze", ["x", "last"], ["column"]),
        helper.make_node("Mul", ["column", "x"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
    ]
    last = helper.make_tensor("last", TensorProto.INT64, [1], [1])
    stated = [value("big", 1, [says, says])] if says else []
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [side])], [value("y", 1, [])], [last], value_info=stated
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@pytest.mark.parametrize("says", [0, 10], ids=["unstated", "stated"])
@pytest.mark.parametrize("side", [40_000, "n"], ids=["fixed", "free"])
def test_where_a_process_has_no_limit_inferred_sizes_are_compared(
    says: int, side: int | str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_computation, "can_limit_process", lambda: False)
    monkeypatch.setattr(confined_process, "can_limit_process", lambda: False)
    path = tmp_path / "squares.onnx"
    path.write_bytes(squares(side, says=says).SerializeToString())
    with pytest.raises(
        gs.RefusedError, match=r"outputs of Mul \(40000,40000\) take 6\.4 GB.* the limit is 500"
    ):
        gs.run(path, feeds={"x": np.ones(40_000, "float32")}, max_memory="500M")
    path.write_bytes(squares("n", says=says).SerializeToString())
    assert gs.run(path, feeds={"x": np.ones(30, "float32")}, max_memory="500M").outputs["y"] == 900


@pytest.mark.parametrize("command", ["run", "compare", "fold"])
def test_inputs_are_not_drawn_beyond_the_limit(command: str, tmp_path: Path) -> None:
    """A model states the sizes of its inputs; these are drawn in this process."""
    value = helper.make_tensor_value_info
    norm = helper.make_node("BatchNormalization", ["conv", *"cccc"], ["norm"])
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["conv"]),
        norm,
        helper.make_node("ReduceMax", ["norm"], ["y"], keepdims=0),
    ]
    held = [helper.make_tensor("w", 1, [1, 1, 1, 1], [1]), helper.make_tensor("c", 1, [1], [1])]
    graph = helper.make_graph(
        nodes, "g", [value("x", 1, [1, 1, 40_000, 40_000])], [value("y", 1, [])], held
    )
    path = tmp_path / "model.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    limit: dict[str, Any] = {"max_memory": "500M"}
    compared = {"other": path, "resources": gs.Resources(**limit)}
    options = {"run": {"seed": 0, **limit}, "compare": compared, "fold": limit}[command]
    with pytest.raises(
        gs.RefusedError,
        match=r"\(node \"x\"\): the values \(1,1,40000,40000\) take 12\.8 GB to be drawn",
    ):
        getattr(gs, command)(path, **options)


def test_where_a_process_has_no_limit_drawn_sizes_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a model leaves open has a size as soon as its inputs are drawn."""
    monkeypatch.setattr(session_computation, "can_limit_process", lambda: False)
    path = tmp_path / "model.onnx"
    sides = helper.make_tensor("sides", TensorProto.INT64, [3], [20_000, 20_000, 1])
    value = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Expand", ["x", "sides"], ["big"]),
        helper.make_node("ReduceSum", ["big"], ["y"], keepdims=0),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", 1, [1, "n"])], [value("y", 1, [])], [sides])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    with pytest.raises(
        gs.RefusedError,
        match=r"outputs of Expand \(20000,20000,8\) take 12\.8 GB.* the limit is 500",
    ):
        gs.run(path, seed=0, max_memory="500M")
