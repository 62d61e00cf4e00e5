"""ONNX models that end ONNX's inference, keep it busy, or make it take gigabytes."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import FunctionProto, helper


def encode(
    nodes: Sequence[object],
    outputs: Sequence[object],
    opset: int = 17,
    functions: Sequence[FunctionProto] = (),
) -> bytes:
    """Return a model of these nodes, with the input ``x``, in bytes."""
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, [2, 3])], outputs)
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("own", 1)]
    return bytes(
        helper.make_model(
            graph, opset_imports=imports, functions=functions, ir_version=8
        ).SerializeToString()
    )


def crashing() -> bytes:
    """EyeLike of a value without a type."""
    nodes = [
        helper.make_node("Strange", ["x"], ["f"], domain="own"),
        helper.make_node("EyeLike", ["f"], ["y"], dtype=1),
    ]
    return encode(nodes, [helper.make_tensor_value_info("y", 1, ["a", "b"])])


def nest_functions(depth: int) -> list[FunctionProto]:
    """Functions that call the one before twice: inference follows each call of the last one, ``F<depth - 1>``."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    functions = []
    for number in range(depth):
        inner, domain = (f"F{number - 1}", "own") if number else ("Neg", "")
        calls = [helper.make_node(inner, [a], [b], domain=domain) for a, b in ("ac", "cb")]
        functions.append(helper.make_function("own", f"F{number}", ["a"], ["b"], calls, imports))
    return functions


def doubling(depth: int = 40) -> bytes:
    """A call of nested functions, which takes inference for ever."""
    nodes = [helper.make_node(f"F{depth - 1}", ["x"], ["y"], domain="own")]
    return encode(
        nodes, [helper.make_tensor_value_info("y", 1, [2, 3])], functions=nest_functions(depth)
    )


def swelling() -> bytes:
    """A value of shape, whose contents inference computes, of 10^9 numbers."""
    nodes = [
        helper.make_node("Constant", [], ["n"], value=helper.make_tensor("n", 7, [1], [10**9])),
        helper.make_node(
            "ConstantOfShape", ["n"], ["big"], value=helper.make_tensor("v", 7, [1], [1])
        ),
        helper.make_node("Concat", ["big", "big"], ["twice"], axis=0),
        helper.make_node("Reshape", ["x", "twice"], ["y"]),
    ]
    return encode(nodes, [helper.make_tensor_value_info("y", 1, None)])
