"""Small models that have every message of onnx.proto, in places where a rewrite could lose one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from tests.onnx_files.made import MADE
from tests.onnx_files.odd import ODD

FILES = {"w.bin": bytes(8192)}
"""The file of external data beside each model."""
_FLOAT = TensorProto.FLOAT


def _value(
    name: str, shape: list[int | str] | None = None, dtype: int = _FLOAT
) -> onnx.ValueInfoProto:
    value = helper.make_tensor_value_info(
        name, dtype, [2, 2] if shape is None else shape, f"about {name}"
    )
    value.metadata_props.add(key="value", value=name)
    return value


def _weight(name: str, size: int = 2) -> TensorProto:
    tensor = numpy_helper.from_array(np.full((size, size), 0.5, np.float32), name)
    tensor.doc_string = f"weight {name}"
    tensor.metadata_props.add(key="tensor", value=name)
    return tensor


def _node(
    op: str, inputs: list[str], outputs: list[str], name: str = "", **attributes: object
) -> onnx.NodeProto:
    node = helper.make_node(op, inputs, outputs, name or None, f"node of {outputs}", **attributes)
    node.metadata_props.add(key="node", value=op)
    return node


def _annotate(graph: onnx.GraphProto, name: str, **values: str) -> None:
    note = graph.quantization_annotation.add(tensor_name=name)
    for key, value in values.items():
        note.quant_parameter_tensor_names.add(key=f"{key.upper()}_TENSOR", value=value)


def _finish(
    graph: onnx.GraphProto, ir: int = 10, opset: int = 21, **domains: int
) -> onnx.ModelProto:
    opsets = [
        helper.make_opsetid("", opset),
        *(helper.make_opsetid(n.replace("_", "."), v) for n, v in domains.items()),
    ]
    model = helper.make_model(
        graph,
        opset_imports=opsets,
        ir_version=ir,
        producer_name="p",
        producer_version="1",
        domain="d",
    )
    model.doc_string = "a model"
    model.metadata_props.add(key="model", value="m")
    graph = model.graph
    graph.doc_string = "a graph"
    graph.metadata_props.add(key="graph", value="g")
    return model


def full() -> onnx.ModelProto:
    """Every message of the main graph; two equal weights, one in float_data, one in a file, one
    sparse, one in a Constant.
    """
    outer = helper.make_tensor("typed", _FLOAT, [20, 20], np.arange(400.0))
    away = TensorProto(
        name="away", data_type=_FLOAT, dims=[2, 2], data_location=TensorProto.EXTERNAL
    )
    for key, value in (("location", "w.bin"), ("offset", "0"), ("length", "16"), ("checksum", "")):
        away.external_data.add(key=key, value=value)
    values = numpy_helper.from_array(np.arange(1, 5, dtype=np.float32), "thin")
    places = numpy_helper.from_array(np.array([0, 1, 2, 3], np.int64), "thin_places")
    thin = helper.make_sparse_tensor(values, places, [2, 2])
    scale, zero = (
        helper.make_tensor("scale", _FLOAT, [], [0.5]),
        helper.make_tensor("zero", TensorProto.UINT8, [], [3]),
    )
    nodes = [
        _node("Constant", [], ["constant"], "constant", value=_weight("inside", 20)),
        _node("Constant", [], ["numbers"], value_ints=[1, 1]),
        _node("MatMul", ["data", "w"], ["h"], "first"),
        _node("MatMul", ["h", "v"], ["h2"], "second"),
        _node("Add", ["h2", "away"], ["a"]),
        _node("Add", ["a", "thin"], ["b"], "add"),
        _node("Split", ["b", "numbers"], ["left", "right"], "split", axis=1),
        _node("Own", ["left", "", "scale"], ["", "r", ""], "call", domain="own", slope=0.25),
        _node("Concat", ["r", "right"], ["out"], "", axis=1),
        _node("Sum", ["typed", "constant"], ["big"]),
    ]
    ends = [_value("data")], [_value("out"), _value("big", [20, 20])]
    inner = _node("Relu", ["x"], ["y"], "inner")
    function = helper.make_function(
        "own",
        "Own",
        ["x", "o", "s"],
        ["p", "y", "q"],
        [inner],
        [helper.make_opsetid("", 21)],
        ["slope"],
    )
    function.doc_string = "a function"
    function.value_info.append(_value("y"))
    function.metadata_props.add(key="function", value="f")
    initializers = [_weight("w"), _weight("v"), outer, away, scale, zero]
    infos = [_value(name) for name in ("h", "h2", "b", "left", "right", "r", "w", "constant")]
    graph = helper.make_graph(nodes, "full", *ends, initializers, "", infos, [thin])
    _annotate(graph, "h", scale="scale", zero_point="zero")
    _annotate(graph, "w", scale="scale", zero_point="zero")
    _annotate(graph, "right", scale="scale")
    model = _finish(graph, 11, 21, own=1)
    model.functions.append(function)
    step = helper.make_graph(
        [helper.make_node("Neg", ["w"], ["w_new"])], "step", [], [_value("w_new")]
    )
    training = model.training_info.add(algorithm=step)
    training.update_binding.add(key="w", value="w_new")
    return model


def deep() -> onnx.ModelProto:
    """An If in a Loop in a Scan: captured values, weights and names of values around them, and
    messages on all of these.
    """
    inner = helper.make_graph(
        [_node("Add", ["state", "h"], ["x1"], "same"), _node("Mul", ["x1", "w"], ["chosen"])],
        "then", [], [_value("chosen")], None, "a body", [_value("x1"), _value("h")],
    )  # fmt: skip
    inner.metadata_props.add(key="graph", value="then")
    _annotate(inner, "x1", scale="scale")
    _annotate(inner, "h", scale="scale")
    other = helper.make_graph(
        [_node("MatMul", ["state", "own"], ["x1"], "same"), _node("Relu", ["x1"], ["chosen"])],
        "else", [], [_value("chosen")], [_weight("own", 2)], "", [_value("x1")],
    )  # fmt: skip
    steps = [
        _node("If", ["flag"], ["next"], "if", then_branch=inner, else_branch=other),
        _node("MatMul", ["next", "large"], ["wide"], "product"),
        _node("Identity", ["going"], ["on"]),
        _node("Identity", ["state"], ["kept"]),
    ]
    inputs = [
        _value("i", [], TensorProto.INT64),
        _value("going", [], TensorProto.BOOL),
        _value("state"),
    ]
    outputs = [_value("on", [], TensorProto.BOOL), _value("next")]
    infos = [_value("wide"), _value("large", [4, 4])]
    body = helper.make_graph(steps, "body", inputs, outputs, [_weight("large", 4)], "", infos)
    _annotate(body, "wide", scale="scale")
    scan = helper.make_graph(
        [_node("Loop", ["count", "", "row"], ["last"], "loop", body=body), _node("Add", ["last", "h"], ["h_next"])],
        "step", [_value("row")], [_value("h_next")],
    )  # fmt: skip
    nodes = [
        _node("MatMul", ["data", "w"], ["h"], "product"),
        _node("Scan", ["rows"], ["all"], "scan", num_scan_inputs=1, body=scan),
        _node("Relu", ["all"], ["x1"], "same"),
    ]
    constants = [
        helper.make_tensor("count", TensorProto.INT64, [], [3]),
        helper.make_tensor("scale", _FLOAT, [], [0.5]),
    ]
    inputs = [_value("data"), _value("rows", [3, 2, 2]), _value("flag", [], TensorProto.BOOL)]
    graph = helper.make_graph(
        nodes,
        "deep",
        inputs,
        [_value("x1", [3, 2, 2])],
        [_weight("w"), *constants],
        "",
        [_value("h")],
    )
    _annotate(graph, "h", scale="scale")
    return _finish(graph)


def beam() -> onnx.ModelProto:
    """An operator of onnxruntime whose bodies have inputs of fixed names, which values around them have too."""

    def body(name: str) -> onnx.GraphProto:
        nodes = [
            _node("MatMul", ["input_ids", "table"], ["logits"], "lm_head"),
            _node("Identity", ["logits"], ["present"]),
        ]
        ends = [_value("input_ids"), _value("past")], [_value("logits"), _value("present")]
        return helper.make_graph(nodes, name, *ends, [_weight("table", 4)], "", [_value("past")])

    nodes = [
        _node("Cast", ["ids"], ["input_ids"], "cast", to=1),
        _node("BeamSearch", ["input_ids", "", "past"], ["sequences"], "search", domain="com.microsoft",
              decoder=body("decoder"), encoder=body("encoder"), eos_token_id=1),
    ]  # fmt: skip
    ends = [_value("ids", [2, 2], TensorProto.INT32), _value("past")], [_value("sequences")]
    graph = helper.make_graph(nodes, "beam", *ends, [_weight("logits")], "", [_value("input_ids")])
    return _finish(graph, 8, 17, com_microsoft=1)


def through() -> onnx.ModelProto:
    """Bodies whose outputs are inputs, initializers or captured values, and outputs that are inputs
    and initializers.
    """
    captured = helper.make_graph([_node("Identity", ["h"], ["unused"])], "then", [], [_value("h")])
    own = helper.make_graph([], "else", [], [_value("kept")], [_weight("kept", 4)])
    body = helper.make_graph(
        [_node("Identity", ["c"], ["c_out"])], "body",
        [_value("i", [], TensorProto.INT64), _value("c", [], TensorProto.BOOL), _value("s")],
        [_value("c_out", [], TensorProto.BOOL), _value("s")],
    )  # fmt: skip
    nodes = [
        _node("Relu", ["x"], ["h"], "relu"),
        _node("If", ["c"], ["y"], "choice", then_branch=captured, else_branch=own),
        _node("Loop", ["", "c", "h"], ["z"], "loop", body=body),
    ]
    ends = (
        [_value("x"), _value("c", [], TensorProto.BOOL)],
        [_value(name) for name in ("x", "w", "y", "z", "h")],
    )
    return _finish(
        helper.make_graph(nodes, "through", *ends, [_weight("w")], "", [_value("h"), _value("y")])
    )


def weights() -> onnx.ModelProto:
    """Tensors that are large enough for a pool, in every field of data and every place, with fields around the data."""
    size, typed = 640, np.arange(640) % 100
    tensors = [
        helper.make_tensor(f"t{kind}", kind, [size], typed)
        for kind in (_FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32, TensorProto.INT8, TensorProto.FLOAT16,
                     TensorProto.UINT64, TensorProto.BOOL, TensorProto.BFLOAT16, TensorProto.INT4)
    ]  # fmt: skip
    tensors.append(
        helper.make_tensor("texts", TensorProto.STRING, [size], [f"text {i}" for i in range(size)])
    )
    stated = _weight("stated", 20)
    stated.data_location = TensorProto.DEFAULT
    values = numpy_helper.from_array(np.arange(1, size + 1, dtype=np.float32), "thin")
    thin = helper.make_sparse_tensor(
        values, numpy_helper.from_array(np.arange(size), "thin_places"), [size]
    )
    inner, lists = _weight("inner", 20), _weight("", 20)
    lists.data_location = TensorProto.DEFAULT
    body = helper.make_graph(
        [_node("Constant", [], ["c"], value=lists), _node("MatMul", ["c", "inner"], ["e"])], "body", [],
        [_value("e", [20, 20])], [inner],
    )  # fmt: skip
    nodes = [
        _node("Constant", [], ["numbers"], value_floats=[float(i) for i in range(size)]),
        _node("Constant", [], ["named"], value=_weight("its own name", 20)),
        _node("Constant", [], ["bare"], value=lists),
        _node(
            "Strange",
            [tensor.name for tensor in tensors] + ["thin"],
            ["s"],
            "strange",
            domain="x",
            more=[lists, inner],
        ),
        _node("If", ["flag"], ["d"], "if", then_branch=body, else_branch=body),
        _node("Sum", ["d", "stated", "named", "bare"], ["out"]),
    ]
    function = helper.make_function(
        "x", "F", [], ["y"], [_node("Constant", [], ["y"], value=_weight("z", 20))], []
    )
    ends = (
        [_value("flag", [], TensorProto.BOOL)],
        [_value("out", [20, 20]), _value("s"), _value("numbers")],
    )
    graph = helper.make_graph(nodes, "weights", *ends, [*tensors, stated], "", [], [thin])
    model = _finish(graph, 10, 21, x=1)
    model.functions.append(function)
    return model


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    **{make.__name__: make for make in (full, deep, beam, through, weights)},
    **{
        name: {**MADE, **ODD}[name]
        for name in (
            "old",
            "branches",
            "functions",
            "kinds",
            "nested",
            "absent",
            "sparse",
            "overloads",
        )
    },
}
"""The models by name."""
