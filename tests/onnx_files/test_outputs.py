"""Initializers, Constants and inputs that are outputs of the graph: after a rewrite no two outputs are one value."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import graphshare as gs
from graphshare.errors import RefusedError

NUMBERS = np.arange(8, dtype=np.float32)


def value(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, [8])


def write(folder: Path, *outputs: str) -> Path:
    """x times an initializer w, a Constant c and an initializer w2 that equals w."""
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(NUMBERS + 1)),
        helper.make_node("Mul", ["x", "w"], ["y"]),
        helper.make_node("Mul", ["y", "c"], ["z"]),
        helper.make_node("Add", ["z", "w2"], ["last"]),
    ]
    weights = [numpy_helper.from_array(NUMBERS, name) for name in ("w", "w2")]
    graph = helper.make_graph(
        nodes, "g", [value("x")], [value(name) for name in ("last", *outputs)], weights
    )
    path = folder / "model.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path
    )
    onnx.checker.check_model(str(path), full_check=True)
    return path


def compute(path: Path) -> dict[str, np.ndarray]:
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    assert len(set(names)) == len(names)
    return dict(
        zip(
            names,
            session.run(None, {one.name: NUMBERS - 3 for one in session.get_inputs()}),
            strict=True,
        )
    )


@pytest.mark.parametrize("output", ["w", "c", "x"])
@pytest.mark.parametrize("mode", ["copy", "tie"])
def test_a_branch_has_outputs_of_its_own(output: str, mode: str, tmp_path: Path) -> None:
    """What is an output stays a copy also in tie mode, unless it is asked for."""
    path, out = write(tmp_path, output), tmp_path / "out.onnx"
    gs.save(gs.duplicate(path, "b_", mode=mode), out)  # type: ignore[arg-type]
    wanted, found = compute(path), compute(out)
    assert list(found) == ["last", output, "b_last", f"b_{output}"]
    assert all(
        np.array_equal(found[prefix + name], array)
        for name, array in wanted.items()
        for prefix in ("", "b_")
    )


@pytest.mark.parametrize("name", ["w", "c"])
def test_a_tied_parameter_is_one_output_or_none(name: str, tmp_path: Path) -> None:
    path, out = write(tmp_path, name), tmp_path / "out.onnx"
    with pytest.raises(RefusedError, match=f"two outputs would be the value '{name}'") as refusal:
        gs.duplicate(path, "b_", mode="tie", choices=[("tie", name)])
    assert "gs.extract" in refusal.value.faults[0].hint
    gs.save(gs.duplicate(path, "b_", mode="tie", choices=[("tie", name)], drop_original=True), out)
    assert list(compute(out)) == ["b_last", name]
    part = gs.extract(path, "last")
    gs.save(gs.duplicate(part, "b_", mode="tie", choices=[("tie", name)]), out)
    assert list(compute(out)) == ["last", "b_last"]


def test_a_shared_input_is_one_output(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="two outputs would be the value 'x'"):
        gs.duplicate(write(tmp_path, "x"), "b_", mode="tie", share_inputs="x")


def test_aliases_of_outputs(tmp_path: Path) -> None:
    for outputs in (["w", "w2"], ["w2"]):
        with pytest.raises(
            RefusedError, match="'w2' would become 'w', but it is an output of the graph"
        ):
            gs.share(write(tmp_path, *outputs), aliases={"w2": "w"})
    out = tmp_path / "out.onnx"
    gs.save(gs.share(write(tmp_path, "w2"), aliases={"w": "w2"}), out)
    assert np.array_equal(compute(out)["w2"], NUMBERS)


def test_all_such_outputs_are_named(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as refusal:
        gs.duplicate(
            write(tmp_path, "w", "c"), "b_", mode="tie", choices=[("tie", "w"), ("tie", "c")]
        )
    assert [fault.node for fault in refusal.value.faults] == ["w", "c"]


def test_a_file_that_repeats_an_output_is_rewritten_as_it_is(tmp_path: Path) -> None:
    model = onnx.load(write(tmp_path, "y"))
    model.graph.output.append(model.graph.output[1])
    onnx.save(model, tmp_path / "twice.onnx")
    gs.save(gs.rename(tmp_path / "twice.onnx", prefix="b_"), tmp_path / "out.onnx")
    assert [output.name for output in onnx.load(tmp_path / "out.onnx").graph.output] == [
        "b_last",
        "b_y",
        "b_y",
    ]
