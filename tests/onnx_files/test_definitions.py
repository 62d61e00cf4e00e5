"""Fused operators are compared by their definitions, sums before normalizations too; approximations define nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import graphshare as gs
from tests.onnx_files.test_weights import Node, build, compare

pytest.importorskip("onnxruntime")

_DOMAIN = "com.microsoft"
_STATISTICS = {"g": np.arange(1, 5, dtype="f"), "b": np.ones(4, "f"), "c": np.full(4, 0.5, "f")}


def make_norm(
    nodes: Sequence[onnx.NodeProto], epsilon: float, opset: int, outputs: Sequence[str]
) -> onnx.ModelProto:
    """Return a model of two inputs with the numbers that definitions of normalizations need."""
    numbers = {
        **_STATISTICS,
        "two": np.float32(2),
        "epsilon": np.float32(epsilon),
        "axes": np.array([-1]),
    }
    ends = [
        [helper.make_tensor_value_info(n, 1, shape) for n in names]
        for names, shape in (("xs", ["n", 3, 4]), (outputs, None))
    ]
    read = {name for node in nodes for name in node.input}
    weights = [
        numpy_helper.from_array(np.asarray(array), name)
        for name, array in numbers.items()
        if name in read
    ]
    graph = helper.make_graph(nodes, "g", *ends, weights)
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(_DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def divide_by_root(value: str, output: str, opset: int) -> list[onnx.NodeProto]:
    """Return what divides a value by the root of its mean square."""
    is_input = opset >= 18
    axes: dict[str, Any] = {} if is_input else {"axes": [-1]}
    return [
        helper.make_node("Pow", [value, "two"], ["square"]),
        helper.make_node(
            "ReduceMean", ["square", *(["axes"] if is_input else [])], ["mean"], **axes
        ),
        helper.make_node("Add", ["mean", "epsilon"], ["more"]),
        helper.make_node("Sqrt", ["more"], ["root"]),
        helper.make_node("Div", [value, "root"], ["normal"]),
        helper.make_node("Mul", ["normal", "g"], [output]),
    ]


def make_pair(kind: str, opset: int, epsilon: float) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    """Return a normalization by plain operators, with an epsilon of 1e-3, and the fused one with its own."""
    add, bias = (
        helper.make_node("Add", ["x", "s"], ["z"]),
        helper.make_node("Add", ["p", "c"], ["z"]),
    )
    norm = helper.make_node("LayerNormalization", ["z", "g", "b"], ["y"], epsilon=1e-3)
    rooted = [add, *divide_by_root("x", "h", opset), helper.make_node("Add", ["h", "s"], ["y"])]
    with_bias = [helper.make_node("Add", ["x", "s"], ["p"]), bias]
    plain, op, inputs, outputs = {
        "simplified": (rooted, "", ["x", "g"], ["h"]),
        "skip": ([add, norm], "Skip", ["x", "s", "g", "b"], ["y", "", "", "z"]),
        "skip and bias": ([*with_bias, norm], "Skip", ["x", "s", "g", "b", "c"], ["y", "", "", "z"]),
        "simplified skip": ([add, *divide_by_root("z", "y", opset)], "SkipSimplified", ["x", "s", "g"], ["y", "", "", "z"]),
        "simplified skip and bias": (
            [*with_bias, *divide_by_root("z", "y", opset)], "SkipSimplified", ["x", "s", "g", "c"], ["y", "", "", "z"]
        ),
    }[kind]  # fmt: skip
    domain = _DOMAIN if op else ""
    fused = [
        helper.make_node(
            f"{op or 'Simplified'}LayerNormalization",
            inputs,
            outputs,
            domain=domain,
            epsilon=epsilon,
        )
    ]
    fused = fused if op else [add, *fused, plain[-1]]
    return make_norm(plain, 1e-3, opset, ["y", "z"]), make_norm(fused, epsilon, opset, ["y", "z"])


@pytest.mark.parametrize("opset", [17, 18])
@pytest.mark.parametrize(
    "kind", ["simplified", "skip", "skip and bias", "simplified skip", "simplified skip and bias"]
)
def test_normalizations_are_compared_by_their_definitions(
    kind: str, opset: int, tmp_path: Path
) -> None:
    """The sum that is normalized is an output of its own."""
    plain, fused = make_pair(kind, opset, 1e-3)
    report = compare(tmp_path, plain, fused)
    assert report.rung == "by weights", report.verdict
    assert compare(tmp_path, plain, make_pair(kind, opset, 0.25)[1]).outcome == "not equal"


def test_outputs_without_a_definition_keep_their_operator(tmp_path: Path) -> None:
    """The mean is an output that the definition does not have: samples decide."""
    plain, fused = make_pair("skip", 17, 1e-3)
    fused.graph.node[0].output[1] = "mean"
    report = compare(tmp_path, plain, fused)
    assert report.rung.startswith("on "), report.verdict


_TANH: Sequence[Node] = [
    ("Mul", "x x", "xx", {}), ("Mul", "xx x", "cube", {}), ("Mul", "cube a", "small", {}), ("Add", "x small", "sum", {}),
    ("Mul", "sum b", "scaled", {}), ("Tanh", "scaled", "t", {}), ("Add", "t one", "share", {}), ("Mul", "x share", "twice", {}),
    ("Mul", "twice half", "y", {}),
]  # fmt: skip
_ERF: Sequence[Node] = [
    ("Div", "x root", "d", {}), ("Erf", "d", "e", {}), ("Add", "e one", "share", {}), ("Mul", "x share", "twice", {}),
    ("Mul", "twice half", "y", {}),
]  # fmt: skip
_CONSTANTS = {"a": 0.044715, "b": (2 / np.pi) ** 0.5, "one": 1.0, "half": 0.5, "root": 2**0.5}


def make_gelu(nodes: Sequence[Node]) -> onnx.ModelProto:
    read = {name for _, inputs, _, _ in nodes for name in inputs.split()}
    weights = {name: np.array(value, "f") for name, value in _CONSTANTS.items() if name in read}
    model = build(nodes, weights, [4, 16], opset=20)
    for node in model.graph.node:
        node.domain = _DOMAIN if node.op_type == "FastGelu" else ""
    return model


@pytest.mark.parametrize("exact", ["Gelu", "Erf"])
def test_an_approximation_is_no_definition(exact: str, tmp_path: Path) -> None:
    """FastGelu is up to 5e-4 from Gelu, more than rounding: no definition of one is that of the other."""
    fast = make_gelu([("FastGelu", "x", "y", {})])
    other = make_gelu([("Gelu", "x", "y", {})] if exact == "Gelu" else _ERF)
    assert compare(tmp_path, other, fast).outcome == "not equal"
    allowed = compare(tmp_path, other, fast, tolerance=gs.Tolerance(rtol=1e-2))
    assert allowed.rung == "on 1 input", allowed.verdict
    assert (
        compare(tmp_path, other, fast, tolerance=gs.Tolerance(rtol=1e-2), by_weights=True).outcome
        == "not proved"
    )


def test_the_formula_of_an_approximation_is_compared_on_inputs(tmp_path: Path) -> None:
    report = compare(tmp_path, make_gelu(_TANH), make_gelu([("FastGelu", "x", "y", {})]))
    assert report.rung == "on 1 input", report.verdict
