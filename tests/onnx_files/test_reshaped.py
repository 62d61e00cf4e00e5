"""Weights of equal bytes wherever they stand and whatever their shape: found by ``detect``, tied
when asked, every bit kept.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

import graphshare as gs
from tests.onnx_files.mutable import build, declare, node
from tests.onnx_files.running import Session
from tests.processes import done, graphshare

pytest.importorskip("onnxruntime")
WEIGHT = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


def tensor(name: str, values: np.ndarray = WEIGHT) -> TensorProto:
    return numpy_helper.from_array(np.ascontiguousarray(values), name)


def constant(name: str) -> NodeProto:
    return node("Constant", "", name, value=tensor(name))


def body(name: str, *nodes: NodeProto, weights: tuple[TensorProto, ...] = ()) -> GraphProto:
    multiply = node("MatMul", f"x {name}", f"{name}_out")
    return helper.make_graph(
        [*nodes, multiply], name, [], [declare(f"{name}_out", ("N", 16))], weights
    )


def nested(flat: np.ndarray | None = None) -> ModelProto:
    """One weight in a Constant, in a body's Constant, in a body's initializer, and flat in an initializer."""
    branches = {
        "then_branch": body("inner", weights=(tensor("inner"),)),
        "else_branch": body("other", constant("other")),
    }
    nodes = [
        constant("outer"),
        node("MatMul", "data outer", "x"),
        node("If", "which", "y", **branches),
        node("Mul", "flat flat", "square"),
    ]
    inputs = [declare("data", ("N", 16)), declare("which", (1,), TensorProto.BOOL)]
    first = tensor("flat", WEIGHT.reshape(4, 64) if flat is None else flat)
    return build(
        nodes,
        inputs,
        [declare("y", ("N", 16)), declare("square", first.dims, first.data_type)],
        [first],
    )


def write(path: Path, model: ModelProto) -> Path:
    onnx.checker.check_model(model, full_check=True)
    path.write_bytes(model.SerializeToString())
    return path


def compare(left: Path, right: Path) -> None:
    sessions = [
        Session(path.read_bytes(), optimize=optimize)
        for path in (left, right)
        for optimize in (False, True)
    ]
    for rows, which in itertools.product((1, 5), (False, True)):
        data = np.random.default_rng(rows).standard_normal((rows, 16)).astype(np.float32)
        results = [session.run({"data": data, "which": np.array([which])}) for session in sessions]
        for before, after in zip(results[:2], results[2:], strict=True):
            assert [value.tobytes() for value in before.values()] == [
                value.tobytes() for value in after.values()
            ]


def test_detect_lists_equal_bytes_in_constants_bodies_and_other_shapes(tmp_path: Path) -> None:
    source = write(tmp_path / "a.onnx", nested())
    found = gs.detect(source)
    assert [(one.why, one.names, one.options) for one in found] == [
        ("values", ["outer", "other", "inner"], ["--alias other=outer", "--alias inner=outer"]),
        ("bytes", ["outer", "flat"], ["--alias flat=outer"]),
    ]
    aliases = dict(
        option.removeprefix("--alias ").split("=") for one in found for option in one.options
    )
    tied = gs.share(source, aliases=aliases)
    assert tied.notes == ()
    gs.save(tied, tmp_path / "b.onnx")
    model = onnx.load(tmp_path / "b.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert model.SerializeToString().count(WEIGHT.tobytes()) == 1
    compare(source, tmp_path / "b.onnx")


@pytest.mark.parametrize("kept", ["outer", "inner", "other"])
def test_a_reshape_of_what_stays_wherever_that_is(kept: str, tmp_path: Path) -> None:
    source = write(tmp_path / "a.onnx", nested())
    tied = gs.share(source, aliases={"flat": kept})
    assert [(one.name, one.to) for one in tied.report.ties.tied] == [("flat", kept)]
    gs.save(tied, tmp_path / "b.onnx")
    onnx.checker.check_model(tmp_path / "b.onnx", full_check=True)
    assert (tmp_path / "b.onnx").read_bytes().count(WEIGHT.tobytes()) == 3
    compare(source, tmp_path / "b.onnx")


def test_an_output_can_be_a_reshape(tmp_path: Path) -> None:
    model = nested()
    model.graph.output.append(declare("flat", (4, 64)))
    source = write(tmp_path / "a.onnx", model)
    gs.save(gs.share(source, aliases={"flat": "outer"}), tmp_path / "b.onnx")
    onnx.checker.check_model(tmp_path / "b.onnx", full_check=True)
    compare(source, tmp_path / "b.onnx")


def test_unequal_weights_can_be_tied_along(tmp_path: Path) -> None:
    """Only the Reshape is proved: a tie of other values is what was asked for, and is noted as ever."""
    model = nested()
    (inner,) = (one.g for one in model.graph.node[2].attribute if one.name == "then_branch")
    inner.initializer[0].CopyFrom(tensor("inner", 2 * WEIGHT))
    source = write(tmp_path / "a.onnx", model)
    tied = gs.share(source, aliases={"flat": "outer", "inner": "outer"})
    assert [(one.name, one.to) for one in tied.report.ties.tied] == [
        ("flat", "outer"),
        ("inner", "outer"),
    ]
    assert [note.partition(" in ")[0] for note in tied.notes] == [
        "'inner' and 'outer' have different values"
    ]
    gs.save(tied, tmp_path / "b.onnx", map=tmp_path / "map.json")
    entries = json.loads((tmp_path / "map.json").read_text())["entries"]
    assert {
        e["from"]["name"]: e["to"]["name"]
        for e in entries
        if e["from"]["name"] in ("flat", "inner")
    } == {"flat": "outer", "inner": "outer"}
    onnx.checker.check_model(tmp_path / "b.onnx", full_check=True)


STAY = {
    "other bytes": nested(np.nextafter(WEIGHT, np.float32(9)).reshape(4, 64)),
    "another dtype": nested(WEIGHT.view(np.int32).reshape(4, 64)),
    "another size": nested(WEIGHT[:8]),
}


@pytest.mark.parametrize("name", STAY)
def test_what_is_not_tied(name: str, tmp_path: Path) -> None:
    source = write(tmp_path / "a.onnx", STAY[name])
    assert [one.why for one in gs.detect(source)] == ["values"]
    with pytest.raises(gs.RefusedError, match="'flat' and 'outer' cannot be one"):
        gs.share(source, aliases={"flat": "outer"})


def test_small_arrays_and_arrays_of_one_number_stay(tmp_path: Path) -> None:
    small = [tensor("a", WEIGHT[0]), tensor("b", WEIGHT[0].reshape(4, 4))]
    zeros = [tensor("c", np.zeros((8, 8), np.float32)), tensor("d", np.zeros((4, 16), np.float32))]
    nodes = [node("Neg", one.name, f"{one.name}_out") for one in (*small, *zeros)]
    outputs = [declare(f"{one.name}_out", one.dims) for one in (*small, *zeros)]
    source = write(tmp_path / "a.onnx", build(nodes, [], outputs, [*small, *zeros]))
    assert gs.detect(source) == []
    with pytest.raises(gs.RefusedError, match="they have shapes 4x4 and 16"):
        gs.share(source, aliases={"b": "a"})


def test_a_table_and_its_transpose_are_listed(tmp_path: Path) -> None:
    nodes = [node("Gather", "table ids", "embedded"), node("MatMul", "embedded head", "logits")]
    weights = [tensor("table", WEIGHT[:, :8]), tensor("head", WEIGHT[:, :8].T)]
    model = build(
        nodes, [declare("ids", ("N",), TensorProto.INT64)], [declare("logits", ("N", 16))], weights
    )
    write(tmp_path / "a.onnx", model)
    run = done(graphshare("share", "a.onnx", "--detect", cwd=tmp_path))
    assert (
        run.stdout.decode()
        == "a table and its transpose, 8x16 float32: head, table\n  --transposed\n"
    )
    listed = json.loads(
        done(graphshare("share", "a.onnx", "--detect", "--format", "json", cwd=tmp_path)).stdout
    )
    assert [(one["why"], one["options"]) for one in listed["candidates"]] == [
        ("transpose", ["--transposed"])
    ]
