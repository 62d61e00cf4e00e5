"""Small networks as onnxruntime's optimizer rewrites them, with a fault planted in what it wrote."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

_SIZE = 8


class _Network:
    def __init__(self, rng: Random) -> None:
        self.rng, self.numbers = rng, np.random.default_rng(rng.randrange(1 << 30))
        self.nodes: list[onnx.NodeProto] = []
        self.tensors: list[TensorProto] = []

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        spread = scale / np.sqrt(np.prod(shape[1:], dtype=float) or 1)
        return self.constant((self.numbers.standard_normal(shape) * spread).astype("f"))

    def constant(self, array: Any) -> str:
        name = f"w{len(self.tensors)}"
        self.tensors.append(numpy_helper.from_array(np.asarray(array), name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [f"{name}_y"], name, **attributes))
        return f"{name}_y"

    def normalize(self, value: str, channels: int) -> str:
        scale, shift, mean = (self.numbers.standard_normal(channels).astype("f") for _ in range(3))
        variance = self.numbers.uniform(0.5, 2, channels).astype("f")
        return self.add(
            "BatchNormalization", value, *map(self.constant, (scale, shift, mean, variance))
        )

    def add_block(self, value: str, channels: int) -> tuple[str, int]:
        """Add a few operators that keep the size of the picture; return what they compute, and its channels."""
        kind = self.rng.randrange(7)
        if kind == 0:
            value = self.add("Conv", value, self.weight(4, channels, 3, 3), pads=[1, 1, 1, 1])
            return self.add("Relu", self.normalize(value, 4)), 4
        if kind == 1:
            value = self.add("Pad", value, self.constant(np.array([0, 0, 1, 1, 0, 0, 1, 1])))
            return self.add(
                "Conv", value, self.weight(4, channels, 3, 3), self.weight(4, scale=0.5)
            ), 4
        if kind == 2:
            value = self.add("Transpose", value, perm=[0, 2, 3, 1])
            value = self.add("Mul", value, self.weight(channels))
            value = self.add("Sub", self.weight(channels), value)
            return self.add("Transpose", value, perm=[0, 3, 1, 2]), channels
        if kind == 3:
            branch = self.normalize(
                self.add("Conv", value, self.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1]),
                channels,
            )
            return self.add("Relu", self.add("Add", branch, value)), channels
        if kind == 4:
            first = self.add("Conv", value, self.weight(2, channels, 1, 1), self.weight(2))
            second = self.add("MaxPool", value, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
            return self.add("Concat", first, second, axis=1), channels + 2
        if kind == 5 and channels > 2:
            starts, ends, axes = (self.constant(np.array(n)) for n in ([1], [channels - 1], [1]))
            part = self.add("Slice", value, starts, ends, axes)
            return self.add("Conv", part, self.weight(channels, channels - 2, 1, 1)), channels
        a = self.add("Sigmoid", self.add("Conv", value, self.weight(channels, channels, 1, 1)))
        b = self.normalize(
            self.add("Conv", value, self.weight(channels, channels, 3, 3), pads=[1, 1, 1, 1]),
            channels,
        )
        return self.add("Sub", a, b), channels

    def build(self) -> onnx.ModelProto:
        value, channels = "x", 3
        for _ in range(self.rng.randint(3, 5)):
            value, channels = self.add_block(value, channels)
        value = (
            self.add("Softmax", value, axis=self.rng.choice((1, 3)))
            if self.rng.random() < 0.3
            else value
        )
        value = self.add("ReduceMean", value, axes=[self.rng.choice((2, 3))], keepdims=0)
        value = self.add("Flatten", value)
        value = self.add("MatMul", value, self.weight(channels * _SIZE, 6, scale=2.0))
        value = self.add("Relu", self.add("Add", value, self.weight(6)))
        value = self.add("Add", self.add("MatMul", value, self.weight(6, 5)), self.weight(5))
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(
            self.nodes,
            "g",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, _SIZE, _SIZE])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
            self.tensors,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


class Rewrite(NamedTuple):
    """A network and what an optimizer made of it; ``fused`` has the names of its nodes that the
    network does not have.
    """

    original: onnx.ModelProto
    rewritten: onnx.ModelProto
    fused: frozenset[str]


def make_rewrite(rng: Random, folder: Path) -> Rewrite:
    original = _Network(rng).build()
    options = onnxruntime.SessionOptions()
    levels = onnxruntime.GraphOptimizationLevel
    options.graph_optimization_level = rng.choice(
        (levels.ORT_ENABLE_BASIC, levels.ORT_ENABLE_EXTENDED)
    )
    path = folder / "rewritten.onnx"
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(
        original.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    rewritten = onnx.load(path)
    known = _describe_nodes(original)
    fused = set()
    for number, node in enumerate(rewritten.graph.node):
        node.name = f"n{number}"
        if _describe(node, _read_tensors(rewritten)) != known.get(node.output[0]):
            fused.add(node.name)
    return Rewrite(original, rewritten, frozenset(fused))


def _read_tensors(model: onnx.ModelProto) -> dict[str, np.ndarray[Any, Any]]:
    return {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}


def _describe(node: onnx.NodeProto, tensors: dict[str, np.ndarray[Any, Any]]) -> Any:
    return node.op_type, tuple(
        tensors[name].tobytes() if name in tensors else name for name in node.input
    )


def _describe_nodes(model: onnx.ModelProto) -> dict[str, Any]:
    tensors = _read_tensors(model)
    return {node.output[0]: _describe(node, tensors) for node in model.graph.node}


class Fault(NamedTuple):
    """A fault, the name of the node that has it, and the model."""

    kind: str
    node: str
    model: onnx.ModelProto


def plant(rewrite: Rewrite, rng: Random, *, in_fused: bool) -> Fault | None:
    """Return the rewritten model with a fault in a node that is fused, or is not; None where the
    choice does not fit.
    """
    model = onnx.ModelProto()
    model.CopyFrom(rewrite.rewritten)
    nodes = [node for node in model.graph.node if (node.name in rewrite.fused) is in_fused]
    if not nodes:
        return None
    node = rng.choice(nodes)
    kinds = {"pads": _shift_pads, "axis": _change_axis, "constant": _shift_constant, "inputs": _swap, "dtype": _round,
             "branch": _lose_branch, "slice": _shift_slice}  # fmt: skip
    kind = rng.choice(list(kinds))
    return Fault(kind, node.name, model) if kinds[kind](model, node, rng) else None


def _shift_pads(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    """Pad one more before a picture and one less after it."""
    for attribute in node.attribute:
        if attribute.name == "pads" and attribute.ints and max(attribute.ints):
            half = len(attribute.ints) // 2
            axis = rng.randrange(half)
            attribute.ints[axis] += 1
            attribute.ints[axis + half] -= 1
            return attribute.ints[axis + half] >= 0
    if node.op_type == "Pad":
        array = _take_tensor(model, node, 1)
        array[2:4] += 1
        array[6:8] -= 1
        return _put_tensor(model, node, 1, array)
    return False


def _change_axis(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    for attribute in node.attribute:
        if attribute.name == "axis" and node.op_type == "Softmax":
            attribute.i = rng.choice([axis for axis in (1, 2, 3) if axis != attribute.i % 4])
            return True
        if attribute.name == "axes" and node.op_type == "ReduceMean":
            attribute.ints[0] = 5 - attribute.ints[0] % 4
            return True
        if attribute.name == "perm":
            a, b = rng.sample(range(len(attribute.ints)), 2)
            attribute.ints[a], attribute.ints[b] = attribute.ints[b], attribute.ints[a]
            return True
    return False


def _take_tensor(model: onnx.ModelProto, node: onnx.NodeProto, place: int) -> np.ndarray[Any, Any]:
    return _read_tensors(model)[node.input[place]].copy()


def _put_tensor(
    model: onnx.ModelProto, node: onnx.NodeProto, place: int, array: np.ndarray[Any, Any]
) -> bool:
    name = f"{node.name}_{place}_planted"
    model.graph.initializer.append(numpy_helper.from_array(array, name))
    node.input[place] = name
    return True


def _shift_constant(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    """Read weights one further, or change one of them."""
    tensors = _read_tensors(model)
    places = [
        i
        for i, name in enumerate(node.input)
        if name in tensors and tensors[name].dtype == np.float32
    ]
    if not places:
        return False
    place = rng.choice(places)
    array = _take_tensor(model, node, place)
    if rng.random() < 0.5:
        array = np.roll(array.ravel(), 1).reshape(array.shape)
    else:
        array.reshape(-1)[rng.randrange(array.size)] += rng.choice((0.05, 1.0))
    return _put_tensor(model, node, place, array)


def _swap(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    if node.op_type not in ("Sub", "Concat") or len(node.input) != 2:
        return False
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return True


def _round(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    """Pass the weight, or the first input, through another dtype."""
    tensors = _read_tensors(model)
    weights = [
        i
        for i, name in enumerate(node.input)
        if name in tensors and tensors[name].dtype == np.float32
    ]
    if not weights:
        return False
    array = _take_tensor(model, node, weights[0])
    rounded = np.rint(array * 8) / 8 if rng.random() < 0.5 else array.astype(np.float16)
    return _put_tensor(model, node, weights[0], rounded.astype("f"))


def _lose_branch(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    tensors = _read_tensors(model)
    if node.op_type in ("Add", "Sub"):
        place = next((i for i, name in enumerate(node.input) if name not in tensors), 0)
        kept = node.input[place]
        del node.input[:], node.attribute[:]
        node.op_type = "Identity"
        node.input.append(kept)
        return True
    if node.op_type in ("Conv", "Gemm", "FusedConv", "FusedGemm") and len(node.input) > 2:
        array = _take_tensor(model, node, 2) if node.input[2] in tensors else None
        return (
            array is not None
            and bool(np.any(array))
            and _put_tensor(model, node, 2, np.zeros_like(array))
        )
    return False


def _shift_slice(model: onnx.ModelProto, node: onnx.NodeProto, rng: Random) -> bool:
    if node.op_type != "Slice":
        return False
    by = rng.choice((-1, 1))
    for place in (1, 2):
        _put_tensor(model, node, place, _take_tensor(model, node, place) + by)
    return True
