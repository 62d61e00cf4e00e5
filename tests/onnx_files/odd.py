"""Small models with what files of others rarely have: one of each, as ONNX's text form and a few
fields that it lacks.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, parser

_HEAD = '<ir_version: 10, opset_import: ["" : 21, "local" : 1]>'
_WEIGHT = "{" + ", ".join(f"{i * 0.25 - 2}" for i in range(16)) + "}"


def _parse(text: str, head: str = _HEAD) -> onnx.ModelProto:
    return parser.parse_model(head + text.replace("WEIGHT", _WEIGHT))


def ends() -> onnx.ModelProto:
    """Outputs that are an input, an initializer, a Constant and a node's, one weight for both."""
    return _parse("""g (float[N,4] x) => (float[N,4] x, float[4,4] w, float[4,4] c, float[N,4] y)
        <float[4,4] w = WEIGHT, float[4,4] v = WEIGHT>
        { c = Constant <value = float[4,4] WEIGHT> ()
          a = MatMul(x, v)
          h = MatMul(a, w)
          y = MatMul(h, c) }""")


def lists() -> onnx.ModelProto:
    """Weights as lists of a Constant's floats and integers, and a small one."""
    floats = ", ".join(f"{i * 0.5}" for i in range(40))
    return _parse(f"""g (float[40] x) => (float[40] y, int64[20] n)
        {{ c = Constant <value_floats = [{floats}]> ()
          k = Constant <value_ints = [{", ".join(map(str, range(20)))}]> ()
          s = Constant <value_float = 2.0> ()
          h = Mul(x, c)
          y = Mul(h, s)
          n = Identity(k) }}""")


def nested() -> onnx.ModelProto:
    """An If in a Scan in an If, with weights in each body, captured values, and one name in sibling bodies."""
    return _parse("""g (bool flag, float[3,4] x) => (float[3,4] y)
        <float[4] b = {1.0, 2.0, 3.0, 4.0}>
        { h = Add(x, b)
          y = If (flag) <
            then_branch = left () => (float[3,4] left_y)
              <float[4,4] w = WEIGHT>
              { first = Identity(b)
                last, left_y = Scan <num_scan_inputs = 1,
                                     body = step (float[4] s, float[4] row) => (float[4] s_out, float[4] out)
                  <float[4] v = {0.5, 0.25, 0.125, 0.0}>
                  { total = Add(s, row)
                    size = ReduceMax <keepdims = 0> (total)
                    limit = Constant <value = float {3.0}> ()
                    large = Greater(size, limit)
                    s_out = If (large) <
                      then_branch = yes () => (float[4] p) { p = Mul(total, v) },
                      else_branch = no () => (float[4] q) { q = Add(total, b) }>
                    wide = MatMul(s_out, w)
                    out = Add(wide, v) }> (first, h) },
            else_branch = right () => (float[3,4] right_y)
              <float[4,4] w = WEIGHT>
              { right_y = MatMul(h, w) }> }""")


def repeated() -> onnx.ModelProto:
    """A Loop without a condition, whose carried value grows, and one without a trip count."""
    return _parse("""g (float[4] x) => (float[4] y, float[K,4] all, float[4] z)
        <int64 count = {3}, bool go = {1}, float[4] w = {0.5, 1.5, 2.5, -0.5}>
        { y, all = Loop (count, , x) <body = b (int64 i, bool c, float[4] state) => (bool c_out, float[4] next, float[4] each)
            { c_out = Identity(c)
              next = Mul(state, w)
              each = Add(next, w) }>
          z = Loop (, go, x) <body = d (int64 i, bool c, float[4] state) => (bool c_out, float[4] next)
            { limit = Constant <value = int64 {2}> ()
              c_out = Less(i, limit)
              next = Add(state, w) }> }""")


