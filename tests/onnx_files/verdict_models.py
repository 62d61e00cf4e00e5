"""The smallest models of the rewrites, and of the faults, that a proof once judged wrongly: most in
pairs, before and after.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, BOOL, INT64, STRING, BFLOAT16 = (
    TensorProto.FLOAT,
    TensorProto.BOOL,
    TensorProto.INT64,
    TensorProto.STRING,
    TensorProto.BFLOAT16,
)
Models = tuple[onnx.ModelProto, onnx.ModelProto]


def _node(op: str, inputs: str, outputs: str, **attributes: Any) -> onnx.NodeProto:
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def _value(
    name: str, dtype: int = FLOAT, shape: Sequence[int | str] | None = ("N", 2)
) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, dtype, shape)


def _tensors(weights: Mapping[str, Any]) -> list[TensorProto]:
    """Return initializers; numbers without a dtype are float32, or int64 where all of them are integers."""
    arrays = {name: np.asarray(value) for name, value in weights.items()}
    arrays = {
        name: array.astype(np.float32) if array.dtype == np.float64 else array
        for name, array in arrays.items()
    }
    return [numpy_helper.from_array(array, name) for name, array in arrays.items()]


def _model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    weights: Mapping[str, Any] | None = None,
    *,
    domain: str = "",
    functions: Sequence[onnx.FunctionProto] = (),
    **more: Any,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, _tensors(weights or {}), **more)
    imports = [helper.make_opsetid("", 17), *([helper.make_opsetid(domain, 1)] if domain else [])]
    return helper.make_model(graph, opset_imports=imports, ir_version=8, functions=functions)


def _plain(
    nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Any] | None = None, width: int | str = 2
) -> onnx.ModelProto:
    """Return a model from ``x`` to ``y``, two numbers for each of N samples, or another number of them."""
    return _model(nodes, [_value("x", shape=("N", width))], [_value("y", shape=None)], weights)


def _body(
    name: str,
    nodes: Sequence[onnx.NodeProto],
    output: str,
    weights: Mapping[str, Any] | None = None,
) -> onnx.GraphProto:
    return helper.make_graph(nodes, name, [], [_value(output, shape=None)], _tensors(weights or {}))


def _choice(
    condition: str, output: str, then: onnx.GraphProto, other: onnx.GraphProto
) -> onnx.NodeProto:
    return _node("If", condition, output, then_branch=then, else_branch=other)


# What once ended a proof with an error.


def fused() -> Models:
    """A product and a sum, and the Gemm of both."""
    weights = {"w": [[0.5, -1.5], [0.25, 2.0]], "b": [1.0, -0.75]}
    parts = [_node("MatMul", "x w", "h"), _node("Add", "h b", "y")]
    return _plain(parts, weights), _plain([_node("Gemm", "x w b", "y")], weights)


def fused_in_body() -> Models:
    """As ``fused``, in a body of an If that only one number takes."""

    def make(*nodes: onnx.NodeProto) -> onnx.ModelProto:
        bodies = _body("then", [_node("Relu", "x", "t")], "t"), _body("else", nodes, "e")
        inside = [_node("Equal", "rate k", "c"), _choice("c", "y", *bodies)]
        weights = {"w": [[0.5, -1.5], [0.25, 2.0]], "b": [1.0, -0.75], "k": 16000}
        return _model(inside, [_value("x"), _value("rate", INT64, [])], [_value("y")], weights)

    return make(_node("MatMul", "x w", "h"), _node("Add", "h b", "e")), make(
        _node("Gemm", "x w b", "e")
    )


def _sequence(*steps: onnx.NodeProto, kind: str) -> onnx.ModelProto:
    """Return a model whose output is a sequence of ``x`` and ``h``, an optional ``h``, or what such
    a sequence holds.
    """
    tensor = helper.make_tensor_type_proto(FLOAT, None)
    ends = {
        "sequence": (
            [_node("SequenceConstruct", "x h", "y")],
            helper.make_sequence_type_proto(tensor),
        ),
        "optional": ([_node("Optional", "h", "y")], helper.make_optional_type_proto(tensor)),
        "inner": (
            [_node("SequenceConstruct", "x h", "s"), _node("ConcatFromSequence", "s", "y", axis=0)],
            tensor,
        ),
    }
    last, type_ = ends[kind]
    return _model(
        [*steps, *last], [_value("x")], [helper.make_value_info("y", type_)], {"two": 2.0}
    )


def sequence(kind: str, op: str) -> Models:
    """Two ways to double a number, or with another operator than Mul a fault."""
    return _sequence(_node("Add", "x x", "h"), kind=kind), _sequence(
        _node(op, "x two", "h"), kind=kind
    )


def mapped_sequence(op: str) -> Models:
    """A sequence of doubled numbers, made by a body; another operator than Add is a fault in it."""

    def make(node: onnx.NodeProto) -> onnx.ModelProto:
        body = helper.make_graph(
            [node],
            "body",
            [_value("e", shape=None), _value("k", shape=None)],
            [_value("d", shape=None)],
        )
        nodes = [
            _node("SequenceConstruct", "x x", "s"),
            _node("SequenceMap", "s two", "m", body=body),
            _node("ConcatFromSequence", "m", "y", axis=0),
        ]
        return _plain(nodes, {"two": 2.0})

    return make(_node("Mul", "e k", "d")), make(_node(op, "e e", "d"))


def listed_twice(op: str) -> Models:
    """An output that is listed twice: the greater of a number and itself is that number, their sum is another."""
    ends = [_value("x")], [_value("y"), _value("y")]
    return _model([_node("Relu", "x", "y")], *ends), _model(
        [_node(op, "x x", "z"), _node("Relu", "z", "y")], *ends
    )


# Names that move.


def folded_normalization(bias: Sequence[float]) -> Models:
    """A BatchNormalization folded into a Conv whose name the fold keeps; [-0.75, -0.9375] is the right bias."""
    scale = np.array([2.0, -0.25], np.float32).reshape(2, 1, 1, 1)
    weight = np.array([0.75, -1.25], np.float32).reshape(2, 1, 1, 1)
    last_weight = np.array([1.5, 0.5], np.float32).reshape(1, 2, 1, 1)
    statistics = {"g": [2.0, -0.5], "b": [0.25, -0.875], "m": [0.5, -0.25], "v": [1.0, 4.0]}

    def make(nodes: Sequence[onnx.NodeProto], weights: Mapping[str, Any]) -> onnx.ModelProto:
        tail = [_node("Relu", nodes[-1].output[0], "r"), _node("Conv", "r w2", "y")]
        ends = [_value("x", shape=("N", 1, 2, 2))], [_value("y", shape=None)]
        return _model([*nodes, *tail], *ends, {**weights, "w2": last_weight})

    normalized = [
        _node("Conv", "x w", "c"),
        _node("BatchNormalization", "c g b m v", "n", epsilon=0.0),
    ]
    folded = make([_node("Conv", "x w f", "c")], {"w": weight * scale, "f": list(bias)})
    return make(normalized, {"w": weight, **statistics}), folded


def moved_name(factor: float) -> Models:
    """The name of a Relu's output is that of its input in the other model; another factor than 3 is
    a fault behind it.
    """
    before = [
        _node("Mul", "x two", "m"),
        _node("Relu", "m", "r"),
        _node("Mul", "r k", "p"),
        _node("Exp", "p", "y"),
    ]
    after = [
        _node("Mul", "x two", "r"),
        _node("Relu", "r", "z"),
        _node("Mul", "z k", "p"),
        _node("Exp", "p", "y"),
    ]
    return _plain(before, {"two": 2.0, "k": 3.0}), _plain(after, {"two": 2.0, "k": factor})


def moved_axis(axis: int) -> Models:
    """An ArgMax behind a Transpose that something else reads too, and one before it; another axis than 1 is a fault."""

    def make(node: onnx.NodeProto) -> onnx.ModelProto:
        nodes = [
            _node("Neg", "x", "h"),
            _node("Transpose", "h", "t", perm=[0, 2, 1]),
            node,
            _node("Exp", "t", "z"),
        ]
        ends = [_value("x", shape=("N", 4, 4))], [_value("y", INT64, None), _value("z", shape=None)]
        return _model(nodes, *ends)

    before = _node("ArgMax", "h", "y", axis=axis, keepdims=0)
    return make(_node("ArgMax", "t", "y", axis=-1, keepdims=0)), make(before)


# Inputs and bodies that are exchanged.


def exchanged_conditions() -> Models:
    """Two conditions of which either decides, exchanged."""

    def make(first: str, second: str) -> onnx.ModelProto:
        nodes = [
            _node("Add", "x x", "d"),
            _node("Neg", "x", "n"),
            _node("Where", f"{second} d n", "u"),
            _node("Where", f"{first} x u", "y"),
        ]
        return _model(
            nodes, [_value("x"), _value("c1", BOOL, []), _value("c2", BOOL, [])], [_value("y")]
        )

    return make("c1", "c2"), make("c2", "c1")


def exchanged_integers() -> Models:
    """Two rows of a table, of which the other is subtracted."""

    def make(first: str, second: str) -> onnx.ModelProto:
        nodes = [
            _node("Gather", f"t {first}", "p"),
            _node("Gather", f"t {second}", "q"),
            _node("Sub", "p q", "y"),
        ]
        ends = [_value("i", INT64, []), _value("j", INT64, [])], [_value("y", shape=None)]
        return _model(nodes, *ends, {"t": np.arange(8, dtype=np.float32) ** 2})

    return make("i", "j"), make("j", "i")


def exchanged_numbers() -> Models:
    """A difference and its negative."""

    def make(inputs: str) -> onnx.ModelProto:
        return _model([_node("Sub", inputs, "y")], [_value("a"), _value("b")], [_value("y")])

    return make("a b"), make("b a")


def nested(
    conditions: Sequence[str], factors: Sequence[float], *, is_named_alike: bool = False
) -> onnx.ModelProto:
    """An If in each body of an If, with a factor in each of the four bodies; all may give their factors one name."""
    bodies = []
    for outer in range(2):
        inner = []
        for number in range(2):
            place = 2 * outer + number
            name, end = ("w", "t") if is_named_alike else (f"w{place}", f"t{place}")
            inner.append(
                _body(
                    f"inner{place}", [_node("Mul", f"x {name}", end)], end, {name: factors[place]}
                )
            )
        end = "v" if is_named_alike else f"v{outer}"
        bodies.append(_body(f"outer{outer}", [_choice(conditions[1], end, *inner)], end))
    ends = (
        [_value("x"), *(_value(name, BOOL, []) for name in ("c1", "c2"))],
        [_value("y", shape=None)],
    )
    return _model([_choice(conditions[0], "y", *bodies)], *ends)


# What shows at other sizes alone.


def flattened(*, is_multiplied: bool) -> Models:
    """Each sample as a row, and all samples as one row, which then may have no product with a weight."""

    def make(node: onnx.NodeProto) -> onnx.ModelProto:
        last = _node("MatMul", "f w", "y") if is_multiplied else _node("Identity", "f", "y")
        ends = [_value("x", shape=("N", 2, 2))], [_value("y", shape=None)]
        return _model([node, last], *ends, {"s": [1, -1], "w": [[1.0], [2.0], [3.0], [4.0]]})

    return make(_node("Flatten", "x", "f", axis=1)), make(_node("Reshape", "x s", "f"))


def over_batch() -> Models:
    """A mean over the batch axis, which of one sample is that sample."""
    mean = [
        _node("ReduceMean", "x", "m", axes=[0]),
        _node("Sub", "x m", "d"),
        _node("Add", "d x", "y"),
    ]
    return _plain(mean), _plain([_node("Identity", "x", "y")])


def first_of_batch() -> Models:
    """The greatest over the batch axis, and the first sample."""
    after = [_node("Gather", "x zero", "y", axis=0)]
    before = [_node("ReduceMax", "x", "y", axes=[0], keepdims=0)]
    return _plain(before, width=8), _plain(after, {"zero": 0}, width=8)


def squeezed_batch() -> Models:
    """The greatest over the batch axis, and the one sample that there may be."""
    after = [_node("Squeeze", "x axes", "y")]
    return _plain([_node("ReduceMax", "x", "y", axes=[0], keepdims=0)]), _plain(
        after, {"axes": [0]}
    )


def shape_bodies(then: str, other: str) -> onnx.ModelProto:
    """An If that asks whether a size is even; its bodies agree at all sizes but 1, where numbers may be negative."""
    nodes = [
        _node("Shape", "x", "s", start=1),
        _node("Sub", "s one", "less"),
        _node("Cast", "less", "shift", to=FLOAT),
        _node("Mul", "shift k", "far"),
        _node("Add", "x far", "h"),
        _node("Mod", "s two", "rest"),
        _node("Equal", "rest zero", "flag"),
        _node("Squeeze", "flag", "c"),
        _choice(
            "c",
            "y",
            _body("then", [_node(then, "h", "t")], "t"),
            _body("else", [_node(other, "h", "e")], "e"),
        ),
    ]
    return _plain(nodes, {"one": [1], "two": [2], "zero": [0], "k": 100.0}, "C")


def shape_factors() -> Models:
    """Two factors made of a size, which are both 1 where the size is 8, as drawn sizes often are."""

    def make(op: str, number: int) -> onnx.ModelProto:
        nodes = [_node("Shape", "x", "s", start=1), _node(op, "s n", "d")]
        return _plain(
            [*nodes, _node("Cast", "d", "f", to=FLOAT), _node("Mul", "x f", "y")],
            {"n": [number]},
            "C",
        )

    return make("Div", 8), make("Sub", 7)


def doubled_size() -> Models:
    """A size twice, and the sum of a size and itself."""

    def make(node: onnx.NodeProto) -> onnx.ModelProto:
        nodes = [
            _node("Shape", "x", "s", start=1),
            node,
            _node("Cast", "d", "f", to=FLOAT),
            _node("Mul", "x f", "y"),
        ]
        return _plain(nodes, {"two": [2]}, "C")

    return make(_node("Mul", "s two", "d")), make(_node("Add", "s s", "d"))


# Numbers.


def divided_by_zero(zero: float) -> onnx.ModelProto:
    """A quotient whose sign is that of the zero."""
    return _plain([_node("Div", "x v", "y")], {"v": [zero, 1.0]})


def added_zero(zero: float) -> onnx.ModelProto:
    """A sum that shows the sign of the zero at -0 alone."""
    return _plain([_node("Add", "x v", "y")], {"v": [zero, 1.0]})


def scaled_difference(share: float) -> Models:
    """A factor after a difference, and in its weights; 1 is the right share of the first weight.

    Where the weights nearly cancel, their rounding is a large part of a small number, and 1e-7 of
    the largest one. No operator sums, so every processor computes the same numbers.
    """
    factor = np.float32(0.7)
    first = np.array([100.0, 90.0, 80.0, 70.0], np.float32)
    second = np.array([99.9999, 89.9999, 79.9999, 1.0], np.float32)

    def make(a: Any, b: Any, *nodes: onnx.NodeProto) -> onnx.ModelProto:
        return _plain(nodes, {"a": a, "b": b, "k": factor}, 4)

    scaled = first * factor
    scaled[0] *= np.float32(share)
    before = [
        _node("Mul", "x a", "p"),
        _node("Mul", "x b", "q"),
        _node("Sub", "p q", "d"),
        _node("Mul", "d k", "y"),
    ]
    after = [_node("Mul", "x a", "kp"), _node("Mul", "x b", "kq"), _node("Sub", "kp kq", "y")]
    return make(first, second, *before), make(scaled, second * factor, *after)


def random_dropout() -> onnx.ModelProto:
    """A Dropout that draws."""
    return _plain(
        [_node("Dropout", "x half yes", "y", name="drop")], {"half": 0.5, "yes": True}, 64
    )


def random_normal() -> onnx.ModelProto:
    """Noise without a seed, added."""
    return _plain([_node("RandomNormalLike", "x", "n", name="noise"), _node("Add", "x n", "y")])


def narrow_input(dtype: str) -> onnx.ModelProto:
    """Numbers of few bits that become float32."""
    model = _model(
        [_node("Cast", "x", "y", to=FLOAT)],
        [_value("x", getattr(TensorProto, dtype))],
        [_value("y")],
    )
    model.opset_import[0].version = 21
    return model


def bfloat16_output(weight: float) -> onnx.ModelProto:
    """An output that numpy has no dtype for."""
    nodes = [_node("Mul", "x w", "h"), _node("Cast", "h", "y", to=BFLOAT16)]
    return _model(nodes, [_value("x")], [_value("y", BFLOAT16)], {"w": weight})


def refused_inputs() -> onnx.ModelProto:
    """Sizes that no input has that is drawn: 2 x N numbers as 7 x 7."""
    return _plain([_node("Reshape", "x s", "y")], {"s": [7, 7]})


# Spellings.


def inlined(op: str) -> Models:
    """A call of a local function and its body; another operator than Add is a fault."""
    function = helper.make_function(
        "own", "Twice", ["a"], ["b"], [_node("Add", "a a", "b")], [helper.make_opsetid("", 17)]
    )
    call = [_node("Twice", "x", "h", domain="own"), _node("Mul", "h h", "y")]
    ends = [_value("x")], [_value("y")]
    called = _model(call, *ends, domain="own", functions=[function])
    return called, _model([_node(op, "x x", "h"), _node("Mul", "h h", "y")], *ends)


def inlined_in_part(op: str) -> Models:
    """Two local functions, of which one is inlined; another operator than Add is a fault."""
    imports = [helper.make_opsetid("", 17)]
    twice = helper.make_function("own", "Twice", ["a"], ["b"], [_node("Add", "a a", "b")], imports)
    square = helper.make_function(
        "own", "Square", ["a"], ["b"], [_node("Mul", "a a", "b")], imports
    )
    ends = [_value("x")], [_value("y")]
    nodes = [_node("Twice", "x", "h", domain="own"), _node("Square", "h", "y", domain="own")]
    called = _model(nodes, *ends, domain="own", functions=[twice, square])
    return called, _model(
        [_node(op, "x x", "h"), nodes[1]], *ends, domain="own", functions=[square]
    )


def inlined_choice(second: str = "Relu") -> Models:
    """Two calls of a local function that has an If, and their bodies; another operator than Relu is a fault."""

    def make(value: str, number: str, op: str) -> list[onnx.NodeProto]:
        end = f"t{number}"
        then = _body("then", [_node(op, f"m{number}", end)], end)
        other = _body("else", [_node("Exp", value, f"e{number}")], f"e{number}")
        return [_node("Neg", value, f"m{number}"), _choice("c", f"o{number}", then, other)]

    function = helper.make_function(
        "own", "Choose", ["c", "a"], ["o"], make("a", "", "Relu"), [helper.make_opsetid("", 17)]
    )
    ends = [_value("x"), _value("c", BOOL, [])], [_value("y")]
    calls = [_node("Choose", "c x", "h", domain="own"), _node("Choose", "c h", "y", domain="own")]
    called = _model(calls, *ends, domain="own", functions=[function])
    bodies = [*make("x", "1", "Relu"), *make("h", "2", second)]
    bodies[1].output[0], bodies[3].output[0] = "h", "y"
    return called, _model(bodies, *ends)


def folded_output(stated: Mapping[str, Any], value: Any, dtype: int) -> Models:
    """A copied constant that is an output, and an initializer that is the output."""
    ends = [_value("y", dtype, [2])]
    nodes = [_node("Constant", "", "c", **stated), _node("Identity", "c", "y")]
    return _model(nodes, [], ends), _model([], [], ends, {"y": np.asarray(value)})


def unread_input() -> Models:
    """An input that nothing reads, and its absence."""
    nodes = [_node("Neg", "x", "y")]
    return _model(nodes, [_value("x"), _value("u")], [_value("y")]), _plain(nodes)


def read_other_input(*more: str) -> Models:
    """One reads an input, the other reads another one; both declare the second, and with ``more`` the first, too."""
    inputs = {name: _value(name) for name in ("a", "b")}
    declared = [inputs[name] for name in dict.fromkeys((*more, "b"))]
    return (
        _model([_node("Neg", "a", "y")], [*inputs.values()], [_value("y")]),
        _model([_node("Neg", "b", "y")], declared, [_value("y")]),
    )


def unread_output() -> Models:
    """Indices of a MaxPool that nothing reads, and their absence."""

    def make(outputs: str) -> onnx.ModelProto:
        nodes = [_node("MaxPool", "x", outputs, kernel_shape=[2])]
        return _model(nodes, [_value("x", shape=("N", 1, 3))], [_value("y", shape=None)])

    return make("y indices"), make("y")


def lost_output(*, is_computed: bool) -> Models:
    """Two outputs, and the first alone, where the second is an inner value or is not computed."""
    nodes = [_node("Neg", "x", "z"), _node("Abs", "z" if is_computed else "x", "y")]
    return (
        _model(nodes, [_value("x")], [_value("y"), _value("z")]),
        _plain(nodes if is_computed else nodes[1:]),
    )


def unread_node() -> Models:
    """An operator whose output nothing reads, and its absence."""
    return _plain([_node("Neg", "x", "y"), _node("Exp", "x", "z")]), _plain(
        [_node("Neg", "x", "y")]
    )


def padding(**attributes: Any) -> onnx.ModelProto:
    """A Conv whose padding is stated in one of several ways."""
    weights = {"w": np.array([0.5, -1.5], np.float32).reshape(1, 1, 2)}
    ends = [_value("x", shape=("N", 1, 4))], [_value("y", shape=None)]
    return _model([_node("Conv", "x w", "y", **attributes)], *ends, weights)


def idle_dropout() -> Models:
    """A Dropout in inference, and its absence."""
    return _plain([_node("Dropout", "x", "d"), _node("Neg", "d", "y")]), _plain(
        [_node("Neg", "x", "y")]
    )


def sparse(dtype: Any, value: float) -> onnx.ModelProto:
    """A sparse weight whose indices have this dtype."""
    values = numpy_helper.from_array(np.array([value], np.float32), "w")
    tensor = helper.make_sparse_tensor(
        values, numpy_helper.from_array(np.array([1], dtype), "places"), [2]
    )
    return _model(
        [_node("Mul", "x w", "y")], [_value("x")], [_value("y")], sparse_initializer=[tensor]
    )


def unknown(names: Sequence[str], weight: float = 0.5) -> onnx.ModelProto:
    """An operator of an unknown domain, twice behind one weight."""
    nodes = [
        _node("Mul", "x w", names[0]),
        _node("Strange", names[0], names[1], domain="own"),
        _node("Mul", f"{names[1]} w", names[2]),
        _node("Strange", names[2], "y", domain="own"),
    ]
    return _model(nodes, [_value("x")], [_value("y")], {"w": weight}, domain="own")


# Faults that the drawn inputs do not show, because what follows hides them.

MASKS: dict[str, tuple[float, Sequence[tuple[str, str, str, Mapping[str, Any]]]]] = {
    "relu": (-1000.0, [("Relu", "{}", "y", {})]),
    "clip": (1000.0, [("Clip", "{} low high", "y", {})]),
    "where": (1000.0, [("Less", "{} high", "c", {}), ("Where", "c {} low", "y", {})]),
    "max-pool": (
        -1000.0,
        [("Unsqueeze", "{} one", "{}_u", {}), ("MaxPool", "{}_u", "y", {"kernel_shape": [2]})],
    ),
}
"""The bias of the first column, and operators after a value that hide this column for any number of a usual size."""


def hide(mask: str, weight: Any, bias: Any, fused: str = "") -> onnx.ModelProto:
    """A linear layer and a mask: in two operators, or in one whose value has the name ``fused``."""
    nodes = (
        [_node("Gemm", "x w b", fused)]
        if fused
        else [_node("MatMul", "x w", "m"), _node("Add", "m b", "h")]
    )
    end = nodes[-1].output[0]
    last = [
        _node(op, inputs.format(end), outputs.format(end), **more)
        for op, inputs, outputs, more in MASKS[mask][1]
    ]
    return _plain(
        [*nodes, *last],
        {"w": weight, "b": bias, "low": -100.0, "high": 100.0, "one": [1]},
        len(weight),
    )


def masked(mask: str, moved: float, fused: str = "") -> Models:
    """A weight of a hidden column that is moved."""
    bias = [MASKS[mask][0], 0.5]
    return hide(mask, [[0.5, 1.5], [0.25, -2.0]], bias), hide(
        mask, [[moved, 1.5], [0.25, -2.0]], bias, fused
    )
