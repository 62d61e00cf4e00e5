"""Small models that together have every place in which an ONNX file can say something, each with
inputs that reach it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import (
    AttributeProto,
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    helper,
    numpy_helper,
)

from tests.onnx_files.made import MADE

Feeds = Mapping[str, Any]
FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
RUNS = 4
"""On how many inputs each model is computed; the bits of the number of a run are its conditions."""


class Source(NamedTuple):
    """A model with the files of its external data."""

    model: ModelProto
    files: Mapping[str, bytes] = {}


def declare(name: str, shape: Sequence[int | str] = (2, 2), dtype: int = FLOAT) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name: str, *shape: int, start: float = 0.25) -> TensorProto:
    values = start + 0.5 * np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def integers(name: str, *values: int) -> TensorProto:
    return numpy_helper.from_array(np.array(values, np.int64), name)


def node(op: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> NodeProto:
    """Return an operator; the names of its inputs and outputs are words, ``-`` for an absent one."""
    ends = [["" if name == "-" else name for name in names.split()] for names in (inputs, outputs)]
    return helper.make_node(op, *ends, f"{op.lower()}_{ends[1][0]}", domain=domain, **attributes)


def build(
    nodes: Iterable[NodeProto],
    inputs: Sequence[ValueInfoProto],
    outputs: Sequence[ValueInfoProto],
    weights: Sequence[TensorProto] = (),
    functions: Sequence[onnx.FunctionProto] = (),
    domains: Sequence[str] = (),
) -> ModelProto:
    opsets = [
        helper.make_opsetid("", 18),
        *(helper.make_opsetid(domain, 4 if "ml" in domain else 1) for domain in domains),
    ]
    graph = helper.make_graph(list(nodes), "main", inputs, outputs, list(weights))
    return helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=functions)


def body(name: str, nodes: Sequence[NodeProto], inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto],
         weights: Sequence[TensorProto] = ()) -> GraphProto:  # fmt: skip
    return helper.make_graph(nodes, name, inputs, outputs, list(weights))


def dense() -> Source:
    """Weights in raw_data, typed attributes of Gemm, a residual connection."""
    nodes = [
        node("MatMul", "x w1", "h"),
        node("Add", "h b1", "s"),
        node("LeakyRelu", "s", "a", alpha=0.25),
        node("Gemm", "a w2 b2", "g", alpha=0.5, beta=2.0, transB=1),
        node("Sub", "g h", "d"),
        node("Softmax", "d", "y", axis=1),
    ]
    weights = [
        weight("w1", 2, 3),
        weight("b1", 3),
        weight("w2", 3, 3, start=-2),
        weight("b2", 3, start=1),
    ]
    return Source(
        build(nodes, [declare("x")], [declare("y", (2, 3)), declare("g", (2, 3))], weights)
    )


_NUMBERS = {
    "float": (1, [1.5, 2.5]), "double": (11, [1.5, 2.5]), "half": (10, [1.5, 2.5]), "bfloat": (16, [1.5, 2.5]),
    "int8": (3, [1, -2]), "int16": (5, [1, -2]), "int32": (6, [1, -2]), "int64": (7, [1, -2]),
    "uint8": (2, [1, 2]), "uint16": (4, [1, 2]), "uint32": (12, [1, 2]), "uint64": (13, [1, 2]), "bool": (9, [True, False]),
}  # fmt: skip


def _cast_all(tensors: Iterable[TensorProto]) -> Source:
    tensors = list(tensors)
    nodes = [node("Cast", t.name, f"{t.name}_f", to=FLOAT) for t in tensors]
    nodes += [node("Sum", " ".join(["x", *(f"{t.name}_f" for t in tensors)]), "y")]
    return Source(build(nodes, [declare("x", (2,))], [declare("y", (2,))], tensors))


def typed() -> Source:
    """Initializers of every dtype in the field of their dtype."""
    texts = helper.make_tensor("texts", TensorProto.STRING, [2], [b"1.5", b"2.5"])
    return _cast_all(
        [
            *(
                helper.make_tensor(name, code, [2], values)
                for name, (code, values) in _NUMBERS.items()
            ),
            texts,
        ]
    )


def raw() -> Source:
    """Initializers of every dtype as bytes."""
    tensors = []
    for name, (code, values) in _NUMBERS.items():
        spelled = helper.make_tensor(name, code, [2], values)
        data = numpy_helper.to_array(spelled).tobytes()
        tensors.append(helper.make_tensor(name, code, [2], data, raw=True))
    return _cast_all(tensors)


def external() -> Source:
    """An initializer, a Constant and an initializer of a body in files of their own."""
    files: dict[str, bytes] = {"weights.bin": b"", "others.bin": bytes(range(200))}

    def place(tensor: TensorProto) -> TensorProto:
        start = len(files["weights.bin"])
        files["weights.bin"] += tensor.raw_data
        for key, value in (
            ("location", "weights.bin"),
            ("offset", start),
            ("length", len(tensor.raw_data)),
        ):
            tensor.external_data.add(key=key, value=str(value))
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        return tensor

    first = body(
        "first",
        [node("Mul", "s inner", "m")],
        [],
        [declare("m")],
        [place(weight("inner", 2, 2, start=3))],
    )
    second = body("second", [node("Neg", "s", "n")], [], [declare("n")])
    nodes = [
        node("Constant", "", "c", value=place(weight("", 2, 2, start=-1))),
        node("MatMul", "x w", "h"),
        node("Add", "h c", "s"),
        node("If", "flag", "y", then_branch=first, else_branch=second),
    ]
    inputs = [declare("x"), declare("flag", (), BOOL)]
    return Source(build(nodes, inputs, [declare("y")], [place(weight("w", 2, 2))]), files)


def _sparse(name: str = "") -> onnx.SparseTensorProto:
    return helper.make_sparse_tensor(weight(name, 2, start=1), integers("", 0, 2), [4])


def constants() -> Source:
    """A Constant in each of its forms, lists longer than 16, and a sparse one."""
    many = list(range(20))
    nodes = [
        node("Constant", "", "tensor", value=weight("t", 4)),
        node("Constant", "", "single", value_float=1.5),
        node("Constant", "", "floats", value_floats=[0.5 * n for n in many]),
        node("Constant", "", "number", value_int=2),
        node("Constant", "", "numbers", value_ints=many),
        node("Constant", "", "text", value_string="2.5"),
        node("Constant", "", "texts", value_strings=[str(n) for n in many]),
        node(
            "Constant",
            "",
            "spelled",
            value=helper.make_tensor("s", FLOAT, [4], [1.0, 2.0, 3.0, 4.0]),
        ),
        *(
            node("Cast", name, f"{name}_f", to=FLOAT)
            for name in ("number", "numbers", "text", "texts")
        ),
        node("Sum", "x tensor single number_f text_f spelled", "y"),
        node("Sum", "floats numbers_f texts_f", "z"),
    ]
    return Source(build(nodes, [declare("x", (4,))], [declare("y", (4,)), declare("z", (20,))]))


def sparse() -> Source:
    """Sparse weights: a Constant in the graph and one in a body, and an initializer."""
    fixed = [node("Constant", "", "inner", sparse_value=_sparse()), node("Mul", "s inner", "m")]
    nodes = [
        node("Constant", "", "c", sparse_value=_sparse()),
        node("Sum", "x c i", "s"),
        node("If", "flag", "y", then_branch=body("first", fixed, [], [declare("m", (4,))]),
             else_branch=body("second", [node("Neg", "s", "n")], [], [declare("n", (4,))])),
    ]  # fmt: skip
    model = build(nodes, [declare("x", (4,)), declare("flag", (), BOOL)], [declare("y", (4,))])
    model.graph.sparse_initializer.append(_sparse("i"))
    return Source(model)


def choices() -> Source:
    """If in If, with weights, Constants and attributes in every branch."""
    deep = body("deep", [node("LeakyRelu", "h", "l", alpha=0.25), node("Sub", "l v", "p")], [], [declare("p")],
                [weight("v", 2, 2)])  # fmt: skip
    low = body(
        "low",
        [node("Constant", "", "k", value=weight("k", 2, 2)), node("Div", "h k", "q")],
        [],
        [declare("q")],
    )
    first = body("first", [node("If", "other", "inner", then_branch=deep, else_branch=low), node("Mul", "inner w", "r")],
                 [], [declare("r"), declare("inner")])  # fmt: skip
    second = body("second", [node("Gemm", "h own w", "g", alpha=0.5, transA=1), node("Transpose", "g", "t", perm=[1, 0])],
                  [], [declare("g"), declare("t")], [weight("own", 2, 2, start=-1)])  # fmt: skip
    nodes = [
        node("MatMul", "x w", "h"),
        node("If", "flag", "y z", then_branch=first, else_branch=second),
    ]
    inputs = [declare("x"), declare("flag", (), BOOL), declare("other", (), BOOL)]
    return Source(build(nodes, inputs, [declare("y"), declare("z")], [weight("w", 2, 2)]))


def loops() -> Source:
    """A Loop that may make no step, with a state, a value of each step, a weight and an If of its own."""
    odd = body("odd", [node("Mul", "state w", "o")], [], [declare("o")])
    even = body(
        "even", [node("Add", "state u", "e")], [], [declare("e")], [weight("u", 2, 2, start=-1)]
    )
    steps = [
        node("Constant", "", "three", value_int=3),
        node("Less", "i three", "on"),
        node("If", "flag", "next", then_branch=odd, else_branch=even),
        node("ReduceSum", "next axes", "row", keepdims=0),
    ]
    inner = body("steps", steps, [declare("i", (), INT64), declare("going", (), BOOL), declare("state")],
                 [declare("on", (), BOOL), declare("next"), declare("row", (2,))], [integers("axes", 1)])  # fmt: skip
    nodes = [node("Loop", "count start x", "last rows", body=inner), node("Relu", "last", "y")]
    inputs = [
        declare("x"),
        declare("count", (), INT64),
        declare("start", (), BOOL),
        declare("flag", (), BOOL),
    ]
    return Source(
        build(nodes, inputs, [declare("y"), declare("rows", ("N", 2))], [weight("w", 2, 2)])
    )


def scans() -> Source:
    """A Scan with two states and two sequences."""
    steps = [
        node("Add", "a row", "a2"),
        node("Mul", "b k", "b1"),
        node("Sub", "b1 other", "b2"),
        node("Max", "a2 b2", "most"),
        node("Identity", "row", "same"),
    ]
    names = ("a", "b", "row", "other")
    inner = body("step", steps, [declare(name, (2,)) for name in names],
                 [declare(name, (2,)) for name in ("a2", "b2", "most", "same")], [weight("k", 2)])  # fmt: skip
    scan = node("Scan", "s t x z", "p q r u", body=inner, num_scan_inputs=2, scan_input_directions=[0, 1],
                scan_output_directions=[1, 0])  # fmt: skip
    inputs = [declare("x"), declare("z"), declare("s", (2,)), declare("t", (2,))]
    outputs = [declare("p", (2,)), declare("q", (2,)), declare("r"), declare("u")]
    return Source(build([scan], inputs, outputs))


def heavy() -> Source:
    """Weights in branches, in a Loop, in Constants and in a function, large enough to be parameters."""
    first = body(
        "first",
        [node("Constant", "", "k", value=weight("", 3, 3, start=-1)), node("Gemm", "x own k", "p")],
        [],
        [declare("p", (3, 3))],
        [weight("own", 3, 3)],
    )
    second = body("second", [node("Heavy", "x", "q", "own")], [], [declare("q", (3, 3))])
    steps = [node("MatMul", "state turn", "next"), node("Identity", "going", "on")]
    states = [declare("i", (), INT64), declare("going", (), BOOL), declare("state", (3, 3))]
    turning = body(
        "turning",
        steps,
        states,
        [declare("on", (), BOOL), declare("next", (3, 3))],
        [weight("turn", 3, 3, start=-2)],
    )
    inside = [node("Constant", "", "f", value=weight("", 3, 3, start=2)), node("Sub", "l f", "m")]
    function = helper.make_function(
        "own", "Heavy", ["l"], ["m"], inside, [helper.make_opsetid("", 18)]
    )
    nodes = [
        node("If", "flag", "h", then_branch=first, else_branch=second),
        node("Loop", "count - h", "last", body=turning),
        node("Add", "last w", "y"),
    ]
    weights = [weight("w", 3, 3), numpy_helper.from_array(np.array(2, np.int64), "count")]
    inputs = [declare("x", (3, 3)), declare("flag", (), BOOL)]
    return Source(build(nodes, inputs, [declare("y", (3, 3))], weights, [function], ["own"]))


def calls() -> Source:
    """Functions: with attributes, defaults, Constants and two outputs, one that calls another, one
    name in two domains.
    """
    leak = node("LeakyRelu", "sum", "p")
    leak.attribute.append(
        AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT)
    )
    elu = node("Elu", "moved", "q")
    elu.attribute.append(
        AttributeProto(name="alpha", ref_attr_name="bend", type=AttributeProto.FLOAT)
    )
    nodes = [
        node("Constant", "", "fixed", value=weight("", 2, start=1)),
        node("Add", "l fixed", "moved"),
        node("Sub", "moved r", "sum"),
        leak,
        elu,
    ]
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("own", 1)]
    inner = helper.make_function(
        "own", "Both", ["l", "r"], ["p", "q"], nodes, imports[:1], ["slope"]
    )
    inner.attribute_proto.append(helper.make_attribute("bend", 0.5))
    calling = [node("Both", "l r", "p q", "own", slope=0.5), node("Mul", "p q", "product")]
    outer = helper.make_function("own", "Outer", ["l", "r"], ["product"], calling, imports)
    twin = helper.make_function(
        "twin", "Outer", ["l", "r"], ["t"], [node("Sub", "r l", "t")], imports[:1]
    )
    main = [
        node("Both", "x z", "a b", "own", slope=0.25, bend=2.0),
        node("Outer", "a b", "c", "own"),
        node("Outer", "c b", "d", "twin"),
        node("If", "flag", "y", then_branch=body("first", [node("Outer", "d x", "f", "own")], [], [declare("f")]),
             else_branch=body("second", [node("Neg", "d", "n")], [], [declare("n")])),
    ]  # fmt: skip
    inputs = [declare("x"), declare("z"), declare("flag", (), BOOL)]
    return Source(
        build(main, inputs, [declare("y"), declare("b")], [], [inner, outer, twin], ["own", "twin"])
    )


def images() -> Source:
    """Convolution, pooling and normalization: lists of numbers and texts that say how to pad."""
    nodes = [
        node(
            "Conv",
            "x k b",
            "c",
            kernel_shape=[3, 3],
            strides=[2, 1],
            pads=[1, 0, 1, 2],
            dilations=[1, 2],
            group=1,
        ),
        node("BatchNormalization", "c s o m v", "n", epsilon=0.01),
        node(
            "MaxPool", "n", "p", kernel_shape=[2, 2], strides=[1, 2], pads=[0, 1, 0, 1], ceil_mode=1
        ),
        node(
            "AveragePool",
            "p",
            "q",
            kernel_shape=[2, 1],
            auto_pad="SAME_UPPER",
            strides=[1, 1],
            count_include_pad=1,
        ),
        node("Transpose", "q", "t", perm=[0, 2, 3, 1]),
        node("ReduceMean", "t axes", "y", keepdims=1),
    ]
    weights = [weight("k", 2, 1, 3, 3, start=-2), weight("b", 2), weight("s", 2, start=2),
               weight("o", 2, start=3), weight("m", 2, start=-1),
               weight("v", 2, start=1), integers("axes", 1)]  # fmt: skip
    return Source(build(nodes, [declare("x", (1, 1, 6, 6))], [declare("y", (1, 1, "W", 2)), declare("t", (1, "H", "W", 2))],
                        weights))  # fmt: skip


def labels() -> Source:
    """Long lists of integers, floats and texts in attributes."""
    keys, names = list(range(20)), [f"label {n}" for n in range(20)]
    nodes = [
        node("LabelEncoder", "x", "s", "ai.onnx.ml", keys_int64s=keys, values_strings=names, default_string="none"),
        node("LabelEncoder", "s", "f", "ai.onnx.ml", keys_strings=names, values_floats=[0.5 * n for n in keys],
             default_float=-1.0),
        node("LabelEncoder", "f", "y", "ai.onnx.ml", keys_floats=[0.5 * n for n in keys], values_int64s=keys[::-1],
             default_int64=-1),
    ]  # fmt: skip
    inputs, outputs = (
        [declare("x", (21,), INT64)],
        [declare("y", (21,), INT64), declare("s", (21,), TensorProto.STRING)],
    )
    return Source(build(nodes, inputs, outputs, domains=["ai.onnx.ml"]))


def optional() -> Source:
    """Optional inputs, absent in the middle or at the end, and present ones."""
    nodes = [
        node("Clip", "x - high", "a"),
        node("Clip", "x low", "b"),
        node("Clip", "x low high", "c"),
        node("Pad", "a pads value", "d", mode="constant"),
        node("Slice", "d starts ends - steps", "e"),
        node(
            "Resize",
            "e - scales",
            "f",
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        ),
        node("Sum", "b c", "g"),
    ]
    weights = [
        numpy_helper.from_array(np.array(value, np.float32), name)
        for name, value in (("low", -0.5), ("high", 0.5), ("value", 2), ("scales", (2, 1)))
    ]
    weights += [
        integers("pads", 0, 1, 1, 0),
        integers("starts", 0, 0),
        integers("ends", 3, 3),
        integers("steps", 1, 2),
    ]
    return Source(build(nodes, [declare("x")], [declare("f", ("H", "W")), declare("g")], weights))


def quantized() -> Source:
    """Quantized weights and activations, with annotations that name scales."""
    nodes = [
        node("QuantizeLinear", "x scale zero", "q", axis=1),
        node("DequantizeLinear", "q scale zero", "d", axis=1),
        node("DequantizeLinear", "w_q w_scale w_zero", "w", axis=0),
        node("MatMul", "d w", "y"),
    ]
    scales = [
        numpy_helper.from_array(np.array(v, np.float32), n)
        for n, v in (("scale", 0.05), ("finer", 0.01))
    ]
    weights = [*scales, numpy_helper.from_array(np.int8(3), "zero"), weight("w_scale", 2),
               numpy_helper.from_array(np.array([[1, -2], [3, 4]], np.int8), "w_q"),
               numpy_helper.from_array(np.array([1, 0], np.int8), "w_zero")]  # fmt: skip
    model = build(nodes, [declare("x")], [declare("y")], weights)
    note = model.graph.quantization_annotation.add(tensor_name="d")
    note.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    note.quant_parameter_tensor_names.add(key="ZERO_POINT_TENSOR", value="zero")
    return Source(model)


def recurrent() -> Source:
    """An LSTM: optional inputs, three outputs of which one is not read, texts in lists."""
    nodes = [
        node("LSTM", "x w r b - - c", "all last", hidden_size=2, direction="forward", activations=["Sigmoid", "Tanh", "Tanh"],
             clip=0.75),
        node("GRU", "x gw gr", "- end", hidden_size=2, direction="reverse", linear_before_reset=1),
        node("Add", "last end", "y"),
    ]  # fmt: skip
    weights = [weight("w", 1, 8, 2, start=-3), weight("r", 1, 8, 2, start=-2), weight("b", 1, 16, start=-3),
               weight("c", 1, 1, 2), weight("gw", 1, 6, 2, start=-3), weight("gr", 1, 6, 2, start=-2)]  # fmt: skip
    for value in weights:  # small numbers, so that no gate is shut
        value.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(value) / 8, value.name))
    outputs = [declare("all", (3, 1, 1, 2)), declare("y", (1, 1, 2))]
    return Source(build(nodes, [declare("x", (3, 1, 2))], outputs, weights))


def parts() -> Source:
    """Operators of several outputs, and one whose inputs have an order."""
    nodes = [
        node("Split", "x sizes", "a b c", axis=1),
        node("Concat", "c a b", "d", axis=1),
        node("TopK", "d k", "values places", axis=1, largest=1, sorted=1),
        node("Gather", "d chosen", "e", axis=1),
        node("Where", "mask b c", "f"),
        node("Cast", "places", "g", to=FLOAT),
        node("Einsum", "values e", "y", equation="ij,ij->i"),
    ]
    weights = [integers("sizes", 1, 2, 2), integers("k", 2), integers("chosen", 0, 3),
               numpy_helper.from_array(np.array([True, False]), "mask")]  # fmt: skip
    outputs = [declare("y", (2,)), declare("g"), declare("f")]
    return Source(build(nodes, [declare("x", (2, 5))], outputs, weights))


def unknown() -> Source:
    """Operators that nobody knows, with an attribute of every kind and weights of rare dtypes: any
    other may mean anything.
    """
    bodies = [
        body(name, [node("Relu", "x", name)], [], [declare(name)]) for name in ("g1", "g2", "g3")
    ]
    types = [
        helper.make_tensor_type_proto(FLOAT, (2, "N")),
        helper.make_tensor_type_proto(INT64, (3,)),
    ]
    strange = node(
        "Strange", "x - w", "y - z", "x", f=1.5, i=-3, s=b"\xff", t=weight("t", 2), g=bodies[0], floats=[0.5] * 20,
        ints=list(range(20)), strings=[f"word {n}" for n in range(20)], tensors=[weight("", 2), integers("", 1, 2)],
        graphs=bodies[1:], sparse=_sparse(), sparses=[_sparse(), _sparse()], type=types[0], types=types,
    )  # fmt: skip
    rare = [helper.make_tensor("texts", TensorProto.STRING, [2], [b"one", b"two"]),
            helper.make_tensor("small", TensorProto.FLOAT8E4M3FN, [2], [1.0, 2.0]),
            helper.make_tensor("smaller", TensorProto.INT4, [4], [1, 2, 3, -4]),
            helper.make_tensor("smallest", TensorProto.UINT4, [4], b"\x21\x43", raw=True),
            helper.make_tensor("pairs", TensorProto.COMPLEX64, [2], [1 + 2j, 3 - 1j])]  # fmt: skip
    reading = node("Stranger", " ".join(["w", *(tensor.name for tensor in rare)]), "v", "x")
    model = build(
        [strange, reading],
        [declare("x")],
        [declare("y"), declare("z"), declare("v")],
        [weight("w", 2), *rare],
        domains=["x"],
    )
    return Source(model)


def _place(model: ModelProto) -> Source:
    return Source(model, {"w.bin": bytes(16) + np.arange(8, dtype=np.float32).tobytes()})


_OWN: tuple[Callable[[], Source], ...] = (
    dense, typed, raw, external, constants, sparse, choices, loops, scans, heavy, calls, images, labels, optional, quantized,
    recurrent, parts, unknown,
)  # fmt: skip
SOURCES: dict[str, Callable[[], Source]] = {
    **{make.__name__: make for make in _OWN},
    **{f"made_{name}": lambda make=make: _place(make()) for name, make in MADE.items()},
}
"""The models by name."""
UNKNOWN = ("unknown", "made_kinds")
"""Models that nothing computes."""


def draw_inputs(model: ModelProto) -> list[dict[str, Any]]:
    """Return several inputs of a model: numbers of both signs, every condition, and counts from zero."""
    held = {tensor.name for tensor in model.graph.initializer}
    runs: list[dict[str, Any]] = []
    for number in range(RUNS):
        rng = np.random.default_rng(number)
        feeds: dict[str, Any] = {}
        bits = iter((number & 1, number >> 1))
        for value in model.graph.input:
            kind = value.type.tensor_type
            shape = [dimension.dim_value or 2 for dimension in kind.shape.dim]
            if value.name in held:
                continue
            if kind.elem_type == BOOL:
                feeds[value.name] = np.full(shape, value.name == "start" or bool(next(bits)))
            elif kind.elem_type == INT64:
                feeds[value.name] = np.asarray(
                    rng.permutation(shape[0]) if shape else number, np.int64
                )
            else:
                feeds[value.name] = rng.standard_normal(shape).astype(
                    helper.tensor_dtype_to_np_dtype(kind.elem_type)
                )
        runs.append(feeds)
    return runs
