"""Small models that have, together, every part of the format: seeds of attacks, and cases that
files of others rarely have.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

_FLOAT = TensorProto.FLOAT


def _value(
    name: str, shape: list[int | str] | None = None, dtype: int = _FLOAT
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, ["N", 2] if shape is None else shape)


def _weight(name: str, fill: float = 0.5) -> TensorProto:
    return numpy_helper.from_array(np.full((2, 2), fill, np.float32), name)


def _model(
    graph: onnx.GraphProto, version: int = 17, ir: int = 8, **more: object
) -> onnx.ModelProto:
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", version)], ir_version=ir, **more
    )


def dense() -> onnx.ModelProto:
    """Two layers on one weight, an unnamed node, documentation, metadata and value_info."""
    nodes = [
        helper.make_node("MatMul", ["data", "w"], ["h"], "first", doc_string="a layer"),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("Gemm", ["r", "w", ""], ["out"], "second", alpha=0.5, transB=1),
    ]
    graph = helper.make_graph(
        nodes, "dense", [_value("data")], [_value("out")], [_weight("w")], "a graph", [_value("h")]
    )
    model = _model(graph, producer_name="somebody", doc_string="a model")
    helper.set_model_props(model, {"key": "value", "other": ""})
    return model


def old() -> onnx.ModelProto:
    """IR 3 lists the weights among the inputs, here in float_data."""
    weight = helper.make_tensor("w", _FLOAT, [2, 2], [1.0, 2.0, 3.0, 4.0])
    nodes = [helper.make_node("MatMul", ["data", "w"], ["out"], "product")]
    ends = [_value("data", [1, 2]), _value("w", [2, 2])]
    return _model(helper.make_graph(nodes, "old", ends, [_value("out", [1, 2])], [weight]), 6, 3)


def branches() -> onnx.ModelProto:
    """An If whose branches capture a value, an initializer and, from within another If, both."""
    inner = helper.make_graph(
        [helper.make_node("Add", ["h", "w"], ["deep"], "add")], "inner", [], [_value("deep")]
    )
    other = helper.make_graph(
        [helper.make_node("Sub", ["h", "data"], ["low"])], "other", [], [_value("low")]
    )
    nested = helper.make_node(
        "If", ["flag"], ["then"], "nested", then_branch=inner, else_branch=other
    )
    first = helper.make_graph([nested], "first", [], [_value("then")])
    own = _weight("own", 2.0)
    second = helper.make_graph(
        [helper.make_node("MatMul", ["h", "own"], ["else"])], "second", [], [_value("else")], [own]
    )
    nodes = [
        helper.make_node("MatMul", ["data", "w"], ["h"], "product"),
        helper.make_node("If", ["flag"], ["out"], "choice", then_branch=first, else_branch=second),
    ]
    ends = [_value("data", [2, 2]), _value("flag", [], TensorProto.BOOL)]
    return _model(
        helper.make_graph(nodes, "branches", ends, [_value("out", [2, 2])], [_weight("w")])
    )


def loop() -> onnx.ModelProto:
    """A Loop whose body captures a weight and has a name that is also outside."""
    steps = [
        helper.make_node("Add", ["state", "w"], ["next"], "same"),
        helper.make_node("Identity", ["going"], ["on"]),
    ]
    inputs = [
        _value("i", [], TensorProto.INT64),
        _value("going", [], TensorProto.BOOL),
        _value("state", [2, 2]),
    ]
    outputs = [_value("on", [], TensorProto.BOOL), _value("next", [2, 2])]
    body = helper.make_graph(steps, "body", inputs, outputs)
    nodes = [
        helper.make_node("Loop", ["count", "", "data"], ["last"], "loop", body=body),
        helper.make_node("Relu", ["last"], ["out"], "same"),
    ]
    count = numpy_helper.from_array(np.array(3, np.int64), "count")
    return _model(
        helper.make_graph(
            nodes, "loop", [_value("data", [2, 2])], [_value("out", [2, 2])], [count, _weight("w")]
        )
    )


def functions() -> onnx.ModelProto:
    """A function of the model's own, with an attribute that it passes on."""
    inside = helper.make_node("LeakyRelu", ["x"], ["y"], "leak")
    inside.attribute.append(
        onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT)
    )
    function = helper.make_function(
        "own", "Leak", ["x"], ["y"], [inside], [helper.make_opsetid("", 17)], ["slope"]
    )
    nodes = [helper.make_node("Leak", ["data"], ["out"], "call", domain="own", slope=0.25)]
    graph = helper.make_graph(nodes, "functions", [_value("data")], [_value("out")])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=[function])


def kinds() -> onnx.ModelProto:
    """Typed tensors of every field, a sparse one, and attributes of every kind, on operators that nobody knows."""
    tensors = [
        helper.make_tensor("strings", TensorProto.STRING, [2], ["a", "\u00e9"]),
        helper.make_tensor("ints", TensorProto.INT32, [2], [1, -1]),
        helper.make_tensor("longs", TensorProto.INT64, [2], [1, -1]),
        helper.make_tensor("doubles", TensorProto.DOUBLE, [1], [0.1]),
        helper.make_tensor("unsigned", TensorProto.UINT64, [1], [1 << 63]),
        helper.make_tensor("halves", TensorProto.FLOAT16, [2], [1.0, -2.0]),
        numpy_helper.from_array(np.zeros((0, 3), np.float32), "nothing"),
    ]
    values, places = (
        _weight("sparse", 1.0),
        numpy_helper.from_array(np.array([0, 2], np.int64), "places"),
    )
    values.dims[:] = [2]
    values.raw_data = bytes(8)
    sparse = helper.make_sparse_tensor(values, places, [4])
    attributes = {
        "f": 1.5,
        "i": -3,
        "s": b"\xff",
        "t": tensors[0],
        "floats": [1.0, 2.0],
        "ints": [],
        "strings": ["a", "b"],
    }
    node = helper.make_node(
        "Strange", ["data", "", "strings", "sparse"], ["out", "", "second"], "node", domain="x"
    )
    node.attribute.extend(helper.make_attribute(k, v, attr_type=onnx.AttributeProto.INTS if v == [] else None)
                          for k, v in attributes.items())  # fmt: skip
    node.attribute.append(helper.make_attribute("sparse", sparse))
    node.attribute.append(helper.make_attribute("type", _value("t").type))
    ends = [
        _value("out"),
        onnx.ValueInfoProto(name="second", type=helper.make_sequence_type_proto(_value("x").type)),
    ]
    graph = helper.make_graph(
        [node], "kinds", [_value("data")], ends, tensors, sparse_initializer=[sparse]
    )
    note = graph.quantization_annotation.add(tensor_name="data")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="doubles")
    model = helper.make_model(
        graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("x", 1)],
        ir_version=8,
    )
    model.training_info.add(
        algorithm=helper.make_graph([helper.make_node("Neg", ["data"], ["n"])], "train", [], [])
    )
    return model


def external() -> onnx.ModelProto:
    """A weight in a file of its own."""
    model = dense()
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    for key, value in (("location", "w.bin"), ("offset", "16"), ("length", "16")):
        weight.external_data.add(key=key, value=value)
    return model


MADE: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make for make in (dense, old, branches, loop, functions, kinds, external)
}
"""The models by name; the data of ``external`` are bytes 16 to 32 of ``w.bin``."""


def write_made() -> dict[str, bytes]:
    """Return the files of all models."""
    return {name: make().SerializeToString() for name, make in MADE.items()}
