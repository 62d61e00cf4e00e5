"""Functions of models that are joined: of one name and with different bodies they stay two."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import graphshare as gs

OPSETS = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]


def value(name: str, dtype: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, [2])


def function(name: str, *ops: tuple[str, str]) -> onnx.FunctionProto:
    """A chain of operators, each with its domain."""
    last = len(ops) - 1
    nodes = [
        helper.make_node(
            op, [f"v{i}" if i else "in"], ["out" if i == last else f"v{i + 1}"], domain=domain
        )
        for i, (op, domain) in enumerate(ops)
    ]
    return helper.make_function("own", name, ["in"], ["out"], nodes, OPSETS)


def write(path: Path, functions: Sequence[onnx.FunctionProto], *calls: str) -> Path:
    """A model that calls functions in a row, and the first one in a branch too."""
    nodes = [
        helper.make_node(name, [f"h{i}" if i else "x"], [f"h{i + 1}"], f"call {name}", domain="own")
        for i, name in enumerate(calls)
    ]
    last = f"h{len(calls)}"
    inner = helper.make_node(calls[0], [last], ["then"], domain="own")
    branches = [
        helper.make_graph([node], node.output[0], [], [value(node.output[0])])
        for node in (inner, helper.make_node("Identity", [last], ["else"]))
    ]
    nodes.append(
        helper.make_node("If", ["flag"], ["y"], then_branch=branches[0], else_branch=branches[1])
    )
    graph = helper.make_graph(
        nodes, "g", [value("x"), value("flag", TensorProto.BOOL)], [value("y")]
    )
    graph.input[1].type.tensor_type.shape.ClearField("dim")
    onnx.save(
        helper.make_model(graph, opset_imports=OPSETS, ir_version=9, functions=functions), path
    )
    return path


def run(path: Path, prefixes: Sequence[str] = ("",), **feeds: object) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    arrays = {"x": np.array([-1.5, 2], "f"), "flag": np.array(True)}
    return list(
        session.run(None, {p + name: array for p in prefixes for name, array in arrays.items()})
    )


ONE, OTHER = function("F", ("Neg", "")), function("F", ("Abs", ""))


@pytest.mark.parametrize(
    ("left", "right", "names"),
    [
        (([ONE], "F"), ([OTHER], "F"), {"F", "F_2"}),
        (([ONE], "F"), ([ONE], "F"), {"F"}),
        (([ONE, function("G", ("F", "own"), ("Floor", ""))], "G", "F"),
         ([OTHER, function("G", ("F", "own"), ("Floor", ""))], "G", "F"), {"F", "F_2", "G", "G_2"}),
        (([ONE, function("F_2", ("Exp", ""))], "F", "F_2"), ([OTHER, function("H", ("F", "own"))], "H"),
         {"F", "F_2", "F_3", "H"}),
    ],
    ids=["other body", "same body", "callers of another body", "names that are taken"],
)  # fmt: skip
def test_functions_of_one_name(
    left: tuple[Any, ...], right: tuple[Any, ...], names: set[str], tmp_path: Path
) -> None:
    paths = [
        write(tmp_path / f"{name}.onnx", *model) for name, model in (("a", left), ("b", right))
    ]
    whole, again = tmp_path / "whole.onnx", tmp_path / "again.onnx"
    made = gs.group(paths, prefixes=["", "b_"])
    gs.save(made, whole)
    onnx.checker.check_model(whole, full_check=True)
    assert {each.name for each in onnx.load(whole).functions} == names
    expected = [run(path)[0] for path in paths]
    np.testing.assert_array_equal(run(whole, ["", "b_"]), expected)
    gs.save(gs.rename(made, prefix="p_"), again)  # the bodies are written anew
    np.testing.assert_array_equal(run(again, ["p_", "p_b_"]), expected)
    assert any("function own.F is called" in note for note in made.notes) == (len(names) > 1)


def test_three_models(tmp_path: Path) -> None:
    caller = function("G", ("F", "own"), ("Floor", ""))
    models = [
        ([ONE, caller], "G", "F"),
        ([OTHER, caller], "G", "F"),
        ([OTHER, caller], "G", "F"),
        ([ONE, caller], "G", "F"),
    ]
    paths = [write(tmp_path / f"{i}.onnx", *model) for i, model in enumerate(models)]
    prefixes = ["", "b_", "c_", "d_"]
    gs.save(gs.group(paths, prefixes=prefixes), tmp_path / "whole.onnx")
    np.testing.assert_array_equal(
        run(tmp_path / "whole.onnx", prefixes), [run(path)[0] for path in paths]
    )
    assert {"F", "F_2", "G", "G_2"} <= {
        each.name for each in onnx.load(tmp_path / "whole.onnx").functions
    }


def test_a_caller_that_only_later_models_have(tmp_path: Path) -> None:
    caller = function("G", ("F", "own"), ("Floor", ""))
    models = [([ONE], "F"), ([OTHER, caller], "G"), ([ONE, caller], "G")]
    paths = [write(tmp_path / f"{i}.onnx", *model) for i, model in enumerate(models)]
    gs.save(gs.group(paths, prefixes=["", "b_", "c_"]), tmp_path / "whole.onnx")
    np.testing.assert_array_equal(
        run(tmp_path / "whole.onnx", ["", "b_", "c_"]), [run(path)[0] for path in paths]
    )


def test_an_operator_that_a_model_does_not_define_is_not_another_models_function(
    tmp_path: Path,
) -> None:
    paths = [write(tmp_path / "a.onnx", [ONE], "F"), write(tmp_path / "b.onnx", [], "F")]
    for order in (paths, paths[::-1]):
        graph = gs.group(order, prefixes=["", "b_"]).graph
        calls = [node.op for node in graph.nodes if node.op.startswith("F")]
        assert sorted(calls) == ["F", "F_2"]
        assert calls[order.index(paths[0])] == "F_2"
