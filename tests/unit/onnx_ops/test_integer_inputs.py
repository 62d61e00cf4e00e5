"""The integers that inputs need: each wish by its operator, its numbers, and whether it makes a mask."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

from graphshare.formats.facets import Integers
from graphshare.formats.onnx.decode import decode_model
from graphshare.formats.onnx.stored import MemoryFile
from graphshare.ir.graph import Graph
from graphshare.onnx_ops.integer_inputs import find_integers, read_numbers


def read(text: str, opset: int = 17) -> Graph:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "ai.other" : 1]>\ng {text}'
    )
    return decode_model(MemoryFile(model.SerializeToString()))


def find_stated(graph: Graph) -> list[tuple[str, Integers]]:
    """Return the wishes that an operator or a name states."""
    return [
        (name, each) for name, wishes in find_integers(graph).items() for each in wishes if each.why
    ]


def show(graph: Graph) -> list[str]:
    """Return the wishes, each with its values, or with its lowest number and the one behind its highest."""
    return [
        f"{name}: {each.why}: {each.values or (each.low, each.high)}{' mask' if each.is_mask else ''}"
        for name, each in find_stated(graph)
    ]


FREE, BOUND = (-128, 256), (0, 2)


@pytest.mark.parametrize(
    ("operators", "wanted"),
    [
        ("y = Abs(x)", FREE),
        ("y = Add(x, x)", FREE),
        ("f = Cast<to = 1>(x) i = Cast<to = 7>(f) y = Gather(t, i)", FREE),
        ("a = ArgMax<keepdims = 0>(x) y = Gather(t, a)", FREE),
        ("i = Add(x, x) y = Gather(t, i)", BOUND),
        ("i = Cast<to = 6>(x) y = ai.other.Pick(t, i)", BOUND),
        ("y = Div(t, x)", BOUND),
        ("y = Div(x, t)", FREE),
        ("a = Abs(x) y = GatherND(t, x)", BOUND),
        ("c = Constant<value_int = 1>() y = If(c) <then_branch = b () => (int64[2] z) { z = Gather(t, x) }, else_branch = d () => (int64[2] z) { z = Abs(x) }>", BOUND),
    ],
)  # fmt: skip
def test_an_input_takes_any_integers_if_none_is_a_place_or_a_size(
    operators: str, wanted: tuple[int, int]
) -> None:
    graph = read(f"(int64[2] x, int64[2] t) => (int64[2] y) {{ {operators} }}")
    weakest = find_integers(graph)["x"][-1]
    assert (weakest.why, weakest.values, (weakest.low, weakest.high)) == ("", (), wanted)


WISHES: dict[str, list[str]] = {
    "(int64[2] My_Mask, int64[2] z) => (int64[2] y) { y = Mul(My_Mask, z) }": [
        "My_Mask: it is called a mask: (0, 1) mask",
    ],
    "(int64[2] x) => (bool[2] y, float[2] z, int32[2] w) { y = Cast<to = 9>(x) z = Cast<to = 1>(x) w = Cast<to = 6>(x) }": [
        "x: Cast 'y' turns it into truth values: (0, 1) mask",
        "x: Cast 'z' turns it into floats: (1,) mask",
    ],
    "(int64[2] x) => (float16[2] y, double[2] z, bfloat16[2] w) "
    "{ y = Cast<to = 10>(x) z = Cast<to = 11>(x) w = Cast<to = 16>(x) }": [
        "x: Cast 'y' turns it into floats: (1,) mask",
        "x: Cast 'z' turns it into floats: (1,) mask",
        "x: Cast 'w' turns it into floats: (1,) mask",
    ],
    "(bool[2] a, bool[2] b, bool[2] c) => (bool[2] y) { d = And(a, b) e = Not(c) f = Or(d, e) g = And(a, a) y = Xor(f, g) }": [
        "a: And 'd' takes it as a condition: (0, 1) mask",
        "a: And 'g' takes it as a condition: (0, 1) mask",
        "b: And 'd' takes it as a condition: (0, 1) mask",
        "c: Not 'e' takes it as a condition: (0, 1) mask",
    ],
    "(bool[2] a, bool[2] b, bool[2] c, bool[2] d) => (bool[2] y) { e = Or(a, b) y = Where(c, e, d) }": [
        "a: Or 'e' takes it as a condition: (0, 1) mask",
        "b: Or 'e' takes it as a condition: (0, 1) mask",
        "c: Where 'y' takes it as a condition: (0, 1) mask",
    ],
    "(int64[2] a, int64[2] b, int64[2] c, int64[2] d, int64[1] e) => (float[?] y) <float[2] x = {1, 2}> "
    "{ f = ConstantOfShape(a) g = Expand(x, b) h = Reshape(x, c) i = Tile(x, d) y, z = TopK(x, e) }": [
        "a: ConstantOfShape 'f' takes it as a size: (1, 9)",
        "b: Expand 'g' takes it as a size: (1, 2)",
        "c: Reshape 'h' takes it as a size: (1, 2)",
        "d: Tile 'i' takes it as a size: (1, 3)",
        "e: TopK 'y' takes it as a size: (1, 2)",
    ],
    "(int64 a, int64 b, int64 c) => (int64[?] y) { y = Range(a, b, c) }": [
        "b: Range 'y' takes it as a size: (1, 9)",
        "c: Range 'y' takes it as a size: (1, 2)",
    ],
    "(int64[2] a, int64 b) => (float[?,?] y) <float[2] v = {0, 1}> { y = OneHot(a, b, v) }": [
        "b: OneHot 'y' takes it as a size: (1, 9)",
        "a: OneHot 'y' takes it as an index below 1: (0, 1)",
    ],
    "(int64[2] a) => (float[?,?] y) <float[2] v = {0, 1}, int64 depth = {5}> { y = OneHot(a, depth, v) }": [
        "a: OneHot 'y' takes it as an index below 5: (0, 5)",
    ],
    "(int64[2] a) => (bool[2] y) <int64[2] b = {3, 7}> { y = Equal(a, b) }": ["a: Equal 'y' compares it with 3, 7: (3, 7)"],
    "(int64[2] a) => (bool[2] y) <int64[2] b = {3, 4}> { y = Less(b, a) }": ["a: Less 'y' compares it with 3, 4: (2, 3, 4, 5)"],
    "(int64[2] a, int64[2] b) => (bool[2] y) { y = GreaterOrEqual(a, b) }": [],
    "(int64[2] i, int64[2,3] j, float[8,3] t) => (float[2,3] y) <float[2,3] u> "
    "{ u = Gather(t, i) y = GatherElements<axis = -1>(u, j) }": [
        "i: Gather 'u' takes it as an index below 8: (0, 8)",
        "j: GatherElements 'y' takes it as an index below 3: (0, 3)",
    ],
    "(int64[2] i, float[N,0,1] t) => (float[?] a) "
    "{ a = Gather(t, i) b = Gather<axis = 1>(t, i) c = Gather<axis = 2>(t, i) "
    "d = Gather<axis = 3>(t, i) e = Gather<axis = -4>(t, i) }": [
        "i: Gather 'c' takes it as an index below 1: (0, 1)",
    ],
    "(int64[1] s, int64[1] e, float[5,6] t) => (float[?,6] y) { y = Slice(t, s, e) }": [
        "s: Slice 'y' takes it as a start: (0, 5)",
        "e: Slice 'y' takes it as an end: (1, 6)",
    ],
    "(int64[1] s, int64[1] e, float[5,6] t) => (float[5,?] y) <int64[1] a = {1}> { y = Slice(t, s, e, a) }": [
        "s: Slice 'y' takes it as a start: (0, 6)",
        "e: Slice 'y' takes it as an end: (1, 7)",
    ],
    "(int64[2] s, int64[2] e, float[5,6] t) => (float[?,?] y) <int64[2] a = {1, 0}> { y = Slice(t, s, e, a) }": [
        "s: Slice 'y' takes it as a start: (0, 5)",
        "e: Slice 'y' takes it as an end: (1, 6)",
    ],
    "(int64[1] s, int64[1] e, float[5,6] t, int64[1] p) => (float[?,6] y) { y = Slice(t, s, e, , p) }": [
        "s: Slice 'y' takes it as a start: (0, 5)",
        "e: Slice 'y' takes it as an end: (1, 6)",
    ],
    "(int64[1] s, int64[1] e, float[5,6] t, int64[1] a) => (float[?,?] y) { y = Slice(t, s, e, a) }": [
        "s: Slice 'y' takes it as a start: (0, 1)",
        "e: Slice 'y' takes it as an end: (1, 2)",
    ],
    "(int64[2] a, int64[2] b) => (float[?] y) <int64[1] zero = {0}> "
    "{ c = Unsqueeze(a, zero) d = Gather(b, zero) e = Concat<axis = 0>(c, d) y = ConstantOfShape(e) }": [
        "a: ConstantOfShape 'y' takes it as a size: (1, 9)",
        "b: ConstantOfShape 'y' takes it as a size: (1, 9)",
    ],
    "(int64[2] a, int64[2] b) => (float[?] y) { c = Mul(a, b) d = Gather(c, b) e = Reshape(d, b) y = ConstantOfShape(e) }": [
        "b: Reshape 'e' takes it as a size: (1, 2)",
    ],
    f"({', '.join(f'int64[1] x{number}' for number in range(10))}) => (float[?] y) "
    f"{{ c = Concat<axis = 0>({', '.join(f'x{number}' for number in range(10))}) y = ConstantOfShape(c) }}": [
        f"x{number}: ConstantOfShape 'y' takes it as a size: (1, 9)" for number in range(9)
    ],
    "(int64[2] a, int64[1] s) => (float[?] y) { b = Reshape(a) c = OneHot(a) d = Slice(a, s) y = Relu(d) }": [],
    "(int64[2] a) => (float[?,?] y) <int64 depth = {5}> { y = OneHot(a, depth) }": [
        "a: OneHot 'y' takes it as an index below 5: (0, 5)",
    ],
    "(int64[2] a) => (float[?,?] y) <int64 depth = {-5}> { y = OneHot(a, depth) }": [
        "a: OneHot 'y' takes it as an index below 1: (0, 1)",
    ],
    "(int64[2] i, float[8,3] t) => (float[2,3] y) { y = Gather<axis = -2>(t, i) }": [
        "i: Gather 'y' takes it as an index below 8: (0, 8)",
    ],
    "(int64[2] a) => (float[?] y) { y = ai.other.ConstantOfShape(a) }": [],
    "(bool c, int64[2] a) => (float[?] y) <int64[2] b = {3, 4}> { y = If(c) "
    "<then_branch = t () => (float[?] d) { d = ConstantOfShape(a) }, "
    "else_branch = e () => (bool[2] f) { f = Equal(a, b) }> }": [
        "c: If 'y' takes it as a condition: (0, 1) mask",
        "a: ConstantOfShape 'd' takes it as a size: (1, 9)",
        "a: Equal 'f' compares it with 3, 4: (3, 4)",
    ],
    "(int64 n, bool c, float s) => (float y) { y = Loop(n, c, s) "
    "<body = b (int64 i, bool k, float u) => (bool l, float v) { l = Identity(c) v = Cast<to = 1>(n) }> }": [
        "n: Loop 'y' takes it as a size: (1, 9)",
        "n: Cast 'v' turns it into floats: (1,) mask",
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", WISHES)
def test_the_wishes_of_operators(text: str) -> None:
    assert show(read(text)) == WISHES[text]


@pytest.mark.parametrize(("rows", "high"), [((9, 6), 9), ((1, 6), 1)])
def test_an_index_is_below_the_size_of_an_initializer(rows: tuple[int, ...], high: int) -> None:
    graph = parser.parse_graph("g (int64[2] i) => (float[2,6] y) { y = Gather(t, i) }")
    graph.initializer.append(
        helper.make_tensor("t", onnx.TensorProto.FLOAT, rows, [0.0] * rows[0] * rows[1])
    )
    model = helper.make_model(graph)
    assert show(decode_model(MemoryFile(model.SerializeToString()))) == [
        f"i: Gather 'y' takes it as an index below {high}: (0, {high})"
    ]


@pytest.mark.parametrize(
    ("operators", "numbers"),
    [
        ("b = Constant<value_int = 5>()", [5]),
        ("b = Constant<value_ints = [5, 6]>()", [5, 6]),
        (f"b = Constant<value_ints = {[*range(20)]}>()", [*range(16)]),
        ("b = Constant<value = int32[2] {7, -8}>()", [7, -8]),
        ("b = Constant<value = float[2] {7, 8}>()", None),
        ("b = Constant<value_float = 5.0>()", None),
        ("c = Constant<value_int = 5>() d = Reshape(c, x) b = Cast<to = 6>(d)", [5]),
        ("b = Identity(x)", None),
        ("b = ai.other.Scale<value_int = 5>(x)", None),
    ],
)
def test_numbers_of_small_constants(operators: str, numbers: list[int] | None) -> None:
    graph = read(f"(int64[2] x) => (bool[?] y) {{ {operators} y = Equal(x, b) }}")
    entry = next(node for node in graph.nodes if node.name == "y").inputs[1]
    assert read_numbers(entry) == numbers


def test_a_constant_of_more_bytes_is_not_read_nor_a_damaged_one() -> None:
    model = helper.make_model(
        parser.parse_graph("g (int64[2] x) => (bool[?] y) { y = Equal(x, b) }")
    )
    tensor = model.graph.initializer.add()
    for count in (510, 511):
        tensor.CopyFrom(numpy_helper.from_array(np.arange(count), "b"))
        assert (tensor.ByteSize() <= 4096) == (count == 510)
        wishes = find_stated(decode_model(MemoryFile(model.SerializeToString())))
        assert [len(each.values) for _, each in wishes] == [510] * (count == 510)
        assert all(
            each.why == "Equal 'y' compares it with 0, 1, 2, 3, 4, 5, 6, 7 and 502 more"
            for _, each in wishes
        )
    tensor.CopyFrom(helper.make_tensor("b", onnx.TensorProto.INT64, [2], [3, 4]))
    tensor.int64_data.append(5)
    assert not find_stated(decode_model(MemoryFile(model.SerializeToString())))