def calls() -> onnx.ModelProto:
    """Functions that call another, an attribute handed down, and a Constant inside."""
    return _parse("""g (float[N,4] x) => (float[N,4] y)
        <float[4,4] w = WEIGHT>
        { h = local.outer <alpha = 0.125> (x, w)
          y = local.outer (h, w) }
        <opset_import: ["" : 21], domain: "local">
        inner <alpha> (a) => (b)
        { big = Constant <value = float[16] WEIGHT> ()
          size = ReduceMean <keepdims = 0> (big)
          leaky = LeakyRelu <alpha: float = @alpha> (a)
          b = Add(leaky, size) }
        <opset_import: ["" : 21, "local" : 1], domain: "local">
        outer <alpha: float = 0.5> (a, m) => (b)
        { p = MatMul(a, m)
          b = local.inner <alpha: float = @alpha> (p) }""")


def absent() -> onnx.ModelProto:
    """Inputs and outputs left out in the middle and at the end."""
    weights = [numpy_helper.from_array(np.linspace(-1, 1, size).reshape(shape).astype(np.float32), name)
               for name, shape, size in (("w", (1, 32, 4), 128), ("r", (1, 32, 8), 256), ("s", (1, 1, 8), 8))]  # fmt: skip
    nodes = [
        helper.make_node("LSTM", ["x", "w", "r", "", "", "", "s", ""], ["", "h"], hidden_size=8),
        helper.make_node("Clip", ["h", "", "top"], ["y"]),
        helper.make_node("Constant", [], ["top"], value=numpy_helper.from_array(np.float32(0.5))),
    ]
    nodes.insert(0, nodes.pop())
    ends = [
        helper.make_tensor_value_info(name, 1, shape)
        for name, shape in (("x", [5, 1, 4]), ("y", [1, 1, 8]))
    ]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def dtypes() -> onnx.ModelProto:
    """Weights of four bits, eight bits in floating point, and sixteen."""
    values = np.linspace(-3, 3, 32).reshape(4, 8)
    kinds = (TensorProto.INT4, TensorProto.FLOAT8E4M3FN, TensorProto.BFLOAT16, TensorProto.UINT4)
    tensors = [
        helper.make_tensor(f"w{kind}", kind, [4, 8], np.abs(values).ravel()) for kind in kinds
    ]
    nodes = [
        helper.make_node("Cast", [tensor.name], [f"{tensor.name}_f"], to=TensorProto.FLOAT)
        for tensor in tensors
    ]
    nodes.append(helper.make_node("Sum", ["x", *(f"{tensor.name}_f" for tensor in tensors)], ["y"]))
    ends = [helper.make_tensor_value_info(name, 1, [4, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def sparse() -> onnx.ModelProto:
    """A sparse initializer, and one in a Constant."""
    values = numpy_helper.from_array(np.arange(1, 13, dtype=np.float32), "w")
    places = numpy_helper.from_array(np.arange(0, 24, 2).astype(np.int64), "w_places")
    tensor = helper.make_sparse_tensor(values, places, [6, 4])
    inner = helper.make_sparse_tensor(numpy_helper.from_array(np.arange(1, 13, dtype=np.float32), ""),
                                      numpy_helper.from_array(np.arange(0, 24, 2).astype(np.int64), ""), [4, 6])  # fmt: skip
    nodes = [
        helper.make_node("Constant", [], ["c"], sparse_value=inner),
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["h", "c"], ["y"]),
    ]
    ends = [helper.make_tensor_value_info(name, 1, [2, 6]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], sparse_initializer=[tensor])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def texts() -> onnx.ModelProto:
    """Strings in and out, and a table of them."""
    words = helper.make_tensor("words", TensorProto.STRING, [3], ["one", "zwei", "\u4e09"])
    nodes = [
        helper.make_node("LabelEncoder", ["x"], ["n"], domain="ai.onnx.ml", keys_strings=["a", "b"], values_int64s=[1, 2],
                         default_int64=0),
        helper.make_node("Gather", ["words", "n"], ["y"]),
    ]  # fmt: skip
    ends = [helper.make_tensor_value_info(name, TensorProto.STRING, ["N"]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [words])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def sequences() -> onnx.ModelProto:
    """A sequence of tensors between nodes and as an output, and an optional value."""
    return _parse("""g (float[2,4] x) => (seq(float[2,4]) parts, float[2,4] y)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}, int64 at = {1}>
        { h = Mul(x, w)
          parts = SequenceConstruct(x, h)
          z = SequenceAt(parts, at)
          o = Optional(z)
          y = OptionalGetElement(o) }""")


def randomness() -> onnx.ModelProto:
    """A node that draws random numbers, besides one that does not."""
    return _parse("""g (float[2,4] x) => (float[2,4] y, float[2,4] z)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}>
        { r = RandomNormalLike(x)
          y = Add(x, r)
          z = Mul(x, w) }""")


def names() -> onnx.ModelProto:
    """Names with everything that a pattern, an option or a path could take for something else."""
    x, w, h, y = "x:0", "*/w=1,2", "re:[h]", "\u00fc \"'<y>&"
    weight = numpy_helper.from_array(np.linspace(0, 1, 16).reshape(4, 4).astype(np.float32), w)
    nodes = [
        helper.make_node("MatMul", [x, w], [h], "=node"),
        helper.make_node("Relu", [h], [y], "=node"),
    ]
    ends = [helper.make_tensor_value_info(name, 1, [2, 4]) for name in (x, y)]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def notes() -> onnx.ModelProto:
    """Documentation, denotations, metadata of nodes and values, types stated of weights, and a weight nobody reads."""
    model = _parse("""g (float[N,4] x) => (float[N,4] y)
        <float[4,4] w = WEIGHT, float[8] unused = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}>
        { h = MatMul(x, w)
          y = Relu(h) }""")
    graph = model.graph
    graph.doc_string, graph.node[0].doc_string, graph.node[0].name = "a graph", "a node", "first"
    graph.input[0].type.tensor_type.shape.dim[0].denotation = "DATA_BATCH"
    graph.input[0].type.denotation = "TENSOR"
    graph.value_info.append(helper.make_tensor_value_info("w", 1, [4, 4]))
    graph.value_info.append(helper.make_tensor_value_info("h", 1, ["N", 4], "an inner value"))
    for holder in (model, graph, graph.node[0], graph.input[0], graph.initializer[0]):
        holder.metadata_props.add(key="made", value="by hand")
    return model


def overloads() -> onnx.ModelProto:
    """Two functions of one name, told apart by their overload."""
    model = _parse("""g (float[4] x) => (float[4] y) { h = local.f (x) y = local.f (h) }
        <opset_import: ["" : 21], domain: "local"> f (a) => (b) { b = Neg(a) }
        <opset_import: ["" : 21], domain: "local"> f (a) => (b) { b = Exp(a) }""")
    for i in range(2):
        model.functions[i].overload = model.graph.node[i].overload = f"v{i}"
    return model


def vendors() -> onnx.ModelProto:
    """Operators of onnxruntime's own domain."""
    weight = numpy_helper.from_array(np.linspace(-1, 1, 16).reshape(4, 4).astype(np.float32), "w")
    nodes = [
        helper.make_node(
            "FusedMatMul", ["x", "w"], ["h"], domain="com.microsoft", transB=1, alpha=0.5
        ),
        helper.make_node("Gelu", ["h"], ["y"], domain="com.microsoft"),
    ]
    ends = [helper.make_tensor_value_info(name, 1, ["N", 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], [weight])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


ODD: dict[str, Callable[[], onnx.ModelProto]] = {
    make.__name__: make
    for make in (ends, lists, nested, repeated, calls, absent, dtypes, sparse, texts, sequences, randomness, names, notes,
                 overloads, vendors)
}  # fmt: skip
"""The models by name."""
