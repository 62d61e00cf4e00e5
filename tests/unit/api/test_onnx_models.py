"""ONNX models through the functions of the library: what works on them, and what is refused by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import RefusedError

FLOAT = TensorProto.FLOAT


def value(name: str, shape: object = ("n", 4)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, FLOAT, shape)


def make_model() -> onnx.ModelProto:
    """Return a model with unnamed nodes, an absent input, two outputs of one node, and subgraphs that capture outer values."""
    rng = np.random.default_rng(0)
    inner = helper.make_graph(
        [helper.make_node("Add", ["h", "k"], ["inner"])],
        "inner",
        [],
        [value("inner", None)],
        [numpy_helper.from_array(np.ones(4, "f"), "k")],
    )
    other = helper.make_graph([helper.make_node("Sub", ["h", "scale"], ["less"])], "other", [], [value("less", None)])
    otherwise = helper.make_graph(
        [helper.make_node("If", ["flag"], ["nested"], then_branch=inner, else_branch=other)],
        "else",
        [],
        [value("nested", None)],
    )
    then = helper.make_graph([helper.make_node("Mul", ["h", "scale"], ["more"], name="mul")], "then", [], [value("more", None)])
    nodes = [
        helper.make_node("MatMul", ["x", "fc.weight"], ["mm"], name="fc"),
        helper.make_node("Add", ["mm", "fc.bias"], ["h"]),
        helper.make_node("Clip", ["h", "", "top"], ["clipped"], name="clip"),
        helper.make_node("ReduceSum", ["x"], ["sum"], keepdims=0),
        helper.make_node("Greater", ["sum", "zero"], ["flag"], name="greater"),
        helper.make_node("If", ["flag"], ["y"], name="cond", then_branch=then, else_branch=otherwise),
        helper.make_node("Split", ["clipped"], ["left", "right"], name="split", axis=1, num_outputs=2),
        helper.make_node("Concat", ["right", "left"], ["z"], name="cat", axis=1),
    ]
    tensors = {
        "fc.weight": rng.normal(size=(4, 4)).astype("f"),
        "fc.bias": rng.normal(size=4).astype("f"),
        "top": np.float32(0.7),
        "scale": np.float32(2),
        "zero": np.float32(0),
    }
    graph = helper.make_graph(
        nodes,
        "main",
        [value("x")],
        [value("y"), value("z")],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
        value_info=[value("h"), value("mm")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model)
    return model


@pytest.fixture
def path(tmp_path: Path) -> Path:
    target = tmp_path / "model.onnx"
    onnx.save(make_model(), target)
    return target


def run(path: Path, x: np.ndarray) -> list[np.ndarray]:
    import onnxruntime

    onnx.checker.check_model(str(path))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {node.name: x for node in session.get_inputs()})


@pytest.mark.parametrize("mode", ["tie", "copy"])
def test_branches_compute_the_same(path: Path, tmp_path: Path, mode: str) -> None:
    result = gs.duplicate(gs.load(path), ["b-", "c-"], mode=mode)
    out = tmp_path / "siam.onnx"
    gs.save(result, out)
    graph = onnx.load(out).graph
    assert len(graph.initializer) == (5 if mode == "tie" else 15)
    assert [node.name for node in graph.node].count("") == 6  # unnamed nodes stay unnamed
    for sign in (1, -1):
        x = sign * np.random.default_rng(1).uniform(0.1, 1, (2, 4)).astype("f")
        expected = run(path, x)
        outputs = run(out, x)
        assert all(np.array_equal(a, b) for a, b in zip(expected * 3, outputs, strict=True))
    assert gs.verify(gs.load(out), prefixes=["b-", "c-"])


def test_an_inverse_rename_gives_the_same_bytes(path: Path, tmp_path: Path) -> None:
    renamed, back = tmp_path / "renamed.onnx", tmp_path / "back.onnx"
    gs.save(gs.rename(gs.load(path), prefix="net/"), renamed, map=tmp_path / "map.json")
    model = onnx.load(renamed)
    assert {node.name for node in model.graph.node if node.name} >= {"net/fc", "net/clip"}
    assert [output.name for output in model.graph.output] == ["net/y", "net/z"]
    gs.save(gs.rename(gs.load(renamed), map=tmp_path / "map.json", inverse=True), back)
    assert back.read_bytes() == path.read_bytes()


def test_what_needs_operators_is_refused_by_name(path: Path, tmp_path: Path) -> None:
    model = gs.load(path)
    for refused in (
        lambda: gs.duplicate(model, "b-", mode="batch"),
        lambda: gs.upgrade(model),
        lambda: gs.fold(model),
        lambda: gs.run(model),
        lambda: gs.export(model, tmp_path / "x.onnx"),
        lambda: gs.train(model, steps=1),
        lambda: gs.bind(model),
    ):
        with pytest.raises(RefusedError, match="not those of ONNX"):
            refused()
