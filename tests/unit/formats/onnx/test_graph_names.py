"""Names of values in bodies: they stay, unless a new name around them is in their way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.parser
import pytest

import graphshare as gs
from graphshare.checkpoint.model import Checkpoint

SHADOWS = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, int64 n, bool c) => (float[2] y) {
    a = Relu(x) y = Loop(n, c, a) <body = b (int64 i, bool go, float[2] x) => (bool on, float[2] a1)
    { on = Identity(go) y = Neg(x) a1 = Abs(y) }> }"""
"""A body whose input has the name of an input around it, and one of whose values that of its owner's output."""
READS = """<ir_version: 8, opset_import: ["" : 17]> g (float[2] x, bool c) => (float[2] z) {
    a = Relu(x) y = If(c) <then_branch = t () => (float[2] b) { n = Neg(a) b = Abs(n) },
      else_branch = e () => (float[2] late) { late = Abs(x) }>
    late = Neg(y) z = Abs(late) }"""
"""A body that reads ``a`` and has a value ``n``, and one with the name of a value that comes later."""


def write(folder: Path, text: str) -> Path:
    path = folder / "model.onnx"
    path.write_bytes(onnx.parser.parse_model(text).SerializeToString())
    return path


def list_names(graph: onnx.GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.input)
    for node in graph.node:
        for attribute in node.attribute:
            yield from list_names(attribute.g)
        yield from node.output


def save(model: Checkpoint, folder: Path, name: str = "out.onnx") -> list[str]:
    gs.save(model, folder / name)
    written = onnx.load(folder / name)
    onnx.checker.check_model(written)
    return list(list_names(written.graph))


@pytest.mark.parametrize("text", [SHADOWS, READS])
def test_names_of_bodies_stay(text: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    bodies = [
        list(list_names(a.g))
        for n in onnx.load(path).graph.node
        for a in n.attribute
        if a.HasField("g")
    ]
    renamed = gs.rename(path, prefix="p_")
    save(renamed, tmp_path)
    written = onnx.load(tmp_path / "out.onnx")
    assert [
        list(list_names(a.g)) for n in written.graph.node for a in n.attribute if a.HasField("g")
    ] == bodies
    assert renamed.notes == ()
    gs.save(gs.rename(tmp_path / "out.onnx", strip_prefix="p_"), tmp_path / "back.onnx")
    assert (tmp_path / "back.onnx").read_bytes() == path.read_bytes()


def test_a_value_gives_way_to_one_that_its_body_reads(tmp_path: Path) -> None:
    renamed = gs.rename(write(tmp_path, READS), names={"a": "n"})
    assert save(renamed, tmp_path) == ["x", "c", "n", "n_1", "b", "late", "y", "late", "z"]
    assert renamed.notes == (
        "value 'n' of a body is called 'n_1' now, because a value around it has its name",
    )
    renamed = gs.rename(tmp_path / "out.onnx", names={"n": "b", "x": "n_1"})
    assert save(renamed, tmp_path, "again.onnx") == [
        "n_1",
        "c",
        "b",
        "n_1_1",
        "b_1",
        "late",
        "y",
        "late",
        "z",
    ]


def test_an_operator_gives_way_to_a_value_before_its_body(tmp_path: Path) -> None:
    path = write(tmp_path, READS)
    renamed = gs.rename(path, names={"x": "b", "a": "late", "late": "a"})
    assert save(renamed, tmp_path) == ["b", "c", "late", "n", "b_1", "late_1", "y", "a", "z"]
    # The copy comes after all of the original, so that what was later is before it.
    copied = gs.duplicate(path, "q_")
    names = ["x", "c", "q_x", "q_c", "a", "n", "b", "late", "y", "late", "z"]
    assert save(copied, tmp_path) == [*names, "q_a", "n", "b", "late_1", "q_y", "q_late", "q_z"]


def test_an_input_of_a_body_stays_beside_a_new_name(tmp_path: Path) -> None:
    renamed = gs.rename(write(tmp_path, SHADOWS), names={"a": "go"})
    assert save(renamed, tmp_path) == ["x", "n", "c", "go", "i", "go", "x", "on", "y", "a1", "y"]
    assert renamed.notes == ()
