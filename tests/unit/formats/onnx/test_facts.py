"""What pictures say of ONNX's operators: their attributes, the names of their inputs, and small constants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.facts import describe_constant, describe_operator, name_operand
from graphshare.formats.onnx.stored import MemoryFile
from graphshare.ir.graph import Graph, Node

SIZES: Mapping[str, Sequence[int]] = {"w": (8, 4, 3, 5), "m": (6, 5), "r": (7,)}


def read(nodes: Sequence[NodeProto], tensors: Sequence[TensorProto] = ()) -> Graph:
    weights = [
        numpy_helper.from_array(np.zeros(shape, "f4"), name) for name, shape in SIZES.items()
    ]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "z")]
    outputs = (
        [helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)]
        if nodes
        else inputs[:1]
    )
    model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs, [*weights, *tensors]))
    return decode_model(MemoryFile(model.SerializeToString()))


def make(op: str, inputs: str = "x", **attributes: Any) -> Node:
    graph = read([helper.make_node(op, inputs.split(","), ["y"], **attributes)])
    return next(node for node in graph.nodes if node.op)


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "parts"),
    [
        (
            "Conv",
            "x,w",
            {"kernel_shape": [3, 5], "strides": [2, 2], "group": 2},
            ["3×5", "8", "/2", "group 2"],
        ),
        ("Conv", "x,w", {"strides": [1, 2], "group": 1}, ["8", "/1×2"]),
        ("ConvInteger", "x,w", {"strides": [1, 1]}, ["8"]),
        ("ConvTranspose", "x,w", {"group": 3}, ["12", "group 3"]),
        ("ConvTranspose", "x,w", {"group": -3}, ["group -3"]),
        ("MatMul", "x,m", {}, ["5"]),
        ("MatMul", "x,r", {}, []),
        ("MatMul", "m,x", {}, []),
        ("MatMul", "x", {}, []),
        ("Mul", "x,m", {}, []),
        ("Cast", "x", {"to": 10}, ["float16"]),
        ("Cast", "x", {"to": 999}, ["dtype 999"]),
        ("Cast", "x", {"to": 1000}, []),
        ("Other", "x", {"to": 10}, []),
        ("Softmax", "x", {"axis": -1}, ["axis -1"]),
        ("Elu", "x", {"alpha": 0.5}, ["alpha 0.5"]),
        ("LeakyRelu", "x", {"alpha": 0.5}, []),
        ("BatchNormalization", "x", {"mode": "m"}, []),
        ("GRU", "x", {"hidden_size": 5, "direction": "reverse"}, ["reverse", "hidden_size 5"]),
        ("Resize", "x", {"mode": "linear", "axes": [2, 3]}, ["axes [2, 3]", "linear"]),
        ("Einsum", "x,z", {"equation": "a" * 28}, ["a" * 28]),
        ("Einsum", "x,z", {"equation": "a" * 29}, []),
        ("Pad", "x", {"mode": ""}, []),
    ],
)
def test_attributes_that_tell_most(
    op: str, inputs: str, attributes: dict[str, Any], parts: list[str]
) -> None:
    assert describe_operator(make(op, inputs, **attributes)) == parts


@pytest.mark.parametrize(
    ("op", "inputs", "names"),
    [
        ("Clip", "x,z,x,z", ["", "min", "max", "input 3"]),
        ("Add", "x,z", ["A", "B"]),
        ("Concat", "x,z,x", ["input 0", "input 1", "input 2"]),
        ("Relu", "x", ["input 0"]),
        ("ReduceSum", "x,z,x", ["", "axes", "input 2"]),
        ("Gather", "x,z", ["data", "indices"]),
        ("Squeeze", "x,z", ["", "axes"]),
    ],
)
def test_names_of_inputs(op: str, inputs: str, names: list[str]) -> None:
    node = make(op, inputs)
    assert [name_operand(node, position) for position in range(len(names))] == names


END = 1 << 31
CONSTANTS: list[tuple[str, Sequence[float] | float, str, str]] = [
    # dtype, numbers, the text of an initializer, the text of a Constant
    ("i8", [1, 2], "[1, 2]", "[1, 2]"),
    ("i8", 5, "5", "5"),
    ("i8", [], "[]", "[]"),
    ("i8", [END - 1, 1 - END], "[2147483647, -2147483647]", "[2147483647, -2147483647]"),
    ("i8", [END, -END], "[∞, -∞]", "[∞, -∞]"),
    ("i1", [-1], "[-1]", "[-1]"),
    ("u1", [255], "[255]", "[255]"),
    ("?", [True], "[1]", "[1]"),
    ("f4", 0.12345, "0.1235", "0.1235"),
    ("f8", [0.5], "[0.5]", "[0.5]"),
    ("f2", [1.5, 2], "", "[1.5, 2]"),
    ("i4", [*range(9)], "[0, 1, 2, 3, 4, 5, 6, 7, 8]", "[0, 1, 2, 3, 4, 5, 6, 7, 8]"),
    ("i4", [*range(8), 10], "[0, 1, 2, 3, 4, 5, 6, 7, 10]", "[0, 1, 2, 3, 4, 5, 6, 7, 10]"),
    ("i4", [*range(8), 100], "int32 9", "int32 9"),
    ("i8", [*range(15)], "int64 15", "int64 15"),
    ("i8", [*range(30)], "", ""),
]


@pytest.mark.parametrize(("dtype", "numbers", "text", "constant"), CONSTANTS)
def test_the_numbers_of_small_constants(dtype: str, numbers: Any, text: str, constant: str) -> None:
    tensor = numpy_helper.from_array(np.array(numbers, dtype), "c")
    graph = read([helper.make_node("Relu", ["x"], ["y"])], [tensor])
    assert describe_constant(next(node for node in graph.nodes if node.name == "c")) == text
    graph = read([helper.make_node("Constant", [], ["y"], value=tensor)])
    assert describe_constant(next(node for node in graph.nodes if node.name == "y")) == constant


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (helper.make_node("Constant", [], ["y"], value_int=5), "5"),
        (helper.make_node("Constant", [], ["y"], value_string="a" * 29), "a" * 28),
        (helper.make_node("Constant", [], ["y"]), ""),
        (helper.make_node("Constant", [], ["y"], value_int=5, domain="other"), ""),
        (helper.make_node("Relu", ["x"], ["y"]), ""),
    ],
)
def test_constants_without_a_tensor(node: NodeProto, text: str) -> None:
    graph = read([node])
    assert describe_constant(next(node for node in graph.nodes if node.op)) == text
    assert describe_constant(next(node for node in graph.nodes if node.name == "x")) == ""


def test_a_damaged_constant_has_no_text() -> None:
    tensor = helper.make_tensor("c", TensorProto.INT32, [2], [3, 4])
    tensor.int32_data.append(5)
    graph = read([helper.make_node("Relu", ["x"], ["y"])], [tensor])
    assert describe_constant(next(node for node in graph.nodes if node.name == "c")) == ""
