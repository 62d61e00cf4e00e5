"""ONNX models of a few bytes that take any amount of memory, or of time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT


def make_heavy(chance: random.Random) -> ModelProto:
    """Return a model of a few bytes whose values may take any amount of memory, inner ones or the output."""
    size = chance.choice((1, 3, 100, 3000, 8000, 40_000, 1 << 20, (1 << 31) - 1, 1 << 33, 1 << 62))
    other = chance.choice((1, 2, 40_000, size))
    one = numpy_helper.from_array(np.ones((1, 1), np.float32), "one")
    shape = numpy_helper.from_array(np.array([size, other], np.int64), "shape")
    count = numpy_helper.from_array(np.array(min(size, 1 << 20), np.int64), "count")
    opset = chance.choice((13, 17, 18))
    nodes = list(_HEAVY[chance.choice(list(_HEAVY))](chance))
    if chance.random() < 0.3:  # two of them are alive at a time
        nodes += [
            helper.make_node("Exp", ["big"], ["bigger"]),
            helper.make_node("Add", ["big", "bigger"], ["sum"]),
        ]
    last = nodes[-1].output[0]
    ending = chance.choice(("ReduceSum", "ReduceMax", "Shape", "Size", "Identity"))
    nodes += [
        helper.make_node("Add", ["zero", "data"], ["unused"]),
        helper.make_node(ending, [last], ["y"]),
    ]
    zero = numpy_helper.from_array(np.zeros((2, 2), np.float32), "zero")
    kind = TensorProto.INT64 if ending in ("Shape", "Size") else FLOAT
    ends = [
        helper.make_tensor_value_info("y", kind, None),
        helper.make_tensor_value_info("unused", FLOAT, [2, 2]),
    ]
    data = helper.make_tensor_value_info("data", FLOAT, [2, 2])
    graph = helper.make_graph(nodes, "heavy", [data], ends, [one, shape, count, zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def _grow(chance: random.Random) -> Iterator[NodeProto]:
    """A loop that doubles a value each time."""
    steps = [helper.make_node("Concat", ["state", "state"], ["next"], axis=0)]
    yield _loop(steps, ["one"], [helper.make_tensor_value_info("state", FLOAT, None)], "next")


def _spin(chance: random.Random) -> Iterator[NodeProto]:
    """A loop that goes on for long, and collects what it computes."""
    yield _loop([helper.make_node("Exp", ["one"], ["each"])], [], [], "each")


def _loop(
    steps: list[NodeProto], starts: list[str], states: list[ValueInfoProto], last: str
) -> NodeProto:
    counter = helper.make_tensor_value_info("i", TensorProto.INT64, [])
    going, on = (
        helper.make_tensor_value_info(name, TensorProto.BOOL, []) for name in ("going", "on")
    )
    nodes = [*steps, helper.make_node("Identity", ["going"], ["on"])]
    outputs = [on, helper.make_tensor_value_info(last, FLOAT, None)]
    body = helper.make_graph(nodes, "body", [counter, going, *states], outputs)
    return helper.make_node("Loop", ["count", "", *starts], ["big"], body=body)


def _outer(chance: random.Random) -> Iterator[NodeProto]:
    """A product of a column and a row, the row from a flat shape."""
    yield helper.make_node("Constant", [], ["first"], value_ints=[0])
    yield helper.make_node("Gather", ["shape", "first"], ["length"])
    yield helper.make_node("ConstantOfShape", ["length"], ["flat"])
    yield helper.make_node("Constant", [], ["ends"], value_ints=[-1, 1])
    yield helper.make_node("Constant", [], ["row"], value_ints=[1, -1])
    yield helper.make_node("Reshape", ["flat", "ends"], ["left"])
    yield helper.make_node("Reshape", ["flat", "row"], ["right"])
    yield helper.make_node(chance.choice(("MatMul", "Add", "Mul")), ["left", "right"], ["big"])


def _pad(chance: random.Random) -> Iterator[NodeProto]:
    yield helper.make_node("Concat", ["shape", "shape"], ["pads"], axis=0)
    yield helper.make_node("Pad", ["one", "pads"], ["big"])


def _range(chance: random.Random) -> Iterator[NodeProto]:
    yield helper.make_node("ReduceProd", ["shape"], ["end"], keepdims=0)
    yield helper.make_node("Constant", [], ["start"], value_int=0)
    yield helper.make_node("Constant", [], ["step"], value_int=1)
    yield helper.make_node("Range", ["start", "end", "step"], ["numbers"])
    yield helper.make_node("Cast", ["numbers"], ["big"], to=FLOAT)


def _upsample(chance: random.Random) -> Iterator[NodeProto]:
    yield helper.make_node("Cast", ["shape"], ["scales"], to=FLOAT)
    yield helper.make_node(
        "Resize", ["one", "", "scales"], ["big"], mode=chance.choice(("nearest", "linear"))
    )


_HEAVY: Mapping[str, Callable[[random.Random], Iterator[NodeProto]]] = {
    **{
        op: lambda chance, op=op: iter([helper.make_node(op, ["one", "shape"], ["big"])])
        for op in ("Expand", "Tile")
    },  # type: ignore[misc]
    "ConstantOfShape": lambda chance: iter(
        [helper.make_node("ConstantOfShape", ["shape"], ["big"])]
    ),
    **{make.__name__: make for make in (_grow, _spin, _outer, _pad, _range, _upsample)},
}
"""Nodes that make ``big`` of ``one``, ``shape`` and ``count``."""
