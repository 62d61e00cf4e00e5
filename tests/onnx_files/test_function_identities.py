"""Calls of functions against the nodes of the functions: what is exact bit for bit, and what looks alike and is not."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import graphshare as gs
from graphshare.formats.onnx.inline import inline_calls
from graphshare.verification.model_comparison import make_judge
from graphshare.verification.pairing import pair_models
from tests.onnx_files.alike import Pair, assert_exact, assert_unlike, find_exact

pytest.importorskip("onnxruntime")

_X = "(float[N,4] x) => (float[N,4] y)"
_TWO = "(float[N,4] x, float[N,4] z) => (float[N,4] y)"
_FREE = "(float[A,B,C] x) => (float[D,E,F] y)"
_BRANCH = "(bool c, float[N,4] x) => (float[N,4] y)"


def _define(name: str, heads: str, body: str, opset: int = 17) -> str:
    return f'<domain: "local", opset_import: ["" : {opset}, "local" : 1]> {name} {heads} {{{body}}}'


_LEAKY = _define("f", "<a> (x) => (y)", "y = LeakyRelu <alpha: float = @a> (x)")
_DEFAULT = _define("f", "<a: float = 0.25> (x) => (y)", "y = LeakyRelu <alpha: float = @a> (x)")
_CLIP = _define("f", "(x, low, high) => (y)", "a = Relu(x) y = Clip(a, low, high)")
_SELECT = _define(
    "f",
    "<a> (c, x) => (y)",
    "m = Neg(x) y = If(c) <then_branch = t () => (float[N,4] o) {o = LeakyRelu <alpha: float = @a> (m)}, "
    "else_branch = e () => (float[N,4] o) {o = Exp(x)}>",
)
_SELECTED = (
    "m = Neg(x) y = If(c) <then_branch = t () => (float[N,4] p) {{p = LeakyRelu <alpha = {}> (m)}}, "
    "else_branch = e () => (float[N,4] q) {{q = Exp(x)}}>"
)

EXACT = {
    "a call": Pair(
        _X,
        "y = local.f(x)",
        "a = Neg(x) y = Relu(a)",
        17,
        functions=_define("f", "(p) => (q)", "o = Neg(p) q = Relu(o)"),
    ),
    "an attribute": Pair(
        _X, "y = local.f <a = 0.5> (x)", "y = LeakyRelu <alpha = 0.5> (x)", 17, functions=_LEAKY
    ),
    "an attribute that is not stated": Pair(
        _X, "y = local.f(x)", "y = LeakyRelu(x)", 17, functions=_LEAKY
    ),
    "an attribute's default": Pair(
        _X, "y = local.f(x)", "y = LeakyRelu <alpha = 0.25> (x)", 17, functions=_DEFAULT
    ),
    "an attribute in place of its default": Pair(
        _X, "y = local.f <a = 0.5> (x)", "y = LeakyRelu <alpha = 0.5> (x)", 17, functions=_DEFAULT
    ),
    "calls with other attributes": Pair(
        _X,
        "a = local.f <a = 0.5> (x) y = local.f(a)",
        "a = LeakyRelu <alpha = 0.5> (x) y = LeakyRelu <alpha = 0.25> (a)",
        17,
        functions=_DEFAULT,
    ),
    "a function in a function": Pair(
        _X,
        "y = local.g <b = 0.5> (x)",
        "a = LeakyRelu <alpha = 0.5> (x) c = Neg(a) y = LeakyRelu <alpha = 0.25> (c)",
        17,
        functions=_DEFAULT
        + _define(
            "g", "<b> (x) => (y)", "y1 = local.f <a: float = @b> (x) n = Neg(y1) y = local.f(n)"
        ),
    ),
    "some calls": Pair(
        _X,
        "a = local.f(x) y = local.g(a)",
        "a = Add(x, x) y = local.g(a)",
        17,
        functions=_define("f", "(x) => (y)", "y = Add(x, x)")
        + _define("g", "(x) => (y)", "y = Mul(x, x)"),
        other_functions=_define("g", "(x) => (y)", "y = Mul(x, x)"),
    ),
    "functions of other names": Pair(
        _X,
        "y = local.f(x)",
        "y = local.g(x)",
        17,
        functions=_define("f", "(x) => (y)", "y = Add(x, x)"),
        other_functions=_define("g", "(a) => (b)", "b = Add(a, a)"),
    ),
    "an input that is left out": Pair(
        _X,
        "<float l = {0.5}> {y = local.f(x, l)}",
        "<float l = {0.5}> {a = Relu(x) y = Clip(a, l)}",
        17,
        functions=_CLIP,
    ),
    "an input that is left out before another": Pair(
        _X,
        "<float l = {0.5}> {y = local.f(x, , l)}",
        "<float l = {0.5}> {a = Relu(x) y = Clip(a, , l)}",
        17,
        functions=_CLIP,
    ),
    "an output that is left out": Pair(
        _X,
        "y = local.f(x)",
        "y = Relu(x)",
        17,
        functions=_define("f", "(x) => (y, z)", "y = Relu(x) z = Neg(x)"),
    ),
    "an If": Pair(
        _BRANCH, "y = local.f <a = 0.5> (c, x)", _SELECTED.format(0.5), 17, functions=_SELECT
    ),
    "an If, twice": Pair(
        _BRANCH,
        "m = local.f <a = 0.5> (c, x) y = local.f <a = 0.25> (c, m)",
        "m1 = Neg(x) m = If(c) <then_branch = t () => (float[N,4] p) {p = LeakyRelu <alpha = 0.5> (m1)}, "
        "else_branch = e () => (float[N,4] q) {q = Exp(x)}>"
        "m2 = Neg(m) y = If(c) <then_branch = t2 () => (float[N,4] p2) {p2 = LeakyRelu <alpha = 0.25> (m2)}, "
        "else_branch = e2 () => (float[N,4] q2) {q2 = Exp(m)}>",
        17,
        functions=_SELECT,
    ),
    "a call in an If": Pair(
        _BRANCH,
        "y = If(c) <then_branch = t () => (float[N,4] p) {p = local.f <a = 0.5> (x)}, else_branch "
        "= e () => (float[N,4] q) "
        "{q = Exp(x)}>",
        "y = If(c) <then_branch = t () => (float[N,4] p) {p = LeakyRelu <alpha = 0.5> (x)}, "
        "else_branch = e () => (float[N,4] q) {q = Exp(x)}>",
        17,
        functions=_LEAKY,
    ),
    "an If of a constant": Pair(
        _X,
        "<bool c = {1}> {y = local.f <a = 0.5> (c, x)}",
        "m = Neg(x) y = LeakyRelu <alpha = 0.5> (m)",
        17,
        functions=_SELECT,
    ),
    "an axis that a type counts": Pair(
        _FREE,
        "y = local.f(x)",
        "a = Relu(x) y = Concat <axis = 2> (a, a)",
        17,
        functions=_define("f", "(x) => (y)", "a = Relu(x) y = Concat <axis = -1> (a, a)"),
    ),
    "a constant that is computed": Pair(
        _X,
        "y = local.f(x)",
        "<float[4] v = {-1.0, -2.0, -3.0, -4.0}> {y = Add(x, v)}",
        17,
        functions=_define(
            "f",
            "(x) => (y)",
            "c = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> () n = Neg(c) y = Add(x, n)",
        ),
    ),
    "a weight": Pair(
        "(float[N,8] x) => (float[N,8] y)",
        "a = local.f(x) y = local.f(a)",
        "<float[8] v = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> {a = Add(x, v) y = Add(a, v)}",
        17,
        functions=_define(
            "f",
            "(x) => (y)",
            "c = Constant <value = float[8] {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0}> () y = Add(x, c)",
        ),
    ),
    "an operator set that means the same": Pair(
        _X,
        "y = local.f(x)",
        "y = Relu(x)",
        18,
        functions=_define("f", "(x) => (y)", "y = Relu(x)", 17),
    ),
    "what a function passes on": Pair(
        _TWO,
        "a, b = local.f(x, z) y = Sub(a, b)",
        "y = Sub(z, x)",
        17,
        functions=_define("f", "(x, z) => (a, b)", "a = Identity(z) b = Identity(x)"),
    ),
    "an output twice": Pair(
        _X,
        "a, b = local.f(x) y = Mul(a, b)",
        "a = Exp(x) y = Mul(a, a)",
        17,
        functions=_define("f", "(x) => (y, y)", "y = Exp(x)"),
    ),
    "an input that nothing needs": Pair(
        "(float[N,4] x, float[M] u) => (float[N,4] y)",
        "y = local.f(x, u)",
        "y = Relu(x)",
        17,
        functions=_define("f", "(x, u) => (y)", "w = Neg(u) y = Relu(x)"),
    ),
}

UNLIKE = {
    "another attribute": Pair(
        _X, "y = local.f <a = 0.5> (x)", "y = LeakyRelu <alpha = 0.25> (x)", 17, functions=_LEAKY
    ),
    "another default": Pair(
        _X, "y = local.f(x)", "y = LeakyRelu <alpha = 0.5> (x)", 17, functions=_DEFAULT
    ),
    "a default that is not the operator's": Pair(
        _X, "y = local.f(x)", "y = LeakyRelu(x)", 17, functions=_DEFAULT
    ),
    "functions of one name": Pair(
        _X,
        "y = local.f(x)",
        "y = local.f(x)",
        17,
        functions=_define("f", "(x) => (y)", "y = LeakyRelu <alpha = 0.25> (x)"),
        other_functions=_define("f", "(x) => (y)", "y = LeakyRelu <alpha = 0.5> (x)"),
    ),
    "exchanged inputs": Pair(
        _TWO,
        "y = local.f(x, z)",
        "y = Sub(z, x)",
        17,
        functions=_define("f", "(a, b) => (c)", "c = Sub(a, b)"),
    ),
    "inputs of exchanged names": Pair(
        _TWO,
        "y = local.f(z, x)",
        "y = Sub(x, z)",
        17,
        functions=_define("f", "(x, z) => (y)", "y = Sub(x, z)"),
    ),
    "another input that is left out": Pair(
        _X,
        "<float l = {0.5}> {y = local.f(x, l)}",
        "<float l = {0.5}> {a = Relu(x) y = Clip(a, , l)}",
        17,
        functions=_CLIP,
    ),
    "exchanged outputs": Pair(
        _X,
        "y, z = local.f(x)",
        "y = Neg(x)",
        17,
        functions=_define("f", "(x) => (y, z)", "y = Relu(x) z = Neg(x)"),
    ),
    "an If's other attribute": Pair(
        _BRANCH, "y = local.f <a = 0.5> (c, x)", _SELECTED.format(0.25), 17, functions=_SELECT
    ),
    "an If's captured value": Pair(
        _BRANCH,
        "y = local.f <a = 0.5> (c, x)",
        _SELECTED.format(0.5).replace("(m)", "(x)"),
        17,
        functions=_SELECT,
    ),
    "the attribute of the outer function": Pair(
        _X,
        "y = local.g <a = 0.5> (x)",
        "y = LeakyRelu <alpha = 0.5> (x)",
        17,
        functions=_DEFAULT + _define("g", "<a> (x) => (y)", "y = local.f(x)"),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_a_call_is_its_function(name: str, tmp_path: Path) -> None:
    # onnxruntime refuses such calls.
    assert_exact(
        EXACT[name],
        tmp_path,
        computes=name not in ("an output that is left out", "an output twice"),
    )


@pytest.mark.parametrize("name", UNLIKE)
def test_a_call_is_no_other_function(name: str, tmp_path: Path) -> None:
    assert_unlike(UNLIKE[name], tmp_path)


def test_a_function_of_another_operator_set_stays(tmp_path: Path) -> None:
    function = _define("f", "(x) => (y)", "y = Softmax(x)", 12)
    assert (
        find_exact(
            Pair(_FREE, "y = local.f(x)", "y = Softmax(x)", 13, functions=function), tmp_path
        )
        is None
    )


def test_a_function_needs_no_operator_set_of_the_model(tmp_path: Path) -> None:
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["local" : 1]> g {_X} {{y = local.f(x)}}'
        + _define("f", "(x) => (y)", "y = Relu(x)")
    )
    onnx.save(model, tmp_path / "calls.onnx")
    onnx.save(Pair(_X, "y = Relu(x)", "", 17).build()[0], tmp_path / "nodes.onnx")
    report = gs.compare(gs.load(tmp_path / "nodes.onnx"), tmp_path / "calls.onnx")
    assert report.rung == "exact"


@pytest.mark.parametrize(
    "body",
    [
        "y = local.f(x)",
        "a = local.g(x) y = Relu(a)",
        _SELECTED.format(0.5).replace("Neg(x)", "local.f(x) c = Constant <value = bool {1}> ()"),
        "y = LeakyRelu <alpha: float = @b> (x)",
    ],
    ids=[
        "it calls itself",
        "they call each other",
        "it calls itself in a body",
        "an attribute that it does not have",
    ],
)
def test_a_damaged_function_stays(body: str, tmp_path: Path) -> None:
    functions = _define("f", "<a> (x) => (y)", body) + _define("g", "(x) => (y)", "y = local.f(x)")
    assert (
        find_exact(Pair(_X, "y = local.f(x)", "y = Relu(x)", 17, functions=functions), tmp_path)
        is None
    )


def test_a_function_has_its_data_in_the_folder_of_its_model(tmp_path: Path) -> None:
    numbers = np.arange(8, dtype=np.float32)
    constant = (
        "c = Constant <value = float[8] {0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0}> () y = Add(x, c)"
    )
    head = "(float[N,8] x) => (float[N,8] y)"
    left, right = Pair(
        head, "y = local.f(x)", constant, 17, functions=_define("f", "(x) => (y)", constant)
    ).build()
    (tensor,) = [attribute.t for node in left.functions[0].node for attribute in node.attribute]
    tensor.ClearField("float_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="w.bin")
    onnx.save(right, tmp_path / "right.onnx")
    (tmp_path / "left.onnx").write_bytes(left.SerializeToString())
    for content, is_same in ((numbers, True), (-numbers, False)):
        (tmp_path / "w.bin").write_bytes(content.tobytes())
        models = [gs.load(tmp_path / name) for name in ("left.onnx", "right.onnx")]
        assert (make_judge(pair_models(*models, (), {})).find_exact() is not None) == is_same


def test_functions_that_double_stay(tmp_path: Path) -> None:
    names = [f"f{number}" for number in range(30)]
    functions = _define("f0", "(x) => (y)", "y = Relu(x)")
    for inner, name in pairwise(names):
        functions += _define(name, "(x) => (y)", f"a = local.{inner}(x) y = local.{inner}(a)")
    onnx.save(
        Pair(_X, "y = local.f29(x)", "", 17, functions=functions).build()[0],
        tmp_path / "model.onnx",
    )
    graph = gs.load(tmp_path / "model.onnx").graph
    assert inline_calls(graph, graph.heads).count == 0
