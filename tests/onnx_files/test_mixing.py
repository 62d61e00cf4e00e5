"""``reshape --dynamic-batch`` of one operator each, on the axis of the samples and on another one.

What the operator computes reaches the output above a threshold that no drawn input passes: whether
it mixes samples is seen by the rules alone. An operator that does is refused, however it hides it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper, parser

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError

NEEDLESS = 3
"""The number of operators that may be refused although they keep samples apart."""
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare".split()
_BY_AXIS = {
    "ArgMax": "m = ArgMax<axis = {0}>(x)",
    "ArgMin": "m = ArgMin<axis = {0}>(x)",
    "Softmax": "m = Softmax<axis = {0}>(x)",
    "LogSoftmax": "m = LogSoftmax<axis = {0}>(x)",
    "Hardmax": "m = Hardmax<axis = {0}>(x)",
    "LpNormalization": "m = LpNormalization<axis = {0}>(x)",
    "MeanVarianceNormalization": "m = MeanVarianceNormalization<axes = [{0}]>(x)",
    "CumSum": "a = Constant<value_int = {0}>() m = CumSum(x, a)",
    "CumSum from the end": "a = Constant<value_int = {0}>() m = CumSum<reverse = 1, exclusive = 1>(x, a)",
    "TopK": "k = Constant<value_ints = [1]>() m, i = TopK<axis = {0}>(x, k)",
    "TopK's places": "k = Constant<value_ints = [1]>() n, m = TopK<axis = {0}>(x, k)",
    "Gather": "i = Constant<value_ints = [0]>() m = Gather<axis = {0}>(x, i)",
    "Slice": """b = Constant<value_ints = [0]>() e = Constant<value_ints = [1]>() a = Constant<value_ints = [{0}]>()
        m = Slice(x, b, e, a)""",
    "Slice from the end": """b = Constant<value_ints = [-1]>() e = Constant<value_ints = [-9]>()
        a = Constant<value_ints = [{0}]>()
        s = Constant<value_ints = [-1]>() m = Slice(x, b, e, a, s)""",
    "Split": "m, n = Split<axis = {0}, num_outputs = 2>(x)",
    "Concat": "c = Concat<axis = {0}>(x, x) a = Constant<value_ints = [{0}]>() m = ReduceMax(c, a)",
    "Compress": "c = Cast<to = 9>(ones) m = Compress<axis = {0}>(x, c)",
    "Pad that moves": """p = Constant<value_ints = [1, -1]>() a = Constant<value_ints = [{0}]>()
        n = Constant<value_float = 0.0>()
        m = Pad(x, p, n, a)""",
    "GatherElements": "i = ArgMax<axis = {0}>(x) m = GatherElements<axis = {0}>(x, i)",
    "ScatterElements": """i = ArgMax<axis = {0}>(x) a = Constant<value_ints = [{0}]>() u = ReduceMax(x, a)
        m = ScatterElements<axis = {0}>(x, i, u)""",
}
"""Operators along an axis."""
_OTHERS = {
    "MatMul of samples": ("t = Transpose<perm = [1, 2, 0]>(x) u = Transpose<perm = [1, 0, 2]>(x) m = MatMul(t, u)", True),
    "MatMul in a sample": ("t = Transpose<perm = [0, 2, 1]>(x) n = MatMul(t, x) m = ReduceMax(n, last)", False),
    "Gemm of samples": ("f = Flatten(x) g = Gemm<transB = 1>(f, f) m = ReduceMax(g)", True),
    "Einsum over samples": ("""m = Einsum<equation = "bij->ij">(x)""", True),
    "Einsum of samples": ("""n = Einsum<equation = "bij,cij->bcij">(x, x) m = ReduceMax(n)""", True),
    "Einsum in a sample": ("""m = Einsum<equation = "bij,bij->bij">(x, x)""", False),
    "BatchNormalization in training": ("m, n, o = BatchNormalization<training_mode = 1>(x, w, w, w, w)", True),
    "BatchNormalization": ("m = BatchNormalization(x, w, w, w, w)", False),
    "InstanceNormalization": ("m = InstanceNormalization(x, w, w)", False),
    "InstanceNormalization of samples": ("""t = Transpose<perm = [1, 0, 2]>(x) n = InstanceNormalization(t, q, q)
        m = ReduceMax(n)""", True),
    "LayerNormalization": ("m = LayerNormalization<axis = -1>(x, v)", False),
    "LayerNormalization of samples": ("""t = Transpose<perm = [1, 2, 0]>(x) n = LayerNormalization<axis = -1>(t, q)
        m = ReduceMax(n)""", True),
    "DynamicQuantizeLinear": ("n, s, p = DynamicQuantizeLinear(x) m = Cast<to = 1>(n)", True),
    "NonZero": ("n = NonZero(x) f = Cast<to = 1>(n) m = ReduceMax(f)", True),
    "Unique": ("n = Unique(x) m = ReduceMax(n)", True),
    "Size": ("n = Size(x) m = Cast<to = 1>(n)", True),
    "the number of samples": ("s = Shape<end = 1>(x) m = Cast<to = 1>(s)", True),
    "ReverseSequence of samples": ("m = ReverseSequence<time_axis = 0, batch_axis = 1>(x, three)", True),
    "ScatterND": ("u = ReduceMax<keepdims = 1>(x, first) m = ScatterND(x, zero, u)", True),
    "GatherND": ("m = GatherND(x, zero)", True),
    "Trilu of samples": ("t = Transpose<perm = [1, 0, 2]>(x) n = Trilu(t) m = ReduceMax(n)", True),
    "Trilu in a sample": ("m = Trilu(x)", False),
    "GlobalMaxPool": ("m = GlobalMaxPool(x)", False),
    "GlobalMaxPool of samples": ("t = Transpose<perm = [1, 2, 0]>(x) n = GlobalMaxPool(t) m = ReduceMax(n)", True),
    "MaxPool of samples": ("""t = Transpose<perm = [1, 2, 0]>(x) n = MaxPool<kernel_shape = [2], pads = [1, 0]>(t)
        m = ReduceMax(n)""", True),
    "LSTM": ("""t = Transpose<perm = [1, 0, 2]>(x) n, h, c = LSTM<hidden_size = 4>(t, lw, lr)
        m = Transpose<perm = [1, 0, 2]>(h)""", False),
    "LSTM over samples": ("n, h, c = LSTM<hidden_size = 4>(x, lw, lr) m = ReduceMax(h)", True),
    "If": (
        """r = ReduceSum<keepdims = 0>(x) z = Constant<value_float = 0.0>() c = Greater(r, z) m = If(c)
        <then_branch = t () => (float[2,3,4] bp) { bp = Relu(x) },
            else_branch = e () => (float[2,3,4] bq) { bq = Neg(x) }>""",
        True,
    ),
    "Scan": ("""s, m = Scan<num_scan_inputs = 1, body = b (float[3,4] a, float[3,4] c) => (float[3,4] d, float[3,4] f)
        { d = Add(a, c) f = Identity(d) }>(start, x)""", True),
    "Dropout": ("m = Dropout(x)", False),
    "a Reshape that moves samples": ("""t = Transpose<perm = [1, 0, 2]>(x) s = Constant<value_ints = [-1, 3, 4]>()
        m = Reshape(t, s)""", True),
    "a Reshape": ("s = Constant<value_ints = [-1, 3, 4]>() m = Reshape(x, s)", False),
    "Det": ("""s = Constant<value_ints = [-1, 2, 2]>() n = Reshape(x, s) d = Det(n) t = Constant<value_ints = [-1, 3, 1]>()
        m = Reshape(d, t)""", False),
}  # fmt: skip


def list_models() -> Iterator[tuple[str, str, bool]]:
    """Yield a name, a body and whether it mixes samples."""
    for name in _REDUCTIONS:
        for axis in (0, 2):
            yield (
                f"Reduce{name} of axis {axis}",
                f"a = Constant<value_ints = [{axis}]>() m = Reduce{name}(x, a)",
                axis == 0,
            )
    for name, body in _BY_AXIS.items():
        for axis in (0, 2):
            yield f"{name} of axis {axis}", body.format(axis), axis == 0
    for name, (body, mixes) in _OTHERS.items():
        yield name, body, mixes


def write(path: Path, body: str, mixes: bool) -> Path:
    """Write a model whose output is its input, and what ``body`` computes where that is above 9000."""
    weights = {"w": (3,), "v": (4,), "q": (2,), "start": (3, 4), "lw": (1, 16, 4), "lr": (1, 16, 4)}
    end = "f4 = ReduceMax<keepdims = 0>(f3)" if mixes else "f4 = ReduceMax(f3, inner)"
    model = parser.parse_model(f"""<ir_version: 8, opset_import: ["" : 18]>
        g (float[2,3,4] x) => (float[2,3,4] y) <float lim = {{9000.0}}, int64[1] first = {{0}}, int64[1] last = {{-1}},
            int64[2] inner = {{1, 2}}, float[2] ones = {{1.0, 0.0}}, int64[3] three = {{1, 2, 2}}, int64[1,1] zero = {{0}}> {{
            {body} f0 = Cast<to = 1>(m) f1 = Abs(f0) f2 = Sub(f1, lim) f3 = Relu(f2) {end} y = Add(x, f4) }}""")
    for name, shape in weights.items():
        model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, "f4"), name))
    onnx.save(model, path)
    return path


def judge(path: Path) -> str:
    """Return how ``reshape`` refuses a model, empty if it does not; what only the end of the model
    explains does not count.
    """
    try:
        gs.reshape(path, dynamic_batch=True)
    except (RefusedError, DisprovedError) as error:
        return (
            "; ".join(fault.message for fault in error.faults if fault.node != "f4")
            or "nothing but the end"
        )
    return ""


def test_operators_that_mix_samples_are_refused_and_nearly_all_others_are_free(
    tmp_path: Path,
) -> None:
    models = list(list_models())
    assert len(models) >= 84
    needless = []
    for name, body, mixes in models:
        path = write(tmp_path / "model.onnx", body, mixes)
        assert onnxruntime.InferenceSession(str(path)).run(None, {"x": np.ones((2, 3, 4), "f4")})[
            0
        ].shape == (2, 3, 4), name
        refusal = judge(path)
        assert not mixes or refusal not in ("", "nothing but the end"), name
        if refusal and not mixes:
            needless.append(f"{name}: {refusal}")
    assert len(needless) <= NEEDLESS, needless


_ATTENTION = """(float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v, float[1,2,5,4] pk, float[1,2,5,4] pv)
    => (float[1,2,3,4] y, float[1,2,8,4] nk, float[1,2,8,4] nv) {
    y, nk, nv = Attention(q, k, v, , pk, pv) }"""
BY_SAMPLE = {
    "Attention": (23, _ATTENTION),
    "Attention of three axes": (23, """(float[1,3,8] q, float[1,3,8] k) => (float[1,3,8] y) {
        y = Attention<q_num_heads = 2, kv_num_heads = 2>(q, k, k) }"""),
    "GridSample": (20, "(float[1,3,8,8] x, float[1,4,5,2] g) => (float[1,3,4,5] y) { y = GridSample(x, g) }"),
    "GridSample on a constant grid": (20, """(float[1,3,4,4] x) => (float[1,3,1,2] y)
        <float[1,1,2,2] g = {0.1, 0.2, -0.3, 0.4}> { y = GridSample(x, g) }"""),
    "RotaryEmbedding": (23, """(float[1,2,3,4] x) => (float[1,2,3,4] y)
        <float[3,2] c = {1, 2, 3, 4, 5, 6}, int64[1,3] p = {0, 1, 2}> {
        y = RotaryEmbedding(x, c, c, p) }"""),
    "Col2Im": (18, """(float[1,4,4] x) => (float[1,1,3,3] y) <int64[2] i = {3, 3}, int64[2] b = {2, 2}>
        { y = Col2Im(x, i, b) }"""),
    "DeformConv": (22, """(float[1,1,3,3] x, float[1,8,2,2] o) => (float[1,1,2,2] y) <float[1,1,2,2] w = {1, 2, 3, 4}> {
        y = DeformConv(x, w, o) }"""),
    "BiasGelu": (17, "(float[1,3,2] x) => (float[1,3,2] y) <float[2] b = {1, 2}> { y = com.microsoft.BiasGelu(x, b) }"),
    "SkipLayerNormalization": (17, """(float[1,3,2] x, float[1,3,2] z) => (float[1,3,2] y) <float[2] b = {1, 2}> {
        y = com.microsoft.SkipLayerNormalization(x, z, b, b) }"""),
    "MultiHeadAttention": (17, """(float[1,3,4] q, float[1,5,4] k) => (float[1,3,4] y) {
        y = com.microsoft.MultiHeadAttention<num_heads = 2>(q, k, k) }"""),
    "fused Attention": (17, """(float[1,3,2] x, int32[1,3] m) => (float[1,3,2] y)
        <float[2,6] w = {1,2,3,4,5,6,7,8,9,1,2,3}, float[6] b = {1,2,3,4,5,6}> {
        y = com.microsoft.Attention<num_heads = 1>(x, w, b, m) }"""),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_SAMPLE)
def test_operators_on_each_sample_are_free(name: str, tmp_path: Path) -> None:
    opset, text = BY_SAMPLE[name]
    path = tmp_path / "model.onnx"
    onnx.save(
        parser.parse_model(
            f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1]> g {text}'
        ),
        path,
    )
    report = gs.reshape(path, dynamic_batch=True).report
    assert report.proof.batches == (2, 3, 5)
    assert all(sizes[0] == "batch" for sizes in (*report.inputs.values(), *report.outputs.values()))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("float[1,3,8] k", "float[1,4,8] k", ""),
        ("float[1,3,8] q, float[1,3,8] k)", "float[2,3,8] q, float[2,3,8] k)", ""),
        ("y = Attention<", "t = Transpose<perm = [1, 0, 2]>(q) y = Attention<", ""),
        (
            "(q, k, k)",
            "(t, k, k)",
            "has different samples in its operands|works along the samples|mixes",
        ),
    ],
)
def test_operators_on_each_sample_refuse_samples_elsewhere(
    old: str, new: str, message: str, tmp_path: Path
) -> None:
    text = BY_SAMPLE["Attention of three axes"][1].replace(old, new)
    if message:
        text = text.replace("y = Attention<", "t = Transpose<perm = [1, 0, 2]>(q) y = Attention<")
    path = tmp_path / "model.onnx"
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 23]> g {text}'), path)
    if message:
        with pytest.raises(RefusedError, match=message):
            gs.reshape(path, dynamic_batch=True)
    else:
        assert gs.reshape(path, dynamic_batch=True).report.proof
