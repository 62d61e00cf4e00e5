"""``reshape``: sizes that a file fixes are free, samples keep their values, and what mixes them is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper, parser

import graphshare as gs
from graphshare.errors import DisprovedError, RefusedError, UsageError
from graphshare.ir.graph import EMPTY
from graphshare.onnx_ops import axis_rules, size_nodes
from graphshare.onnx_ops.free_axes import Axes, Call, Edit, regroup
from graphshare.rewrite import free_sizes as rewrite
from tests.onnx_files.sources import WHEEL
from tests.processes import done, graphshare, refused

Weights = Mapping[str, Sequence[int]]


def parse(text: str, weights: Weights = EMPTY, opset: int = 17, ir: int = 8) -> onnx.ModelProto:
    """Return the model of ``g (inputs) => (outputs) {...}``, with drawn weights of these shapes."""
    model = parser.parse_model(
        f'<ir_version: {ir}, opset_import: ["" : {opset}, "ai.other" : 1, "com.microsoft" : 1]>\n{text}'
    )
    rng = np.random.default_rng(0)
    for name, shape in weights.items():
        array = rng.uniform(0.2, 1.0, shape).astype("f4")
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    for tensor in model.graph.initializer if ir < 4 else ():
        model.graph.input.append(
            helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        )
    return model


def write(folder: Path, text: str, weights: Weights = EMPTY, **options: int) -> Path:
    path = folder / "fixed.onnx"
    onnx.save(parse(text, weights, **options), path)
    return path


def sizes_of(values: Any, held: Sequence[str] = ()) -> dict[str, list[int | str]]:
    """Return the sizes that a model states."""
    own = {
        v.name: [d.dim_param or d.dim_value for d in v.type.tensor_type.shape.dim] for v in values
    }
    return {name: sizes for name, sizes in own.items() if name not in held}


def draw(graph: onnx.GraphProto, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    held = {tensor.name for tensor in graph.initializer}
    drawn = {}
    for value in graph.input:
        if value.name not in held:
            shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
            array = rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 4, shape)
            drawn[value.name] = array.astype(dtype)
    return drawn


def compare_samples(
    fixed: Path, free: Path, inputs: Mapping[str, int], outputs: Mapping[str, int], count: int
) -> None:
    """Compare each sample of a batch with what the original gives for it; inputs and outputs have
    samples on these axes.
    """
    before, after = (onnxruntime.InferenceSession(str(path)) for path in (fixed, free))
    samples = [draw(onnx.load(fixed).graph, seed) for seed in range(count)]
    feeds = dict(samples[0])
    for name, axis in inputs.items():
        feeds[name] = np.concatenate([sample[name] for sample in samples], axis)
    together = dict(zip(outputs, after.run(list(outputs), feeds), strict=True))
    for number, sample in enumerate(samples):
        alone = before.run(list(outputs), {**feeds, **{name: sample[name] for name in inputs}})
        for (name, axis), wanted in zip(outputs.items(), alone, strict=True):
            size = wanted.shape[axis]
            part = together[name].take(range(number * size, (number + 1) * size), axis)
            np.testing.assert_allclose(part, wanted, rtol=1e-4, atol=1e-5)


FOLLOWED: dict[str, tuple[str, Weights, set[str]]] = {
    "a target with a leading 1": (
        """g (float[1,4,6] x) => (float[1,5] y) <int64[2] s = {1, 24}> {
            a = Relu(x) b = Reshape(a, s) y = MatMul(b, w) }""",
        {"w": (24, 5)},
        {"Reshape"},
    ),
    "a target that has -1 elsewhere": (
        "g (float[1,4,6] x) => (float[1,8,3] y) <int64[3] s = {1, -1, 3}> { y = Reshape(x, s) }",
        {},
        {"Reshape"},
    ),
    "axes of one sample that change places with parts of others": (
        "g (float[1,4,6] x) => (float[1,6,2,2] y) <int64[4] s = {1, 6, 2, 2}> { y = Reshape(x, s) }",
        {},
        {"Reshape"},
    ),
    "heads of attention": (
        """g (float[1,4,6] x) => (float[1,4,6] y) <int64[4] s = {1, 4, 2, 3}, int64[3] t = {1, 4, 6}> {
            q = MatMul(x, w) a = Reshape(q, s) b = Transpose<perm = [0, 2, 1, 3]>(a) c = Transpose<perm = [0, 2, 3, 1]>(a)
            d = MatMul(b, c) e = Softmax<axis = -1>(d) f = MatMul(e, b)
            h = Transpose<perm = [0, 2, 1, 3]>(f) y = Reshape(h, t) }""",
        {"w": (6, 6)},
        {"Reshape"},
    ),
    "samples behind a sequence": (
        """g (float[1,4,6] x) => (float[1,4,6] y) <int64[3] s = {4, 2, 3}, int64[3] t = {4, 1, 6}> {
            a = Transpose<perm = [1, 0, 2]>(x) b = Reshape(a, s) c = Relu(b) d = Reshape(c, t)
            y = Transpose<perm = [1, 0, 2]>(d) }""",
        {},
        {"Reshape"},
    ),
    "rows of a sequence": (
        """g (float[1,4,6] x) => (float[1,4,5] y) <int64[2] s = {4, 6}, int64[3] t = {4, 1, 5}> {
            a = Transpose<perm = [1, 0, 2]>(x) b = Reshape(a, s) c = Gemm(b, w) d = Reshape(c, t)
            y = Transpose<perm = [1, 0, 2]>(d) }""",
        {"w": (6, 5)},
        {"Reshape"},
    ),
    "a class token": (
        "g (float[1,4,6] x) => (float[1,5,6] y) { y = Concat<axis = 1>(token, x) }",
        {"token": (1, 1, 6)},
        {"Concat"},
    ),
    "a token that is expanded": (
        """g (float[1,4,6] x) => (float[1,5,6] y) <int64[3] s = {1, 1, 6}> {
            a = Expand(token, s) y = Concat<axis = 1>(a, x) }""",
        {"token": (1, 1, 6)},
        {"Concat"},
    ),
    "zeros that are filled": (
        """g (float[1,4,6] x) => (float[1,6,6] y) <int64[3] s = {1, 2, 6}> {
            a = ConstantOfShape(s) y = Concat<axis = 1>(a, x) }""",
        {},
        {"Concat"},
    ),
    "an Expand and a Tile": (
        """g (float[1,1,6] x) => (float[1,4,12] y) <int64[3] s = {1, 4, 6}, int64[3] t = {1, 1, 2}> {
            a = Expand(x, s) y = Tile(a, t) }""",
        {},
        set(),
    ),
    "initial states": (
        """g (float[1,4,6] x) => (float[1,4,5] y, float[1,1,5] h, float[1,1,5] c) <int64[1] one = {1}> {
            a = Transpose<perm = [1, 0, 2]>(x) b, h, c = LSTM<hidden_size = 5>(a, w, r, , , h0, c0)
            d = Squeeze(b, one) y = Transpose<perm = [1, 0, 2]>(d) }""",
        {"w": (1, 20, 6), "r": (1, 20, 5), "h0": (1, 1, 5), "c0": (1, 1, 5)},
        {"LSTM"},
    ),
    "sizes of a Resize": (
        """g (float[1,2,4,4] x) => (float[1,2,8,8] y) <int64[4] s = {1, 2, 8, 8}> { y = Resize<mode = "nearest">(x, , , s) }""",
        {},
        {"Resize"},
    ),
    "a Slice of all samples": (
        """g (float[1,4,6] x) => (float[1,2,6] y) <int64[2] b = {0, 1}, int64[2] e = {1, 3}> { y = Slice(x, b, e) }""",
        {},
        {"Slice"},
    ),
    "other axes are split, reduced and picked": (
        """g (float[1,4,6] x) => (float[1,3] y, float[1,6] z) <int64[1] a = {1}, int64 i = {2}> {
            l, r = Split<axis = 2>(x) m = ReduceSum<keepdims = 0>(l, a) n = ReduceMean<axes = [1], keepdims = 0>(r)
            y = Mul(m, n) z = Gather<axis = 1>(x, i) }""",
        {},
        set(),
    ),
    "normalizations": (
        """g (float[1,4,6] x) => (float[1,4,6] y) {
            a = LayerNormalization<axis = -1>(x, s, b) c = InstanceNormalization(a, i, i)
            y = BatchNormalization(c, i, i, i, i) }""",
        {"s": (6,), "b": (6,), "i": (4,)},
        set(),
    ),
    "an image": (
        """g (float[1,3,8,8] x) => (float[1,5] y) <int64[2] s = {1, 4}> {
            a = Conv<pads = [1, 1, 1, 1]>(x, k) b = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(a)
            c = GlobalAveragePool(b) d = Reshape(c, s) y = Gemm<transB = 1>(d, w, bias) }""",
        {"k": (4, 3, 3, 3), "w": (5, 4), "bias": (5,)},
        {"Reshape"},
    ),
    "sizes that the model computes": (
        """g (float[1,4,6] x) => (float[1,24] y) <int64 zero = {0}, int64[1] first = {0}, int64[1] rest = {-1}> {
            a = Shape(x) b = Gather(a, zero) c = Unsqueeze(b, first) d = Concat<axis = 0>(c, rest) y = Reshape(x, d) }""",
        {},
        set(),
    ),
    "tokens": (
        "g (int64[1,4] x) => (float[1,4,6] y) { a = Gather(table, x) y = Add(a, places) }",
        {"table": (9, 6), "places": (1, 4, 6)},
        set(),
    ),
    "elements by constant numbers": (
        """g (float[1,4] x) => (float[1,2] y) <int64[1,2] i = {3, 0}> { y = GatherElements<axis = 1>(x, i) }""",
        {},
        {"GatherElements"},
    ),
    "letters": (
        """g (float[1,4,6] x) => (float[1,4,5] y) { y = Einsum<equation = "bij,jk->bik">(x, w) }""",
        {"w": (6, 5)},
        set(),
    ),
    "two samples in the file": (
        "g (float[2,4,6] x) => (float[2,24] y) <int64[2] s = {2, 24}> { y = Reshape(x, s) }",
        {},
        {"Reshape"},
    ),
}


@pytest.mark.parametrize("name", FOLLOWED)
def test_what_states_a_free_size_follows(name: str, tmp_path: Path) -> None:
    text, weights, changed = FOLLOWED[name]
    path = write(tmp_path, text, weights)
    model = gs.reshape(path, dynamic_batch=True)
    free = tmp_path / "free.onnx"
    gs.save(model, free)
    onnx.checker.check_model(str(free), full_check=True)
    before, after = onnx.load(path).graph, onnx.load(free).graph
    assert sizes_of(after.input) == {
        n: ["batch", *s[1:]] for n, s in sizes_of(before.input).items()
    }
    axes = {name: sizes.index("batch") for name, sizes in sizes_of(after.output).items()}
    ops = {node.name or node.output[0]: node.op_type for node in before.node}
    assert {ops[each] for each in model.report.changed} == changed
    kept = {node.SerializeToString() for node in after.node}
    assert all(
        n.SerializeToString() in kept
        for n in before.node
        if (n.name or n.output[0]) not in model.report.changed
    )
    # A target that was replaced is gone; all else has its bytes.
    read = {name for node in after.node for name in node.input}
    assert [t.SerializeToString() for t in after.initializer] == [
        t.SerializeToString() for t in before.initializer if t.name in read
    ]
    assert model.report.proof.outputs == len(axes)
    assert model.report.proof.tells_apart
    for count in (1, 2, 5):
        compare_samples(path, free, dict.fromkeys(sizes_of(before.input), 0), axes, count)


REFUSED: dict[str, tuple[str, Weights, str]] = {
    "Add computes": (
        """float[1,4] x) => (float[1,4] y) <float three = {3.0}> {
            s = Shape<end = 1>(x) f = Cast<to = 1>(s) d = Sub(f, three) r = Relu(d) y = Add(x, r) }""",
        {},
        "with the number of samples",
    ),
    "ReduceMean": (
        "float[2,4] x) => (float[1,4] y) { y = ReduceMean<axes = [0]>(x) }",
        {},
        "reduces the samples of a batch",
    ),
    "ReduceSum": (
        "float[2,4] x) => (float[1,1] y) { y = ReduceSum(x) }",
        {},
        "reduces the samples of a batch",
    ),
    "ArgMax": (
        "float[2,4] x) => (int64[1,4] y) { y = ArgMax(x) }",
        {},
        "reduces the samples of a batch",
    ),
    "Softmax": (
        "float[2,4] x) => (float[2,4] y) { y = Softmax<axis = 0>(x) }",
        {},
        "works along the samples",
    ),
    "CumSum": (
        "float[2,4] x) => (float[2,4] y) <int64 a = {0}> { y = CumSum(x, a) }",
        {},
        "works along the samples",
    ),
    "TopK": (
        "float[2,4] x) => (float[1,4] y, int64[1,4] i) <int64[1] k = {1}> { y, i = TopK<axis = 0>(x, k) }",
        {},
        "works along the samples",
    ),
    "Conv": (
        "float[2,4,5,5] x) => (float[1,4,3,3] z) { y = Transpose<perm = [1, 0, 2, 3]>(x) z = Conv(y, w) }",
        {"w": (1, 2, 3, 3)},
        "works along the samples",
    ),
    "MatMul": (
        "float[2,4] x) => (float[4,4] y) { a = Transpose(x) y = MatMul(a, x) }",
        {},
        "sums over the samples of a batch",
    ),
    "Gemm": (
        "float[2,4] x) => (float[2,2] y) { y = Gemm<transB = 1>(x, x) }",
        {},
        "relates samples to each other",
    ),
    "Einsum": (
        """float[2,4] x) => (float[4] y) { y = Einsum<equation = "ij->j">(x) }""",
        {},
        "sums over the samples of a batch",
    ),
    "Concat": (
        "float[2,4] x) => (float[3,4] y) { y = Concat<axis = 0>(x, w) }",
        {"w": (1, 4)},
        "joins values along the samples",
    ),
    "Split": (
        "float[2,4] x) => (float[1,4] y, float[1,4] z) { y, z = Split<axis = 0>(x) }",
        {},
        "splits the samples",
    ),
    "Slice": (
        "float[2,4] x) => (float[1,4] y) <int64[1] b = {0}, int64[1] e = {1}> { y = Slice(x, b, e) }",
        {},
        "takes some of the samples",
    ),
    "Gather": (
        "float[2,4] x) => (float[4] y) <int64 i = {1}> { y = Gather(x, i) }",
        {},
        "selects samples by index",
    ),
    "Squeeze": (
        "float[1,4] x) => (float[4] y) <int64[1] a = {0}> { y = Squeeze(x, a) }",
        {},
        "removes an axis whose size is free",
    ),
    "Add": (
        "float[2,4] x) => (float[2,4] y) { y = Add(x, w) }",
        {"w": (2, 4)},
        "has a fixed size of 2 on an axis whose size is free",
    ),
    "Sub": (
        "float[1,1] x) => (float[1,1] y) { a = Transpose(x) y = Sub(x, a) }",
        {},
        "relates samples to each other",
    ),
    "BatchNormalization": (
        """float[2,3,4] x) => (float[2,3,4] y, float[3] m, float[3] v) {
            y, m, v = BatchNormalization<training_mode = 1>(x, s, s, s, s) }""",
        {"s": (3,)},
        "takes its statistics from the samples of a batch",
    ),
    "DynamicQuantizeLinear": (
        "float[2,4] x) => (uint8[2,4] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        {},
        "takes its scale from all samples of a batch",
    ),
    "DynamicQuantizeLSTM": (
        f"""float[2,1,1] x) => (float[2,1,1,1] y) <int8[1,1,4] w = {{1, 2, 3, 4}}, float[1] s = {{0.5}}, int8[1] z = {{0}}> {{
            y = com.microsoft.DynamicQuantizeLSTM<hidden_size = 1>(x, w, w{", " * 6}s, z, s, z) }}""",
        {},
        "takes its scale from all samples of a batch",
    ),
    "MeanVarianceNormalization": (
        "float[2,3,4,4] x) => (float[2,3,4,4] y) { y = MeanVarianceNormalization(x) }",
        {},
        "works along the samples",
    ),
    "LSTM": (
        (
            "float[2,4,6] x) => (float[2,1,4,5] y) { a = Transpose<perm = [0, 1, 2]>(x) y = "
            "LSTM<hidden_size = 5>(a, w, r) }"
        ),
        {"w": (1, 20, 6), "r": (1, 20, 5)},
        "works along the samples",
    ),
    "ConstantOfShape": (
        "int64[3] x) => (float[?,?,?] y) { y = ConstantOfShape(x) }",
        {},
        "uses values of samples as sizes",
    ),
    "Reshape": (
        "float[1,4,6] x, int64[2] s) => (float[1,24] y) { y = Reshape(x, s) }",
        {},
        "has sizes that the caller feeds",
    ),
    "MaxPool": (
        "float[2,3,4,4] x) => (float[2,3,3,3] y, int64[2,3,3,3] i) { y, i = MaxPool<kernel_shape = [2, 2]>(x) }",
        {},
        "returns indices that count through all samples",
    ),
    "ScatterND": (
        "float[2,4] x) => (float[2,4] y) <int64[1,1] i = {1}> { y = ScatterND(x, i, u) }",
        {"u": (1, 4)},
        "has an unknown effect on the batch axis",
    ),
    "If": (
        """float[1,4] x, bool[1] c) => (float[1,4] y) {
            y = If(c) <then_branch = t () => (float[1,4] a) { a = Relu(x) },
                else_branch = e () => (float[1,4] b) { b = Neg(x) }> }""",
        {},
        "has a condition that depends on the samples",
    ),
}


@pytest.mark.parametrize("op", REFUSED)
def test_an_operator_that_mixes_samples_is_named(op: str, tmp_path: Path) -> None:
    text, weights, reason = REFUSED[op]
    path = write(tmp_path, f"g ({text}", weights)
    for verify in (True, False):
        with pytest.raises(RefusedError) as caught:
            gs.reshape(path, dynamic_batch=True, verify=verify)
        assert any(
            fault.message == f"{op} {reason}" and fault.node for fault in caught.value.faults
        )


@pytest.mark.parametrize(("axis", "is_right"), [(0, False), (1, False), (2, True)])
def test_an_old_softmax_flattens_what_is_behind_its_axis(
    axis: int, is_right: bool, tmp_path: Path
) -> None:
    text = (
        f"g (float[3,2,4] x) => (float[3,2,4] y) "
        f"{{ a = Transpose<perm = [1, 0, 2]>(x) y = Softmax<axis = {axis}>(a) }}"
    )
    path = write(tmp_path, text, opset=11)
    if is_right:
        assert gs.reshape(path, dynamic_batch=True).report.proof
    else:
        with pytest.raises(RefusedError, match="works along the samples"):
            gs.reshape(path, dynamic_batch=True)


def test_sizes_by_name_are_computed_at_several(tmp_path: Path) -> None:
    text = """g (float[1,3,8,8] x) => (float[1,4,16] y) <int64[3] s = {1, 4, 16}> {
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, k) y = Reshape(a, s) }"""
    path = write(tmp_path, text, {"k": (4, 3, 3, 3)})
    model = gs.reshape(path, shapes={"x": ("n", 3, "h", "w")})
    assert model.report.inputs == {"x": ("n", 3, "h", "w")}
    assert model.report.outputs == {"y": ("n", 4, None)}
    assert model.report.proof.batches == (2, 3, 5)
    assert list(model.report.proof.sizes) == [
        {"h": 41},
        {"w": 41},
        {"h": 77, "w": 77},
        {"h": 109, "w": 109},
    ]
    gs.save(model, tmp_path / "free.onnx")
    outputs = gs.run(tmp_path / "free.onnx", feeds={"x": np.ones((2, 3, 10, 20), "f4")}).outputs
    assert outputs["y"].shape == (2, 4, 50)


def test_a_target_has_sizes_that_follow_from_others(tmp_path: Path) -> None:
    """A stride of 2 makes new sizes, which are read from the output of the convolution."""
    text = """g (float[1,3,8,8] x) => (float[1,2,2,4,4] y) <int64[5] s = {1, 2, 2, 4, 4}> {
        a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, k) y = Reshape(a, s) }"""
    model = gs.reshape(write(tmp_path, text, {"k": (4, 3, 3, 3)}), shapes={"x": ("n", 3, "h", "w")})
    assert model.report.changed == ("y",)
    gs.save(model, tmp_path / "free.onnx")
    outputs = gs.run(tmp_path / "free.onnx", feeds={"x": np.ones((2, 3, 10, 20), "f4")}).outputs
    assert outputs["y"].shape == (2, 2, 2, 5, 10)


def test_a_constant_of_a_fixed_size_is_named(tmp_path: Path) -> None:
    path = write(
        tmp_path, "g (float[1,4,6] x) => (float[1,4,6] y) { y = Add(x, w) }", {"w": (1, 4, 6)}
    )
    assert gs.reshape(path, shapes={"x": ("n", 4, 6)}).report.proof
    with pytest.raises(
        RefusedError, match="Add has a fixed size of 4 on an axis whose size is free"
    ):
        gs.reshape(path, shapes={"x": ("n", "t", 6)})


def test_states_of_rnns_have_samples_on_their_second_axis(tmp_path: Path) -> None:
    text = """g (float[4,1,6] x, float[1,1,5] h) => (float[4,1,1,5] y, float[1,1,5] z) {
        y, z = GRU<hidden_size = 5>(x, w, r, , , h) }"""
    model = gs.reshape(
        write(tmp_path, text, {"w": (1, 15, 6), "r": (1, 15, 5)}), dynamic_batch=True
    )
    assert model.report.inputs == {"x": (4, "batch", 6), "h": (1, "batch", 5)}
    assert model.report.outputs == {"y": (4, 1, "batch", 5), "z": (1, "batch", 5)}


def test_sizes_that_were_free_stay_so(tmp_path: Path) -> None:
    text = (
        "g (float[1,T,6] x) => (float[1,T,12] y) <int64[3] s = {1, -1, 12}> { a = Concat<axis = "
        "2>(x, x) y = Reshape(a, s) }"
    )
    model = gs.reshape(write(tmp_path, text), dynamic_batch=True)
    assert model.report.inputs == {"x": ("batch", "T", 6)}
    assert model.report.outputs == {"y": ("batch", "T", 12)}


def test_sizes_without_a_name_stay_open(tmp_path: Path) -> None:
    text = "g (float[1,?,6] x, float[1,?,6] z) => (float[1,?,12] y) { y = Concat<axis = 2>(x, z) }"
    model = gs.reshape(write(tmp_path, text), dynamic_batch=True)
    assert model.report.inputs == {"x": ("batch", None, 6), "z": ("batch", None, 6)}
    gs.save(model, tmp_path / "free.onnx")
    assert sizes_of(onnx.load(tmp_path / "free.onnx").graph.input) == {
        "x": ["batch", 0, 6],
        "z": ["batch", 0, 6],
    }


def test_a_name_that_was_free_may_be_on_any_axis(tmp_path: Path) -> None:
    text = "g (float[1,T,6] x, float[T,6] z) => (float[1,T,6] y) { y = Add(x, z) }"
    model = gs.reshape(write(tmp_path, text), shapes={"x": ("n", None, None)})
    assert model.report.inputs == {"x": ("n", "T", 6), "z": ("T", 6)}


def test_stated_types_of_inner_values_follow(tmp_path: Path) -> None:
    path = write(
        tmp_path, "g (float[1,4] x) => (float[1,4] y) <float[1,4] a> { a = Relu(x) y = Neg(a) }"
    )
    gs.save(gs.reshape(path, dynamic_batch=True), tmp_path / "free.onnx")
    assert sizes_of(onnx.load(tmp_path / "free.onnx").graph.value_info) == {"a": ["batch", 4]}


def test_an_old_file_whose_initializers_are_inputs(tmp_path: Path) -> None:
    text = "g (float[1,4,6] x) => (float[1,5] y) <int64[2] s = {1, 24}> { a = Reshape(x, s) y = Gemm(a, w, b) }"
    path = write(tmp_path, text, {"w": (24, 5), "b": (5,)}, opset=9, ir=3)
    model = gs.reshape(path, dynamic_batch=True)
    gs.save(model, tmp_path / "free.onnx")
    assert model.report.inputs == {"x": ("batch", 4, 6)}
    compare_samples(path, tmp_path / "free.onnx", {"x": 0}, {"y": 0}, 3)


def test_shapes_that_onnx_does_not_infer_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FOLLOWED["a target with a leading 1"][0], {"w": (24, 5)})
    monkeypatch.setattr("graphshare.formats.onnx.value_types.is_installed", lambda: False)
    assert gs.reshape(path, dynamic_batch=True).report.changed == ("b",)
    monkeypatch.setattr("graphshare.api.reshape._measure", lambda *_: {})
    with pytest.raises(RefusedError, match="Reshape has an output whose shape is not known"):
        gs.reshape(path, dynamic_batch=True)


# The proof finds rules and edits that are wrong.


def pass_on(call: Call) -> list[Axes]:
    """Return the axes of the data, as a rule does that sees no mixing."""
    return [call.data] * len(call.shapes)


@pytest.mark.parametrize("op", ["Softmax", "CumSum"])
def test_the_proof_finds_samples_that_mix(
    op: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, f"g ({REFUSED[op][0]}")
    monkeypatch.setitem(axis_rules._RULES, op, pass_on)
    with pytest.raises(DisprovedError, match="differs from the original's"):
        gs.reshape(path, dynamic_batch=True)


def test_the_proof_finds_samples_that_move_by_less_than_the_tolerance(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """g (float[1,4] x) => (float[1,4] y) <float small = {0.00001}> {
        a = ReduceMean<axes = [0]>(x) b = Mul(a, small) y = Add(x, b) }"""
    path = write(tmp_path, text)
    monkeypatch.setitem(axis_rules._RULES, "ReduceMean", lambda call: [((), call.data[1])])
    with pytest.raises(
        DisprovedError, match="of a sample depends on the other samples of the batch"
    ):
        gs.reshape(path, dynamic_batch=True)


def test_the_proof_finds_rows_that_are_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FOLLOWED["a class token"][0], {"token": (1, 1, 6)})
    right = size_nodes.SizeNodes.compute
    monkeypatch.setattr(
        size_nodes.SizeNodes,
        "compute",
        lambda self, label, rest, factors: right(self, label, [size + 1 for size in rest], factors),
    )
    with pytest.raises(DisprovedError, match="cannot be computed with batch"):
        gs.reshape(path, dynamic_batch=True)


def test_the_proof_finds_elements_in_another_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, FOLLOWED["samples behind a sequence"][0])

    def leave_before(table: Any, data: Axes, shape: Sequence[int]) -> Axes:
        axes = regroup(table, data, shape)
        return (("batch", 4), (2,), (3,)) if list(shape) == [4, 2, 3] else axes

    monkeypatch.setattr(axis_rules, "regroup", leave_before)
    with pytest.raises(DisprovedError):
        gs.reshape(path, dynamic_batch=True)


def test_the_proof_finds_other_bits_at_the_sizes_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(
        tmp_path,
        "g (float[1,4] x) => (float[1,4] y) <int64[2] s = {1, 4}> { a = Relu(x) y = Reshape(a, s) }",
    )
    monkeypatch.setitem(
        axis_rules._RULES,
        "Relu",
        lambda call: call.edits.update({0: Edit(((2,), ()), expands=True)}) or [call.data],
    )
    with pytest.raises(DisprovedError):
        gs.reshape(path, dynamic_batch=True)


def test_a_model_that_differs_from_itself_is_not_proved(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "g (float[1,4] x) => (float[1,4] y) { r = RandomUniform<shape = [1, 4]>() y = Add(x, r) }",
    )
    with pytest.raises(RefusedError, match="two runs of the model itself differ"):
        gs.reshape(path, dynamic_batch=True)
    assert gs.reshape(path, dynamic_batch=True, verify=False).report.proof is None


def test_inputs_that_no_output_needs_are_free_too(tmp_path: Path) -> None:
    path = write(tmp_path, "g (float[1,4] x, float[1,4] z) => (float[1,4] y) { y = Relu(x) }")
    model = gs.reshape(path, dynamic_batch=True)
    assert model.report.inputs == {"x": ("batch", 4), "z": ("batch", 4)}


def factor(size: int, random: Random) -> list[int]:
    """Return some numbers whose product is ``size``."""
    factors = []
    while size > 1:
        factors.append(random.choice([part for part in range(2, size + 1) if size % part == 0]))
        size //= factors[-1]
    return factors


@pytest.mark.parametrize("seed", range(12))
def test_a_chain_of_random_shapes_is_free_or_refused(seed: int, tmp_path: Path) -> None:
    random, shape, lines, rows = Random(seed), [1, 4, 6], [], []
    for number in range(random.randint(2, 5)):
        if number % 2:
            order = random.sample(range(len(shape)), len(shape))
            lines.append(f"v{number + 1} = Transpose<perm = {order}>(v{number})")
            shape = [shape[axis] for axis in order]
        else:
            shape = factor(24, random)
            shape.insert(random.choice([0, random.randint(0, len(shape))]), 1)
            rows.append(f"int64[{len(shape)}] s{number} = {{{', '.join(map(str, shape))}}}")
            lines.append(f"v{number + 1} = Reshape(v{number}, s{number})")
    result = f"v{len(lines)}"
    text = (
        f"g (float[1,4,6] v0) => (float[{','.join(map(str, shape))}] {result}) "
        f"<{', '.join(rows)}> {{ {' '.join(lines)} }}"
    )
    refusal, tells_apart = "", False
    try:
        tells_apart = gs.reshape(write(tmp_path, text), dynamic_batch=True).report.proof.tells_apart
    except RefusedError as error:
        refusal = str(error)
    assert "splits an axis" in refusal or tells_apart


def test_samples_with_equal_outputs_prove_little(tmp_path: Path) -> None:
    path = write(
        tmp_path, "g (float[1,4] x) => (float[1,4] y) <float zero = {0}> { y = Mul(x, zero) }"
    )
    model = gs.reshape(path, dynamic_batch=True)
    assert not model.report.proof.tells_apart
    assert any("all drawn samples have the same outputs" in note for note in model.notes)


def test_nothing_is_written_where_the_proof_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, "g (float[2,4] x) => (float[2,4] y) { y = ai.other.Mix(x) }")
    out = tmp_path / "out.onnx"
    out.write_bytes(b"before")
    refusal = refused(graphshare("reshape", path, "--dynamic-batch", "-o", out))
    assert "Mix has an unknown effect on the batch axis" in refusal
    assert out.read_bytes() == b"before"


# Files that do not hold what they should


HOSTILE = {
    "a permutation of other axes": "g (float[1,4] x) => (float[4,1] y) { y = Transpose<perm = [0, 7]>(x) }",
    "too few operands": "g (float[1,4] x) => (float[1,4] y) { y = MatMul(x) }",
    "no operand at all": "g (float[1,4] x) => (float[1,4] y) { a = Relu(x) y = Expand(a) }",
    "an axis of another kind": """g (float[1,4] x) => (float[1,4] y) { y = Softmax<axis = "first">(x) }""",
    "ranks that differ": "g (float[1,4] x) => (float[1,4] y) { y = Concat<axis = 1>(x, w) }",
    "a target of another size": "g (float[1,4] x) => (float[1,5] y) <int64[2] s = {1, 5}> { y = Reshape(x, s) }",
    "an empty value": "g (float[1,0,4] x) => (float[1,8] y) <int64[2] s = {1, 8}> { y = Reshape(x, s) }",
    "a Resize of nothing": "g (float[0,2,4,4] x) => (float[0,2,8,8] y) <int64[4] s = {0, 2, 8, 8}> { y = Resize(x, , , s) }",
    "a batch of nothing": "g (float[0,4] x) => (float[0,4] y) { y = Relu(x) }",
    "an axis that there is not": "g (float[1,4] x) => (float[1,4] y) { y = Softmax<axis = -9>(x) }",
    "a scalar that is reduced": "g (float x) => (float y) { y = ReduceSum(x) }",
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("verify", [True, False])
def test_a_file_that_is_wrong_is_refused_in_words(name: str, verify: bool, tmp_path: Path) -> None:
    path = write(tmp_path, HOSTILE[name], {"w": (1, 4, 2)} if "Concat" in HOSTILE[name] else {})
    with pytest.raises(gs.GraphshareError) as caught:
        gs.reshape(path, dynamic_batch=True, verify=verify)
    assert all(fault.message for fault in caught.value.faults)


@pytest.mark.parametrize(
    "body",
    [
        """y = AveragePool<kernel_shape = "wide">(x)""",
        """c = Constant<value_int = "many">() y = Mul(x, c)""",
        "i = Constant<value_ints = [7, 7]>() y = Gather<axis = 9>(x, i)",
        "y = Slice(x)",
        "y = TopK(x)",
        "y = GridSample(x)",
        "y = RotaryEmbedding(x)",
        "y = DeformConv(x, x)",
        "y = Pad(x)",
        "y = com.microsoft.SkipLayerNormalization(x)",
        "y = com.microsoft.MultiHeadAttention(x)",
        "y = com.microsoft.MatMulNBits(x)",
    ],
)
@pytest.mark.parametrize("options", [{"dynamic_batch": True}, {"shapes": {"x": (1, 3, "h", 7)}}])
def test_operators_without_their_operands_are_refused_in_words(
    body: str, options: dict[str, Any], tmp_path: Path
) -> None:
    path = write(tmp_path, f"g (float[1,3,7,7] x) => (float[?,?,?,?] y) {{ {body} }}", opset=23)
    with pytest.raises(gs.GraphshareError) as caught:
        gs.reshape(path, **options)
    assert all(fault.message for fault in caught.value.faults)


# The command


def test_the_command_says_what_it_did(tmp_path: Path) -> None:
    path = write(tmp_path, FOLLOWED["a target with a leading 1"][0], {"w": (24, 5)})
    run = done(graphshare("reshape", path, "--dynamic-batch", "-o", tmp_path / "free.onnx"))
    lines = run.stderr.decode().splitlines()
    assert lines[:3] == ["input x batchx4x6", "output y batchx5", "changed: b"]
    assert lines[3].startswith(
        "proved: 1 output equal bit for bit at the sizes of the file; samples in batches of 2, 3, 5 match "
    )
    run = done(
        graphshare("reshape", path, "--dynamic-batch", "--no-verify", "-o", tmp_path / "free.onnx")
    )
    assert b"NOT PROVED" in run.stderr


def test_the_command_lists_the_sizes_of_the_proof(tmp_path: Path) -> None:
    text = (
        "g (float[1,3,8,8] x) => (float[1,3,64] y) <int64[3] s = {1, 3, 64}> { y = Reshape(x, s) }"
    )
    run = done(
        graphshare(
            "reshape", write(tmp_path, text), "--shape", "x=n,3,h,w", "-o", tmp_path / "free.onnx"
        )
    )
    lines = run.stderr.decode().splitlines()
    assert lines[:2] == ["input x nx3xhxw", "output y nx3x?"]
    assert not any(line.startswith("proved: ") for line in lines)
    assert (
        "computed at h 41; w 41; h 77, w 77; h 109, w 109; nothing to compare with (--witness MODEL)"
        in lines
    )


def test_limits_hold_for_the_proof(tmp_path: Path) -> None:
    path = write(tmp_path, "g (float[1,4000,5000] x) => (float[1,4000,5000] y) { y = Relu(x) }")
    out = tmp_path / "out.onnx"
    message = refused(
        graphshare("reshape", path, "--dynamic-batch", "--max-memory", "60M", "-o", out)
    )
    assert "60" in message
    assert not out.exists()


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path, "g (float[1,4] x, float[2,4] z) => (float[1,4] y) { y = Relu(x) }")
    for options, message in {
        (): "no size changes",
        (
            "--dynamic-batch",
            "--shape",
            "x=n,4",
        ): "--dynamic-batch and names in --shape cannot be combined",
        ("--shape", "w=n,4"): "--shape 'w' is not an input of the model",
        ("--shape", "x=n"): "--shape lists 1 axis for 'x', which has 2",
        ("--shape", "x=n,*h"): "--shape 'x=n,*h' is not a shape",
        (
            "--dynamic-batch",
            "--fix-batch",
            "2",
        ): "--dynamic-batch and --fix-batch cannot be combined",
        (
            "--shape",
            "x=n,4",
            "--shape",
            "z=n,4",
        ): "the size 'n' is 1 in one place of the file and 2 in another",
    }.items():
        assert message in refused(
            graphshare("reshape", path, *options, "-o", tmp_path / "out.onnx")
        )
    with pytest.raises(UsageError):
        gs.reshape(path)


FIXES = """g (float[n,2,h,w] x, float[n,4] z) => (float[n,2,u,v] y, float[n,4] t) {
    a = Conv<pads = [1, 1, 1, 1], strides = [2, 2]>(x, k) y = Relu(a) t = Neg(z) }"""


def test_numbers_fix_free_sizes_bit_for_bit(tmp_path: Path) -> None:
    path = write(tmp_path, FIXES, {"k": (2, 2, 3, 3)})
    model = gs.reshape(path, shapes={"x": (None, 2, 10, "u")})
    assert model.report.inputs == {"x": ("n", 2, 10, "u"), "z": ("n", 4)}
    model = gs.reshape(path, fix_batch=4, shapes={"x": (None, 2, 10, 7)})
    assert model.report.inputs == {"x": (4, 2, 10, 7), "z": (4, 4)}
    assert model.report.outputs == {"y": (4, 2, 5, 4), "t": (4, 4)}
    assert (model.report.proof.fixed, model.report.proof.outputs, model.report.changed) == (
        2,
        0,
        (),
    )
    gs.save(model, tmp_path / "four.onnx")
    onnx.checker.check_model(str(tmp_path / "four.onnx"), full_check=True)
    feeds = {"x": np.ones((4, 2, 10, 7), "f4"), "z": np.ones((4, 4), "f4")}
    fixed, free = (gs.run(file, feeds=feeds).outputs for file in (tmp_path / "four.onnx", path))
    assert all(np.array_equal(fixed[name], free[name]) for name in free)
    assert not any(
        before != after
        for before, after in zip(
            onnx.load(path).graph.node, onnx.load(tmp_path / "four.onnx").graph.node, strict=True
        )
    )
    with pytest.raises(UsageError, match="the size 'n' gets two numbers, 2 and 3"):
        gs.reshape(path, shapes={"x": (2, 2, None, None), "z": (3, 4)})
    run = done(
        graphshare(
            "reshape",
            path,
            "--fix-batch",
            "4",
            "--shape",
            "x=?,2,10,7",
            "-o",
            tmp_path / "four.onnx",
        )
    )
    assert "proved: 2 outputs equal bit for bit at the fixed sizes\n" in run.stderr.decode()


def test_a_fixed_size_becomes_another_number(tmp_path: Path) -> None:
    path = write(tmp_path, FOLLOWED["a target with a leading 1"][0], {"w": (24, 5)})
    model = gs.reshape(path, fix_batch=4)
    assert (model.report.inputs, model.report.outputs) == ({"x": (4, 4, 6)}, {"y": (4, 5)})
    assert (model.report.proof.batches, model.report.proof.fixed) == ((2, 3, 5), 1)


def test_a_fixed_size_that_is_no_batch_becomes_another_number(tmp_path: Path) -> None:
    text = """g (float[1,3,8,8] x) => (float[1,3,64] y) <int64[3] s = {1, 3, 64}, float n = {8.0}> {
        d = Div(x, n) y = Reshape(d, s) }"""
    run = done(
        graphshare(
            "reshape",
            write(tmp_path, text),
            "--shape",
            "x=1,3,16,24",
            "-o",
            tmp_path / "other.onnx",
        )
    )
    lines = run.stderr.decode().splitlines()
    assert lines[0].startswith(
        "warning: Div 'd': 8 is the size x.2: it may come from the fixed size"
    )
    assert lines[1:3] == ["input x 1x3x16x24", "output y 1x3x384"]
    assert "1 output equal bit for bit at the sizes of the file and the fixed sizes" in lines


def test_the_proof_finds_other_bits_at_fixed_sizes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphshare.verification.free_sizes.list_changed", lambda *_: ["y"])
    with pytest.raises(DisprovedError, match="computes different bits at the fixed sizes: y"):
        gs.reshape(write(tmp_path, FIXES, {"k": (2, 2, 3, 3)}), fix_batch=4)


def test_a_batch_that_is_free_already_is_refused_as_such(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "g (float[m,4] x, float[2,m,8] h) => (float[m,4] y, float[2,m,8] k) { k = Identity(h) y = Relu(x) }",
    )
    with pytest.raises(RefusedError, match="axis 0 of 'x' is free already: m"):
        gs.reshape(path, dynamic_batch=True)
    assert gs.reshape(path, fix_batch=3).report.inputs == {"x": (3, 4), "h": (2, 3, 8)}


def test_numbers_for_open_sizes_are_those_of_the_shapes(tmp_path: Path) -> None:
    """A height is open that only works at 3: the size of a picture that is assumed shows nothing."""
    text = """g (float[1,h,w] x) => (float[1,?,?] y) <int64[3] t = {-1, -3, 1}> {
        k = Neg(t) a = Relu(x) y = Reshape(a, k) }"""
    path = write(tmp_path, text)
    with pytest.raises(RefusedError) as caught:
        gs.reshape(path, dynamic_batch=True)
    assert "with x (1,224,224) no shape is known, because" in caught.value.faults[0].hint
    report = gs.reshape(path, shapes={"x": ("n", 3, None)}).report
    assert report.inputs == {"x": ("n", 3, "w")}
    assert (report.proof.batches, report.proof.fixed) == ((2, 3, 5), 1)


def test_states_of_an_rnn_say_that_a_free_axis_is_a_sequence(tmp_path: Path) -> None:
    text = """g (float[t,4] x, float[1,1,2] h) => (float[t,1,2] y, float[1,1,2] hn)
        <int64[3] s = {-1, 1, 4}, int64[1] one = {1}> {
        r = Reshape(x, s) q, hn = GRU<hidden_size = 2>(r, w, v, , , h) y = Squeeze(q, one) }"""
    path = write(tmp_path, text, {"w": (1, 6, 4), "v": (1, 6, 2)})
    for options in ({"dynamic_batch": True}, {"fix_batch": 4}):
        with pytest.raises(RefusedError, match="different samples in its states and its sequence"):
            gs.reshape(path, **options)


LISTED = {
    "the last place": (
        """g (float[1,6,4] x) => (float[1,4] y) <int64 i = {5}, int64 j = {-1}> {
            a = Gather<axis = 1>(x, i) b = Gather<axis = 1>(x, j) y = Add(a, b) }""",
        ["Gather 'a': 5 is the last place of the size t"],
    ),
    "a mean by a sum": (
        """g (float[1,6,4] x) => (float[1,4] y) <float n = {6.0}, int64[1] a = {1}, float two = {2.0}> {
            b = ReduceSum<keepdims = 0>(x, a) c = Div(b, n) y = Mul(c, two) }""",
        ["Div 'c': 6 is the size t"],
    ),
    "a product with its inverse and its root": (
        """g (float[1,6,4] x) => (float[1,6,4] y) <float r = {0.166666667}, float s = {2.4494897}, float e = {3.0}> {
            a = Mul(x, r) b = Div(a, s) y = Pow(b, e) }""",
        ["Mul 'a': 0.166667 is 1 / the size t", "Div 'b': 2.44949 is the root of the size t"],
    ),
    "an end": (
        """g (float[1,6,4] x) => (float[1,6,4] y) <int64[1] b = {0}, int64[1] e = {6}, int64[1] a = {1}> {
            y = Slice(x, b, e, a) }""",
        ["Slice 'y': 6 is the size t"],
    ),
    "places behind a past": (
        """g (float[1,6,4] x, float[1,2,4] q) => (float[1,8,4] y) <int64[1,2,1] p = {6, 7}, float f = {0.5}> {
            a = Cast<to = 1>(p) b = Mul(a, f) c = Add(q, b) y = Concat<axis = 1>(x, c) }""",
        ["Cast 'a': 6, 7 counts on from the size t"],
    ),
    "a start from the end": (
        """g (float[1,6,4] x, float[1,2,4] q) => (float[1,6,4] y)
            <int64[1] b = {-6}, int64[1] e = {9223372036854775807}, int64[1] a = {1}> {
            c = Concat<axis = 1>(x, q) y = Slice(c, b, e, a) }""",
        ["Slice 'y': -6 goes back by the size t"],
    ),
    "a half": (
        """g (float[1,6,4] x) => (float[1,3,4] y) <int64[1] b = {0}, int64[1] e = {3}, int64[1] a = {1}> {
            y = Slice(x, b, e, a) }""",
        ["Slice 'y': 3 is half of the size t"],
    ),
    "a pad up to a multiple": (
        """g (float[1,6,4] x) => (float[1,8,4] y) <int64[2] p = {0, -2}, int64[1] a = {1}, int64[6] q = {0, 1, 0, 0, 1, 0}> {
            n = Neg(p) b = Pad(x, n, , a) c = Pad(x, q) d = Add(c, c) m = ReduceMean(d, a) y = Add(b, m) }""",
        ["Pad 'b': 2 fills up the size t to a multiple of 4"],
    ),
    "rows of a table behind a past": (
        """g (float[1,6,2] x, float[1,2,2] q) => (float[1,8,2] y)
            <float[2,2] r = {0.1, 0.2, 0.3, 0.4}, float[2] bias = {7, 8}, float[2,2] w = {1, 2, 3, 4}> {
            a = Add(q, r) b = Mul(a, r) c = MatMul(b, w) d = Add(c, bias) y = Concat<axis = 1>(x, d) }""",
        ["Add 'a': its constant has numbers for each place that is joined to the size t"],
    ),
    "a row for one place behind a past of heads": (
        """g (float[1,2,6,2] x, float[1,1,4] q) => (float[1,2,7,2] y)
            <float[1,4] r = {0.1, 0.2, 0.3, 0.4}, float[4] b = {7, 8, 9, 9}, int64[4] s = {1, 1, 2, 2}> {
            a = Add(q, b) c = Add(a, r) h = Reshape(c, s) k = Transpose<perm = [0, 2, 1, 3]>(h)
            y = Concat<axis = -2>(x, k) }""",
        ["Add 'c': its constant has numbers for each place that is joined to the size t"],
    ),
    "equal rows and numbers of other axes": (
        """g (float[1,6,2] x, float[1,2,2] q) => (float[1,8,2] y) <float[2,2] r = {1, 2, 1, 2}, float[2] b = {7, 8}> {
            a = Add(q, r) c = Mul(a, b) y = Concat<axis = 1>(x, c) }""",
        [],
    ),
    "some of the first places": (
        """g (float[1,6,4] x) => (float[1,4,4] y) <int64[1] b = {0}, int64[1] e = {4}, int64[1] a = {1}> {
            y = Slice(x, b, e, a) }""",
        [],
    ),
    "numbers that mean something else": (
        """g (float[1,6,4] x) => (float[1,6,4] y) <float a = {1.702}, float b = {0.5}, float c = {4.0}, float w = {2.0}> {
            d = Mul(x, a) e = Sigmoid(d) f = Mul(e, b) h = Pow(f, w) y = Div(h, c) }""",
        [],
    ),
}


@pytest.mark.parametrize("name", LISTED)
def test_constants_that_may_come_from_the_fixed_size_are_listed(name: str, tmp_path: Path) -> None:
    text, wanted = LISTED[name]
    shape = (1, 2, "t", 2) if "float[1,2,6,2] x" in text else (1, "t", None)
    path = write(tmp_path, text, opset=18 if "Pad(" in text else 17)
    model = gs.reshape(path, shapes={"x": shape})
    assert [note.partition(": it may")[0] for note in model.notes] == wanted
    assert gs.reshape(path, dynamic_batch=True).notes == ()


def test_a_window_over_the_whole_picture_is_listed(tmp_path: Path) -> None:
    text = "g (float[1,3,7,7] x) => (float[1,3,1,1] y) {{ y = AveragePool<kernel_shape = [{0}, {0}]>(x) }}"
    model = gs.reshape(write(tmp_path, text.format(7)), shapes={"x": (1, 3, "h", "w")})
    assert model.notes[0].startswith("AveragePool 'y': its window of 7 is the size h: it may come")
    assert gs.reshape(write(tmp_path, text.format(5)), shapes={"x": (1, 3, "h", "w")}).notes == ()


def test_samples_inside_an_axis_are_described_and_refused_with_strict(tmp_path: Path) -> None:
    text = """g (float[1,2,3,4] x) => (float[24,1] y) <int64[2] s = {-1, 1}> {
        a = Transpose<perm = [2, 3, 0, 1]>(x) y = Reshape(a, s) }"""
    path, note = (
        write(tmp_path, text),
        "output 'y': axis 0 is 12, batch, 2: the samples are not an axis of their own",
    )
    assert gs.reshape(path, dynamic_batch=True).notes == (note,)
    options = ("--dynamic-batch", "-o", tmp_path / "free.onnx")
    assert f"warning: {note}" in done(graphshare("reshape", path, *options)).stderr.decode()
    assert note in refused(graphshare("reshape", path, *options, "--strict"))


@pytest.mark.parametrize(("name", "is_equal"), [("w", True), ("v", False)])
def test_a_witness_is_compared(name: str, is_equal: bool, tmp_path: Path) -> None:
    text = "g (float[1,4,{0}] x) => (float[1,4,{0}] y) <float w = {{2.0}}, float v = {{3.0}}> {{ y = Mul(x, {1}) }}"
    other = tmp_path / "other.onnx"
    onnx.save(parse(text.format(7, name)), other)
    path = write(tmp_path, text.format(6, "w"))
    run = graphshare(
        "reshape", path, "--shape", "x=1,4,t", "--witness", other, "-o", tmp_path / "free.onnx"
    )
    if is_equal:
        lines = done(run).stderr.decode().splitlines()
        assert any(line.startswith("proved: ") for line in lines)
        assert any(line.startswith(f"compared with {other}: EQUAL") for line in lines)
    else:
        assert (
            "other.onnx differs from the model at its sizes: y and y: values differ, max abs"
            in run.stderr.decode()
        )
        assert not (tmp_path / "free.onnx").exists()


_CASES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "ropep_old": (
        {"shapes": {"pk": (1, 2, "p", 8), "pv": (1, 2, "p", 8)}},
        ("4, 5, 6 counts on from the size p",),
    ),
    "lasttok_old": (
        {"shapes": {"x": (1, "t")}},
        ("5 is the last place of the size t", "6 is the size t"),
    ),
    "reshape_swap_mix.mix": ({"dynamic_batch": True}, ("axis 1 is 3, batch, 4",)),
    "scrfd": ({"dynamic_batch": True}, ("axis 0 is h, w, batch, 2",)),
    "att": ({"dynamic_batch": True}, ()),
    "grid": ({"dynamic_batch": True}, ()),
    "einsum_ok.ok": ({"dynamic_batch": True}, ()),
    "gather_idx_shape.ok": ({"dynamic_batch": True}, ()),
}


@pytest.mark.parametrize("name", _CASES)
def test_cases_are_free_with_notes_on_what_may_be_wrong(name: str, cases: Path) -> None:
    options, notes = _CASES[name]
    model = gs.reshape(cases / "sizes" / f"{name}.onnx", **options)
    assert len(model.notes) == len(notes)
    assert all(text in note for text, note in zip(notes, model.notes, strict=True))


def test_cases_that_are_refused(cases: Path) -> None:
    folder = cases / "sizes"
    for name, reason in {
        "unfix_batch_as_number": "computes with the number of samples",
        "state": "axis 0 of 'x' is free already: batch",
    }.items():
        with pytest.raises(RefusedError, match=reason):
            gs.reshape(folder / f"{name}.onnx", dynamic_batch=True)
    shapes = dict.fromkeys(("pk", "pv"), (1, 2, "p", 8))
    with pytest.raises(
        DisprovedError,
        match=r"ropep_truth_p9\.onnx differs from the model at its sizes: .*values differ",
    ):
        gs.reshape(
            folder / "ropep_old.onnx", shapes=shapes, witness=str(folder / "ropep_truth_p9.onnx")
        )


def test_a_model_that_accepts_few_numbers_is_proved_on_values_that_are_given(
    tmp_path: Path,
) -> None:
    """Indices of a table, which drawn floats are not: each sample is made of values among those that are given."""
    text = """g (float[1,3] x) => (float[1,3,2] y) <float[900,2] w> {
        i = Cast<to = 7>(x) y = Gather(w, i) }""".replace(" <float[900,2] w>", "")
    path = write(tmp_path, text, {"w": (900, 2)})
    np.save(tmp_path / "x.npy", np.array([[700, 800, 899]], "f4"))
    options = ("--dynamic-batch", "--feed", f"x={tmp_path / 'x.npy'}", "-o", tmp_path / "free.onnx")
    assert "proved: 1 output" in done(graphshare("reshape", path, *options)).stderr.decode()
    model = gs.reshape(
        path, dynamic_batch=True, feeds={"x": np.array([[7, 8, 9]], "f4")}, rounds=3, seed=5
    )
    assert model.report.proof.batches == (2, 3, 7)
    sets = [{"x": np.full((1, 3), number, "f4")} for number in range(7)]
    assert gs.reshape(path, dynamic_batch=True, sets=sets).report.proof.batches == (2, 3, 7)
    with pytest.raises(gs.GraphshareError):
        gs.reshape(path, dynamic_batch=True, feeds={"x": np.array([[7, 8, 2000]], "f4")})


def test_the_command_of_earlier_versions_names_its_successor() -> None:
    text = refused(graphshare("unfix", "x.onnx", "--dynamic-batch"))
    assert "there is no command 'unfix' any more\n  hint: it is `graphshare reshape` now" in text


def test_mxnet_graphs_are_refused_with_a_hint() -> None:
    with pytest.raises(
        RefusedError, match="is for ONNX models, and this is an MXNet graph"
    ) as caught:
        gs.reshape("fixtures/lenet-symbol.json", dynamic_batch=True)
    assert "`gs.export(GRAPH, shapes={'data': ('n', 3, 'h', 'w')})`" in caught.value.faults[0].hint


def draw_weights(path: Path) -> onnx.ModelProto:
    """Return a light model with weights that differ: its own are all one number."""
    model = onnx.load(path)
    graph, rng = model.graph, np.random.default_rng(0)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    for node in [node for node in graph.node if node.op_type == "ConstantOfShape"]:
        shape = shapes[node.input[0]]
        spread = 0.3 * (2 / np.prod(shape[1:])) ** 0.5 if len(shape) > 1 else 0
        array = (
            rng.standard_normal(shape) * spread if spread else rng.uniform(0.5, 1, shape)
        ).astype("f4")
        graph.initializer.append(numpy_helper.from_array(array, node.output[0]))
        graph.input.append(helper.make_tensor_value_info(node.output[0], 1, array.shape))
        graph.node.remove(node)
    return model


LIGHT = [
    "squeezenet",
    "shufflenet",
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "vgg19",
    "zfnet512",
]


@pytest.mark.parametrize(
    "name", [LIGHT[0], *(pytest.param(name, marks=pytest.mark.large) for name in LIGHT[1:])]
)
def test_light_models(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(draw_weights(WHEEL / "light" / f"light_{name}.onnx"), path)
    model = gs.reshape(path, dynamic_batch=True)
    assert model.report.proof.batches == (2, 3, 5)
    assert model.report.proof.tells_apart
    assert all("batch" in sizes for sizes in model.report.outputs.values())


def test_rules_are_of_operators_that_onnx_has() -> None:
    assert {op for op in axis_rules._RULES if not onnx.defs.has(op)} <= {
        "Swish",
        "RMSNormalization",
    }
    assert rewrite._RECURRENT == ("GRU", "LSTM", "RNN")
