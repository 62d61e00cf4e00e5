"""Identities of ONNX's operators: of each what is exact bit for bit, and what looks alike and is not."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphshare as gs
from tests.onnx_files.alike import Pair, assert_exact, assert_unlike, find_exact

pytest.importorskip("onnxruntime")

_X = "(float[N,4] x) => (float[N,4] y)"
_FIXED = "(float[2,4] x) => (float[S,T] y)"
_OPEN = "(float[N,4] x) => (float[S,T] y)"
_CUBE = "(float[2,3,4] x) => (float[A,B,C] y)"
_FREE = "(float[A,B,C] x) => (float[D,E,F] y)"
_IMAGE = "(float[1,2,6,6] x) => (float[A,B,C,D] y)"
_W = "<float[2,2,3,3] w = {" + ", ".join(str(i * 0.25 - 4) for i in range(36)) + "}>"
_V = "<float[4] v = {1.0, 2.0, 3.0, 4.0}>"
_SCALES = "<float[0] r = {}, float[4] s = {1.0, 1.0, 1.5, 0.5}>"
_NORM = "<float[2] s = {1.0, 2.0}, float[2] b = {0.5, -1.0}, float[2] m = {0.25, 0.5}, float[2] v = {1.0, 4.0}>"


def _ints(name: str, *values: int) -> str:
    return f"int64[{len(values)}] {name} = {{{', '.join(map(str, values))}}}"


def _loop(body: str) -> Pair:
    """A Loop that subtracts in its body, and one with another body."""
    text = (
        "<int64 n = {{3}}, bool go = {{1}}> {{y, w = Loop(n, go, x, z) <body = b (int64 i, bool "
        "c, float[4] s, float[4] t) => "
        "(bool d, float[4] p, float[4] q) {{d = Identity(c) {}}}>}}"
    )
    bodies = (text.format(each) for each in ("p = Sub(s, t) q = Add(s, t)", body))
    return Pair("(float[4] x, float[4] z) => (float[4] y, float[4] w)", *bodies)


EXACT = {
    "BatchNormalization 9 and 14": Pair(
        _IMAGE,
        _NORM + " {y = BatchNormalization(x, s, b, m, v)}",
        _NORM + " {y = BatchNormalization(x, s, b, m, v)}",
        9,
        14,
    ),
    "Identity": Pair(
        _X, "y = Relu(x)", "a = Identity(x) b = Identity(a) c = Relu(b) y = Identity(c)"
    ),
    "Dropout 6": Pair(_X, "y = Relu(x)", "a = Dropout <is_test = 1> (x) y = Relu(a)", 6),
    "Dropout 7": Pair(_X, "y = Relu(x)", "a = Dropout <ratio = 0.25> (x) y = Relu(a)", 7),
    "Dropout 10": Pair(_X, "y = Relu(x)", "a, m = Dropout (x) y = Relu(a)", 10),
    "Dropout 12": Pair(
        _X, "y = Relu(x)", "<float r = {0.5}, bool t = {0}> {a = Dropout (x, r, t) y = Relu(a)}", 12
    ),
    "Dropout 13": Pair(
        _X, "y = Relu(x)", "<float r = {0.5}> {a, m = Dropout <seed = 3> (x, r) y = Relu(a)}", 13
    ),
    "Dropout 10 and 13": Pair(
        _X, "a = Dropout(x) y = Relu(a)", "a = Dropout(x) y = Relu(a)", 10, 13
    ),
    "cast to the same dtype": Pair(
        _X, "y = Relu(x)", "a = Cast <to = 1> (x) b = Relu(a) y = Cast <to = 1> (b)"
    ),
    "cast to a dtype that follows": Pair(
        _X,
        "a = Cast <to = 10> (x) b = Relu(a) y = Cast <to = 1> (b)",
        "a = Cast <to = 10> (x) b = Relu(a) c = Cast <to = 10> (b) y = Cast <to = 1> (c)",
    ),
    "Constant and initializer": Pair(
        _X,
        _V + " {y = Add(x, v)}",
        "c = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> () y = Add(x, c)",
    ),
    "a Constant's forms": Pair(
        "(float[N,4] x, int64[2] n) => (float[N,4] y, int64[2] k)",
        "a = Constant <value_floats = [1.0, 2.0, 3.0, 4.0]> () s = Constant <value_float = 0.5> "
        "() b = Mul(x, s) y = Add(b, a) "
        "c = Constant <value_ints = [-1, 7]> () d = Constant <value_int = -1> () e = Add(n, c) k = Mul(e, d)",
        "<float[4] a = {1.0, 2.0, 3.0, 4.0}, float s = {0.5}, int64[2] c = {-1, 7}, int64 d = {-1}> "
        "{b = Mul(x, s) y = Add(b, a) e = Add(n, c) k = Mul(e, d)}",
    ),
    "a captured value": Pair(
        "(float[N,4] x, bool f) => (float[N,4] y)",
        _V
        + " {y = If(f) <then_branch = t () => (float[N,4] p) {p = Add(x, v)}, else_branch = e () => (float[N,4] q) "
        "{q = Mul(x, v)}>}",
        "y = If(f) <then_branch = t () => (float[N,4] p) {v = Constant <value = float[4] {1.0, 2.0, 3.0, 4.0}> () "
        "p = Add(x, v)}, else_branch = e () => (float[N,4] q) <float[4] u = {1.0, 2.0, 3.0, 4.0}> {q = Mul(x, u)}>",
    ),
    "Identity in a Loop": _loop("h = Identity(s) p = Sub(h, t) q = Add(s, t)"),
    "equal constants": Pair(
        _X,
        _V + " {a = Add(x, v) y = Mul(a, v)}",
        "<float[4] v = {1.0, 2.0, 3.0, 4.0}, float[4] w = {1.0, 2.0, 3.0, 4.0}> {a = Add(x, v) y = Mul(a, w)}",
    ),
    "equal subterms": Pair(
        _X,
        "a = Relu(x) b = Exp(a) y = Add(a, b)",
        "a = Relu(x) c = Relu(x) b = Exp(c) y = Add(a, b)",
    ),
    "Transposes that cancel": Pair(
        _CUBE,
        "y = Relu(x)",
        "a = Transpose <perm = [1, 2, 0]> (x) b = Relu(x) c = Transpose <perm = [1, 2, 0]> (b) "
        "y = Transpose <perm = [2, 0, 1]> (c)",
    ),
    "Transposes joined": Pair(
        _FREE,
        "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 0, 2]> (a)",
        "y = Transpose <perm = [2, 1, 0]> (x)",
    ),
    "a Transpose's default": Pair(
        _FREE, "y = Transpose(x)", "y = Transpose <perm = [2, 1, 0]> (x)"
    ),
    "a Transpose that moves nothing": Pair(
        _FREE, "y = Relu(x)", "a = Transpose <perm = [0, 1, 2]> (x) y = Relu(a)"
    ),
    "Reshapes joined": Pair(
        _OPEN,
        f"<{_ints('k', 2, -1)}> {{y = Reshape(x, k)}}",
        f"<{_ints('f', -1)}, {_ints('k', 2, -1)}> {{a = Reshape(x, f) y = Reshape(a, k)}}",
    ),
    "a Reshape of samples by 0 and by -1": Pair(
        "(float[N,3,4] x) => (float[A,B] y)",
        f"<{_ints('k', 0, -1)}> {{y = Reshape(x, k)}}",
        f"<{_ints('k', -1, 12)}> {{y = Reshape(x, k)}}",
    ),
    "a Flatten of samples": Pair(
        "(float[N,3,4] x) => (float[A,B] y)",
        "y = Flatten(x)",
        f"<{_ints('k', -1, 12)}> {{y = Reshape(x, k)}}",
    ),
    "a Reshape of samples that changes nothing": Pair(
        _X, "y = Relu(x)", f"<{_ints('k', -1, 4)}> {{a = Reshape(x, k) y = Relu(a)}}"
    ),
    "LayerNormalization's axis from the last": Pair(
        _X,
        _V + " {y = LayerNormalization <axis = 1> (x, v)}",
        _V + " {y = LayerNormalization(x, v)}",
    ),
    "Reshapes of static shapes": Pair(
        _FIXED,
        f"<{_ints('k', 4, 2)}> {{y = Reshape(x, k)}}",
        f"<{_ints('f', 0, 2, -1)}, {_ints('k', -1, 2)}> {{a = Reshape(x, f) y = Reshape(a, k)}}",
    ),
    "a Reshape that changes nothing": Pair(
        _FIXED, "y = Relu(x)", f"<{_ints('k', 0, -1)}> {{a = Relu(x) y = Reshape(a, k)}}"
    ),
    "a Reshape and back": Pair(
        _FIXED,
        "a = Relu(x) y = Exp(a)",
        f"<{_ints('f', -1)}, {_ints('k', 2, 4)}> {{a = Relu(x) b = Reshape(a, f) c = Reshape(b, k) y = Exp(c)}}",
    ),
    "allowzero without a 0": Pair(
        _OPEN,
        f"<{_ints('k', 2, -1)}> {{y = Reshape(x, k)}}",
        f"<{_ints('k', 2, -1)}> {{y = Reshape <allowzero = 1> (x, k)}}",
    ),
    "Flatten of a matrix": Pair(_FIXED, "y = Relu(x)", "a = Flatten <axis = 1> (x) y = Relu(a)"),
    "Flatten and Reshape": Pair(
        "(float[2,3,4] x) => (float[A,B] y)",
        "y = Flatten(x)",
        f"<{_ints('k', 2, 12)}> {{y = Reshape(x, k)}}",
    ),
    "Flatten's axis from the end": Pair(
        "(float[A,B,C] x) => (float[D,E] y)",
        "y = Flatten <axis = 2> (x)",
        "y = Flatten <axis = -1> (x)",
    ),
    "Squeeze of Unsqueeze": Pair(
        _X,
        "y = Relu(x)",
        f"<{_ints('k', 1)}> {{a = Unsqueeze(x, k) b = Squeeze(a, k) y = Relu(b)}}",
    ),
    "Unsqueeze of Squeeze": Pair(
        "(float[N,1] x) => (float[N,1] y)",
        "y = Relu(x)",
        f"<{_ints('k', 1)}> {{a = Squeeze(x, k) b = Unsqueeze(a, k) y = Relu(b)}}",
    ),
    "Unsqueeze and Reshape": Pair(
        "(float[2,4] x) => (float[A,B,C] y)",
        f"<{_ints('k', 1)}> {{y = Unsqueeze(x, k)}}",
        f"<{_ints('k', 2, 1, 4)}> {{y = Reshape(x, k)}}",
    ),
    "Squeeze of a free size": Pair(
        "(float[N,1] x) => (float[N] y)",
        f"<{_ints('k', 1)}> {{y = Squeeze(x, k)}}",
        "k = Constant <value_ints = [1]> () y = Squeeze(x, k)",
    ),
    "defaults of Conv": Pair(
        _IMAGE,
        _W + " {y = Conv(x, w)}",
        _W
        + ' {y = Conv <auto_pad = "NOTSET", group = 1, strides = [1, 1], dilations = [1, 1], pads = [0, 0, 0, 0]> (x, w)}',
    ),
    "defaults of MaxPool": Pair(
        _IMAGE,
        "y = MaxPool <kernel_shape = [2, 2]> (x)",
        "y = MaxPool <kernel_shape = [2, 2], ceil_mode = 0, storage_order = 0, strides = [1, 1], pads = [0, 0, 0, 0], "
        "dilations = [1, 1]> (x)",
        10,
        12,
    ),
    "defaults of Gemm": Pair(
        "(float[2,4] x, float[4,3] w) => (float[2,3] y)",
        "y = Gemm(x, w)",
        "y = Gemm <alpha = 1.0, beta = 1.0, transA = 0, transB = 0> (x, w)",
        11,
        13,
    ),
    "a default of LeakyRelu": Pair(_X, "y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.01> (x)"),
    "axis from the end": Pair(
        _FREE, "y = Concat <axis = -1> (x, x)", "y = Concat <axis = 2> (x, x)"
    ),
    "axis of Gather": Pair(
        _FREE,
        f"<{_ints('k', 1, 0)}> {{y = Gather <axis = 1> (x, k)}}",
        f"<{_ints('k', 1, 0)}> {{y = Gather <axis = -2> (x, k)}}",
    ),
    "Clip 6 and 13": Pair(
        _X,
        "y = Clip <min = -0.5, max = 0.25> (x)",
        "<float a = {-0.5}, float b = {0.25}> {y = Clip(x, a, b)}",
        6,
        13,
    ),
    "Pad 2 and 13": Pair(
        _OPEN,
        "y = Pad <pads = [1, 0, 0, 2], value = 0.5> (x)",
        f"<{_ints('k', 1, 0, 0, 2)}, float v = {{0.5}}> {{y = Pad(x, k, v)}}",
        2,
        13,
    ),
    "Pad with 0": Pair(
        _OPEN,
        "y = Pad <pads = [1, 0, 0, 2]> (x)",
        f"<{_ints('k', 1, 0, 0, 2)}, float v = {{0.0}}> {{y = Pad(x, k, v)}}",
        2,
        13,
    ),
    "Slice 9 and 13": Pair(
        _OPEN,
        "y = Slice <axes = [1], starts = [1], ends = [-1]> (x)",
        f"<{_ints('s', 1)}, {_ints('e', -1)}, {_ints('a', 1)}> {{y = Slice(x, s, e, a)}}",
        9,
        13,
    ),
    "Slice in steps of 1": Pair(
        _OPEN,
        "y = Slice <axes = [1], starts = [1], ends = [-1]> (x)",
        f"<{_ints('s', 1)}, {_ints('e', -1)}, {_ints('a', 1)}, {_ints('t', 1)}> {{y = Slice(x, s, e, a, t)}}",
        9,
        13,
    ),
    "Split 11 and 13": Pair(
        _OPEN,
        "y, b = Split <axis = -1, split = [1, 3]> (x)",
        f"<{_ints('k', 1, 3)}> {{y, b = Split <axis = 1> (x, k)}}",
        11,
        13,
    ),
    "Split into halves": Pair(
        _OPEN, "y, b = Split <axis = 1> (x)", "y, b = Split <axis = -1> (x)", 11, 13
    ),
    "Split 13 and 18": Pair(
        _OPEN, "y, b = Split <axis = 1> (x)", "y, b = Split <axis = 1, num_outputs = 2> (x)", 13, 18
    ),
    "If of a constant": Pair(
        _X,
        "y = Relu(x)",
        "<bool f = {1}> {y = If(f) <then_branch = t () => (float[N,4] p) {p = Relu(x)}, "
        "else_branch = e () => (float[N,4] q) "
        "{q = Neg(x)}>}",
    ),
    "Squeeze 11 and 13": Pair(
        "(float[N,1] x) => (float[N] y)",
        "y = Squeeze <axes = [1]> (x)",
        f"<{_ints('k', 1)}> {{y = Squeeze(x, k)}}",
        11,
        13,
    ),
    "Unsqueeze 11 and 13": Pair(
        "(float[N,4] x) => (float[N,1,4] y)",
        "y = Unsqueeze <axes = [1]> (x)",
        f"<{_ints('k', 1)}> {{y = Unsqueeze(x, k)}}",
        11,
        13,
    ),
    "TopK 9 and 11": Pair(
        _OPEN,
        "y, i = TopK <k = 2> (x)",
        f"<{_ints('k', 2)}> {{y, i = TopK <axis = 1> (x, k)}}",
        9,
        11,
    ),
    "Upsample 7 and 9": Pair(
        _IMAGE,
        "y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x)",
        "<float[4] s = {1.0, 1.0, 2.0, 2.0}> {y = Upsample(x, s)}",
        7,
        9,
    ),
    **{
        f"{op} by opset": Pair(
            _FREE,
            f"y = {op} <axes = [1, -1]> (x)",
            f"<{_ints('k', 2, 1)}> {{y = {op} <keepdims = 1> (x, k)}}",
            11,
            18,
        )
        for op in (
            "ReduceL1",
            "ReduceL2",
            "ReduceLogSumExp",
            "ReduceMax",
            "ReduceMean",
            "ReduceMin",
            "ReduceProd",
            "ReduceSum",
            "ReduceSumSquare",
        )
    },
    "Reduce of all axes": Pair(
        "(float[A,B] x) => (float y)", *["y = ReduceSum <keepdims = 0> (x)"] * 2, 11, 13
    ),
    **{
        f"Resize {before} and {after}, {mode}, {place}": Pair(
            _IMAGE,
            f'{_SCALES} {{y = Resize <mode = "{mode}", coordinate_transformation_mode = "{place}"> (x, r, s)}}',
            f'{_SCALES} {{y = Resize <mode = "{mode}", coordinate_transformation_mode = "{place}"> (x, r, s)}}',
            before,
            after,
        )
        for mode in ("nearest", "linear", "cubic")
        for place in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")
        for before, after in ((11, 13), (13, 18), (11, 19))
    },
    "a size of a Shape that states its start": Pair(
        _X,
        "s = Shape(x) i = Constant <value_ints = [1]> () g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)",
        "<int64[1] i = {1}> {s = Shape <start = 0> (x) g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)}",
    ),
    "0 is added": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "y = Neg(x)",
        "<int64 z = {0}> {a = Add(z, x) y = Neg(a)}",
    ),
    "0 is taken away": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "y = Neg(x)",
        "<int64[1,1] z = {0}> {a = Sub(x, z) y = Neg(a)}",
    ),
    "1 multiplies": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "y = Neg(x)",
        "<int64[1] z = {1}> {a = Mul(x, z) b = Mul(z, a) y = Neg(b)}",
    ),
    "1 divides": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "y = Neg(x)",
        "<int64[1] z = {1}> {a = Div(x, z) y = Neg(a)}",
    ),
    "sizes that a Slice takes": Pair(
        "(float[N,4,5] x) => (float[A,B,C] y)",
        "<int64[1] i = {1}, int64[1] j = {3}>"
        " {s = Shape(x) g = Slice(s, i, j) f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
        "<int64[2] g = {4, 5}> {f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
    ),
    "sizes that a Slice takes, from the end and with axes": Pair(
        "(float[N,4,5] x) => (float[A,B,C] y)",
        "<int64[1] i = {-2}, int64[1] j = {9}, int64[1] k = {0}, int64[1] l = {1}>"
        " {s = Shape(x) g = Slice(s, i, j, k, l) f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
        "<int64[2] g = {4, 5}> {f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
    ),
    "a size of the last axes alone": Pair(
        _X,
        "s = Shape(x) i = Constant <value_ints = [1]> () g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)",
        "<int64[1] i = {0}> {s = Shape <start = -1> (x) g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)}",
    ),
    "Softmax 12 and 13, last axis": Pair(
        _FREE, "y = Softmax <axis = 2> (x)", "y = Softmax(x)", 12, 13
    ),
    "LogSoftmax 12 and 13, a matrix": Pair(_X, "y = LogSoftmax(x)", "y = LogSoftmax(x)", 12, 13),
    "a transposed weight": Pair(
        "(float[N,2] x) => (float[N,3] y)",
        "<float[3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}> {t = Transpose(w) y = MatMul(x, t)}",
        "<float[2,3] t = {1.0, 3.0, 5.0, 2.0, 4.0, 6.0}> {y = MatMul(x, t)}",
    ),
    "Shape of a static input": Pair(
        "(float[2,4] x, float[1] v) => (float[A,B] y)",
        "s = Shape(x) y = Expand(v, s)",
        f"<{_ints('s', 2, 4)}> {{y = Expand(v, s)}}",
    ),
    "a part of a static Shape": Pair(
        "(float[2,4,3] x, float[1] v) => (float[A] y)",
        "s = Shape <start = 1, end = -1> (x) y = Expand(v, s)",
        f"<{_ints('s', 4)}> {{y = Expand(v, s)}}",
    ),
    "a size of a Shape": Pair(
        "(float[N,4] x, float[1] v) => (float[A] y)",
        f"<{_ints('k', 1)}> {{s = Shape(x) n = Gather(s, k) y = Expand(v, n)}}",
        f"<{_ints('n', 4)}> {{y = Expand(v, n)}}",
    ),
    "BatchNormalization's momentum": Pair(
        _IMAGE,
        _NORM + " {y = BatchNormalization <momentum = 0.5> (x, s, b, m, v)}",
        _NORM + " {y = BatchNormalization <training_mode = 0> (x, s, b, m, v)}",
        14,
    ),
    "Concat of one": Pair(_X, "y = Relu(x)", "a = Concat <axis = 0> (x) y = Relu(a)"),
}

UNLIKE = {
    "Identity of another": Pair(
        "(float[N,4] x, float[N,4] z) => (float[N,4] y)",
        "a = Identity(x) y = Sub(a, z)",
        "a = Identity(z) y = Sub(a, x)",
    ),
    "Dropout 12 in training": Pair(
        _X,
        "y = Relu(x)",
        "<float r = {0.5}, bool t = {1}> {a = Dropout <seed = 1> (x, r, t) y = Relu(a)}",
        12,
    ),
    "Dropout 13 as it is told": Pair(
        "(float[N,4] x, bool t) => (float[N,4] y)",
        "b = Not(t) y = Relu(x)",
        "<float r = {0.5}> {a = Dropout <seed = 1> (x, r, t) y = Relu(a)}",
        13,
    ),
    "cast to another dtype": Pair(
        _X, "y = Relu(x)", "a = Cast <to = 10> (x) b = Cast <to = 1> (a) y = Relu(b)"
    ),
    "an input of another dtype": Pair(
        _X,
        "y = Relu(x)",
        "a = Identity(x) y = Relu(a)",
        other_head="(float16[N,4] x) => (float16[N,4] y)",
    ),
    "a constant's last bit": Pair(
        _X,
        "<float[1] v = {1.0}> {y = Mul(x, v)}",
        "c = Constant <value = float[1] {1.0000001}> () y = Mul(x, c)",
    ),
    "a constant's sign": Pair(
        _X,
        "<float v = {0.0}> {a = Abs(x) y = Div(a, v)}",
        "<float v = {-0.0}> {a = Abs(x) y = Div(a, v)}",
    ),
    "a constant's shape": Pair(
        "(float[4] x) => (float[A] y)",
        "<float[1,4] v = {1.0, 2.0, 3.0, 4.0}> {a = Add(x, v) s = Shape(a) y = Cast <to = 1> (s)}",
        _V + " {a = Add(x, v) s = Shape(a) y = Cast <to = 1> (s)}",
    ),
    "another captured value": Pair(
        "(float[N,4] x, float[N,4] z, bool f) => (float[N,4] y)",
        "y = If(f) <then_branch = t () => (float[N,4] p) {p = Relu(x)}, else_branch = e () => "
        "(float[N,4] q) {q = Relu(z)}>",
        "y = If(f) <then_branch = t () => (float[N,4] p) {p = Relu(z)}, else_branch = e () => "
        "(float[N,4] q) {q = Relu(x)}>",
    ),
    "a Loop's swapped arguments": _loop("p = Sub(t, s) q = Add(s, t)"),
    "a Loop's captured value": _loop("p = Sub(s, z) q = Add(s, t)"),
    "a Loop's swapped outputs": _loop("q = Sub(s, t) p = Add(s, t)"),
    "two draws": Pair(
        "() => (float[4] y)",
        "a = RandomUniform <shape = [4]> () b = RandomUniform <shape = [4]> () y = Sub(a, b)",
        "a = RandomUniform <shape = [4]> () y = Sub(a, a)",
    ),
    "swapped inputs": Pair(_X, _V + " {y = Sub(x, v)}", _V + " {y = Sub(v, x)}"),
    "Transposes that do not cancel": Pair(
        _CUBE,
        "y = Relu(x)",
        "a = Relu(x) b = Transpose <perm = [1, 2, 0]> (a) y = Transpose <perm = [1, 2, 0]> (b)",
    ),
    "Transposes in the other order": Pair(
        _FREE,
        "a = Transpose <perm = [1, 2, 0]> (x) y = Transpose <perm = [1, 0, 2]> (a)",
        "a = Transpose <perm = [1, 0, 2]> (x) y = Transpose <perm = [1, 2, 0]> (a)",
    ),
    "a Transpose's default is no identity": Pair(
        _FREE, "y = Relu(x)", "a = Transpose(x) y = Relu(a)"
    ),
    "Reshape with a 0 after another": Pair(
        _FREE.replace("[D,E,F]", "[D,E]"),
        f"<{_ints('k', 0, -1)}> {{y = Reshape(x, k)}}",
        f"<{_ints('f', -1, 1)}, {_ints('k', 0, -1)}> {{a = Reshape(x, f) y = Reshape(a, k)}}",
    ),
    "allowzero with a 0": Pair(
        "(float[0,4] x) => (float[A,B] y)",
        f"<{_ints('k', 0, 4)}> {{y = Reshape(x, k)}}",
        f"<{_ints('k', 4, 0)}> {{y = Reshape <allowzero = 1> (x, k)}}",
    ),
    "a Reshape that is not back": Pair(
        _FIXED,
        "a = Relu(x) y = Exp(a)",
        f"<{_ints('k', 4, 2)}> {{a = Relu(x) b = Reshape(a, k) y = Exp(b)}}",
    ),
    "a Reshape is not a Transpose": Pair(
        _FIXED, "y = Transpose(x)", f"<{_ints('k', 4, 2)}> {{y = Reshape(x, k)}}"
    ),
    "Flatten at another axis": Pair(
        "(float[A,B,C] x) => (float[D,E] y)",
        "y = Flatten <axis = 2> (x)",
        "y = Flatten <axis = -2> (x)",
    ),
    "Unsqueeze at another axis": Pair(
        "(float[A,B,C] x) => (int64[D] y)",
        f"<{_ints('k', 1)}> {{a = Unsqueeze(x, k) y = Shape(a)}}",
        f"<{_ints('k', 2)}> {{a = Unsqueeze(x, k) y = Shape(a)}}",
    ),
    "Squeeze and Unsqueeze of other axes": Pair(
        "(float[A,1] x) => (int64[D] y)",
        "y = Shape(x)",
        f"<{_ints('k', 1)}, {_ints('m', 0)}> {{a = Squeeze(x, k) b = Unsqueeze(a, m) y = Shape(b)}}",
    ),
    "other strides": Pair(
        _IMAGE, _W + " {y = Conv(x, w)}", _W + " {y = Conv <strides = [1, 2]> (x, w)}"
    ),
    "other dilations": Pair(
        _IMAGE, _W + " {y = Conv(x, w)}", _W + " {y = Conv <dilations = [1, 2]> (x, w)}"
    ),
    "other pads": Pair(
        _IMAGE, _W + " {y = Conv(x, w)}", _W + " {y = Conv <pads = [0, 0, 0, 1]> (x, w)}"
    ),
    "auto_pad": Pair(
        _IMAGE, _W + " {y = Conv(x, w)}", _W + ' {y = Conv <auto_pad = "SAME_UPPER"> (x, w)}'
    ),
    "not the default of LeakyRelu": Pair(
        _X, "y = LeakyRelu(x)", "y = LeakyRelu <alpha = 0.02> (x)"
    ),
    "axis from the other end": Pair(
        _FREE, "y = Concat <axis = -1> (x, x)", "y = Concat <axis = 0> (x, x)"
    ),
    "Clip's limits": Pair(
        _X,
        "y = Clip <min = -0.5, max = 0.25> (x)",
        "<float a = {-0.5}, float b = {0.5}> {y = Clip(x, a, b)}",
        6,
        13,
    ),
    "Clip's other limit": Pair(
        _X, "y = Clip <min = 0.0> (x)", "<float a = {0.0}> {y = Clip(x, , a)}", 6, 11
    ),
    "Pad's value": Pair(
        _OPEN,
        "y = Pad <pads = [1, 0, 0, 2]> (x)",
        f"<{_ints('k', 1, 0, 0, 2)}, float v = {{0.5}}> {{y = Pad(x, k, v)}}",
        2,
        13,
    ),
    "Pad's mode": Pair(
        _OPEN,
        "y = Pad <pads = [0, 1, 0, 2]> (x)",
        f'<{_ints("k", 0, 1, 0, 2)}> {{y = Pad <mode = "reflect"> (x, k)}}',
        2,
        13,
    ),
    "Slice without axes": Pair(
        _OPEN,
        "y = Slice <axes = [1], starts = [1], ends = [-1]> (x)",
        f"<{_ints('s', 1)}, {_ints('e', -1)}> {{y = Slice(x, s, e)}}",
        9,
        13,
    ),
    "Slice in steps": Pair(
        _OPEN,
        "y = Slice <axes = [1], starts = [0], ends = [4]> (x)",
        f"<{_ints('s', 0)}, {_ints('e', 4)}, {_ints('a', 1)}, {_ints('t', 2)}> {{y = Slice(x, s, e, a, t)}}",
        9,
        13,
    ),
    "Split's sizes": Pair(
        _OPEN,
        "y, b = Split <axis = 1, split = [1, 3]> (x)",
        f"<{_ints('k', 3, 1)}> {{y, b = Split <axis = 1> (x, k)}}",
        11,
        13,
    ),
    "Split's other part": Pair(
        _OPEN, "y, b = Split <axis = 1> (x)", "b, y = Split <axis = 1> (x)", 11, 13
    ),
    "Split into more": Pair(
        _OPEN, "y, b = Split <axis = 1> (x)", "y, b, c, d = Split <axis = 1> (x)", 11, 13
    ),
    "If of the other constant": Pair(
        _X,
        "y = Relu(x)",
        "<bool f = {0}> {y = If(f) <then_branch = t () => (float[N,4] p) {p = Relu(x)}, "
        "else_branch = e () => (float[N,4] q) "
        "{q = Neg(x)}>}",
    ),
    "TopK's k": Pair(
        _OPEN, "y, i = TopK <k = 2> (x)", f"<{_ints('k', 3)}> {{y, i = TopK(x, k)}}", 9, 11
    ),
    "TopK's smallest": Pair(
        _OPEN,
        "y, i = TopK <k = 2> (x)",
        f"<{_ints('k', 2)}> {{y, i = TopK <largest = 0> (x, k)}}",
        9,
        11,
    ),
    "Upsample's scales": Pair(
        _IMAGE,
        "y = Upsample <scales = [1.0, 1.0, 2.0, 2.0]> (x)",
        "<float[4] s = {1.0, 1.0, 2.0, 3.0}> {y = Upsample(x, s)}",
        7,
        9,
    ),
    **{
        f"{op} of other axes": Pair(
            _FREE,
            f"y = {op} <axes = [1, -1]> (x)",
            f"<{_ints('k', 2, 0)}> {{y = {op} <keepdims = 1> (x, k)}}",
            11,
            18,
        )
        for op in ("ReduceL2", "ReduceMax", "ReduceMean", "ReduceSum")
    },
    "Reduce of no axes": Pair(
        _OPEN, "y = ReduceSum(x)", "y = ReduceSum <noop_with_empty_axes = 1> (x)", 11, 13
    ),
    "AveragePool 7 and 22, which round in another order": Pair(
        _IMAGE,
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x)",
        "y = AveragePool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (x)",
        7,
        22,
    ),
    "AveragePool 11 and 19, rounded up": Pair(
        _IMAGE,
        "y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1, pads = [1, 1, 1, 1]> (x)",
        "y = AveragePool <kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1, pads = [1, 1, 1, 1]> (x)",
        11,
        19,
    ),
    "taken away from 0": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "y = Neg(x)",
        "<int64 z = {0}> {a = Sub(z, x) y = Neg(a)}",
    ),
    "1 is divided": Pair(
        "(int64[N,4] x) => (int64[A,B] y)",
        "a = Sign(x) y = Add(a, a)",
        "<int64 z = {1}> {a = Sign(x) b = Div(z, a) y = Add(b, b)}",
    ),
    "0 is added, with an axis more": Pair(
        "(int64[N,4] x) => (int64[A,B,C] y)",
        "y = Neg(x)",
        "<int64[1,1,1] z = {0}> {a = Add(x, z) y = Neg(a)}",
    ),
    "sizes with a step": Pair(
        "(float[2,4,5] x) => (float[A,B,C] y)",
        "<int64[1] i = {0}, int64[1] j = {9}, int64[1] k = {0}, int64[1] l = {2}>"
        " {s = Shape(x) g = Slice(s, i, j, k, l) f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
        "<int64[3] g = {2, 4, 5}> {f = Cast <to = 1> (g) e = ReduceSum(f) y = Add(x, e)}",
    ),
    "a size of another axis": Pair(
        "(float[3,4] x) => (float[S,T] y)",
        "s = Shape(x) i = Constant <value_ints = [1]> () g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)",
        "<int64[1] i = {0}> {s = Shape <start = 0> (x) g = Gather(s, i) f = Cast <to = 1> (g) y = Add(x, f)}",
    ),
    "Resize, smoothed": Pair(
        _IMAGE,
        f'{_SCALES} {{y = Resize <mode = "linear"> (x, r, s)}}',
        f'{_SCALES} {{y = Resize <mode = "linear", antialias = 1> (x, r, s)}}',
        18,
        19,
    ),
    "Softmax 12 and 13": Pair(
        _FREE, "y = Softmax <axis = 1> (x)", "y = Softmax <axis = 1> (x)", 12, 13
    ),
    "Softmax by default": Pair(_FREE, "y = Softmax(x)", "y = Softmax(x)", 12, 13),
    "a domain with two names": Pair(
        _FREE, "y = ai.onnx.Softmax(x)", "y = ai.onnx.Softmax(x)", 12, 13
    ),
    "a weight that is not transposed": Pair(
        "(float[N,2] x) => (float[N,2] y)",
        "<float[2,2] w = {1.0, 2.0, 3.0, 4.0}> {t = Transpose(w) y = MatMul(x, t)}",
        "<float[2,2] t = {1.0, 2.0, 3.0, 4.0}> {y = MatMul(x, t)}",
    ),
    "Shape of a free input": Pair(
        "(float[N,4] x, float[1] v) => (float[A,B] y)",
        "s = Shape(x) y = Expand(v, s)",
        f"<{_ints('s', 1, 4)}> {{y = Expand(v, s)}}",
    ),
    "a free size of a Shape": Pair(
        "(float[N,4] x, float[1] v) => (float[A] y)",
        f"<{_ints('k', 0)}> {{s = Shape(x) n = Gather(s, k) y = Expand(v, n)}}",
        f"<{_ints('n', 4)}> {{y = Expand(v, n)}}",
    ),
    "an empty part of a Shape": Pair(
        "(float[2,4] x) => (int64[A] y)", "y = Shape(x)", "y = Shape <start = 0, end = 0> (x)"
    ),
    "BatchNormalization 9 and in training": Pair(
        _IMAGE,
        _NORM + " {y = BatchNormalization(x, s, b, m, v)}",
        _NORM + " {y, a, c = BatchNormalization <training_mode = 1> (x, s, b, m, v)}",
        9,
        14,
    ),
    "BatchNormalization in training": Pair(
        _IMAGE,
        _NORM + " {y = BatchNormalization(x, s, b, m, v)}",
        _NORM + " {y, a, c = BatchNormalization <training_mode = 1> (x, s, b, m, v)}",
        14,
    ),
    "BatchNormalization's momentum in training": Pair(
        _IMAGE.replace("y)", "y, float[2] a)"),
        _NORM + " {y, a, c = BatchNormalization <training_mode = 1> (x, s, b, m, v)}",
        _NORM
        + " {y, a, c = BatchNormalization <training_mode = 1, momentum = 0.5> (x, s, b, m, v)}",
        14,
    ),
    "a Reshape of two open sizes": Pair(
        "(float[N,M] x) => (float[A,B] y)",
        f"<{_ints('k', -1, 2)}> {{y = Reshape(x, k)}}",
        f"<{_ints('k', 2, -1)}> {{y = Reshape(x, k)}}",
    ),
    "a Reshape of samples to other rows": Pair(
        "(float[N,3,4] x) => (float[A,B] y)",
        f"<{_ints('k', -1, 12)}> {{y = Reshape(x, k)}}",
        f"<{_ints('k', -1, 6)}> {{y = Reshape(x, k)}}",
    ),
    "LpNormalization along another axis": Pair(
        "(float[2,4,4] x) => (float[A,B,C] y)",
        "y = LpNormalization <axis = 1> (x)",
        "y = LpNormalization <axis = 2> (x)",
    ),
    "Concat of two": Pair(_X, "y = Concat <axis = 0> (x, x)", "y = Concat <axis = 0> (x)"),
}


@pytest.mark.parametrize("name", EXACT)
def test_an_identity_is_exact(name: str, tmp_path: Path) -> None:
    # onnxruntime has all but that one
    assert_exact(EXACT[name], tmp_path, computes=name != "Dropout 6")


@pytest.mark.parametrize("name", UNLIKE)
def test_what_looks_alike_is_not_exact(name: str, tmp_path: Path) -> None:
    assert_unlike(UNLIKE[name], tmp_path)


def test_verify_reports_exact_operators(tmp_path: Path) -> None:
    pair = EXACT["Clip 6 and 13"]
    assert find_exact(pair, tmp_path)
    report = gs.compare(gs.load(tmp_path / "left.onnx"), tmp_path / "right.onnx")
    (regions,) = report.branches[0].regions
    assert (regions.exact, regions.operators, regions.regions) == (1, 1, ())
    assert regions.identities == {"attributes as inputs": 1}
    assert report.rung == "exact"
